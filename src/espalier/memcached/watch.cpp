#include "espalier/memcached/watch.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

#include "espalier/memcached/execute.hpp"
#include "espalier/memcached/output.hpp"

namespace espalier::memcached {

watcher::~watcher() { of_.remove(*this); }

void watcher::collect(output& to) {
  std::uint64_t skipped = 0;
  {
    const std::lock_guard held(of_.mutex_);
    to << lines_;
    lines_.clear();
    skipped = std::exchange(skipped_, 0);
  }
  if (skipped != 0) to << "skipped=" << skipped << "\n";
}

std::unique_ptr<watcher> watch_log::add(event_kinds kinds) {
  auto made = std::make_unique<watcher>(*this, kinds);
  made->lines_.reserve(bytes_);
  const std::lock_guard held(mutex_);
  auto* const free = std::ranges::find(watchers_, nullptr);
  if (free == watchers_.end()) return nullptr;
  *free = made.get();
  ++counts_.watchers;
  choose_wanted();
  return made;
}

void watch_log::remove(watcher& one) noexcept {
  const std::lock_guard held(mutex_);
  auto* const found = std::ranges::find(watchers_, &one);
  if (found == watchers_.end()) return;
  *found = nullptr;
  --counts_.watchers;
  choose_wanted();
}

void watch_log::want(event_kinds kinds, bool are) {
  const std::lock_guard held(mutex_);
  others_want_.remove(kinds);
  if (are) others_want_.add(kinds);
  choose_wanted();
}

void watch_log::choose_wanted() noexcept {
  event_kinds all = others_want_;
  for (const watcher* const one : watchers_) {
    if (one != nullptr) all.add(one->kinds_);
  }
  // relaxed, both: a setting, which threads may see a moment later
  wanted_.store(all.bits(), std::memory_order_relaxed);
  wants_evictions.store(all.has(event::eviction), std::memory_order_relaxed);
}

watch_log::counts watch_log::count() const {
  const std::lock_guard held(mutex_);
  return counts_;
}

/// put_rest(char* at) writes what this kind of line has after the key, and returns its end.
template <class Put>
void watch_log::write(event kind, std::string_view type, std::string_view key, Put put_rest) noexcept {
  constexpr std::size_t most_beside_key = 320;
  std::array<char, 3 * byte_cache::largest_key + most_beside_key> line;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  char* at = put(put(line.data(), "ts="), static_cast<std::uint64_t>(now.tv_sec));
  *at++ = '.';
  constexpr long nanoseconds_a_microsecond = 1000;
  at = put(at, static_cast<std::uint64_t>(now.tv_nsec / nanoseconds_a_microsecond));
  at = put(at, " gid=");
  const std::lock_guard held(mutex_);
  at = put(at, ++lines_);
  at = put_escaped(put(put(put(at, " type="), type), " key="), key);
  at = put_rest(at);
  *at++ = '\n';
  const std::string_view text(line.data(), static_cast<std::size_t>(at - line.data()));
  for (watcher* const one : watchers_) {
    if (one == nullptr || !one->kinds_.has(kind)) continue;
    const bool fits = one->lines_.size() + text.size() <= bytes_;
    if (fits) one->lines_ += text;
    if (!fits) ++one->skipped_;
    ++(fits ? counts_.sent : counts_.skipped);
  }
}

namespace {

// All entries are of class 1.
char* put_end(char* at, std::size_t value_bytes) noexcept { return put(put(at, " size="), value_bytes); }
char* put_session(char* at, int session) noexcept {
  at = put(at, " clsid=1 cfd=");
  constexpr std::size_t digits = 11;
  return std::to_chars(at, at + digits, session).ptr;
}

}  // namespace

void watch_log::fetched(const subject& of, bool found) noexcept {
  write(event::fetch, "item_get", of.key, [&](char* at) {
    at = put(at, found ? " status=found" : " status=not_found");
    return put_end(put_session(at, of.session), of.value_bytes);
  });
}

void watch_log::stored(const subject& of, std::string_view status, std::string_view command,
                       std::uint32_t end) noexcept {
  write(event::mutation, "item_store", of.key, [&](char* at) {
    const std::uint32_t now = clock_.now();
    at = put(put(at, " status="), status);
    at = put(put(at, " cmd="), command);
    at = put(put(at, " ttl="), std::uint64_t{end == second_clock::never || end < now ? 0 : end - now});
    return put_end(put_session(at, of.session), of.value_bytes);
  });
}

void watch_log::erased(const subject& of, std::string_view command) noexcept {
  write(event::deletion, "deleted", of.key,
        [&](char* at) { return put_end(put(put(put(at, " cmd="), command), " clsid=1"), of.value_bytes); });
}

void watch_log::evicted(std::string_view key, const cache_entry& entry) noexcept {
  write(event::eviction, "eviction", key, [&](char* at) {
    const std::uint32_t now = clock_.now();
    at = put(at, entry.fetched ? " fetch=yes ttl=" : " fetch=no ttl=");
    at = entry.expires == cache_entry::never ? put(at, "-1")
                                             : put(at, entry.expires - std::min(now, entry.expires));
    at = put(put(at, " la="), std::uint64_t{now - std::min(now, entry.accessed)});
    return put_end(put(at, " clsid=1"), entry.value.size());
  });
}

}  // namespace espalier::memcached
