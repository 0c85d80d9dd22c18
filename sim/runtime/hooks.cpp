// Replaces the library's own modules in a simulated program: waiting, thread slots, fences, pages, ends of threads.

#include <sys/types.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

#include "espalier/delegation/thread_end.hpp"
#include "espalier/hw/affinity.hpp"
#include "espalier/hw/asymmetric_fence.hpp"
#include "espalier/hw/fork_recovery.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/hw/pause.hpp"
#include "espalier/hw/thread_slot.hpp"
#include "sim/memory/heap.hpp"
#include "sim/runtime/arena.hpp"
#include "sim/runtime/spend.hpp"
#include "sim/runtime/world.hpp"
#include "sim/transactions/transactions.hpp"

namespace espalier::sim {
namespace {

void unmap(const own_code& scope, std::byte* data, std::size_t bytes) {
  world& w = *scope.allocating();
  if (scope.running() != nullptr) leave_transaction(w);
  if (w.transactional != nullptr) w.transactional->forget(std::bit_cast<std::uintptr_t>(data), bytes);
  if (w.weak != nullptr) w.weak->forget(std::bit_cast<std::uintptr_t>(data), bytes);
  w.memory->unmap(data, bytes);
}

/// A full fence, and a read of the word: other fibers may run before it.
void announce_system_call(world& w, const std::atomic<std::uint32_t>& word) {
  leave_transaction(w);
  w.fence(std::memory_order_seq_cst);
  w.before({std::bit_cast<std::uintptr_t>(&word), sizeof(word), access_kind::atomic_load,
            __builtin_return_address(0)});
}

void wake(const std::atomic<std::uint32_t>& word, bool all) {
  const own_code scope;
  if (scope.running() == nullptr) return;
  announce_system_call(*scope.running(), word);
  scope.running()->wake_sleepers(&word, all);
}

}  // namespace

void spend(std::uint64_t cycles) noexcept {
  const own_code scope;
  if (scope.running() != nullptr) scope.running()->spend(cycles);
}

unsigned count_in(unsigned part) noexcept {
  const own_code scope;
  return scope.running() != nullptr ? scope.running()->count_in(part) : 0;
}

}  // namespace espalier::sim

namespace espalier::hw {

void cpu_relax() noexcept {
  const sim::own_code scope;
  if (scope.running() == nullptr) return;
  leave_transaction(*scope.running());
  scope.running()->wait(false);
}

void park() noexcept {
  const sim::own_code scope;
  if (scope.running() == nullptr) return;
  leave_transaction(*scope.running());
  scope.running()->wait(true);
}

// As the kernel does it: a full fence, then the newest value of the word; no other fiber runs between that look and the
// sleep.
void wait_on(const std::atomic<std::uint32_t>& word, std::uint32_t seen) noexcept {
  const sim::own_code scope;
  if (scope.running() == nullptr) return;
  sim::announce_system_call(*scope.running(), word);
  if (word.load() == seen) scope.running()->sleep_on(&word);
}

void wake_one(const std::atomic<std::uint32_t>& word) noexcept { sim::wake(word, false); }
void wake_all(const std::atomic<std::uint32_t>& word) noexcept { sim::wake(word, true); }

thread_local constinit std::uint32_t detail::slot_of_thread = max_thread_slots;

std::uint32_t detail::first_thread_slot() {
  const sim::own_code scope;
  return scope.allocating() != nullptr ? scope.allocating()->slot() : 0;
}

std::uint32_t detail::try_first_thread_slot() noexcept { return first_thread_slot(); }

std::uint32_t thread_slots_used() noexcept {
  const sim::own_code scope;
  return scope.allocating() != nullptr ? scope.allocating()->slots() : 1;
}

std::int32_t thread_slot_owner(std::uint32_t slot) noexcept { return static_cast<std::int32_t>(slot) + 1; }

// Simulated programs do not fork. A failed run leaves its objects undestroyed.
void fork_link::join(void*, recover_function) noexcept {}
void fork_link::leave() noexcept {}

// A fiber runs on no processor of the host; perhaps on one of a simulated machine.
std::optional<unsigned> current_cpu() noexcept {
  const sim::own_code scope;
  return scope.running() != nullptr ? scope.running()->cpu() : std::nullopt;
}

// The light side is then free, as on a machine with membarrier, and the heavy side bears the cost of both.
namespace detail {
const bool membarrier_works = true;
}

void fence_heavy() noexcept {
  const sim::own_code scope;
  if (scope.running() == nullptr) return;
  leave_transaction(*scope.running());
  scope.running()->fence_all();
}

const char* asymmetric_fence_kind() noexcept { return "membarrier"; }

page_run::page_run(page_run&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      huge_advised_(std::exchange(other.huge_advised_, false)),
      bound_numa_node_(std::exchange(other.bound_numa_node_, std::nullopt)) {}

page_run& page_run::operator=(page_run&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(huge_advised_, other.huge_advised_);
  std::swap(bound_numa_node_, other.bound_numa_node_);
  return *this;
}

page_run::~page_run() {
  const sim::own_code scope;
  if (data_ == nullptr) return;
  if (!sim::arena::contains(std::bit_cast<std::uintptr_t>(data_)))
    std::free(data_);
  else if (scope.allocating() != nullptr)
    sim::unmap(scope, data_, size_);
}

void page_run::refuse_huge(std::size_t from) noexcept {
  if (from == 0) huge_advised_ = false;
}

std::size_t page_size() noexcept { return 4096; }
/// They keep their contents, which no caller reads again.
bool discard_pages(std::byte*, std::size_t) noexcept { return true; }
void request_pages(std::byte*, std::size_t) noexcept {}
std::size_t huge_page_size() { return std::size_t{2} << 20U; }
std::string_view transparent_huge_pages() { return "madvise"; }

page_run map_pages(std::size_t bytes, const page_options& options) {
  if (bytes == 0) throw std::invalid_argument("0 bytes of pages were asked for; at least 1 is needed");
  const std::size_t unit = options.huge ? huge_page_size() : page_size();
  page_run run;
  const sim::own_code scope;
  if (scope.running() != nullptr) leave_transaction(*scope.running());
  run.size_ = (bytes + unit - 1) / unit * unit;
  if (scope.allocating() != nullptr) {
    run.data_ = static_cast<std::byte*>(scope.allocating()->memory->map(run.size_, unit));
    if (run.data_ != nullptr) {
      const unsigned node = options.numa_node.value_or(0);
      scope.allocating()->mapped(std::bit_cast<std::uintptr_t>(run.data_), run.size_, options.huge,
                                 options.numa_node ? &node : nullptr);
    }
  } else {
    run.data_ = static_cast<std::byte*>(std::aligned_alloc(unit, run.size_));
    if (run.data_ != nullptr) std::memset(run.data_, 0, run.size_);
  }
  if (run.data_ == nullptr) {
    run.size_ = 0;
    throw std::bad_alloc();
  }
  run.huge_advised_ = options.huge;
  run.bound_numa_node_ = options.numa_node;
  return run;
}

}  // namespace espalier::hw

/// The system has no random numbers, so that each run is like the others.
extern "C" ssize_t __wrap_getrandom(void*, std::size_t, unsigned) { return -1; }

// A fiber that used a runtime calls leave() itself.
void espalier::delegation::detail::leave_at_thread_end(live_runtime&) {}
void espalier::delegation::detail::forget_runtime(live_runtime&) noexcept {}
