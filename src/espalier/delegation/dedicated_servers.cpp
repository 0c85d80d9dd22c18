#include "espalier/delegation/dedicated_servers.hpp"

namespace espalier::delegation {

dedicated_servers::dedicated_servers(unsigned servers, bool start_threads) {
  if (servers == 0) throw std::invalid_argument("delegation: there must be at least one server");
  for (unsigned i = 0; i < servers; ++i) servers_.push_back(std::make_unique<server>());
  if (!start_threads) return;
  try {
    for (unsigned i = 0; i < servers; ++i) threads_.emplace_back([this, i] { serve_until_stopped(i); });
  } catch (...) {
    stop();  // those that could be made
    throw;
  }
}

dedicated_servers::~dedicated_servers() { stop(); }

void dedicated_servers::serve_until_stopped(unsigned which) {
  // relaxed: a flag that orders nothing.
  for (unsigned idle = 0; !stopping_.load(std::memory_order_relaxed);) {
    if (serve(which) != 0)
      idle = 0;
    else
      ++idle < looks_before_yield ? hw::cpu_relax() : hw::park();
  }
}

void dedicated_servers::stop() noexcept {
  // relaxed: as above.
  stopping_.store(true, std::memory_order_relaxed);
  for (std::thread& one : threads_) one.join();
}

void dedicated_servers::add_client(client& me) {
  const std::lock_guard hold(lock_);
  // relaxed: the lock guards writes.
  me.index = client_count_.load(std::memory_order_relaxed);
  for (const auto& one : servers_) {
    std::unique_ptr<group>& mine = one->groups[me.index / clients_in_group];
    if (mine == nullptr) mine = std::make_unique<group>();
  }
  client_count_.store(me.index + 1, std::memory_order_release);  // order (3): add_client, release
  me.known = true;
}

unsigned dedicated_servers::serve(unsigned which) {
  const unsigned clients = client_count_.load(std::memory_order_acquire);  // order (3): client_count, acquire
  unsigned served = 0;
  for (unsigned first = 0; first < clients; first += clients_in_group) {
    group& one = *servers_[which]->groups[first / clients_in_group];
    // relaxed: only the server writes it.
    const std::uint64_t before = one.done.load(std::memory_order_relaxed);
    std::uint64_t done = before;
    for (unsigned i = 0; i < clients_in_group; ++i) {
      const request_line& request = one.requests[i];
      // order (1): is_new, acquire
      if (request.turn.load(std::memory_order_acquire) == (done >> i & 1U)) continue;
      const std::uint64_t result = request.run(request.arguments.data(), request.target);
      // Where it is empty, its line stays with the clients that have no other use for it.
      if (one.results[i] != result) one.results[i] = result;
      done ^= std::uint64_t{1} << i;
      ++served;
    }
    if (done != before) one.done.store(done, std::memory_order_release);  // order (2): publish, release
  }
  return served;
}

}  // namespace espalier::delegation
