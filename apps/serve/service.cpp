#include "apps/serve/service.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>
#include <numeric>
#include <utility>

#include "apps/serve/base64.hpp"

namespace espalier::app::serving {
namespace {

constexpr std::int64_t second_us = 1'000'000;

std::int64_t microseconds_of(clockid_t which) noexcept {
  timespec now{};
  clock_gettime(which, &now);
  return std::int64_t{now.tv_sec} * second_us + now.tv_nsec / 1000;
}

cache_options with_clock(cache_options options, const second_clock& clock) {
  options.clock = &clock.seconds();
  return options;
}

template <class Value>
void stat(output& out, std::string_view name, const Value& value) {
  fmt::memory_buffer line;
  fmt::format_to(std::back_inserter(line), "STAT {} {}\r\n", name, value);
  out << std::string_view(line.data(), line.size());
}

std::string_view yes_or_no(bool is) { return is ? "yes" : "no"; }

std::string seconds_of(const timeval& time) { return fmt::format("{}.{:06}", time.tv_sec, time.tv_usec); }

constexpr std::string_view end_line = "END\r\n";

}  // namespace

second_clock::second_clock() {
  const std::int64_t calendar = microseconds_of(CLOCK_REALTIME);
  origin_ = calendar / second_us - first;
  origin_us_ = microseconds_of(CLOCK_MONOTONIC) - calendar % second_us - first * second_us;
}

std::uint64_t second_clock::advance() noexcept {
  const std::int64_t passed = microseconds_of(CLOCK_MONOTONIC) - origin_us_;
  // relaxed, all of it: seconds order nothing
  const auto now = static_cast<std::uint32_t>(passed / second_us) + moved_.load(std::memory_order_relaxed);
  std::uint32_t shown = seconds_.load(std::memory_order_relaxed);
  while (shown < now && !stands_.load(std::memory_order_relaxed) &&
         !seconds_.compare_exchange_weak(shown, now, std::memory_order_relaxed)) {
  }
  return static_cast<std::uint64_t>(second_us - passed % second_us);
}

void second_clock::move(std::uint32_t seconds) noexcept {
  // relaxed, all of it: seconds order nothing
  moved_.fetch_add(seconds, std::memory_order_relaxed);
  if (stands_.load(std::memory_order_relaxed))
    seconds_.fetch_add(seconds, std::memory_order_relaxed);
  else
    advance();
}

std::uint32_t second_clock::end_after(std::int64_t given) const noexcept {
  constexpr std::int64_t longest_delay = std::int64_t{60} * 60 * 24 * 30;
  if (given == 0) return cache_entry::never;
  if (given < 0) return 1;
  const std::int64_t end = given > longest_delay ? given - origin_ : given + now();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(end, 1, cache_entry::never - 1));
}

service::service(settings chosen, cache_options options)
    : settings_(std::move(chosen)),
      cache_(with_clock(options, clock_)),
      verbosity_(settings_.verbosity),
      detail_(settings_.detail) {}

counters& service::add_thread() {
  const std::lock_guard held(mutex_);
  return *threads_.emplace_back(std::make_unique<counters>());
}

std::uint64_t service::tick() noexcept {
  const std::uint64_t left = clock_.advance();
  // relaxed: the cache orders its flush
  std::uint32_t due = flush_due_.load(std::memory_order_relaxed);
  if (due != 0 && due <= clock_.now() &&
      flush_due_.compare_exchange_strong(due, 0, std::memory_order_relaxed))
    cache_.flush();
  // A minute for a gigabyte, and at most 16 MiB of memory to walk at once.
  cache_.reclaim_ended(64);
  return left;
}

void service::flush(std::int64_t delay) noexcept {
  const std::uint32_t now = clock_.now();
  const std::uint32_t due = delay > 0 ? clock_.end_after(delay) - 1 : now;
  flush_due_.store(due > now ? due : 0, std::memory_order_relaxed);  // relaxed: the cache orders its flush
  if (due != 0 && due <= now) cache_.flush();
}

void service::count_prefix(std::string_view key, prefix_count what) {
  const std::size_t end = key.find(settings_.prefix_end);
  if (end == std::string_view::npos) return;
  const std::string_view prefix = key.substr(0, end);
  const std::lock_guard held(mutex_);
  auto found = prefixes_.find(prefix);
  if (found == prefixes_.end()) found = prefixes_.try_emplace(std::string(prefix)).first;
  ++found->second[static_cast<std::size_t>(what)];
}

counts service::all_counts() {
  counts sum{};
  for (const auto& thread : threads_) {
    for (std::size_t kind = 0; kind < counted_kinds; ++kind) sum[kind] += thread->of(kind);
  }
  const cache_statistics cached = cache_.statistics();
  const auto set = [&sum](counted what, std::uint64_t count) { sum[static_cast<std::size_t>(what)] = count; };
  set(counted::stored, cached.stored);
  set(counted::found_expired, cached.found_expired);
  set(counted::found_flushed, cached.found_flushed);
  set(counted::evictions, cached.evictions);
  set(counted::evicted_unfetched, cached.evicted_unfetched);
  set(counted::evicted_with_end, cached.evicted_with_end);
  set(counted::expired, cached.expired);
  set(counted::expired_unfetched, cached.expired_unfetched);
  set(counted::evicting, cached.evicting);
  set(counted::walks, cached.walks);
  set(counted::walked, cached.walked);
  set(counted::walked_ended, cached.walked_ended);
  return sum;
}

counts service::counts_since_reset() {
  const std::lock_guard held(mutex_);
  counts sum = all_counts();
  for (std::size_t kind = 0; kind < counted_kinds; ++kind) sum[kind] -= at_reset_[kind];
  return sum;
}

void service::reset_statistics() {
  const std::lock_guard held(mutex_);
  at_reset_ = all_counts();
  prefixes_.clear();
}

void service::show_general(output& out) {
  const counts all = counts_since_reset();
  const cache_statistics cached = cache_.statistics();
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto count = [&](std::string_view name, counted what) {
    stat(out, name, all[static_cast<std::size_t>(what)]);
  };
  stat(out, "pid", getpid());
  stat(out, "uptime", clock_.uptime());
  stat(out, "time", clock_.origin() + clock_.now());
  stat(out, "version", spoken_version);
  stat(out, "pointer_size", 8 * sizeof(void*));
  stat(out, "rusage_user", seconds_of(used.ru_utime));
  stat(out, "rusage_system", seconds_of(used.ru_stime));
  stat(out, "max_connections", settings_.connections);
  // relaxed: a count, and whether it grows
  stat(out, "curr_connections", connections.load(std::memory_order_relaxed));
  count("total_connections", counted::accepted);
  count("rejected_connections", counted::rejected);
  count("cmd_get", counted::get_commands);
  count("cmd_set", counted::set_commands);
  count("cmd_flush", counted::flush_commands);
  count("cmd_touch", counted::touch_commands);
  count("cmd_meta", counted::meta_commands);
  count("get_hits", counted::get_hits);
  count("get_misses", counted::get_misses);
  count("get_expired", counted::found_expired);
  count("get_flushed", counted::found_flushed);
  count("delete_misses", counted::delete_misses);
  count("delete_hits", counted::delete_hits);
  count("incr_misses", counted::incr_misses);
  count("incr_hits", counted::incr_hits);
  count("decr_misses", counted::decr_misses);
  count("decr_hits", counted::decr_hits);
  count("cas_misses", counted::cas_misses);
  count("cas_hits", counted::cas_hits);
  count("cas_badval", counted::cas_mismatches);
  count("touch_hits", counted::touch_hits);
  count("touch_misses", counted::touch_misses);
  count("store_too_large", counted::too_large);
  count("store_no_memory", counted::out_of_memory);
  if (settings_.idle_timeout != 0) count("idle_kicks", counted::idle_kicks);
  // relaxed: a count
  stat(out, "read_buf_bytes", buffered.load(std::memory_order_relaxed));
  count("read_buf_oom", counted::lacking_buffers);
  count("bytes_read", counted::bytes_read);
  count("bytes_written", counted::bytes_written);
  stat(out, "limit_maxbytes", cache_.options().memory_limit);
  stat(out, "accepting_conns", accepting.load(std::memory_order_relaxed) ? 1 : 0);
  count("time_in_listen_disabled_us", counted::paused_us);
  count("listen_disabled_num", counted::accept_pauses);
  stat(out, "threads", settings_.threads);
  count("conn_yields", counted::yields);
  stat(out, "hash_bytes", cached.table_bytes);
  stat(out, "bytes", cached.entry_bytes);
  stat(out, "curr_items", cached.entries);
  count("total_items", counted::stored);
  count("evicted_unfetched", counted::evicted_unfetched);
  count("expired_unfetched", counted::expired_unfetched);
  count("evictions", counted::evictions);
  count("reclaimed", counted::expired);
  count("crawler_reclaimed", counted::walked_ended);
  count("crawler_items_checked", counted::walked);
  count("lru_crawler_starts", counted::walks);
  count("direct_reclaims", counted::evicting);
  count("malloc_fails", counted::lacking_memory);
  stat(out, "used_bytes", cached.used_bytes);
  stat(out, "survivors_copied", cached.copied);
  stat(out, "espalier", settings_.version);
  out << end_line;
}

void service::show_settings(output& out) {
  const settings& s = settings_;
  stat(out, "maxbytes", cache_.options().memory_limit);
  // What has ended is taken out once a second, by no thread of its own.
  stat(out, "lru_crawler", "yes");
  stat(out, "lru_maintainer_thread", "no");
  stat(out, "maxconns", s.connections);
  stat(out, "tcpport", s.port);
  stat(out, "udpport", 0);
  stat(out, "inter", s.listen.empty() ? "NULL" : s.listen);
  stat(out, "verbosity", verbosity());
  stat(out, "evictions", cache_.options().evicts ? "on" : "off");
  stat(out, "domain_socket", s.unix_path.empty() ? "NULL" : s.unix_path);
  stat(out, "umask", fmt::format("{:o}", s.unix_mask));
  stat(out, "shutdown_command", yes_or_no(s.shuts_down));
  stat(out, "num_threads", s.threads);
  stat(out, "stat_key_prefix", s.prefix_end);
  stat(out, "detail_enabled", yes_or_no(detail()));
  stat(out, "reqs_per_event", s.requests_per_turn);
  stat(out, "cas_enabled", yes_or_no(s.versions));
  stat(out, "tcp_backlog", s.backlog);
  stat(out, "binding_protocol", s.protocol);
  stat(out, "item_size_max", cache_.options().largest_entry);
  stat(out, "maxconns_fast", yes_or_no(s.rejects_at_limit));
  stat(out, "flush_enabled", yes_or_no(s.flushes));
  stat(out, "hash_algorithm", "xxh3");
  stat(out, "idle_timeout", s.idle_timeout);
  stat(out, "client_flags_size", sizeof(cache_entry::flags));
  out << end_line;
}

// Entries are not in classes by size: all are of class 1, whose pages are the segments.

void service::show_items(output& out) {
  const counts all = counts_since_reset();
  const cache_statistics cached = cache_.statistics();
  const auto count = [&](std::string_view name, counted what) {
    stat(out, name, all[static_cast<std::size_t>(what)]);
  };
  if (cached.entries != 0) {
    stat(out, "items:1:number", cached.entries);
    stat(out, "items:1:age", cached.oldest);
    stat(out, "items:1:mem_requested", cached.entry_bytes);
    count("items:1:evicted", counted::evictions);
    count("items:1:evicted_nonzero", counted::evicted_with_end);
    stat(out, "items:1:evicted_time", cached.evicted_idle);
    count("items:1:evicted_unfetched", counted::evicted_unfetched);
    count("items:1:outofmemory", counted::out_of_memory);
    count("items:1:reclaimed", counted::expired);
    count("items:1:expired_unfetched", counted::expired_unfetched);
    count("items:1:crawler_reclaimed", counted::walked_ended);
    count("items:1:crawler_items_checked", counted::walked);
    count("items:1:direct_reclaims", counted::evicting);
  }
  out << end_line;
}

void service::show_slabs(output& out) {
  const counts all = counts_since_reset();
  const cache_statistics cached = cache_.statistics();
  const auto count = [&](std::string_view name, counted what) {
    stat(out, name, all[static_cast<std::size_t>(what)]);
  };
  stat(out, "1:chunk_size", cached.segment_bytes);
  stat(out, "1:chunks_per_page", 1);
  stat(out, "1:total_pages", cached.segments);
  stat(out, "1:total_chunks", cached.segments);
  stat(out, "1:used_chunks", cached.segments);
  stat(out, "1:free_chunks", 0);
  stat(out, "1:free_chunks_end", 0);
  count("1:get_hits", counted::get_hits);
  count("1:cmd_set", counted::set_commands);
  count("1:delete_hits", counted::delete_hits);
  count("1:incr_hits", counted::incr_hits);
  count("1:decr_hits", counted::decr_hits);
  count("1:cas_hits", counted::cas_hits);
  count("1:cas_badval", counted::cas_mismatches);
  count("1:touch_hits", counted::touch_hits);
  stat(out, "active_slabs", 1);
  stat(out, "total_malloced", cached.used_bytes);
  out << end_line;
}

void service::show_prefixes(output& out) {
  {
    const std::lock_guard held(mutex_);
    for (const auto& [prefix, n] : prefixes_)
      out << fmt::format("PREFIX {} get {} hit {} set {} del {}\r\n", prefix, n[0], n[1], n[2], n[3]);
  }
  out << end_line;
}

void service::show_keys(output& out, std::uint64_t most) {
  constexpr std::size_t most_bytes = std::size_t{2} << 20U;
  const std::size_t before = out.size();
  std::uint64_t shown = 0;
  cache_.for_each([&](std::string_view key, const cache_entry& entry) {
    // A meta command may have given a key that no line can show.
    if (key.find_first_of(" \n") != std::string_view::npos) return true;
    const std::int64_t end = entry.expires == cache_entry::never ? 0 : clock_.origin() + entry.expires;
    const std::string line = fmt::format("ITEM {} [{} b; {} s]\r\n", key, entry.value.size(), end);
    if (out.size() - before + line.size() + end_line.size() > most_bytes) return false;
    out << line;
    return ++shown != most;
  });
  out << end_line;
}

bool service::show_entries(output& out, dump as, std::size_t& place) {
  const std::size_t most_bytes = std::min(settings_.replies_at_once, std::size_t{64} << 10U);
  constexpr unsigned most_parts = 4096;  // they may be empty
  const auto show = [&](std::string_view key, const cache_entry& entry) {
    if (as == dump::commands)
      put_command(out, key);
    else
      put_properties(out, key, entry);
  };
  for (unsigned parts = 0; parts < most_parts && out.size() < most_bytes; ++parts) {
    if (cache_.visit_part(place, show)) continue;
    out << (as == dump::commands ? std::string_view("EN\r\n") : end_line);
    return false;
  }
  return true;
}

/// `mg KEY`, with the key in base64 where a line could not show it.
void service::put_command(output& out, std::string_view key) {
  constexpr std::size_t most = 2 * byte_cache::largest_key + 16;
  char* const room = out.room(most);
  if (room == nullptr) return;
  const bool is_plain =
      std::ranges::all_of(key, [](char c) { return static_cast<unsigned char>(c) > ' ' && c != '\x7f'; });
  out << "mg ";
  out.wrote(is_plain ? std::ranges::copy(key, room + 3).out : put_base64(room + 3, key));
  out << (is_plain ? "\r\n" : " b\r\n");
}

/// The key as in a URI, and memcached's names of properties. Only "\n" ends the line, as there.
void service::put_properties(output& out, std::string_view key, const cache_entry& e) const {
  std::array<char, 3 * byte_cache::largest_key> escaped;
  std::size_t size = 0;
  for (const char c : key) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                          c == '-' || c == '.' || c == '_' || c == '~';
    if (!is_plain) escaped[size++] = '%';
    if (!is_plain) escaped[size++] = digits[byte >> 4U];
    escaped[size++] = is_plain ? c : digits[byte & 15U];
  }
  const auto calendar = [this](std::uint32_t second) {
    return static_cast<std::uint64_t>(clock_.origin() + second);
  };
  out << "key=" << std::string_view(escaped.data(), size) << " exp=";
  if (e.expires == cache_entry::never)
    out << "-1";
  else
    out << calendar(e.expires);
  out << " la=" << calendar(e.accessed) << " cas=" << (settings_.versions ? e.version : 0)
      << " fetch=" << (e.fetched ? "yes" : "no")
      << " cls=1 size=" << std::uint64_t{key.size() + e.value.size()} << " flags=" << std::uint64_t{e.flags}
      << " \n";
}

void service::show_connections(output& out) {
  if (list_connections) list_connections(out);
  out << end_line;
}

}  // namespace espalier::app::serving
