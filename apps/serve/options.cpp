#include "apps/serve/options.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <array>
#include <cstdio>
#include <string_view>

#include "apps/common/option_group.hpp"

namespace espalier::app {
namespace {

struct refused_option {
  const char* names;
  bool has_value;
  const char* why;
};
constexpr std::array<refused_option, 5> refused_options{{
    {"-k,--lock-memory", false,
     "locked memory is not supported; systemd's LimitMEMLOCK does not help either"},
    {"-r,--enable-coredumps", false,
     "core files are limited from outside: ulimit -c, or systemd's LimitCORE"},
    {"-X,--disable-dumping", false, "stats cachedump and stats detail cannot be disabled"},
    {"-N,--napi-ids", true, "connections are dealt to threads in turn"},
    {"-i,--license", false, "the licence is in the file LICENSE"},
}};

/// Options that tune what this server does not have. Those of a memcached that has run for long may stay.
struct ignored_option {
  const char* names;
  bool has_value;
};
constexpr std::array<ignored_option, 3> ignored_options{
    {{"-f,--slab-growth-factor", true}, {"-n,--slab-min-size", true}, {"-L,--enable-largepages", false}}};

}  // namespace

void declare(CLI::App& verb, serve_options& o) {
  option_group where(verb, "Where it listens");
  where.add_default("-p,--port", o.port, "PORT", "Port of TCP; 0 for none, -1 for any free one");
  where.add_list("-l,--listen", o.listen, "HOST[:PORT]",
                 "Addresses, comma-separated or repeated; by default all of this machine");
  where.add("-s,--unix-socket", o.unix_path, "FILE", "A unix socket, instead of TCP");
  where.add_default("-a,--unix-mask", o.unix_mask, "MASK", "Permissions of the unix socket, octal");
  where.add_default("-b,--listen-backlog", o.transport.backlog, "N",
                    "Connections that may wait to be accepted");
  where.add("-U,--udp-port", o.udp_port, "PORT", "Only 0, which is the default: there is no UDP");
  option_group memory(verb, "Memory");
  memory.add_default("-m,--memory-limit", o.memory_mb, "MB",
                     "Megabytes of all entries and of the table; buffers of connections come on top");
  memory.add_default("-I,--max-item-size", o.largest_item, "BYTES",
                     "The largest key with its value: 1k to 128m, at most half of the memory");
  memory.add_flag("-M,--disable-evictions", o.keeps_all,
                  "Refuse new entries when memory is full, instead of evicting");
  memory.add("-e,--memory-file", o.memory_file, "FILE",
             "Where SIGUSR1, which ends the server, leaves all entries for the next start; best in a tmpfs");
  option_group connections(verb, "Connections");
  connections.add_default("-t,--threads", o.transport.threads, "N", "Threads that serve");
  connections.add_default("-c,--conn-limit", o.transport.connections, "N",
                          "Connections at once; others are refused");
  connections.add_default("-R,--max-reqs-per-event", o.transport.requests_per_turn, "N",
                          "Requests of a connection before others have their turn");
  connections.add_default("--idle-timeout", o.transport.idle_timeout, "S",
                          "Close connections that are idle for longer; 0: never");
  connections.add_list("-o,--extended", o.extended, "NAMES",
                       "Settings, comma-separated: idle_timeout=S, maxconns_fast (the default), "
                       "no_maxconns_fast (at the limit connections wait), watcher_logbuf_size=KB (lines that "
                       "wait for a watcher); for -Z ssl_chain_cert=FILE, ssl_key=FILE, "
                       "ssl_ca_cert=FILE, ssl_verify_mode=0..3, ssl_ciphers=LIST, ssl_min_version=0..3, "
                       "ssl_keyformat=1 or 2, ssl_session_cache");
  connections.add_flag(
      "-Z,--enable-ssl", o.tls,
      "Encrypt connections of TCP with TLS; notls: before an address of -l: but for that one; mtls: "
      "only for clients with a certificate; btls: without asking for one");
  option_group commands(verb, "Commands");
  commands.add_default("-B,--protocol", o.protocol, "NAME",
                       "ascii, binary, or auto: a connection's first byte decides");
  commands.add("-Y,--auth-file", o.auth_file, "FILE",
               "Users, a line NAME:PASSWORD each: a connection begins with set ANY 0 0 BYTES and the value "
               "NAME PASSWORD, or with SASL's PLAIN. SIGHUP reads it again");
  commands.add_flag("-S,--enable-sasl", o.sasl,
                    "Only the binary protocol, whose connections log in with SASL");
  commands.add_flag("-A,--enable-shutdown", o.shuts_down,
                    "Let clients end the server with the command shutdown");
  commands.add_flag("-C,--disable-cas", o.no_versions,
                    "Show no versions of values; the command cas never stores");
  commands.add_flag("-F,--disable-flush-all", o.no_flush, "Refuse the command flush_all");
  commands.add_flag("-W,--disable-watch", o.no_watch, "Refuse the command watch, which shows keys");
  commands.add("-D", o.prefix_end, "CHAR",
               "Count operations by the prefix of keys that ends with this; by default : if a client asks "
               "for stats detail");
  option_group process(verb, "Process");
  process.add_flag("-d,--daemon", o.daemon,
                   "Run in the background; the command ends when the server is ready");
  process.add("-u,--user", o.user, "NAME", "Become this user once the addresses are bound; needs root");
  process.add("-P,--pidfile", o.pid_file, "FILE", "A file with the process id, as long as the server runs");
  verb.add_flag("-v,--verbose", o.verbosity, "Show warnings on standard error; -vv shows commands too")
      ->group("Process");
  verb.add_flag_callback(
          "-V",
          [] {
            std::printf("espalier %s\n", ESPALIER_VERSION);
            throw CLI::Success();
          },
          "Show the version, and exit")
      ->group("Process");
  verb.add_flag("--test-clock", o.test_clock, "The command debugtime moves the clock, or stops it")
      ->group("");
  for (CLI::Option* const option : verb.get_options()) {
    if (option->get_expected_max() == 1) option->take_last();
  }
  // The values of both kinds may lack: CLI11's sentence about that has no name where help hides the option.
  for (const refused_option& one : refused_options) {
    const auto refuse = [&one] {
      throw usage_error(fmt::format("{}: {}", std::string_view(one.names).substr(0, 2), one.why));
    };
    if (one.has_value)
      verb.add_option_function<std::string>(one.names, [refuse](const std::string&) { refuse(); })
          ->expected(0, 1)
          ->group("");
    else
      verb.add_flag_callback(one.names, refuse)->group("");
  }
  for (const ignored_option& one : ignored_options) {
    const auto ignore = [&o, name = std::string(one.names, 2)] { o.ignored.push_back(name); };
    if (one.has_value)
      verb.add_option_function<std::string>(one.names, [ignore](const std::string&) { ignore(); })
          ->expected(0, 1)
          ->group("");
    else
      verb.add_flag_callback(one.names, ignore)->group("");
  }
  verb.footer(
      "Examples:\n"
      "  espalier serve -m 1024 -t 4\n"
      "  espalier serve -l 127.0.0.1,[::1]:11212 -c 4096 --idle-timeout 600\n"
      "  espalier serve -s /run/cache.sock -a 770 -u cache -d -P /run/cache.pid\n"
      "  printf 'set key 0 60 5\\r\\nvalue\\r\\nget key\\r\\nquit\\r\\n' | nc 127.0.0.1 11211\n"
      "The options are those of memcached; docs/cache.md says what differs. SIGTERM and SIGINT end the "
      "server.");
}

}  // namespace espalier::app
