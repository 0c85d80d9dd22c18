#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "apps/common/exit_status.hpp"
#include "apps/serve/tls.hpp"

namespace espalier::app::serving {

struct tls_context::state {};

tls_context::tls_context(const memcached::tls_settings&) {}
tls_context::~tls_context() = default;
void tls_context::reload() {}
std::unique_ptr<tls_stream> tls_context::accept(int, security) const { return nullptr; }

void become_program_with_tls(char** arguments) {
  std::error_code unknown;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  execv((self.parent_path() / "espalier-serve-tls").c_str(), arguments);
  throw usage_error(
      "-Z: this build has no TLS, for which it needs OpenSSL (libssl-dev in Debian); or put a proxy that "
      "ends TLS before the "
      "server");
}

}  // namespace espalier::app::serving
