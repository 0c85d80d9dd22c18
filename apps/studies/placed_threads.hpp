#pragma once

#include <cstdint>
#include <vector>

#include "apps/simulate/session.hpp"
#include "apps/studies/partitioned_threads.hpp"
#include "sim/machine/machine_spec.hpp"
#include "sim/simulation/simulation.hpp"

// On which hardware threads of a simulated machine a program in partitions runs, and the end of its operations.

namespace espalier::simulate {

struct placed_threads {
  /// One for each thread of the simulation.
  std::vector<app::thread_role> roles;
  /// Localities, or dedicated servers; 1 for a shared structure.
  unsigned partitions = 1;
  /// False of a hardware thread that stays idle: it is no client and no server.
  std::vector<bool> used;
  unsigned clients = 0;
};

/// Localities of 10 hardware threads, as in the paper on DPS, on as few sockets and cores as possible.
[[nodiscard]] placed_threads in_localities(const sim::machine_spec& machine, unsigned threads);
/// One structure. All threads prepare it, so that its pages alternate between their NUMA nodes; or the first does.
[[nodiscard]] placed_threads in_one(unsigned threads, bool interleaved);
/// Servers are among the threads, each on a socket of its own as long as there are sockets.
[[nodiscard]] placed_threads with_servers(const sim::machine_spec& machine, unsigned threads,
                                          unsigned servers);

/// State shared by the feeds of all threads in a phase.
struct phase_state {
  phase_state(const sim::simulation& in, std::uint64_t count, unsigned threads)
      : operations(in, count), clients(threads) {}

  shared_operations operations;
  unsigned clients;  ///< that have operations left
};

/// Takes a thread's operations from those of all.
template <class Feed>
class client_feed : public Feed {
 public:
  void ended() override {
    const sim::own_code scope;
    --shared_.clients;
  }
  bool all_ended() override {
    const sim::own_code scope;
    return shared_.clients == 0;
  }

 protected:
  explicit client_feed(phase_state& shared) : shared_(shared) {}

  /// For next().
  bool take() { return shared_.operations.take(has_one_); }
  [[nodiscard]] bool has_one() const { return has_one_; }

 private:
  phase_state& shared_;
  bool has_one_ = false;
};

}  // namespace espalier::simulate
