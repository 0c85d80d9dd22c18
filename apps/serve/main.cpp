#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <link.h>
#include <malloc.h>
#include <pwd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "apps/common/exit_status.hpp"
#include "apps/common/option_checks.hpp"
#include "apps/serve/listeners.hpp"
#include "apps/serve/memory_file.hpp"
#include "apps/serve/options.hpp"
#include "apps/serve/pid_file.hpp"
#include "apps/serve/server.hpp"
#include "apps/serve/tls.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/hw/process.hpp"
#include "espalier/io/text.hpp"
#include "espalier/memcached/service.hpp"

// espalier-serve, which `espalier serve` runs: a cache server with memcached's protocol and options. It is a separate
// program because everything that a program is linked with takes memory.

namespace espalier::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* command_name = "espalier serve";

constexpr std::size_t kibibyte = 1024;
constexpr std::size_t mebibyte = kibibyte * kibibyte;

/// Bytes, with k or m for units of 1024.
std::size_t bytes_of(const std::string& text) {
  std::string_view digits = text;
  std::size_t unit = 1;
  if (!digits.empty() && (digits.back() == 'k' || digits.back() == 'K')) unit = kibibyte;
  if (!digits.empty() && (digits.back() == 'm' || digits.back() == 'M')) unit = mebibyte;
  if (unit != 1) digits.remove_suffix(1);
  const auto number = io::parse_whole<std::uint32_t>(digits);
  if (!number) throw usage_error(fmt::format("-I {}: a size is bytes, or a number with k or m", text));
  return *number * unit;
}

/// A setting of TLS. False: it is not one.
bool read_tls_setting(memcached::tls_settings& tls, const std::string& name, const std::string& value) {
  const auto number = [&](unsigned least, unsigned most) {
    const auto read = io::parse_whole<unsigned>(value);
    if (!read || *read < least || *read > most)
      throw usage_error(fmt::format("-o {}={}: it is a number from {} to {}", name, value, least, most));
    return *read;
  };
  const std::array<std::pair<std::string_view, std::string*>, 4> texts{{{"ssl_chain_cert", &tls.chain},
                                                                        {"ssl_key", &tls.key},
                                                                        {"ssl_ca_cert", &tls.authorities},
                                                                        {"ssl_ciphers", &tls.ciphers}}};
  for (const auto& [known, to] : texts) {
    if (name != known) continue;
    // Read again later, when the folder may be another one.
    *to = to == &tls.ciphers || value.empty() ? value : fs::absolute(value).string();
    return true;
  }
  if (name == "ssl_verify_mode")
    tls.verify_mode = number(0, 3);
  else if (name == "ssl_min_version")
    tls.least_version = number(0, 3);
  else if (name == "ssl_keyformat")
    tls.key_is_der = number(1, 2) == 2;
  else if (name == "ssl_wbuf_size")
    tls.write_buffer = number(1, 1U << 20U) * kibibyte;
  else if (name == "ssl_session_cache")
    tls.caches_sessions = true;
  else
    return false;
  return true;
}

/// Whether a setting is one of memcached's slabs, LRUs, threads and hash table.
bool tunes_memcached(std::string_view name) {
  if (name.starts_with("no_")) name.remove_prefix(3);
  constexpr std::array beginnings{"slab_",         "lru_",  "hash", "tail_repair_time",
                                  "temporary_ttl", "warm_", "hot_"};
  return name == "modern" || name == "relaxed_privileges" || name == "inline_ascii_resp" ||
         name == "track_sizes" || name == "worker_logbuf_size" ||
         std::ranges::any_of(beginnings, [name](const char* begin) { return name.starts_with(begin); });
}

void read_extended(serve_options& o) {
  o.transport.tls.is_on = o.tls;
  for (const std::string& item : o.extended) {
    const std::size_t equals = item.find('=');
    const std::string name = item.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : item.substr(equals + 1);
    if (name == "idle_timeout") {
      const auto seconds = io::parse_whole<unsigned>(value);
      if (!seconds) throw usage_error(fmt::format("-o {}: it needs a number of seconds", item));
      o.transport.idle_timeout = *seconds;
    } else if (name == "watcher_logbuf_size") {
      const auto kilobytes = io::parse_whole<unsigned>(value);
      constexpr unsigned most = 1U << 20U;
      if (!kilobytes || *kilobytes < 2 || *kilobytes > most)
        throw usage_error(fmt::format("-o {}: it needs a number of kilobytes, from 2", item));
      o.watcher_bytes = *kilobytes * kibibyte;
    } else if (read_tls_setting(o.transport.tls, name, value)) {
      if (!o.tls) throw usage_error(fmt::format("-o {}: it has an effect with -Z alone", name));
    } else if (tunes_memcached(name)) {
      o.ignored.push_back("-o " + name);
    } else if (name != "maxconns_fast" && name != "no_maxconns_fast") {
      throw usage_error(
          fmt::format("-o {}: there is no such setting; idle_timeout=N, maxconns_fast, no_maxconns_fast, "
                      "watcher_logbuf_size=KB and, for -Z, ssl_... are. Those of "
                      "memcached for extstore and the proxy have no counterpart here",
                      name));
    }
  }
}

void check_numbers(const serve_options& o) {
  if (o.tls && o.transport.tls.chain.empty())
    throw usage_error("-Z: name the server's certificate with -o ssl_chain_cert=FILE");
  if (o.tls && o.transport.tls.key.empty())
    throw usage_error("-Z: name the certificate's key with -o ssl_key=FILE");
  if (o.port < -1 || o.port > 65535)
    throw usage_error("-p is a port up to 65535, 0 for none, or -1 for any free one");
  if (o.udp_port != 0) throw usage_error("-U: UDP is not supported; leave it out, or give 0");
  if (o.transport.threads == 0 || o.transport.threads > 1024)
    throw usage_error("-t is from 1 to 1024 threads");
  if (o.transport.connections == 0) throw usage_error("-c is at least 1 connection");
  if (o.transport.requests_per_turn == 0) throw usage_error("-R is at least 1 request");
  if (o.transport.backlog == 0 || o.transport.backlog > 1U << 30U)
    throw usage_error(fmt::format("-b is from 1 to {} connections", 1U << 30U));
  if (o.memory_mb == 0 || o.memory_mb > byte_cache::highest_limit / mebibyte)
    throw usage_error(fmt::format("-m is from 1 to {} megabytes", byte_cache::highest_limit / mebibyte));
  if (o.prefix_end.size() > 1) throw usage_error("-D is one character");
  if (o.protocol != "ascii" && o.protocol != "auto" && o.protocol != "binary")
    throw usage_error(fmt::format("-B is ascii, binary or auto, not '{}'", o.protocol));
  if (o.sasl && o.auth_file.empty())
    throw usage_error("-S: name the users with -Y FILE; SASL has the mechanism PLAIN");
  if (o.sasl && o.protocol == "ascii") throw usage_error("-S: SASL is of the binary protocol; leave -B out");
}

cache_options cache_of(const serve_options& o) {
  cache_options c;
  c.memory_limit = o.memory_mb * mebibyte;
  // The command cache_memlimit may grow it to the memory of the machine.
  const auto pages = static_cast<std::size_t>(std::max(sysconf(_SC_PHYS_PAGES), 0L));
  c.largest_limit = std::clamp(pages * hw::page_size(), c.memory_limit,
                               std::max(c.memory_limit, byte_cache::highest_limit));
  c.evicts = !o.keeps_all;
  c.largest_entry = bytes_of(o.largest_item);
  if (c.largest_entry < kibibyte || c.largest_entry > largest_item)
    throw usage_error(fmt::format("-I {}: the largest item is from 1k to 128m", o.largest_item));
  if (c.largest_entry > c.memory_limit / 2)
    throw usage_error(
        fmt::format("-I {}: the largest item is at most half of the memory, which is {}m; give -m more",
                    o.largest_item, o.memory_mb));
  return c;
}

memcached::settings settings_of(const serve_options& o) {
  memcached::settings s;
  memcached::transport_settings& t = s.transport = o.transport;
  s.version = ESPALIER_VERSION;
  t.rejects_at_limit = std::ranges::find(o.extended, "no_maxconns_fast") == o.extended.end();
  t.port = static_cast<int>(o.port);
  for (const std::string& item : o.listen) t.listen += (t.listen.empty() ? "" : ",") + item;
  if (!o.unix_path.empty()) t.unix_path = fs::absolute(o.unix_path);
  const auto mask = io::parse_whole<unsigned>(o.unix_mask, 8);
  if (!mask || *mask > 0777) throw usage_error(fmt::format("-a {}: a mask is octal, up to 777", o.unix_mask));
  t.unix_mask = *mask;
  t.protocol = o.sasl ? "binary" : o.protocol == "auto" ? "auto-negotiate" : o.protocol;
  if (!o.memory_file.empty()) s.memory_file = fs::absolute(o.memory_file);
  if (!o.auth_file.empty()) s.auth_file = fs::absolute(o.auth_file);
  s.versions = !o.no_versions;
  s.flushes = !o.no_flush;
  s.watches = !o.no_watch;
  s.watcher_bytes = o.watcher_bytes;
  s.shuts_down = o.shuts_down;
  s.test_clock = o.test_clock;
  s.detail = !o.prefix_end.empty();
  if (s.detail) s.prefix_end = o.prefix_end.front();
  s.verbosity = static_cast<unsigned>(o.verbosity);
  return s;
}

memcached::users users_of(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream lines;
  if (!in || !(lines << in.rdbuf()))
    throw usage_error(fmt::format("-Y {}: it cannot be read, or is empty", file));
  try {
    return memcached::users(lines.str());
  } catch (const std::invalid_argument& wrong) {
    throw usage_error(fmt::format("-Y {}: {}", file, wrong.what()));
  }
}

void warn(const std::string& what) { std::fprintf(stderr, "%s: %s\n", command_name, what.c_str()); }

/// Allows descriptors for all connections and for the server itself. Where the system allows fewer, the server takes fewer
/// connections.
void allow_descriptors(serve_options& o) {
  const rlim_t others = 2 * rlim_t{o.transport.threads} + 64;
  const rlim_t needed = o.transport.connections + others;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= needed) return;
  const rlimit raised{needed, std::max(limit.rlim_max, needed)};
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max <= others)
    throw usage_error(
        fmt::format("this process may have {} open files, and {} threads need {} without connections; give "
                    "-t less, or raise the limit with ulimit -n",
                    limit.rlim_max, o.transport.threads, others));
  const auto fewer = static_cast<unsigned>(limit.rlim_max - others);
  warn(
      fmt::format("-c {}: this process may have {} open files, which are {} connections; raise the limit "
                  "with ulimit -n, or systemd's LimitNOFILE",
                  o.transport.connections, limit.rlim_max, fewer));
  o.transport.connections = fewer;
}

/// Warns if the limit is above the memory that is available.
void compare_memory(const serve_options& o) {
  const auto available = hw::available_memory_bytes();
  if (available && *available / mebibyte < o.memory_mb)
    warn(fmt::format("-m {}: {} MB of memory are available now; what comes on top may end the server",
                     o.memory_mb, *available / mebibyte));
}

std::unique_ptr<memcached::service> make_service(const serve_options& o, const memcached::settings& settings,
                                                 const cache_options& memory) {
  try {
    return std::make_unique<memcached::service>(settings, memory);
  } catch (const std::bad_alloc&) {
    const auto available = hw::available_memory_bytes();
    throw usage_error(fmt::format(
        "-m {}: the system does not provide that many megabytes{}; give -m less", o.memory_mb,
        available ? fmt::format(", of which {} are available", *available / mebibyte) : std::string()));
  }
}

struct user {
  uid_t id = 0;
  gid_t group = 0;
};

std::optional<user> user_of(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (geteuid() != 0) {
    const passwd* const self = getpwuid(geteuid());
    if (self != nullptr && name == self->pw_name) return std::nullopt;
    throw usage_error(
        fmt::format("-u {}: only root can become another user; start as root, or leave it out", name));
  }
  const passwd* const found = getpwnam(name.c_str());
  if (found == nullptr) throw usage_error(fmt::format("-u {}: there is no such user", name));
  return user{found->pw_uid, found->pw_gid};
}

void become(const std::string& name, const user& one) {
  if (initgroups(name.c_str(), one.group) != 0 || setgid(one.group) != 0 || setuid(one.id) != 0)
    throw usage_error(fmt::format("-u {}: {}", name, std::strerror(errno)));
}

/// Whether this process may remove a file.
bool may_remove(const std::string& path) {
  const std::string folder = fs::path(path).parent_path();
  struct stat above{};
  struct stat file{};
  if (stat(folder.c_str(), &above) != 0 || lstat(path.c_str(), &file) != 0) return false;
  const uid_t self = geteuid();
  const bool is_kept =
      (above.st_mode & S_ISVTX) != 0 && self != above.st_uid && self != file.st_uid && self != 0;
  return !is_kept && faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
}

/// A file that the new user may not remove stays when the server ends. The next start replaces it.
void warn_of_what_stays(const serve_options& o, const std::string& option, const std::string& path,
                        std::string_view how) {
  if (!path.empty() && !may_remove(path))
    warn(fmt::format("{} {}: '{}' may not remove it from its folder: it stays{} when the server ends", option,
                     path, o.user, how));
}

/// A process in the background. The process that was started ends when the server is ready, or with the server's status.
class background {
 public:
  background() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw usage_error(fmt::format("-d: {}", std::strerror(errno)));
    const pid_t child = fork();
    if (child < 0) throw usage_error(fmt::format("-d: {}", std::strerror(errno)));
    if (child != 0) {
      close(ends[1]);
      char is_ready = 0;
      if (read(ends[0], &is_ready, 1) == 1) _exit(exit_done);
      int status = 0;
      waitpid(child, &status, 0);
      _exit(WIFEXITED(status) ? WEXITSTATUS(status) : exit_failure);
    }
    close(ends[0]);
    ready_ = ends[1];
    setsid();
  }
  background(const background&) = delete;
  background& operator=(const background&) = delete;
  ~background() { close(ready_); }

  void is_ready(bool keeps_errors) {
    if (chdir("/") != 0) throw usage_error(fmt::format("-d: {}", std::strerror(errno)));
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
    if (!keeps_errors) dup2(nothing, STDERR_FILENO);
    close(nothing);
    [[maybe_unused]] const ssize_t written = ::write(ready_, "r", 1);
  }

 private:
  int ready_ = -1;
};

/// Holds back the signals that end the server while it cannot handle them, so that no file stays.
class signals_that_wait {
 public:
  signals_that_wait() noexcept { hold_back(); }
  void hold_back() const noexcept { set(SIG_BLOCK); }
  void let_through() const noexcept { set(SIG_UNBLOCK); }

 private:
  static void set(int how) noexcept {
    sigset_t all;
    sigemptyset(&all);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) sigaddset(&all, signal);
    pthread_sigmask(how, &all, nullptr);
  }
};

/// Buffers of connections come and go. By default glibc keeps in each thread twice the largest one that it has freed.
void free_buffers_early() noexcept {
#ifdef __GLIBC__
  constexpr int kept = 512 << 10;
  mallopt(M_MMAP_THRESHOLD, kept);
  mallopt(M_TRIM_THRESHOLD, kept);
#endif
}

/// Drops the pages of code. Most of the start's code does not run again; the kernel reads the pages that do from the file.
void drop_code_of_start() noexcept {
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void*) {
        for (const ElfW(Phdr) & part : std::span(object->dlpi_phdr, object->dlpi_phnum)) {
          if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0 || (part.p_flags & PF_W) != 0) continue;
          const std::uintptr_t page = hw::page_size();
          const std::uintptr_t begin = object->dlpi_addr + part.p_vaddr;
          const std::uintptr_t first = begin / page * page;
          madvise(std::bit_cast<void*>(first), begin + part.p_filesz - first, MADV_DONTNEED);
        }
        return 0;
      },
      nullptr);
}

int serve(serve_options o, char** arguments) {
  if (o.tls) serving::become_program_with_tls(arguments);
  read_extended(o);
  check_numbers(o);
  const cache_options memory = cache_of(o);
  const std::optional<user> other = user_of(o.user);
  allow_descriptors(o);
  const memcached::settings settings = settings_of(o);
  if (!settings.auth_file.empty()) static_cast<void>(users_of(settings.auth_file));
  std::optional<serving::tls_context> tls;
  if (o.tls) tls.emplace(o.transport.tls);
  const serving::listeners sockets(settings.transport);
  if (!o.ignored.empty())
    warn(
        fmt::format("{}: no effect here, where there are no slabs, no LRUs and nothing to tune; leave it out",
                    fmt::join(o.ignored, ", ")));
  const signals_that_wait waiting;
  serving::pid_file process(o.pid_file);
  for (const std::string& one : sockets.left_out()) warn(one);
  const char* const named = std::getenv("MEMCACHED_PORT_FILENAME");
  const fs::path ports = named != nullptr ? fs::absolute(named) : fs::path();
  free_buffers_early();
  std::optional<background> detached;
  if (o.daemon) detached.emplace();
  signal(SIGPIPE, SIG_IGN);
  process.write();
  // Last: programs wait for this file.
  if (!ports.empty()) sockets.write_ports(ports);
  if (other) {
    sockets.give_to(other->id, other->group);
    become(o.user, *other);
    warn_of_what_stays(o, "-s", settings.transport.unix_path, "");
    warn_of_what_stays(o, "-P", process.path(), ", empty,");
  }
  const std::unique_ptr<memcached::service> shared = make_service(o, settings, memory);
  compare_memory(o);
  const std::string& user_file = settings.auth_file;
  if (!user_file.empty()) shared->set_users(users_of(user_file));
  const auto note_certificates = [&shared = *shared] {
    // relaxed: a time to show
    shared.certificates_read.store(shared.clock().now(), std::memory_order_relaxed);
  };
  note_certificates();
  shared->reload = [&] {
    if (tls) tls->reload();
    note_certificates();
    if (!user_file.empty()) shared->set_users(users_of(user_file));
  };
  std::optional<serving::memory_file> kept;
  if (const std::string& file = settings.memory_file; !file.empty()) {
    kept.emplace(file);
    if (const std::string why = kept->load(*shared); !why.empty())
      warn(fmt::format("-e {}: {}; the cache starts empty", file, why));
  }
  std::optional<serving::server> server;
  server.emplace(*shared, sockets, tls ? &*tls : nullptr);
  if (detached) detached->is_ready(o.verbosity > 0);
  drop_code_of_start();
  waiting.let_through();
  const bool keeps_entries = server->run();
  // Until the entries are written: without the server a second signal would end the process.
  waiting.hold_back();
  server.reset();
  if (kept && keeps_entries) {
    if (const std::string why = kept->save(*shared); !why.empty()) {
      warn(fmt::format("-e {}: {}; the next cache starts empty", settings.memory_file, why));
      return exit_failure;
    }
  }
  return exit_done;
}

}  // namespace
}  // namespace espalier::app

int main(int argc, char** argv) {
  using namespace espalier::app;
  const char* const name = command_name;
  serve_options options;
  bool serves = false;
  {
    // Freed before the server runs.
    CLI::App parser(serve_description, name);
    parser.failure_message(CLI::FailureMessage::simple);
    declare(parser, options);
    parser.callback([&] {
      check_effects(parser, {{{"--unix-mask"}, {"--unix-socket"}, {}}});
      serves = true;
    });
    if (const int status = run_parser(parser, argc, argv); status != exit_done || !serves) return status;
  }
  return run_reporting(name, [&] { return serve(options, argv); });
}
