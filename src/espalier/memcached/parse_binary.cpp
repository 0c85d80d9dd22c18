#include <array>
#include <cstddef>
#include <cstdint>

#include "espalier/memcached/parse.hpp"

// The binary protocol: a header of 24 bytes, and a body of extras, a key and a value. Numbers are big-endian.

namespace espalier::memcached {
namespace {

/// A body above this is no command.
constexpr std::size_t longest_body = std::size_t{1} << 30U;
/// The name and the password of a user.
constexpr std::size_t longest_log_in = 16'384;

template <class Number>
Number number_at(std::string_view text, std::size_t at) noexcept {
  Number n = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i)
    n = static_cast<Number>(n << 8U | static_cast<unsigned char>(text[at + i]));
  return n;
}

/// What a command's body has.
struct shape {
  binary_verb what = binary_verb::refused;
  bool quiet = false;
  std::uint8_t extras = 0;
  bool may_lack_extras = false;
  enum class part : std::uint8_t { absent, present, optional } key = part::absent;
  bool has_value = false;
};

constexpr std::size_t opcodes = 0x25;

consteval std::array<shape, opcodes> make_shapes() {
  using enum binary_verb;
  using enum shape::part;
  std::array<shape, opcodes> all{};
  const auto put_loud = [&all](shape one) { all[static_cast<std::size_t>(one.what)] = one; };
  const auto put_both = [&](shape one, std::size_t quiet_opcode) {
    put_loud(one);
    one.quiet = true;
    all[quiet_opcode] = one;
  };
  put_both({.what = get, .key = present}, 0x09);
  put_both({.what = get_with_key, .key = present}, 0x0D);
  put_both({.what = set, .extras = 8, .key = present, .has_value = true}, 0x11);
  put_both({.what = binary_verb::add, .extras = 8, .key = present, .has_value = true}, 0x12);
  put_both({.what = replace, .extras = 8, .key = present, .has_value = true}, 0x13);
  put_both({.what = erase, .key = present}, 0x14);
  put_both({.what = increment, .extras = 20, .key = present}, 0x15);
  put_both({.what = decrement, .extras = 20, .key = present}, 0x16);
  put_both({.what = quit}, 0x17);
  put_both({.what = flush, .extras = 4, .may_lack_extras = true}, 0x18);
  put_both({.what = append, .key = present, .has_value = true}, 0x19);
  put_both({.what = prepend, .key = present, .has_value = true}, 0x1A);
  put_both({.what = get_and_touch, .extras = 4, .key = present}, 0x1E);
  put_both({.what = get_and_touch_with_key, .extras = 4, .key = present}, 0x24);
  put_loud({.what = touch, .extras = 4, .key = present});
  put_loud({.what = nothing});
  put_loud({.what = version});
  put_loud({.what = stat, .key = optional});
  put_loud({.what = list_mechanisms});
  put_loud({.what = log_in, .key = present, .has_value = true});
  put_loud({.what = log_in_step, .key = present, .has_value = true});
  return all;
}
constexpr std::array<shape, opcodes> shapes = make_shapes();

store_mode mode_of(binary_verb what, bool compares) noexcept {
  switch (what) {
    case binary_verb::append:
      return store_mode::append;
    case binary_verb::prepend:
      return store_mode::prepend;
    default:
      if (compares) return store_mode::compare;
      return what == binary_verb::add       ? store_mode::add
             : what == binary_verb::replace ? store_mode::replace
                                            : store_mode::set;
  }
}

constexpr bool is_log_in(binary_verb what) noexcept {
  return what == binary_verb::log_in || what == binary_verb::log_in_step;
}
constexpr bool needs_no_user(binary_verb what) noexcept {
  return what == binary_verb::version || what == binary_verb::list_mechanisms || is_log_in(what);
}

class binary_parser {
 public:
  binary_parser(std::string_view input, command& to, const parse_context& context,
                incomplete_command* first) noexcept
      : input_(input), c_(to), context_(context), first_(first) {}

  std::size_t parse() {
    if (input_.size() < binary_header_bytes) {
      if (first_ != nullptr) first_->wanted = binary_header_bytes;
      return 0;
    }
    begin();
    if (input_.front() != '\x80') {
      c_.what = verb::hang_up;
      return input_.size();
    }
    const std::size_t key_bytes = number_at<std::uint16_t>(input_, 2);
    const auto extras = static_cast<std::uint8_t>(input_[4]);
    const std::size_t body = number_at<std::uint32_t>(input_, 8);
    // Where the next command begins is not known, or not worth it.
    if (key_bytes + extras > body) return hang_up_after(binary_status::unknown);
    if (body > longest_body) return hang_up_after(binary_status::invalid);
    const shape known = c_.opcode < opcodes ? shapes[c_.opcode] : shape{};
    if (context_.asks_for_user && !needs_no_user(known.what))
      return hang_up_after(binary_status::not_allowed);
    if (key_bytes > longest_key) return hang_up_after(binary_status::invalid);
    if (known.what == binary_verb::refused) return skip(body, binary_status::unknown);
    const std::size_t value_bytes = body - key_bytes - extras;
    const bool has_extras = extras == known.extras || (known.may_lack_extras && extras == 0);
    const bool fits_key =
        known.key == shape::part::optional || (key_bytes != 0) == (known.key == shape::part::present);
    if (!has_extras || !fits_key || (value_bytes != 0 && !known.has_value))
      return hang_up_after(binary_status::invalid);

    const std::size_t line = binary_header_bytes + extras + key_bytes;
    if (input_.size() < line) return wants(line);
    c_.request = known.what;
    c_.quiet = known.quiet;
    c_.key = input_.substr(binary_header_bytes + extras, key_bytes);
    c_.is_last = known.key != shape::part::present || is_log_in(known.what);
    read_extras(extras);
    return known.has_value ? value(line, value_bytes) : line;
  }

 private:
  void begin() noexcept {
    c_.what = verb::binary;
    c_.request = binary_verb::refused;
    c_.status = binary_status::done;
    c_.quiet = c_.is_last = c_.drops_old = c_.counts_size = c_.closes = false;
    c_.skipped = c_.keys = 0;
    c_.key = {};
    c_.value = {};
    c_.opcode = static_cast<std::uint8_t>(input_[1]);
    c_.opaque = input_.substr(12, 4);
    c_.line = "a binary command";
    c_.version = number_at<std::uint64_t>(input_, 16);
    c_.new_version = 0;
    c_.given = c_.version != 0 ? command::bit('C') : 0;
    c_.shown_flags = 0;
  }

  std::size_t wants(std::size_t bytes) noexcept {
    if (first_ != nullptr) first_->wanted = bytes;
    return 0;
  }
  std::size_t hang_up_after(binary_status status) noexcept {
    c_.status = status;
    c_.closes = c_.is_last = true;
    return input_.size();
  }
  /// Refused, but the next command can be found.
  std::size_t skip(std::size_t body, binary_status status) noexcept {
    c_.request = binary_verb::refused;
    c_.status = status;
    const std::size_t whole = binary_header_bytes + body;
    if (input_.size() >= whole) return whole;
    c_.skipped = whole - input_.size();
    c_.is_last = true;
    return input_.size();
  }

  [[nodiscard]] std::uint32_t end_at(std::size_t at) const noexcept {
    return context_.clock.end_after(number_at<std::uint32_t>(input_, at));
  }

  void read_extras(std::uint8_t extras) noexcept {
    switch (c_.request) {
      case binary_verb::set:
      case binary_verb::add:
      case binary_verb::replace:
        c_.flags = number_at<std::uint32_t>(input_, binary_header_bytes);
        c_.end = end_at(binary_header_bytes + 4);
        break;
      case binary_verb::append:
      case binary_verb::prepend:
        c_.flags = 0;
        c_.end = second_clock::never;
        break;
      case binary_verb::increment:
      case binary_verb::decrement: {
        constexpr std::uint32_t makes_none = 0xFFFF'FFFFU;
        c_.decreases = c_.request == binary_verb::decrement;
        c_.delta = number_at<std::uint64_t>(input_, binary_header_bytes);
        c_.initial = number_at<std::uint64_t>(input_, binary_header_bytes + 8);
        if (number_at<std::uint32_t>(input_, binary_header_bytes + 16) == makes_none) break;
        c_.end_if_new = end_at(binary_header_bytes + 16);
        c_.given |= command::bit('N');
        c_.shown[c_.shown_flags++] = 'N';
        break;
      }
      case binary_verb::touch:
      case binary_verb::get_and_touch:
      case binary_verb::get_and_touch_with_key:
        c_.end = end_at(binary_header_bytes);
        break;
      case binary_verb::flush:
        c_.delta = extras == 0 ? 0 : number_at<std::uint32_t>(input_, binary_header_bytes);
        break;
      default:
        break;
    }
  }

  std::size_t value(std::size_t line, std::size_t bytes) noexcept {
    const std::size_t whole = line + bytes;
    const bool is_store = !is_log_in(c_.request);
    c_.mode = mode_of(c_.request, c_.version != 0);
    if (!is_store && bytes > longest_log_in) return skip(whole - binary_header_bytes, binary_status::invalid);
    if (is_store && c_.key.size() + bytes > context_.largest_entry) {
      c_.drops_old = c_.request == binary_verb::set;
      c_.counts_size = true;
      return skip(whole - binary_header_bytes, binary_status::too_large);
    }
    if (first_ != nullptr && first_->value != nullptr) {
      c_.value = {first_->value, bytes};
      return line;
    }
    if (input_.size() < whole) {
      if (first_ == nullptr) return 0;
      first_->lacks_value = is_store && c_.mode != store_mode::append && c_.mode != store_mode::prepend;
      first_->line_bytes = line;
      first_->key_bytes = c_.key.size();
      first_->value_bytes = bytes;
      return wants(whole);
    }
    c_.value = input_.substr(line, bytes);
    return whole;
  }

  std::string_view input_;
  command& c_;
  const parse_context& context_;
  incomplete_command* first_;
};

}  // namespace

std::size_t parse_binary(std::string_view input, command& to, const parse_context& context,
                         incomplete_command* first) {
  return binary_parser(input, to, context, first).parse();
}

}  // namespace espalier::memcached
