#include "sim/history/recorder.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/explore.hpp"
#include "sim/history/linearizability.hpp"
#include "sim/runtime/world.hpp"

namespace espalier::sim {

struct recorder::state {
  struct thread {
    explicit thread(std::uint32_t slot) : lane(slot) {}
    history_lane lane;
    map_operation kind{};
    std::uint64_t key = 0;
    std::uint64_t value = 0;
    std::vector<map_entry> visited;
  };

  std::vector<map_entry> initial;
  std::vector<std::unique_ptr<thread>> threads;  // by slot; 0 is main
  // Under the weak model: for each value the calls that store it, announced before they do. An update's function
  // announces its own value: at the end of the update, others may have read it. What it announces and does not store,
  // because it is called again, only makes the check milder.
  std::unordered_map<std::uint64_t, std::vector<weak_memory::event>> stored;

  void stores(const own_code& scope, std::uint64_t value) {
    if (scope.running() == nullptr || scope.running()->weak == nullptr) return;
    stored[value].push_back(scope.running()->weak->now(scope.running()->slot() - 1));
  }
  /// If several calls store the same value, one that happened before suffices.
  [[nodiscard]] bool may_return(const own_code& scope, std::uint64_t value) const {
    if (scope.running() == nullptr || scope.running()->weak == nullptr) return true;
    const auto calls = stored.find(value);
    if (calls == stored.end()) return true;
    const unsigned fiber = scope.running()->slot() - 1;
    const auto happened = [&](const weak_memory::event& call) {
      return scope.running()->weak->happens_before(call, fiber);
    };
    return std::any_of(calls->second.begin(), calls->second.end(), happened) ||
           std::any_of(initial.begin(), initial.end(), [&](const map_entry& e) { return e.value == value; });
  }

  thread& of(const world& w) {
    const std::uint32_t slot = w.slot();
    if (threads.size() <= slot) threads.resize(slot + 1);
    if (!threads[slot]) threads[slot] = std::make_unique<thread>(slot);
    return *threads[slot];
  }
};

namespace {

world& world_of(const own_code& scope) {
  if (scope.allocating() == nullptr) throw std::logic_error("a recorder works inside a scene only");
  return *scope.allocating();
}

constexpr const char* unordered_value =
    "a value is returned, and what its writer did before it stored the value need not be visible";

/// The operation that began last has returned.
template <class Thread>
void open(world& w, Thread& t) {
  const moment first = w.first_step();
  t.lane.begin(t.kind, t.key, t.value, first != 0 ? first : w.moment());
}

}  // namespace

recorder::recorder() {
  const own_code scope;
  state_ = new state;
}

recorder::~recorder() {
  const own_code scope;
  delete state_;
}

void recorder::initial(std::uint64_t key, std::uint64_t value) {
  const own_code scope;
  state_->initial.push_back({key, value});
}

void recorder::begin(map_operation kind, std::uint64_t key, std::uint64_t value) {
  const own_code scope;
  world& w = world_of(scope);
  auto& t = state_->of(w);
  t.kind = kind;
  t.key = key;
  t.value = value;
  t.visited.clear();
  if (kind == map_operation::insert || kind == map_operation::insert_or_assign ||
      kind == map_operation::exchange)
    state_->stores(scope, value);
  w.forget_first_step();
}

void recorder::end(bool result) {
  const own_code scope;
  world& w = world_of(scope);
  auto& t = state_->of(w);
  if (scope.running() != nullptr) w.operation_ends(changes_map(t.kind, result));
  open(w, t);
  t.lane.end(result, w.moment());
}

void recorder::end_with(const std::uint64_t* before) {
  const own_code scope;
  world& w = world_of(scope);
  auto& t = state_->of(w);
  if (scope.running() != nullptr) w.operation_ends(changes_map(t.kind, before != nullptr));
  open(w, t);
  t.lane.end_with(before != nullptr ? std::optional(*before) : std::nullopt, w.moment());
  if (before != nullptr) require(state_->may_return(scope, *before), unordered_value);
}

void recorder::stores(std::uint64_t value) {
  const own_code scope;
  state_->stores(scope, value);
}

void recorder::visit(std::uint64_t key, std::uint64_t value) {
  const own_code scope;
  state_->of(world_of(scope)).visited.push_back({key, value});
  require(state_->may_return(scope, value), unordered_value);
}

void recorder::end_scan(bool reached_end) {
  const own_code scope;
  world& w = world_of(scope);
  auto& t = state_->of(w);
  if (scope.running() != nullptr) w.operation_ends(false);
  open(w, t);
  for (const map_entry& e : t.visited) t.lane.visit(e.key, e.value);
  t.lane.end_scan(reached_end, w.moment());
}

void recorder::check() const {
  std::string wrong;
  {
    const own_code scope;
    history observed;
    for (const map_entry& e : state_->initial) observed.add_initial(e.key, e.value);
    for (const auto& t : state_->threads)
      if (t) observed.add(t->lane);
    const verdict v = sim::check(observed);
    if (v.result == outcome::violation) wrong = "the map's history is not linearizable: " + v.explanation;
    if (v.result == outcome::unknown)
      wrong = "whether the map's history is linearizable is unknown: " + v.explanation;
  }
  if (!wrong.empty()) fail(wrong);
}

}  // namespace espalier::sim
