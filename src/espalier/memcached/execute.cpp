#include "espalier/memcached/execute.hpp"

#include <array>

#include "espalier/memcached/base64.hpp"

namespace espalier::memcached {

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
      return refuse_binary(c);
    case verb::hang_up:
      turn_.next = step::close;
  }
}

void executor::erase(const command& c) {
  const cache_changed changed = cache_.change(
      key_of(c),
      [](const cache_entry* now) { return cache_change{.what = now == nullptr ? kind::keep : kind::erase}; },
      fill_nothing);
  const bool hit = changed.what == kind::erase;
  counters_.add(hit ? counted::delete_hits : counted::delete_misses);
  if (service_.detail()) count_prefix(c.key, statistics::prefix_count::erase);
  reply(c, hit ? "DELETED" : "NOT_FOUND");
}

void executor::meta_erase(const command& c) {
  bool found = false;
  bool mismatch = false;
  const cache_changed changed = cache_.change(
      key_of(c),
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

/// What could not be stored leaves no older value.
void executor::drop(const command& c) {
  cache_.change(
      key_of(c), [](const cache_entry*) { return cache_change{.what = kind::erase}; }, fill_nothing);
}

void executor::refuse(const command& c) {
  if (c.counts_size) counters_.add(counted::too_large);
  if (c.drops_old) drop(c);
  reply(c, c.reply);
}

void executor::refuse_binary(const command& c) {
  constexpr std::string_view why = "the binary protocol is not supported, the text protocol is";
  std::array<char, 24> header{};
  header[0] = '\x81';
  header[1] = c.line[1];
  header[7] = '\x83';  // not supported
  header[11] = static_cast<char>(why.size());
  put(header.data() + 12, c.line.substr(12, 4));
  out_ << std::string_view(header.data(), header.size()) << why;
  turn_.next = step::close;
}

char* put_key(char* at, const command& c) noexcept {
  at = put(at, " k");
  return c.has('b') ? put(put_base64(at, c.key), " b") : put(at, c.key_text);
}

std::uint32_t end_by_flags(const command& c, std::uint32_t end, bool is_new) noexcept {
  for (std::size_t i = 0; i < c.shown_flags; ++i) {
    if (c.shown[i] == 'T') end = c.end;
    if (c.shown[i] == 'N' && is_new) end = c.end_if_new;
  }
  return end;
}

char* executor::put_end(char* at, std::uint32_t end) const noexcept {
  if (end == cache_entry::never) return put(at, " t-1");
  return put_flag(at, 't', end - service_.clock().now());
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
  at = put(at, status);
  for (std::size_t i = 0; i < c.shown_flags; ++i) {
    if (c.shown[i] == 'O') at = put_opaque(at, c);
    if (c.shown[i] == 'k') at = put_key(at, c);
  }
  out_.wrote(put(at, "\r\n"));
}

}  // namespace espalier::memcached
