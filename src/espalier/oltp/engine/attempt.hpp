#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "espalier/hw/thread_slot.hpp"
#include "espalier/oltp/engine/index_base.hpp"
#include "espalier/oltp/engine/shared_state.hpp"
#include "espalier/oltp/outcome.hpp"
#include "espalier/oltp/row.hpp"
#include "espalier/reclaim/epoch.hpp"
#include "espalier/sync/backoff.hpp"

// What a transaction does to rows and indexes, without their types. A transaction is of one thread. It is pinned in the
// database's domain: what it has found is not freed.

namespace espalier::oltp {

/// A number that one thread adds to, and any thread may read.
class own_count {
 public:
  void add(std::uint64_t amount = 1) noexcept {
    // relaxed, and no read-modify-write: only its thread writes it, and a count needs no order.
    now_.store(now_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t read() const noexcept {
    return now_.load(std::memory_order_relaxed);  // relaxed: as above
  }

 private:
  std::atomic<std::uint64_t> now_{0};
};

/// The counts of the transactions of one thread, while it counts.
struct own_counts {
  own_count commits;
  std::array<own_count, abort_reasons> aborts;
  own_count waits, index_operations, sampled, sampled_ticks, sampled_index_ticks;

  /// Of a thread that counts meanwhile each number is one that it had, and they may be of different moments.
  [[nodiscard]] transaction_counts read() const noexcept;
};

/// Of each kind of memory an attempt leaves at most this to the next one of its thread.
inline constexpr std::size_t kept_bytes = std::size_t{1} << 20;

/// Memory for the copies of rows of one attempt.
class arena {
 public:
  /// Aligned to 8. Throws std::bad_alloc.
  [[nodiscard]] std::byte* take(std::size_t bytes);
  void reset() noexcept {
    if (bytes_ > kept_bytes) {
      blocks_.clear();
      bytes_ = 0;
    }
    block_ = 0;
    used_ = 0;
  }

 private:
  static constexpr std::size_t block_bytes = 32 * 1024;
  struct block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes;
  };
  std::vector<block> blocks_;
  std::size_t bytes_ = 0;  ///< of all blocks
  std::size_t block_ = 0;
  std::size_t used_ = 0;
};

class attempt {
 public:
  /// Of the calling thread, and of others that have its slot later.
  attempt(shared_state& shared, own_counts& counts);
  attempt(const attempt&) = delete;
  attempt& operator=(const attempt&) = delete;
  ~attempt() = default;

  // Attempts.

  /// The age orders transactions under WAIT_DIE: it stays over the attempts. The thread waits until it may begin.
  /// Throws std::bad_alloc.
  void begin(std::uint64_t age, bool sampled, bool wants_precedence);
  /// After the last attempt of a transaction.
  void leave_precedence() noexcept {
    if (!has_precedence_) return;
    has_precedence_ = false;
    shared_.first.release();
  }
  /// Throws restart, what a change has thrown, and std::bad_alloc.
  void commit();
  void roll_back(abort_reason why) noexcept;
  /// Whether what the attempt has read was there at one moment. Throws std::bad_alloc.
  [[nodiscard]] bool is_sound();
  [[noreturn]] void ask_for_roll_back() { give_up(abort_reason::rolled_back); }
  [[nodiscard]] bool is_running() const noexcept { return guard_.has_value(); }

  // Rows. All throw restart, std::bad_alloc, and what key functions throw. What update, insert and erase throw ends the
  // attempt, also where the program catches it: commit() throws it again.

  /// The row of a unique index. Its contents stay as they are until the end of the attempt, or until it changes the row.
  [[nodiscard]] found find(index_base& in, std::uint64_t key, intent i) { return find(in, key, i, i); }
  /// With another intent where the row is absent.
  [[nodiscard]] found find(index_base& in, std::uint64_t key, intent i, intent if_absent);
  /// The same for several, whose misses overlap; at most together_most.
  void find_batch(index_base& in, std::span<const std::uint64_t> keys, std::span<found> results, intent i);
  /// Calls change(data) with the contents to write to. Throws duplicate_key if a unique index has the row's new key, and
  /// std::logic_error if the primary key has changed.
  template <class Change>
  void update(const found& one, Change&& change) {
    whole([&] {
      make_writable(one);
      const former_keys former(*this);
      note_keys(one.access);
      accesses_[one.access].changing = true;
      change(contents(accesses_[one.access]));
      accesses_[one.access].changing = false;
      follow_keys(one.access, former.base);
    });
  }
  void erase(const found& one);
  /// False if a unique index has the row's key.
  [[nodiscard]] bool insert(table_base& into, const std::byte* data);
  /// Calls visit(found) for each row whose key is from `from` to `to`, in order, until it returns false. visit may read and
  /// change rows. At least `at_once` rows are locked or noted at a time.
  template <class Visit>
  void scan(index_base& in, std::uint64_t from, std::uint64_t to, intent i, std::size_t at_once,
            Visit&& visit) {
    const std::size_t base = part_.size();
    while (true) {
      const range_read part = read_range(in, from, to, i, at_once);
      drop_duplicates(in, base);
      // Not to part_.size(): a scan inside visit() that has ended by an exception leaves its rows there.
      for (std::size_t n = base, end = part_.size(); n < end; ++n) {
        const found one = seen(in, part_[n].key, known(part_[n].of));
        if (one && !visit(one)) {
          part_.resize(base);
          return;
        }
      }
      part_.resize(base);
      if (part.ends) return;
      from = part.next;
    }
  }

  /// In a child of fork() that does not have the thread.
  void forget_thread() noexcept;
  /// Of the last commit under Silo: the number that it installed.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

 private:
  /// A row that the attempt has read, locked or written.
  struct access {
    stored_row* of;
    lock_mode held = lock_mode::none;
    bool writes = false;
    bool inserted = false;
    bool erased = false;
    bool changing = false;             ///< the program's function of an update runs
    bool listed = false;               ///< in the part of a range that drop_duplicates() looks at
    bool read = false;                 ///< Silo: the number is validated
    std::uint32_t last_change = none;  ///< in changes_
    std::uint64_t number = 0;          ///< Silo: when it was read
    std::byte* copy = nullptr;  ///< locking: the former contents; Silo: the contents as the attempt has them
  };
  /// A change of an index: undone by an abort, or done by the commit.
  struct index_change {
    index_base* in;  ///< null: it has been taken back
    std::uint64_t key;
    stored_row* of;
    bool inserted;         ///< else: to be removed
    std::uint32_t former;  ///< the change of the same row before it
  };
  /// Silo: what a range contained.
  struct range {
    index_base* in;
    std::uint64_t from;
    std::uint64_t to;
    std::uint64_t left;  ///< how many rows had left keys of the index before it was read
    std::size_t first;   ///< in range_rows_
    std::size_t count;
  };
  /// What became of a part of a range. Its rows are at the end of part_.
  struct range_read {
    bool ends;
    std::uint64_t next;
  };
  struct part_entry {
    std::uint64_t key;
    stored_row* of;
    friend bool operator==(const part_entry&, const part_entry&) = default;
  };
  /// Where a part of a range ends.
  struct part_end {
    bool ends;                        ///< there are no more rows in the range
    stored_row* successor = nullptr;  ///< then: the row behind it; null: the end of the index
    friend bool operator==(const part_end&, const part_end&) = default;
  };

  [[nodiscard]] bool locks() const noexcept { return shared_.by != protocol::silo; }
  [[noreturn]] void give_up(abort_reason why) {
    // What a program does after it has caught the end of the attempt tells nothing.
    if (!doomed_) doomed_ = why;
    throw restart{*doomed_, this};
  }
  [[nodiscard]] std::byte* contents(const access& a) const noexcept {
    return locks() || a.copy == nullptr ? a.of->data : a.copy;
  }

  /// Rows and indexes of another database have other locks.
  void require_own(const epoch_domain& of, const std::string& name) const {
    if (&of != &shared_.domain) [[unlikely]]
      throw_foreign(name);
  }
  [[noreturn]] static void throw_foreign(const std::string& name);
  /// A change of rows and indexes. Half of one may not be committed.
  template <class Change>
  decltype(auto) whole(Change&& change) {
    try {
      return change();
    } catch (...) {
      if (failed_ == nullptr) failed_ = std::current_exception();
      throw;
    }
  }

  static constexpr std::uint32_t none = ~std::uint32_t{0};
  [[nodiscard]] std::uint32_t known(const stored_row* r) const noexcept;
  [[nodiscard]] std::uint32_t note(stored_row* r);
  void fill_table(std::size_t slots);
  void wait_for_turn(std::uint64_t age, bool wants_precedence) noexcept;
  [[nodiscard]] bool is_inside_another() const noexcept { return running_ != 0; }
  /// With precedence, unless a transaction of another database runs inside this one.
  [[nodiscard]] bool may_wait() const noexcept { return has_precedence_ && running_ == 1; }
  void lock(row_lock& l, lock_mode& held, lock_mode wanted);
  void release(row_lock& l, lock_mode held) noexcept;
  void lock_end(index_base& in, lock_mode wanted);
  void lock_gap(index_base& in, stored_row* behind, intent i);
  void reads_gaps(index_base& in);
  [[nodiscard]] bool others_read_gaps(index_base& in) const noexcept;
  void lock_or_copy(std::uint32_t at, intent i);
  void copy_row(access& a);
  /// The row's access, locked or copied.
  [[nodiscard]] std::uint32_t read(stored_row* r, intent i);
  void make_writable(const found& one);
  [[nodiscard]] bool is_there(const access& a) const noexcept;
  [[nodiscard]] bool confirms_absence(index_base& in, std::uint64_t key, stored_row* seen, std::uint64_t left,
                                      intent i);
  void note_range(index_base& in, std::uint64_t from, std::uint64_t to, std::uint64_t left, std::size_t base);
  /// What note_keys() has added is of one update, also where it ends by an exception.
  struct former_keys {
    attempt& t;
    const std::size_t base;
    explicit former_keys(attempt& of) noexcept : t(of), base(of.keys_.size()) {}
    former_keys(const former_keys&) = delete;
    former_keys& operator=(const former_keys&) = delete;
    ~former_keys() { t.keys_.resize(base); }
  };
  void note_keys(std::uint32_t at);
  void follow_keys(std::uint32_t at, std::size_t keys);
  void note_change(index_base& in, std::uint64_t key, std::uint32_t at, bool inserted);
  [[nodiscard]] std::uint32_t change_of(const index_base& in, std::uint64_t key, const access& a,
                                        bool inserted) const noexcept;
  [[nodiscard]] bool link(index_base& in, std::uint64_t key, std::uint32_t at);
  [[nodiscard]] bool link_unwatched(index_base& in, std::uint64_t key, std::uint32_t at);
  [[nodiscard]] bool link_before(index_base& in, const index_base::entry_of_row& behind, std::uint64_t key,
                                 stored_row* r);
  [[nodiscard]] bool insert_row(table_base& into, const std::byte* data);
  [[nodiscard]] bool link_all(table_base& into, const std::byte* data, std::uint32_t at);
  [[nodiscard]] range_read read_range(index_base& in, std::uint64_t from, std::uint64_t to, intent i,
                                      std::size_t at_once);
  [[nodiscard]] part_end collect(index_base& in, std::uint64_t from, std::uint64_t to, std::size_t at_once,
                                 std::vector<part_entry>& into);
  [[nodiscard]] found seen(const index_base& in, std::uint64_t key, std::uint32_t at) const;
  [[nodiscard]] bool has_linked(const index_base& in, std::uint64_t key, const access& a) const noexcept;
  void drop_duplicates(index_base& in, std::size_t base);
  void wait_for_transit(const access& a, backoff& pause);
  void remove_left_over(index_base& in, std::uint64_t key, std::uint32_t at);
  void remove_and_unlock(index_base& in, std::uint64_t key, stored_row* r);
  void commit_silo();
  /// Locked: by this attempt, which commits. Else a lock on a row that it writes is of another one, whose rows come one by one.
  [[nodiscard]] bool reads_hold(bool locked) const noexcept;
  [[nodiscard]] bool ranges_hold(bool locked);
  void install() noexcept;
  void remove_from_index(const index_change& c) noexcept;
  void remove_now(index_base& in, std::uint64_t key, stored_row* r);
  void retire(stored_row* r) noexcept;
  void leave_over(stored_row* r) noexcept;
  void release_all() noexcept;
  void end() noexcept;

  class index_time;

  shared_state& shared_;
  std::uint32_t& running_;  ///< transactions of this thread, of all databases
  std::optional<epoch_domain::guard> guard_;
  std::uint64_t age_ = 0;
  bool has_precedence_ = false;
  std::optional<abort_reason> doomed_;  ///< a program that catches what it should not may not commit
  std::exception_ptr failed_;           ///< the same
  std::uint64_t number_ = 0;
  bool has_erased_ = false;  ///< a row, or one whose insert has failed
  arena memory_;
  std::vector<access> accesses_;
  std::vector<std::uint32_t> table_;  ///< open addressing: 1 + index of the access; 0: none
  std::vector<index_change> changes_;
  std::vector<range> ranges_;
  std::vector<stored_row*> range_rows_;
  std::vector<part_entry> part_, again_;
  std::vector<std::pair<index_base*, lock_mode>> ends_;
  std::vector<index_base*> gaps_;  ///< of which it reads gaps
  std::vector<std::pair<index_base*, std::uint64_t>> keys_;
  std::vector<std::uint32_t> writes_;
  own_counts& counts_;
  bool sampled_ = false;
  std::uint64_t began_ = 0;
  std::uint64_t switches_ = 0;
  std::uint64_t index_ticks_ = 0;
};

}  // namespace espalier::oltp
