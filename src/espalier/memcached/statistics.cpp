#include "espalier/memcached/statistics.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string>

#include "espalier/memcached/service.hpp"

namespace espalier::memcached {
namespace {

/// What the cache counts from its start.
using all = cache_statistics;
constexpr std::array<std::uint64_t all::*, 12> counted_by_cache{
    {&all::stored, &all::found_expired, &all::found_flushed, &all::evictions, &all::evicted_unfetched,
     &all::evicted_with_end, &all::expired, &all::expired_unfetched, &all::evicting, &all::walks,
     &all::walked, &all::walked_ended}};

/// Writes rows of statistics.
class rows : public statistics::totals {
 public:
  rows(service& of, output& out) : totals(of.stats().since_reset()), out_(out) {}
  ~rows() { out_ << "END\r\n"; }

  template <class Value>
  void operator()(std::string_view name, const Value& value) {
    out_ << "STAT " << name << ' ' << value << "\r\n";
  }
  void operator()(std::string_view name, counted what) { (*this)(name, own[static_cast<std::size_t>(what)]); }

 private:
  output& out_;
};

std::string_view yes_or_no(bool is) { return is ? "yes" : "no"; }

std::string octal(unsigned number) {
  std::array<char, 12> digits;
  return {digits.data(), std::to_chars(digits.begin(), digits.end(), number, 8).ptr};
}

std::string seconds_of(const timeval& time) {
  const std::string fraction = std::to_string(time.tv_usec);
  return std::to_string(time.tv_sec) + '.' + std::string(6 - fraction.size(), '0') + fraction;
}

}  // namespace

counters& statistics::add_thread() {
  const std::lock_guard held(mutex_);
  return *threads_.emplace_back(std::make_unique<counters>());
}

statistics::totals statistics::since_start() const {
  totals sum{.cached = cache_.statistics()};
  for (const auto& thread : threads_) {
    for (std::size_t kind = 0; kind < counted_kinds; ++kind) sum.own[kind] += thread->of(kind);
  }
  return sum;
}

statistics::totals statistics::since_reset() {
  const std::lock_guard held(mutex_);
  totals sum = since_start();
  for (std::size_t kind = 0; kind < counted_kinds; ++kind) sum.own[kind] -= at_reset_.own[kind];
  for (const auto count : counted_by_cache) sum.cached.*count -= at_reset_.cached.*count;
  return sum;
}

void statistics::reset() {
  const std::lock_guard held(mutex_);
  at_reset_ = since_start();
  prefixes_.clear();
}

void statistics::count_prefix(std::string_view key, char prefix_end, prefix_count what) {
  const std::size_t end = key.find(prefix_end);
  if (end == std::string_view::npos) return;
  const std::string_view prefix = key.substr(0, end);
  const std::lock_guard held(mutex_);
  auto found = prefixes_.find(prefix);
  if (found == prefixes_.end()) found = prefixes_.try_emplace(std::string(prefix)).first;
  ++found->second[static_cast<std::size_t>(what)];
}

void statistics::show_prefixes(output& out) {
  {
    const std::lock_guard held(mutex_);
    for (const auto& [prefix, n] : prefixes_)
      out << "PREFIX " << prefix << " get " << n[0] << " hit " << n[1] << " set " << n[2] << " del " << n[3]
          << "\r\n";
  }
  out << "END\r\n";
}

void show_general(service& of, output& out) {
  rows row(of, out);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  row("pid", getpid());
  row("uptime", of.clock().uptime());
  row("time", of.clock().origin() + of.clock().now());
  row("version", spoken_version);
  row("pointer_size", 8 * sizeof(void*));
  row("rusage_user", seconds_of(used.ru_utime));
  row("rusage_system", seconds_of(used.ru_stime));
  row("max_connections", of.chosen().transport.connections);
  // relaxed: a count, and whether it grows
  row("curr_connections", of.connections.load(std::memory_order_relaxed));
  row("total_connections", counted::accepted);
  row("rejected_connections", counted::rejected);
  row("cmd_get", counted::get_commands);
  row("cmd_set", counted::set_commands);
  row("cmd_flush", counted::flush_commands);
  row("cmd_touch", counted::touch_commands);
  row("cmd_meta", counted::meta_commands);
  row("get_hits", counted::get_hits);
  row("get_misses", counted::get_misses);
  row("get_expired", row.cached.found_expired);
  row("get_flushed", row.cached.found_flushed);
  row("delete_misses", counted::delete_misses);
  row("delete_hits", counted::delete_hits);
  row("incr_misses", counted::incr_misses);
  row("incr_hits", counted::incr_hits);
  row("decr_misses", counted::decr_misses);
  row("decr_hits", counted::decr_hits);
  row("cas_misses", counted::cas_misses);
  row("cas_hits", counted::cas_hits);
  row("cas_badval", counted::cas_mismatches);
  row("touch_hits", counted::touch_hits);
  row("touch_misses", counted::touch_misses);
  row("auth_cmds", counted::log_ins);
  row("auth_errors", counted::refused_log_ins);
  row("store_too_large", counted::too_large);
  row("store_no_memory", counted::out_of_memory);
  if (of.chosen().transport.idle_timeout != 0) row("idle_kicks", counted::idle_kicks);
  if (of.chosen().transport.tls.is_on) {
    // relaxed: a time to show
    row("time_since_server_cert_refresh",
        of.clock().now() - of.certificates_read.load(std::memory_order_relaxed));
    row("ssl_handshake_errors", counted::tls_failures);
  }
  // relaxed: a count
  row("read_buf_bytes", of.buffered.load(std::memory_order_relaxed));
  row("read_buf_oom", counted::lacking_buffers);
  row("bytes_read", counted::bytes_read);
  row("bytes_written", counted::bytes_written);
  row("limit_maxbytes", of.cache().memory_limit());
  row("accepting_conns", of.accepting.load(std::memory_order_relaxed) ? 1 : 0);
  row("time_in_listen_disabled_us", counted::paused_us);
  row("listen_disabled_num", counted::accept_pauses);
  row("threads", of.chosen().transport.threads);
  row("conn_yields", counted::yields);
  row("hash_bytes", row.cached.table_bytes);
  row("bytes", row.cached.entry_bytes);
  row("curr_items", row.cached.entries);
  row("total_items", row.cached.stored);
  row("evicted_unfetched", row.cached.evicted_unfetched);
  row("expired_unfetched", row.cached.expired_unfetched);
  row("evictions", row.cached.evictions);
  row("reclaimed", row.cached.expired);
  row("crawler_reclaimed", row.cached.walked_ended);
  row("crawler_items_checked", row.cached.walked);
  row("lru_crawler_starts", row.cached.walks);
  row("direct_reclaims", row.cached.evicting);
  row("malloc_fails", counted::lacking_memory);
  const watch_log::counts watched = of.watched().count();
  row("log_watchers", watched.watchers);
  row("log_watcher_skipped", watched.skipped);
  row("log_watcher_sent", watched.sent);
  row("used_bytes", row.cached.used_bytes);
  row("survivors_copied", row.cached.copied);
  row("espalier", of.chosen().version);
}

void show_settings(service& of, output& out) {
  rows row(of, out);
  const settings& s = of.chosen();
  const transport_settings& t = s.transport;
  row("maxbytes", of.cache().memory_limit());
  // What has ended is taken out once a second, by no thread of its own.
  row("lru_crawler", "yes");
  row("lru_maintainer_thread", "no");
  row("maxconns", t.connections);
  row("tcpport", t.port);
  row("udpport", 0);
  row("inter", t.listen.empty() ? "NULL" : t.listen);
  row("verbosity", of.verbosity());
  row("evictions", of.cache().options().evicts ? "on" : "off");
  row("domain_socket", t.unix_path.empty() ? "NULL" : t.unix_path);
  row("umask", octal(t.unix_mask));
  row("shutdown_command", yes_or_no(s.shuts_down));
  row("num_threads", t.threads);
  row("stat_key_prefix", s.prefix_end);
  row("detail_enabled", yes_or_no(of.detail()));
  row("reqs_per_event", t.requests_per_turn);
  row("cas_enabled", yes_or_no(s.versions));
  row("tcp_backlog", t.backlog);
  row("binding_protocol", t.protocol);
  row("memory_file", s.memory_file.empty() ? "NULL" : s.memory_file);
  row("auth_enabled_sasl", yes_or_no(t.protocol == "binary" && !s.auth_file.empty()));
  row("auth_enabled_ascii", s.auth_file.empty() ? "no" : s.auth_file);
  row("item_size_max", of.cache().options().largest_entry);
  row("maxconns_fast", yes_or_no(t.rejects_at_limit));
  row("flush_enabled", yes_or_no(s.flushes));
  row("watch_enabled", yes_or_no(s.watches));
  row("hash_algorithm", "xxh3");
  row("idle_timeout", t.idle_timeout);
  row("client_flags_size", sizeof(cache_entry::flags));
  const auto or_null = [](const std::string& text) { return text.empty() ? "NULL" : text; };
  row("ssl_enabled", yes_or_no(t.tls.is_on));
  row("ssl_chain_cert", or_null(t.tls.chain));
  row("ssl_key", or_null(t.tls.key));
  row("ssl_verify_mode", t.tls.verify_mode);
  row("ssl_keyformat", t.tls.key_is_der ? 2 : 1);
  row("ssl_ciphers", or_null(t.tls.ciphers));
  row("ssl_ca_cert", or_null(t.tls.authorities));
  row("ssl_wbuf_size", t.tls.write_buffer);
  row("ssl_session_cache", yes_or_no(t.tls.caches_sessions));
  row("ssl_kernel_tls", "no");
  row("ssl_min_version", "tlsv1." + std::to_string(t.tls.least_version));
}

// Entries are not in classes by size: all are of class 1, whose pages are the segments.

void show_items(service& of, output& out) {
  rows row(of, out);
  if (row.cached.entries != 0) {
    row("items:1:number", row.cached.entries);
    row("items:1:age", row.cached.oldest);
    row("items:1:mem_requested", row.cached.entry_bytes);
    row("items:1:evicted", row.cached.evictions);
    row("items:1:evicted_nonzero", row.cached.evicted_with_end);
    row("items:1:evicted_time", row.cached.evicted_idle);
    row("items:1:evicted_unfetched", row.cached.evicted_unfetched);
    row("items:1:outofmemory", counted::out_of_memory);
    row("items:1:reclaimed", row.cached.expired);
    row("items:1:expired_unfetched", row.cached.expired_unfetched);
    row("items:1:crawler_reclaimed", row.cached.walked_ended);
    row("items:1:crawler_items_checked", row.cached.walked);
    row("items:1:direct_reclaims", row.cached.evicting);
  }
}

void show_slabs(service& of, output& out) {
  rows row(of, out);
  row("1:chunk_size", row.cached.segment_bytes);
  row("1:chunks_per_page", 1);
  row("1:total_pages", row.cached.segments);
  row("1:total_chunks", row.cached.segments);
  row("1:used_chunks", row.cached.segments);
  row("1:free_chunks", 0);
  row("1:free_chunks_end", 0);
  row("1:get_hits", counted::get_hits);
  row("1:cmd_set", counted::set_commands);
  row("1:delete_hits", counted::delete_hits);
  row("1:incr_hits", counted::incr_hits);
  row("1:decr_hits", counted::decr_hits);
  row("1:cas_hits", counted::cas_hits);
  row("1:cas_badval", counted::cas_mismatches);
  row("1:touch_hits", counted::touch_hits);
  row("active_slabs", 1);
  row("total_malloced", row.cached.used_bytes);
}

}  // namespace espalier::memcached
