#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "sim/memory/heap.hpp"
#include "sim/memory/store_buffers.hpp"
#include "sim/memory/weak_memory.hpp"
#include "sim/runtime/access.hpp"

namespace espalier::sim {

class transactions;

enum class transaction_step : std::uint8_t { begin, commit, abort };

/// Receives the callbacks while a simulated program runs. There is one world at a time.
///
/// The program is ordinary code, compiled with the thread sanitizer's instrumentation and linked with these callbacks
/// instead of its runtime. Each access is announced before it happens. The world may let other fibers run first, record
/// the access, or stop the program.
class world {
 public:
  world() = default;
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  /// The running fiber is about to do this. Returns when it may.
  virtual void before(const access& a) = 0;
  /// A fence of the running fiber.
  virtual void fence(std::memory_order order) = 0;
  /// A fence in every thread (membarrier).
  virtual void fence_all() { fence(std::memory_order_seq_cst); }
  /// cpu_relax() or park(): the running fiber cannot continue by itself.
  virtual void wait(bool long_wait) = 0;
  /// The running fiber computes, without an access to memory.
  virtual void spend(std::uint64_t /*cycles*/) {}
  /// The running fiber is in another part of the program (sim/runtime/spend.hpp). Returns the former one.
  virtual unsigned count_in(unsigned /*part*/) { return 0; }
  /// The running fiber sleeps until another fiber calls wake_sleepers() for the word. It may return earlier.
  virtual void sleep_on(const void* /*word*/) { wait(true); }
  /// Whether a fiber that waits for a mutex sleeps, as in the kernel; otherwise it looks again and again.
  [[nodiscard]] virtual bool mutexes_sleep() const noexcept { return false; }
  /// Wakes one fiber that sleeps on the word, or all.
  virtual void wake_sleepers(const void* /*word*/, bool /*all*/) {}
  /// The simulated hardware thread on which the running fiber runs, if there is such a thing.
  [[nodiscard]] virtual std::optional<unsigned> cpu() const noexcept { return std::nullopt; }
  /// The slot of this fiber, or of main, as one thread of the program; and the number of slots.
  [[nodiscard]] virtual std::uint32_t slot() const noexcept = 0;
  [[nodiscard]] virtual std::uint32_t slots() const noexcept = 0;
  /// The running fiber is about to free a block of `memory`, which counts as a write to all of it.
  virtual void before_free(const void* /*block*/) {}
  /// The heap has rejected an action, or the program itself found a fault. Does not return from a fiber.
  virtual void fault(const char* what, const block_record* block) = 0;
  /// An event for a block's history.
  [[nodiscard]] virtual block_event event() const noexcept = 0;
  /// A position in the single order of all events; each call returns a later one.
  [[nodiscard]] virtual std::uint64_t moment() noexcept = 0;
  /// The moment of the running fiber's first access since forget_first_step(). 0 if there was none, and in a world that
  /// does not record it.
  [[nodiscard]] virtual std::uint64_t first_step() const noexcept { return 0; }
  virtual void forget_first_step() noexcept {}
  /// The running fiber returns from an operation. Every operation that begins later must see its effects.
  virtual void operation_ends(bool /*changed*/) {}
  /// The running fiber is about to begin or commit a transaction, or has just returned to the beginning of an aborted
  /// one. Before a begin the world makes the fiber's buffered stores visible. Like before(), it may let others run
  /// first. `where` is in the program.
  virtual void step(transaction_step /*what*/, const void* /*where*/) {}
  /// The program mapped these pages; machines differ in pages and homes.
  virtual void mapped(std::uintptr_t, std::size_t, bool /*huge*/, const unsigned* /*numa_node*/) {}

  /// Null if all fibers see a store at once.
  store_buffers* buffers = nullptr;
  /// Null if loads see the newest store.
  weak_memory* weak = nullptr;
  sim::heap* memory = nullptr;
  /// Null on a machine without transactions.
  transactions* transactional = nullptr;

  /// Frees a block of `memory`, or faults.
  void deallocate(void* block, const block_event& by);

 protected:
  ~world() = default;
};

/// Which world exists, and whether the program's own code is running in it now. Callbacks and operator new read it. The
/// simulator's own code runs with both pointers null.
struct presence {
  /// Set while instrumented accesses are to be announced: in fibers.
  world* running = nullptr;
  /// Set while memory comes from the simulated heap: in fibers, and while a scene is set up or taken down.
  world* allocating = nullptr;
};
/// Private to the simulator. A program that named it would have a separate copy, which the simulator never reads.
[[gnu::visibility("hidden")]] extern constinit presence here;

/// A scope of the simulator's own code, called by the program. Not inline, so that every caller sets the simulator's
/// copy of `here`. The same holds for program_code.
class own_code {
 public:
  own_code() noexcept;
  own_code(const own_code&) = delete;
  own_code& operator=(const own_code&) = delete;
  ~own_code();

  [[nodiscard]] world* running() const noexcept { return saved_.running; }
  [[nodiscard]] world* allocating() const noexcept { return saved_.allocating; }

 private:
  presence saved_;
};

/// A scope of the program's code, called by the simulator.
class program_code {
 public:
  program_code(world& w, bool announced) noexcept;
  program_code(const program_code&) = delete;
  program_code& operator=(const program_code&) = delete;
  ~program_code();

 private:
  presence saved_;
};

}  // namespace espalier::sim
