#include "sim/memory/weak_memory.hpp"

#include <algorithm>

#include "espalier/measure/random.hpp"
#include "sim/runtime/arena.hpp"

namespace espalier::sim {
namespace {

constexpr std::uintptr_t granule_bytes = 8;
// Of an access of more than two of these, only the beginning and the end are checked.
constexpr std::size_t end_bytes = 512;

constexpr bool acquires(std::memory_order order) noexcept {
  return order != std::memory_order_relaxed && order != std::memory_order_release;
}
constexpr bool releases(std::memory_order order) noexcept {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}
constexpr bool is_sc(std::memory_order order) noexcept { return order == std::memory_order_seq_cst; }

/// Calls visit(granule number, mask of its bytes).
template <class Visitor>
void for_each_granule(std::uintptr_t address, std::size_t bytes, Visitor&& visit) {
  const std::uintptr_t end = address + bytes;
  for (std::uintptr_t number = address / granule_bytes; number * granule_bytes < end; ++number) {
    const std::uintptr_t begin = number * granule_bytes;
    const std::uintptr_t from = std::max(address, begin) - begin;
    const std::uintptr_t to = std::min(end, begin + granule_bytes) - begin;
    visit(number, static_cast<std::uint8_t>(((1U << (to - from)) - 1U) << from));
  }
}

/// Other memory is mapped and unmapped unseen, or is per thread and thus shared by all fibers (errno).
bool is_traced(std::uintptr_t address) noexcept { return arena::simulated(address).has_value(); }

bool overlap(const weak_memory::place& p, std::uintptr_t address, std::size_t bytes) noexcept {
  return p.address < address + bytes && address < p.address + p.bytes;
}

}  // namespace

void weak_memory::clocks::join(const clocks& other, unsigned fibers) noexcept {
  for (unsigned f = 0; f < fibers; ++f) of[f] = std::max(of[f], other.of[f]);
}

void weak_memory::reset(unsigned fibers, std::uint64_t seed) {
  seed_ = seed;
  // From rare, so that a long run has a single stale load, to mostly.
  constexpr std::uint64_t choices[] = {8, 32, 96, 176};
  stale_in_256_ = choices[measure::mix64(seed) % std::size(choices)];
  fibers_ = fibers;
  threads_.assign(fibers, {});
  sc_ = {};
  sc_number_ = 0;
  ended_ = {};
  granules_.clear();
  stale_.clear();
}

void weak_memory::step(unsigned fiber) noexcept {
  knowledge& k = threads_[fiber].now;
  k.seen.of[fiber] = ++k.hb.of[fiber];
}

std::uint64_t weak_memory::random(unsigned fiber) noexcept {
  return measure::mix64(seed_ + 0x9e3779b97f4a7c15U * (++threads_[fiber].loads * most_fibers + fiber));
}

// Locations.

/// Null if no store to it is recorded: then memory has its only value.
weak_memory::location* weak_memory::find(place at, std::uint64_t newest) {
  const auto of = granules_.find(at.address / granule_bytes);
  if (of == granules_.end()) return nullptr;
  auto& all = of->second.locations;
  // Accesses of another size, and writes that the model did not see (on a thread's own stack), begin a new history.
  std::erase_if(all, [&](const location& l) {
    const bool same = l.at.address == at.address && l.at.bytes == at.bytes;
    return same ? l.messages.back().value != newest : overlap(l.at, at.address, at.bytes);
  });
  for (location& l : all)
    if (l.at.address == at.address) return &l;
  return nullptr;
}

weak_memory::location& weak_memory::find_or_begin(place at, std::uint64_t newest) {
  if (location* const present = find(at, newest)) return *present;
  location fresh{at, {}, {}, {}};
  fresh.marks.resize(fibers_);
  fresh.messages.push_back({newest, {}, no_fiber, nullptr});
  auto& all = granules_[at.address / granule_bytes].locations;
  all.push_back(std::move(fresh));
  return all.back();
}

std::size_t weak_memory::oldest_allowed(const location& l, unsigned fiber, bool sc) const {
  const thread& t = threads_[fiber];
  clocks known = t.now.seen;
  if (sc) known.join(sc_, fibers_);
  std::size_t oldest = 0;
  for (unsigned f = 0; f < fibers_; ++f) {
    for (auto m = l.marks[f].rbegin(); m != l.marks[f].rend(); ++m) {
      if (m->clock > known.of[f]) continue;
      oldest = std::max(oldest, m->message);
      break;
    }
  }
  for (auto m = l.sc_marks.rbegin(); m != l.sc_marks.rend(); ++m)
    if (sc || m->number <= t.sc_seen) return std::max(oldest, m->message);
  return oldest;
}

void weak_memory::note(location& l, unsigned fiber, std::size_t number, std::memory_order order) {
  auto& mine = l.marks[fiber];
  if (mine.empty() || mine.back().message < number)
    mine.push_back({threads_[fiber].now.seen.of[fiber], number});
  if (is_sc(order) && (l.sc_marks.empty() || l.sc_marks.back().message < number))
    l.sc_marks.push_back({++sc_number_, number});
}

void weak_memory::receive(unsigned fiber, const message& m, std::memory_order order) noexcept {
  thread& t = threads_[fiber];
  (acquires(order) ? t.now : t.acquirable).join(m.released, fibers_);
}

void weak_memory::append(location& l, unsigned fiber, std::uint64_t value, std::memory_order order,
                         const void* where, const knowledge* also) {
  const thread& t = threads_[fiber];
  message m{value, releases(order) ? t.now : t.fenced, fiber, where};
  if (also != nullptr) m.released.join(*also, fibers_);
  l.messages.push_back(m);
  note(l, fiber, l.messages.size() - 1, order);
}

// Atomics.

std::uint64_t weak_memory::load(unsigned fiber, place at, std::uint64_t newest, std::memory_order order,
                                const void* where) {
  step(fiber);
  location* const l = find(at, newest);
  if (l == nullptr) return newest;
  const std::size_t last = l->messages.size() - 1;
  const std::size_t oldest = is_traced(at.address) ? oldest_allowed(*l, fiber, is_sc(order)) : last;
  std::size_t chosen = last;
  if (oldest < last) {
    const std::uint64_t bits = random(fiber);
    // Returns either the oldest permitted store or a random one.
    if (bits % 256 < stale_in_256_)
      chosen = (bits >> 8U & 1U) != 0 ? oldest : oldest + (bits >> 9U) % (last - oldest);
  }
  if (chosen != last) {
    const message& next = l->messages[chosen + 1];
    stale_.push_back({fiber, where, last - chosen, next.fiber, next.where});
  }
  note(*l, fiber, chosen, order);
  const message& m = l->messages[chosen];
  receive(fiber, m, order);
  return m.value;
}

void weak_memory::store(unsigned fiber, place at, std::uint64_t old, std::uint64_t value,
                        std::memory_order order, const void* where) {
  step(fiber);
  append(find_or_begin(at, old), fiber, value, order, where, nullptr);
}

void weak_memory::modify(unsigned fiber, place at, std::uint64_t old, std::uint64_t value,
                         std::memory_order order, const void* where) {
  step(fiber);
  location& l = find_or_begin(at, old);
  receive(fiber, l.messages.back(), order);
  // The store belongs to the release sequence of the store that was read.
  const knowledge of_sequence = l.messages.back().released;
  append(l, fiber, value, order, where, &of_sequence);
}

void weak_memory::read_newest(unsigned fiber, place at, std::uint64_t newest, std::memory_order order) {
  step(fiber);
  location* const l = find(at, newest);
  if (l == nullptr) return;
  note(*l, fiber, l->messages.size() - 1, order);
  receive(fiber, l->messages.back(), order);
}

bool weak_memory::fails_spuriously(unsigned fiber) { return random(fiber) % 16 == 0; }

void weak_memory::fence(unsigned fiber, std::memory_order order) {
  step(fiber);
  thread& t = threads_[fiber];
  if (acquires(order)) t.now.join(t.acquirable, fibers_);
  if (is_sc(order)) {
    t.now.seen.join(sc_, fibers_);
    sc_.join(t.now.seen, fibers_);
    t.sc_seen = sc_number_;
  }
  if (releases(order)) t.fenced = t.now;
}

void weak_memory::fence_all() {
  // Two passes: in whatever order the threads pass the fence, each sees what the others did before.
  for (int pass = 0; pass < 2; ++pass)
    for (unsigned f = 0; f < fibers_; ++f) fence(f, std::memory_order_seq_cst);
}

// Races.

std::optional<weak_memory::race> weak_memory::check(unsigned fiber, const access& a) {
  step(fiber);
  if (!is_traced(a.address)) return std::nullopt;
  if (a.bytes <= 2 * end_bytes) return check_part(fiber, a, a.address, a.bytes);
  const auto found = check_part(fiber, a, a.address, end_bytes);
  return found ? found : check_part(fiber, a, a.address + a.bytes - end_bytes, end_bytes);
}

std::optional<weak_memory::race> weak_memory::check_part(unsigned fiber, const access& a,
                                                         std::uintptr_t begin, std::size_t bytes) {
  const bool write = is_write(a.kind);
  const bool atomic = is_atomic(a.kind);
  const clocks& known = threads_[fiber].now.hb;
  std::optional<race> found;
  for_each_granule(begin, bytes, [&](std::uintptr_t number, std::uint8_t mask) {
    granule& g = granules_[number];
    if (write && !atomic)
      std::erase_if(g.locations, [&](const location& l) { return overlap(l.at, begin, bytes); });
    std::erase_if(g.footprints, [&](const footprint& f) {
      const bool before = f.clock <= known.of[f.fiber];
      if (!before && (f.mask & mask) != 0 && (f.write || write) && !(f.atomic && atomic) && !found)
        found = race{f.fiber, f.write, f.where};
      // An access that races with the older one races with this one too.
      return before && (f.mask & ~mask) == 0 && (write || !f.write) && (!atomic || f.atomic);
    });
    g.footprints.push_back({fiber, known.of[fiber], mask, write, atomic, a.where});
  });
  return found;
}

void weak_memory::forget(std::uintptr_t address, std::size_t bytes) {
  for_each_granule(address, bytes, [&](std::uintptr_t number, std::uint8_t mask) {
    const auto at = granules_.find(number);
    if (at == granules_.end()) return;
    std::erase_if(at->second.locations, [&](const location& l) { return overlap(l.at, address, bytes); });
    std::erase_if(at->second.footprints, [&](const footprint& f) { return (f.mask & ~mask) == 0; });
  });
}

// For the simulator.

weak_memory::event weak_memory::now(unsigned fiber) const noexcept {
  return {fiber, threads_[fiber].now.hb.of[fiber]};
}

bool weak_memory::happens_before(const event& earlier, unsigned fiber) const noexcept {
  return earlier.clock <= threads_[fiber].now.hb.of[earlier.fiber];
}

void weak_memory::acquire(unsigned fiber, const knowledge& what) noexcept {
  threads_[fiber].now.join(what, fibers_);
}

void weak_memory::set_known(unsigned fiber, const knowledge& what) noexcept {
  knowledge& k = threads_[fiber].now;
  const std::uint32_t own = k.hb.of[fiber];
  k = what;
  k.hb.of[fiber] = k.seen.of[fiber] = own;
}

void weak_memory::operation_ends(unsigned fiber) { ended_.join(threads_[fiber].now.seen, fibers_); }

void weak_memory::operation_begins(unsigned fiber) { threads_[fiber].now.seen.join(ended_, fibers_); }

}  // namespace espalier::sim
