// Threads on a simulated machine: which one continues, where pages lie, the cost of waiting, how programs end.

#include "sim/simulation/simulation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "espalier/hw/affinity.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/hw/pause.hpp"
#include "espalier/hw/record.hpp"
#include "espalier/map/bst/ticket.hpp"
#include "espalier/measure/random.hpp"
#include "sim/machine/machine_spec.hpp"
#include "sim/machine/presets.hpp"
#include "sim/machine_fixture.hpp"
#include "sim/runtime/arena.hpp"
#include "sim/runtime/spend.hpp"
#include "sim/runtime/world.hpp"
#include "sim/transactions/simulated_htm.hpp"
#include "support/refusal.hpp"

namespace {

using namespace espalier;
using sim::phase_result;
using sim::pinning;
using sim::simulation;
using sim::tiny_spec;

struct alignas(sim::line_bytes) padded_word {
  std::atomic<std::uint64_t> value{0};
};

/// Constructed and destroyed in the simulation's memory.
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

// The same counts in every run.

/// A map under updates by many threads, and all counts, as text.
std::string counts_of_a_map() {
  simulation s(sim::preset("e7_4850"), 30);
  in_simulation<ticket<std::uint64_t, std::uint64_t>> map(s);
  s.without_time([&](unsigned thread) {
    for (std::uint64_t i = 0; i < 20; ++i) map->insert(measure::mix64(thread * 20 + i) % 1000, i);
  });
  const phase_result r = s.run([&](unsigned thread) {
    measure::random_generator random(7, thread);
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
  // Each store takes the line from the waiting thread, which fetches it back.
  EXPECT_NEAR(static_cast<double>(all.remote_transfers), 2 * turns, 2);
  EXPECT_NEAR(static_cast<double>(all.upgrades), 2 * turns, 2);
  EXPECT_NEAR(static_cast<double>(all.remote_invalidations), 2 * turns, 2);
  EXPECT_EQ(all.local_transfers + all.local_dram + all.remote_dram, 0U);
  // A waiting thread sleeps: few reads are in vain.
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

TEST(simulation, a_large_copy_lets_others_in_between) {
  constexpr std::size_t bytes = 64 * sim::line_bytes;
  struct alignas(64) memory {
    std::array<char, 8> before{};
    std::array<char, bytes> from{};
    padded_word other;
  };
  simulation s(tiny_spec(), 2, pinning::scatter);
  in_simulation<memory> all(s);
  const auto from = reinterpret_cast<std::uintptr_t>(all->from.data());
  std::vector<unsigned> turns;
  std::uint64_t told = 0;
  std::uint64_t lines = 0;
  s.observe([&](unsigned thread, const sim::access& a, const sim::counts& c) {
    turns.push_back(thread);
    if (a.address - from >= bytes) return;
    told += a.bytes;
    lines += c.reads;
  });
  std::array<char, bytes> to{};
  s.run([&](unsigned thread) {
    if (thread == 0) {
      std::memcpy(to.data(), all->from.data(), bytes);
    } else {
      for (int n = 0; n < 8; ++n) all->other.value.fetch_add(1);
    }
  });
  EXPECT_EQ(told, bytes);
  EXPECT_EQ(lines, 65U) << "it begins inside a line, and reads each once";
  EXPECT_EQ(turns.front(), 0U);
  EXPECT_EQ(turns.back(), 0U) << "the other one has ended long before";
}

// Pages.

TEST(simulation, warm_brings_what_each_thread_reads_into_its_caches_in_no_time) {
  constexpr unsigned threads = 20;  // two sockets
  struct alignas(64) line {
    std::uint64_t first = 0;
  };
  simulation s(sim::preset("e7_4850"), threads);
  in_simulation<std::array<std::array<line, 8>, threads>> lines(s);
  const auto reads = [&](unsigned which) {
    return [&lines, which](unsigned me) {
      static_cast<void>(*static_cast<const volatile std::uint64_t*>(&(*lines)[me][which].first));
    };
  };
  const auto in_l1 = [&](unsigned me, unsigned which) {
    return s.machine().l1_holds(me, simulated(&(*lines)[me][which].first));
  };
  s.warm(reads(0));
  s.without_time(reads(4));
  for (unsigned me = 0; me < threads; ++me) {
    EXPECT_TRUE(in_l1(me, 0)) << me;
    EXPECT_FALSE(in_l1(me, 4)) << me;
  }
  const phase_result again = s.run(reads(0));
  EXPECT_EQ(again.total().local_dram + again.total().remote_dram + again.total().stall_cycles, 0U);
  EXPECT_NE(s.run(reads(4)).total().stall_cycles, 0U);
}

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

  // New pages at the same addresses lie on another node.
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
  s.set_huge_pages(given);
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

/// In any executable or library: main() measures and collects results inside threads.
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

/// Annotations made before the first phase still hold in the second.
TEST(simulation, counts_of_parts_add_up_and_accesses_are_told) {
  simulation s(tiny_spec(), 2);
  in_simulation<std::array<padded_word, 8>> words(s);
  std::vector<std::pair<unsigned, std::uintptr_t>> told;
  sim::counts of_told;
  s.observe([&](unsigned thread, const sim::access& a, const sim::counts& c) {
    told.emplace_back(thread, a.address);
    of_told += c;
  });
  const auto in_parts = [&](unsigned thread) {
    (*words)[thread].value.load();
    const unsigned former = sim::count_in(1);
    if (former != 0) std::abort();
    for (unsigned n = 2; n < 5; ++n) (*words)[n + thread].value.load();
    if (sim::count_in(former) != 1) std::abort();
    (*words)[thread].value.load();
  };
  s.without_time(in_parts);
  EXPECT_TRUE(told.empty()) << "no time";
  s.warm(in_parts);
  const std::pair of_second(1U, reinterpret_cast<std::uintptr_t>(&(*words)[1].value));
  EXPECT_EQ(std::count(told.begin(), told.end(), of_second), 2) << "what warms";
  EXPECT_EQ(of_told, sim::counts{}) << "nothing of it";
  for (int phase = 0; phase < 2; ++phase) {
    told.clear();
    of_told = {};
    const phase_result r = s.run(in_parts);
    EXPECT_EQ(r.by_part[0] + r.by_part[1], r.total());
    EXPECT_EQ(r.by_part[1].reads, 6U) << "of both threads, in this phase alone";
    EXPECT_EQ(of_told.accesses, r.total().accesses);
    EXPECT_EQ(of_told.stall_cycles, r.total().stall_cycles);
    EXPECT_EQ(told.size(), r.total().accesses);
    EXPECT_EQ(std::count(told.begin(), told.end(), of_second), 2);
  }
  s.observe({});
  s.run(in_parts);
  EXPECT_EQ(of_told.accesses, told.size()) << "no longer";
}

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

// What a transaction has written must stay in the L1, whatever else its core reads.

/// Lines for every set of an L1 of 64 sets, more than there are ways.
struct alignas(4096) cache_lines {
  static constexpr std::size_t rows = 40;
  struct line {
    volatile std::uint64_t word = 0;
    std::uint64_t rest[7];
  };
  std::array<std::array<line, 64>, rows> all{};
};

/// A set that contains none of a thread's own variables: half the cache away from them.
std::size_t quiet_set() {
  const volatile char local = 0;
  return (simulated(const_cast<const char*>(&local)) / sim::line_bytes + 32) % 64;
}

/// One transaction of one thread in a full cache. It writes the first line of a set and reads `others` more of the set.
/// If `hot`, it reads the second line before and after each of them; if `touched`, it also reads the written one.
struct transactional_reads {
  unsigned others = 0;
  bool hot = false;
  bool touched = false;
  std::size_t other_set = 0;
};

hw::transaction_outcome outcome_of(const sim::machine_spec& spec, const transactional_reads& reads) {
  simulation s(spec, 1);
  in_simulation<cache_lines> lines(s);
  hw::transaction_outcome outcome{};
  s.run([&, all = &lines->all](unsigned) {
    const std::size_t set = quiet_set();
    const std::size_t other = (set + reads.other_set) % 64;
    // The effect of a write to one line and a read of another depends on the order of earlier accesses: here, all
    // misses.
    for (std::size_t i = cache_lines::rows - 16; i < cache_lines::rows; ++i) {
      static_cast<void>((*all)[i][set].word);
      if (other != set) static_cast<void>((*all)[i][other].word);
    }
    const auto [others, hot, touched, unused] = reads;
    outcome = sim::simulated_htm::run([=]() noexcept {
      (*all)[0][set].word = 1;
      if (hot) static_cast<void>((*all)[1][other].word);
      for (std::size_t i = 2; i < 2 + others; ++i) {
        static_cast<void>((*all)[i][other].word);
        if (hot) static_cast<void>((*all)[1][other].word);
        if (touched) static_cast<void>((*all)[0][set].word);
      }
    });
    EXPECT_EQ((*all)[0][set].word, outcome.committed ? 1U : 0U);
  });
  return outcome;
}

constexpr unsigned most_tried = 20;
constexpr hw::transaction_outcome no_room{false, hw::abort_status{hw::abort_status::capacity_bit}};

/// How many other lines one may read, or the most that were tried.
unsigned most_others(const sim::machine_spec& spec, transactional_reads reads) {
  for (reads.others = 1; reads.others <= most_tried; ++reads.others) {
    const hw::transaction_outcome outcome = outcome_of(spec, reads);
    if (outcome.committed) continue;
    EXPECT_EQ(outcome, no_room);
    return reads.others - 1;
  }
  return most_tried;
}

TEST(simulation_transactions, reads_of_its_set_displace_what_one_has_written) {
  struct rule {
    const char* machine;
    unsigned tree_ways, alone, beside_a_hot_line;
  };
  // In a tree the hot line keeps the bits at its root turned away from it. So all other lines go where the written line
  // is: to its half of one tree, or to its tree and a third one.
  constexpr rule rules[] = {
      {"i7_4770", 1, 7, 6},
      {"i7_4770", 8, 7, 3},
      {"emerald_rapids", 1, 11, 10},
      {"emerald_rapids", 4, 11, 7},
  };
  for (const rule& r : rules) {
    SCOPED_TRACE(std::string(r.machine) + " in trees of " + std::to_string(r.tree_ways));
    sim::machine_spec spec = sim::preset(r.machine);
    spec.l1_tree_ways = r.tree_ways;
    spec.transactions->keeps_written = false;
    EXPECT_EQ(most_others(spec, {}), r.alone);
    EXPECT_EQ(most_others(spec, {.hot = true}), r.beside_a_hot_line);
    EXPECT_EQ(most_others(spec, {.touched = true}), most_tried) << "the latest used stays";
    EXPECT_EQ(most_others(spec, {.other_set = 1}), most_tried) << "of another set";
    spec.transactions->keeps_written = true;
    EXPECT_EQ(most_others(spec, {}), most_tried);
    EXPECT_EQ(most_others(spec, {.hot = true}), most_tried);
  }
}

TEST(simulation_transactions, what_one_has_read_may_leave_the_l1) {
  simulation s(sim::preset("i7_4770"), 1);
  in_simulation<cache_lines> lines(s);
  const phase_result r = s.run([&](unsigned) {
    const std::size_t set = quiet_set();
    auto* const all = &lines->all;
    EXPECT_TRUE(sim::simulated_htm::run([=]() noexcept {
                  for (std::size_t i = 0; i < cache_lines::rows; ++i) static_cast<void>((*all)[i][set].word);
                  (*all)[0][set].word = 1;
                }).committed);
    EXPECT_FALSE(s.machine().l1_holds(0, simulated(&(*all)[cache_lines::rows - 9][set])));
  });
  EXPECT_EQ(r.transactions.aborted(), 0U);
}

TEST(simulation_transactions, lines_of_ended_ones_are_lines_like_any_other) {
  for (const bool commits : {true, false}) {
    simulation s(sim::preset("i7_4770"), 1);
    in_simulation<cache_lines> lines(s);
    const phase_result r = s.run([&](unsigned) {
      const std::size_t set = quiet_set();
      auto* const all = &lines->all;
      EXPECT_EQ(sim::simulated_htm::run([=]() noexcept {
                  (*all)[0][set].word = 1;
                  return commits ? hw::transaction_verdict::commit()
                                 : hw::transaction_verdict::abort(hw::abort_code::user_1);
                }).committed,
                commits);
      // The next transaction evicts it, and has a line of its own to keep.
      EXPECT_TRUE(sim::simulated_htm::run([=]() noexcept {
                    for (std::size_t i = 1; i < 20; ++i) static_cast<void>((*all)[i][set].word);
                    (*all)[1][set].word = 1;
                  }).committed);
      EXPECT_FALSE(s.machine().l1_holds(0, simulated(&(*all)[0][set])));
    });
    EXPECT_EQ(r.transactions.of(sim::abort_reason::capacity), 0U);
  }
}

/// Hardware threads of one core share its L1; those of two cores do not.
TEST(simulation_transactions, a_thread_of_the_same_core_displaces_too) {
  for (const auto& [order, aborts] : {std::pair{pinning::compact, 1U}, std::pair{pinning::smt_last, 0U}}) {
    simulation s(sim::preset("i7_4770"), 2, order);
    in_simulation<cache_lines> lines(s);
    std::size_t set = 0;
    s.run([&](unsigned me) {
      if (me == 0) set = quiet_set();
    });
    std::array<std::uint64_t, 2> ends{};
    const phase_result r = s.run([&, all = &lines->all, set](unsigned me) {
      const std::size_t far = (set + 8) % 64;
      if (me == 0) {
        static_cast<void>(sim::simulated_htm::run([=]() noexcept {
          (*all)[0][set].word = 1;
          for (unsigned i = 0; i < 5000; ++i) static_cast<void>((*all)[0][far].word);
        }));
      } else {
        for (unsigned i = 0; i < 500; ++i) static_cast<void>((*all)[1][far].word);
        for (std::size_t i = 1; i < 20; ++i) static_cast<void>((*all)[i][set].word);
      }
      ends[me] = s.clock();
    });
    EXPECT_EQ(r.transactions.of(sim::abort_reason::capacity), aborts);
    EXPECT_EQ(r.transactions.aborted(), aborts);
    EXPECT_EQ(r.transactions.begun, 1U);
    if (aborts == 0) {
      EXPECT_GT(ends[0], ends[1]) << "it was still running";
    }
  }
}

/// Three threads of one socket on the machine, with what `change` does to it.
sim::machine_spec transactional(void (*change)(sim::transactional_spec&)) {
  sim::machine_spec spec = sim::preset("e5_2650_htm");
  change(*spec.transactions);
  return spec;
}

std::uint64_t cycles_of_taking_a_line(const sim::machine_spec& spec) {
  simulation s(spec, 2);
  in_simulation<padded_word> word(s);
  s.run([&](unsigned me) {
    if (me == 1) word->value = 1;
  });
  return s
      .run([&, all = &*word](unsigned me) {
        if (me != 0) return;
        EXPECT_TRUE(sim::simulated_htm::run([=]() noexcept {
                      all->value.store(2, std::memory_order_relaxed);
                    }).committed);
      })
      .cycles;
}

TEST(simulation_transactions, a_commit_waits_for_the_lines_that_it_has_written) {
  const sim::machine_spec waits = transactional([](sim::transactional_spec&) {});
  const sim::machine_spec early = transactional([](sim::transactional_spec& t) { t.commit_waits = false; });
  const std::uint64_t transfer = waits.latency.local_transfer;
  EXPECT_LT(cycles_of_taking_a_line(early), transfer);
  EXPECT_GE(cycles_of_taking_a_line(waits), transfer);
}

/// Thread 0 writes a line in a transaction that takes 1,000 cycles and more; thread 1 reads it so many cycles after the
/// start. Returns when thread 0 was done, if it has committed.
std::optional<std::uint64_t> committed_beside_a_reader(const sim::machine_spec& spec,
                                                       std::optional<std::uint64_t> reads_at) {
  simulation s(spec, 2);
  in_simulation<padded_word> word(s);
  std::optional<std::uint64_t> done;
  s.run([&, all = &*word](unsigned me) {
    const std::uint64_t start = s.clock();
    if (me == 0) {
      if (sim::simulated_htm::run([=]() noexcept {
            all->value.store(2, std::memory_order_relaxed);
            sim::spend(1000);
          }).committed)
        done = s.clock() - start;
    } else if (reads_at) {
      sim::spend(*reads_at);
      static_cast<void>(all->value.load());
    }
  });
  return done;
}

TEST(simulation_transactions, a_request_that_arrives_after_the_commit_ends_nothing) {
  const sim::machine_spec travels = transactional([](sim::transactional_spec&) {});
  const sim::machine_spec at_once =
      transactional([](sim::transactional_spec& t) { t.requests_travel = false; });
  const std::uint64_t commit = committed_beside_a_reader(travels, std::nullopt).value();
  const std::uint64_t way = travels.latency.local_transfer / 2;
  EXPECT_TRUE(committed_beside_a_reader(travels, commit - way / 2));
  EXPECT_FALSE(committed_beside_a_reader(at_once, commit - way / 2));
  EXPECT_FALSE(committed_beside_a_reader(travels, commit - 3 * way));
}

TEST(simulation_transactions, one_sees_a_large_copy_whole_or_not) {
  constexpr std::size_t bytes = 1024 * sim::line_bytes;
  std::array<char, bytes> from{};
  from.fill(1);
  std::set<std::pair<char, char>> seen;
  unsigned aborted = 0;
  struct zeroes {
    std::array<char, bytes> all{};
  };
  for (std::uint64_t later = 0; later < 7000; later += 250) {
    simulation s(transactional([](sim::transactional_spec&) {}), 2);
    in_simulation<zeroes> copy(s);
    std::pair<char, char> ends{};
    bool committed = false;
    s.run([&, to = copy->all.data(), ends = &ends](unsigned me) {
      if (me == 0) {
        std::memcpy(to, from.data(), bytes);
        return;
      }
      sim::spend(later);
      committed = sim::simulated_htm::run([=]() noexcept {
                    ends->first = static_cast<const volatile char*>(to)[0];
                    sim::spend(500);
                    ends->second = static_cast<const volatile char*>(to)[bytes - 1];
                  }).committed;
    });
    if (committed)
      seen.insert(ends);
    else
      ++aborted;
  }
  EXPECT_EQ(seen, (std::set<std::pair<char, char>>{{0, 0}, {1, 1}}));
  EXPECT_NE(aborted, 0U);
}

/// Thread 1 asks for the line of thread 0 in a transaction, which thread 2 ends: before it asks, while its request is on the
/// way, or too late.
TEST(simulation_transactions, a_request_cannot_be_called_back) {
  const sim::machine_spec spec = transactional([](sim::transactional_spec&) {});
  const std::uint64_t way = spec.latency.local_transfer / 2;
  std::set<std::array<bool, 2>> seen;
  for (std::uint64_t later = 0; later <= 4 * way; later += way / 4) {
    SCOPED_TRACE(later);
    simulation s(spec, 3);
    in_simulation<std::array<padded_word, 2>> words(s);
    std::array<bool, 2> committed{};
    const phase_result r = s.run([&, all = &*words](unsigned me) {
      if (me == 0) {
        committed[0] = sim::simulated_htm::run([=]() noexcept {
                         (*all)[0].value.store(1, std::memory_order_relaxed);
                         sim::spend(5000);
                       }).committed;
      } else if (me == 1) {
        committed[1] = sim::simulated_htm::run([=]() noexcept {
                         static_cast<void>((*all)[1].value.load());
                         sim::spend(2000);
                         static_cast<void>((*all)[0].value.load());
                       }).committed;
      } else {
        sim::spend(2000 + spec.latency.local_dram - 3 * way + later);
        (*all)[1].value = 1;
      }
    });
    const bool asked = s.machine().l1_holds(1, simulated(&(*words)[0]));
    EXPECT_EQ(committed[0], !asked);
    EXPECT_EQ(r.transactions.aborted(), (asked ? 1U : 0U) + (committed[1] ? 0U : 1U));
    seen.insert({committed[1], asked});
  }
  EXPECT_EQ(seen, (std::set<std::array<bool, 2>>{{false, false}, {false, true}, {true, true}}));
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
      // Long enough for many thousand iterations of the others' loops.
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

/// Loops that wait for a condition that no access shows, so that no access would wake them.
TEST(simulation, threads_that_all_sleep_are_woken) {
  simulation s(tiny_spec(), 2);
  in_simulation<padded_word> line(s);
  std::array<unsigned, 2> turns{};  // on main's stack: not in the simulated memory
  s.run([&](unsigned me) {
    while (turns[0] + turns[1] < 200) {
      ++turns[me];
      static_cast<void>(line->value.load());
      hw::cpu_relax();
    }
  });
  EXPECT_GE(turns[0] + turns[1], 200U);

  // The same, after the last thread that was awake has ended.
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

TEST(simulation, a_thread_sleeps_on_a_word_and_costs_nothing_meanwhile) {
  struct words {
    alignas(sim::line_bytes) std::atomic<std::uint32_t> gate{0};
  };
  simulation s(tiny_spec(), 2);
  in_simulation<words> all(s);
  std::uint64_t stored = 0;
  std::uint64_t woke = 0;
  const phase_result r = s.run([&](unsigned me) {
    if (me == 0) {
      while (all->gate.load() == 0) hw::wait_on(all->gate, 0);
      woke = s.clock();
    } else {
      for (int i = 0; i < 2000; ++i) hw::cpu_relax();
      all->gate.store(1);
      stored = s.clock();
      hw::wake_one(all->gate);
    }
  });
  EXPECT_GT(stored, 20'000U);
  EXPECT_GT(woke, stored);
  EXPECT_LT(woke, stored + 20'000U);
  EXPECT_LE(r.by_thread[0].accesses, 4U) << "a load before the sleep and one behind it";
}

TEST(simulation, a_thread_sleeps_while_it_waits_for_a_mutex) {
  simulation s(tiny_spec(), 3);
  in_simulation<std::mutex> mutex(s);
  unsigned inside = 0;
  const phase_result r = s.run([&](unsigned me) {
    for (unsigned i = 0; i < 100 * me; ++i) hw::cpu_relax();
    const std::lock_guard held(*mutex);
    ++inside;
    for (int i = 0; me == 0 && i < 4000; ++i) hw::cpu_relax();
  });
  EXPECT_EQ(inside, 3U);
  for (const unsigned me : {1, 2})
    EXPECT_LE(r.by_thread[me].accesses, 5U)
        << "two before the sleep, one after it, the count, and the unlock";
}

TEST(simulation, threads_that_nothing_wakes_are_an_error) {
  simulation s(tiny_spec(), 2);
  in_simulation<std::atomic<std::uint32_t>> word(s);
  for (const bool one_ends : {false, true}) {
    const auto never_ending = [&] {
      s.run([&](unsigned me) {
        while (me == 0 || !one_ends) {
          if (word->load() != 0) return;
          hw::wait_on(*word, 0);
        }
      });
    };
    EXPECT_EQ(test::refusal<std::runtime_error>(never_ending),
              "all threads of the simulated program sleep, and none is left to wake them");
  }
  // The next phase is not disturbed.
  std::array<bool, 2> ran{};
  s.run([&](unsigned me) { ran[me] = true; });
  EXPECT_TRUE(ran[0] && ran[1]);
}

TEST(simulation, a_thread_knows_where_it_runs) {
  simulation s(sim::preset("e7_4850"), 12, pinning::compact);
  std::vector<unsigned> expected = sim::thread_order(s.spec(), pinning::compact);
  expected.resize(12);
  std::vector<unsigned> seen(12);
  s.run([&](unsigned me) { seen[me] = hw::current_cpu().value(); });
  EXPECT_EQ(seen, expected);
}

// Ends.

TEST(simulation, a_wrong_free_is_an_exception) {
  constexpr std::size_t large = 1 << 20;
  simulation s(tiny_spec(), 2);
  const auto frees_twice = [](unsigned me) {
    if (me == 0) return;
    void* const block = ::operator new(large);
    void* volatile again = block;
    ::operator delete(block);
    ::operator delete(again);
  };
  EXPECT_EQ(test::refusal<std::runtime_error>([&] { s.run(frees_twice); }),
            "the simulated program: an address that no allocation returned is freed");
  // The next phase is unaffected.
  std::array<bool, 2> ran{};
  s.run([&](unsigned me) { ran[me] = true; });
  EXPECT_TRUE(ran[0] && ran[1]);
}

TEST(simulation, an_exception_of_a_thread_comes_back) {
  simulation s(tiny_spec(), 2);
  const auto throws = [](unsigned me) {
    if (me == 1) throw std::runtime_error("no such key");
  };
  const std::string why = test::refusal<std::runtime_error>([&] { s.without_time(throws); });
  EXPECT_NE(why.find("no such key"), std::string::npos) << why;
}

TEST(simulation, machines_have_so_many_threads_and_no_more) {
  for (const unsigned threads : {0U, 5U}) {
    EXPECT_EQ(test::refusal([&] { return simulation(tiny_spec(), threads).threads(); }),
              "the machine tiny runs 1 to 4 threads, not " + std::to_string(threads));
  }
  EXPECT_EQ(simulation(tiny_spec(), 4).threads(), 4U);
}

// The order of clocks.

TEST(clock_queue, clocks_reach_far_and_numbers_to_the_last) {
  constexpr unsigned last = (1U << sim::clock_queue::number_bits) - 1;
  constexpr std::uint64_t late = (std::uint64_t{1} << (64 - sim::clock_queue::number_bits)) - 2;
  sim::clock_queue queue(last + 1);
  queue.set(last, sim::clock_queue::rank_of(late, last));
  EXPECT_EQ(sim::clock_queue::thread_of(queue.lowest()), last);
  EXPECT_LT(queue.lowest(), sim::clock_queue::never);
  queue.set(0, sim::clock_queue::rank_of(late + 1, 0));
  EXPECT_EQ(sim::clock_queue::thread_of(queue.lowest()), last);
}

TEST(clock_queue, agrees_with_a_sorted_set) {
  for (const unsigned threads : {1U, 2U, 3U, 7U, 8U, 40U, 80U}) {
    sim::clock_queue queue(threads);
    std::vector<sim::clock_queue::rank> ranks(threads, sim::clock_queue::never);
    std::multiset<sim::clock_queue::rank> expected(ranks.begin(), ranks.end());
    ASSERT_EQ(queue.lowest(), sim::clock_queue::never);
    measure::random_generator random(threads, 0);
    for (int i = 0; i < 2000; ++i) {
      const auto thread = static_cast<unsigned>(random.below(threads));
      const bool goes = random.below(4) == 0;
      const sim::clock_queue::rank rank =
          goes ? sim::clock_queue::never : sim::clock_queue::rank_of(random.below(50), thread);
      expected.erase(expected.find(ranks[thread]));
      expected.insert(rank);
      ranks[thread] = rank;
      if (goes)
        queue.remove(thread);
      else
        queue.set(thread, rank);
      ASSERT_EQ(queue.lowest(), *expected.begin());
      ASSERT_TRUE(queue.lowest() == sim::clock_queue::never ||
                  ranks[sim::clock_queue::thread_of(queue.lowest())] == queue.lowest());
    }
  }
}

}  // namespace
