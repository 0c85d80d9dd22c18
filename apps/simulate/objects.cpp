#include "apps/simulate/objects.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "apps/simulate/objects_program.hpp"
#include "espalier/workload/random.hpp"
#include "sim/simulation/simulation.hpp"

namespace espalier::simulate {
namespace {

/// State shared by the feeds of all threads.
struct operations_left {
  std::uint64_t left;
  unsigned ended = 0;
};

class drawn_objects final : public object_feed {
 public:
  drawn_objects(const objects_request& request, std::uint64_t seed, unsigned thread, operations_left& shared)
      : request_(request), random_(seed, thread), shared_(shared) {}

  bool next(std::uint64_t& object) override {
    const sim::own_code scope;
    if (shared_.left == 0) return false;
    --shared_.left;
    object = random_.below(request_.objects);
    return true;
  }
  void ended() override {
    const sim::own_code scope;
    ++shared_.ended;
  }
  bool all_ended() override {
    const sim::own_code scope;
    return shared_.ended == request_.threads;
  }

 private:
  const objects_request& request_;
  workload::random_generator random_;
  operations_left& shared_;
};

}  // namespace

objects_measurement measure_objects(const objects_request& request) {
  if (request.objects == 0 || request.lines == 0 || request.operations == 0)
    throw std::invalid_argument("objects, their lines and the operations are at least 1 each");
  sim::simulation simulated(request.machine, request.threads, request.pinning);
  // A locality is a socket that has threads; they are numbered without gaps.
  std::vector<unsigned> locality(request.threads);
  std::vector<unsigned> sockets;
  for (unsigned t = 0; t < request.threads; ++t) {
    const unsigned socket = simulated.socket_of(t);
    const auto known = std::find(sockets.begin(), sockets.end(), socket);
    locality[t] = static_cast<unsigned>(known - sockets.begin());
    if (known == sockets.end()) sockets.push_back(socket);
  }
  const objects_shape shape{request.objects, request.lines, request.threads,
                            static_cast<unsigned>(sockets.size()), request.in_flight};
  std::unique_ptr<objects_program> program;
  simulated.outside_time(
      [&] { program = request.in_flight != 0 ? make_delegated_objects(shape) : make_locked_objects(shape); });
  simulated.without_time([&](unsigned thread) { program->settle(thread, locality[thread]); });

  const auto phase = [&](std::uint64_t operations, std::uint64_t seed) {
    operations_left shared{operations};
    return simulated.run([&](unsigned thread) {
      drawn_objects feed(request, seed, thread, shared);
      program->operate(thread, locality[thread], feed);
    });
  };
  const std::uint64_t warm_up = request.operations / 5 + 1;
  static_cast<void>(phase(warm_up, request.seed));
  const sim::phase_result measured = phase(request.operations, request.seed + 1);
  std::uint64_t writes = 0;
  simulated.outside_time([&] {
    writes = program->writes();
    program.reset();
  });
  if (writes != (request.operations + warm_up) * request.lines)
    throw std::logic_error("the simulated objects have lost operations");
  return {request.operations, measured.total(), measured.cycles};
}

}  // namespace espalier::simulate
