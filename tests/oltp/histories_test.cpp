#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "espalier/oltp/database.hpp"
#include "oltp/protocol_and_map.hpp"
#include "oltp/registers.hpp"
#include "oltp/serializability.hpp"
#include "support/environment.hpp"
#include "support/on_threads.hpp"

// Histories of random transactions, of each protocol and of some maps, and what the checker finds in them.

namespace espalier::test {
namespace {

class histories : public testing::TestWithParam<oltp::protocol_and_map> {};

constexpr unsigned threads = 3;
using by_thread = std::array<std::vector<committed>, threads>;

void sometimes_yield(std::mt19937_64& random) {
  if (random() % 3 == 0) std::this_thread::yield();
}

void expect_serializable(registers& all, const by_thread& of, std::uint64_t round) {
  const auto fault = all.fault_of(of);
  ASSERT_FALSE(fault) << *fault << "\nround " << round;
}

TEST_P(histories, are_serializable) {
  constexpr unsigned each = 60;
  for (unsigned round = 0; round < 12; ++round) {
    registers all(oltp::options_of(GetParam(), 1), 2 + round % 5);
    by_thread of;
    on_threads(threads, [&](int thread) {
      const auto i = static_cast<unsigned>(thread);
      std::mt19937_64 random(round * threads + i);
      for (unsigned n = 0; n < each; ++n)
        of[i].push_back(
            all.run(i, std::ref(random), (i * each + n) * 8ULL + 1, [&] { sometimes_yield(random); }));
    });
    expect_serializable(all, of, round);
    if (HasFatalFailure()) return;
  }
}

/// Many histories of a few transactions each, on registers and colours of their own, which are empty before it. Each thread
/// takes the next transaction of the current history: so threads meet in each history without a barrier.
TEST_P(histories, short_ones_are_serializable) {
  constexpr std::uint64_t each = 12;
  constexpr std::uint64_t together = 100;
  // With a scale of 10, as in `./check --long`, 10^5 of each protocol over its three maps.
  const double scale = environment_number("ESPALIER_STRESS_SCALE", 1);
  const auto rounds = scale > 1 ? static_cast<std::uint64_t>(33.4 * scale) : 1;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    registers all(oltp::options_of(GetParam(), 1), 3, together);
    by_thread of;
    std::atomic<std::uint64_t> next{0};
    on_threads(threads, [&](int thread) {
      const auto i = static_cast<unsigned>(thread);
      std::mt19937_64 random(round * threads + i);
      for (std::uint64_t n = next++; n < together * each; n = next++)
        of[i].push_back(all.run(i, std::ref(random), n * 8 + 1, [&] { sometimes_yield(random); }, n / each));
    });
    expect_serializable(all, of, round);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(engines, histories,
                         testing::Combine(testing::ValuesIn(oltp::all_protocols),
                                          testing::Values("ordered_map", "ticket", "edge_ext_lf")),
                         oltp::name_of);

// The checker itself.

committed reads(unsigned thread, std::vector<committed::read> r, std::vector<committed::append> a) {
  return {thread, std::move(r), std::move(a), 0};
}

TEST(serialization_graph, accepts_a_serial_history) {
  EXPECT_FALSE(serialization_graph({reads(0, {{1, {}}}, {{1, 10}}), reads(1, {{1, {10}}}, {{1, 11}}),
                                    reads(2, {{1, {10, 11}}}, {})})
                   .fault());
}

TEST(serialization_graph, finds_write_skew) {
  const std::vector<committed> skew{reads(0, {{1, {}}, {2, {}}}, {{1, 10}}),
                                    reads(1, {{1, {}}, {2, {}}}, {{2, 20}}),
                                    reads(2, {{1, {10}}, {2, {20}}}, {})};
  EXPECT_EQ(serialization_graph(skew).fault(),
            "a cycle: T0 has read before the write of T1 has read before the write of T0");
}

TEST(serialization_graph, finds_what_was_there_and_is_not_at_the_end) {
  EXPECT_EQ(serialization_graph(
                {reads(0, {{1, {}}}, {{1, 10}}), reads(1, {{1, {10}}}, {}), reads(2, {{1, {}}}, {})})
                .fault(),
            "a cycle: T0 is read by T1 ends before T2 has read before the write of T0");
}

TEST(serialization_graph, finds_a_lost_append_and_a_foreign_value) {
  EXPECT_NE(serialization_graph({reads(0, {{1, {}}}, {{1, 10}}), reads(1, {{1, {}}}, {})}).fault(),
            std::nullopt);
  EXPECT_NE(serialization_graph({reads(0, {{1, {7}}}, {})}).fault(), std::nullopt);
  EXPECT_NE(serialization_graph({reads(0, {{1, {}}}, {{1, 10}}), reads(1, {{1, {10}}}, {{1, 11}}),
                                 reads(2, {{1, {11}}}, {}), reads(3, {{1, {10, 11}}}, {})})
                .fault(),
            std::nullopt);
}

}  // namespace
}  // namespace espalier::test
