#pragma once

#include "espalier/hw/pause.hpp"

// The threads of a program whose data lie in partitions. The same source runs natively and on a simulated machine.

namespace espalier::app {

/// A thread's part in the program.
struct thread_role {
  /// Its locality; of a dedicated server, which one it is.
  unsigned home = 0;
  /// It prepares the share `rank` of `members` of the partition `home`, or of the one structure; none of it if there are 0.
  unsigned rank = 0;
  unsigned members = 1;
  bool serves = false;
};

/// A thread's first message to a locality makes a ring.
template <class Partitions>
void make_rings(Partitions& parts) {
  for (unsigned i = 0; i < parts.count(); ++i) parts.call_at(i, [](auto& /*here*/) noexcept {});
}

/// Clients may still wait for this thread. `serve` returns how many requests it has found.
template <class Feed, class Serve>
void serve_until_all_end(Feed& feed, Serve serve) {
  while (!feed.all_ended()) {
    if (serve() == 0) hw::cpu_relax();
  }
}

}  // namespace espalier::app
