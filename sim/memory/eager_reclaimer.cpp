#include "sim/memory/eager_reclaimer.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "sim/explore.hpp"
#include "sim/runtime/world.hpp"
#include "sim/transactions/transactions.hpp"

namespace espalier::sim {

struct eager_reclaimer::state {
  struct waiting_entry {
    retired entry;
    std::vector<std::uint64_t> guards;  // guards that exist and may reach the entry
    weak_memory::event retirement;      // under the weak model
  };

  std::map<std::uint64_t, std::size_t> reserved;  // by guard
  std::vector<waiting_entry> waiting;
  std::uint64_t next_guard = 1;
  // Under the weak model: what happened before all unpins so far, and before the last unpin that released an entry. The
  // reclaiming thread has read all announcements behind a fence, including those of threads for which it did not wait.
  weak_memory::knowledge unpinned;
  weak_memory::knowledge decided;

  /// Removes and returns the entries that are ready.
  template <class Ready>
  std::vector<retired> take_if(Ready&& ready) {
    std::vector<retired> taken;
    std::erase_if(waiting, [&](const waiting_entry& w) {
      if (!ready(w)) return false;
      taken.push_back(w.entry);
      decided = unpinned;
      return true;
    });
    return taken;
  }
};

namespace {

/// Null except in a thread under the weak model.
weak_memory* weak_of(const own_code& scope) noexcept {
  return scope.running() != nullptr ? scope.running()->weak : nullptr;
}

/// During its lifetime, the running thread's steps happen after all unpins that released an entry. The thread's later
/// steps do not: an epoch domain may have left the entry to another thread.
class after_grace {
 public:
  after_grace(const own_code& scope, const weak_memory::knowledge& unpinned)
      : weak_(weak_of(scope)), fiber_(weak_ != nullptr ? scope.running()->slot() - 1 : 0) {
    if (weak_ == nullptr) return;
    before_ = weak_->known(fiber_);
    weak_->acquire(fiber_, unpinned);
  }
  after_grace(const after_grace&) = delete;
  after_grace& operator=(const after_grace&) = delete;
  ~after_grace() {
    if (weak_ != nullptr) weak_->set_known(fiber_, before_);
  }

 private:
  weak_memory* weak_;
  unsigned fiber_;
  weak_memory::knowledge before_;
};

/// Reclaiming is the program's own work: destructors and deallocations are steps. It may be interrupted, so that no
/// reference into the state is held during it.
void reclaim_all(const std::vector<retired>& entries, const weak_memory::knowledge& unpinned,
                 const own_code& scope) noexcept {
  if (entries.empty()) return;
  const after_grace waited(scope, unpinned);
  for (const retired& entry : entries) {
    if (scope.allocating() == nullptr) {
      entry.reclaim(entry);
      continue;
    }
    const program_code inside(*scope.allocating(), scope.running() != nullptr);
    entry.reclaim(entry);
  }
}

bool is_in_transaction(const own_code& scope) noexcept {
  return scope.running() != nullptr && in_transaction(*scope.running());
}

/// Drains the stores of the running thread.
void drain_stores(const own_code& scope) noexcept {
  if (world* const w = scope.running(); w != nullptr && w->buffers != nullptr)
    w->buffers->drain(w->slot() - 1);
}

/// An abort undoes nothing of what this class does, so that the action waits for the commit. False outside
/// transactions.
template <class Action>
bool after_commit(const own_code& scope, Action&& action) {
  if (!is_in_transaction(scope)) return false;
  scope.running()->transactional->on_commit(scope.running()->slot() - 1, std::forward<Action>(action));
  return true;
}

}  // namespace

eager_reclaimer::eager_reclaimer() {
  const own_code scope;
  state_ = new state;
}

eager_reclaimer::~eager_reclaimer() {
  const own_code scope;
  reclaim_all(state_->take_if([](const auto&) { return true; }), state_->unpinned, scope);
  delete state_;
}

eager_reclaimer::guard eager_reclaimer::pin() {
  const own_code scope;
  const std::uint64_t number = state_->next_guard++;
  state_->reserved[number] = 0;
  // A guard that does not happen after a retirement may still reach the entry; an epoch domain would wait for it. A
  // guard that begins after the decision to reclaim sees the unlinking, because the domain's fence orders them.
  if (weak_memory* const weak = weak_of(scope)) {
    const unsigned fiber = scope.running()->slot() - 1;
    weak->see(fiber, state_->decided.seen);
    for (auto& w : state_->waiting)
      if (!weak->happens_before(w.retirement, fiber)) w.guards.push_back(number);
  }
  // The guard disappears with its frame if the transaction aborts.
  if (is_in_transaction(scope))
    scope.running()->transactional->on_abort(scope.running()->slot() - 1, [this, number] { unpin(number); });
  return guard(*this, number);
}

void eager_reclaimer::unpin(std::uint64_t number) noexcept {
  const own_code scope;
  if (after_commit(scope, [this, number] { unpin(number); })) return;
  // An unpin is a release: a thread that learns of it has seen the preceding stores. A store that still waited could
  // otherwise hit memory that this unpin reclaims.
  drain_stores(scope);
  state_->reserved.erase(number);
  if (const weak_memory* const weak = weak_of(scope))
    state_->unpinned.join(weak->known(scope.running()->slot() - 1));
  for (auto& w : state_->waiting) std::erase(w.guards, number);
  const auto ready = state_->take_if([](const auto& w) { return w.guards.empty(); });
  reclaim_all(ready, state_->decided, scope);
}

void eager_reclaimer::guard::reserve(std::size_t n) {
  const own_code scope;
  std::size_t& room = owner_->state_->reserved[number_];
  room = std::max(room, n);
}

void eager_reclaimer::guard::retire(const retired& entry) noexcept { owner_->retire(number_, entry); }

void eager_reclaimer::retire(std::uint64_t number, const retired& entry) noexcept {
  const own_code scope;
  if (after_commit(scope, [this, number, entry] { retire(number, entry); })) return;
  note_retired(entry.object);
  // A guard that is not waited for must not reach the object. So a thread that pins later sees the stores that unlinked
  // it. An epoch domain gets that from the retiring thread's own pin, for which it waits.
  drain_stores(scope);
  state& s = *state_;
  std::size_t& room = s.reserved[number];
  require(room != 0, "an entry is retired without a reservation for it");
  --room;
  s.waiting.push_back({entry, {}, {}});
  if (const weak_memory* const weak = weak_of(scope))
    s.waiting.back().retirement = weak->now(scope.running()->slot() - 1);
  for (const auto& [pinned, unused] : s.reserved) s.waiting.back().guards.push_back(pinned);
}

void eager_reclaimer::purge(void* owner) noexcept {
  const own_code scope;
  const auto mine = state_->take_if([owner](const auto& w) { return w.entry.owner == owner; });
  reclaim_all(mine, state_->unpinned, scope);
}

std::size_t eager_reclaimer::collect() noexcept {
  const own_code scope;
  return state_->waiting.size();
}

}  // namespace espalier::sim
