#include <cstdio>
#include <cstdlib>

#include "apps/simulate/session.hpp"
#include "sim/machine/presets.hpp"

int main(int argc, char** argv) {
  using namespace espalier;
  simulate::simulation_request r;
  workload::plan_request p;
  p.mix = argc > 4 ? argv[4] : "90/5/5";
  p.keys = 100000;
  r.plans.push_back(workload::make_plan(p));
  for (auto& e : simulate::simulated_catalog())
    if (argc > 1 && e.facts.name == argv[1]) r.maps.push_back(e);
  r.machine = sim::preset("e7_4850");
  r.threads = {static_cast<unsigned>(std::atoi(argv[2]))};
  r.operations = static_cast<std::uint64_t>(std::atoll(argv[3]));
  for (auto& m : run_simulation(r, [](auto, auto, const auto& w) { std::printf("%s\n", w.c_str()); })) {
    std::printf("%s %.2f M/s\n", m.facts.name.c_str(), m.operations_per_second() / 1e6);
    for (const auto& f : sim::counts_fields)
      std::printf("  %s %.3f (%llu)\n", std::string(f.name).c_str(), m.per_operation(m.total.*f.value),
                  static_cast<unsigned long long>(m.total.*f.value));
  }
}
