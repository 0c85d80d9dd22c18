#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "espalier/hw/htm.hpp"
#include "sim/machine/machine_spec.hpp"
#include "sim/memory/heap.hpp"
#include "sim/runtime/access.hpp"
#include "sim/runtime/world.hpp"
#include "sim/transactions/records.hpp"
#include "sim/transactions/transaction_counts.hpp"

namespace espalier::sim {

/// Hardware transactions of one world's fibers, as Intel's processors have them.
///
/// A transaction writes to memory at once and logs what was there. Conflicts are found line by line, eagerly,
/// and the requester wins: an access by another fiber, in a transaction or not, to a line that this one has
/// written, or a write to one that it has read, undoes it on the spot. The fiber itself learns of it when it
/// runs next, before it does anything else; so nobody ever sees a speculative write, and an aborted
/// transaction never acts on what it saw. Written lines must fit the ways of each set of an L1, and stay there: a
/// world with caches says by on_displaced() which could not. Lines read are bounded by their number alone, as
/// processors follow them beyond the L1.
///
/// Undone are: announced writes outside the fiber's own stack, allocations, and what on_abort() was given. A
/// block that is freed inside is freed by the commit.
///
/// The world owns one, points to it by `transactional`, calls reset() before a run, announces accesses by
/// on_access(), stores that leave a buffer by on_visible() and lines that leave an L1 by on_displaced(), and
/// implements world::step(). The rest is between the program's calls and this. Fibers are numbered from 0. Deterministic.
class transactions {
 public:
  explicit transactions(world& owner) noexcept : owner_(owner) {}
  transactions(const transactions&) = delete;
  transactions& operator=(const transactions&) = delete;

  /// Forgets transactions, records and counts; those of a failed run are dropped as they are. With a seed
  /// other than 0, one transaction in `spurious_one_in` aborts for no reason, in its first accesses or at its
  /// end: which ones depends on the seed, the fiber and the number of its transactions before. Throws
  /// std::invalid_argument where a limit is 0.
  void reset(const transactional_spec& limits, std::uint64_t spurious_seed = 0);
  static constexpr std::uint64_t spurious_one_in = 8;
  /// Forgets transactions and counts alone, before another phase of the same program.
  void restart() noexcept;

  [[nodiscard]] const transaction_counts& counts() const noexcept { return counts_; }

  /// Whether the fiber is in a transaction, one that is doomed included.
  [[nodiscard]] bool active(unsigned fiber) const noexcept {
    return fiber < states_.size() && states_[fiber].now != phase::none;
  }
  /// Whether it has been aborted and does not know yet.
  [[nodiscard]] bool doomed(unsigned fiber) const noexcept {
    return fiber < states_.size() && states_[fiber].now == phase::doomed;
  }

  /// The running fiber is about to do this: called when it has been its turn, and before anything is made of
  /// the access. Does not return where its transaction is doomed, or by this. O(lines of the access x fibers
  /// in transactions on them).
  void on_access(unsigned fiber, const access& a) {
    if (open_ == 0) return;
    leave_if_doomed(fiber);
    observe(fiber, a);
    leave_if_doomed(fiber);
  }
  /// A store of this fiber, made before, reaches memory now.
  void on_visible(unsigned fiber, std::uintptr_t address, std::size_t bytes) {
    if (open_ != 0) meet(fiber, address, bytes, true);
  }
  /// The L1 of whoever has written this line has no room for it any more: its transaction lacks capacity. That may
  /// be the running fiber's own. O(1), more where there is one.
  void on_displaced(std::uint64_t line);
  /// The running fiber is about to do what no transaction may: a system call, a pause. Does not return in a
  /// transaction.
  void refuse(unsigned fiber);
  /// The bookkeeping of on_access() alone: where it aborts the fiber's own transaction, that is doomed.
  void observe(unsigned fiber, const access& a);

  /// These bytes are one record or one piece of metadata, and conflicts about them are counted so.
  void annotate(std::uintptr_t address, std::size_t bytes, hw::record_kind kind);
  /// They are so no more.
  void forget(std::uintptr_t address, std::size_t bytes);

  // Of the running fiber in a transaction.

  /// A block that was allocated.
  void allocated(unsigned fiber, void* memory) { states_[fiber].allocated.push_back(memory); }
  /// A block that it frees.
  void free_at_commit(unsigned fiber, void* memory, const block_event& by) {
    states_[fiber].freed.push_back({memory, by});
  }
  /// What simulator code does or undoes, as the program's own code, after the commit or after the fiber has
  /// learnt of the abort; first given, first done, and undone in reverse.
  void on_commit(unsigned fiber, std::function<void()> action);
  void on_abort(unsigned fiber, std::function<void()> action);

  // The life of a transaction, for simulated_htm.

  using actions = std::vector<std::function<void()>>;

  /// An abort jumps to `exit`, which must stay valid until taken_back() or committed().
  void begin(unsigned fiber, std::jmp_buf& exit);
  void begin_inner(unsigned fiber) noexcept { ++states_[fiber].depth; }
  void end_inner(unsigned fiber) noexcept { --states_[fiber].depth; }
  /// The program asks for an abort.
  void abort(unsigned fiber, hw::abort_code code);
  /// The commit, or else the fiber is doomed: then taken_back() follows.
  [[nodiscard]] bool try_commit(unsigned fiber);
  /// What to do after a commit.
  [[nodiscard]] actions committed(unsigned fiber);
  struct abandoned {
    hw::abort_status status;
    actions undo;
  };
  /// The fiber is back where it began.
  [[nodiscard]] abandoned taken_back(unsigned fiber);
  /// Jumps to the exit of a doomed transaction.
  void leave_if_doomed(unsigned fiber) {
    if (doomed(fiber)) std::longjmp(*states_[fiber].exit, 1);
  }

 private:
  enum class phase : std::uint8_t { none, running, doomed };

  /// What one transaction has touched of one line, byte by byte.
  struct line_use {
    unsigned fiber;
    std::uint64_t read;
    std::uint64_t written;
  };
  struct old_bytes {
    std::uintptr_t address;
    std::size_t offset;  // in `old`
    std::size_t bytes;
  };
  struct deferred_free {
    void* memory;
    block_event by;
  };
  struct state {
    phase now = phase::none;
    unsigned depth = 0;
    std::jmp_buf* exit = nullptr;
    hw::abort_status status;
    std::uint64_t begun = 0;
    /// Accesses until it aborts for no reason; 0 for never.
    std::uint64_t spurious_in = 0;
    std::vector<std::uint64_t> lines;  // in the order of their first touch
    std::vector<unsigned> written_in_set;
    std::uint64_t read_lines = 0;
    std::vector<old_bytes> log;
    std::vector<std::byte> old;
    std::vector<void*> allocated;
    std::vector<deferred_free> freed;
    actions after_commit;
    actions after_abort;
  };

  /// Aborts the others that an access to these bytes conflicts with.
  void meet(unsigned fiber, std::uintptr_t address, std::size_t bytes, bool write);
  /// Adds an access to a running transaction; false where it does not fit.
  bool touch(unsigned fiber, std::uint64_t line, std::uint64_t mask, bool reads, bool writes,
             std::uintptr_t address, std::size_t bytes);
  void doom(unsigned fiber, hw::abort_status status, abort_reason reason);
  /// Drops the sets.
  void release(unsigned fiber);

  world& owner_;
  transactional_spec limits_{};
  std::uint64_t spurious_seed_ = 0;
  unsigned open_ = 0;  // transactions running or doomed
  std::vector<state> states_;
  // By simulated line: who has touched it. Looked up, never iterated.
  std::unordered_map<std::uint64_t, std::vector<line_use>> lines_;
  sim::records records_;
  transaction_counts counts_;
};

/// Whether the running fiber is in a transaction.
[[nodiscard]] inline bool in_transaction(const world& w) noexcept {
  return w.transactional != nullptr && w.transactional->active(w.slot() - 1);
}

/// The running fiber is about to do what no transaction may.
inline void leave_transaction(const world& w) {
  if (w.transactional != nullptr) w.transactional->refuse(w.slot() - 1);
}

}  // namespace espalier::sim
