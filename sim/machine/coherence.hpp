#pragma once

// The caches of the machine and the protocol between them: MESI with an exact directory. It has no notion of time.
//
// - The unit of the protocol is the *private cache*: an L2 with the L1s of the cores that share it (one core on most
//   machines). The L2 does not include the L1s. Between L1s of one L2 a write invalidates at once.
// - An inclusive last-level cache holds every line of its socket's private caches; they lose what it evicts. A
//   last-level cache that is not inclusive is filled by what the private caches evict, keeps what it serves, and loses
//   a line that is written. A modified line that leaves a private cache goes to the last-level cache.
// - A read that misses its private cache is served, in this order, by: a modified copy of this socket (local transfer)
//   or of another (remote transfer); the local last-level cache; if that is not inclusive, another private cache of the
//   socket (local transfer); DRAM of the local node; an unmodified copy in another socket (remote transfer) if the home
//   node's caches hold the line, or if such a transfer is no slower than remote DRAM; remote DRAM. So a line with its
//   home here that only other sockets hold, clean, comes from here.
// - A modified line that another core reads becomes shared. Its contents go to an inclusive last-level cache if the
//   reader shares that cache, else to memory.
// - A write that misses is served as a read is, and takes ownership of the line. The copy that supplied it disappears
//   without an invalidation, all others are invalidated. A write to a shared line invalidates the other copies.

#include <array>
#include <cstdint>
#include <vector>

#include "sim/machine/cache.hpp"
#include "sim/machine/counts.hpp"
#include "sim/machine/directory.hpp"
#include "sim/machine/machine_spec.hpp"

namespace espalier::sim {

enum class source : std::uint8_t {
  l1,
  l2,
  llc,
  llc_after_snoop,
  local_transfer,
  remote_modified,
  remote_clean,
  local_dram,
  remote_dram
};

/// A line that the core had written and its L1 has evicted.
struct displaced_line {
  unsigned core;
  std::uint32_t line;
  bool operator==(const displaced_line&) const = default;
};

/// How far a write had to reach to make its line writable.
enum class reach : std::uint8_t { nobody, last_level, socket, sockets };

class coherence {
 public:
  /// The spec is valid and outlives this object; lines are 0 .. lines - 1.
  coherence(const machine_spec& spec, std::uint64_t lines);

  /// The case that needs only the core's L1: a hit, and for a write, on a line that the core may write.
  bool hit_l1(unsigned core, std::uint32_t line, bool write) noexcept {
    const cache::way* const way = l1_[core].use(line);
    return way != nullptr && (!write || way->marked());
  }

  struct result {
    source from;
    reach invalidated;
    /// Lines that prefetching fetched from DRAM of `home`.
    unsigned prefetched;
    /// The line's entry. The caller maintains its busy_until.
    directory_entry* entry;
  };

  /// One read or write of a line by a core, after hit_l1() returned false. `home` is called without arguments and
  /// returns the line's NUMA node. It is called only if the line is in no private cache of the core. Adds everything
  /// but times to `c`.
  template <class Home>
  result access(unsigned core, std::uint32_t line, bool write, Home home, counts& c) {
    directory_.prefetch(line);
    const result held = access_private(core, line, write, c);
    return held.entry == nullptr ? access_shared(core, line, write, home(), c) : held;
  }

  /// The lines displaced since the last clear, in order. Lines that another core took are not included.
  const std::vector<displaced_line>& displaced() const noexcept { return displaced_; }
  void clear_displaced() noexcept { displaced_.clear(); }

  bool l1_has(unsigned core, std::uint32_t line) const { return l1_[core].contains(line); }
  bool l2_has(unsigned core, std::uint32_t line) const { return l2_[private_of(core)].contains(line); }
  bool llc_has(unsigned socket, std::uint32_t line) const { return llc_[socket].contains(line); }

  /// Throws std::logic_error that names the first broken invariant. O(size of all caches and of the directory).
  void check_invariants() const;

 private:
  unsigned private_of(unsigned core) const noexcept { return private_of_core_[core]; }
  unsigned socket_of(unsigned private_cache) const noexcept { return socket_of_private_[private_cache]; }
  bool private_has(unsigned private_cache, std::uint32_t line) const;
  bool held_elsewhere(const directory_entry& entry, unsigned socket) const noexcept;

  result access_private(unsigned core, std::uint32_t line, bool write, counts& c);
  result access_shared(unsigned core, std::uint32_t line, bool write, unsigned home, counts& c);
  void expect(unsigned me, std::uint32_t line) const noexcept;
  source source_of(const directory_entry& entry, unsigned me, unsigned home) const noexcept;

  void share(directory_entry& entry, std::uint32_t line, unsigned me, counts& c);
  reach take(directory_entry& entry, std::uint32_t line, unsigned me, source from, counts& c);
  unsigned prefetch(unsigned core, std::uint32_t line, unsigned home, counts& c);

  void fill(unsigned core, std::uint32_t line, directory_entry& entry, bool write, bool into_l1, counts& c);
  void fill_l1(unsigned core, std::uint32_t line, bool writable, counts& c);
  void fill_l2(unsigned private_cache, std::uint32_t line, counts& c);
  void fill_llc(unsigned socket, std::uint32_t line, directory_entry& entry, bool dirty, counts& c);

  void drop(unsigned private_cache, std::uint32_t line);
  void note_displaced(unsigned private_cache, std::uint32_t line);
  void drop_from_llc(directory_entry& entry, std::uint32_t line, unsigned socket);
  void forbid_writing(unsigned private_cache, std::uint32_t line);
  void settle_siblings(unsigned core, std::uint32_t line, bool write, counts& c);
  void leave_private(unsigned private_cache, std::uint32_t line, directory_entry& entry, counts& c);
  void evict_from_llc(unsigned socket, std::uint32_t line, counts& c);

  const machine_spec& spec_;
  // A table, because a division would cost more than the rest of a hit.
  std::vector<unsigned> private_of_core_;
  std::vector<unsigned> socket_of_private_;
  std::vector<cache> l1_;   // by core; a marked way may be written without a request
  std::vector<cache> l2_;   // by private cache
  std::vector<cache> llc_;  // by socket
  std::vector<private_cache_set> of_socket_;
  directory directory_;
  std::vector<displaced_line> displaced_;
  std::uint64_t lines_;
};

}  // namespace espalier::sim
