#pragma once

// The simulated machine. It receives a stream of memory accesses, returns how long each takes, and keeps counts.
//
// Time. The caller supplies `now`, in core cycles, for each hardware thread. Calls are best made in nearly ascending
// order of time: an access finds the caches as the previous calls left them, and waits for a line or a memory channel
// that an earlier call keeps busy beyond `now`.
//
// Cost of an access, in cycles: a read takes the latency of the place where its line was found. A plain write takes
// `latency.store`. Its line is fetched in the background, and the thread waits only for a place in its store buffer. A
// read of bytes of that line which the thread has not stored waits until the line arrives. An atomic read-modify-write
// drains the store buffer, then takes the whole latency of its line and `latency.atomic`. A TLB miss adds to each. Work
// that waits for nothing (the L1 part of a read, the store, the atomic) is scaled by `smt_factor` while another thread
// of the core is running. Where loads overlap, a read takes one cycle, and what needs it waits (load_window.hpp).
//
// Contention. A transfer between caches, a fetch from DRAM and an invalidation keep the line busy until they are
// complete; requests for it queue. Hits in the last-level cache wait for a busy line, but do not keep it busy. A link and a
// memory channel serve requests in the order in which they are made: one that waits for its line keeps no other one waiting.
//
// Not modelled: instruction fetches, page-table lines in the caches, the load of messages without a line, differing
// distances between sockets.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/machine/cache.hpp"
#include "sim/machine/coherence.hpp"
#include "sim/machine/counts.hpp"
#include "sim/machine/load_window.hpp"
#include "sim/machine/machine_spec.hpp"

namespace espalier::sim {

/// One byte for each 4 KiB of the address space, from zero pages of the operating system: an unused part of an address
/// space costs nothing.
class pages {
 public:
  explicit pages(std::uint64_t address_space_bytes);

  /// Sets size and node of every page in the range; without a node the page loses its place. Throws
  /// std::invalid_argument if the range is not in the address space, or is huge and not in whole 2 MiB pages.
  void set(std::uint64_t address, std::uint64_t bytes, bool huge, std::optional<unsigned> numa_node);

  bool is_huge(std::uint64_t address) const noexcept {
    return (attributes_[address / page_bytes] & huge_bit) != 0;
  }

  /// The node of the address's page; if it had none, it is now `toucher`.
  unsigned home(std::uint64_t address, unsigned toucher) noexcept {
    const std::uint8_t attribute = attributes_[address / page_bytes];
    if ((attribute & node_mask) != 0) [[likely]]
      return (attribute & node_mask) - 1u;
    place(address, toucher);
    return toucher;
  }

  std::optional<unsigned> home(std::uint64_t address) const noexcept {
    const unsigned node = attributes_[address / page_bytes] & node_mask;
    return node == 0 ? std::nullopt : std::optional<unsigned>(node - 1);
  }

 private:
  static constexpr std::uint8_t huge_bit = 0x80;
  static constexpr std::uint8_t node_mask = 0x7f;  // 0 = not placed, else node + 1

  struct releaser {
    void operator()(std::uint8_t* p) const noexcept;
  };

  void place(std::uint64_t address, unsigned node) noexcept;

  std::uint64_t bytes_;
  std::unique_ptr<std::uint8_t[], releaser> attributes_;
};

/// The translation buffers of one core, shared by its hardware threads.
class tlb {
 public:
  enum class outcome : std::uint8_t { l1_hit, l2_hit, walk };

  explicit tlb(const hw::tlb_shape& spec);

  /// Translates an address below 2^41 in a page of this size; afterwards the page is in the L1 array.
  outcome translate(std::uint64_t address, bool huge) noexcept {
    const auto page =
        static_cast<std::uint32_t>(huge ? huge_key + address / huge_page_bytes : address / page_bytes);
    // The page of the last translation is the latest used of its set: another use of it changes nothing.
    if (page == last_) [[likely]]
      return outcome::l1_hit;
    last_ = page;
    return search(page, huge);
  }

  /// Drops every page, after attributes of some have changed.
  void flush() noexcept;

 private:
  static constexpr std::uint32_t huge_key = 1u << 30;
  static constexpr std::uint32_t none = 0xffffffff;

  outcome search(std::uint32_t page, bool huge) noexcept;

  std::optional<cache> small_;
  std::optional<cache> huge_;
  std::optional<cache> l2_;
  bool l2_holds_huge_;
  std::uint32_t last_ = none;
};

/// A ring of completion times. Stores become visible in program order, at most one per cycle. The wait of a store for
/// its line overlaps those of earlier stores, because their requests are sent early.
class store_buffer {
 public:
  explicit store_buffer(unsigned places) : completions_(places, 0) {}

  /// Buffers a store at time `now`. Its line arrives `latency` cycles after the store has a place. Returns the cycles
  /// that the thread waits for a place.
  std::uint64_t push(std::uint64_t now, std::uint64_t latency) noexcept {
    // The store takes the place of the oldest, which is free once that store has completed.
    std::uint64_t& place = completions_[next_];
    const std::uint64_t wait = place > now ? place - now : 0;
    last_ = std::max(last_ + 1, now + wait + latency);
    place = last_;
    next_ = next_ + 1 == completions_.size() ? 0 : next_ + 1;
    return wait;
  }

  bool is_empty(std::uint64_t now) const noexcept { return last_ <= now; }

  /// The cycles from `now` until every buffered store is visible.
  std::uint64_t drain(std::uint64_t now) const noexcept { return last_ > now ? last_ - now : 0; }

 private:
  std::vector<std::uint64_t> completions_;
  std::size_t next_ = 0;
  std::uint64_t last_ = 0;
};

/// Lines for which stores of one thread wait in its store buffer, with the bytes that they have written. A load of only
/// those bytes is served from the buffer; a load of other bytes waits for the line. There are as many places as a core
/// has fill buffers. If more lines are requested, the oldest count as arrived.
class lines_on_the_way {
 public:
  /// Whether a load may have to wait for any line; quick.
  [[nodiscard]] bool any(std::uint64_t now) const noexcept { return latest_ > now; }

  /// A store to these bytes (bit i: byte i of the line) has requested the line.
  void ask(std::uint32_t line, std::uint64_t bytes, std::uint64_t arrival) noexcept {
    places_[next_] = {line, bytes, arrival};
    next_ = (next_ + 1) % places_.size();
    latest_ = std::max(latest_, arrival);
  }

  /// A store to a line that may have been requested.
  void add(std::uint32_t line, std::uint64_t bytes) noexcept {
    for (place& p : places_)
      if (p.line == line) p.bytes |= bytes;
  }

  /// How long a load of these bytes waits.
  [[nodiscard]] std::uint64_t wait(std::uint32_t line, std::uint64_t bytes,
                                   std::uint64_t now) const noexcept {
    std::uint64_t longest = 0;
    for (const place& p : places_)
      if (p.line == line && p.arrival > now && (bytes & ~p.bytes) != 0)
        longest = std::max(longest, p.arrival - now);
    return longest;
  }

 private:
  struct place {
    std::uint32_t line = 0;
    std::uint64_t bytes = 0;
    std::uint64_t arrival = 0;
  };
  std::array<place, 12> places_{};
  std::size_t next_ = 0;
  std::uint64_t latest_ = 0;
};

/// atomic is a read-modify-write with the semantics of a locked instruction, successful or not.
enum class touch : std::uint8_t { read, write, atomic };

struct page_attributes {
  bool huge = false;
  /// Without a node, the first access places the page.
  std::optional<unsigned> numa_node;
};

/// Deterministic: the same calls give the same results. Not thread-safe. Takes about 2 MiB for each 4 MiB of address
/// space that has a touched line, and 4 bytes for each line of cache.
class machine {
 public:
  /// Addresses are 0 .. address_space_bytes - 1. Throws std::invalid_argument if the spec is invalid, or if the address
  /// space is empty or larger than 127 GiB.
  machine(const machine_spec& spec, std::uint64_t address_space_bytes);
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;

  const machine_spec& spec() const noexcept { return spec_; }
  std::uint64_t address_space_bytes() const noexcept { return bytes_; }

  /// One access by a hardware thread at its time `now`; returns the cycles after which the thread continues. Bytes of
  /// several lines are touched line after line. Throws std::invalid_argument if the bytes leave the address space. The
  /// thread must exist on the machine. `value` is what a read returns, if that is an address here. O(ways), more if copies
  /// are invalidated.
  std::uint64_t access(unsigned hardware_thread, std::uint64_t now, std::uint64_t address, unsigned bytes,
                       touch kind, std::uint64_t value = load_window::no_address);

  /// Caches and TLBs as after such an access, in no time: nothing becomes busy. Counts what moves, but no access. Same errors.
  void warm(unsigned hardware_thread, std::uint64_t address, unsigned bytes, bool write);

  /// The cycles until every line that the thread has loaded is there.
  std::uint64_t wait_for_loads(unsigned hardware_thread, std::uint64_t now);

  /// Lines that cores had written and that their L1s evicted because of the last access. They must not include lines
  /// that a transaction has written.
  std::span<const displaced_line> displaced() const noexcept { return caches_.displaced(); }

  /// The cycles until every line that the thread has loaded is there and every store is visible.
  std::uint64_t drain(unsigned hardware_thread, std::uint64_t now);

  /// The cycles until a request for the line of an address reaches the other caches that hold it: half of what it takes
  /// until they have answered, after the line is free.
  [[nodiscard]] std::uint64_t until_asked(unsigned hardware_thread, std::uint64_t now,
                                          std::uint64_t address) const noexcept;

  /// A full fence: returns the cycles until the thread's stores are visible, and those of the instruction.
  std::uint64_t fence(unsigned hardware_thread, std::uint64_t now);

  /// The cycles that `cycles` of computation take on this thread, given what runs beside it on its core.
  std::uint64_t work(unsigned hardware_thread, std::uint64_t now, std::uint64_t cycles) const noexcept;

  /// The thread executes nothing until then, or its next access.
  static constexpr std::uint64_t without_end = ~std::uint64_t{0};
  void waits(unsigned hardware_thread, std::uint64_t until) noexcept {
    threads_[hardware_thread].waits_until = until;
  }

  /// States whether a hardware thread has work to do; initially none has.
  void set_running(unsigned hardware_thread, bool running) noexcept;

  /// Sets the attributes of every page in the range, replaces previous ones, and empties the TLBs. Cached lines stay
  /// cached. Initially pages are of 4 KiB and without a node. Throws std::invalid_argument if the range leaves the
  /// address space, if huge pages are not whole, or if the machine does not have the node.
  void set_page(std::uint64_t address, std::uint64_t bytes, page_attributes attributes);

  /// Places the address's page, if it has no node yet, without an access. Same errors.
  void first_touch(std::uint64_t address, unsigned numa_node);

  /// The node of the address's page; nullopt if it has none yet.
  std::optional<unsigned> home_of(std::uint64_t address) const;

  const counts& of(unsigned hardware_thread) const noexcept { return threads_[hardware_thread].count; }
  counts total() const noexcept;
  /// Sets the counts to 0. Caches, TLBs and pages are unchanged.
  void reset_counts() noexcept;

  unsigned core_of(unsigned hardware_thread) const noexcept { return threads_[hardware_thread].core; }
  unsigned socket_of(unsigned hardware_thread) const noexcept { return threads_[hardware_thread].socket; }

  /// The caches that hold the line of an address at this moment, for tests and for reports.
  bool l1_holds(unsigned core, std::uint64_t address) const { return caches_.l1_has(core, line_of(address)); }
  bool l2_holds(unsigned core, std::uint64_t address) const { return caches_.l2_has(core, line_of(address)); }
  bool llc_holds(unsigned socket, std::uint64_t address) const {
    return caches_.llc_has(socket, line_of(address));
  }

  /// Throws std::logic_error that names the first broken invariant of the caches. Slow.
  void check_invariants() const { caches_.check_invariants(); }

 private:
  struct alignas(64) thread_state {
    unsigned core;
    unsigned socket;
    bool running = false;
    std::uint64_t waits_until = 0;
    counts count{};
    store_buffer stores;
    lines_on_the_way asked{};
    load_window loads;
  };
  /// The cost of each kind of touch without any waiting.
  using base_costs = std::array<std::uint64_t, 3>;

  static std::uint32_t line_of(std::uint64_t address) noexcept {
    return static_cast<std::uint32_t>(address / line_bytes);
  }
  /// Whether another thread of its core executes at that time.
  bool shares_core(const thread_state& thread, std::uint64_t now) const noexcept {
    return running_[thread.core] > 1 && (!spec_.waiting_frees_core || another_executes(thread, now));
  }
  bool another_executes(const thread_state& thread, std::uint64_t now) const noexcept;

  /// The part of an access in one line; bit i of `bytes` stands for byte i of the line.
  std::uint64_t touch_line(thread_state& thread, std::uint64_t now, std::uint32_t line, std::uint64_t bytes,
                           touch kind, std::uint64_t value);
  /// Counts the cycles as ones in which the thread waits, and returns them.
  static std::uint64_t stalled(thread_state& thread, std::uint64_t cycles) noexcept;
  /// How long the thread waits for a line that is there after `latency` cycles, or for a place in its window.
  std::uint64_t load(thread_state& thread, std::uint64_t now, std::uint32_t line, std::uint64_t latency,
                     bool asked, std::uint64_t value);
  /// Calls visitor(other) for the other running threads of its core.
  template <class Visitor>
  void visit_beside(const thread_state& thread, Visitor visitor) const {
    const unsigned first = thread.core * spec_.threads_per_core;
    for (unsigned i = first; i < first + spec_.threads_per_core; ++i)
      if (&threads_[i] != &thread && threads_[i].running) visitor(threads_[i]);
  }
  std::uint64_t translate(thread_state& thread, std::uint32_t line);
  /// Cycles in excess of an L1 hit: until the line is usable for this access, and until its bytes arrive. Whether its neighbour
  /// comes from memory with it.
  struct arrival {
    std::uint64_t usable;
    std::uint64_t there;
    bool prefetched;
  };
  arrival fetch(thread_state& thread, std::uint64_t now, std::uint32_t line, bool write);
  /// A modified line occupies the way to its memory, and its memory. Returns when the memory accepts it, which the request waits
  /// for that the line returns for.
  std::uint64_t carry_home(const returned_line& returned, std::uint64_t now);
  void require_inside(std::uint64_t address, std::uint64_t bytes) const;

  machine_spec spec_;
  std::uint64_t bytes_;
  std::array<std::uint64_t, 9> beyond_l1_;  // latency of each source minus that of the L1
  base_costs alone_;
  base_costs sharing_;
  coherence caches_;
  pages pages_;
  std::vector<tlb> tlbs_;                     // by core
  std::vector<unsigned> running_;             // by core
  std::vector<std::uint64_t> channels_busy_;  // by NUMA node: until when
  std::vector<std::uint64_t> links_busy_;     // by socket from which, and to which: likewise
  std::vector<thread_state> threads_;
};

}  // namespace espalier::sim
