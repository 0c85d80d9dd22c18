#include "sim/memory/eager_reclaimer.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "sim/explore.hpp"
#include "sim/runtime/world.hpp"

namespace espalier::sim {

struct eager_reclaimer::state {
  struct waiting_entry {
    retired entry;
    std::vector<std::uint64_t> guards;  // those that existed when it was retired and still do
  };

  std::map<std::uint64_t, std::size_t> reserved;  // by guard
  std::vector<waiting_entry> waiting;
  std::uint64_t next_guard = 1;

  /// Takes out what nothing protects any more.
  template <class Ready>
  std::vector<retired> take_if(Ready&& ready) {
    std::vector<retired> taken;
    std::erase_if(waiting, [&](const waiting_entry& w) {
      if (!ready(w)) return false;
      taken.push_back(w.entry);
      return true;
    });
    return taken;
  }
};

namespace {

/// Giving back is the program's own doing: destructors and deallocations, with steps and all. It may be
/// interrupted, so nothing of the state is held meanwhile.
void give_back(const std::vector<retired>& entries, const own_code& scope) noexcept {
  if (entries.empty()) return;
  for (const retired& entry : entries) {
    if (scope.allocating() == nullptr) {
      entry.reclaim(entry);
      continue;
    }
    const program_code inside(*scope.allocating(), scope.running() != nullptr);
    entry.reclaim(entry);
  }
}

}  // namespace

eager_reclaimer::eager_reclaimer() {
  const own_code scope;
  state_ = new state;
}

eager_reclaimer::~eager_reclaimer() {
  const own_code scope;
  give_back(state_->take_if([](const auto&) { return true; }), scope);
  delete state_;
}

eager_reclaimer::guard eager_reclaimer::pin() {
  const own_code scope;
  const std::uint64_t number = state_->next_guard++;
  state_->reserved[number] = 0;
  return guard(*this, number);
}

void eager_reclaimer::unpin(std::uint64_t number) noexcept {
  const own_code scope;
  state_->reserved.erase(number);
  for (auto& w : state_->waiting) std::erase(w.guards, number);
  give_back(state_->take_if([](const auto& w) { return w.guards.empty(); }), scope);
}

void eager_reclaimer::guard::reserve(std::size_t n) {
  const own_code scope;
  std::size_t& room = owner_->state_->reserved[number_];
  room = std::max(room, n);
}

void eager_reclaimer::guard::retire(const retired& entry) noexcept {
  note_retired(entry.object);
  const own_code scope;
  state& s = *owner_->state_;
  std::size_t& room = s.reserved[number_];
  require(room != 0, "an entry is retired without a reservation for it");
  --room;
  s.waiting.push_back({entry, {}});
  for (const auto& [pinned, unused] : s.reserved) s.waiting.back().guards.push_back(pinned);
}

void eager_reclaimer::purge(void* owner) noexcept {
  const own_code scope;
  give_back(state_->take_if([owner](const auto& w) { return w.entry.owner == owner; }), scope);
}

std::size_t eager_reclaimer::collect() noexcept {
  const own_code scope;
  return state_->waiting.size();
}

}  // namespace espalier::sim
