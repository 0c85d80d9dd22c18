// A memoiser: an expensive function whose results are kept, in as much memory as it is given. Two threads ask for the same
// routes: while one computes a route the other waits for it. One that neither has asked for lately is forgotten, and computed
// again when it is needed.
//
// Prints:
//   Lisbon to Riga: 3 stops
//   of 20000 questions, fewer than 2500 were computed

#include <atomic>
#include <chrono>
#include <cstdio>
#include <espalier/cache/cache.hpp>
#include <string>
#include <thread>

namespace {

std::atomic<int> computed{0};

// Stands for an hour of work.
std::string plan_route(const std::string& from, const std::string& to) {
  ++computed;
  const auto stops = (from.size() * to.size()) % 7;
  return from + " to " + to + ": " + std::to_string(stops) + " stops";
}

class route_planner {
 public:
  std::string route(const std::string& from, const std::string& to) {
    return routes_.get_or_set(from + '/' + to, [&] { return plan_route(from, to); }, std::chrono::hours(1));
  }

 private:
  espalier::cache<std::string, std::string> routes_{{.memory_limit = 4 << 20}};
};

}  // namespace

int main() {
  route_planner planner;
  std::printf("%s\n", planner.route("Lisbon", "Riga").c_str());
  const auto ask = [&] {
    for (int i = 0; i < 10'000; ++i)
      static_cast<void>(planner.route("city " + std::to_string(i % 100), "town " + std::to_string(i % 7)));
  };
  std::thread other(ask);
  ask();
  other.join();
  std::printf("of 20000 questions, %s were computed\n", computed < 2500 ? "fewer than 2500" : "too many");
}
