#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <memory>
#include <span>

#include "espalier/memcached/settings.hpp"

// TLS for the server's connections. tls.cpp has it, for the program espalier-serve-tls; without_tls.cpp refuses it, for the
// program espalier-serve, which is linked without OpenSSL and so takes less memory.

namespace espalier::app::serving {

/// How connections of a listener are secured: not at all; as ssl_verify_mode says; without asking clients for a certificate;
/// only with one.
enum class security : std::uint8_t { none, standard, without_peer, with_peer };

/// What a connection sends and receives over its socket, which does not block. One thread uses it at a time.
class tls_stream {
 public:
  tls_stream() = default;
  tls_stream(const tls_stream&) = delete;
  tls_stream& operator=(const tls_stream&) = delete;
  /// Says goodbye, if the socket takes it.
  virtual ~tls_stream() = default;

  // As recvmsg and sendmsg. EAGAIN: wait until the socket can do the same, or the opposite if waits_for_other().
  virtual ssize_t receive(std::span<const iovec> parts) noexcept = 0;
  virtual ssize_t send(std::span<const iovec> parts) noexcept = 0;
  [[nodiscard]] virtual bool waits_for_other() const noexcept = 0;
  /// Bytes that were received and can be had at once: the socket does not tell of them.
  [[nodiscard]] virtual bool has_more() const noexcept = 0;
};

/// Certificates, keys and what is demanded of clients.
class tls_context {
 public:
  /// Throws usage_error that says what is wrong.
  explicit tls_context(const memcached::tls_settings& chosen);
  tls_context(const tls_context&) = delete;
  tls_context& operator=(const tls_context&) = delete;
  ~tls_context();

  /// Reads the files again, for connections that come later. As the constructor; nothing has changed then.
  void reload();
  /// Any thread. Null: there is no memory.
  [[nodiscard]] std::unique_ptr<tls_stream> accept(int socket, security how) const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// In the program without TLS: becomes the one that has it. Throws usage_error if there is none.
void become_program_with_tls(char** arguments);

}  // namespace espalier::app::serving
