#include "espalier/memcached/parse.hpp"

#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

#include "espalier/memcached/base64.hpp"

namespace espalier::memcached {

namespace {

constexpr std::size_t longest_look_up = std::size_t{1} << 20U;

constexpr std::string_view bad_erase = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
constexpr std::string_view bad_token = "CLIENT_ERROR bad token in command line format";
constexpr std::string_view bad_chunk = "CLIENT_ERROR bad data chunk";
constexpr std::string_view too_large = "SERVER_ERROR object too large for cache";
constexpr std::string_view too_many_flags = "CLIENT_ERROR options flags are too long";
constexpr std::string_view long_opaque = "CLIENT_ERROR opaque token too long";
constexpr std::size_t longest_opaque = 32;

/// Whether the words begin with what may be a flag, or with a digit. memcached looks at this before all else, in the first
/// words of a line.
bool begin_as_flags(words line, unsigned words_before) noexcept {
  constexpr unsigned looked_at = 23;
  for (std::string_view word = line.next(); !word.empty() && words_before < looked_at; word = line.next()) {
    const char flag = word.front();
    if ((flag < 'A' || flag > 'z') && (flag < '0' || flag > '9')) return false;
    ++words_before;
  }
  return true;
}

/// Flags of meta commands, up to the first error that ends the line, or the last other error. Empty: there is none.
std::string_view read_flags(words& line, unsigned words_before, command& c, const second_clock& clock) {
  constexpr unsigned most_words = 20;
  const auto ended_by = [&](std::string_view error) {
    while (!line.next().empty()) ++words_before;
    return words_before > most_words ? too_many_flags : error;
  };
  c.given = 0;
  c.shown_flags = 0;
  c.flags = 0;
  c.end = second_clock::never;
  c.recache = 0;
  c.version = c.new_version = c.initial = 0;
  c.delta = 1;
  c.given_mode = 0;
  c.opaque = {};
  c.key_text = c.key;
  if (c.key.size() > longest_key) return bad_format;
  std::string_view wrong;
  const auto moment = [&](std::string_view argument, std::uint32_t& to) {
    std::int32_t number = 0;
    if (!read_number(argument, number)) {
      wrong = bad_token;
      return;
    }
    to = clock.end_after(number);
  };
  for (std::string_view word = line.next(); !word.empty(); word = line.next()) {
    if (++words_before > most_words) return too_many_flags;
    const char flag = word.front();
    const std::string_view argument = word.substr(1);
    if (flag < 'A' || flag > 'z') return ended_by("CLIENT_ERROR invalid flag");
    if (c.has(flag)) return ended_by("CLIENT_ERROR duplicate flag");
    c.given |= command::bit(flag);
    switch (flag) {
      case 'b': {
        const std::size_t decoded = decode_base64(c.key_text, c.decoded.data());
        if (decoded == 0) wrong = "CLIENT_ERROR error decoding key";
        c.key = {c.decoded.data(), decoded};
        continue;
      }
      case 'N':
        moment(argument, c.end_if_new);
        break;
      case 'T':
        moment(argument, c.end);
        break;
      case 'R':
        moment(argument, c.recache);
        if (c.recache == second_clock::never) c.recache = 0;
        break;
      case 'O':
        c.opaque = word;
        break;
      case 'F':
        if (!read_number(argument, c.flags)) wrong = wrong.empty() ? bad_format : wrong;
        continue;
      case 'C':
        if (!read_number(argument, c.version)) wrong = bad_token;
        continue;
      case 'E':
        if (!read_number(argument, c.new_version)) wrong = bad_token;
        continue;
      case 'M':
        c.given_mode = argument.empty() ? ' ' : argument.front();
        continue;
      case 'J':
        if (!read_number(argument, c.initial)) wrong = "CLIENT_ERROR invalid numeric initial value";
        continue;
      case 'D':
        if (!read_number(argument, c.delta)) wrong = "CLIENT_ERROR invalid numeric delta value";
        continue;
      default:
        if ((command::bits("PLvuqxI") & command::bit(flag)) != 0) continue;
        if ((command::bits("kstcflh") & command::bit(flag)) == 0)
          return ended_by("CLIENT_ERROR invalid flag");
    }
    c.shown[c.shown_flags++] = flag;
  }
  c.quiet = c.has('q');
  return wrong;
}

/// Flags of `me`, which takes all, and obeys one. False: the line is refused.
bool read_debug_flags(words line, command& c) noexcept {
  c.given = 0;
  c.opaque = {};
  c.key_text = c.key;
  if (c.key.size() > longest_key || !begin_as_flags(line, 2)) return false;
  for (std::string_view word = line.next(); !word.empty(); word = line.next()) {
    if (word == "b") c.given = command::bit('b');
  }
  if (!c.has('b')) return true;
  c.key = {c.decoded.data(), decode_base64(c.key_text, c.decoded.data())};
  return !c.key.empty();
}

/// The mode of `ms`, from its flags; false if there is no such mode.
bool read_store_mode(command& c) noexcept {
  using enum store_mode;
  constexpr std::string_view letters = "SEAPR";
  constexpr std::array modes{set, add, append, prepend, replace};
  const std::size_t which = c.given_mode == 0 ? 0 : letters.find(c.given_mode);
  if (which == std::string_view::npos) return false;
  c.mode = c.has('C') && (modes[which] == set || modes[which] == replace) ? compare : modes[which];
  return true;
}

/// Whether `ma` decreases, from its flags; false if there is no such mode.
bool read_direction(command& c) noexcept {
  c.decreases = c.given_mode == 'D' || c.given_mode == '-';
  return c.decreases || c.given_mode == 0 || c.given_mode == 'I' || c.given_mode == '+';
}

/// A number of a classic store, as memcached reads it: 64 bits, of which the low 32 count. libmemcached sends an end of -1 as
/// 4294967295.
template <class Number>
bool read_cut_number(std::string_view word, Number& number) noexcept {
  static_assert(sizeof(Number) == sizeof(std::uint32_t));
  if (word.size() > 1 && word.front() == '+' && word[1] != '-') word.remove_prefix(1);
  std::conditional_t<std::is_signed_v<Number>, std::int64_t, std::uint64_t> whole{};
  if (!read_number(word, whole)) return false;
  number = static_cast<Number>(whole);
  return true;
}

/// The bytes of a value, from a command line.
bool read_value_bytes(std::string_view word, std::size_t& bytes) noexcept {
  std::int32_t number = 0;
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max() - 2;
  if (!read_number(word, number) || number < 0 || number > most) return false;
  bytes = static_cast<std::size_t>(number);
  return true;
}

/// The size of a name and its letters; 0 if it has more than any command that is named here.
constexpr std::uint64_t tag(std::string_view name) noexcept {
  std::uint64_t t = name.size();
  if (t > 7) return 0;
  for (const char c : name) t = t << 8U | static_cast<unsigned char>(c);
  return t;
}

bool looks_up(std::string_view input) noexcept {
  return input.starts_with("get ") || input.starts_with("gets ") || input.starts_with("gat ") ||
         input.starts_with("gats ");
}

bool has_no_reply(std::string_view line) noexcept {
  while (line.ends_with(' ')) line.remove_suffix(1);
  return line.ends_with(" noreply");
}

/// Reads one command.
class parser {
 public:
  /// `first` is null while commands before this one have not been executed.
  parser(std::string_view input, command& to, const parse_context& context,
         std::vector<std::string_view>& keys, incomplete_command* first) noexcept
      : input_(input), c_(to), context_(context), keys_(keys), first_(first) {}

  /// Returns its size in the input; 0: it is not complete.
  std::size_t parse() {
    const std::size_t scanned = first_ != nullptr ? first_->scanned : 0;
    if (input_.size() <= scanned) return 0;
    c_.quiet = c_.is_last = c_.drops_old = c_.counts_size = false;
    c_.skipped = c_.keys = 0;
    c_.key = {};
    c_.value = {};

    const char* const begin = input_.data();
    const auto* const newline =
        static_cast<const char*>(std::memchr(begin + scanned, '\n', input_.size() - scanned));
    const std::size_t length = newline == nullptr ? input_.size() : static_cast<std::size_t>(newline - begin);
    if (length > longest_line && (!looks_up(input_) || length > longest_look_up)) {
      c_.what = verb::hang_up;
      c_.is_last = true;
      return input_.size();
    }
    if (newline == nullptr) {
      if (first_ != nullptr) first_->scanned = input_.size();
      return 0;
    }
    header_ = length + 1;
    c_.line = input_.substr(0, length);
    if (c_.line.ends_with('\r')) c_.line.remove_suffix(1);
    const std::string_view name = c_.line.substr(0, c_.line.find(' '));
    line_ = words(c_.line.substr(name.size()));
    return by_name(name);
  }

 private:
  std::size_t by_name(std::string_view name) {
    switch (tag(name)) {
      case tag("mg"):
        return meta(verb::meta_look_up);
      case tag("ms"):
        return meta(verb::meta_store);
      case tag("md"):
        return meta(verb::meta_erase);
      case tag("ma"):
        return meta(verb::meta_calculate);
      case tag("me"):
        return meta_debug();
      case tag("mn"):
        c_.what = verb::meta_nothing;
        return header_;
      case tag("get"):
        return look_up(false, false);
      case tag("gets"):
        return look_up(true, false);
      case tag("gat"):
        return look_up(false, true);
      case tag("gats"):
        return look_up(true, true);
      case tag("set"):
        return store(store_mode::set);
      case tag("add"):
        return store(store_mode::add);
      case tag("cas"):
        return store(store_mode::compare);
      case tag("incr"):
        return calculate(false);
      case tag("decr"):
        return calculate(true);
      case tag("replace"):
        return store(store_mode::replace);
      case tag("append"):
        return store(store_mode::append);
      case tag("prepend"):
        return store(store_mode::prepend);
      case tag("touch"):
        return touch();
      case tag("delete"):
        return erase();
      default:
        c_.what = verb::other;
        c_.is_last = true;
        return header_;
    }
  }

  std::size_t refused(std::string_view with) {
    c_.refuse(with);
    return header_;
  }

  /// The value after the line. That of a refused command is skipped.
  std::size_t value(std::size_t bytes, bool is_meta) {
    const std::size_t whole = header_ + bytes + 2;
    if (c_.what != verb::refused && c_.key.size() + bytes > context_.largest_entry) {
      c_.refuse(too_large);
      c_.counts_size = true;
      c_.drops_old = c_.mode == store_mode::set || is_meta;
    }
    if (is_meta && c_.what != verb::refused) check_opaque();
    if (c_.what == verb::refused) {
      if (input_.size() >= whole) return whole;
      c_.skipped = whole - input_.size();
      c_.is_last = true;
      return input_.size();
    }
    if (first_ != nullptr && first_->value != nullptr) {
      c_.value = {first_->value, bytes};
      if (!first_->value_ends_well) c_.refuse(bad_chunk);
      return header_;
    }
    if (input_.size() < whole) {
      if (first_ == nullptr) return 0;
      first_->wanted = whole;
      first_->lacks_value = c_.mode != store_mode::append && c_.mode != store_mode::prepend;
      first_->line_bytes = header_;
      first_->key_bytes = c_.key.size();
      first_->value_bytes = bytes;
      return 0;
    }
    c_.value = input_.substr(header_, bytes);
    if (input_[whole - 2] != '\r' || input_[whole - 1] != '\n') c_.refuse(bad_chunk);
    return whole;
  }

  std::size_t store(store_mode mode) {
    c_.what = verb::store;
    c_.mode = mode;
    c_.key = line_.next();
    const std::string_view flags = line_.next();
    const std::string_view end = line_.next();
    std::size_t bytes = 0;
    if (!read_value_bytes(line_.next(), bytes)) return refused(bad_format);
    c_.quiet = has_no_reply(c_.line);
    c_.given = 0;
    c_.new_version = 0;
    std::int32_t delay = 0;
    if (c_.key.size() > longest_key || !read_cut_number(flags, c_.flags) || !read_cut_number(end, delay) ||
        (mode == store_mode::compare && !read_number(line_.next(), c_.version)))
      c_.refuse(bad_format);
    c_.end = context_.clock.end_after(delay);
    return value(bytes, false);
  }

  std::size_t look_up(bool shows_version, bool touches) {
    c_.what = verb::look_up;
    c_.shows_version = shows_version;
    c_.touches = touches;
    const std::string_view end = touches ? line_.next() : std::string_view();
    c_.key = line_.next();
    if (c_.key.empty()) return refused(bad_format);
    if (touches) {
      std::int32_t delay = 0;
      if (!read_number(end, delay)) return refused(bad_end);
      c_.end = context_.clock.end_after(delay);
    }
    bool fits = c_.key.size() <= longest_key;
    if (!line_.rest().empty()) {
      c_.first_key = keys_.size();
      for (std::string_view key = c_.key; fits && !key.empty(); key = line_.next()) {
        fits = key.size() <= longest_key;
        keys_.push_back(key);
      }
      c_.keys = keys_.size() - c_.first_key;
    }
    return fits ? header_ : refused(bad_format);
  }

  /// A classic command with a key, and its argument if it has one.
  std::string_view with_key(verb what, bool needs_argument) {
    c_.what = what;
    c_.key = line_.next();
    const std::string_view argument = line_.next();
    if (c_.key.empty() || (needs_argument && argument.empty())) {
      c_.refuse(bad_format);
      return {};
    }
    c_.quiet = has_no_reply(c_.line);
    if (c_.key.size() > longest_key) c_.refuse(bad_format);
    return argument;
  }

  std::size_t calculate(bool decreases) {
    const std::string_view delta = with_key(verb::calculate, true);
    c_.decreases = decreases;
    c_.given = 0;
    c_.new_version = 0;
    if (c_.what != verb::refused && !read_number(delta, c_.delta))
      c_.refuse("CLIENT_ERROR invalid numeric delta argument");
    return header_;
  }

  std::size_t touch() {
    const std::string_view end = with_key(verb::touch, true);
    std::int32_t delay = 0;
    if (c_.what != verb::refused && !read_number(end, delay)) c_.refuse(bad_end);
    c_.end = context_.clock.end_after(delay);
    return header_;
  }

  /// A zero may precede `noreply`: once it was a time.
  std::size_t erase() {
    const std::string_view argument = with_key(verb::erase, false);
    const std::string_view last = argument == "0" ? line_.next() : argument;
    if (!last.empty() && (last != "noreply" || !line_.next().empty())) c_.refuse(bad_erase);
    return header_;
  }

  std::size_t meta(verb what) {
    c_.what = what;
    c_.key = line_.next();
    if (c_.key.empty()) return refused(bad_format);
    const bool has_value = what == verb::meta_store;
    std::size_t bytes = 0;
    if (has_value && !read_value_bytes(line_.next(), bytes)) return refused(bad_format);
    const words flags = line_;
    const unsigned words_before = has_value ? 3 : 2;
    const std::string_view wrong = read_flags(line_, words_before, c_, context_.clock);
    if (!wrong.empty())
      c_.refuse(!begin_as_flags(flags, words_before) ? bad_format
                : what == verb::meta_calculate       ? "CLIENT_ERROR invalid or duplicate flag"
                                                     : wrong);
    else if (has_value && !read_store_mode(c_))
      c_.refuse("CLIENT_ERROR invalid mode for ms M token");
    else if (what == verb::meta_calculate && !read_direction(c_))
      c_.refuse("CLIENT_ERROR invalid mode for ma M token");
    else if (!has_value)
      check_opaque();
    const std::size_t size = has_value ? value(bytes, true) : header_;
    if (c_.what == verb::refused) c_.quiet = false;
    return size;
  }

  std::size_t meta_debug() {
    c_.what = verb::meta_debug;
    c_.key = line_.next();
    if (c_.key.empty() || !read_debug_flags(line_, c_)) return refused(bad_format);
    return header_;
  }

  void check_opaque() noexcept {
    if (c_.opaque.size() > longest_opaque) c_.refuse(long_opaque);
  }

  std::string_view input_;
  command& c_;
  const parse_context& context_;
  std::vector<std::string_view>& keys_;
  incomplete_command* first_;
  std::size_t header_ = 0;
  words line_{{}};
};

/// parse(input, command, first) reads one; 0: it is not complete. `first` is null but for the first one.
template <class Parse>
std::size_t parse_all(std::string_view input, std::span<command> to, incomplete_command& first, Parse parse) {
  std::size_t count = 0;
  while (count < to.size() && !input.empty()) {
    command& c = to[count];
    c.size = parse(input, c, count == 0 ? &first : nullptr);
    if (c.size == 0) break;
    input.remove_prefix(c.size);
    ++count;
    if (c.is_last) break;
  }
  return count;
}

}  // namespace

std::size_t parse_commands(std::string_view input, std::span<command> to, const parse_context& context,
                           std::vector<std::string_view>& keys, incomplete_command& first) {
  if (context.is_binary) [[unlikely]]
    return parse_all(input, to, first, [&](std::string_view rest, command& c, incomplete_command* of_first) {
      return parse_binary(rest, c, context, of_first);
    });
  return parse_all(input, to, first, [&](std::string_view rest, command& c, incomplete_command* of_first) {
    return parser(rest, c, context, keys, of_first).parse();
  });
}

}  // namespace espalier::memcached
