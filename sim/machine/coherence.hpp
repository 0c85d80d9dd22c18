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
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/machine/cache.hpp"
#include "sim/machine/counts.hpp"
#include "sim/machine/machine_spec.hpp"

namespace espalier::sim {

// Which caches hold which line. Exact, unlike the directories of real machines: the directory learns of every clean
// line that a cache drops.

/// A set of private caches, by number.
class private_cache_set {
 public:
  /// The `count` caches starting at `first`.
  static private_cache_set range(unsigned first, unsigned count) noexcept {
    private_cache_set set;
    for (unsigned i = first; i < first + count; ++i) set.add(i);
    return set;
  }
  static private_cache_set only(unsigned i) noexcept { return range(i, 1); }

  void add(unsigned i) noexcept { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  void remove(unsigned i) noexcept { words_[i / 64] &= ~(std::uint64_t{1} << (i % 64)); }
  bool has(unsigned i) const noexcept { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  bool empty() const noexcept { return (words_[0] | words_[1]) == 0; }
  unsigned size() const noexcept {
    return static_cast<unsigned>(std::popcount(words_[0]) + std::popcount(words_[1]));
  }
  private_cache_set operator&(const private_cache_set& other) const noexcept {
    private_cache_set set;
    set.words_ = {words_[0] & other.words_[0], words_[1] & other.words_[1]};
    return set;
  }
  private_cache_set without(const private_cache_set& other) const noexcept {
    private_cache_set set;
    set.words_ = {words_[0] & ~other.words_[0], words_[1] & ~other.words_[1]};
    return set;
  }
  /// Calls visitor(number) in ascending order.
  template <class Visitor>
  void visit(Visitor visitor) const {
    for (unsigned w = 0; w < words_.size(); ++w)
      for (std::uint64_t rest = words_[w]; rest != 0; rest &= rest - 1)
        visitor(w * 64 + static_cast<unsigned>(std::countr_zero(rest)));
  }
  bool operator==(const private_cache_set&) const = default;

 private:
  std::array<std::uint64_t, max_private_caches / 64> words_{};
};

/// A line's entry. All bits zero means a line that no cache holds, so that new entries need no constructor.
///
/// Invariants: an owner is the only sharer. `modified` implies an owner. A modified line is in no last-level cache of
/// another socket. `dirty_llc` names a socket that holds the line in its last-level cache; then no owner has modified
/// it and no other socket holds it.
struct directory_entry {
  private_cache_set sharers;
  std::uint64_t busy_until;
  std::uint16_t llc;  // a bit for each socket whose last-level cache holds the line
  std::uint8_t owner_plus_one;
  std::uint8_t dirty_llc_plus_one;
  bool modified;

  bool has_owner() const noexcept { return owner_plus_one != 0; }
  unsigned owner() const noexcept { return owner_plus_one - 1u; }
  void set_owner(unsigned cache) noexcept { owner_plus_one = static_cast<std::uint8_t>(cache + 1); }
  void clear_owner() noexcept {
    owner_plus_one = 0;
    modified = false;
  }
  bool in_llc(unsigned socket) const noexcept { return (llc >> socket & 1) != 0; }
  void add_llc(unsigned socket) noexcept { llc = static_cast<std::uint16_t>(llc | 1u << socket); }
  void remove_llc(unsigned socket) noexcept { llc = static_cast<std::uint16_t>(llc & ~(1u << socket)); }
  std::optional<unsigned> dirty_llc() const noexcept {
    return dirty_llc_plus_one == 0 ? std::nullopt : std::optional<unsigned>(dirty_llc_plus_one - 1u);
  }
  void set_dirty_llc(unsigned socket) noexcept { dirty_llc_plus_one = static_cast<std::uint8_t>(socket + 1); }
  void clear_dirty_llc() noexcept { dirty_llc_plus_one = 0; }
};
static_assert(sizeof(directory_entry) == 32);

/// The entries, in chunks of 2 MiB that are created on first use. References stay valid as long as the directory.
class directory {
 public:
  explicit directory(std::uint64_t lines)
      : lines_(lines), chunks_(static_cast<std::size_t>((lines + chunk_lines - 1) / chunk_lines)) {}

  directory_entry& operator[](std::uint32_t line) {
    chunk& c = chunks_[line / chunk_lines];
    if (c == nullptr) [[unlikely]]
      c = make_chunk();
    return c[line % chunk_lines];
  }

  /// Starts to load the line's entry, because a random one is not in the host's caches.
  void prefetch(std::uint32_t line) const noexcept {
    if (const chunk& c = chunks_[line / chunk_lines]; c != nullptr)
      __builtin_prefetch(&c[line % chunk_lines], 1);
  }

  /// The line's entry; null if it has none yet.
  const directory_entry* find(std::uint32_t line) const noexcept {
    const chunk& c = chunks_[line / chunk_lines];
    return c == nullptr ? nullptr : &c[line % chunk_lines];
  }

  /// Calls visitor(line, const directory_entry&) for every line that has an entry, in ascending order.
  template <class Visitor>
  void visit(Visitor visitor) const {
    for (std::uint64_t line = 0; line < lines_; ++line) {
      const chunk& c = chunks_[line / chunk_lines];
      if (c == nullptr)
        line += chunk_lines - 1;
      else
        visitor(static_cast<std::uint32_t>(line), c[line % chunk_lines]);
    }
  }

 private:
  static constexpr std::uint32_t chunk_lines = 1u << 16;
  struct releaser {
    void operator()(directory_entry* p) const noexcept;
  };
  using chunk = std::unique_ptr<directory_entry[], releaser>;

  static chunk make_chunk();

  std::uint64_t lines_;
  std::vector<chunk> chunks_;
};

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

/// A modified line that returns from a socket to memory: another socket reads it, or it is evicted.
struct returned_line {
  std::uint32_t line;
  unsigned socket;
};

/// How far a write had to reach to make its line writable.
enum class reach : std::uint8_t { none, last_level, socket, sockets };

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
    /// The socket that a line comes from, if it is another one.
    unsigned supplier;
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
    returned_.clear();
    const result held = access_private(core, line, write, c);
    return held.entry == nullptr ? access_shared(core, line, write, home(), c) : held;
  }

  struct place {
    bool owned;  ///< one cache has it alone
    bool far;    ///< one is in another socket
    std::uint64_t busy_until;
  };
  /// Where caches of other cores hold the line.
  [[nodiscard]] place others_of(unsigned core, std::uint32_t line) const noexcept;

  /// No other core gets the line before this moment.
  void keep_busy(std::uint32_t line, std::uint64_t until) {
    std::uint64_t& busy = directory_[line].busy_until;
    if (busy < until) busy = until;
  }

  /// The lines displaced since the last clear, in order. Lines that another core took are not included.
  const std::vector<displaced_line>& displaced() const noexcept { return displaced_; }
  void clear_displaced() noexcept { displaced_.clear(); }

  /// What the last access() has returned to memory.
  const std::vector<returned_line>& returned() const noexcept { return returned_; }

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
  unsigned supplier_of(const directory_entry& entry, source from, unsigned home) const noexcept;

  void share(directory_entry& entry, std::uint32_t line, unsigned me, counts& c);
  reach take(directory_entry& entry, std::uint32_t line, unsigned me, source from, counts& c);
  unsigned prefetch(unsigned core, std::uint32_t line, unsigned home, counts& c);

  void fill(unsigned core, std::uint32_t line, directory_entry& entry, bool write, bool into_l1, counts& c);
  void fill_l1(unsigned core, std::uint32_t line, bool writable, counts& c);
  void fill_l2(unsigned private_cache, std::uint32_t line, counts& c);
  void fill_llc(unsigned socket, std::uint32_t line, directory_entry& entry, bool dirty, counts& c);

  void drop(unsigned private_cache, std::uint32_t line);
  void note_displaced(unsigned private_cache, std::uint32_t line);
  void write_back(std::uint32_t line, unsigned socket, counts& c) {
    returned_.push_back({line, socket});
    ++c.writebacks;
  }
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
  std::vector<returned_line> returned_;
  std::uint64_t lines_;
};

}  // namespace espalier::sim
