#include "espalier/memcached/execute.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "espalier/memcached/base64.hpp"

namespace espalier::memcached {
namespace {

/// Whether this look-up wins the right to store the entry again.
bool wins(const command& c, const cache_entry& e) noexcept {
  if (e.claimed) return false;
  std::uint32_t end = e.expires;
  for (std::size_t i = 0; i < c.shown_flags; ++i) {
    if (c.shown[i] == 'T') end = c.end;
    if (c.shown[i] == 'R' && end != cache_entry::never && end < c.recache) return true;
  }
  return e.stale;
}

/// Whether a command looks at entries by their keys.
bool names_entries(const command& c) noexcept {
  using enum binary_verb;
  if (c.key.empty() || c.what == verb::refused || c.what == verb::other) return false;
  return c.what != verb::binary ||
         (c.request != refused && c.request != stat && c.request != log_in && c.request != log_in_step);
}

/// Whether a command is one of its kind, in either protocol, and no meta command.
bool is_classic(const command& c, verb what, binary_verb of_binary) noexcept {
  using enum binary_verb;
  if (c.what != verb::binary) return c.what == what;
  switch (c.request) {
    case get:
    case get_with_key:
    case touch:
    case get_and_touch:
    case get_and_touch_with_key:
      return of_binary == get;
    case set:
    case add:
    case replace:
    case append:
    case prepend:
      return of_binary == set;
    default:
      return c.request == of_binary;
  }
}

}  // namespace

// Execution begins here, and so do the commands that find an entry: get, gets, gat, gats, touch, mg and me.

static_assert(longest_key == byte_cache::largest_key && second_clock::never == cache_entry::never);

void executor::run(const command& c, const std::vector<std::string_view>& keys, std::string_view input) {
  switch (c.what) {
    case verb::look_up:
      if (c.keys != 0) return look_up_many(c, std::span(keys).subspan(c.first_key, c.keys), input);
      if (look_up(key_of(c), c.shows_version, c.touches, c.end)) out_ << "END\r\n";
      return;
    case verb::store:
      return classic_store(c);
    case verb::calculate:
    case verb::meta_calculate:
      return calculate(c);
    case verb::touch:
      return touch(c);
    case verb::erase:
      return erase(c);
    case verb::meta_look_up:
      return meta_look_up(c);
    case verb::meta_store:
      return meta_store(c);
    case verb::meta_erase:
      return meta_erase(c);
    case verb::meta_nothing:
      out_ << "MN\r\n";
      return;
    case verb::meta_debug:
      return meta_debug(c);
    case verb::other:
      return administer(c);
    case verb::refused:
      return refuse(c);
    case verb::binary:
      return run_binary(c);
    case verb::hang_up:
      turn_.next = step::close;
  }
}

void executor::observe(const command& c, const std::vector<std::string_view>& keys) {
  const event_kinds wanted = service_.watched().wanted();
  if (wanted.has(event::command) && service_.log) service_.log(turn_.session, c.line);
  if (!(wanted.has(event::fetch) || wanted.has(event::prefix)) || !names_entries(c)) return;
  if (c.keys == 0) return observe_key(c, key_of(c));
  for (const std::string_view key : std::span(keys).subspan(c.first_key, c.keys))
    observe_key(c, byte_cache::hashed(key));
}

void executor::observe_key(const command& c, const byte_cache::hashed_key& key) {
  using enum statistics::prefix_count;
  std::size_t bytes = 0;
  const bool found =
      cache_.get(key, [&bytes](const cache_entry& e) { bytes = e.value.size(); }, byte_cache::access::peek);
  const event_kinds wanted = service_.watched().wanted();
  if (wanted.has(event::fetch)) service_.watched().fetched({key.key, turn_.session, bytes}, found);
  if (!wanted.has(event::prefix)) return;
  if (is_classic(c, verb::look_up, binary_verb::get)) {
    count_prefix(key.key, get);
    if (found) count_prefix(key.key, hit);
  }
  if (is_classic(c, verb::store, binary_verb::set)) count_prefix(key.key, set);
  if (is_classic(c, verb::erase, binary_verb::erase)) count_prefix(key.key, statistics::prefix_count::erase);
}

/// False: the look-up has ended with an error.
bool executor::look_up(const byte_cache::hashed_key& key, bool shows_version, bool touches,
                       std::uint32_t end) {
  const look_up_result r =
      look_up_by(key, touches, end, [&](const cache_entry& e) { put_value(key.key, e, shows_version); });
  if (!r.fits) out_ << no_memory_for_end << "\r\n";
  return r.fits;
}

/// Keys of one look-up, group by group, until the output is large or the look-up fails. Returns the number of keys that were
/// looked up: all, if the reply is complete.
std::size_t executor::look_up_some(std::span<const std::string_view> keys, bool shows_version, bool touches,
                                   std::uint32_t end) {
  std::array<byte_cache::hashed_key, group> some;
  std::size_t done = 0;
  while (done < keys.size() && !is_much()) {
    const std::size_t n = std::min(keys.size() - done, some.size());
    for (std::size_t i = 0; i < n; ++i) {
      some[i] = byte_cache::hashed(keys[done + i]);
      cache_.request(some[i], 0);
    }
    for (std::size_t i = 0; i < n; ++i) cache_.request(some[i], 1);
    for (std::size_t i = 0; i < n && !is_much(); ++i, ++done)
      if (!look_up(some[i], shows_version, touches, end)) return keys.size();
  }
  if (done == keys.size()) out_ << "END\r\n";
  return done;
}

void executor::look_up_many(const command& c, std::span<const std::string_view> keys,
                            std::string_view input) {
  const std::size_t done = look_up_some(keys, c.shows_version, c.touches, c.end);
  if (done == keys.size()) return;
  turn_.unfinished = turn::rest::look_up;
  turn_.resume_at = static_cast<std::size_t>(keys[done].data() - input.data());
  turn_.shows_version = c.shows_version;
  turn_.touches = c.touches;
  turn_.end = c.end;
}

std::size_t executor::go_on(std::string_view input, std::vector<std::string_view>& keys) {
  if (turn_.unfinished == turn::rest::dump) {
    if (show_entries(service_, out_, turn_.dumps_as, turn_.dump_place)) {
      turn_.next = out_.empty() ? step::go_on : step::send;
      return 0;
    }
    turn_.unfinished = turn::rest::none;
    return 1;  // the end of its line
  }
  const std::size_t end = input.find('\n');
  std::string_view text = input.substr(0, end);
  if (text.ends_with('\r')) text.remove_suffix(1);
  words line(text);
  for (std::string_view key = line.next(); !key.empty(); key = line.next()) keys.push_back(key);
  const std::size_t done = look_up_some(keys, turn_.shows_version, turn_.touches, turn_.end);
  if (done < keys.size()) {
    turn_.next = step::send;
    return static_cast<std::size_t>(keys[done].data() - input.data());
  }
  turn_.unfinished = turn::rest::none;
  return end + 1;
}

void executor::count_touch(const byte_cache::hashed_key& key, look_up_result r) {
  if (r.hit) count_access(key);
  counters_.add(counted::touch_commands);
  counters_.add(!r.fits ? counted::out_of_memory : r.hit ? counted::touch_hits : counted::touch_misses);
}

/// A change is no access.
void executor::count_access(const byte_cache::hashed_key& key) {
  cache_.get(key, [](const cache_entry&) {});
}

void executor::put_value(std::string_view key, const cache_entry& e, bool shows_version) {
  constexpr std::size_t most = 80;
  byte_cache::hold held = cache_.hold_value(e);
  char* at = out_.room(most + key.size() + (held ? 0 : e.value.size()));
  if (at == nullptr) return;
  at = put(put(at, "VALUE "), key);
  *at++ = ' ';
  at = put(at, e.flags);
  *at++ = ' ';
  at = put(at, e.value.size());
  if (shows_version) {
    *at++ = ' ';
    at = put(at, version_of(e.version));
  }
  put_value_end(put(at, "\r\n"), e, std::move(held));
}

/// The value and the end of its line. One that is held stays where it is.
void executor::put_value_end(char* at, const cache_entry& e, byte_cache::hold held) {
  if (!held) return out_.wrote(put(put(at, e.value), "\r\n"));
  out_.wrote(at);
  out_.refer(e.value, std::move(held));
  out_ << "\r\n";
}

void executor::touch(const command& c) {
  look_up_result r;
  r.fits = amend(key_of(c), [&](const cache_entry* now) {
             r.hit = now != nullptr;
             return r.hit ? amended(*now, c.end) : cache_change{};
           }).outcome == cache_outcome::done;
  count_touch(key_of(c), r);
  reply(c, !r.fits ? no_memory_for_end : r.hit ? "TOUCHED" : "NOT_FOUND");
}

void executor::meta_look_up(const command& c) {
  look_up_result r;
  bool must_change = c.has('T');
  cache_entry first;  // as it was before this look-up, of a version that is not 0
  if (!must_change) {
    r.hit = cache_.get(
        key_of(c),
        [&](const cache_entry& e) {
          must_change = wins(c, e);
          if (must_change)
            first = e;
          else
            put_hit(c, e, false, false);
        },
        c.has('u') ? byte_cache::access::peek : byte_cache::access::counted);
    must_change |= !r.hit && c.has('N');
  }
  if (must_change) r = look_up_and_change(c, first);
  const bool touches = r.hit && c.has('T');
  counters_.add(touches ? counted::touch_commands : counted::get_commands);
  counters_.add(!r.fits   ? counted::out_of_memory
                : touches ? counted::touch_hits
                : r.hit   ? counted::get_hits
                          : counted::get_misses);
  if (!r.hit && !c.quiet) put_status(c, "EN");
}

/// A look-up that sets an end, wins the right to store, or makes the entry. `first` is what a get of it has seen.
executor::look_up_result executor::look_up_and_change(const command& c, const cache_entry& first) {
  const std::size_t before = out_.size();
  look_up_result r;
  bool is_new = false;
  cache_entry made;
  const cache_changed changed = amend(key_of(c), [&](const cache_entry* now) {
    out_.shrink_to(before);
    r.hit = now != nullptr;
    is_new = !r.hit && c.has('N');
    if (is_new)
      return cache_change{.what = kind::store,
                          .expires = end_by_flags(c, cache_entry::never, true),
                          .version = c.new_version,
                          .claimed = true};
    if (!r.hit) return cache_change{};
    cache_entry shown = *now;
    if (first.version == now->version) {
      shown.accessed = first.accessed;
      shown.fetched = first.fetched;
    }
    const bool won = wins(c, *now);
    put_hit(c, shown, won, false);
    cache_change change = amended(*now, end_by_flags(c, now->expires, false));
    change.claimed |= won;
    if (change.expires == now->expires && !won) change.what = kind::keep;
    return change;
  });
  r.fits = changed.outcome == cache_outcome::done || !r.hit;
  if (!r.fits) {
    out_.shrink_to(before);
    out_ << no_memory_for_end << "\r\n";
  }
  if (is_new && changed.outcome == cache_outcome::done) {
    r.hit = true;
    made.version = changed.version;
    made.accessed = service_.clock().now();
    put_hit(c, made, true, true);
  }
  if (r.hit && first.version == 0 && !c.has('u')) count_access(key_of(c));
  return r;
}

/// Writes a hit of `mg`. `is_new`: this command has made the entry.
void executor::put_hit(const command& c, const cache_entry& e, bool won, bool is_new) {
  const bool shows_value = c.has('v') && !(c.has('C') && matches(e, c.version));
  byte_cache::hold held = shows_value ? cache_.hold_value(e) : byte_cache::hold();
  char* at = meta_room(c, held ? 0 : e.value.size());
  if (at == nullptr) return;
  at = shows_value ? put(put(at, "VA "), e.value.size()) : put(at, "HD");
  at = put_flags(at, c, command::bits("TNstcflhOk"), e, e.value.size(), is_new);
  if (!is_new && e.claimed) at = put(at, " Z");
  if (e.stale) at = put(at, " X");
  if (won) at = put(at, " W");
  at = put(at, "\r\n");
  if (shows_value) return put_value_end(at, e, std::move(held));
  out_.wrote(at);
}

void executor::meta_debug(const command& c) {
  counters_.add(counted::meta_commands);
  const bool hit = cache_.get(
      key_of(c),
      [&](const cache_entry& e) {
        const std::uint32_t now = service_.clock().now();
        if (char* const at = meta_room(c))
          out_.wrote(c.has('b') ? put_base64(put(at, "ME "), c.key) : put(put(at, "ME "), c.key_text));
        out_ << " exp=";
        if (e.expires == cache_entry::never)
          out_ << "-1";
        else
          out_ << e.expires - now;
        out_ << " la=" << now - std::min(e.accessed, now) << " cas=" << version_of(e.version)
             << " fetch=" << (e.fetched ? "yes" : "no") << " cls=1 size=" << c.key.size() + e.value.size()
             << "\r\n";
      },
      byte_cache::access::peek);
  if (!hit) out_ << "EN\r\n";
}

void executor::refuse(const command& c) {
  drop_refused(c);
  reply(c, c.reply);
}

void executor::drop_refused(const command& c) {
  if (c.counts_size) counters_.add(counted::too_large);
  if (c.counts_size && service_.watched().wanted().has(event::mutation)) observe_store(c, "too_large", 0);
  if (c.drops_old) drop(c);
}

std::uint32_t end_by_flags(const command& c, std::uint32_t end, bool is_new) noexcept {
  for (std::size_t i = 0; i < c.shown_flags; ++i) {
    if (c.shown[i] == 'T') end = c.end;
    if (c.shown[i] == 'N' && is_new) end = c.end_if_new;
  }
  return end;
}

/// The flags that the command has and that are in `which`, with what they say of an entry.
char* executor::put_flags(char* at, const command& c, std::uint64_t which, const cache_entry& e,
                          std::size_t value_bytes, bool is_new) const noexcept {
  const std::uint32_t now = service_.clock().now();
  std::uint32_t end = e.expires;
  for (std::size_t i = 0; i < c.shown_flags; ++i) {
    const char flag = c.shown[i];
    const auto number = [&at, flag](std::uint64_t n) {
      *at++ = ' ';
      *at++ = flag;
      at = put(at, n);
    };
    if ((which & command::bit(flag)) == 0) continue;
    switch (flag) {
      case 'T':
        end = c.end;
        break;
      case 'N':
        if (is_new) end = c.end_if_new;
        break;
      case 's':
        number(value_bytes);
        break;
      case 't':
        if (end == cache_entry::never)
          at = put(at, " t-1");
        else
          number(end - now);
        break;
      case 'c':
        number(version_of(e.version));
        break;
      case 'f':
        number(e.flags);
        break;
      case 'l':
        number(now - std::min(e.accessed, now));
        break;
      case 'h':
        number(e.fetched ? 1 : 0);
        break;
      case 'O':
        at = put(put(at, " "), c.opaque);
        break;
      case 'k':
        at = put(at, " k");
        at = c.has('b') ? put(put_base64(at, c.key), " b") : put(at, c.key_text);
        break;
      default:
        break;
    }
  }
  return at;
}

/// Room for the first line of a meta reply, with a value if there is one.
char* executor::meta_room(const command& c, std::size_t value_bytes) noexcept {
  constexpr std::size_t most = 512;  // in addition to key and opaque
  return out_.room(most + c.key_text.size() + c.opaque.size() + value_bytes);
}

/// A status with the flags that need nothing of an entry.
void executor::put_status(const command& c, std::string_view status) {
  char* at = meta_room(c);
  if (at == nullptr) return;
  at = put_flags(put(at, status), c, command::bits("Ok"), {}, 0, false);
  out_.wrote(put(at, "\r\n"));
}

}  // namespace espalier::memcached
