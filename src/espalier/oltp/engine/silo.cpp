#include <cstring>
#include <functional>

#include "espalier/oltp/engine/attempt.hpp"

// Silo (Tu et al., "Speedy Transactions in Multicore In-Memory Databases", SOSP 2013): optimistic. A read copies the row and
// notes its number. The commit locks the rows that it writes in the order of their addresses, notes the epoch, validates what
// was read, and installs the new contents under a larger number.
//
// No phantoms, over any map. An insert puts the row into the indexes at once, marked absent. A commit scans each range that
// it has read once more, after it has locked what it writes. So of two transactions that insert into each other's ranges at
// least one sees the other's row. Each index notes the keys that rows leave, before they leave them: if a range has the same
// rows and no noted key is in it, it had them all the time.

namespace espalier::oltp::engine {

namespace {

// Contents that other threads read while they are written: word by word. relaxed: the number of the row orders them.

void copy_from_shared(std::byte* to, const std::byte* from, std::size_t words) noexcept {
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t word =
        __atomic_load_n(reinterpret_cast<const std::uint64_t*>(from) + i, __ATOMIC_RELAXED);
    std::memcpy(to + 8 * i, &word, 8);
  }
}

void copy_to_shared(std::byte* to, const std::byte* from, std::size_t words) noexcept {
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + 8 * i, 8);
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(to) + i, word, __ATOMIC_RELAXED);
  }
}

class silo final : public attempt {
 public:
  silo(shared_state& shared, own_counts& counts) : attempt(shared, counts, kind::copies) {}

 private:
  /// What a range contained.
  struct range {
    index_base* in;
    std::uint64_t from;
    std::uint64_t to;
    std::uint64_t left;     ///< index_gaps::left().count() before it was read
    std::size_t first = 0;  ///< in range_rows_
    std::size_t count = 0;
  };

  static silo_lock& lock_of(const access& a) noexcept { return a.of->lock().silo; }

  /// Until it is locked.
  void wait_for(silo_lock& l) noexcept {
    if (l.try_lock()) return;
    const wait_time timed(*this);
    for (backoff pause; !l.try_lock();) pause.wait();
  }

  void read(access& a, intent /*i*/) override {
    if (a.read || a.inserted) return;
    const std::size_t bytes = a.of->of->row_bytes();
    std::byte* const copy = memory_.take(bytes);
    for (backoff pause;; pause.wait()) {
      const std::uint64_t before = lock_of(a).number();
      if ((before & silo_lock::locked) != 0) continue;
      copy_from_shared(copy, a.of->data, words_of(bytes));
      std::atomic_thread_fence(std::memory_order_acquire);
      if (lock_of(a).number() != before) continue;
      a.number = before;
      break;
    }
    a.contents = copy;
    a.absent = (a.number & silo_lock::absent) != 0;
    a.read = true;
  }

  void hide(access& a) override {
    lock_of(a).install(silo_lock::absent);
    const std::size_t bytes = a.of->of->row_bytes();
    std::byte* const copy = memory_.take(bytes);
    std::memcpy(copy, a.of->data, bytes);
    a.contents = copy;
  }

  bool keep_absent(index_base& in, std::uint64_t key, stored_row* under, std::uint64_t left,
                   intent /*i*/) override {
    const key_and_row one{key, under};
    note_range({&in, key, key, left}, {&one, under != nullptr ? std::size_t{1} : 0});
    return true;
  }
  bool keep_part(index_base& in, const part_of_range& part, intent /*i*/) override {
    note_range({&in, part.from, part.last, part.left}, std::span(part_).subspan(part.base));
    return true;
  }
  /// With the rows of others that are there, to compare at the commit.
  void note_range(range one, std::span<const key_and_row> rows) {
    one.first = range_rows_.size();
    for (const auto& [key, r] : rows) {
      const access& a = accesses_[accesses_.find(r)];
      if (!a.inserted && !a.absent && !has_linked(*one.in, key, a)) range_rows_.push_back(r);
    }
    one.count = range_rows_.size() - one.first;
    ranges_.push_back(one);
  }

  stored_row* put(index_base& in, std::uint64_t key, std::uint32_t at) override {
    while (true) {
      if (in.is_unique()) {
        const index_time counted(*this);
        if (stored_row* const present = in.find(key)) return present;
      }
      const index_time counted(*this);
      if (in.insert(key, accesses_[at].of)) break;
    }
    note_change(in, key, at, true);
    return nullptr;
  }

  void clear_key(index_base& in, std::uint64_t key, access& a, backoff& pause) override {
    if (a.of->left_over.load(std::memory_order_relaxed)) {  // relaxed: a hint
      if (!lock_of(a).try_lock()) give_up(abort_reason::key_in_transit);
      return remove_and_unlock(in, key, a.of);
    }
    // With precedence, until the row changes or leaves the index.
    if (!may_wait()) give_up(abort_reason::key_in_transit);
    // If it is locked, its commit or its removal runs.
    if (!a.inserted && (lock_of(a).number() & ~silo_lock::locked) != a.number)
      give_up(abort_reason::row_changed);
    pause.wait();
  }

  void remove(index_base& in, std::uint64_t key, stored_row* r) override {
    if (!in.is_unique()) return in.remove(*guard_, key, r);
    // Another transaction may find that the row is left over, and remove it too, or give it the key again.
    wait_for(r->lock().silo);
    remove_and_unlock(in, key, r);
  }
  /// Removes the row unless it has the key again. Attempts that are about to give it the key do not commit.
  void remove_and_unlock(index_base& in, std::uint64_t key, stored_row* r) {
    silo_lock& lock = r->lock().silo;
    std::uint64_t number = lock.number() & ~silo_lock::locked;
    try {
      if ((number & silo_lock::absent) != 0 || in.key_of(r->data) != key) {
        in.remove(*guard_, key, r);
        if (r->left_over.load(std::memory_order_relaxed))
          number += silo_lock::one_number;  // relaxed: as the entry was
      }
    } catch (...) {
      lock.install(number);
      throw;
    }
    lock.install(number);
  }

  void validate() override {
    writes_.clear();
    for (std::uint32_t i = 0; i < accesses_.size(); ++i) {
      if (accesses_[i].writes || accesses_[i].inserted) writes_.push_back(i);
    }
    std::sort(writes_.begin(), writes_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::less<>()(accesses_[a].of, accesses_[b].of);
    });
    for (const std::uint32_t w : writes_) {
      wait_for(lock_of(accesses_[w]));
    }
    // Two fences. If one of two transactions depends on the other, it reads its epoch after it has locked. Where that is an
    // older epoch, the other one validates later, sees the lock, and does not commit. The look into the indexes comes after the
    // locks, too: of two transactions at least one sees what the other has inserted.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const std::uint32_t epoch = shared_.epoch.load(std::memory_order_relaxed);  // relaxed: by the fences
    std::atomic_thread_fence(std::memory_order_seq_cst);
    std::optional<abort_reason> why = abort_reason::row_changed;
    try {
      if (reads_hold(true))
        why = ranges_hold(true) ? std::nullopt : std::optional(abort_reason::range_changed);
    } catch (...) {
      unlock_writes();
      throw;
    }
    if (why) {
      unlock_writes();
      give_up(*why);
    }
    std::uint64_t newest = number_;
    for (const access& a : accesses_)
      newest = std::max(newest, a.number & ~(silo_lock::locked | silo_lock::absent));
    number_ = std::max(newest + silo_lock::one_number, std::uint64_t{epoch} << shared_state::epoch_bit);
    for (const index_change& c : changes_) {
      if (c.in != nullptr && !c.inserted) c.in->gaps().left().note(c.key);
    }
    install();
    if ((counts_.commits.load(std::memory_order_relaxed) + 1) % shared_.chosen.commits_per_epoch == 0)
      shared_.epoch.fetch_add(1, std::memory_order_relaxed);  // relaxed: a number
  }

  void unlock_writes() noexcept {
    for (const std::uint32_t w : writes_) lock_of(accesses_[w]).unlock();
  }

  void install() noexcept {
    std::atomic_thread_fence(std::memory_order_release);
    for (const std::uint32_t w : writes_) {
      const access& a = accesses_[w];
      if (!a.erased) copy_to_shared(a.of->data, a.contents, words_of(a.of->of->row_bytes()));
      if (a.inserted || a.erased)
        a.of->live.store(!a.erased, std::memory_order_relaxed);  // relaxed: under its lock
      lock_of(a).install(number_ | (a.erased ? silo_lock::absent : 0));
    }
  }

  void release(bool /*committed*/) noexcept override {
    empty(ranges_);
    empty(range_rows_);
  }

  bool is_sound() override { return reads_hold(false) && ranges_hold(false); }

  /// `locks`: the attempt commits, and has locked the rows that it writes. Else a lock on one of them is of another attempt,
  /// whose rows appear one by one.
  [[nodiscard]] bool reads_hold(bool locks) const noexcept {
    return std::all_of(accesses_.begin(), accesses_.end(), [locks](const access& a) {
      if (!a.read) return true;
      const std::uint64_t now = lock_of(a).number();
      return a.number == (locks && a.writes ? now & ~silo_lock::locked : now);
    });
  }

  [[nodiscard]] bool ranges_hold(bool locks) {
    for (const range& one : ranges_) {
      std::size_t n = 0;
      bool same = true;
      const index_time counted(*this);
      one.in->scan(one.from, one.count <= 1, [&](std::uint64_t key, stored_row* r) {
        if (key > one.to) return false;
        const std::uint32_t at = accesses_.find(r);
        const bool own = at != none && (accesses_[at].inserted || has_linked(*one.in, key, accesses_[at]));
        if (own) return true;
        const std::uint64_t now = r->lock().silo.number();
        const bool locked_by_other =
            (now & silo_lock::locked) != 0 && (!locks || at == none || !accesses_[at].writes);
        // Absent and not locked: its transaction will find what this one has locked.
        if (!locked_by_other && (now & silo_lock::absent) != 0) return true;
        same = !locked_by_other && n < one.count && range_rows_[one.first + n] == r;
        ++n;
        return same;
      });
      if (!same || n != one.count || one.in->gaps().left().any_since(one.left, one.from, one.to))
        return false;
    }
    return true;
  }

  std::vector<range> ranges_;
  std::vector<stored_row*> range_rows_;
  std::vector<std::uint32_t> writes_;  ///< accesses, by the addresses of their rows
};

}  // namespace

std::unique_ptr<attempt> make_silo(shared_state& shared, own_counts& counts) {
  return std::make_unique<silo>(shared, counts);
}

}  // namespace espalier::oltp::engine
