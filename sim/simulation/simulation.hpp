#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/machine/machine.hpp"
#include "sim/machine/thread_order.hpp"
#include "sim/memory/heap.hpp"
#include "sim/runtime/fibers.hpp"
#include "sim/runtime/world.hpp"
#include "sim/simulation/clock_queue.hpp"
#include "sim/transactions/transaction_counts.hpp"
#include "sim/transactions/transactions.hpp"

namespace espalier::sim {

/// What a phase of a simulation took.
struct phase_result {
  std::vector<counts> by_thread;
  /// From the start of the phase, which is common to all, to the end of the last thread; of the core.
  std::uint64_t cycles = 0;
  /// All 0 on a machine without transactions.
  transaction_counts transactions;

  [[nodiscard]] counts total() const noexcept;
};

/// A program of many threads on a simulated machine. At each access the thread with the lowest clock is the
/// one that goes on, so that the order of events is that of the machine's time. The same program, machine and
/// number of threads give the same counts, to the last one, in every process.
///
/// What computation costs is guessed, a few cycles for each access to memory: the model is about the memory.
class simulation final : public world {
 public:
  /// Thread i of the program runs on the i-th hardware thread in the order given. Throws
  /// std::invalid_argument where the machine has fewer.
  simulation(const machine_spec& spec, unsigned threads, pinning order = pinning::smt_last);
  simulation(const simulation&) = delete;
  simulation& operator=(const simulation&) = delete;
  ~simulation();

  /// The program's code with its memory, on no thread, in no time.
  void outside_time(const std::function<void()>& code);

  /// Every thread runs the code, with its number. Takes no time and leaves the caches alone; pages come to
  /// lie where their first thread is.
  void without_time(const std::function<void(unsigned)>& code);

  /// Every thread runs the code, from the same moment on.
  phase_result run(const std::function<void(unsigned)>& code);

  /// Whether the machine's system gives huge pages to who asks for them. It does at first.
  void give_huge_pages(bool given) noexcept { gives_huge_pages_ = given; }

  [[nodiscard]] unsigned threads() const noexcept { return static_cast<unsigned>(clock_.size()); }
  [[nodiscard]] const machine_spec& spec() const noexcept { return machine_.spec(); }
  [[nodiscard]] const sim::machine& machine() const noexcept { return machine_; }
  [[nodiscard]] unsigned socket_of(unsigned thread) const noexcept {
    return machine_.socket_of(hardware_thread_[thread]);
  }
  /// The running thread's clock.
  [[nodiscard]] std::uint64_t clock() const noexcept { return clock_[fibers_.current()]; }

  // What the program calls.
  void before(const access& a) override;
  void fence(std::memory_order order) override;
  void wait(bool long_wait) override;
  void step(transaction_step what, const void* where) override;
  [[nodiscard]] std::uint32_t slot() const noexcept override;
  [[nodiscard]] std::uint32_t slots() const noexcept override { return threads() + 1; }
  void fault(const char* what, const block_record* block) override;
  [[nodiscard]] block_event event() const noexcept override;
  [[nodiscard]] std::uint64_t moment() noexcept override { return ++moments_; }
  void mapped(std::uintptr_t address, std::size_t bytes, bool huge, const unsigned* numa_node) override;

 private:
  /// What a thread has done since it last said that it waits. A loop that only reads the same few lines, again
  /// and again in the same time, changes nothing until somebody writes one of them: such a thread sleeps
  /// until then. Its clock goes on; the reads of the turns that are left out, all of them hits, are not
  /// counted, and a loop that counts its turns has made fewer.
  struct spin {
    static constexpr std::size_t most_lines = 2;
    std::array<std::uint64_t, most_lines> lines{};
    std::size_t line_count = 0;
    bool reads_only = true;
    std::uint64_t since = 0;   // when it began
    std::uint64_t period = 0;  // of the turn before, which was like this one; 0 for unlike

    void note(std::uint64_t line) noexcept;
  };

  /// After a turn of a loop that waits: whether the next ones will all be the same.
  static bool goes_round(spin& turn, std::uint64_t now) noexcept;
  void sleep();
  void wake_readers_of(std::uint64_t line, std::uint64_t when);
  void wake(unsigned thread, std::uint64_t when);
  /// The next in the queue, taken out. Where all sleep, they are woken first: what they wait for is not
  /// memory.
  unsigned take_next();

  void run_fibers(const std::function<void(unsigned)>& code, unsigned first);
  unsigned finished(unsigned id);
  void go_on_in_turn();
  void give_way();
  void touch_page(std::uint64_t where);
  /// Aborts the transactions whose written lines the last access displaced.
  void give_up_displaced();

  sim::machine machine_;
  std::vector<unsigned> hardware_thread_;
  sim::heap heap_;
  sim::transactions transactions_{*this};
  sim::fibers fibers_;
  clock_queue queue_;
  std::vector<std::uint64_t> clock_;
  /// The running thread goes on while its rank is not above this: the lowest of all others.
  clock_queue::rank others_ = clock_queue::never;
  std::uint64_t moments_ = 0;
  std::vector<spin> spins_;
  std::vector<unsigned> sleepers_;

  bool timed_ = false;
  bool gives_huge_pages_ = true;
  // Without time: threads take turns of so many accesses.
  std::uint64_t turn_left_ = 0;
  std::vector<bool> ended_;
  std::vector<bool> page_touched_;
  std::string failure_;
};

}  // namespace espalier::sim
