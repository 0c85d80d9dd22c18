#pragma once

#include <memory>

#include "apps/serve/listeners.hpp"
#include "espalier/memcached/service.hpp"

namespace espalier::app::serving {

using memcached::service;

/// Accepts connections in the calling thread, and serves them in others. A connection stays with its thread.
class server {
 public:
  /// Starts the threads. Throws std::system_error.
  /// `tls` is for listeners that are secured, and may be null if there are none.
  server(service& of, const listeners& at, const tls_context* tls);
  server(const server&) = delete;
  server& operator=(const server&) = delete;
  /// Ends the threads, and closes their connections.
  ~server();

  /// Returns after SIGINT, SIGTERM, SIGUSR1, service::stop or service::stop_and_keep. True: the entries are to be kept, as the
  /// third and the last want it.
  [[nodiscard]] bool run();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace espalier::app::serving
