#include "espalier/oltp/engine/attempt.hpp"

// Strict two-phase locking (Yu et al., "Staring into the Abyss", VLDB 2014). A transaction locks a row before it reads or
// changes it, and releases all locks at its end. NO_WAIT and WAIT_DIE differ in what happens if the lock is not free.
//
// No phantoms, over any map (next-key locking; Mohan, "ARIES/KVL", VLDB 1990). The lock of a row also guards the gap before
// the row, in each index; the gap after the last row has a lock of its own.
//   A range    The transaction locks the rows of the range and the row after them, and then looks into the index once more.
//              If a row has come meanwhile, it locks that one too. A key that is absent is an empty range.
//   An insert  The new row is locked before it is in the index. The transaction locks the row after it exclusively while it
//              inserts the new one, which then guards both halves of the gap.
//   An erase   The row stays in the indexes, locked, until the commit. So the gap before it does not grow under a reader.
// An insert locks no gap if no other transaction reads gaps of the index. Then it looks for such readers after the insert,
// and takes the row out again if there is one. A transaction says that it reads gaps before its last look into the index.

namespace espalier::oltp::engine {

namespace {

/// Lock is the member of row_lock that the protocol uses.
template <auto Lock>
class two_phase final : public attempt {
 public:
  two_phase(shared_state& shared, own_counts& counts) : attempt(shared, counts, kind::locks) {}

 private:
  void read(access& a, intent i) override {
    if (lock(a.of->lock(), a.held, mode_of(i)))
      a.absent = !a.of->live.load(std::memory_order_relaxed);  // relaxed: under its lock
  }

  void hide(access& a) override { read(a, intent::write); }

  bool keep_absent(index_base& in, std::uint64_t key, stored_row* under, std::uint64_t /*left*/,
                   intent i) override {
    // This transaction holds the lock of that row. If the row is still in the index, it is left over: it stays there, and its
    // lock guards the key.
    if (under != nullptr) return in.find(key) == under;
    read_gaps(in);
    const index_base::entry_of_row successor = in.first_from(key);
    // The key may have come before the look for its successor.
    if (successor.of != nullptr && successor.key == key) return false;
    lock_gap(in, successor.of, i);
    const index_time counted(*this);
    return in.first_from(key) == successor;
  }

  bool keep_part(index_base& in, const part_of_range& part, intent i) override {
    read_gaps(in);
    // After a row with the last key of the range there is no gap that belongs to the range.
    if (part.ends && (part_.size() == part.base || part_.back().key != part.to))
      lock_gap(in, part.successor, i);
    // A row may have come before the locks were held.
    again_.clear();
    part_of_range now = part;
    collect(in, now, again_);
    return now.ends == part.ends && now.successor == part.successor &&
           std::equal(again_.begin(), again_.end(), part_.begin() + static_cast<std::ptrdiff_t>(part.base),
                      part_.end());
  }

  stored_row* put(index_base& in, std::uint64_t key, std::uint32_t at) override {
    if (put_unwatched(in, key, at)) return nullptr;
    while (true) {
      index_base::entry_of_row successor;
      {
        const index_time counted(*this);
        successor = in.first_from(key);
      }
      if (in.is_unique() && successor.of != nullptr && successor.key == key) return successor.of;
      if (!put_before(in, successor, key, accesses_[at].of)) continue;
      note_change(in, key, at, true);
      return nullptr;
    }
  }

  void clear_key(index_base& in, std::uint64_t key, access& a, backoff& /*pause*/) override {
    // If it is not left over, it has left the key while this transaction waited for its lock.
    if (!a.of->left_over.load(std::memory_order_relaxed)) return;  // relaxed: a hint
    // Exclusive: no other transaction is about to give it the key.
    lock(a.of->lock(), a.held, lock_mode::exclusive);
    in.remove(*guard_, key, a.of);
  }

  void release(bool committed) noexcept override {
    for (const access& a : accesses_) {
      if (committed && (a.inserted || a.erased))
        a.of->live.store(!a.erased, std::memory_order_relaxed);  // relaxed: under its lock
      unlock(a.of->lock(), a.held);
    }
    for (const auto& [in, held] : ends_) unlock(in->gaps().end(), held);
    for (index_base* const in : gaps_) in->gaps().end_reading();
    ends_.clear();
    gaps_.clear();
  }

  static constexpr lock_mode mode_of(intent i) noexcept {
    return i == intent::write ? lock_mode::exclusive : lock_mode::shared;
  }
  /// False if the transaction has it already.
  bool lock(row_lock& l, lock_mode& held, lock_mode wanted) {
    if (held == wanted || held == lock_mode::exclusive) return false;
    acquire(l.*Lock, wanted, held);
    held = wanted;
    return true;
  }
  void acquire(no_wait_lock& l, lock_mode wanted, lock_mode held) {
    if (wanted == lock_mode::shared ? l.try_shared() : l.try_exclusive(held)) return;
    if (!may_wait()) give_up(abort_reason::conflict);
    add(counts_.waits);
    const wait_time timed(*this);
    for (backoff pause; !l.try_reserving(wanted, held);) pause.wait();
  }
  void acquire(wait_die_lock& l, lock_mode wanted, lock_mode held) {
    if (is_granted(l, wanted, held)) return;
    add(counts_.waits);
    const wait_time timed(*this);
    for (backoff pause;;) {
      pause.wait();
      if (is_granted(l, wanted, held)) return;
    }
  }
  /// False if the transaction is to wait.
  bool is_granted(wait_die_lock& l, lock_mode wanted, lock_mode held) {
    const lock_answer answer = l.request(wanted, held, age());
    if (answer == lock_answer::die) give_up(abort_reason::conflict);
    return answer == lock_answer::granted;
  }
  static void unlock(row_lock& l, lock_mode held) noexcept {
    if (held != lock_mode::none) (l.*Lock).release(held);
  }

  /// How the transaction holds the lock of the gap after the last row.
  lock_mode& held_at_end(index_base& in) {
    for (auto& [known, held] : ends_) {
      if (known == &in) return held;
    }
    return ends_.emplace_back(&in, lock_mode::none).second;
  }
  /// The gap before a row; null: after the last one. Exclusively where the transaction will insert into it.
  void lock_gap(index_base& in, stored_row* successor, intent i) {
    if (successor != nullptr)
      read_row(successor, i);
    else
      lock(in.gaps().end(), held_at_end(in), mode_of(i));
  }
  [[nodiscard]] bool reads_gaps(const index_base& in) const noexcept {
    return std::find(gaps_.begin(), gaps_.end(), &in) != gaps_.end();
  }
  void read_gaps(index_base& in) {
    if (reads_gaps(in)) return;
    gaps_.push_back(&in);
    in.gaps().begin_reading();
  }

  /// If no other transaction reads gaps of the index. False otherwise, and if the index is unique and has the key.
  bool put_unwatched(index_base& in, std::uint64_t key, std::uint32_t at) {
    const bool by_itself = reads_gaps(in);
    if (in.gaps().are_read(by_itself)) return false;
    {
      const index_time counted(*this);
      if (!in.insert(key, accesses_[at].of)) return false;
    }
    note_change(in, key, at, true);
    // A transaction that begins to read gaps and is not seen here sees the row, which is locked.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!in.gaps().are_read(by_itself)) return true;
    in.remove(*guard_, key, accesses_[at].of);
    accesses_[at].last_change = changes_.back().former;
    changes_.pop_back();
    return false;
  }
  /// With the gap before the successor locked meanwhile. False if the successor has changed.
  bool put_before(index_base& in, const index_base::entry_of_row& successor, std::uint64_t key,
                  stored_row* r) {
    row_lock& gap = successor.of != nullptr ? successor.of->lock() : in.gaps().end();
    const std::uint32_t known = successor.of != nullptr ? accesses_.find(successor.of) : none;
    const lock_mode before = successor.of == nullptr ? held_at_end(in)
                             : known != none         ? accesses_[known].held
                                                     : lock_mode::none;
    lock_mode held = before;
    lock(gap, held, lock_mode::exclusive);
    struct restored {
      row_lock& gap;
      lock_mode before;
      ~restored() {
        if (before == lock_mode::none)
          unlock(gap, lock_mode::exclusive);
        else if (before == lock_mode::shared)
          (gap.*Lock).downgrade();
      }
    };
    const restored after{gap, before};
    const index_time counted(*this);
    return in.first_from(key) == successor && in.insert(key, r);
  }

  std::vector<std::pair<index_base*, lock_mode>> ends_;  ///< locks of gaps after the last row
  std::vector<index_base*> gaps_;                        ///< indexes of which it reads gaps
  std::vector<key_and_row> again_;
};

}  // namespace

std::unique_ptr<attempt> make_no_wait(shared_state& shared, own_counts& counts) {
  return std::make_unique<two_phase<&row_lock::no_wait>>(shared, counts);
}

std::unique_ptr<attempt> make_wait_die(shared_state& shared, own_counts& counts) {
  return std::make_unique<two_phase<&row_lock::wait_die>>(shared, counts);
}

}  // namespace espalier::oltp::engine
