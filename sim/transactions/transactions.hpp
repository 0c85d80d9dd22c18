#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <vector>

#include "espalier/hw/htm.hpp"
#include "espalier/hw/record.hpp"
#include "sim/machine/machine_spec.hpp"
#include "sim/memory/heap.hpp"
#include "sim/runtime/access.hpp"
#include "sim/runtime/world.hpp"
#include "sim/transactions/transaction_counts.hpp"

namespace espalier::sim {

/// Bytes of a line as bits: `bytes` of them from `offset` on; 1 <= bytes, offset + bytes <= 64.
[[nodiscard]] constexpr std::uint64_t byte_mask(std::uint64_t offset, std::uint64_t bytes) noexcept {
  return ~std::uint64_t{0} >> (64 - bytes) << offset;
}

/// Which bytes of simulated memory form a record or a piece of metadata, according to the program's annotations.
class records {
 public:
  /// [begin, end) becomes one. Overlapping annotations keep their bytes outside; one that is cut on both sides becomes
  /// two.
  void annotate(std::uint64_t begin, std::uint64_t end, hw::record_kind kind);
  /// The bytes no longer belong to any annotation.
  void forget(std::uint64_t begin, std::uint64_t end);
  void clear() noexcept { intervals_.clear(); }

  /// Classifies a conflict on a line, where one thread uses the bytes of one mask and another thread those of the other
  /// (bit i: byte i of the line). Common bytes in no record are a true conflict. A record that both use makes it one,
  /// too, whatever else they share. O(log records + those in the line).
  [[nodiscard]] abort_reason meeting(std::uint64_t line, std::uint64_t one, std::uint64_t other) const;

 private:
  struct interval {
    std::uint64_t end;
    hw::record_kind kind;
  };
  std::map<std::uint64_t, interval> intervals_;  // by begin, disjoint
};

/// Hardware transactions of one world's fibers, modelled on those of Intel's processors.
///
/// A transaction writes to memory at once and logs the old contents. Conflicts are detected line by line, eagerly, and
/// the requester wins: an access by another fiber, in a transaction or not, to a line that this one has written, or a
/// write to one that it has read, undoes it at once. The fiber itself learns of it when it runs next, before it does
/// anything else. So no fiber ever sees a speculative write, and an aborted transaction never acts on what it saw.
/// Written lines must fit the ways of each set of an L1, and stay there: a world with caches reports displaced lines by
/// on_displaced(). Lines read are limited only in number, because processors track them beyond the L1.
///
/// An abort undoes announced writes outside the fiber's own stack, allocations, and what on_abort() was given. A block
/// that is freed inside a transaction is freed by the commit.
///
/// The world owns one object and points to it by `transactional`. It calls reset() before a run, announces accesses by
/// on_access(), stores that leave a buffer by on_visible() and lines that leave an L1 by on_displaced(), and implements
/// world::step(). The other functions are called by the program. Fibers are numbered from 0. Deterministic.
class transactions {
 public:
  explicit transactions(world& owner) noexcept : owner_(owner) {}
  transactions(const transactions&) = delete;
  transactions& operator=(const transactions&) = delete;

  /// Drops transactions, records and counts; those of a failed run are dropped as they are. With a nonzero seed, one
  /// transaction in `spurious_one_in` aborts for no reason, in its first accesses or at its end. Which ones depends on
  /// the seed, the fiber and the number of its earlier transactions. Throws std::invalid_argument if a limit is 0.
  void reset(const transactional_spec& limits, std::uint64_t spurious_seed = 0);
  static constexpr std::uint64_t spurious_one_in = 8;
  /// Drops only transactions and counts, before another phase of the same program.
  void restart() noexcept;

  [[nodiscard]] const transaction_counts& counts() const noexcept { return counts_; }

  /// Whether the fiber is in a transaction, including a doomed one.
  [[nodiscard]] bool active(unsigned fiber) const noexcept {
    return fiber < states_.size() && states_[fiber].now != phase::none;
  }
  /// Whether its transaction has been aborted and the fiber has not noticed yet.
  [[nodiscard]] bool doomed(unsigned fiber) const noexcept {
    return fiber < states_.size() && states_[fiber].now == phase::doomed;
  }

  /// The running fiber is about to do this: called when it has its turn, and before any effect of the access. Does not
  /// return if its transaction is doomed, before or by this access. O(lines of the access x fibers in transactions on
  /// them).
  void on_access(unsigned fiber, const access& a) {
    if (open_ == 0) return;
    leave_if_doomed(fiber);
    observe(fiber, a);
    leave_if_doomed(fiber);
  }
  /// Whether on_access() would end another fiber's transaction now.
  [[nodiscard]] bool conflicts(unsigned fiber, const access& a) const;
  /// An earlier store of this fiber reaches memory now.
  void on_visible(unsigned fiber, std::uintptr_t address, std::size_t bytes) {
    if (open_ != 0) meet(fiber, address, bytes, true);
  }
  /// A request of this fiber for the bytes reaches other transactions, whatever has become of its own.
  void meet(unsigned fiber, const access& a) {
    if (open_ != 0) meet(fiber, a.address, a.bytes, is_write(a.kind));
  }
  /// The L1 evicts this line. If a transaction has written it, that transaction aborts for lack of capacity; it may be
  /// the running fiber's own. O(1), more if there is one.
  void on_displaced(std::uint64_t line);
  /// The running fiber is about to do what no transaction may do: a system call, a pause. Does not return in a
  /// transaction.
  void refuse(unsigned fiber);
  /// Only the bookkeeping of on_access(): an abort of the fiber's own transaction only dooms it.
  void observe(unsigned fiber, const access& a);

  /// These bytes are one record or one piece of metadata, and conflicts about them are counted as such.
  void annotate(std::uintptr_t address, std::size_t bytes, hw::record_kind kind);
  /// Removes the annotation.
  void forget(std::uintptr_t address, std::size_t bytes);

  // For the running fiber in a transaction.

  /// It allocated this block.
  void allocated(unsigned fiber, void* memory) { states_[fiber].allocated.push_back(memory); }
  /// It frees this block.
  void free_at_commit(unsigned fiber, void* memory, const block_event& by) {
    states_[fiber].freed.push_back({memory, by});
  }
  /// Actions of simulator code, run as the program's own code: after the commit, in the given order, or to undo, after
  /// the fiber has noticed the abort, in reverse.
  void on_commit(unsigned fiber, std::function<void()> action);
  void on_abort(unsigned fiber, std::function<void()> action);

  // The steps of a transaction, for simulated_htm.

  using actions = std::vector<std::function<void()>>;

  /// An abort jumps to `exit`, which must stay valid until taken_back() or committed().
  void begin(unsigned fiber, std::jmp_buf& exit);
  void begin_inner(unsigned fiber) noexcept { ++states_[fiber].depth; }
  void end_inner(unsigned fiber) noexcept { --states_[fiber].depth; }
  /// The program requests an abort.
  void abort(unsigned fiber, hw::abort_code code);
  /// Commits, and returns false if the fiber is doomed: then taken_back() follows.
  [[nodiscard]] bool try_commit(unsigned fiber);
  /// The actions to run after a commit.
  [[nodiscard]] actions committed(unsigned fiber);
  struct abandoned {
    hw::abort_status status;
    actions undo;
  };
  /// The fiber has returned to where it began.
  [[nodiscard]] abandoned taken_back(unsigned fiber);
  /// Jumps to the exit of a doomed transaction.
  void leave_if_doomed(unsigned fiber) {
    if (doomed(fiber)) std::longjmp(*states_[fiber].exit, 1);
  }

 private:
  enum class phase : std::uint8_t { none, running, doomed };

  /// The bytes of one line that one transaction has touched.
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

  /// Aborts the other transactions that conflict with an access to these bytes.
  void meet(unsigned fiber, std::uintptr_t address, std::size_t bytes, bool write);
  /// Adds an access to a running transaction; false if it does not fit.
  bool touch(unsigned fiber, std::uint64_t line, std::uint64_t mask, bool reads, bool writes,
             std::uintptr_t address, std::size_t bytes);
  void doom(unsigned fiber, hw::abort_status status, abort_reason reason);
  /// Drops the read and write sets.
  void release(unsigned fiber);

  world& owner_;
  transactional_spec limits_{};
  std::uint64_t spurious_seed_ = 0;
  unsigned open_ = 0;  // transactions running or doomed
  std::vector<state> states_;
  // By simulated line: the transactions that have touched it. Accessed by key, never iterated.
  std::unordered_map<std::uint64_t, std::vector<line_use>> lines_;
  sim::records records_;
  transaction_counts counts_;
};

/// Whether the running fiber is in a transaction.
[[nodiscard]] inline bool in_transaction(const world& w) noexcept {
  return w.transactional != nullptr && w.transactional->active(w.slot() - 1);
}

/// The running fiber is about to do what no transaction may do.
inline void leave_transaction(const world& w) {
  if (w.transactional != nullptr) w.transactional->refuse(w.slot() - 1);
}

}  // namespace espalier::sim
