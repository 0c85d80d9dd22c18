#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "espalier/oltp/database.hpp"
#include "oltp/registers.hpp"
#include "oltp/serializability.hpp"
#include "support/environment.hpp"

// Histories of random transactions, of each protocol and of some maps, and what the checker finds in them.

namespace espalier::test {
namespace {

using testing::TestWithParam;

using engine = std::tuple<oltp::protocol, std::string>;

class histories : public TestWithParam<engine> {};

std::string name_of(const testing::TestParamInfo<engine>& info) {
  return std::string(to_string(std::get<0>(info.param))) + "_" + std::get<1>(info.param);
}

TEST_P(histories, are_serializable) {
  constexpr unsigned threads = 3;
  constexpr unsigned each = 60;
  for (unsigned round = 0; round < 12; ++round) {
    registers all({.map = std::get<1>(GetParam()), .by = std::get<0>(GetParam()), .commits_per_epoch = 1},
                  2 + round % 5);
    std::vector<std::vector<committed>> of(threads);
    {
      std::vector<std::jthread> running;
      for (unsigned i = 0; i < threads; ++i) {
        running.emplace_back([&, i] {
          std::mt19937_64 random(round * threads + i);
          for (unsigned n = 0; n < each; ++n) {
            of[i].push_back(all.run(i, random, (i * each + n) * 8ULL + 1, [&] {
              if (random() % 3 == 0) std::this_thread::yield();
            }));
          }
        });
      }
    }
    std::vector<committed> history;
    for (const auto& one : of) history.insert(history.end(), one.begin(), one.end());
    history.push_back(all.final_state(threads));
    const auto fault = serialization_graph(history).fault();
    ASSERT_FALSE(fault) << *fault << "\nround " << round;
  }
}

/// Many histories of a few transactions each: the threads stay, and each history empties the registers of the one before.
TEST_P(histories, short_ones_are_serializable) {
  constexpr unsigned threads = 3;
  constexpr unsigned each = 4;
  // With a scale of 10, as in `./check --long`, 10^5 of each protocol over its three maps.
  const double scale = environment_number("ESPALIER_STRESS_SCALE", 1);
  const auto rounds = static_cast<std::uint64_t>(scale > 1 ? 3340 * scale : 10 * scale) + 1;
  registers all({.map = std::get<1>(GetParam()), .by = std::get<0>(GetParam()), .commits_per_epoch = 1}, 3);
  std::vector<committed> history;
  std::array<std::vector<committed>, threads> of;
  std::optional<std::string> fault;
  std::uint64_t round = 0;
  std::barrier both(threads, [&]() noexcept {
    if (round != 0) {
      history.clear();
      for (const auto& one : of) history.insert(history.end(), one.begin(), one.end());
      history.push_back(all.final_state(threads));
      fault = serialization_graph(history).fault();
    }
    all.clear();
    for (auto& one : of) one.clear();
    ++round;
  });
  {
    std::vector<std::jthread> running;
    for (unsigned i = 0; i < threads; ++i) {
      running.emplace_back([&, i] {
        std::mt19937_64 random(i);
        for (both.arrive_and_wait(); round <= rounds && !fault; both.arrive_and_wait()) {
          for (unsigned n = 0; n < each; ++n) {
            of[i].push_back(all.run(i, random, (i * each + n) * 8ULL + 1, [&] {
              if (random() % 3 == 0) std::this_thread::yield();
            }));
          }
        }
      });
    }
  }
  ASSERT_FALSE(fault) << *fault << "\nround " << round - 1;
}

INSTANTIATE_TEST_SUITE_P(engines, histories,
                         testing::Combine(testing::ValuesIn(oltp::all_protocols),
                                          testing::Values("ordered_map", "ticket", "edge_ext_lf")),
                         name_of);

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
