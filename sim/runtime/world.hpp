#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sim/memory/heap.hpp"
#include "sim/memory/store_buffers.hpp"
#include "sim/memory/weak_memory.hpp"
#include "sim/runtime/access.hpp"

namespace espalier::sim {

class transactions;

enum class transaction_step : std::uint8_t { begin, commit, abort };

/// What stands behind the callbacks while a simulated program runs. One at a time.
///
/// The program is ordinary code, compiled with the thread sanitizer's instrumentation and linked with our
/// callbacks instead of its runtime. Each access is announced before it happens; the world may let other
/// fibers run first, take note, or stop the program.
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
  /// cpu_relax() or park(): the running fiber cannot go on by itself.
  virtual void wait(bool long_wait) = 0;
  /// Whether this fiber, or main, is one thread of the program; its slot, and how many there are.
  [[nodiscard]] virtual std::uint32_t slot() const noexcept = 0;
  [[nodiscard]] virtual std::uint32_t slots() const noexcept = 0;
  /// The running fiber is about to free a block of `memory`: as a write to all of it.
  virtual void before_free(const void* /*block*/) {}
  /// The heap has refused something, or the program itself found a fault: does not return from a fiber.
  virtual void fault(const char* what, const block_record* block) = 0;
  /// An event for a block's history.
  [[nodiscard]] virtual block_event event() const noexcept = 0;
  /// A position in the one order in which everything here happens; each call gives a later one.
  [[nodiscard]] virtual std::uint64_t moment() noexcept = 0;
  /// The moment of the running fiber's first access since forget_first_step(); 0 where there was none, and
  /// in a world that does not keep it.
  [[nodiscard]] virtual std::uint64_t first_step() const noexcept { return 0; }
  virtual void forget_first_step() noexcept {}
  /// The running fiber returns from an operation whose effects every operation that begins later must see.
  virtual void operation_ends(bool /*changed*/) {}
  /// The running fiber is about to begin a transaction, or to commit one; or it has just gone back to where an
  /// aborted one began. Before a begin the world lets the fiber's buffered stores be seen; like before(), it
  /// may let others run first. `where` is in the program.
  virtual void step(transaction_step /*what*/, const void* /*where*/) {}
  /// Pages that the program mapped: where machines differ in pages and homes.
  virtual void mapped(std::uintptr_t, std::size_t, bool /*huge*/, const unsigned* /*numa_node*/) {}

  /// Null where stores are seen by all at once.
  store_buffers* buffers = nullptr;
  /// Null where loads see the newest store.
  weak_memory* weak = nullptr;
  sim::heap* memory = nullptr;
  /// Null on a machine without transactions.
  transactions* transactional = nullptr;

  /// Frees a block of `memory`, or faults.
  void deallocate(void* block, const block_event& by);

 protected:
  ~world() = default;
};

/// Which world there is, and whether the program's own code is running in it now. Callbacks and operator new
/// look here; the simulator's own code runs with both switched off.
struct presence {
  /// Set while instrumented accesses are to be announced: in fibers.
  world* running = nullptr;
  /// Set while memory comes from the simulated heap: in fibers, and while a scene is set up or taken down.
  world* allocating = nullptr;
};
/// The simulator's alone: a program that named it would have a copy of its own, which nobody looks at.
[[gnu::visibility("hidden")]] extern constinit presence here;

/// The simulator's own code, called by the program. Not inline, so that it is the simulator's switches that
/// are thrown, whoever throws them; so is program_code.
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

/// The program's code, called by the simulator.
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
