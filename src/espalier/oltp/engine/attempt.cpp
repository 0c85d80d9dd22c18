#include "espalier/oltp/engine/attempt.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/clock.hpp"
#include "espalier/oltp/engine/table_base.hpp"
#include "espalier/sync/backoff.hpp"

namespace espalier::oltp {

namespace {

constexpr std::size_t least_slots = 64;

std::size_t slot_of(const stored_row* r, std::size_t slots) noexcept {
  return (reinterpret_cast<std::uintptr_t>(r) * 0x9E3779B97F4A7C15U >> 20) & (slots - 1);
}

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

constexpr lock_mode mode_of(intent i) noexcept {
  return i == intent::write ? lock_mode::exclusive : lock_mode::shared;
}

template <class T>
void empty(std::vector<T>& all) noexcept {
  if (all.empty()) return;
  if (all.capacity() * sizeof(T) > kept_bytes)
    std::vector<T>().swap(all);
  else
    all.clear();
}

/// How many transactions each thread runs: those of several databases nest. By slot, of which each is of one thread.
std::array<hw::padded<std::uint32_t>, hw::max_thread_slots> running_transactions;

std::uint64_t context_switches() noexcept {
  rusage used{};
  getrusage(RUSAGE_THREAD, &used);
  return static_cast<std::uint64_t>(used.ru_nvcsw + used.ru_nivcsw);
}

}  // namespace

transaction_counts own_counts::read() const noexcept {
  transaction_counts now{.commits = commits.read(),
                         .waits = waits.read(),
                         .index_operations = index_operations.read(),
                         .sampled = sampled.read(),
                         .sampled_ticks = sampled_ticks.read(),
                         .sampled_index_ticks = sampled_index_ticks.read()};
  for (std::size_t i = 0; i < abort_reasons; ++i) now.aborts[i] = aborts[i].read();
  return now;
}

std::byte* arena::take(std::size_t bytes) {
  bytes = 8 * words_of(std::max<std::size_t>(bytes, 1));
  for (; block_ < blocks_.size(); ++block_, used_ = 0) {
    if (blocks_[block_].bytes - used_ >= bytes) {
      std::byte* const at = blocks_[block_].memory.get() + used_;
      used_ += bytes;
      return at;
    }
  }
  const std::size_t size = std::max(bytes, block_bytes);
  blocks_.push_back({std::make_unique<std::byte[]>(size), size});
  bytes_ += size;
  used_ = bytes;
  return blocks_.back().memory.get();
}

/// Counts an operation of an index, and its time where it is sampled.
class attempt::index_time {
 public:
  explicit index_time(attempt& t) noexcept : t_(t), begin_(t.sampled_ ? hw::tsc_now() : 0) {
    t.counts_.index_operations.add();
  }
  index_time(const index_time&) = delete;
  index_time& operator=(const index_time&) = delete;
  ~index_time() {
    if (begin_ != 0) t_.index_ticks_ += hw::tsc_now() - begin_;
  }

 private:
  attempt& t_;
  std::uint64_t begin_;
};

// Attempts -----------------------------------------------------------------------------------------------------------

attempt::attempt(shared_state& shared, own_counts& counts)
    : shared_(shared), running_(running_transactions[hw::thread_slot()].value), counts_(counts) {}

void attempt::forget_thread() noexcept {
  if (is_running()) shared_.torn = true;
  running_ = 0;
  leave_precedence();
  shared_.first.forget_requests();
}

void attempt::throw_foreign(const std::string& name) {
  throw std::logic_error("oltp: " + name + " is of another database than the transaction");
}

void attempt::begin(std::uint64_t age, bool sampled, bool wants_precedence) {
  assert(!is_running());
  if (table_.empty()) fill_table(least_slots);
  if (wants_precedence || (!locks() && shared_.first.is_taken())) wait_for_turn(age, wants_precedence);
  guard_.emplace(shared_.domain.pin());
  ++running_;
  age_ = has_precedence_ ? age_of_precedence : age;
  doomed_.reset();
  failed_ = nullptr;
  sampled_ = sampled;
  if (sampled) {
    switches_ = context_switches();
    index_ticks_ = 0;
    began_ = hw::tsc_now();
  }
}

/// Until the attempt may begin. Nothing is locked, and the thread is not pinned.
void attempt::wait_for_turn(std::uint64_t age, bool wants_precedence) noexcept {
  if (has_precedence_ || is_inside_another()) return;
  if (wants_precedence) {
    for (backoff pause; !shared_.first.try_take(age);) pause.wait();
    has_precedence_ = true;
  } else {
    for (backoff pause; shared_.first.is_taken();) pause.wait();
  }
}

void attempt::end() noexcept {
  if (table_.size() * sizeof(table_[0]) > kept_bytes) {
    empty(table_);  // begin() makes another one
  } else {
    for (const access& a : accesses_) {
      for (std::size_t slot = slot_of(a.of, table_.size()); table_[slot] != 0;
           slot = (slot + 1) & (table_.size() - 1))
        table_[slot] = 0;
    }
  }
  empty(accesses_);
  empty(changes_);
  empty(ranges_);
  empty(range_rows_);
  part_.clear();
  ends_.clear();
  for (index_base* const in : gaps_) in->gap_readers().fetch_sub(1, std::memory_order_release);
  gaps_.clear();
  keys_.clear();
  memory_.reset();
  has_erased_ = false;
  --running_;
  guard_.reset();
}

void attempt::commit() {
  assert(is_running());
  if (doomed_) throw restart{*doomed_, this};
  if (failed_ != nullptr) std::rethrow_exception(failed_);
  if (!locks()) commit_silo();
  // From here on nothing fails.
  if (has_erased_ && locks()) {
    for (const access& a : accesses_) {
      if (a.erased) a.of->live.store(false, std::memory_order_relaxed);  // relaxed: under its lock
    }
  }
  for (const index_change& c : changes_) {
    if (!c.inserted) remove_from_index(c);
  }
  release_all();
  if (has_erased_) {
    for (const access& a : accesses_) {
      if (a.erased) retire(a.of);
    }
  }
  counts_.commits.add();
  if (sampled_) {
    const std::uint64_t now = hw::tsc_now();
    if (context_switches() == switches_) {
      counts_.sampled.add();
      counts_.sampled_ticks.add(now - began_);
      counts_.sampled_index_ticks.add(index_ticks_);
    }
  }
  end();
}

void attempt::roll_back(abort_reason why) noexcept {
  assert(is_running());
  for (std::size_t i = accesses_.size(); i-- > 0;) {
    access& a = accesses_[i];
    if (!locks()) continue;
    if (a.copy != nullptr) std::memcpy(a.of->data, a.copy, a.of->of->row_bytes());
    if (a.inserted) a.of->live.store(false, std::memory_order_relaxed);  // relaxed: under its lock
  }
  for (const index_change& c : changes_) {
    if (c.inserted) remove_from_index(c);
  }
  release_all();
  for (const access& a : accesses_) {
    if (a.inserted) retire(a.of);
  }
  counts_.aborts[static_cast<std::size_t>(why)].add();
  end();
}

void attempt::release_all() noexcept {
  if (!locks()) return;
  for (const access& a : accesses_) release(*a.of->lock, a.held);
  for (const auto& [in, held] : ends_) release(in->end_lock(), held);
}

void attempt::remove_from_index(const index_change& c) noexcept {
  if (c.in == nullptr) return;
  try {
    remove_now(*c.in, c.key, c.of);
  } catch (...) {
    // No memory for a retirement. The row stays in the index, dead, until the database ends or an insert meets it.
    leave_over(c.of);
  }
}

void attempt::remove_now(index_base& in, std::uint64_t key, stored_row* r) {
  const index_time counted(*this);
  if (locks() || !in.is_unique()) return in.remove(*guard_, key, r);
  // Another transaction may find that the row is left over, and remove it too, or give it the key again.
  for (backoff pause; !r->lock->try_lock_number();) pause.wait();
  remove_and_unlock(in, key, r);
}

void attempt::retire(stored_row* r) noexcept {
  if (r->left_over.load(std::memory_order_relaxed)) return;  // relaxed: of this thread
  try {
    guard_->reserve(1);
    r->of->retire(*guard_, r);
  } catch (...) {
    leave_over(r);
  }
}

void attempt::leave_over(stored_row* r) noexcept {
  if (r->left_over.exchange(true, std::memory_order_relaxed)) return;     // relaxed: the list publishes it
  stored_row* first = shared_.left_over.load(std::memory_order_relaxed);  // relaxed: the exchange confirms it
  do {
    r->next_left_over = first;
  } while (!shared_.left_over.compare_exchange_weak(first, r, std::memory_order_acq_rel,
                                                    std::memory_order_relaxed));
}

// Locks --------------------------------------------------------------------------------------------------------------

void attempt::lock(row_lock& l, lock_mode& held, lock_mode wanted) {
  if (held == wanted || held == lock_mode::exclusive) return;
  if (shared_.by == protocol::no_wait) {
    if (!(wanted == lock_mode::shared ? l.try_shared() : l.try_exclusive(held))) {
      if (!may_wait()) give_up(abort_reason::conflict);
      counts_.waits.add();
      for (backoff pause; !l.try_reserving(wanted, held);) pause.wait();
    }
  } else {
    backoff pause;
    for (bool waited = false;; waited = true) {
      const lock_answer answer = l.request(wanted, held, age_);
      if (answer == lock_answer::granted) break;
      if (answer == lock_answer::die) give_up(abort_reason::conflict);
      if (!waited) counts_.waits.add();
      pause.wait();
    }
  }
  held = wanted;
}

void attempt::release(row_lock& l, lock_mode held) noexcept {
  if (held == lock_mode::none) return;
  if (shared_.by == protocol::no_wait)
    l.release(held);
  else
    l.release_requested(held);
}

void attempt::lock_end(index_base& in, lock_mode wanted) {
  for (auto& [known_index, held] : ends_) {
    if (known_index == &in) return lock(in.end_lock(), held, wanted);
  }
  ends_.emplace_back(&in, lock_mode::none);
  lock(in.end_lock(), ends_.back().second, wanted);
}

/// The gap before a row; null: behind the last one. Exclusively where the transaction will insert into it.
void attempt::lock_gap(index_base& in, stored_row* behind, intent i) {
  if (behind != nullptr)
    static_cast<void>(read(behind, i));
  else
    lock_end(in, mode_of(i));
}

/// From here to the end of the attempt inserts of others into the index lock gaps.
void attempt::reads_gaps(index_base& in) {
  if (std::find(gaps_.begin(), gaps_.end(), &in) != gaps_.end()) return;
  gaps_.push_back(&in);
  in.gap_readers().fetch_add(1, std::memory_order_relaxed);  // relaxed: the fence orders it
  // Of an insert that does not see this one, the row is seen from here on.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool attempt::others_read_gaps(index_base& in) const noexcept {
  const bool own = std::find(gaps_.begin(), gaps_.end(), &in) != gaps_.end();
  // acquire: what a transaction has locked that reads no gaps any more, this one does not meet.
  return in.gap_readers().load(std::memory_order_acquire) != (own ? 1U : 0U);
}

// Rows ---------------------------------------------------------------------------------------------------------------

void attempt::fill_table(std::size_t slots) {
  std::vector<std::uint32_t> fresh(slots, 0);
  for (std::uint32_t i = 0; i < accesses_.size(); ++i) {
    std::size_t slot = slot_of(accesses_[i].of, slots);
    while (fresh[slot] != 0) slot = (slot + 1) & (slots - 1);
    fresh[slot] = i + 1;
  }
  table_.swap(fresh);
}

std::uint32_t attempt::known(const stored_row* r) const noexcept {
  for (std::size_t slot = slot_of(r, table_.size()); table_[slot] != 0;
       slot = (slot + 1) & (table_.size() - 1)) {
    if (accesses_[table_[slot] - 1].of == r) return table_[slot] - 1;
  }
  return none;
}

std::uint32_t attempt::note(stored_row* r) {
  if (2 * (accesses_.size() + 1) > table_.size()) fill_table(2 * table_.size());
  access fresh{};
  fresh.of = r;
  accesses_.push_back(fresh);
  std::size_t slot = slot_of(r, table_.size());
  while (table_[slot] != 0) slot = (slot + 1) & (table_.size() - 1);
  const auto at = static_cast<std::uint32_t>(accesses_.size());
  table_[slot] = at;
  return at - 1;
}

void attempt::copy_row(access& a) {
  const std::size_t bytes = a.of->of->row_bytes();
  if (a.copy == nullptr) a.copy = memory_.take(bytes);
  backoff pause;
  while (true) {
    const std::uint64_t before = a.of->lock->number();
    if ((before & row_lock::locked) == 0) {
      copy_from_shared(a.copy, a.of->data, words_of(bytes));
      std::atomic_thread_fence(std::memory_order_acquire);
      if (a.of->lock->number() == before) {
        a.number = before;
        break;
      }
    }
    pause.wait();
  }
  a.read = true;
}

void attempt::lock_or_copy(std::uint32_t at, intent i) {
  access& a = accesses_[at];
  if (locks())
    lock(*a.of->lock, a.held, mode_of(i));
  else if (!a.read && !a.inserted)
    copy_row(a);
}

std::uint32_t attempt::read(stored_row* r, intent i) {
  std::uint32_t at = known(r);
  if (at == none) at = note(r);
  lock_or_copy(at, i);
  return at;
}

void attempt::make_writable(const found& one) {
  if (!one) throw std::logic_error("oltp: there is no row to change; look whether find() has found one");
  // As pointers: a size would be a division.
  access* const known_access = accesses_.data() + one.access;
  if (known_access >= std::to_address(accesses_.end()) || contents(*known_access) != one.data)
    throw std::logic_error("oltp: the row was found by another transaction, or by another attempt");
  access& a = *known_access;
  if (a.erased) throw std::logic_error("oltp: the transaction has erased this row of " + a.of->of->name());
  if (a.changing)
    throw std::logic_error("oltp: a row of " + a.of->of->name() +
                           " may not be changed or erased by the function that changes it");
  a.writes = true;
  if (!locks()) return;
  lock(*a.of->lock, a.held, lock_mode::exclusive);
  if (a.copy != nullptr || a.inserted) return;
  std::byte* const former = memory_.take(a.of->of->row_bytes());
  std::memcpy(former, a.of->data, a.of->of->row_bytes());
  a.copy = former;
}

/// Whether there is such a row for this attempt.
bool attempt::is_there(const access& a) const noexcept {
  if (a.erased) return false;
  if (a.inserted) return true;
  return locks() ? a.of->live.load(std::memory_order_relaxed)  // relaxed: under its lock
                 : a.read && (a.number & row_lock::absent) == 0;
}

found attempt::find(index_base& in, std::uint64_t key, intent i, intent if_absent) {
  require_own(in.domain(), in.name());
  while (true) {
    const std::uint64_t left = in.left().count();
    stored_row* r = nullptr;
    {
      const index_time counted(*this);
      r = in.find(key);
    }
    if (r != nullptr) {
      const std::uint32_t at = read(r, i);
      if (const found one = seen(in, key, at)) return one;
      if (accesses_[at].erased) return {};
    }
    if (confirms_absence(in, key, r, left, if_absent)) return {};
  }
}

void attempt::find_batch(index_base& in, std::span<const std::uint64_t> keys, std::span<found> results,
                         intent i) {
  require_own(in.domain(), in.name());
  std::array<stored_row*, together_most> rows;
  {
    const index_time counted(*this);
    in.find_batch(keys, rows);
  }
  // The misses of the three blocks of all rows overlap.
  for (std::size_t n = 0; n < keys.size(); ++n) {
    if (rows[n] != nullptr) hw::request_lines(rows[n], sizeof(stored_row));
  }
  for (std::size_t n = 0; n < keys.size(); ++n) {
    if (rows[n] == nullptr) continue;
    locks() ? hw::request_to_write(rows[n]->lock) : hw::request_lines(rows[n]->lock, sizeof(row_lock));
    hw::request_lines(rows[n]->data,
                      std::min<std::size_t>(rows[n]->of->row_bytes(), 4 * hw::cache_line_bytes));
  }
  for (std::size_t n = 0; n < keys.size(); ++n) {
    results[n] = rows[n] != nullptr ? seen(in, keys[n], read(rows[n], i)) : found();
    if (!results[n]) results[n] = find(in, keys[n], i);
  }
}

/// Makes sure that the key stays absent; `seen` is what the index has under it, of no use. False if it has something else now.
bool attempt::confirms_absence(index_base& in, std::uint64_t key, stored_row* seen, std::uint64_t left,
                               intent i) {
  if (!locks()) {
    const std::size_t base = part_.size();
    if (seen != nullptr) part_.push_back({key, seen});
    note_range(in, key, key, left, base);
    part_.resize(base);
    return true;
  }
  // Its lock is the key's as long as the index has it: it leaves after this transaction, or for want of memory stays.
  if (seen != nullptr) return in.find(key) == seen;
  reads_gaps(in);
  const index_base::entry_of_row behind = in.first_from(key);
  // The key may have been inserted before the look for what is behind it.
  if (behind.of != nullptr && behind.key == key) return false;
  lock_gap(in, behind.of, i);
  const index_time counted(*this);
  return in.first_from(key) == behind;
}

// Ranges -------------------------------------------------------------------------------------------------------------

namespace {

/// Calls look(key, row) for the rows of an index from a key on, until it returns false. Of `few` the map is asked for one
/// after the other: it need not make an order for them.
template <class Look>
void look_at(const index_base& in, std::uint64_t from, bool few, Look&& look) {
  if (!few || !in.is_unique()) return in.scan(from, look);
  while (true) {
    const auto at = in.first_from(from);
    if (at.of == nullptr || !look(at.key, at.of) || at.key == ~std::uint64_t{0}) return;
    from = at.key + 1;
  }
}

}  // namespace

attempt::part_end attempt::collect(index_base& in, std::uint64_t from, std::uint64_t to, std::size_t at_once,
                                   std::vector<part_entry>& into) {
  const index_time counted(*this);
  part_end at{true, nullptr};
  const std::size_t base = into.size();
  const bool one = at_once == 1 && in.is_unique();
  look_at(in, from, one, [&](std::uint64_t key, stored_row* r) {
    if (key > to) {
      at.successor = r;
      return false;
    }
    // A part ends behind all rows of a key.
    if (into.size() - base >= at_once && into.back().key != key) {
      at.ends = false;
      return false;
    }
    into.push_back({key, r});
    if (one) at.ends = key == to;
    return !one;
  });
  return at;
}

attempt::range_read attempt::read_range(index_base& in, std::uint64_t from, std::uint64_t to, intent i,
                                        std::size_t at_once) {
  require_own(in.domain(), in.name());
  const std::size_t base = part_.size();
  if (locks()) reads_gaps(in);
  while (true) {
    const std::uint64_t left = in.left().count();
    const part_end at = collect(in, from, to, at_once, part_);
    for (std::size_t n = base; n < part_.size(); ++n) {
      const stored_row* const r = part_[n].of;
      hw::request_lines(r->lock, sizeof(row_lock));
      hw::request_lines(r->data, r->of->row_bytes());
    }
    for (std::size_t n = base; n < part_.size(); ++n) static_cast<void>(read(part_[n].of, i));
    const range_read done{at.ends, at.ends ? 0 : part_.back().key + 1};
    if (!locks()) {
      note_range(in, from, at.ends ? to : part_.back().key, left, base);
      return done;
    }
    // An insert of the last key would come before the rows that have it.
    if (at.ends && (part_.size() == base || part_.back().key != to)) lock_gap(in, at.successor, i);
    // What came between before the locks were held.
    again_.clear();
    if (collect(in, from, to, at_once, again_) == at &&
        std::equal(again_.begin(), again_.end(), part_.begin() + static_cast<std::ptrdiff_t>(base),
                   part_.end()))
      return done;
    part_.resize(base);
  }
}

/// Silo: the rows of others in the range, to compare at the commit.
void attempt::note_range(index_base& in, std::uint64_t from, std::uint64_t to, std::uint64_t left,
                         std::size_t base) {
  const std::size_t first = range_rows_.size();
  for (std::size_t n = base; n < part_.size(); ++n) {
    const access& a = accesses_[known(part_[n].of)];
    if (!a.inserted && (a.number & row_lock::absent) == 0 && !has_linked(in, part_[n].key, a))
      range_rows_.push_back(a.of);
  }
  ranges_.push_back({&in, from, to, left, first, range_rows_.size() - first});
}

/// The row that an index has under a key; none if it had the key, or will have it.
found attempt::seen(const index_base& in, std::uint64_t key, std::uint32_t at) const {
  const access& a = accesses_[at];
  if (!is_there(a) || in.key_of(contents(a)) != key) return {};
  return {contents(a), at};
}

/// Whether the attempt has put the row, one of others, under this key.
bool attempt::has_linked(const index_base& in, std::uint64_t key, const access& a) const noexcept {
  return a.writes && change_of(in, key, a, true) != none;
}

/// Several attempts under Silo may have put a row under one key, or it stays there for want of memory.
void attempt::drop_duplicates(index_base& in, std::size_t base) {
  // relaxed: a row that was left over since then is no duplicate before its next change.
  if (in.is_unique() || (locks() && shared_.left_over.load(std::memory_order_relaxed) == nullptr)) return;
  const auto first = part_.begin() + static_cast<std::ptrdiff_t>(base);
  const auto last = std::remove_if(first, part_.end(), [&](const part_entry& e) {
    access& a = accesses_[known(e.of)];
    return in.key_of(contents(a)) == e.key && std::exchange(a.listed, true);
  });
  part_.erase(last, part_.end());
  for (auto e = first; e != part_.end(); ++e) accesses_[known(e->of)].listed = false;
}

// Changes ------------------------------------------------------------------------------------------------------------

void attempt::note_keys(std::uint32_t at) {
  const access& a = accesses_[at];
  for (const auto& in : a.of->of->indexes()) keys_.emplace_back(in.get(), in->key_of(contents(a)));
}

void attempt::follow_keys(std::uint32_t at, std::size_t keys) {
  stored_row* const r = accesses_[at].of;
  for (std::size_t n = keys; n < keys_.size(); ++n) {
    const auto [in, former] = keys_[n];
    const std::uint64_t now = in->key_of(contents(accesses_[at]));
    if (now == former) continue;
    if (in == &r->of->primary())
      throw std::logic_error("oltp: an update may not change the primary key of " + r->of->name() +
                             "; erase the row and insert another one");
    if (!link(*in, now, at))
      throw duplicate_key("oltp: the index " + in->name() + " of " + r->of->name() + " has the key " +
                          std::to_string(now));
    note_change(*in, former, at, false);
  }
}

void attempt::erase(const found& one) {
  whole([&] {
    make_writable(one);
    for (const auto& in : accesses_[one.access].of->of->indexes())
      note_change(*in, in->key_of(contents(accesses_[one.access])), one.access, false);
    accesses_[one.access].erased = has_erased_ = true;
  });
}

bool attempt::insert(table_base& into, const std::byte* data) {
  return whole([&] { return insert_row(into, data); });
}

bool attempt::insert_row(table_base& into, const std::byte* data) {
  require_own(into.domain(), into.name());
  // Over a row that this attempt has erased: that row comes to life again.
  if (has_erased_) {
    const index_time counted(*this);
    stored_row* const r = into.primary().find(into.primary().key_of(data));
    const std::uint32_t at = r != nullptr ? known(r) : none;
    if (at != none && accesses_[at].erased) {
      accesses_[at].erased = false;
      if (!link_all(into, data, at)) return false;
      std::memcpy(contents(accesses_[at]), data, into.row_bytes());
      return true;
    }
  }
  stored_row* const r = into.create(data);
  std::uint32_t at = none;
  try {
    at = note(r);
  } catch (...) {
    into.destroy(r);
    throw;
  }
  accesses_[at].inserted = true;
  if (locks()) {
    lock_mode& held = accesses_[at].held;
    if (shared_.by == protocol::no_wait)
      static_cast<void>(r->lock->try_exclusive(lock_mode::none));
    else
      static_cast<void>(r->lock->request(lock_mode::exclusive, lock_mode::none, age_));
    held = lock_mode::exclusive;
    r->live.store(true, std::memory_order_relaxed);  // relaxed: under its lock
  } else {
    r->lock->install(row_lock::absent);
    accesses_[at].copy = memory_.take(into.row_bytes());
    std::memcpy(accesses_[at].copy, data, into.row_bytes());
  }
  return link_all(into, data, at);
}

/// Puts the row into all indexes. False if a unique one has its key: then the row is erased again. What it has put in is
/// taken out at once, so that another row may have those keys in this transaction; what was there before stays to the commit.
bool attempt::link_all(table_base& into, const std::byte* data, std::uint32_t at) {
  const std::size_t base = changes_.size();
  for (const auto& in : into.indexes()) {
    if (link(*in, in->key_of(data), at)) continue;
    const std::size_t end = changes_.size();
    std::size_t fresh = base;
    for (const auto& linked : into.indexes()) {
      if (linked == in) break;
      if (fresh != end && changes_[fresh].in == linked.get())
        ++fresh;
      else
        note_change(*linked, linked->key_of(data), at, false);
    }
    for (std::size_t n = base; n < end; ++n) {
      index_change& c = changes_[n];
      remove_now(*c.in, c.key, c.of);
      c.in = nullptr;
    }
    accesses_[at].writes = accesses_[at].erased = has_erased_ = true;
    return false;
  }
  return true;
}

void attempt::note_change(index_base& in, std::uint64_t key, std::uint32_t at, bool inserted) {
  access& a = accesses_[at];
  changes_.push_back({&in, key, a.of, inserted, a.last_change});
  a.last_change = static_cast<std::uint32_t>(changes_.size() - 1);
}

/// Where it is in changes_; none if there is no such change.
std::uint32_t attempt::change_of(const index_base& in, std::uint64_t key, const access& a,
                                 bool inserted) const noexcept {
  std::uint32_t at = a.last_change;
  while (at != none &&
         (changes_[at].in != &in || changes_[at].key != key || changes_[at].inserted != inserted))
    at = changes_[at].former;
  return at;
}

bool attempt::link(index_base& in, std::uint64_t key, std::uint32_t at) {
  stored_row* const r = accesses_[at].of;
  // It is there still, and was to be removed.
  if (const std::uint32_t removal = change_of(in, key, accesses_[at], false); removal != none) {
    changes_[removal].in = nullptr;
    return true;
  }
  if (changes_.size() == changes_.capacity()) changes_.reserve(2 * changes_.size() + 8);
  if (locks() && link_unwatched(in, key, at)) return true;
  backoff pause;
  while (true) {
    index_base::entry_of_row behind;
    stored_row* present = nullptr;
    {
      const index_time counted(*this);
      if (locks()) {
        behind = in.first_from(key);
        if (in.is_unique() && behind.of != nullptr && behind.key == key) present = behind.of;
      } else if (in.is_unique()) {
        present = in.find(key);
      }
    }
    if (present != nullptr) {
      const bool itself = present == r;
      const std::uint32_t other = read(present, intent::read);
      const access& a = accesses_[other];
      if (!itself && is_there(a) && in.key_of(contents(a)) == key) return false;
      if (!itself && change_of(in, key, a, false) != none)
        throw std::logic_error("oltp: a row has left the key " + std::to_string(key) + " of the index " +
                               in.name() + " in this transaction; give it to another one in the next");
      if (present->left_over.load(std::memory_order_relaxed))  // relaxed: a hint
        remove_left_over(in, key, other);
      else if (!locks())
        wait_for_transit(accesses_[other], pause);
      // Else it has left the key while this transaction waited for its lock.
      continue;
    }
    if (locks()) {
      if (!link_before(in, behind, key, r)) continue;
    } else {
      const index_time counted(*this);
      if (!in.insert(key, r)) continue;
    }
    note_change(in, key, at, true);
    return true;
  }
}

/// Silo: a row is under a key that it does not have. With precedence, until it changes or leaves the index.
void attempt::wait_for_transit(const access& a, backoff& pause) {
  if (!may_wait()) give_up(abort_reason::key_in_transit);
  // A lock is of its commit, or of its removal.
  if (!a.inserted && (a.of->lock->number() & ~row_lock::locked) != a.number)
    give_up(abort_reason::row_changed);
  pause.wait();
}

/// A row of a unique index stayed under a key that it no longer has, for want of memory. It leaves it now, unless it has
/// it again.
void attempt::remove_left_over(index_base& in, std::uint64_t key, std::uint32_t at) {
  stored_row* const r = accesses_[at].of;
  if (locks()) {
    // Exclusive: no other transaction is about to give it the key.
    lock(*r->lock, accesses_[at].held, lock_mode::exclusive);
    in.remove(*guard_, key, r);
    return;
  }
  if (!r->lock->try_lock_number()) give_up(abort_reason::key_in_transit);
  remove_and_unlock(in, key, r);
}

/// Silo: unless the row has the key again. Attempts that are about to give it the key do not commit.
void attempt::remove_and_unlock(index_base& in, std::uint64_t key, stored_row* r) {
  std::uint64_t number = r->lock->number() & ~row_lock::locked;
  try {
    if ((number & row_lock::absent) != 0 || in.key_of(r->data) != key) {
      in.remove(*guard_, key, r);
      if (r->left_over.load(std::memory_order_relaxed))
        number += row_lock::one_number;  // relaxed: as the entry was
    }
  } catch (...) {
    r->lock->install(number);
    throw;
  }
  r->lock->install(number);
}

/// Where no other transaction reads gaps of the index. False otherwise, and if the index is unique and has the key.
bool attempt::link_unwatched(index_base& in, std::uint64_t key, std::uint32_t at) {
  if (others_read_gaps(in)) return false;
  stored_row* const r = accesses_[at].of;
  {
    const index_time counted(*this);
    if (!in.insert(key, r)) return false;
  }
  note_change(in, key, at, true);
  // A transaction that reads gaps and is not seen here sees the row, which is locked.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!others_read_gaps(in)) return true;
  in.remove(*guard_, key, r);
  accesses_[at].last_change = changes_.back().former;
  changes_.pop_back();
  return false;
}

/// With the gap before that entry locked for the moment. False if it has changed.
bool attempt::link_before(index_base& in, const index_base::entry_of_row& behind, std::uint64_t key,
                          stored_row* r) {
  row_lock& gap = behind.of != nullptr ? *behind.of->lock : in.end_lock();
  lock_mode before = lock_mode::none;
  if (behind.of != nullptr) {
    if (const std::uint32_t at = known(behind.of); at != none) before = accesses_[at].held;
  } else {
    for (const auto& [known_index, held] : ends_) {
      if (known_index == &in) before = held;
    }
  }
  lock_mode held = before;
  lock(gap, held, lock_mode::exclusive);
  struct restored {
    attempt& t;
    row_lock& gap;
    lock_mode before;
    ~restored() {
      if (before == lock_mode::none)
        t.release(gap, lock_mode::exclusive);
      else if (before == lock_mode::shared)
        t.shared_.by == protocol::no_wait ? gap.downgrade() : gap.downgrade_requested();
    }
  };
  const restored after{*this, gap, before};
  const index_time counted(*this);
  return in.first_from(key) == behind && in.insert(key, r);
}

// Silo's commit ------------------------------------------------------------------------------------------------------

void attempt::commit_silo() {
  writes_.clear();
  for (std::uint32_t i = 0; i < accesses_.size(); ++i) {
    if (accesses_[i].writes || accesses_[i].inserted) writes_.push_back(i);
  }
  std::sort(writes_.begin(), writes_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::less<>()(accesses_[a].of, accesses_[b].of);
  });
  for (const std::uint32_t w : writes_) {
    backoff pause;
    while (!accesses_[w].of->lock->try_lock_number()) pause.wait();
  }
  // Two fences. Of two transactions of which one depends on the other, the later one reads its epoch after it has locked; if it
  // reads an older one, the other one validates after that, sees the lock, and does not commit. The look into the indexes
  // comes after the locks, too: of two transactions at least one sees what the other has inserted.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::uint32_t epoch = shared_.epoch.load(std::memory_order_relaxed);  // relaxed: the fences order it
  std::atomic_thread_fence(std::memory_order_seq_cst);
  bool holds = false;
  abort_reason why = abort_reason::row_changed;
  try {
    holds = reads_hold(true);
    if (holds) {
      why = abort_reason::range_changed;
      holds = ranges_hold(true);
    }
  } catch (...) {
    for (const std::uint32_t w : writes_) accesses_[w].of->lock->unlock_number();
    throw;
  }
  if (!holds) {
    for (const std::uint32_t w : writes_) accesses_[w].of->lock->unlock_number();
    give_up(why);
  }
  std::uint64_t newest = number_;
  for (const access& a : accesses_)
    newest = std::max(newest, a.number & ~(row_lock::locked | row_lock::absent));
  number_ = std::max(newest + row_lock::one_number, std::uint64_t{epoch} << shared_state::epoch_bit);
  for (const index_change& c : changes_) {
    if (c.in != nullptr && !c.inserted) c.in->left().note(c.key);
  }
  install();
  if ((counts_.commits.read() + 1) % shared_.commits_per_epoch == 0)
    shared_.epoch.fetch_add(1, std::memory_order_relaxed);  // relaxed: a number
}

void attempt::install() noexcept {
  std::atomic_thread_fence(std::memory_order_release);
  for (const std::uint32_t w : writes_) {
    const access& a = accesses_[w];
    if (!a.erased) copy_to_shared(a.of->data, a.copy, words_of(a.of->of->row_bytes()));
    a.of->lock->install(number_ | (a.erased ? row_lock::absent : 0));
  }
}

bool attempt::is_sound() {
  // The program has caught the end of the attempt, and has thrown another exception.
  if (doomed_ && *doomed_ != abort_reason::rolled_back) return false;
  return locks() || (reads_hold(false) && ranges_hold(false));
}

bool attempt::reads_hold(bool locked) const noexcept {
  return std::all_of(accesses_.begin(), accesses_.end(), [locked](const access& a) {
    if (!a.read) return true;
    const std::uint64_t now = a.of->lock->number();
    return a.number == (locked && a.writes ? now & ~row_lock::locked : now);
  });
}

bool attempt::ranges_hold(bool locked) {
  for (const range& one : ranges_) {
    std::size_t n = 0;
    bool same = true;
    const index_time counted(*this);
    look_at(*one.in, one.from, one.count <= 1, [&](std::uint64_t key, stored_row* r) {
      if (key > one.to) return false;
      const std::uint32_t at = known(r);
      const bool own = at != none && (accesses_[at].inserted || has_linked(*one.in, key, accesses_[at]));
      if (own) return true;
      const std::uint64_t now = r->lock->number();
      const bool locked_by_other =
          (now & row_lock::locked) != 0 && (!locked || at == none || !accesses_[at].writes);
      // Absent and not locked: its transaction will find what this one has locked.
      if (!locked_by_other && (now & row_lock::absent) != 0) return true;
      same = !locked_by_other && n < one.count && range_rows_[one.first + n] == r;
      ++n;
      return same;
    });
    if (!same || n != one.count || one.in->left().any_since(one.left, one.from, one.to)) return false;
  }
  return true;
}

}  // namespace espalier::oltp
