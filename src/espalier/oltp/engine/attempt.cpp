#include "espalier/oltp/engine/attempt.hpp"

#include <sys/resource.h>

#include <cstring>

namespace espalier::oltp::engine {

namespace {

/// How many transactions each thread runs: those of several databases nest. By slot, of which each is of one thread.
std::array<hw::padded<std::uint32_t>, hw::max_thread_slots> running_transactions;

std::uint64_t context_switches() noexcept {
  rusage used{};
  getrusage(RUSAGE_THREAD, &used);
  return static_cast<std::uint64_t>(used.ru_nvcsw + used.ru_nivcsw);
}

}  // namespace

std::unique_ptr<attempt> make_attempt(shared_state& shared, own_counts& counts) {
  const protocol by = shared.chosen.by;
  if (by == protocol::no_wait) return make_no_wait(shared, counts);
  return by == protocol::wait_die ? make_wait_die(shared, counts) : make_silo(shared, counts);
}

attempt::attempt(shared_state& shared, own_counts& counts, kind k)
    : shared_(shared), counts_(counts), kind_(k), running_(running_transactions[hw::thread_slot()].value) {}

void attempt::forget_thread() noexcept {
  if (is_running()) shared_.torn = true;
  running_ = 0;
  leave_precedence();
  shared_.first.forget_requests();
}

void attempt::begin_transaction() {
  if (shared_.torn)
    throw std::logic_error(
        "oltp: a transaction of another thread ran when this process was forked; use the database in the "
        "parent");
  if (is_running())
    throw std::logic_error("oltp: a transaction may not run inside another one of its thread");
  age_ = age_at(hw::tsc_now(), hw::thread_slot(), age_);
  ++transactions_;
}

void attempt::begin(unsigned attempts_before) {
  assert(!is_running());
  accesses_.make_table();
  const bool wants_precedence = attempts_before >= shared_.chosen.precedence_after;
  const bool must_wait = wants_precedence || (kind_ == kind::copies && shared_.first.is_taken());
  // Nothing is locked yet, and the thread is not pinned. It does not wait inside another of its transactions, which may hold
  // what the transaction with precedence waits for.
  if (must_wait && !has_precedence_ && running_ == 0) {
    for (backoff pause; wants_precedence ? !shared_.first.try_take(age_) : shared_.first.is_taken();)
      pause.wait();
    has_precedence_ = wants_precedence;
  }
  guard_.emplace(shared_.domain.pin());
  ++running_;
  doomed_.reset();
  failed_ = nullptr;
  sampled_ = shared_.chosen.sample_every != 0 && transactions_ % shared_.chosen.sample_every == 0;
  if (sampled_) {
    switches_ = context_switches();
    index_ticks_ = wait_ticks_ = 0;
    began_ = hw::tsc_now();
  }
}

void attempt::commit() {
  assert(is_running());
  if (doomed_) throw restart{*doomed_, this};
  if (failed_ != nullptr) std::rethrow_exception(failed_);
  validate();
  // From here on nothing fails.
  remove_changes(false);
  release(true);
  if (has_erased_) {
    for (const access& a : accesses_) {
      if (a.erased) retire(a.of);
    }
  }
  if (has_appended_) {
    row_list& mine = shared_.appended.local();
    for (const access& a : accesses_) {
      if (!a.appended) continue;
      a.of->next_listed = mine.first;
      mine.first = a.of;
    }
  }
  add(counts_.commits);
  count_time();
  end();
}

void attempt::count_time() noexcept {
  if (!sampled_) return;
  const std::uint64_t now = hw::tsc_now();
  if (context_switches() != switches_) return;
  add(counts_.sampled);
  add(counts_.sampled_ticks, now - began_);
  add(counts_.sampled_index_ticks, index_ticks_);
  add(counts_.sampled_wait_ticks, wait_ticks_);
}

void attempt::roll_back(abort_reason why) noexcept {
  assert(is_running());
  for (const access& a : accesses_) {
    if (a.former != nullptr) std::memcpy(a.of->data, a.former, a.of->of->row_bytes());
  }
  remove_changes(true);
  release(false);
  for (const access& a : accesses_) {
    if (a.inserted) retire(a.of);
  }
  add(counts_.aborts[static_cast<std::size_t>(why)]);
  count_time();
  end();
}

bool attempt::end_for_good() {
  // A program that has caught the end of the attempt may have thrown another exception.
  bool sound = !doomed_ || *doomed_ == abort_reason::rolled_back;
  try {
    sound = sound && is_sound();
  } catch (...) {
    roll_back(abort_reason::rolled_back);
    throw;
  }
  roll_back(sound ? abort_reason::rolled_back : abort_reason::row_changed);
  return sound;
}

void attempt::end() noexcept {
  accesses_.clear();
  empty(changes_);
  part_.clear();
  keys_.clear();
  memory_.reset();
  has_erased_ = has_appended_ = false;
  --running_;
  guard_.reset();
}

void attempt::remove_changes(bool inserted) noexcept {
  for (const index_change& c : changes_) {
    if (c.in == nullptr || c.inserted != inserted) continue;
    try {
      const index_time counted(*this);
      remove(*c.in, c.key, c.of);
    } catch (...) {
      // No memory for a retirement. The row stays in the index, dead, until the database ends or an insert meets it.
      leave_over(c.of);
    }
  }
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
    r->next_listed = first;
  } while (!shared_.left_over.compare_exchange_weak(first, r, std::memory_order_acq_rel,
                                                    std::memory_order_relaxed));
}

// Reading ------------------------------------------------------------------------------------------------------------

found attempt::find(index_base& in, std::uint64_t key, intent i, intent if_absent) {
  require_own(in.shared(), in.name());
  while (true) {
    const std::uint64_t left = in.gaps().left().count();
    stored_row* r = nullptr;
    {
      const index_time counted(*this);
      r = in.find(key);
    }
    if (r != nullptr) {
      const std::uint32_t at = read_row(r, i);
      if (const found one = seen(in, key, at)) return one;
      if (accesses_[at].erased) return {};
    }
    if (keep_absent(in, key, r, left, if_absent)) return {};
  }
}

void attempt::find_batch(index_base& in, std::span<const std::uint64_t> keys, std::span<found> results,
                         intent i) {
  require_own(in.shared(), in.name());
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
    if (kind_ == kind::locks)
      hw::request_to_write(&rows[n]->lock());
    else
      hw::request_lines(&rows[n]->lock(), sizeof(row_lock));
    hw::request_lines(rows[n]->data,
                      std::min<std::size_t>(rows[n]->of->row_bytes(), 4 * hw::cache_line_bytes));
  }
  for (std::size_t n = 0; n < keys.size(); ++n) {
    results[n] = rows[n] != nullptr ? seen(in, keys[n], read_row(rows[n], i)) : found();
    if (!results[n]) results[n] = find(in, keys[n], i);
  }
}

void attempt::collect(index_base& in, part_of_range& part, std::vector<key_and_row>& into) {
  const index_time counted(*this);
  const std::size_t base = into.size();
  const bool one = part.at_once == 1 && in.is_unique();
  part.ends = true;
  part.successor = nullptr;
  in.scan(part.from, one, [&](std::uint64_t key, stored_row* r) {
    if (key > part.to) {
      part.successor = r;
      return false;
    }
    // A part has all rows of its last key.
    if (into.size() - base >= part.at_once && into.back().key != key) {
      part.ends = false;
      return false;
    }
    into.push_back({key, r});
    if (one) part.ends = key == part.to;
    return !one;
  });
  part.last = part.ends ? part.to : into.back().key;
}

attempt::part_of_range attempt::read_range(index_base& in, std::uint64_t from, std::uint64_t to, intent i,
                                           std::size_t at_once) {
  require_own(in.shared(), in.name());
  part_of_range part{.from = from, .to = to, .last = to, .at_once = at_once, .base = part_.size()};
  while (true) {
    part.left = in.gaps().left().count();
    collect(in, part, part_);
    for (std::size_t n = part.base; n < part_.size(); ++n) {
      const stored_row* const r = part_[n].of;
      hw::request_lines(&r->lock(), sizeof(row_lock));
      hw::request_lines(r->data, r->of->row_bytes());
    }
    for (std::size_t n = part.base; n < part_.size(); ++n) static_cast<void>(read_row(part_[n].of, i));
    if (keep_part(in, part, i)) return part;
    part_.resize(part.base);
  }
}

/// Several attempts under Silo may have put a row under one key, or it stays there for want of memory.
void attempt::drop_duplicates(index_base& in, std::size_t base) {
  // relaxed: a row that was left over since then is no duplicate before its next change.
  if (in.is_unique() ||
      (kind_ == kind::locks && shared_.left_over.load(std::memory_order_relaxed) == nullptr))
    return;
  const auto first = part_.begin() + static_cast<std::ptrdiff_t>(base);
  const auto last = std::remove_if(first, part_.end(), [&](const key_and_row& e) {
    access& a = accesses_[accesses_.find(e.of)];
    return in.key_of(a.contents) == e.key && std::exchange(a.listed, true);
  });
  part_.erase(last, part_.end());
  for (auto e = first; e != part_.end(); ++e) accesses_[accesses_.find(e->of)].listed = false;
}

// Changes ------------------------------------------------------------------------------------------------------------

void attempt::make_writable(const found& one) {
  if (!one) throw std::logic_error("oltp: there is no row to change; look whether find() has found one");
  access* const known = accesses_.with(one.access, one.data);
  if (known == nullptr)
    throw std::logic_error("oltp: the row was found by another transaction, or by another attempt");
  access& a = *known;
  if (a.erased) throw std::logic_error("oltp: the transaction has erased this row of " + a.of->of->name());
  if (a.changing)
    throw std::logic_error("oltp: a row of " + a.of->of->name() +
                           " may not be changed or erased by the function that changes it");
  a.writes = true;
  read(a, intent::write);
  if (a.contents != a.of->data || a.former != nullptr || a.inserted) return;
  std::byte* const former = memory_.take(a.of->of->row_bytes());
  std::memcpy(former, a.of->data, a.of->of->row_bytes());
  a.former = former;
}

void attempt::follow_keys(std::uint32_t at, std::size_t keys) {
  stored_row* const r = accesses_[at].of;
  for (std::size_t n = keys; n < keys_.size(); ++n) {
    const auto [in, former] = keys_[n];
    const std::uint64_t now = in->key_of(accesses_[at].contents);
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
      note_change(*in, in->key_of(accesses_[one.access].contents), one.access, false);
    accesses_[one.access].erased = has_erased_ = true;
  });
}

bool attempt::insert(table_base& into, const std::byte* data) {
  return whole([&] { return insert_row(into, data); });
}

bool attempt::insert_row(table_base& into, const std::byte* data) {
  require_own(into.shared(), into.name());
  // If this attempt has erased a row with the key, that row is used again.
  if (has_erased_) {
    const index_time counted(*this);
    stored_row* const r = into.primary().find(into.primary().key_of(data));
    const std::uint32_t at = r != nullptr ? accesses_.find(r) : none;
    if (at != none && accesses_[at].erased) {
      accesses_[at].erased = false;
      if (!link_all(into, data, at)) return false;
      std::memcpy(accesses_[at].contents, data, into.row_bytes());
      return true;
    }
  }
  return link_all(into, data, add_row(into, data));
}

/// Its access.
std::uint32_t attempt::add_row(table_base& into, const std::byte* data) {
  stored_row* const r = into.create(data);
  std::uint32_t at = none;
  try {
    at = accesses_.add(r);
  } catch (...) {
    into.destroy(r);
    throw;
  }
  access& a = accesses_[at];
  a.inserted = true;
  hide(a);
  a.absent = false;
  return at;
}

void attempt::append(table_base& into, const std::byte* data) {
  whole([&] {
    require_own(into.shared(), into.name());
    static_cast<void>(shared_.appended.local());  // so that the commit does not fail
    has_appended_ = true;
    accesses_[add_row(into, data)].appended = true;
  });
}

/// Puts the row into all indexes. False if a unique one has its key: then the row is erased again. What it has put in is
/// taken out at once, so that another row may have those keys in this transaction; what was there before stays until the commit.
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
      const index_time counted(*this);
      remove(*c.in, c.key, c.of);
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

/// Gives the row a key of the index. False if another row has it.
bool attempt::link(index_base& in, std::uint64_t key, std::uint32_t at) {
  stored_row* const r = accesses_[at].of;
  // It is still there, and the commit was to remove it.
  if (const std::uint32_t removal = change_of(in, key, accesses_[at], false); removal != none) {
    changes_[removal].in = nullptr;
    return true;
  }
  if (changes_.size() == changes_.capacity()) changes_.reserve(2 * changes_.size() + 8);
  for (backoff pause;;) {
    stored_row* const present = put(in, key, at);
    if (present == nullptr) return true;
    access& a = accesses_[read_row(present, intent::read)];
    if (present != r) {
      if (a.is_there() && in.key_of(a.contents) == key) return false;
      if (change_of(in, key, a, false) != none)
        throw std::logic_error("oltp: a row has left the key " + std::to_string(key) + " of the index " +
                               in.name() + " in this transaction; give it to another one in the next");
    }
    clear_key(in, key, a, pause);
  }
}

}  // namespace espalier::oltp::engine
