#include "sim/machine/coherence.hpp"

#include <sys/mman.h>
#include <array>
#include <bit>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

namespace espalier::sim {

void directory::releaser::operator()(directory_entry* p) const noexcept { std::free(p); }

directory::chunk directory::make_chunk() {
  constexpr std::size_t bytes = chunk_lines * sizeof(directory_entry);
  static_assert(bytes == 2u << 20, "a chunk is one huge page");
  void* const memory = std::aligned_alloc(bytes, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  // Optional: entries are visited at random, and most of the cost is the host's TLB misses.
  madvise(memory, bytes, MADV_HUGEPAGE);
  auto* const entries = static_cast<directory_entry*>(memory);
  std::uninitialized_value_construct_n(entries, chunk_lines);
  return chunk(entries);
}

coherence::coherence(const machine_spec& spec, std::uint64_t lines)
    : spec_(spec),
      l1_(spec.cores(), cache(spec.l1, spec.l1_tree_ways)),
      l2_(spec.cores() / spec.cores_per_l2, cache(spec.l2)),
      llc_(spec.sockets, cache(spec.llc)),
      directory_(lines),
      lines_(lines) {
  for (unsigned core = 0; core < spec.cores(); ++core) private_of_core_.push_back(core / spec.cores_per_l2);
  const unsigned in_socket = spec.cores_per_socket / spec.cores_per_l2;
  for (unsigned i = 0; i < l2_.size(); ++i) socket_of_private_.push_back(i / in_socket);
  for (unsigned socket = 0; socket < spec.sockets; ++socket)
    of_socket_.push_back(private_cache_set::range(socket * in_socket, in_socket));
}

bool coherence::private_has(unsigned private_cache, std::uint32_t line) const {
  if (l2_[private_cache].contains(line)) return true;
  const unsigned first = private_cache * spec_.cores_per_l2;
  for (unsigned core = first; core < first + spec_.cores_per_l2; ++core)
    if (l1_[core].contains(line)) return true;
  return false;
}

bool coherence::held_elsewhere(const directory_entry& entry, unsigned socket) const noexcept {
  return (entry.llc & ~(1u << socket)) != 0 || !entry.sharers.without(of_socket_[socket]).empty();
}

coherence::place coherence::others_of(unsigned core, std::uint32_t line) const noexcept {
  const directory_entry* const entry = directory_.find(line);
  if (entry == nullptr) return {false, false, 0};
  return {entry->has_owner(), held_elsewhere(*entry, socket_of(private_of(core))), entry->busy_until};
}

// Accesses a line that the core's private cache holds. The result's entry is null if it does not.
coherence::result coherence::access_private(unsigned core, std::uint32_t line, bool write, counts& c) {
  const unsigned me = private_of(core);
  result r{source::l1, reach::none, 0, 0, nullptr};
  // If the L1 holds the line, hit_l1 has already made it the latest used.
  cache::way* way = l1_[core].find(line);
  if (way == nullptr) {
    r.from = source::l2;
    if (l2_[me].use(line) == nullptr) {
      // Another L1 of the same L2 may still hold a line that the L2 has evicted.
      if (spec_.cores_per_l2 == 1 || !private_has(me, line)) return r;
      fill_l2(me, line, c);
    }
  }
  directory_entry& entry = directory_[line];
  r.entry = &entry;
  settle_siblings(core, line, write, c);
  if (write) {
    if (entry.has_owner()) {
      entry.modified = true;
      entry.clear_dirty_llc();
      if (!spec_.llc_inclusive) drop_from_llc(entry, line, socket_of(me));
    } else {
      ++c.upgrades;
      r.invalidated = take(entry, line, me, r.from, c);
    }
  }
  if (way == nullptr)
    fill_l1(core, line, write, c);
  else if (write)
    way->mark(true);
  ++(r.from == source::l1 ? c.l1_hits : c.l2_hits);
  return r;
}

coherence::result coherence::access_shared(unsigned core, std::uint32_t line, bool write, unsigned home,
                                           counts& c) {
  const unsigned me = private_of(core);
  expect(me, line);
  directory_entry& entry = directory_[line];
  result r{source_of(entry, me, home), reach::none, home, 0, &entry};
  r.supplier = supplier_of(entry, r.from, home);
  // In the order of `source`; the private caches have counted their own.
  constexpr std::array<std::uint64_t counts::*, 9> counters{nullptr,
                                                            nullptr,
                                                            &counts::llc_hits,
                                                            &counts::llc_hits,
                                                            &counts::local_transfers,
                                                            &counts::remote_transfers,
                                                            &counts::remote_transfers,
                                                            &counts::local_dram,
                                                            &counts::remote_dram};
  if (const auto counter = counters[static_cast<std::size_t>(r.from)]) ++(c.*counter);
  if (write)
    r.invalidated = take(entry, line, me, r.from, c);
  else
    share(entry, line, me, c);
  fill(core, line, entry, write, true, c);
  if (spec_.adjacent_line_prefetch && (line ^ 1u) < lines_) r.prefetched = prefetch(core, line ^ 1u, home, c);
  return r;
}

// Makes the host load the entries of the lines that will be evicted while it waits for the line's own entry.
void coherence::expect(unsigned me, std::uint32_t line) const noexcept {
  const auto victims_of = [&](std::uint32_t incoming) {
    if (const std::optional<cache::way> victim = l2_[me].victim_for(incoming))
      directory_.prefetch(victim->line());
    if (const std::optional<cache::way> victim = llc_[socket_of(me)].victim_for(incoming))
      directory_.prefetch(victim->line());
  };
  victims_of(line);
  if (spec_.adjacent_line_prefetch) victims_of(line ^ 1u);
}

source coherence::source_of(const directory_entry& entry, unsigned me, unsigned home) const noexcept {
  const unsigned socket = socket_of(me);
  if (entry.has_owner()) {
    const bool near = socket_of(entry.owner()) == socket;
    if (entry.modified) return near ? source::local_transfer : source::remote_modified;
    if (near) return entry.in_llc(socket) ? source::llc_after_snoop : source::local_transfer;
  }
  if (entry.in_llc(socket)) return source::llc;
  if (!(entry.sharers & of_socket_[socket]).empty()) return source::local_transfer;
  if (entry.dirty_llc()) return source::remote_modified;
  if (home == socket) return source::local_dram;
  const bool at_home = entry.in_llc(home) || !(entry.sharers & of_socket_[home]).empty();
  const bool forwards = spec_.latency.remote_clean <= spec_.latency.remote_dram;
  return at_home || (forwards && held_elsewhere(entry, socket)) ? source::remote_clean : source::remote_dram;
}

// The home node's caches and memory serve what only they have, and what several others have.
unsigned coherence::supplier_of(const directory_entry& entry, source from, unsigned home) const noexcept {
  if (from == source::remote_modified || (from == source::remote_clean && entry.has_owner()))
    return entry.has_owner() ? socket_of(entry.owner()) : entry.dirty_llc().value_or(home);
  return home;
}

// Lets `me` read the line. An owner loses its ownership, and `me` becomes the owner if no other cache holds the line.
void coherence::share(directory_entry& entry, std::uint32_t line, unsigned me, counts& c) {
  const unsigned socket = socket_of(me);
  if (entry.has_owner()) {
    const unsigned owner = entry.owner();
    if (entry.modified) {
      forbid_writing(owner, line);
      if (spec_.llc_inclusive && socket_of(owner) == socket)
        entry.set_dirty_llc(socket);
      else
        write_back(line, socket_of(owner), c);
    }
    entry.clear_owner();
  }
  if (const std::optional<unsigned> dirty = entry.dirty_llc(); dirty && *dirty != socket) {
    entry.clear_dirty_llc();
    write_back(line, *dirty, c);
  }
  if (entry.sharers.empty() && !held_elsewhere(entry, socket)) entry.set_owner(me);
  entry.sharers.add(me);
}

// Gives `me` the line exclusively, modified.
reach coherence::take(directory_entry& entry, std::uint32_t line, unsigned me, source from, counts& c) {
  const unsigned socket = socket_of(me);
  const private_cache_set others = entry.sharers.without(private_cache_set::only(me));
  unsigned far = entry.llc & ~(1u << socket);
  unsigned near_copies = 0;
  others.visit([&](unsigned other) {
    drop(other, line);
    if (socket_of(other) == socket)
      ++near_copies;
    else
      far |= 1u << socket_of(other);
  });
  for (unsigned s = 0; s < spec_.sockets; ++s)
    if (s != socket || !spec_.llc_inclusive) drop_from_llc(entry, line, s);
  unsigned far_sockets = static_cast<unsigned>(std::popcount(far));
  // The request for the line's contents invalidated the supplier's copy.
  if (from == source::local_transfer)
    --near_copies;
  else if (from == source::remote_modified || from == source::remote_clean)
    --far_sockets;
  entry.sharers = private_cache_set::only(me);
  entry.set_owner(me);
  entry.modified = true;
  entry.clear_dirty_llc();
  c.local_invalidations += near_copies;
  c.remote_invalidations += far_sockets;
  if (far_sockets != 0) return reach::sockets;
  if (near_copies != 0) return reach::socket;
  // The line was shared and no other cache holds it now, but the core learns that only by asking.
  return from == source::l1 || from == source::l2 ? reach::last_level : reach::none;
}

unsigned coherence::prefetch(unsigned core, std::uint32_t line, unsigned home, counts& c) {
  const unsigned me = private_of(core);
  if (private_has(me, line)) return 0;
  directory_entry& entry = directory_[line];
  if (entry.modified) return 0;
  const source from = source_of(entry, me, home);
  ++c.prefetches;
  share(entry, line, me, c);
  fill(core, line, entry, false, false, c);
  return from == source::local_dram || from == source::remote_dram ? 1 : 0;
}

void coherence::fill(unsigned core, std::uint32_t line, directory_entry& entry, bool write, bool into_l1,
                     counts& c) {
  const unsigned me = private_of(core);
  const unsigned socket = socket_of(me);
  if (entry.in_llc(socket))
    llc_[socket].use(line);
  else if (spec_.llc_inclusive)
    fill_llc(socket, line, entry, false, c);
  fill_l2(me, line, c);
  if (into_l1) fill_l1(core, line, write, c);
}

void coherence::fill_l1(unsigned core, std::uint32_t line, bool writable, counts& c) {
  const unsigned me = private_of(core);
  const std::optional<cache::way> victim = l1_[core].insert(line);
  if (writable) l1_[core].find(line)->mark(true);
  if (victim && victim->marked()) displaced_.push_back({core, victim->line()});
  if (!victim || private_has(me, victim->line())) return;
  directory_entry& entry = directory_[victim->line()];
  if (entry.modified)
    fill_l2(me, victim->line(), c);
  else
    leave_private(me, victim->line(), entry, c);
}

void coherence::fill_l2(unsigned private_cache, std::uint32_t line, counts& c) {
  const std::optional<cache::way> victim = l2_[private_cache].insert(line);
  if (victim && !private_has(private_cache, victim->line()))
    leave_private(private_cache, victim->line(), directory_[victim->line()], c);
}

void coherence::fill_llc(unsigned socket, std::uint32_t line, directory_entry& entry, bool dirty, counts& c) {
  const std::optional<cache::way> victim = llc_[socket].insert(line);
  entry.add_llc(socket);
  if (dirty) entry.set_dirty_llc(socket);
  if (victim) evict_from_llc(socket, victim->line(), c);
}

// Called when none of the private cache's arrays holds the line any more.
void coherence::leave_private(unsigned private_cache, std::uint32_t line, directory_entry& entry, counts& c) {
  const unsigned socket = socket_of(private_cache);
  const bool dirty = entry.modified;
  entry.sharers.remove(private_cache);
  entry.clear_owner();
  if (!entry.in_llc(socket))
    fill_llc(socket, line, entry, dirty, c);
  else if (dirty)
    entry.set_dirty_llc(socket);
}

void coherence::evict_from_llc(unsigned socket, std::uint32_t line, counts& c) {
  directory_entry& entry = directory_[line];
  entry.remove_llc(socket);
  bool dirty = false;
  if (entry.dirty_llc() == socket) {
    entry.clear_dirty_llc();
    dirty = true;
  }
  if (spec_.llc_inclusive) {
    const private_cache_set holders = entry.sharers & of_socket_[socket];
    if (!holders.empty()) {
      dirty = dirty || entry.modified;
      holders.visit([&](unsigned holder) {
        note_displaced(holder, line);
        drop(holder, line);
      });
      c.back_invalidations += holders.size();
      entry.sharers = entry.sharers.without(holders);
      entry.clear_owner();
    }
  }
  if (dirty) write_back(line, socket, c);
}

void coherence::drop(unsigned private_cache, std::uint32_t line) {
  l2_[private_cache].remove(line);
  for (unsigned i = 0; i < spec_.cores_per_l2; ++i) l1_[private_cache * spec_.cores_per_l2 + i].remove(line);
}

void coherence::note_displaced(unsigned private_cache, std::uint32_t line) {
  const unsigned first = private_cache * spec_.cores_per_l2;
  for (unsigned core = first; core < first + spec_.cores_per_l2; ++core)
    if (const cache::way* const way = l1_[core].find(line); way != nullptr && way->marked())
      displaced_.push_back({core, line});
}

void coherence::drop_from_llc(directory_entry& entry, std::uint32_t line, unsigned socket) {
  if (entry.in_llc(socket)) {
    llc_[socket].remove(line);
    entry.remove_llc(socket);
  }
}

void coherence::forbid_writing(unsigned private_cache, std::uint32_t line) {
  for (unsigned i = 0; i < spec_.cores_per_l2; ++i)
    if (cache::way* const way = l1_[private_cache * spec_.cores_per_l2 + i].find(line)) way->mark(false);
}

// Keeps the L1s of one L2 coherent: a write invalidates the line in the others, a read revokes their right to write it.
void coherence::settle_siblings(unsigned core, std::uint32_t line, bool write, counts& c) {
  if (spec_.cores_per_l2 == 1) return;
  const unsigned first = private_of(core) * spec_.cores_per_l2;
  for (unsigned other = first; other < first + spec_.cores_per_l2; ++other) {
    if (other == core) continue;
    if (write)
      c.local_invalidations += l1_[other].remove(line) ? 1 : 0;
    else if (cache::way* const way = l1_[other].find(line))
      way->mark(false);
  }
}

namespace {

void require(bool holds, std::uint32_t line, const char* rule) {
  if (!holds) throw std::logic_error("line " + std::to_string(line) + ": " + rule);
}

}  // namespace

void coherence::check_invariants() const {
  std::vector<std::uint64_t> found_private(l2_.size(), 0);
  std::vector<std::uint64_t> found_llc(llc_.size(), 0);
  std::vector<std::uint64_t> listed_private(l2_.size(), 0);
  std::vector<std::uint64_t> listed_llc(llc_.size(), 0);

  // Checks that every sharer and every last-level bit has its line in the cache. The sums below then show that no cache
  // holds more than the directory lists.
  directory_.visit([&](std::uint32_t line, const directory_entry& entry) {
    entry.sharers.visit([&](unsigned sharer) {
      require(private_has(sharer, line), line, "a sharer does not hold it");
      require(!spec_.llc_inclusive || entry.in_llc(socket_of(sharer)), line,
              "a private cache holds it, its inclusive last-level cache does not");
      ++listed_private[sharer];
    });
    for (unsigned s = 0; s < spec_.sockets; ++s) {
      if (entry.in_llc(s)) {
        require(llc_[s].contains(line), line, "a last-level cache does not hold it as listed");
        ++listed_llc[s];
      }
    }
    if (entry.has_owner()) {
      require(entry.sharers == private_cache_set::only(entry.owner()), line, "it has an owner and a sharer");
      require(!held_elsewhere(entry, socket_of(entry.owner())), line, "it has an owner and a copy elsewhere");
    }
    require(!entry.modified || entry.has_owner(), line, "it is modified and has no owner");
    if (const std::optional<unsigned> dirty = entry.dirty_llc()) {
      require(entry.in_llc(*dirty), line, "it is dirty in a last-level cache that does not hold it");
      require(!entry.modified, line, "it is modified in two places");
      require(!held_elsewhere(entry, *dirty), line, "it is dirty in a last-level cache and held elsewhere");
    }
  });

  const auto entry_of = [&](std::uint32_t line) -> const directory_entry& {
    const directory_entry* const entry = directory_.find(line);
    require(entry != nullptr, line, "a cache holds it, and the directory does not know it");
    return *entry;
  };
  for (unsigned core = 0; core < l1_.size(); ++core) {
    const unsigned me = private_of(core);
    l1_[core].visit([&](const cache::way& way) {
      const directory_entry& entry = entry_of(way.line());
      require(entry.sharers.has(me), way.line(), "an L1 holds it unlisted");
      require(!way.marked() || (entry.modified && entry.owner() == me), way.line(),
              "a core that does not own it may write it");
      if (way.marked()) {
        for (unsigned other = me * spec_.cores_per_l2; other < (me + 1) * spec_.cores_per_l2; ++other) {
          require(other == core || !l1_[other].contains(way.line()), way.line(),
                  "two L1s of one L2 hold it and one may write it");
        }
      }
      found_private[me] += l2_[me].contains(way.line()) ? 0 : 1;
    });
  }
  for (unsigned i = 0; i < l2_.size(); ++i) {
    l2_[i].visit([&](const cache::way& way) {
      require(entry_of(way.line()).sharers.has(i), way.line(), "an L2 holds it unlisted");
      ++found_private[i];
    });
    // A line that is in two L1s of one L2, but not in the L2, is counted twice.
    require(spec_.cores_per_l2 > 1 || found_private[i] == listed_private[i], 0,
            "a private cache holds other lines than listed");
  }
  for (unsigned s = 0; s < llc_.size(); ++s) {
    llc_[s].visit([&](const cache::way& way) {
      require(entry_of(way.line()).in_llc(s), way.line(), "a last-level cache holds it unlisted");
      ++found_llc[s];
    });
    require(found_llc[s] == listed_llc[s], 0, "a last-level cache holds other lines than listed");
  }
}

}  // namespace espalier::sim
