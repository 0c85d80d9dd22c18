#include "apps/studies/placed_threads.hpp"

#include <algorithm>
#include <numeric>

namespace espalier::simulate {
namespace {

constexpr unsigned locality_threads = 10;

unsigned socket_of(const sim::machine_spec& machine, unsigned hardware_thread) {
  return hardware_thread / (machine.cores_per_socket * machine.threads_per_core);
}

}  // namespace

placed_threads in_localities(const sim::machine_spec& machine, unsigned threads) {
  std::vector<unsigned> order = sim::thread_order(machine);
  order.resize(threads);
  std::vector<unsigned> by_core(threads);
  std::iota(by_core.begin(), by_core.end(), 0U);
  std::ranges::sort(by_core, {}, [&](unsigned thread) { return order[thread]; });
  placed_threads placed;
  placed.roles.resize(threads);
  unsigned socket = machine.sockets;
  std::vector<unsigned> members;
  for (const unsigned thread : by_core) {
    if (const unsigned here = socket_of(machine, order[thread]);
        here != socket || members.back() == locality_threads) {
      socket = here;
      members.push_back(0);
    }
    placed.roles[thread] = {.home = static_cast<unsigned>(members.size() - 1), .rank = members.back()++};
  }
  for (app::thread_role& role : placed.roles) role.members = members[role.home];
  placed.partitions = static_cast<unsigned>(members.size());
  placed.used.assign(threads, true);
  placed.clients = threads;
  return placed;
}

placed_threads in_one(unsigned threads, bool interleaved) {
  placed_threads placed;
  placed.roles.assign(threads, {.members = 0});
  const unsigned members = interleaved ? threads : 1;
  for (unsigned thread = 0; thread < members; ++thread)
    placed.roles[thread] = {.rank = thread, .members = members};
  placed.used.assign(threads, true);
  placed.clients = threads;
  return placed;
}

placed_threads with_servers(const sim::machine_spec& machine, unsigned threads, unsigned servers) {
  const std::vector<unsigned> order = sim::thread_order(machine);
  placed_threads placed;
  placed.partitions = servers;
  placed.roles.assign(order.size(), {.members = 0});
  placed.used.resize(order.size());
  for (unsigned server = 0; server < servers; ++server) {
    unsigned at = 0;
    while (placed.used[at] || socket_of(machine, order[at]) != server % machine.sockets) ++at;
    placed.used[at] = true;
    placed.roles[at] = {.home = server, .rank = 0, .members = 1, .serves = true};
  }
  placed.clients = threads - servers;
  unsigned left = placed.clients;
  for (unsigned at = 0; left != 0; ++at) {
    if (placed.used[at]) continue;
    placed.used[at] = true;
    --left;
  }
  const auto last = std::ranges::find(placed.used.rbegin(), placed.used.rend(), true);
  placed.used.erase(last.base(), placed.used.end());
  placed.roles.resize(placed.used.size());
  return placed;
}

}  // namespace espalier::simulate
