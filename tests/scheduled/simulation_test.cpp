// Threads on a simulated machine: who goes on, where pages lie, what waiting costs, how programs end.

#include "sim/simulation/simulation.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include "espalier/hw/pages.hpp"
#include "espalier/hw/pause.hpp"
#include "espalier/hw/record.hpp"
#include "espalier/map/bst/ticket.hpp"
#include "espalier/workload/random.hpp"
#include "sim/machine/presets.hpp"
#include "sim/machine_fixture.hpp"
#include "sim/runtime/arena.hpp"
#include "sim/runtime/world.hpp"
#include "sim/transactions/simulated_htm.hpp"

namespace {

using namespace espalier;
using sim::phase_result;
using sim::pinning;
using sim::simulation;
using sim::tiny_spec;

struct alignas(sim::line_bytes) padded_word {
  std::atomic<std::uint64_t> value{0};
};

/// Made and destroyed in the simulation's memory.
template <class T>
class in_simulation {
 public:
  explicit in_simulation(simulation& s) : simulation_(s) {
    s.outside_time([this] { object_ = new T; });
  }
  in_simulation(const in_simulation&) = delete;
  in_simulation& operator=(const in_simulation&) = delete;
  ~in_simulation() {
    simulation_.outside_time([this] { delete object_; });
  }
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }

 private:
  simulation& simulation_;
  T* object_ = nullptr;
};

std::uint64_t simulated(const void* address) {
  return sim::arena::simulated(reinterpret_cast<std::uintptr_t>(address)).value();
}

// The same counts every time.

/// A map under updates by many, and all that was counted, as text.
std::string counts_of_a_map() {
  simulation s(sim::preset("e7_4850"), 30);
  in_simulation<ticket<std::uint64_t, std::uint64_t>> map(s);
  s.without_time([&](unsigned thread) {
    for (std::uint64_t i = 0; i < 20; ++i) map->insert(workload::mix64(thread * 20 + i) % 1000, i);
  });
  const phase_result r = s.run([&](unsigned thread) {
    workload::random_generator random(7, thread);
    for (unsigned i = 0; i < 60; ++i) {
      const std::uint64_t key = random.below(1000);
      switch (random.below(3)) {
        case 0:
          map->insert(key, i);
          break;
        case 1:
          map->erase(key);
          break;
        default:
          static_cast<void>(map->find(key));
      }
    }
  });
  std::string text = std::to_string(r.cycles);
  for (const sim::counts& c : r.by_thread) {
    for (const sim::counts_field& f : sim::counts_fields) text += ' ' + std::to_string(c.*f.value);
  }
  return text;
}

constexpr const char* child = "ESPALIER_SIMULATION_TEST_CHILD";

std::string counts_of_another_process() {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = std::string(child) + "=1 '" + self + "' --gtest_filter='*every_process'";
  std::FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) return "it does not start";
  std::string text;
  std::array<char, 4096> part{};
  while (std::fgets(part.data(), part.size(), output) != nullptr) text += part.data();
  pclose(output);
  const std::size_t begin = text.find("counts: ");
  return begin == std::string::npos ? text : text.substr(begin + 8, text.find('\n', begin) - begin - 8);
}

TEST(simulation, counts_are_the_same_in_every_process) {
  const std::string here = counts_of_a_map();
  if (std::getenv(child) != nullptr) {
    std::printf("counts: %s\n", here.c_str());
    return;
  }
  EXPECT_EQ(counts_of_a_map(), here);
  // Other processes have their libraries and their stacks elsewhere.
  EXPECT_EQ(counts_of_another_process(), here);
  EXPECT_EQ(counts_of_another_process(), here);
}

// Lines between sockets.

TEST(simulation, a_line_that_two_sockets_hand_back_and_forth) {
  constexpr std::uint64_t turns = 500;
  simulation s(tiny_spec(), 2, pinning::scatter);
  ASSERT_NE(s.socket_of(0), s.socket_of(1));
  in_simulation<padded_word> turn(s);
  const auto play = [&](unsigned me) {
    for (std::uint64_t i = 0; i < turns; ++i) {
      while (turn->value.load(std::memory_order_acquire) != me) hw::cpu_relax();
      turn->value.store(1 - me, std::memory_order_release);
    }
  };
  s.run(play);
  const phase_result warm = s.run(play);
  const sim::counts all = warm.total();
  EXPECT_EQ(turn->value, 0U);
  EXPECT_EQ(all.writes, 2 * turns);
  // Each store takes the line from the one who waits for it, and he fetches it back.
  EXPECT_NEAR(static_cast<double>(all.remote_transfers), 2 * turns, 2);
  EXPECT_NEAR(static_cast<double>(all.upgrades), 2 * turns, 2);
  EXPECT_NEAR(static_cast<double>(all.remote_invalidations), 2 * turns, 2);
  EXPECT_EQ(all.local_transfers + all.local_dram + all.remote_dram, 0U);
  // Whoever waits sleeps: few reads in vain.
  EXPECT_LE(all.reads, 8 * turns);
  EXPECT_GE(warm.cycles, 2 * turns * (tiny_spec().latency.remote_transfer));
}

TEST(simulation, additions_from_two_sockets_take_the_line_each_time) {
  constexpr std::uint64_t each = 400;
  const auto transfers = [](pinning order) {
    simulation s(tiny_spec(), 2, order);
    in_simulation<padded_word> sum(s);
    const phase_result r = s.run([&](unsigned) {
      for (std::uint64_t i = 0; i < each; ++i) sum->value.fetch_add(1);
    });
    EXPECT_EQ(sum->value, 2 * each);
    EXPECT_EQ(r.total().atomics, 2 * each);
    return r.total();
  };
  const sim::counts apart = transfers(pinning::scatter);
  EXPECT_EQ(apart.remote_transfers, 2 * each - 1);  // all but the very first
  EXPECT_EQ(apart.local_transfers, 0U);
  const sim::counts together = transfers(pinning::smt_last);
  EXPECT_EQ(together.local_transfers, 2 * each - 1);
  EXPECT_EQ(together.remote_transfers, 0U);
  EXPECT_LT(together.cycles, apart.cycles);
}

// Pages.

TEST(simulation, pages_lie_where_they_are_touched_first_without_time) {
  constexpr std::size_t pages = 8;
  simulation s(tiny_spec(), 2, pinning::scatter);
  std::optional<hw::page_run> memory[2];
  s.outside_time([&] {
    for (auto& m : memory) m.emplace(hw::map_pages(pages * sim::page_bytes));
  });
  const auto read_all = [&](unsigned whose) {
    for (std::size_t at = 0; at < pages * sim::page_bytes; at += sim::page_bytes)
      static_cast<void>(reinterpret_cast<std::atomic<int>*>(memory[whose]->data() + at)->load());
  };
  s.without_time([&](unsigned me) { read_all(me); });
  for (unsigned i = 0; i < 2; ++i)
    EXPECT_EQ(s.machine().home_of(simulated(memory[i]->data())), s.socket_of(i));
  EXPECT_EQ(s.machine().total().accesses, 0U);

  const sim::counts other = s.run([&](unsigned me) { read_all(1 - me); }).total();
  EXPECT_EQ(other.remote_dram, 2 * pages);
  EXPECT_LT(other.local_dram, pages);  // the threads' stacks

  // New pages at the same addresses lie elsewhere.
  const std::byte* const address = memory[1]->data();
  s.outside_time([&] {
    memory[1].reset();
    memory[1].emplace(hw::map_pages(pages * sim::page_bytes));
  });
  ASSERT_EQ(memory[1]->data(), address);
  EXPECT_EQ(s.machine().home_of(simulated(address)), std::nullopt);
  s.without_time([&](unsigned me) {
    if (me == 0) read_all(1);
  });
  EXPECT_EQ(s.machine().home_of(simulated(address)), s.socket_of(0));
  s.outside_time([&] {
    for (auto& m : memory) m.reset();
  });
}

std::uint64_t walks(bool huge, bool given = true) {
  constexpr std::size_t pages = 512;
  simulation s(tiny_spec(), 1);
  s.give_huge_pages(given);
  std::optional<hw::page_run> memory;
  s.outside_time([&] { memory.emplace(hw::map_pages(pages * sim::page_bytes, {.huge = huge})); });
  const phase_result r = s.run([&](unsigned) {
    for (std::size_t at = 0; at < pages * sim::page_bytes; at += sim::page_bytes)
      static_cast<void>(reinterpret_cast<std::atomic<int>*>(memory->data() + at)->load());
  });
  EXPECT_EQ(r.total().reads, pages);
  s.outside_time([&] { memory.reset(); });
  return r.total().page_walks;
}

TEST(simulation, huge_pages_are_walked_once) {
  EXPECT_EQ(walks(false), 512U);
  EXPECT_EQ(walks(true), 1U);
  EXPECT_EQ(walks(true, false), 512U);
}

// The simulator's own code.

/// In whatever executable or library it is: main() measures and collects results inside of threads.
TEST(simulation, own_code_of_a_program_is_not_simulated) {
  simulation s(tiny_spec(), 1);
  in_simulation<padded_word> word(s);
  std::array<bool, 3> in_the_arena{};
  const auto allocates_in_the_arena = [] {
    void* const block = ::operator new(100);
    const bool contained = sim::arena::contains(reinterpret_cast<std::uintptr_t>(block));
    ::operator delete(block);
    return contained;
  };
  const phase_result r = s.run([&](unsigned) {
    word->value.fetch_add(1);
    in_the_arena[0] = allocates_in_the_arena();
    {
      const sim::own_code scope;
      EXPECT_EQ(scope.running(), &s);
      EXPECT_EQ(scope.allocating(), &s);
      for (unsigned i = 0; i < 100; ++i) word->value.fetch_add(1);
      in_the_arena[1] = allocates_in_the_arena();
    }
    word->value.fetch_add(1);
    in_the_arena[2] = allocates_in_the_arena();
  });
  EXPECT_EQ(r.total().atomics, 2U);
  EXPECT_EQ(in_the_arena, (std::array{true, false, true}));
}

// Transactions.

struct alignas(sim::line_bytes) two_records {
  std::uint64_t counted = 0;
  std::uint64_t shared = 0;
  two_records() {
    hw::annotate_record(&counted, sizeof(counted));
    hw::annotate_metadata(&shared, sizeof(shared));
  }
};

/// What the program said before it ran still holds in its second phase.
TEST(simulation, records_are_records_in_every_phase) {
  simulation s(sim::preset("i7_4770"), 2);
  in_simulation<two_records> words(s);
  const auto additions = [&](unsigned) {
    for (unsigned i = 0; i < 200; ++i)
      static_cast<void>(sim::simulated_htm::run([&]() noexcept { ++words->shared; }));
  };
  for (unsigned phase = 0; phase < 2; ++phase) {
    const sim::transaction_counts counted = s.run(additions).transactions;
    EXPECT_GT(counted.of(sim::abort_reason::metadata), 0U) << phase;
    EXPECT_EQ(counted.of(sim::abort_reason::metadata), counted.aborted()) << phase;
    EXPECT_EQ(counted.begun, 400U) << phase;
  }
}

// Waiting.

struct signal_lines {
  padded_word flag;
  padded_word work[64];
};

TEST(simulation, a_waiting_thread_wakes_after_the_store_that_it_waits_for) {
  simulation s(tiny_spec(), 3);
  in_simulation<signal_lines> shared(s);
  std::array<std::uint64_t, 3> clock{};
  const phase_result r = s.run([&](unsigned me) {
    if (me == 2) {
      // Long enough for many thousand turns of the others' loops.
      for (unsigned round = 0; round < 2000; ++round) {
        for (padded_word& w : shared->work) w.value.fetch_add(1);
      }
      clock[me] = s.clock();
      shared->flag.value.store(1, std::memory_order_release);
    } else {
      while (shared->flag.value.load(std::memory_order_acquire) == 0) hw::cpu_relax();
      clock[me] = s.clock();
    }
  });
  ASSERT_GT(clock[2], 1'000'000U);
  constexpr std::uint64_t soon = 1000;
  for (const unsigned me : {0U, 1U}) {
    EXPECT_GE(clock[me], clock[2]);
    EXPECT_LE(clock[me], clock[2] + soon);
    EXPECT_LE(r.by_thread[me].accesses, 50U);
  }
}

/// Loops that wait for something that no access shows, and so would never be woken by one.
TEST(simulation, threads_that_all_sleep_are_woken) {
  simulation s(tiny_spec(), 2);
  in_simulation<padded_word> line(s);
  std::array<unsigned, 2> turns{};  // on main's stack: no part of the simulated memory
  s.run([&](unsigned me) {
    while (turns[0] + turns[1] < 200) {
      ++turns[me];
      static_cast<void>(line->value.load());
      hw::cpu_relax();
    }
  });
  EXPECT_GE(turns[0] + turns[1], 200U);

  // And where the last one that was awake has ended.
  bool over = false;
  s.run([&](unsigned me) {
    if (me == 1) {
      for (unsigned i = 0; i < 10'000; ++i) static_cast<void>(line->value.load());
      over = true;
    } else {
      while (!over) {
        static_cast<void>(line->value.load());
        hw::cpu_relax();
      }
    }
  });
  EXPECT_TRUE(over);
}

// Ends.

TEST(simulation, a_wrong_free_is_an_exception) {
  constexpr std::size_t large = 1 << 20;
  simulation s(tiny_spec(), 2);
  try {
    s.run([](unsigned me) {
      if (me == 0) return;
      void* const block = ::operator new(large);
      void* volatile again = block;
      ::operator delete(block);
      ::operator delete(again);
    });
    ADD_FAILURE() << "a block was freed twice, and nobody said so";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "the simulated program: an address that no allocation returned is freed");
  }
  // The next phase is not disturbed.
  std::array<bool, 2> ran{};
  s.run([&](unsigned me) { ran[me] = true; });
  EXPECT_TRUE(ran[0] && ran[1]);
}

TEST(simulation, an_exception_of_a_thread_comes_back) {
  simulation s(tiny_spec(), 2);
  try {
    s.without_time([](unsigned me) {
      if (me == 1) throw std::runtime_error("no such key");
    });
    ADD_FAILURE() << "the exception was lost";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("no such key"), std::string::npos) << e.what();
  }
}

TEST(simulation, machines_have_so_many_threads_and_no_more) {
  for (const unsigned threads : {0U, 5U}) {
    try {
      const simulation s(tiny_spec(), threads);
      ADD_FAILURE() << threads << " threads were accepted";
    } catch (const std::invalid_argument& e) {
      EXPECT_EQ(std::string(e.what()),
                "the machine tiny runs 1 to 4 threads, not " + std::to_string(threads));
    }
  }
  EXPECT_EQ(simulation(tiny_spec(), 4).threads(), 4U);
}

}  // namespace
