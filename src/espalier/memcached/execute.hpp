#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/memcached/parse.hpp"
#include "espalier/memcached/service.hpp"

// Executes commands over the cache, and writes their replies: execute.cpp, store.cpp, administer.cpp and dump.cpp; binary.cpp
// replies in the binary protocol.

namespace espalier::memcached {

/// What the caller of a session does next.
enum class step : std::uint8_t {
  receive,  ///< pass more input
  go_on,    ///< pass the rest again: it has taken its turn
  send,     ///< send the output first, for there is much of it, then pass the rest again
  close,    ///< send the output, then close
};

/// What incr, decr and ma do with an entry.
struct calculation {
  enum class result : std::uint8_t { done, made, missing, not_a_number, mismatch, no_memory };
  result is = result::missing;
  std::uint64_t number = 0;   ///< afterwards
  std::uint64_t version = 0;  ///< afterwards
  std::uint32_t end_before = cache_entry::never;
  std::size_t length = 0;
  std::array<char, 20> digits;

  [[nodiscard]] std::string_view text() const noexcept { return {digits.data(), length}; }
  void set(std::uint64_t to) noexcept;
  [[nodiscard]] cache_change decide(const command& c, const cache_entry* now, bool matches) noexcept;
};

enum class dump_format : std::uint8_t { properties, commands };  ///< lines of metadump, or of mgdump

/// What a session keeps from one turn to the next for its commands.
struct turn {
  explicit turn(int number) noexcept : session(number) {}

  int session;  // its number, in logs
  step next = step::receive;
  byte_cache::incoming value;  // of a store whose line is known
  /// What comes before the next command: of a new connection the byte that shows its protocol, and its user; or the rest of a
  /// reply, which is written after its beginning was sent.
  enum class rest : std::uint8_t {
    none,
    protocol,
    user,
    look_up,
    dump,
    watch,  ///< for ever
  } unfinished = rest::protocol;
  bool is_binary = false;
  bool asks_for_user = false;  // binary: until it has logged in
  std::size_t resume_at = 0;   // where the input has the rest of its command
  bool shows_version = false;
  bool touches = false;
  std::uint32_t end = 0;
  dump_format dumps_as = dump_format::properties;
  std::size_t dump_place = 0;
  std::unique_ptr<memcached::watcher> watcher;
};

/// Executes the commands of one session in one turn.
class executor {
 public:
  /// The most commands whose memory is requested at once.
  static constexpr std::size_t group = 16;

  executor(service& of, counters& by, output& out, turn& with) noexcept
      : service_(of), cache_(of.cache()), out_(out), counters_(by), turn_(with) {}

  /// `keys` are those of a command with several, in the input.
  void run(const command& c, const std::vector<std::string_view>& keys, std::string_view input);
  /// Logs a command that is about to run, and the fetches of it, and counts it by prefixes: what watch_log::wanted() says.
  void observe(const command& c, const std::vector<std::string_view>& keys);
  /// The rest of an unfinished reply, or more of it. Returns the bytes of the input that were used.
  std::size_t go_on(std::string_view input, std::vector<std::string_view>& keys);
  /// Replies to a store that has no room for its value, of which the rest is skipped.
  void refuse_value(const command& c);

 private:
  using kind = cache_change::kind;
  enum class stored : std::uint8_t { done, exists, not_found, not_stored, no_memory };
  struct store_result {
    stored is = stored::done;
    std::uint64_t version = 0;
    std::size_t size = 0;  ///< of the value afterwards
  };
  struct look_up_result {
    bool hit = false;
    bool fits = true;
  };

  static constexpr auto fill_nothing = [](char*, const cache_entry*) {};
  static constexpr std::string_view no_memory_for_end = "SERVER_ERROR out of memory touching object";

  [[nodiscard]] static byte_cache::hashed_key key_of(const command& c) noexcept { return {c.key, c.hash}; }
  static cache_change amended(const cache_entry& now, std::uint32_t end) noexcept {
    return {.what = kind::amend, .expires = end, .stale = now.stale, .claimed = now.claimed};
  }
  [[nodiscard]] std::uint64_t version_of(std::uint64_t version) const noexcept {
    return service_.chosen().versions ? version : 0;
  }
  [[nodiscard]] bool matches(const cache_entry& now, std::uint64_t version) const noexcept {
    return service_.chosen().versions && now.version == version;
  }
  [[nodiscard]] bool is_much() const noexcept { return out_.size() >= service_.chosen().replies_at_once; }
  void reply(const command& c, std::string_view text) {
    if (!c.quiet) out_ << text << "\r\n";
  }

  // execute.cpp
  void observe_key(const command& c, const byte_cache::hashed_key& key);
  void refuse(const command& c);
  void drop_refused(const command& c);
  char* put_flags(char* at, const command& c, std::uint64_t which, const cache_entry& e,
                  std::size_t value_bytes, bool is_new) const noexcept;
  [[nodiscard]] char* meta_room(const command& c, std::size_t value_bytes = 0) noexcept;
  void put_status(const command& c, std::string_view status);
  bool look_up(const byte_cache::hashed_key& key, bool shows_version, bool touches, std::uint32_t end);
  std::size_t look_up_some(std::span<const std::string_view> keys, bool shows_version, bool touches,
                           std::uint32_t end);
  void look_up_many(const command& c, std::span<const std::string_view> keys, std::string_view input);
  void touch(const command& c);
  void meta_look_up(const command& c);
  look_up_result look_up_and_change(const command& c, const cache_entry& first);
  void meta_debug(const command& c);
  void count_prefix(std::string_view key, statistics::prefix_count what) {
    service_.stats().count_prefix(key, service_.chosen().prefix_end, what);
  }
  template <class Decide>
  cache_changed amend(const byte_cache::hashed_key& key, Decide decide);
  template <class Put>
  look_up_result look_up_by(const byte_cache::hashed_key& key, bool touches, std::uint32_t end, Put put);
  void count_access(const byte_cache::hashed_key& key);
  void count_touch(const byte_cache::hashed_key& key, look_up_result r);
  void put_value(std::string_view key, const cache_entry& e, bool shows_version);
  void put_value_end(char* at, const cache_entry& e, byte_cache::hold held);
  void put_hit(const command& c, const cache_entry& e, bool won, bool is_new);

  // store.cpp
  cache_change decide_store(const command& c, const cache_entry* now, store_result& r) const noexcept;
  store_result store(const command& c);
  [[gnu::noinline]] void observe_store(const command& c, std::string_view status, std::size_t value_bytes);
  void classic_store(const command& c);
  void meta_store(const command& c);
  stored no_room(const command& c);
  [[nodiscard]] calculation calculate_by(const command& c);
  void calculate(const command& c);
  void erase(const command& c);
  enum class erased : std::uint8_t { done, not_found, exists, no_memory };
  [[nodiscard]] erased erase_by(const command& c);
  void meta_erase(const command& c);
  void drop(const command& c);

  // administer.cpp
  void administer(const command& c);

  // binary.cpp
  struct binary_reply {
    binary_status status = binary_status::done;
    std::uint64_t version = 0;
    std::string_view extras = {};
    std::string_view key = {};
    std::size_t value_bytes = 0;
  };
  void run_binary(const command& c);
  [[nodiscard]] char* put_binary(const command& c, const binary_reply& r, std::size_t room) noexcept;
  void reply_binary(const command& c, binary_status status, std::uint64_t version = 0);
  void reply_text(const command& c, std::string_view key, std::string_view text);
  void binary_look_up(const command& c);
  void binary_store(const command& c);
  void binary_calculate(const command& c);
  void binary_erase(const command& c);
  void binary_flush(const command& c);
  void binary_statistics(const command& c);
  void binary_log_in(const command& c);

  service& service_;
  byte_cache& cache_;
  output& out_;
  counters& counters_;
  turn& turn_;
};

// Parts of replies. Each returns the end of what it wrote.

inline char* put(char* at, std::string_view text) noexcept {
  // The text may be that of no value, without an address.
  if (!text.empty()) std::memcpy(at, text.data(), text.size());
  return at + text.size();
}
inline char* put(char* at, std::uint64_t number) noexcept { return std::to_chars(at, at + 20, number).ptr; }

/// As in a URI.
inline char* put_escaped(char* at, std::string_view text) noexcept {
  for (const char c : text) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                          c == '-' || c == '.' || c == '_' || c == '~';
    if (!is_plain) *at++ = '%';
    if (!is_plain) *at++ = digits[byte >> 4U];
    *at++ = is_plain ? c : digits[byte & 15U];
  }
  return at;
}

/// As the cache's change, where decide amends. Where memory is full, an entry without an end has no room for one: if it would
/// have ended at once it is erased, else it stays as it was.
template <class Decide>
cache_changed executor::amend(const byte_cache::hashed_key& key, Decide decide) {
  const cache_changed changed = cache_.change(key, decide, fill_nothing);
  if (changed.outcome == cache_outcome::done) return changed;
  return cache_.change(
      key,
      [&](const cache_entry* now) {
        cache_change change = decide(now);
        if (change.what == kind::amend && change.expires <= service_.clock().now()) change.what = kind::erase;
        return change;
      },
      fill_nothing);
}

/// put(const cache_entry&) writes a hit. If the new end does not fit nothing is written.
template <class Put>
executor::look_up_result executor::look_up_by(const byte_cache::hashed_key& key, bool touches,
                                              std::uint32_t end, Put put) {
  look_up_result r;
  if (!touches) {
    r.hit = cache_.get(key, put);
    counters_.add(counted::get_commands);
    counters_.add(r.hit ? counted::get_hits : counted::get_misses);
  } else {
    const std::size_t before = out_.size();
    r.fits = amend(key, [&](const cache_entry* now) {
               out_.shrink_to(before);
               r.hit = now != nullptr;
               if (!r.hit) return cache_change{};
               put(*now);
               return amended(*now, end);
             }).outcome == cache_outcome::done;
    if (!r.fits) out_.shrink_to(before);
    count_touch(key, r);
  }
  return r;
}

// dump.cpp

/// The rows of `stats cachedump`: at most `most` keys, or all for 0, as far as two megabytes hold them.
void show_keys(service& of, output& out, std::uint64_t most);
/// The next entries of a dump, not many: what a client does not read does not pile up. `place` is 0 at first. False: the
/// dump has ended, and the line that says so was written.
bool show_entries(service& of, output& out, dump_format as, std::size_t& place);

/// The end of an entry after the flags T and N, of which the later one counts.
[[nodiscard]] std::uint32_t end_by_flags(const command& c, std::uint32_t end, bool is_new) noexcept;

}  // namespace espalier::memcached
