#include "sim/machine/machine.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

namespace espalier::sim {
namespace {

machine_spec validated(machine_spec spec) {
  validate(spec);
  return spec;
}

std::uint64_t checked_size(std::uint64_t bytes) {
  if (bytes == 0 || bytes > 127ull << 30) {
    throw std::invalid_argument("machine: the address space must have 1 byte to 127 GiB, not " +
                                std::to_string(bytes) + " bytes");
  }
  return bytes;
}

/// In the order of `source`.
constexpr std::array latencies{&latency_spec::l1,
                               &latency_spec::l2,
                               &latency_spec::llc,
                               &latency_spec::llc_snoop,
                               &latency_spec::local_transfer,
                               &latency_spec::remote_transfer,
                               &latency_spec::remote_clean,
                               &latency_spec::local_dram,
                               &latency_spec::remote_dram};

std::uint64_t latency_of(reach invalidated, const latency_spec& l) {
  switch (invalidated) {
    case reach::none:
      return 0;
    case reach::last_level:
      return l.llc;
    case reach::socket:
      return l.local_invalidation;
    case reach::sockets:
      return l.remote_invalidation;
  }
  return 0;
}

/// The bytes of `count` bytes from `first` on that lie in the line: bit i for byte i.
std::uint64_t bytes_of_line(unsigned first, unsigned count) {
  const std::uint64_t all = ~std::uint64_t{0} << first;
  return first + count >= line_bytes ? all : all & ~(~std::uint64_t{0} << (first + count));
}

/// What a load costs whose value nothing waits for.
constexpr std::uint64_t issue_cycles = 1;

/// Lines that a node's memory takes before it has written them. An estimate: such processors track 32 requests there.
constexpr std::uint64_t write_backs_that_wait = 32;

std::uint64_t scaled(std::uint64_t cycles, double factor) {
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(cycles) * factor));
}

std::optional<cache> array_of(const hw::cache_shape& spec) {
  return spec.ways == 0 ? std::nullopt : std::optional<cache>(spec);
}

}  // namespace

void pages::releaser::operator()(std::uint8_t* p) const noexcept { std::free(p); }

pages::pages(std::uint64_t address_space_bytes) : bytes_(address_space_bytes) {
  // Includes the rest of the last huge page, so that placing one never leaves the array.
  const std::uint64_t huge_pages = (address_space_bytes + huge_page_bytes - 1) / huge_page_bytes;
  const std::size_t size = static_cast<std::size_t>(huge_pages * (huge_page_bytes / page_bytes));
  attributes_.reset(static_cast<std::uint8_t*>(std::calloc(size == 0 ? 1 : size, 1)));
  if (attributes_ == nullptr) throw std::bad_alloc();
}

void pages::set(std::uint64_t address, std::uint64_t bytes, bool huge, std::optional<unsigned> numa_node) {
  if (address > bytes_ || bytes > bytes_ - address) {
    throw std::invalid_argument("pages: the range " + std::to_string(address) + " + " +
                                std::to_string(bytes) + " leaves the address space of " +
                                std::to_string(bytes_) + " bytes");
  }
  if (huge && (address % huge_page_bytes != 0 || bytes % huge_page_bytes != 0)) {
    throw std::invalid_argument("pages: huge pages take a range in multiples of 2 MiB, not " +
                                std::to_string(address) + " + " + std::to_string(bytes));
  }
  if (bytes == 0) return;
  const auto attribute = static_cast<std::uint8_t>((huge ? huge_bit : 0u) | (numa_node ? *numa_node + 1 : 0));
  const std::uint64_t first = address / page_bytes;
  const std::uint64_t last = (address + bytes - 1) / page_bytes;
  std::memset(attributes_.get() + first, attribute, static_cast<std::size_t>(last - first + 1));
}

void pages::place(std::uint64_t address, unsigned node) noexcept {
  const std::uint64_t page = address / page_bytes;
  const auto attribute = static_cast<std::uint8_t>(node + 1);
  if ((attributes_[page] & huge_bit) == 0) {
    attributes_[page] = attribute;
    return;
  }
  constexpr std::uint64_t together = huge_page_bytes / page_bytes;
  std::memset(attributes_.get() + page / together * together, attribute | huge_bit, together);
}

tlb::tlb(const hw::tlb_shape& spec)
    : small_(array_of(spec.l1_small)),
      huge_(array_of(spec.l1_huge)),
      l2_(array_of(spec.l2)),
      l2_holds_huge_(spec.l2_holds_huge) {}

tlb::outcome tlb::search(std::uint32_t page, bool huge) noexcept {
  std::optional<cache>& first = huge ? huge_ : small_;
  if (first) {
    if (first->use(page) != nullptr) return outcome::l1_hit;
    first->insert(page);
  } else {
    last_ = none;
  }
  if (!l2_ || (huge && !l2_holds_huge_)) return outcome::walk;
  if (l2_->use(page) != nullptr) return outcome::l2_hit;
  l2_->insert(page);
  return outcome::walk;
}

void tlb::flush() noexcept {
  for (std::optional<cache>* const array : {&small_, &huge_, &l2_})
    if (*array) (*array)->clear();
  last_ = none;
}

machine::machine(const machine_spec& spec, std::uint64_t address_space_bytes)
    : spec_(validated(spec)),
      bytes_(checked_size(address_space_bytes)),
      beyond_l1_{},
      alone_{spec.overlaps_loads ? issue_cycles : spec.latency.l1, spec.latency.store, spec.latency.atomic},
      sharing_{},
      caches_(spec_, (bytes_ + line_bytes - 1) / line_bytes),
      pages_(bytes_),
      tlbs_(spec.cores(), tlb(spec.tlb)),
      running_(spec.cores(), 0),
      channels_busy_(spec.sockets, 0),
      links_busy_(std::size_t{spec.sockets} * spec.sockets, 0) {
  for (unsigned from = 0; from < beyond_l1_.size(); ++from) {
    const unsigned whole = spec_.latency.*latencies[from];
    beyond_l1_[from] = whole - std::min(whole, spec_.latency.l1);
  }
  for (std::size_t kind = 0; kind < alone_.size(); ++kind)
    sharing_[kind] = scaled(alone_[kind], spec_.smt_factor);
  for (unsigned i = 0; i < spec_.hardware_threads(); ++i) {
    const unsigned core = i / spec_.threads_per_core;
    threads_.push_back(
        {core,
         core / spec_.cores_per_socket,
         false,
         0,
         {},
         store_buffer(spec_.store_buffer),
         {},
         load_window(spec_.overlaps_loads ? spec_.loads_in_flight : 0, spec_.window_accesses)});
  }
}

std::uint64_t machine::access(unsigned hardware_thread, std::uint64_t now, std::uint64_t address,
                              unsigned bytes, touch kind, std::uint64_t value) {
  require_inside(address, bytes);
  caches_.clear_displaced();
  if (bytes == 0) return 0;
  thread_state& thread = threads_[hardware_thread];
  std::uint64_t cycles = 0;
  if (thread.loads.exists()) {
    cycles =
        stalled(thread, kind == touch::atomic ? thread.loads.drain(now) : thread.loads.before(address, now));
  }
  const std::uint32_t last = line_of(address + bytes - 1);
  std::uint32_t line = line_of(address);
  const auto first = static_cast<unsigned>(address % line_bytes);
  cycles += touch_line(thread, now + cycles, line, bytes_of_line(first, bytes), kind, value);
  for (unsigned begun = line_bytes - first; line != last; begun += line_bytes) [[unlikely]]
    cycles += touch_line(thread, now + cycles, ++line, bytes_of_line(0, bytes - begun), kind, value);
  return cycles;
}

void machine::warm(unsigned hardware_thread, std::uint64_t address, unsigned bytes, bool write) {
  require_inside(address, bytes);
  caches_.clear_displaced();
  if (bytes == 0) return;
  thread_state& thread = threads_[hardware_thread];
  for (std::uint32_t line = line_of(address); line <= line_of(address + bytes - 1); ++line) {
    translate(thread, line);
    if (caches_.hit_l1(thread.core, line, write)) continue;
    caches_.access(
        thread.core, line, write,
        [&] { return pages_.home(std::uint64_t{line} * line_bytes, thread.socket); }, thread.count);
  }
}

std::uint64_t machine::touch_line(thread_state& thread, std::uint64_t now, std::uint32_t line,
                                  std::uint64_t bytes, touch kind, std::uint64_t value) {
  counts& c = thread.count;
  const bool write = kind != touch::read;
  std::uint64_t stall = translate(thread, line);
  if (kind == touch::atomic) stall += thread.stores.drain(now + stall);
  std::uint64_t latency = 0;
  std::uint64_t there = 0;
  bool asked = false;
  bool prefetched = false;
  if (caches_.hit_l1(thread.core, line, write)) [[likely]] {
    ++c.l1_hits;
    // The cache holds the line already, but its contents may still be on the way.
    if (thread.asked.any(now + stall)) [[unlikely]] {
      if (kind == touch::read)
        latency = thread.asked.wait(line, bytes, now + stall);
      else
        thread.asked.add(line, bytes);
    }
  } else {
    asked = true;
    const arrival f = fetch(thread, now + stall, line, write);
    latency = f.usable;
    there = f.there;
    prefetched = f.prefetched;
  }
  if (thread.loads.any(now + stall)) {
    const std::uint64_t left = thread.loads.arrival_of(line, now + stall) - now - stall;
    asked = asked && left == 0;
    latency = std::max(latency, left - std::min<std::uint64_t>(left, spec_.latency.l1));
  }
  ++c.accesses;
  switch (kind) {
    case touch::read:
      ++c.reads;
      stall += thread.loads.exists() ? load(thread, now + stall, line, latency, asked, value) : latency;
      if (prefetched && thread.loads.exists())
        stall += load(thread, now + stall, line ^ 1U, latency, true, load_window::no_address);
      break;
    case touch::write:
      ++c.writes;
      // Stores leave the core in its program's order, after the loads before them.
      if (thread.loads.any(now + stall)) [[unlikely]] {
        latency = std::max(latency, thread.loads.drain(now + stall));
        caches_.keep_busy(line, now + stall + latency);
      }
      // A store that completes at once needs no place if there is none before it.
      if (latency != 0 || !thread.stores.is_empty(now + stall))
        stall += thread.stores.push(now + stall, latency);
      if (there != 0) thread.asked.ask(line, bytes, now + stall + there);
      break;
    case touch::atomic:
      ++c.atomics;
      stall += latency;
      break;
  }
  const base_costs& base = shares_core(thread, now) ? sharing_ : alone_;
  thread.waits_until = now + stall;
  const std::uint64_t cycles = base[static_cast<std::size_t>(kind)] + stall;
  c.stall_cycles += stall;
  c.cycles += cycles;
  return cycles;
}

std::uint64_t machine::load(thread_state& thread, std::uint64_t now, std::uint32_t line,
                            std::uint64_t latency, bool asked, std::uint64_t value) {
  if (latency == 0) {
    thread.loads.add_hit(value, now + spec_.latency.l1);
    return 0;
  }
  std::uint64_t wait = 0;
  if (asked) {
    unsigned others = 0;
    visit_beside(thread, [&](const thread_state& other) { others += other.loads.lines(now); });
    wait = thread.loads.place(now, others);
  }
  return wait + thread.loads.add(now + wait, line, value, now + wait + spec_.latency.l1 + latency, asked);
}

std::uint64_t machine::stalled(thread_state& thread, std::uint64_t cycles) noexcept {
  thread.count.stall_cycles += cycles;
  thread.count.cycles += cycles;
  return cycles;
}

std::uint64_t machine::wait_for_loads(unsigned hardware_thread, std::uint64_t now) {
  thread_state& thread = threads_[hardware_thread];
  return stalled(thread, thread.loads.drain(now));
}

std::uint64_t machine::until_asked(unsigned hardware_thread, std::uint64_t now,
                                   std::uint64_t address) const noexcept {
  const coherence::place at = caches_.others_of(threads_[hardware_thread].core, line_of(address));
  const unsigned whole = at.owned ? (at.far ? spec_.latency.remote_transfer : spec_.latency.local_transfer)
                         : at.far ? spec_.latency.remote_invalidation
                                  : spec_.latency.local_invalidation;
  return (at.busy_until > now ? at.busy_until - now : 0) + whole / 2;
}

std::uint64_t machine::translate(thread_state& thread, std::uint32_t line) {
  const std::uint64_t address = std::uint64_t{line} * line_bytes;
  switch (tlbs_[thread.core].translate(address, pages_.is_huge(address))) {
    case tlb::outcome::l1_hit:
      return 0;
    case tlb::outcome::l2_hit:
      ++thread.count.tlb_misses;
      return spec_.latency.l2_tlb;
    case tlb::outcome::walk:
      ++thread.count.tlb_misses;
      ++thread.count.page_walks;
      return spec_.latency.page_walk;
  }
  return 0;
}

// For a line that is not ready in the L1. Includes the queues.
machine::arrival machine::fetch(thread_state& thread, std::uint64_t now, std::uint32_t line, bool write) {
  unsigned home = thread.socket;
  const coherence::result r = caches_.access(
      thread.core, line, write,
      [&] { return home = pages_.home(std::uint64_t{line} * line_bytes, thread.socket); }, thread.count);
  const std::uint64_t there = beyond_l1_[static_cast<std::size_t>(r.from)];
  const std::uint64_t latency = std::max<std::uint64_t>(there, latency_of(r.invalidated, spec_.latency));
  if (r.from <= source::l2 && r.invalidated == reach::none) return {latency, there, false};

  std::uint64_t start = std::max(now, r.entry->busy_until);
  const bool from_dram = r.from == source::local_dram || r.from == source::remote_dram;
  if (from_dram) start = std::max(start, channels_busy_[home]);
  const bool remote =
      r.from == source::remote_modified || r.from == source::remote_clean || r.from == source::remote_dram;
  if (remote && spec_.links_queue) {
    std::uint64_t& busy = links_busy_[std::size_t{r.supplier} * spec_.sockets + thread.socket];
    start = std::max(start, busy);
    // What is prefetched comes from the same memory.
    busy = std::max(now, busy) + std::uint64_t{1 + r.prefetched} * spec_.latency.link_occupancy;
  }
  if (const unsigned fetched = r.prefetched + (from_dram ? 1 : 0); fetched != 0) {
    channels_busy_[home] =
        std::max(now, channels_busy_[home]) + std::uint64_t{fetched} * spec_.latency.dram_occupancy;
  }
  for (const returned_line& returned : caches_.returned()) start = std::max(start, carry_home(returned, now));
  const bool keeps_busy = r.invalidated != reach::none || r.from > source::llc;
  if (keeps_busy) r.entry->busy_until = start + latency;
  thread.count.queue_cycles += start - now;
  return {start - now + latency, r.from == source::l1 ? 0 : start - now + there, r.prefetched != 0};
}

std::uint64_t machine::carry_home(const returned_line& returned, std::uint64_t now) {
  if (!spec_.write_backs_queue) return now;
  const unsigned home = pages_.home(std::uint64_t{returned.line} * line_bytes).value_or(returned.socket);
  if (home != returned.socket && spec_.links_queue) {
    std::uint64_t& busy = links_busy_[std::size_t{returned.socket} * spec_.sockets + home];
    busy = std::max(now, busy) + spec_.latency.link_occupancy;
  }
  std::uint64_t& busy = channels_busy_[home];
  const std::uint64_t waiting = write_backs_that_wait * spec_.latency.dram_occupancy;
  const std::uint64_t accepted = busy > now + waiting ? busy - waiting : now;
  busy = std::max(now, busy) + spec_.latency.dram_occupancy;
  return accepted;
}

std::uint64_t machine::drain(unsigned hardware_thread, std::uint64_t now) {
  thread_state& thread = threads_[hardware_thread];
  return stalled(thread, std::max(thread.stores.drain(now), thread.loads.drain(now)));
}

std::uint64_t machine::fence(unsigned hardware_thread, std::uint64_t now) {
  const std::uint64_t instruction = work(hardware_thread, now, spec_.latency.fence);
  counts& count = threads_[hardware_thread].count;
  ++count.fences;
  count.cycles += instruction;
  return drain(hardware_thread, now) + instruction;
}

std::uint64_t machine::work(unsigned hardware_thread, std::uint64_t now,
                            std::uint64_t cycles) const noexcept {
  return shares_core(threads_[hardware_thread], now) ? scaled(cycles, spec_.smt_factor) : cycles;
}

bool machine::another_executes(const thread_state& thread, std::uint64_t now) const noexcept {
  bool executes = false;
  visit_beside(thread, [&](const thread_state& other) { executes |= other.waits_until <= now; });
  return executes;
}

void machine::set_running(unsigned hardware_thread, bool running) noexcept {
  thread_state& thread = threads_[hardware_thread];
  if (thread.running != running) {
    thread.running = running;
    running_[thread.core] += running ? 1u : ~0u;
    const unsigned first = thread.core * spec_.threads_per_core;
    for (unsigned i = first; i < first + spec_.threads_per_core; ++i)
      threads_[i].loads.share(std::max(1u, running_[thread.core]));
  }
}

void machine::set_page(std::uint64_t address, std::uint64_t bytes, page_attributes attributes) {
  if (attributes.numa_node && *attributes.numa_node >= spec_.sockets) {
    throw std::invalid_argument("machine \"" + spec_.name + "\" has NUMA nodes 0 to " +
                                std::to_string(spec_.sockets - 1) + ", not " +
                                std::to_string(*attributes.numa_node));
  }
  pages_.set(address, bytes, attributes.huge, attributes.numa_node);
  for (tlb& t : tlbs_) t.flush();
}

void machine::first_touch(std::uint64_t address, unsigned numa_node) {
  require_inside(address, 1);
  if (numa_node >= spec_.sockets) {
    throw std::invalid_argument("machine \"" + spec_.name + "\" has NUMA nodes 0 to " +
                                std::to_string(spec_.sockets - 1) + ", not " + std::to_string(numa_node));
  }
  pages_.home(address, numa_node);
}

std::optional<unsigned> machine::home_of(std::uint64_t address) const {
  require_inside(address, 1);
  return pages_.home(address);
}

counts machine::total() const noexcept {
  counts sum;
  for (const thread_state& thread : threads_) sum += thread.count;
  return sum;
}

void machine::reset_counts() noexcept {
  for (thread_state& thread : threads_) thread.count = {};
}

void machine::require_inside(std::uint64_t address, std::uint64_t bytes) const {
  if (bytes > bytes_ || address > bytes_ - bytes) [[unlikely]] {
    throw std::invalid_argument("machine: " + std::to_string(bytes) + " bytes at address " +
                                std::to_string(address) + " leave the address space of " +
                                std::to_string(bytes_) + " bytes");
  }
}

}  // namespace espalier::sim
