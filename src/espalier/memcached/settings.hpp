#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace espalier::memcached {

/// The memcached whose protocol this is. Clients conclude from a server's version what it can do, and read it to the end
/// of the line.
inline constexpr std::string_view spoken_version = "1.6.45";

/// Of connections that are encrypted.
struct tls_settings {
  bool is_on = false;
  std::string chain;        ///< file of the server's certificate, and those above it
  std::string key;          ///< file
  std::string authorities;  ///< file of certificates that certify clients; empty: none
  std::string ciphers;      ///< as OpenSSL names them; empty: its default
  unsigned verify_mode =
      0;  ///< 0: clients need no certificate; 1: one that is given is verified; 2: they need one; 3: as 2, once
  unsigned least_version = 2;      ///< TLS 1.this
  unsigned write_buffer = 16'384;  ///< only shown
  bool key_is_der = false;
  bool caches_sessions = false;
};

/// What carries the protocol. Commands only show it.
struct transport_settings {
  unsigned threads = 4;
  unsigned connections = 1024;
  bool rejects_at_limit = true;  ///< false: connections wait until another one closes
  unsigned requests_per_turn = 20;
  std::size_t buffers = std::size_t{64}
                        << 20U;  ///< bytes of all connections together, in addition to the cache
  unsigned backlog = 1024;
  unsigned idle_timeout = 0;  ///< seconds; 0: none
  int port = 11211;           ///< 0: none, -1: any free one
  std::string listen;         ///< host[:port],...; empty: all addresses
  std::string unix_path;
  unsigned unix_mask = 0700;
  std::string protocol = "auto-negotiate";
  tls_settings tls;
};

/// What commands obey.
struct settings {
  std::string version = "0.0.0";  ///< Espalier's own
  std::size_t replies_at_once = std::size_t{1}
                                << 20U;  ///< bytes of replies that are sent before more are made
  std::string memory_file;               ///< shown; empty: none
  std::string auth_file;  ///< shown; the users are the service's. Empty: any connection may give commands
  bool versions = true;   ///< of values, which gets shows and cas compares
  bool flushes = true;
  bool watches = true;
  std::size_t watcher_bytes = std::size_t{256} << 10U;  ///< of lines that wait for a watcher
  bool shuts_down = false;
  bool test_clock = false;
  bool detail = false;
  char prefix_end = ':';
  unsigned verbosity = 0;
  transport_settings transport;
};

}  // namespace espalier::memcached
