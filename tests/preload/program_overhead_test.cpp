// What recording costs, in instructions: valgrind counts the same ones each time.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "program_fixture.hpp"

namespace espalier::test {
namespace {

using preload_overhead = preload_program;

TEST_F(preload_overhead, of_nothing_but_malloc_and_free_is_bounded) {
#ifdef __clang__
  GTEST_SKIP() << "valgrind 3.19 gives up on clang's debug information";
#endif
  const std::vector<std::string> command{"valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                                         program("malloc_counts"), "same"};
  const auto counted = [&](const char* pairs, bool recorded, const char* peak = "0") {
    std::vector<std::string> with_pairs = command;
    with_pairs.emplace_back(pairs);
    const outcome ended =
        recorded ? runs.run(with_pairs, {{"FOLLOW", "all"}, {"PEAK", peak}}) : runs.run_plainly(with_pairs);
    return instructions(ended.output);
  };
  const recording recorded_plainly = this->recorded({program("malloc_counts"), "same", "20000"}, 0);
  // The difference of two runs has neither the program's beginning nor its end in it.
  const auto of_pairs = [&](bool recorded, const char* peak = "0") {
    return static_cast<double>(counted("20000", recorded, peak)) -
           static_cast<double>(counted("10000", recorded, peak));
  };
  const double plain = of_pairs(false);
  if (plain == 0) GTEST_SKIP() << "valgrind is not installed";
  const double recorded = of_pairs(true);
  ASSERT_GT(plain, 10'000 * 20.0);
  EXPECT_GT(recorded, plain * 1.2) << "is it recorded at all?";
#ifdef __OPTIMIZE__
  EXPECT_LT(recorded, plain * 4) << "3 in a release";
#endif
  EXPECT_LT(of_pairs(true, "1"), recorded * 1.01) << "a heap that comes and goes by one block has its peak";
  const std::uint64_t entered = recorded_plainly.number("allocations recorded");
  EXPECT_GE(entered, 20'000U) << "each one";
  EXPECT_LT(entered, 20'100U);
}

}  // namespace
}  // namespace espalier::test
