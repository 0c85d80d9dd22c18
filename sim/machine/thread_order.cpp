#include "sim/machine/thread_order.hpp"

namespace espalier::sim {

std::vector<unsigned> thread_order(const machine_spec& spec, pinning order) {
  std::vector<unsigned> threads;
  threads.reserve(spec.hardware_threads());
  const auto add = [&](unsigned socket, unsigned core, unsigned smt) {
    threads.push_back((socket * spec.cores_per_socket + core) * spec.threads_per_core + smt);
  };
  switch (order) {
    case pinning::smt_last:
      for (unsigned smt = 0; smt < spec.threads_per_core; ++smt) {
        for (unsigned socket = 0; socket < spec.sockets; ++socket) {
          for (unsigned core = 0; core < spec.cores_per_socket; ++core) {
            add(socket, core, smt);
          }
        }
      }
      break;
    case pinning::compact:
      for (unsigned thread = 0; thread < spec.hardware_threads(); ++thread) {
        threads.push_back(thread);
      }
      break;
    case pinning::scatter:
      for (unsigned smt = 0; smt < spec.threads_per_core; ++smt) {
        for (unsigned core = 0; core < spec.cores_per_socket; ++core) {
          for (unsigned socket = 0; socket < spec.sockets; ++socket) {
            add(socket, core, smt);
          }
        }
      }
      break;
  }
  return threads;
}

}  // namespace espalier::sim
