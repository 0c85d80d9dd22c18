#pragma once

#include <exception>

#include "espalier/hw/clock.hpp"
#include "espalier/oltp/engine/accesses.hpp"
#include "espalier/oltp/outcome.hpp"
#include "espalier/sync/backoff.hpp"

namespace espalier::oltp::engine {

/// Of one thread. Other threads may read them, and then have numbers of different moments.
using own_counts = counts_of<std::atomic<std::uint64_t>>;

/// To a count of the calling thread. relaxed, and no read-modify-write: only this thread writes it, and a count needs no order.
inline void add(std::atomic<std::uint64_t>& count, std::uint64_t amount = 1) noexcept {
  count.store(count.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

/// The transactions of one thread, one after the other, and each one's attempts: what they do to rows and indexes, without
/// their types. Here is what all protocols have in common: which rows an attempt has used, what an abort undoes, and the
/// secondary keys. A protocol derives from it, in a file of its own. The database chooses it when a thread begins its first
/// transaction.
///
/// An attempt is pinned in the database's domain: what it has found is not freed.
class attempt {
 public:
  attempt(const attempt&) = delete;
  attempt& operator=(const attempt&) = delete;
  virtual ~attempt() = default;

  /// Throws std::logic_error inside another transaction of the thread, and in a child of fork() that may not go on.
  void begin_transaction();
  /// The thread waits until the attempt may begin. Throws std::bad_alloc.
  void begin(unsigned attempts_before);
  /// After the last attempt of a transaction.
  void leave_precedence() noexcept {
    if (!has_precedence_) return;
    has_precedence_ = false;
    shared_.first.release();
  }
  /// Throws restart, what a change has thrown, and std::bad_alloc.
  void commit();
  void roll_back(abort_reason why) noexcept;
  /// Rolls the attempt back that the program has ended. False if the program may have seen rows of different moments, as under
  /// Silo: then its reason to end the attempt does not count. Throws std::bad_alloc, after it has rolled back.
  [[nodiscard]] bool end_for_good();
  [[noreturn]] void ask_for_roll_back() { give_up(abort_reason::rolled_back); }

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
      const access& a = accesses_[one.access];
      for (const auto& in : a.of->of->indexes()) keys_.emplace_back(in.get(), in->key_of(a.contents));
      accesses_[one.access].changing = true;
      change(accesses_[one.access].contents);
      accesses_[one.access].changing = false;
      follow_keys(one.access, former.base);
    });
  }
  void erase(const found& one);
  /// False if a unique index has the row's key.
  [[nodiscard]] bool insert(table_base& into, const std::byte* data);
  /// Adds a row that no index has.
  void append(table_base& into, const std::byte* data);
  /// Calls visit(found) for each row whose key is from `from` to `to`, in order, until it returns false. visit may read and
  /// change rows. At least `at_once` rows are locked or noted at a time.
  template <class Visit>
  void scan(index_base& in, std::uint64_t from, std::uint64_t to, intent i, std::size_t at_once,
            Visit&& visit) {
    const std::size_t base = part_.size();
    while (true) {
      const part_of_range part = read_range(in, from, to, i, at_once);
      drop_duplicates(in, base);
      // Not to part_.size(): a scan inside visit() that has ended by an exception leaves its rows there.
      bool goes_on = true;
      for (std::size_t n = base, end = part_.size(); goes_on && n < end; ++n) {
        const found one = seen(in, part_[n].key, accesses_.find(part_[n].of));
        goes_on = !one || visit(one);
      }
      part_.resize(base);
      if (part.ends || !goes_on) return;
      from = part.last + 1;
    }
  }

  /// In a child of fork() that does not have the thread.
  void forget_thread() noexcept;
  /// Silo: the number that the last commit installed.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

 protected:
  /// Whether a protocol locks rows when it reads them, and changes them in place. Else it copies them, and begins no attempt
  /// while another transaction has precedence.
  enum class kind : bool { copies, locks };
  /// Of the calling thread, and of others that have its slot later.
  attempt(shared_state& shared, own_counts& counts, kind k);

  /// A part of a range that was read. Its rows are in part_, from `base` on.
  struct part_of_range {
    std::uint64_t from;
    std::uint64_t to;    ///< the end of the range
    std::uint64_t last;  ///< the last key of the part: `to`, or that of its last row
    std::size_t at_once;
    std::size_t base;
    std::uint64_t left = 0;           ///< index_gaps::left().count() before it was read
    bool ends = true;                 ///< there are no more rows in the range
    stored_row* successor = nullptr;  ///< if it ends: the row after it; null: there is none in the index
  };

  // The protocol. All but release() throw std::bad_alloc, and all but the last three throw restart.

  /// Keeps the row as it is for the attempt, or notes it for validation. Sets contents and absent.
  virtual void read(access& a, intent i) = 0;
  /// Makes a new row invisible to other transactions until the commit.
  virtual void hide(access& a) = 0;
  /// Keeps the key absent. `under` is a row that the index has under it, but not the attempt; null: there is none. `left` is
  /// as in part_of_range. False: look again.
  [[nodiscard]] virtual bool keep_absent(index_base& in, std::uint64_t key, stored_row* under,
                                         std::uint64_t left, intent i) = 0;
  /// Keeps other rows out of a part of a range, whose own rows were read. False: read it again.
  [[nodiscard]] virtual bool keep_part(index_base& in, const part_of_range& part, intent i) = 0;
  /// Puts the row into the index, and notes that. If a unique index has a row with the key: that row, and nothing is changed.
  [[nodiscard]] virtual stored_row* put(index_base& in, std::uint64_t key, std::uint32_t at) = 0;
  /// A row is in a unique index under a key that it does not have. Removes it if it is left over; else waits for the
  /// transaction that will remove it.
  virtual void clear_key(index_base& in, std::uint64_t key, access& a, backoff& pause) = 0;
  /// Before the commit changes anything that it cannot undo. Afterwards nothing fails.
  virtual void validate() {}
  /// Takes the row out of the index.
  virtual void remove(index_base& in, std::uint64_t key, stored_row* r) { in.remove(*guard_, key, r); }
  /// Whether what the attempt has read was there at one moment.
  [[nodiscard]] virtual bool is_sound() { return true; }
  /// The end of the attempt. Releases locks, and forgets what was read.
  virtual void release(bool committed) noexcept = 0;

  // What protocols use.

  [[noreturn]] void give_up(abort_reason why) {
    // An attempt that goes on after the program has caught its end may fail for any reason.
    if (!doomed_) doomed_ = why;
    throw restart{*doomed_, this};
  }
  [[nodiscard]] std::uint64_t age() const noexcept { return has_precedence_ ? age_of_precedence : age_; }
  /// With precedence, unless a transaction of another database runs inside this one.
  [[nodiscard]] bool may_wait() const noexcept { return has_precedence_ && running_ == 1; }
  /// The row's access, read.
  std::uint32_t read_row(stored_row* r, intent i) {
    std::uint32_t at = accesses_.find(r);
    if (at == none) at = accesses_.add(r);
    read(accesses_[at], i);
    return at;
  }
  struct key_and_row {
    std::uint64_t key;
    stored_row* of;
    friend bool operator==(const key_and_row&, const key_and_row&) = default;
  };
  /// Adds the rows of the part to `into`. Sets its `last`, `ends` and `successor`.
  void collect(index_base& in, part_of_range& part, std::vector<key_and_row>& into);
  /// Notes a change of an index, which an abort undoes or the commit completes.
  void note_change(index_base& in, std::uint64_t key, std::uint32_t at, bool inserted);
  /// Whether the attempt has put the row, one of others, under this key.
  [[nodiscard]] bool has_linked(const index_base& in, std::uint64_t key, const access& a) const noexcept {
    return a.writes && change_of(in, key, a, true) != none;
  }
  /// Counts an operation of an index, and its time where it is sampled.
  class index_time {
   public:
    explicit index_time(attempt& t) noexcept : t_(t), begin_(t.sampled_ ? hw::tsc_now() : 0) {
      add(t.counts_.index_operations);
    }
    ~index_time() {
      if (begin_ != 0) t_.index_ticks_ += hw::tsc_now() - begin_;
    }

   private:
    attempt& t_;
    std::uint64_t begin_;
  };

  /// The same for a wait for a lock that is held.
  class wait_time {
   public:
    explicit wait_time(attempt& t) noexcept : t_(t), begin_(t.sampled_ ? hw::tsc_now() : 0) {}
    wait_time(const wait_time&) = delete;
    wait_time& operator=(const wait_time&) = delete;
    ~wait_time() {
      if (begin_ != 0) t_.wait_ticks_ += hw::tsc_now() - begin_;
    }

   private:
    attempt& t_;
    std::uint64_t begin_;
  };

  struct index_change {
    index_base* in;  ///< null: it has been taken back
    std::uint64_t key;
    stored_row* of;
    bool inserted;         ///< else: to be removed
    std::uint32_t former;  ///< the change of the same row before it
  };

  shared_state& shared_;
  own_counts& counts_;
  std::optional<epoch_domain::guard> guard_;
  access_list accesses_;
  arena memory_;
  std::vector<index_change> changes_;
  std::vector<key_and_row> part_;
  std::uint64_t number_ = 0;

 private:
  [[nodiscard]] bool is_running() const noexcept { return guard_.has_value(); }
  /// Rows and indexes of another database have other locks.
  void require_own(const shared_state& of, const std::string& name) const {
    if (&of != &shared_)
      throw std::logic_error("oltp: " + name + " is of another database than the transaction");
  }
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

  [[nodiscard]] found seen(const index_base& in, std::uint64_t key, std::uint32_t at) const {
    const access& a = accesses_[at];
    // The row may have had the key, or get it later.
    if (!a.is_there() || in.key_of(a.contents) != key) return {};
    return {a.contents, at};
  }
  [[nodiscard]] part_of_range read_range(index_base& in, std::uint64_t from, std::uint64_t to, intent i,
                                         std::size_t at_once);
  void drop_duplicates(index_base& in, std::size_t base);
  void make_writable(const found& one);
  /// What is in keys_ after the base is of one update, also where it ends by an exception.
  struct former_keys {
    attempt& t;
    const std::size_t base;
    explicit former_keys(attempt& of) noexcept : t(of), base(of.keys_.size()) {}
    ~former_keys() { t.keys_.resize(base); }
  };
  void follow_keys(std::uint32_t at, std::size_t keys);
  [[nodiscard]] std::uint32_t change_of(const index_base& in, std::uint64_t key, const access& a,
                                        bool inserted) const noexcept;
  [[nodiscard]] bool insert_row(table_base& into, const std::byte* data);
  [[nodiscard]] std::uint32_t add_row(table_base& into, const std::byte* data);
  [[nodiscard]] bool link_all(table_base& into, const std::byte* data, std::uint32_t at);
  [[nodiscard]] bool link(index_base& in, std::uint64_t key, std::uint32_t at);
  void remove_changes(bool inserted) noexcept;
  void retire(stored_row* r) noexcept;
  void leave_over(stored_row* r) noexcept;
  void count_time() noexcept;
  void end() noexcept;

  const kind kind_;
  std::uint32_t& running_;  ///< transactions of this thread, of all databases
  std::uint64_t age_ = 0;
  std::uint64_t transactions_ = 0;
  bool has_precedence_ = false;
  std::optional<abort_reason> doomed_;  ///< the attempt may not commit, though the program has caught its end
  std::exception_ptr failed_;           ///< the same
  bool has_erased_ = false;             ///< a row, or one whose insert has failed
  bool has_appended_ = false;
  std::vector<std::pair<index_base*, std::uint64_t>> keys_;
  bool sampled_ = false;
  std::uint64_t began_ = 0;
  std::uint64_t switches_ = 0;
  std::uint64_t index_ticks_ = 0;
  std::uint64_t wait_ticks_ = 0;
};

[[nodiscard]] std::unique_ptr<attempt> make_no_wait(shared_state& shared, own_counts& counts);
[[nodiscard]] std::unique_ptr<attempt> make_wait_die(shared_state& shared, own_counts& counts);
[[nodiscard]] std::unique_ptr<attempt> make_silo(shared_state& shared, own_counts& counts);
/// By the protocol of the database.
[[nodiscard]] std::unique_ptr<attempt> make_attempt(shared_state& shared, own_counts& counts);

}  // namespace espalier::oltp::engine
