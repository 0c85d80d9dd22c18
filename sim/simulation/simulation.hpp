#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/machine/machine.hpp"
#include "sim/machine/machine_spec.hpp"
#include "sim/memory/heap.hpp"
#include "sim/runtime/fibers.hpp"
#include "sim/runtime/spend.hpp"
#include "sim/runtime/world.hpp"
#include "sim/transactions/transaction_counts.hpp"
#include "sim/transactions/transactions.hpp"

namespace espalier::sim {

/// Finds the thread with the lowest clock; of equal ones the lowest number. A tournament tree: changing a clock takes
/// O(log threads).
class clock_queue {
 public:
  /// Orders threads by clock, then by number.
  using rank = std::uint64_t;
  static constexpr unsigned number_bits = 10;
  static constexpr rank never = ~rank{0};
  static constexpr unsigned thread_of(rank r) noexcept {
    return static_cast<unsigned>(r & ((1U << number_bits) - 1));
  }
  static constexpr rank rank_of(std::uint64_t clock, unsigned thread) noexcept {
    return clock << number_bits | thread;
  }

  explicit clock_queue(unsigned threads)
      : leaves_(std::bit_ceil(threads)), tree_(std::size_t{2} * leaves_, never) {}

  void set(unsigned thread, rank r) noexcept {
    std::size_t at = leaves_ + thread;
    tree_[at] = r;
    for (at /= 2; at != 0; at /= 2)
      tree_[at] = tree_[2 * at] < tree_[2 * at + 1] ? tree_[2 * at] : tree_[2 * at + 1];
  }
  void remove(unsigned thread) noexcept { set(thread, never); }

  /// never, if there is none.
  [[nodiscard]] rank lowest() const noexcept { return tree_[1]; }

 private:
  std::size_t leaves_;
  std::vector<rank> tree_;
};

/// The result of a phase of a simulation.
struct phase_result {
  std::vector<counts> by_thread;
  /// Of all threads together, by the part of the program (sim/runtime/spend.hpp).
  std::array<counts, most_parts> by_part;
  /// In cycles of the core, from the start of the phase, which all threads share, to the end of the last thread.
  std::uint64_t cycles = 0;
  /// All 0 on a machine without transactions.
  transaction_counts transactions;

  [[nodiscard]] counts total() const noexcept;
};

/// A program of many threads on a simulated machine. At each access the thread with the lowest clock continues, so that
/// the order of events is that of the machine's time. The same program, machine and number of threads give exactly the
/// same counts in every process.
///
/// The cost of computation is an estimate of a few cycles per access: the model is about the memory.
class simulation final : public world {
 public:
  /// Thread i of the program runs on the i-th hardware thread in the given order. Throws std::invalid_argument if the
  /// machine has fewer.
  simulation(const machine_spec& spec, unsigned threads, pinning order = pinning::smt_last);
  simulation(const simulation&) = delete;
  simulation& operator=(const simulation&) = delete;
  ~simulation();

  /// Runs the program's code with its memory, on no thread, in no time.
  void outside_time(const std::function<void()>& code);

  /// Every thread runs the code, with its number. Takes no time and does not affect the caches. Pages are placed at
  /// their first thread.
  void without_time(const std::function<void(unsigned)>& code);

  /// As without_time(), but the caches and the TLBs get what the threads access, in long turns of one thread after the other.
  /// Costs a fraction of what run() does.
  void warm(const std::function<void(unsigned)>& code);

  /// Every thread runs the code, all starting at the same moment.
  phase_result run(const std::function<void(unsigned)>& code);

  /// Is told of each access that takes time or warms, after it: its thread, its address in the program, and what it has counted,
  /// which is nothing of one that warms. It must not call the simulation.
  using access_observer = std::function<void(unsigned thread, const access& a, const counts& of_it)>;
  void observe(access_observer told) { observer_ = std::move(told); }

  /// Whether the machine's system grants requests for huge pages. Initially it does.
  void set_huge_pages(bool given) noexcept { huge_pages_ = given; }

  [[nodiscard]] unsigned threads() const noexcept { return static_cast<unsigned>(clock_.size()); }
  [[nodiscard]] const machine_spec& spec() const noexcept { return machine_.spec(); }
  [[nodiscard]] const sim::machine& machine() const noexcept { return machine_; }
  [[nodiscard]] unsigned socket_of(unsigned thread) const noexcept {
    return machine_.socket_of(hardware_thread_[thread]);
  }
  /// The running thread's clock.
  [[nodiscard]] std::uint64_t clock() const noexcept { return clock_[fibers_.current()]; }

  // Called by the program.
  void before(const access& a) override;
  void fence(std::memory_order order) override;
  void wait(bool long_wait) override;
  /// As a loop that reads a clock: another thread of the core does not make it longer.
  void spend(std::uint64_t cycles) override;
  unsigned count_in(unsigned part) override;
  [[nodiscard]] bool mutexes_sleep() const noexcept override { return timed_; }
  void sleep_on(const void* word) override;
  void wake_sleepers(const void* word, bool all) override;
  [[nodiscard]] std::optional<unsigned> cpu() const noexcept override {
    return hardware_thread_[fibers_.current()];
  }
  void step(transaction_step what, const void* where) override;
  [[nodiscard]] std::uint32_t slot() const noexcept override;
  [[nodiscard]] std::uint32_t slots() const noexcept override { return threads() + 1; }
  void fault(const char* what, const block_record* block) override;
  [[nodiscard]] block_event event() const noexcept override;
  [[nodiscard]] std::uint64_t moment() noexcept override { return ++moments_; }
  void mapped(std::uintptr_t address, std::size_t bytes, bool huge, const unsigned* numa_node) override;

 private:
  /// What a thread has done since it last said that it waits. A loop that only reads the same few lines, again and
  /// again in the same time, changes nothing until a thread writes one of them. The spinning thread sleeps until then.
  /// Its clock advances. The reads of the skipped iterations, all of them hits, are not counted, and a loop that counts
  /// its iterations has made fewer.
  struct spin {
    static constexpr std::size_t most_lines = 2;
    std::array<std::uint64_t, most_lines> lines{};
    std::size_t line_count = 0;
    bool reads_only = true;
    std::uint64_t since = 0;   // when it began
    std::uint64_t period = 0;  // of the previous iteration, if it was like this one; else 0

    void note(std::uint64_t line) noexcept;
  };

  /// After an iteration of a waiting loop: whether the following ones will be the same.
  static bool goes_round(spin& turn, std::uint64_t now) noexcept;
  void sleep();
  void wake_readers_of(std::uint64_t line, std::uint64_t when);
  void wake(unsigned thread, std::uint64_t when);
  /// Removes the next thread from the queue and returns it. If all sleep, they are woken first, because they do not
  /// wait for memory.
  unsigned take_next();

  void run_fibers(const std::function<void(unsigned)>& code, unsigned first);
  unsigned finished(unsigned id);
  void go_on_in_turn();
  void yield_to_others();
  void touch_page(std::uint64_t where);
  /// The access, of a few lines, in simulated time. It has this simulated address.
  void timed(const access& a, std::uint64_t where);
  /// Aborts the transactions that had written lines which the last access displaced.
  void abort_displaced();

  sim::machine machine_;
  std::vector<unsigned> hardware_thread_;
  sim::heap heap_;
  sim::transactions transactions_{*this};
  sim::fibers fibers_;
  clock_queue queue_;
  std::vector<std::uint64_t> clock_;
  /// The running thread continues while its rank is at most this, the lowest of all others.
  clock_queue::rank others_ = clock_queue::never;
  std::uint64_t moments_ = 0;
  std::vector<spin> spins_;
  /// A thread's part of the program, and its counts when that began.
  struct part_of_program {
    unsigned number = 0;
    counts before{};
  };
  std::vector<part_of_program> parts_;
  std::array<counts, most_parts> by_part_;
  access_observer observer_;
  std::vector<unsigned> sleepers_;
  /// The threads in sleep_on(), the earliest first: they are in neither the queue nor sleepers_.
  struct blocked {
    unsigned thread;
    const void* word;
  };
  std::vector<blocked> blocked_;

  bool timed_ = false;
  bool warms_ = false;
  bool huge_pages_ = true;
  // Without time, threads take turns of a fixed number of accesses.
  std::uint64_t turn_left_ = 0;
  std::vector<bool> ended_;
  std::vector<bool> page_touched_;
  std::string failure_;
};

}  // namespace espalier::sim
