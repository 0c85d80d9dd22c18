#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "espalier/memcached/settings.hpp"

// The options of the cache server, as unchecked text and numbers. Declared for both: `espalier`, which lists and
// completes them, and the server, which uses them.

namespace espalier::app {

/// What -I is at most: a key with its value.
inline constexpr std::size_t largest_item = std::size_t{128} << 20U;

struct serve_options {
  memcached::transport_settings transport;
  std::int64_t port = 11211;
  std::int64_t udp_port = 0;
  std::vector<std::string> listen;
  std::string unix_path;
  std::string unix_mask = "700";
  std::uint64_t memory_mb = 64;
  std::string largest_item = "1m";
  std::string memory_file;
  bool keeps_all = false;
  std::vector<std::string> extended;
  std::string auth_file;
  bool sasl = false;
  bool tls = false;
  bool shuts_down = false;
  bool no_versions = false;
  bool no_flush = false;
  bool no_watch = false;
  std::size_t watcher_bytes = memcached::settings().watcher_bytes;
  std::string prefix_end;
  std::string protocol = "auto";
  bool daemon = false;
  std::string user;
  std::string pid_file;
  int verbosity = 0;
  std::vector<std::string> ignored;  ///< options that have no effect here
  bool test_clock = false;
};

void declare(CLI::App& verb, serve_options& options);

inline constexpr const char* serve_description = "Serve a cache to clients of memcached";

}  // namespace espalier::app
