#include "sim/simulation/simulation.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "espalier/workload/random.hpp"

namespace espalier::sim {
namespace {

TEST(clock_queue, is_empty_at_first) {
  for (const unsigned threads : {1U, 2U, 3U, 80U})
    EXPECT_EQ(clock_queue(threads).lowest(), clock_queue::never);
}

TEST(clock_queue, the_lowest_clock_is_first_and_of_equal_ones_the_lowest_number) {
  clock_queue queue(5);
  queue.set(4, clock_queue::rank_of(7, 4));
  queue.set(1, clock_queue::rank_of(9, 1));
  EXPECT_EQ(clock_queue::thread_of(queue.lowest()), 4U);
  queue.set(3, clock_queue::rank_of(7, 3));
  EXPECT_EQ(clock_queue::thread_of(queue.lowest()), 3U);
  queue.set(3, clock_queue::rank_of(10, 3));
  EXPECT_EQ(clock_queue::thread_of(queue.lowest()), 4U);
  queue.remove(4);
  EXPECT_EQ(clock_queue::thread_of(queue.lowest()), 1U);
  queue.remove(1);
  queue.remove(3);
  EXPECT_EQ(queue.lowest(), clock_queue::never);
}

TEST(clock_queue, clocks_reach_far_and_numbers_to_the_last) {
  constexpr unsigned last = (1U << clock_queue::number_bits) - 1;
  constexpr std::uint64_t late = (std::uint64_t{1} << (64 - clock_queue::number_bits)) - 2;
  clock_queue queue(last + 1);
  queue.set(last, clock_queue::rank_of(late, last));
  EXPECT_EQ(clock_queue::thread_of(queue.lowest()), last);
  EXPECT_LT(queue.lowest(), clock_queue::never);
  queue.set(0, clock_queue::rank_of(late + 1, 0));
  EXPECT_EQ(clock_queue::thread_of(queue.lowest()), last);
}

TEST(clock_queue, agrees_with_a_sorted_set) {
  for (const unsigned threads : {1U, 2U, 3U, 7U, 8U, 40U, 80U}) {
    clock_queue queue(threads);
    std::vector<clock_queue::rank> ranks(threads, clock_queue::never);
    std::multiset<clock_queue::rank> expected(ranks.begin(), ranks.end());
    workload::random_generator random(threads, 0);
    for (int i = 0; i < 2000; ++i) {
      const auto thread = static_cast<unsigned>(random.below(threads));
      const bool goes = random.below(4) == 0;
      const clock_queue::rank rank =
          goes ? clock_queue::never : clock_queue::rank_of(random.below(50), thread);
      expected.erase(expected.find(ranks[thread]));
      expected.insert(rank);
      ranks[thread] = rank;
      if (goes)
        queue.remove(thread);
      else
        queue.set(thread, rank);
      ASSERT_EQ(queue.lowest(), *expected.begin());
    }
  }
}

}  // namespace
}  // namespace espalier::sim
