#include "sim/transactions/simulated_htm.hpp"

#include <cxxabi.h>

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sim/runtime/fibers.hpp"
#include "sim/runtime/world.hpp"
#include "sim/transactions/transactions.hpp"

namespace espalier::sim {
namespace {

using hw::abort_status;
using hw::transaction_outcome;
using hw::transaction_verdict;

/// The state outside a fiber's stack that frames save and restore, which an abort skips: the switches of `here`, the
/// call stack for reports, and the C++ runtime's caught and uncaught exceptions.
class checkpoint {
 public:
  checkpoint() noexcept : here_(here), depth_(running_calls->depth) {
    std::memcpy(exceptions_.data(), abi::__cxa_get_globals(), exceptions_.size());
  }
  void restore() const noexcept {
    here = here_;
    running_calls->depth = depth_;
    std::memcpy(abi::__cxa_get_globals(), exceptions_.data(), exceptions_.size());
  }

 private:
  presence here_;
  std::size_t depth_;
  std::array<std::byte, 16> exceptions_{};
};

/// A transaction that a fiber begins.
class attempt {
 public:
  attempt(world& w, const void* where) noexcept
      : world_(w), all_(*w.transactional), fiber_(w.slot() - 1), where_(where) {}

  [[nodiscard]] bool is_inner() const noexcept { return all_.active(fiber_); }

  void begin(std::jmp_buf& exit) {
    const own_code scope;
    world_.step(transaction_step::begin, where_);
    all_.begin(fiber_, exit);
  }

  /// Returns if the transaction has committed.
  void end(transaction_verdict verdict) { run_all(end_own(verdict)); }

  [[nodiscard]] abort_status taken_back() {
    const transactions::abandoned left = take_back();
    run_all(left.undo);
    return left.status;
  }

  void begin_inner() noexcept { all_.begin_inner(fiber_); }

  void end_inner(transaction_verdict verdict) {
    const own_code scope;
    if (const auto code = verdict.wants_abort()) {
      all_.abort(fiber_, *code);
      all_.leave_if_doomed(fiber_);
    }
    all_.end_inner(fiber_);
  }

 private:
  transactions::actions end_own(transaction_verdict verdict) {
    const own_code scope;
    if (const auto code = verdict.wants_abort()) {
      all_.abort(fiber_, *code);
    } else {
      world_.step(transaction_step::commit, where_);
      if (all_.try_commit(fiber_)) return all_.committed(fiber_);
    }
    all_.leave_if_doomed(fiber_);
    return {};
  }

  transactions::abandoned take_back() {
    const own_code scope;
    transactions::abandoned left = all_.taken_back(fiber_);
    world_.step(transaction_step::abort, where_);
    return left;
  }

  /// The actions do what the program would have done.
  static void run_all(const transactions::actions& actions) {
    for (const auto& action : actions) action();
  }

  world& world_;
  transactions& all_;
  unsigned fiber_;
  const void* where_;
};

/// The frame to which aborts jump. Not inlined: nothing in it changes after the jump target is set.
[[gnu::noinline]] transaction_outcome run_outermost(attempt& mine,
                                                    transaction_verdict (*body)(const void*) noexcept,
                                                    const void* context) {
  const checkpoint before;
  std::jmp_buf exit;
  if (setjmp(exit) == 0) {
    mine.begin(exit);
    mine.end(body(context));
    return {true, abort_status{}};
  }
  before.restore();
  return {false, mine.taken_back()};
}

}  // namespace

bool simulated_htm::available() noexcept {
  const own_code scope;
  return scope.allocating() != nullptr && scope.allocating()->transactional != nullptr;
}

bool simulated_htm::active() noexcept {
  const own_code scope;
  return scope.running() != nullptr && in_transaction(*scope.running());
}

transaction_outcome simulated_htm::run_erased(erased_body body, const void* context) noexcept {
  world* const w = here.running;
  if (w == nullptr || w->transactional == nullptr) return {false, abort_status{}};
  attempt mine(*w, __builtin_return_address(0));
  if (!mine.is_inner()) return run_outermost(mine, body, context);
  mine.begin_inner();
  mine.end_inner(body(context));
  return {true, abort_status{}};
}

}  // namespace espalier::sim

extern "C" void espalier_annotate_record(const void* first, std::size_t bytes, int kind) {
  using namespace espalier;
  const sim::own_code scope;
  if (scope.allocating() == nullptr || scope.allocating()->transactional == nullptr) return;
  scope.allocating()->transactional->annotate(reinterpret_cast<std::uintptr_t>(first), bytes,
                                              static_cast<hw::record_kind>(kind));
}
