#include "apps/serve/tls.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <mutex>
#include <new>
#include <string>
#include <system_error>

#include "apps/common/exit_status.hpp"

namespace espalier::app::serving {
namespace {

struct context_free {
  void operator()(SSL_CTX* context) const noexcept { SSL_CTX_free(context); }
};
using context_pointer = std::unique_ptr<SSL_CTX, context_free>;

/// The first error is the cause; later ones say where it was met.
std::string first_error() {
  const unsigned long code = ERR_peek_error();
  ERR_clear_error();
  if (ERR_GET_LIB(code) == ERR_LIB_SYS) return std::generic_category().message(ERR_GET_REASON(code));
  std::array<char, 256> text{};
  ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

[[noreturn]] void refuse(std::string_view option, std::string_view given) {
  throw usage_error(fmt::format("-o {}={}: {}", option, given, first_error()));
}

int version_of(unsigned least) noexcept {
  constexpr std::array versions{TLS1_VERSION, TLS1_1_VERSION, TLS1_2_VERSION, TLS1_3_VERSION};
  return versions.at(least);
}

int verification_of(unsigned mode) noexcept {
  switch (mode) {
    case 1:
      return SSL_VERIFY_PEER;
    case 2:
      return SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    case 3:
      return SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT | SSL_VERIFY_CLIENT_ONCE;
    default:
      return SSL_VERIFY_NONE;
  }
}

context_pointer make_context(const memcached::tls_settings& chosen) {
  ERR_clear_error();
  context_pointer made(SSL_CTX_new(TLS_server_method()));
  SSL_CTX* const context = made.get();
  if (context == nullptr) throw std::bad_alloc();
  SSL_CTX_set_min_proto_version(context, version_of(chosen.least_version));
  if (SSL_CTX_use_certificate_chain_file(context, chosen.chain.c_str()) != 1)
    refuse("ssl_chain_cert", chosen.chain);
  const int format = chosen.key_is_der ? SSL_FILETYPE_ASN1 : SSL_FILETYPE_PEM;
  if (SSL_CTX_use_PrivateKey_file(context, chosen.key.c_str(), format) != 1 ||
      SSL_CTX_check_private_key(context) != 1)
    refuse("ssl_key", chosen.key);
  if (!chosen.authorities.empty()) {
    if (SSL_CTX_load_verify_locations(context, chosen.authorities.c_str(), nullptr) != 1)
      refuse("ssl_ca_cert", chosen.authorities);
    SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(chosen.authorities.c_str()));
  }
  // One list for all versions: that of TLS 1.3 has names of its own.
  if (!chosen.ciphers.empty() && SSL_CTX_set_cipher_list(context, chosen.ciphers.c_str()) != 1)
    refuse("ssl_ciphers", chosen.ciphers);
  SSL_CTX_set_verify(context, verification_of(chosen.verify_mode), nullptr);
  constexpr std::string_view name = "espalier";
  SSL_CTX_set_session_id_context(context, reinterpret_cast<const unsigned char*>(name.data()), name.size());
  SSL_CTX_set_session_cache_mode(context,
                                 chosen.caches_sessions ? SSL_SESS_CACHE_SERVER : SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
  // Idle connections keep no buffers; and what could not be sent is sent again from another place.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return made;
}

class stream final : public tls_stream {
 public:
  explicit stream(SSL* over) noexcept : ssl_(over) {}
  ~stream() override {
    if (!is_broken_ && SSL_is_init_finished(ssl_) == 1) SSL_shutdown(ssl_);
    ERR_clear_error();
    SSL_free(ssl_);
  }

  ssize_t receive(std::span<const iovec> parts) noexcept override {
    ssize_t sum = 0;
    for (const iovec& part : parts) {
      const int came =
          attempt(SSL_ERROR_WANT_WRITE, [&] { return SSL_read(ssl_, part.iov_base, length(part.iov_len)); });
      if (came <= 0) return sum != 0 ? sum : came;
      sum += came;
      if (static_cast<std::size_t>(came) != part.iov_len) break;
    }
    return sum;
  }
  ssize_t send(std::span<const iovec> parts) noexcept override {
    ssize_t sum = 0;
    for (const iovec& part : parts) {
      // A call sends one record.
      for (std::size_t at = 0; at < part.iov_len;) {
        const char* const from = static_cast<const char*>(part.iov_base) + at;
        const int went =
            attempt(SSL_ERROR_WANT_READ, [&] { return SSL_write(ssl_, from, length(part.iov_len - at)); });
        if (went <= 0) return sum != 0 ? sum : went;
        sum += went;
        at += static_cast<std::size_t>(went);
      }
    }
    return sum;
  }
  [[nodiscard]] bool waits_for_other() const noexcept override { return waits_for_other_; }
  [[nodiscard]] bool has_more() const noexcept override { return SSL_pending(ssl_) > 0; }

 private:
  static int length(std::size_t bytes) noexcept {
    return static_cast<int>(std::min<std::size_t>(bytes, INT_MAX));
  }

  /// Bytes, or as recvmsg. `other` is what it may lack of the opposite.
  template <class Move>
  int attempt(int other, Move move) noexcept {
    ERR_clear_error();
    waits_for_other_ = false;
    const int result = move();
    if (result > 0) return result;
    const int why = SSL_get_error(ssl_, result);
    if (why == SSL_ERROR_ZERO_RETURN) return 0;
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
      waits_for_other_ = why == other;
      errno = EAGAIN;
      return -1;
    }
    is_broken_ = true;
    ERR_clear_error();
    errno = ECONNRESET;
    return -1;
  }

  SSL* ssl_;
  bool waits_for_other_ = false;
  bool is_broken_ = false;
};

}  // namespace

struct tls_context::state {
  explicit state(const memcached::tls_settings& by) : chosen(by), context(make_context(by)) {}

  memcached::tls_settings chosen;
  mutable std::mutex mutex;
  context_pointer context;
};

tls_context::tls_context(const memcached::tls_settings& chosen) : state_(std::make_unique<state>(chosen)) {}
tls_context::~tls_context() = default;

void tls_context::reload() {
  context_pointer next = make_context(state_->chosen);
  const std::lock_guard held(state_->mutex);
  std::swap(state_->context, next);
}

std::unique_ptr<tls_stream> tls_context::accept(int socket, security how) const {
  SSL* made = nullptr;
  {
    const std::lock_guard held(state_->mutex);
    made = SSL_new(state_->context.get());
  }
  if (made == nullptr || SSL_set_fd(made, socket) != 1) {
    SSL_free(made);
    return nullptr;
  }
  if (how == security::without_peer) SSL_set_verify(made, SSL_VERIFY_NONE, nullptr);
  if (how == security::with_peer)
    SSL_set_verify(made, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_set_accept_state(made);
  return std::make_unique<stream>(made);
}

void become_program_with_tls(char**) {}

}  // namespace espalier::app::serving
