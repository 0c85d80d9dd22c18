// Writes random small histories, each with the verdict of sim/history, for porcupine_test.py.
//   history_dump COUNT
// prints for each "history SEED GUARANTEE VERDICT", its text, "end".

#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "random_history.hpp"
#include "sim/history/linearizability.hpp"

int main(int argc, char** argv) {
  using namespace espalier::sim;
  if (argc != 2) {
    std::cerr << "usage: history_dump COUNT\n";
    return 2;
  }
  const std::uint64_t count = std::strtoull(argv[1], nullptr, 10);
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    random_history_options options;
    options.threads = 2 + static_cast<std::uint32_t>(seed % 5);
    options.operations = 4 + seed / 5 % 20;
    options.keys = 1 + seed / 100 % 3;
    options.values = 3;
    options.late = seed % 3 == 1 ? 15 : 0;
    options.wrong = seed % 3 == 2 ? 5 : 0;
    options.pending = 5;
    options.scans = seed % 2 == 0 ? 0 : 20;
    const history h = random_history(options, seed).make();
    const auto scans = seed % 4 == 1 ? espalier::scan_guarantee::snapshot : espalier::scan_guarantee::per_key;
    std::cout << "history " << seed << ' '
              << (scans == espalier::scan_guarantee::snapshot ? "snapshot" : "per_key") << ' '
              << to_string(check(h, {}, scans).result) << '\n';
    h.write_text(std::cout);
    std::cout << "end\n";
  }
  return 0;
}
