// A structure of your own under chosen interleavings. Two stacks differ in what pop does with a node: one deletes it
// at once, the other retires it to an epoch_domain. The explorer finds a schedule in which the first stack reads a
// freed node, and prints how to repeat it; it finds nothing wrong with the second.
//
// Prints:
//   pop that deletes: use of memory that is not allocated
//   pop that retires: passed

#include <atomic>
#include <cstdio>
#include <espalier/reclaim/epoch.hpp>
#include <string>

#include "sim/explore.hpp"

namespace {

using namespace espalier;

template <bool Retires>
class stack {
 public:
  stack() = default;
  stack(const stack&) = delete;
  stack& operator=(const stack&) = delete;
  ~stack() {
    while (pop()) {
    }
  }

  void push() {
    auto* const made = new node{top_.load()};
    while (!top_.compare_exchange_weak(made->below, made)) {
    }
  }

  /// Whether there was an element.
  bool pop() {
    auto guard = domain_.pin();  // a node that the thread reaches stays allocated after it is retired
    guard.reserve(1);
    node* taken = top_.load();
    while (taken != nullptr && !top_.compare_exchange_weak(taken, taken->below)) {
    }
    if (taken == nullptr) return false;
    if constexpr (Retires)
      guard.retire({taken, nullptr, this,
                    [](const retired& entry) noexcept { delete static_cast<node*>(entry.object); }});
    else
      delete taken;
    return true;
  }

 private:
  struct node {
    node* below;
  };

  epoch_domain domain_;
  std::atomic<node*> top_{nullptr};
};

template <bool Retires>
void two_pops(sim::scene& s) {
  auto& elements = s.make<stack<Retires>>();
  auto& popped = s.make<std::atomic<int>>(0);
  elements.push();
  elements.push();
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&] {
      if (elements.pop()) ++popped;
    });
  }
  s.at_end([&] { sim::require(popped == 2, "two elements are popped by two threads"); });
}

template <bool Retires>
std::string outcome(const char* name) {
  sim::exploration_options options;
  options.schedules = 500;
  options.memory = sim::freed_memory::quarantined;
  const sim::exploration_report report = sim::explore(name, options, two_pops<Retires>);
  if (report.passed()) return "passed";
  std::fprintf(stderr, "%s\n", report.failure->text.c_str());
  return std::string(to_string(report.failure->kind));
}

}  // namespace

int main() {
  std::printf("pop that deletes: %s\n", outcome<false>("deletes").c_str());
  std::printf("pop that retires: %s\n", outcome<true>("retires").c_str());
}
