#pragma once

#include <netdb.h>
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "apps/serve/tls.hpp"
#include "espalier/memcached/settings.hpp"

namespace espalier::app::serving {

/// The sockets at which a server waits for connections. They are bound early: before the server becomes a daemon, and
/// before it changes to a user that may not bind them.
class listeners {
 public:
  /// Binds what the settings name. Throws usage_error that says which address cannot be bound, and why. A socket file
  /// without a server is replaced; one with a server, and a file that is no socket, are left alone.
  /// An address that several names have is bound once. One whose family the machine lacks is left out if there are others.
  explicit listeners(const memcached::transport_settings& chosen);
  listeners(const listeners&) = delete;
  listeners& operator=(const listeners&) = delete;
  /// Removes the socket file, if it is still the one that was made.
  ~listeners();

  /// Makes the socket file another user's.
  void give_to(uid_t user, gid_t group) const;
  /// The names that were left out, and why.
  [[nodiscard]] const std::vector<std::string>& left_out() const noexcept { return left_out_; }

  [[nodiscard]] const std::vector<int>& descriptors() const noexcept { return descriptors_; }
  /// Of the descriptor at this place.
  [[nodiscard]] security security_of(std::size_t index) const noexcept { return securities_[index]; }

  /// Writes the kind and port of each socket of TCP.
  void write_ports(const std::filesystem::path& file) const;

 private:
  void bind_tcp(const std::string& host, int port, security how, unsigned backlog);
  /// 0, or the error.
  int bind_one(const addrinfo& one, security how, unsigned backlog);
  void bind_unix(const memcached::transport_settings& chosen);

  std::vector<int> descriptors_;
  std::vector<security> securities_;
  std::vector<std::string> bound_;  // the addresses of TCP that were asked for
  std::vector<std::string> left_out_;
  std::string path_;
  dev_t device_ = 0;
  ino_t number_ = 0;
};

/// A socket's address, as statistics show it.
[[nodiscard]] std::string shown_address(int descriptor, bool of_peer);

}  // namespace espalier::app::serving
