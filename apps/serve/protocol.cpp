#include "apps/serve/protocol.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "apps/serve/base64.hpp"
#include "apps/serve/command.hpp"
#include "espalier/io/text.hpp"

namespace espalier::app::serving {

namespace {

constexpr std::string_view no_memory = "SERVER_ERROR out of memory storing object";
constexpr std::string_view no_memory_for_end = "SERVER_ERROR out of memory touching object";
constexpr std::string_view not_a_number = "CLIENT_ERROR cannot increment or decrement non-numeric value";

struct refused_command {
  std::string_view name;
  std::string_view reply;
};
constexpr std::array<refused_command, 8> refused_commands{{
    {"slabs", "CLIENT_ERROR slabs is not supported: memory is not divided by sizes"},
    {"lru", "CLIENT_ERROR lru is not supported: there is no LRU to tune"},
    {"watch", "CLIENT_ERROR watch is not supported: there are no logs to watch"},
    {"extstore", "CLIENT_ERROR extstore is not supported: all entries are in memory"},
    {"cache_memlimit", "CLIENT_ERROR cache_memlimit is not supported: the limit is that of the start"},
    {"refresh_certs", "CLIENT_ERROR refresh_certs is not supported: there is no TLS"},
    {"misbehave", "CLIENT_ERROR misbehave is not supported: it tests memcached's sandbox"},
    {"debugitem", "CLIENT_ERROR debugitem is not supported: it tests memcached's reference counts"},
}};

char* put(char* at, std::string_view text) noexcept {
  // The text may be that of no value, without an address.
  if (!text.empty()) std::memcpy(at, text.data(), text.size());
  return at + text.size();
}
char* put(char* at, std::uint64_t number) noexcept { return std::to_chars(at, at + 20, number).ptr; }

}  // namespace

batch::batch(service& of)
    : service_(of), counters_(of.add_thread()), commands_(std::make_unique<command[]>(most_commands)) {}
batch::~batch() = default;

void batch::forget_keys() {
  constexpr std::size_t many = 4096;
  if (keys_.capacity() > many) std::vector<std::string_view>().swap(keys_);
  keys_.clear();
}

/// Executes commands, and writes their replies.
class session::execution {
 public:
  execution(session& of, output& out, batch& with) noexcept
      : session_(of),
        service_(of.service_),
        cache_(of.service_.cache()),
        out_(out),
        counters_(with.counters_),
        much_output_(of.service_.chosen().replies_at_once),
        shows_versions_(of.service_.chosen().versions) {}

  void run(const command& c, batch& with, std::string_view input) {
    switch (c.what) {
      case verb::look_up:
        if (c.keys == 0) {
          if (look_up(c.key, c.shows_version, c.touches, c.end)) out_ << "END\r\n";
        } else {
          look_up_many(c, with, input);
        }
        break;
      case verb::store:
        store(c);
        break;
      case verb::calculate:
        calculate(c);
        break;
      case verb::touch:
        touch(c);
        break;
      case verb::erase:
        erase(c);
        break;
      case verb::meta_look_up:
        meta_look_up(c);
        break;
      case verb::meta_store:
        meta_store(c);
        break;
      case verb::meta_erase:
        meta_erase(c);
        break;
      case verb::meta_calculate:
        meta_calculate(c);
        break;
      case verb::meta_nothing:
        out_ << "MN\r\n";
        break;
      case verb::meta_debug:
        meta_debug(c);
        break;
      case verb::other:
        other(c);
        break;
      case verb::refused:
        refuse(c);
        break;
      case verb::binary:
        refuse_binary(c);
        break;
      case verb::hang_up:
        session_.next_ = step::close;
        break;
    }
  }

  /// False: the look-up has ended with an error.
  bool look_up(const byte_cache::hashed_key& key, bool shows_version, bool touches, std::uint32_t end) {
    bool hit = false;
    bool fits = true;
    if (!touches) {
      hit = cache_.get(key, [&](const cache_entry& e) { put_value(key.key, e, shows_version); });
      counters_.add(counted::get_commands);
      counters_.add(hit ? counted::get_hits : counted::get_misses);
    } else {
      const std::size_t before = out_.size();
      fits = amend(key, [&](const cache_entry* now) {
               out_.shrink_to(before);
               hit = now != nullptr;
               if (!hit) return cache_change{};
               put_value(key.key, *now, shows_version);
               return amended(*now, end);
             }).outcome == cache_outcome::done;
      if (!fits) {
        out_.shrink_to(before);
        out_ << no_memory_for_end << "\r\n";
      }
      count_touch(key, hit, fits);
    }
    if (service_.detail()) {
      service_.count_prefix(key.key, service::prefix_count::get);
      if (hit) service_.count_prefix(key.key, service::prefix_count::hit);
    }
    return fits;
  }

  struct looked_up {
    std::size_t keys = 0;  ///< all, if it has not failed and the output has not become large
    bool failed = false;   ///< the look-up has ended with an error
  };
  /// Keys of one look-up from here on, group by group.
  looked_up look_up_group(const std::string_view* keys, std::size_t count, bool shows_version, bool touches,
                          std::uint32_t end) {
    std::array<byte_cache::hashed_key, batch::most_commands> group;
    looked_up result;
    std::size_t& done = result.keys;
    while (done < count && out_.size() < much_output_ && !result.failed) {
      const std::size_t n = std::min(count - done, group.size());
      for (std::size_t i = 0; i < n; ++i) {
        group[i] = byte_cache::hashed(keys[done + i]);
        cache_.request(group[i], 0);
      }
      for (std::size_t i = 0; i < n; ++i) cache_.request(group[i], 1);
      for (std::size_t i = 0; i < n && out_.size() < much_output_ && !result.failed; ++i, ++done)
        result.failed = !look_up(group[i], shows_version, touches, end);
    }
    return result;
  }

  /// A store that has no room for its value, of which the rest is skipped.
  void refuse_value(const command& c) {
    static_cast<void>(no_room(c));
    if (c.what == verb::meta_store)
      out_ << no_memory << "\r\n";
    else
      reply(c, no_memory);
  }

 private:
  using kind = cache_change::kind;

  static constexpr auto fill_nothing = [](char*, const cache_entry*) {};

  static cache_change amended(const cache_entry& now, std::uint32_t end) noexcept {
    return {.what = kind::amend, .expires = end, .stale = now.stale, .claimed = now.claimed};
  }

  /// As the cache's change, where decide amends. Where memory is full, an entry without an end has no room for one: if it would
  /// have ended at once it is erased, else it stays as it was.
  template <class Decide>
  cache_changed amend(const byte_cache::hashed_key& key, Decide decide) {
    const cache_changed changed = cache_.change(key, decide, fill_nothing);
    if (changed.outcome == cache_outcome::done) return changed;
    return cache_.change(
        key,
        [&](const cache_entry* now) {
          cache_change change = decide(now);
          if (change.what == kind::amend && change.expires <= service_.clock().now())
            change.what = kind::erase;
          return change;
        },
        fill_nothing);
  }

  void count_touch(const byte_cache::hashed_key& key, bool hit, bool fits) {
    if (hit) count_access(key);
    counters_.add(counted::touch_commands);
    counters_.add(!fits ? counted::out_of_memory : hit ? counted::touch_hits : counted::touch_misses);
  }

  /// A change is no access.
  void count_access(const byte_cache::hashed_key& key) {
    cache_.get(key, [](const cache_entry&) {});
  }

  [[nodiscard]] std::uint64_t version_of(std::uint64_t version) const noexcept {
    return shows_versions_ ? version : 0;
  }
  [[nodiscard]] bool matches(const cache_entry& now, std::uint64_t version) const noexcept {
    return shows_versions_ && now.version == version;
  }

  void reply(const command& c, std::string_view text) {
    if (!c.quiet) out_ << text << "\r\n";
  }

  void put_value(std::string_view key, const cache_entry& e, bool shows_version) {
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
  void put_value_end(char* at, const cache_entry& e, byte_cache::hold held) {
    if (!held) return out_.wrote(put(put(at, e.value), "\r\n"));
    out_.wrote(at);
    out_.refer(e.value, std::move(held));
    out_ << "\r\n";
  }

  void look_up_many(const command& c, batch& with, std::string_view input) {
    const std::string_view* const keys = with.keys_.data() + c.first_key;
    const auto [done, failed] = look_up_group(keys, c.keys, c.shows_version, c.touches, c.end);
    if (failed) return;
    if (done == c.keys) {
      out_ << "END\r\n";
      return;
    }
    session_.look_up_ = {true, c.shows_version, c.touches, c.end};
    session_.resume_at_ = static_cast<std::size_t>(keys[done].data() - input.data());
  }

  enum class outcome : std::uint8_t { stored, exists, not_found, not_stored, no_memory };

  /// Stores the value. `size` is that of the value afterwards.
  outcome store(const command& c, std::uint64_t& version, std::size_t& size) {
    outcome result = outcome::stored;
    const bool compares = c.has('C') && c.version != 0;
    size = c.value.size();
    const auto decide = [&](const cache_entry* now) {
      cache_change made{kind::store, c.value.size(), c.flags, c.end, c.new_version};
      const auto keep = [&](outcome because) {
        result = because;
        return cache_change{};
      };
      result = outcome::stored;
      switch (c.mode) {
        case store_mode::set:
          return made;
        case store_mode::add:
          return now == nullptr ? made : keep(outcome::not_stored);
        case store_mode::replace:
          return now != nullptr ? made : keep(outcome::not_stored);
        case store_mode::compare:
          if (now == nullptr) return keep(outcome::not_found);
          if (matches(*now, c.version)) return made;
          if (!c.has('I') || c.version == 0 || c.version > now->version) return keep(outcome::exists);
          made.expires = now->expires;
          made.stale = true;
          made.claimed = now->claimed;
          return made;
        case store_mode::append:
        case store_mode::prepend:
          if (now == nullptr) {
            if (!c.has('N')) return keep(outcome::not_stored);
            size = c.value.size();
            made.expires = c.end_if_new;
            return made;
          }
          if (compares && !matches(*now, c.version)) return keep(outcome::exists);
          size = made.value_bytes = now->value.size() + c.value.size();
          made.flags = now->flags;
          made.expires = now->expires;
          return made;
      }
      return made;
    };
    const auto fill = [&](char* value, const cache_entry* now) {
      const std::string_view old =
          now != nullptr && (c.mode == store_mode::append || c.mode == store_mode::prepend)
              ? now->value
              : std::string_view();
      if (c.mode == store_mode::prepend)
        put(put(value, c.value), old);
      else
        put(put(value, old), c.value);
    };
    const cache_changed changed =
        session_.value_ ? cache_.change(c.key, decide, session_.value_) : cache_.change(c.key, decide, fill);
    version = changed.version;
    counters_.add(counted::set_commands);
    if (c.mode == store_mode::compare) {
      counters_.add(result == outcome::stored      ? counted::cas_hits
                    : result == outcome::not_found ? counted::cas_misses
                                                   : counted::cas_mismatches);
    }
    if (changed.outcome == cache_outcome::done) return result;
    version = 0;
    if (changed.outcome == cache_outcome::too_large) return outcome::not_stored;
    return no_room(c);
  }

  outcome no_room(const command& c) {
    counters_.add(counted::out_of_memory);
    if (c.what == verb::meta_store || c.mode == store_mode::set) drop(c);
    return outcome::no_memory;
  }

  /// What could not be stored does not leave an older value behind.
  void drop(const command& c) {
    cache_.change(c.key, [](const cache_entry*) { return cache_change{.what = kind::erase}; }, fill_nothing);
  }

  void store(const command& c) {
    std::uint64_t version = 0;
    std::size_t size = 0;
    if (service_.detail()) service_.count_prefix(c.key.key, service::prefix_count::set);
    switch (store(c, version, size)) {
      case outcome::stored:
        return reply(c, "STORED");
      case outcome::exists:
        return reply(c, "EXISTS");
      case outcome::not_found:
        return reply(c, "NOT_FOUND");
      case outcome::not_stored:
        return reply(c, "NOT_STORED");
      case outcome::no_memory:
        return reply(c, no_memory);
    }
  }

  struct calculation {
    enum class result : std::uint8_t { done, made, missing, not_a_number, mismatch, no_memory };
    result is = result::missing;
    std::uint64_t version = 0;
    std::uint32_t end_before = cache_entry::never;
    std::array<char, 20> digits{};
    std::size_t length = 0;

    [[nodiscard]] std::string_view text() const noexcept { return {digits.data(), length}; }
    void set(std::uint64_t number) noexcept {
      length = static_cast<std::size_t>(put(digits.data(), number) - digits.data());
    }
  };

  /// The end of an entry after the flags T and N, of which the later one counts.
  static std::uint32_t end_by_flags(const command& c, std::uint32_t end, bool is_new) noexcept {
    for (std::size_t i = 0; i < c.shown_flags; ++i) {
      if (c.shown[i] == 'T') end = c.end;
      if (c.shown[i] == 'N' && is_new) end = c.end_if_new;
    }
    return end;
  }

  calculation calculated(const command& c) {
    using result = calculation::result;
    calculation r;
    const bool is_meta = c.what == verb::meta_calculate;
    const cache_changed changed = cache_.change(
        c.key,
        [&](const cache_entry* now) {
          r.is = result::missing;
          cache_change made{.what = kind::store, .version = c.new_version};
          if (now == nullptr) {
            if (!c.has('N')) return cache_change{};
            r.is = result::made;
            r.end_before = cache_entry::never;
            r.set(c.initial);
            made.value_bytes = r.length;
            made.expires = end_by_flags(c, r.end_before, true);
            return made;
          }
          r.is = result::not_a_number;
          if (now->value.empty()) return cache_change{};
          if (c.has('C') && c.version != 0 && !matches(*now, c.version)) {
            r.is = result::mismatch;
            return cache_change{};
          }
          std::uint64_t number = 0;
          if (!read_number(now->value.substr(0, now->value.find_last_not_of(' ') + 1), number))
            return cache_change{};
          r.is = result::done;
          r.end_before = now->expires;
          r.set(!c.decreases ? number + c.delta : number < c.delta ? 0 : number - c.delta);
          made.value_bytes = r.length;
          made.flags = now->flags;
          made.expires = is_meta ? end_by_flags(c, now->expires, false) : now->expires;
          made.stale = now->stale;
          made.claimed = now->claimed;
          return made;
        },
        [&](char* value, const cache_entry*) { put(value, r.text()); });
    r.version = changed.version;
    if (changed.outcome != cache_outcome::done) r.is = result::no_memory;
    if (r.is == result::done) counters_.add(c.decreases ? counted::decr_hits : counted::incr_hits);
    if (r.is == result::missing) counters_.add(c.decreases ? counted::decr_misses : counted::incr_misses);
    return r;
  }

  void calculate(const command& c) {
    const calculation r = calculated(c);
    switch (r.is) {
      case calculation::result::done:
      case calculation::result::made:
        return reply(c, r.text());
      case calculation::result::missing:
      case calculation::result::mismatch:
        return reply(c, "NOT_FOUND");
      case calculation::result::not_a_number:
        return reply(c, not_a_number);
      case calculation::result::no_memory:
        return reply(c, "SERVER_ERROR out of memory");
    }
  }

  void touch(const command& c) {
    bool hit = false;
    const cache_changed changed = amend(c.key, [&](const cache_entry* now) {
      hit = now != nullptr;
      return hit ? amended(*now, c.end) : cache_change{};
    });
    const bool fits = changed.outcome == cache_outcome::done;
    count_touch(c.key, hit, fits);
    reply(c, !fits ? no_memory_for_end : hit ? "TOUCHED" : "NOT_FOUND");
  }

  void erase(const command& c) {
    const cache_changed changed = cache_.change(
        c.key,
        [](const cache_entry* now) {
          return cache_change{.what = now == nullptr ? kind::keep : kind::erase};
        },
        fill_nothing);
    const bool hit = changed.what == kind::erase;
    counters_.add(hit ? counted::delete_hits : counted::delete_misses);
    if (service_.detail()) service_.count_prefix(c.key.key, service::prefix_count::erase);
    reply(c, hit ? "DELETED" : "NOT_FOUND");
  }

  // Meta commands. A reply's first line takes at most this, beside key and opaque.
  static constexpr std::size_t flags_room = 512;

  static char* put_key(char* at, const command& c) noexcept {
    at = put(at, " k");
    return c.has('b') ? put(put_base64(at, c.key.key), " b") : put(at, c.key_text);
  }
  static char* put_opaque(char* at, const command& c) noexcept {
    *at++ = ' ';
    return put(at, c.opaque);
  }
  static char* put_flag(char* at, char flag, std::uint64_t number) noexcept {
    *at++ = ' ';
    *at++ = flag;
    return put(at, number);
  }
  char* put_end(char* at, std::uint32_t end) noexcept {
    if (end == cache_entry::never) return put(at, " t-1");
    return put_flag(at, 't', end - service_.clock().now());
  }
  [[nodiscard]] char* meta_room(const command& c, std::size_t value_bytes = 0) noexcept {
    return out_.room(flags_room + c.key_text.size() + c.opaque.size() + value_bytes);
  }
  /// A status with the flags that need nothing of an entry.
  void put_status(const command& c, std::string_view status) {
    char* at = meta_room(c);
    if (at == nullptr) return;
    at = put(at, status);
    for (std::size_t i = 0; i < c.shown_flags; ++i) {
      if (c.shown[i] == 'O') at = put_opaque(at, c);
      if (c.shown[i] == 'k') at = put_key(at, c);
    }
    out_.wrote(put(at, "\r\n"));
  }

  /// Writes a hit of `mg`. `is_new`: this command has made the entry.
  void put_hit(const command& c, const cache_entry& e, bool won, bool is_new) {
    const bool shows_value = c.has('v') && !(c.has('C') && matches(e, c.version));
    byte_cache::hold held = shows_value ? cache_.hold_value(e) : byte_cache::hold();
    char* at = meta_room(c, held ? 0 : e.value.size());
    if (at == nullptr) return;
    at = shows_value ? put(put(at, "VA "), e.value.size()) : put(at, "HD");
    std::uint32_t end = e.expires;
    for (std::size_t i = 0; i < c.shown_flags; ++i) {
      switch (c.shown[i]) {
        case 'T':
          end = c.end;
          break;
        case 'N':
          if (is_new) end = c.end_if_new;
          break;
        case 's':
          at = put_flag(at, 's', e.value.size());
          break;
        case 't':
          at = put_end(at, end);
          break;
        case 'c':
          at = put_flag(at, 'c', version_of(e.version));
          break;
        case 'f':
          at = put_flag(at, 'f', e.flags);
          break;
        case 'l':
          at = put_flag(at, 'l', service_.clock().now() - std::min(e.accessed, service_.clock().now()));
          break;
        case 'h':
          at = put_flag(at, 'h', e.fetched ? 1 : 0);
          break;
        case 'O':
          at = put_opaque(at, c);
          break;
        case 'k':
          at = put_key(at, c);
          break;
        default:
          break;
      }
    }
    if (!is_new && e.claimed) at = put(at, " Z");
    if (e.stale) at = put(at, " X");
    if (won) at = put(at, " W");
    at = put(at, "\r\n");
    if (shows_value) return put_value_end(at, e, std::move(held));
    out_.wrote(at);
  }

  /// Whether this look-up wins the right to store the entry again.
  static bool wins(const command& c, const cache_entry& e) noexcept {
    if (e.claimed) return false;
    std::uint32_t end = e.expires;
    for (std::size_t i = 0; i < c.shown_flags; ++i) {
      if (c.shown[i] == 'T') end = c.end;
      if (c.shown[i] == 'R' && end != cache_entry::never && end < c.recache) return true;
    }
    return e.stale;
  }

  void meta_look_up(const command& c) {
    const std::size_t before = out_.size();
    bool hit = false;
    bool must_change = c.has('T');
    bool fits = true;
    cache_entry first;  // as it was before this look-up, of a version that is not 0
    if (!must_change) {
      hit = cache_.get(
          c.key,
          [&](const cache_entry& e) {
            must_change = wins(c, e);
            if (must_change)
              first = e;
            else
              put_hit(c, e, false, false);
          },
          c.has('u') ? byte_cache::access::peek : byte_cache::access::counted);
      must_change |= !hit && c.has('N');
    }
    if (must_change) {
      cache_entry made;
      bool is_new = false;
      const cache_changed changed = amend(c.key, [&](const cache_entry* now) {
        out_.shrink_to(before);
        hit = now != nullptr;
        is_new = !hit && c.has('N');
        if (is_new) {
          made.expires = end_by_flags(c, cache_entry::never, true);
          return cache_change{
              .what = kind::store, .expires = made.expires, .version = c.new_version, .claimed = true};
        }
        if (!hit) return cache_change{};
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
      fits = changed.outcome == cache_outcome::done || !hit;
      if (!fits) {
        out_.shrink_to(before);
        out_ << no_memory_for_end << "\r\n";
      }
      if (is_new && changed.outcome == cache_outcome::done) {
        hit = true;
        made.version = changed.version;
        made.expires = cache_entry::never;
        made.accessed = service_.clock().now();
        put_hit(c, made, true, true);
      }
      if (hit && first.version == 0 && !c.has('u')) count_access(c.key);
    }
    const bool touches = hit && c.has('T');
    counters_.add(touches ? counted::touch_commands : counted::get_commands);
    counters_.add(!fits     ? counted::out_of_memory
                  : touches ? counted::touch_hits
                  : hit     ? counted::get_hits
                            : counted::get_misses);
    if (!hit && !c.quiet) put_status(c, "EN");
  }

  void meta_store(const command& c) {
    std::uint64_t version = 0;
    std::size_t size = 0;
    std::string_view status;
    switch (store(c, version, size)) {
      case outcome::stored:
        if (c.quiet) return;
        status = "HD";
        break;
      case outcome::exists:
        status = "EX";
        version = 0;
        break;
      case outcome::not_found:
        status = "NF";
        break;
      case outcome::not_stored:
        status = "NS";
        version = 0;
        break;
      case outcome::no_memory:
        out_ << no_memory << "\r\n";
        return;
    }
    char* at = meta_room(c);
    if (at == nullptr) return;
    at = put(at, status);
    for (std::size_t i = 0; i < c.shown_flags; ++i) {
      if (c.shown[i] == 'O') at = put_opaque(at, c);
      if (c.shown[i] == 'k') at = put_key(at, c);
      if (c.shown[i] == 'c') at = put_flag(at, 'c', version_of(version));
      if (c.shown[i] == 's') at = put_flag(at, 's', size);
    }
    out_.wrote(put(at, "\r\n"));
  }

  void meta_erase(const command& c) {
    bool found = false;
    bool mismatch = false;
    const cache_changed changed = cache_.change(
        c.key,
        [&](const cache_entry* now) {
          found = now != nullptr;
          mismatch = found && c.has('C') && !matches(*now, c.version);
          if (!found || mismatch) return cache_change{};
          const bool invalidates = c.has('I');
          if (!c.has('x') && !invalidates) return cache_change{.what = kind::erase};
          cache_change made{kind::store, 0, c.flags, c.end, c.new_version, invalidates};
          if (!invalidates && !c.has('E')) made.version = now->version;
          if (!c.has('x')) {
            made.value_bytes = now->value.size();
            made.flags = now->flags;
            if (!c.has('T')) made.expires = now->expires;
          }
          return made;
        },
        [&](char* value, const cache_entry* now) {
          if (!c.has('x')) put(value, now->value);
        });
    if (changed.outcome != cache_outcome::done) {
      out_ << "SERVER_ERROR out of memory\r\n";
      return;
    }
    if (!found || mismatch)
      counters_.add(counted::delete_misses);
    else if (!c.has('I'))
      counters_.add(counted::delete_hits);
    if (!found) return put_status(c, "NF");
    if (mismatch) return put_status(c, "EX");
    if (!c.quiet) put_status(c, "HD");
  }

  void meta_calculate(const command& c) {
    const calculation r = calculated(c);
    switch (r.is) {
      case calculation::result::missing:
        return put_status(c, "NF");
      case calculation::result::mismatch:
        return put_status(c, "EX");
      case calculation::result::not_a_number:
        out_ << not_a_number << "\r\n";
        return;
      case calculation::result::no_memory:
        out_ << "SERVER_ERROR out of memory\r\n";
        return;
      case calculation::result::done:
      case calculation::result::made:
        break;
    }
    if (c.quiet) return;
    char* at = meta_room(c);
    if (at == nullptr) return;
    at = c.has('v') ? put(put(at, "VA "), r.length) : put(at, "HD");
    std::uint32_t end = r.end_before;
    for (std::size_t i = 0; i < c.shown_flags; ++i) {
      if (c.shown[i] == 'T') end = c.end;
      if (c.shown[i] == 'N' && r.is == calculation::result::made) end = c.end_if_new;
      if (c.shown[i] == 't') at = put_end(at, end);
      if (c.shown[i] == 'c') at = put_flag(at, 'c', version_of(r.version));
      if (c.shown[i] == 'O') at = put_opaque(at, c);
      if (c.shown[i] == 'k') at = put_key(at, c);
    }
    at = put(at, "\r\n");
    if (c.has('v')) at = put(put(at, r.text()), "\r\n");
    out_.wrote(at);
  }

  void meta_debug(const command& c) {
    counters_.add(counted::meta_commands);
    const bool hit = cache_.get(
        c.key,
        [&](const cache_entry& e) {
          const std::uint32_t now = service_.clock().now();
          if (char* const at = meta_room(c))
            out_.wrote(c.has('b') ? put_base64(put(at, "ME "), c.key.key) : put(put(at, "ME "), c.key_text));
          out_ << " exp=";
          if (e.expires == cache_entry::never)
            out_ << "-1";
          else
            out_ << std::uint64_t{e.expires - now};
          out_ << " la=" << std::uint64_t{now - std::min(e.accessed, now)} << " cas=" << version_of(e.version)
               << " fetch=" << (e.fetched ? "yes" : "no")
               << " cls=1 size=" << std::uint64_t{c.key.key.size() + e.value.size()} << "\r\n";
        },
        byte_cache::access::peek);
    if (!hit) out_ << "EN\r\n";
  }

  void refuse(const command& c) {
    if (c.counts_size) counters_.add(counted::too_large);
    if (c.drops_old) drop(c);
    reply(c, c.reply);
  }

  void refuse_binary(const command& c) {
    constexpr std::string_view why = "the binary protocol is not supported, the text protocol is";
    std::array<char, 24> header{};
    header[0] = '\x81';
    header[1] = c.line[1];
    header[7] = '\x83';  // not supported
    header[11] = static_cast<char>(why.size());
    put(header.data() + 12, c.line.substr(12, 4));
    out_ << std::string_view(header.data(), header.size()) << why;
    session_.next_ = step::close;
  }

  // What is rare.

  void other(const command& given) {
    command c;
    c.quiet = false;
    words line(given.line);
    std::array<std::string_view, 8> word;
    std::size_t count = 0;
    std::string_view last;
    for (std::string_view next = line.next(); !next.empty(); next = line.next()) {
      if (count < word.size()) word[count] = next;
      ++count;
      last = next;
    }
    const std::string_view name = given.line.substr(0, given.line.find(' '));
    constexpr std::size_t shortest = 4;  // with its end
    if (given.size < shortest) return reply(c, bad_format);
    if (name == "quit") {
      session_.next_ = step::close;
      return;
    }
    if (name == "version") {
      out_ << "VERSION " << spoken_version << "\r\n";
      return;
    }
    if (name == "stats") return statistics(c, word, count);
    c.quiet = last == "noreply";
    // memcached lets blanks precede these.
    const std::string_view first = word[0];
    if (first == "flush_all") return flush(c, count - 1 - (c.quiet ? 1 : 0), word[1]);
    if (first == "verbosity") {
      std::uint32_t level = 0;
      if (count < 2 || !read_number(word[1], level)) return reply(c, bad_format);
      constexpr std::uint32_t highest = 2;
      service_.set_verbosity(std::min(level, highest));
      return reply(c, "OK");
    }
    if (first == "shutdown") return shut_down(c, count, word[1]);
    if (first == "debugtime" && service_.chosen().test_clock) {
      std::uint32_t seconds = 0;
      if (count > 1 && word[1] == "p") {
        service_.clock().stand();
      } else {
        if (count < 2 || !read_number(word[1], seconds)) return reply(c, "ERROR");
        service_.clock().move(seconds);
      }
      service_.tick();
      return reply(c, "OK");
    }
    if (first == "lru_crawler") return crawl(c, given, word, count);
    if (first == "slabs" && count > 2 && word[1] == "automove" && !io::parse_whole<std::uint32_t>(word[2]))
      return reply(c, bad_format);
    const auto* const refused = std::ranges::find(refused_commands, first, &refused_command::name);
    if (refused != refused_commands.end()) return reply(c, refused->reply);
    if (count > 1 && last.starts_with("HTTP/")) {
      session_.next_ = step::close;
      return;
    }
    reply(c, "ERROR");
  }

  void flush(const command& c, std::size_t arguments, std::string_view argument) {
    counters_.add(counted::flush_commands);
    if (!service_.chosen().flushes) return reply(c, "CLIENT_ERROR flush_all not allowed");
    std::int32_t delay = 0;
    if (arguments != 0 && !read_number(argument, delay)) return reply(c, bad_end);
    service_.flush(delay);
    reply(c, "OK");
  }

  /// There is no crawler that looks for what has ended, so only the dumps have an effect.
  void crawl(const command& c, const command& given, const std::array<std::string_view, 8>& word,
             std::size_t count) {
    const std::string_view what = word[1];
    if (count == 2 && (what == "enable" || what == "disable")) return reply(c, "OK");
    if (count != 3) return reply(c, "ERROR");
    if (what == "sleep" || what == "tocrawl") {
      constexpr std::uint32_t longest_sleep = 1'000'000;
      std::uint32_t number = 0;
      if (!read_number(word[2], number)) return reply(c, bad_format);
      const bool is_long = what == "sleep" && number > longest_sleep;
      return reply(c, is_long ? "CLIENT_ERROR sleep must be one second or less" : "OK");
    }
    const bool dumps = what == "metadump" || what == "mgdump";
    if (!dumps && what != "crawl") return reply(c, "ERROR");
    const auto [are_valid, has_entries] = classes_in(word[2], dumps);
    if (!are_valid) return reply(c, "BADCLASS invalid class id");
    out_ << "OK\r\n";
    if (!dumps) return;
    const bool as_commands = what == "mgdump";
    if (!has_entries) {
      out_ << (as_commands ? "EN\r\n" : "END\r\n");
      return;
    }
    session_.dump_ = {true, as_commands ? service::dump::commands : service::dump::properties, 0};
    session_.resume_at_ = given.size - 1;
  }

  struct class_list {
    bool are_valid = false;
    bool have_entries = false;  ///< the first one has all
  };
  /// all, hash, or numbers of classes.
  static class_list classes_in(std::string_view list, bool takes_hash) noexcept {
    if (list == "all" || (takes_hash && list == "hash")) return {true, true};
    class_list found{true, false};
    while (found.are_valid && !list.empty()) {
      const std::size_t end = std::min(list.find(','), list.size());
      std::uint32_t one = 0;
      constexpr std::uint32_t largest = 63;
      found.are_valid = read_number(list.substr(0, end), one) && one >= 1 && one <= largest;
      found.have_entries |= one == 1;
      list.remove_prefix(std::min(end + 1, list.size()));
    }
    return found;
  }

  void shut_down(const command& c, std::size_t count, std::string_view how) {
    if (!service_.chosen().shuts_down) return reply(c, "SERVER_ERROR: shutdown not enabled");
    if (count > 2 || (count == 2 && how != "graceful")) return reply(c, "CLIENT_ERROR invalid shutdown mode");
    session_.next_ = step::close;
    if (service_.stop) service_.stop();
  }

  void statistics(const command& c, const std::array<std::string_view, 8>& word, std::size_t count) {
    if (count == 1) return service_.show_general(out_);
    const std::string_view which = word[1];
    if (which == "settings") return service_.show_settings(out_);
    if (which == "items") return service_.show_items(out_);
    if (which == "slabs") return service_.show_slabs(out_);
    if (which == "sizes") {
      out_ << "STAT sizes_status disabled\r\nEND\r\n";
      return;
    }
    if (which == "conns") return service_.show_connections(out_);
    if (which == "reset") {
      service_.reset_statistics();
      return reply(c, "RESET");
    }
    if (which == "detail") {
      const std::string_view how = count > 2 ? word[2] : std::string_view();
      if (how == "dump") return service_.show_prefixes(out_);
      if (how != "on" && how != "off") return reply(c, "CLIENT_ERROR usage: stats detail on|off|dump");
      service_.set_detail(how == "on");
      return reply(c, "OK");
    }
    if (which == "cachedump") {
      std::uint32_t size_class = 0;
      std::uint32_t most = 0;
      if (count < 4) return reply(c, "CLIENT_ERROR bad command line");
      if (!read_number(word[2], size_class) || !read_number(word[3], most)) return reply(c, bad_format);
      constexpr std::uint32_t classes = 64;
      if (size_class >= classes) return reply(c, "CLIENT_ERROR Illegal slab id");
      if (size_class == 1) return service_.show_keys(out_, most);
      out_ << "END\r\n";
      return;
    }
    reply(c, "ERROR");
  }

  session& session_;
  service& service_;
  byte_cache& cache_;
  output& out_;
  counters& counters_;
  std::size_t much_output_;
  bool shows_versions_;
};

std::size_t session::consume(std::string_view input, output& out, batch& with, unsigned most) {
  next_ = step::receive;
  std::size_t used = 0;
  const std::size_t much_output = service_.chosen().replies_at_once;
  execution run(*this, out, with);
  if (skipped_ != 0) {
    used = std::min(skipped_, input.size());
    skipped_ -= used;
  }
  if (look_up_.runs) {
    used = go_on_with_look_up(input, out, with);
    if (look_up_.runs) return used;
  }
  if (value_) {
    used += go_on_with_value(input.substr(used), run, with);
    if (value_) return used;
  }
  if (dump_.runs) {
    used = go_on_with_dump(input, out);
    if (dump_.runs) return used;
  }
  if (input.size() - used < wanted_) return used;
  wanted_ = 1;

  while (next_ == step::receive && used < input.size()) {
    if (most == 0) {
      next_ = step::go_on;
      break;
    }
    if (out.size() >= much_output) {
      next_ = step::send;
      break;
    }
    command* const commands = with.commands_.get();
    with.forget_keys();
    incomplete_command first{.scanned = scanned_};
    const std::size_t count =
        parse_commands(input.substr(used), commands, std::min<std::size_t>(most, batch::most_commands),
                       service_, with.keys_, first);
    if (count == 0) {
      scanned_ = first.scanned;
      wanted_ = first.wanted;
      if (first.lacks_value && service_.cache().is_large(first.key_bytes, first.value_bytes))
        used += begin_value(input.substr(used), first, run, with);
      break;
    }
    scanned_ = 0;
    if (count > 1) {
      const byte_cache& cache = service_.cache();
      for (unsigned stage = 0; stage < 2; ++stage) {
        for (std::size_t i = 0; i < count; ++i) {
          if (commands[i].keys == 0 && !commands[i].key.key.empty()) cache.request(commands[i].key, stage);
        }
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      const command& c = commands[i];
      if (service_.verbosity() > 1)
        std::fprintf(stderr, "<%d %.*s\n", descriptor_, static_cast<int>(c.line.size()), c.line.data());
      const std::string_view rest = input.substr(used);
      run.run(c, with, rest);
      --most;
      if (look_up_.runs || dump_.runs) {
        used += resume_at_;
        next_ = step::send;
        return used;
      }
      used += c.size;
      skipped_ = c.skipped;
      if (next_ != step::receive || out.size() >= much_output) break;
    }
  }
  if (out.failed()) next_ = step::close;
  return used;
}

/// The line of a store with a large value, which is received where it will lie.
std::size_t session::begin_value(std::string_view input, const incomplete_command& first, execution& run,
                                 batch& with) {
  try {
    line_ = input.substr(0, first.line_bytes);
    value_ = service_.cache().receive(first.key_bytes, first.value_bytes);
  } catch (const std::bad_alloc&) {  // there is no room
  }
  scanned_ = 0;
  wanted_ = 1;
  if (value_) {
    value_received_ = 0;
    return first.line_bytes + go_on_with_value(input.substr(first.line_bytes), run, with);
  }
  command& c = with.commands_[0];
  incomplete_command whole{.value = input.data()};  // which is not read
  static_cast<void>(parse_commands(input.substr(0, first.line_bytes), &c, 1, service_, with.keys_, whole));
  run.refuse_value(c);
  skipped_ = first.wanted - input.size();
  return input.size();
}

/// The value, and its end of line. Then the command is executed.
std::size_t session::go_on_with_value(std::string_view input, execution& run, batch& with) {
  constexpr std::string_view end = "\r\n";
  const std::size_t more = std::min(input.size(), room().size());
  if (more != 0) std::memcpy(room().data(), input.data(), more);
  received(more);
  if (value_received_ < value_.size() || input.size() - more < end.size()) return more;
  command& c = with.commands_[0];
  incomplete_command whole{.value = value_.value(), .value_ends_well = input.substr(more, end.size()) == end};
  static_cast<void>(parse_commands(line_, &c, 1, service_, with.keys_, whole));
  if (service_.verbosity() > 1)
    std::fprintf(stderr, "<%d %.*s\n", descriptor_, static_cast<int>(c.line.size()), c.line.data());
  run.run(c, with, line_);
  value_ = {};
  std::string().swap(line_);
  return more + end.size();
}

/// The next entries of a dump, after the ones before were sent.
std::size_t session::go_on_with_dump(std::string_view input, output& out) {
  dump_.runs = service_.show_entries(out, dump_.as, dump_.place);
  if (out.failed()) {
    dump_.runs = false;
    next_ = step::close;
    return input.size();
  }
  if (!dump_.runs) return 1;
  next_ = out.empty() ? step::go_on : step::send;
  return 0;
}

/// The rest of a look-up of many keys, which had to wait until its first values were sent.
std::size_t session::go_on_with_look_up(std::string_view input, output& out, batch& with) {
  execution run(*this, out, with);
  const std::size_t end = input.find('\n');
  std::string_view line_text = input.substr(0, end);
  if (line_text.ends_with('\r')) line_text.remove_suffix(1);
  words line(line_text);
  with.forget_keys();
  for (std::string_view key = line.next(); !key.empty(); key = line.next()) with.keys_.push_back(key);
  const auto [done, failed] = run.look_up_group(with.keys_.data(), with.keys_.size(), look_up_.shows_version,
                                                look_up_.touches, look_up_.end);
  if (out.failed()) {
    next_ = step::close;
    return input.size();
  }
  if (done < with.keys_.size() && !failed) {
    next_ = step::send;
    return static_cast<std::size_t>(with.keys_[done].data() - input.data());
  }
  look_up_.runs = false;
  if (!failed) out << "END\r\n";
  return end + 1;
}

}  // namespace espalier::app::serving
