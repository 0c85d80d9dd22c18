// Plays the scripts of the corpus, and scripts at random: ESPALIER_SCRIPT_OPERATIONS is the number of their operations.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "fuzz/scripts.hpp"
#include "support/environment.hpp"

namespace espalier::fuzz {
namespace {

TEST(scripts, of_the_corpus) {
  unsigned played = 0;
  for (const auto& file : std::filesystem::directory_iterator(ESPALIER_CORPUS)) {
    std::ifstream in(file.path(), std::ios::binary);
    const std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(play_any(bytes).wrong, "") << file.path();
    ++played;
  }
  EXPECT_GT(played, 0U);
}

TEST(scripts, at_random) {
  const auto total =
      static_cast<std::uint64_t>(test::environment_number("ESPALIER_SCRIPT_OPERATIONS", 20'000));
  std::uint64_t operations = 0;
  for (std::uint64_t seed = 0; operations < total && !HasFailure(); ++seed) {
    measure::random_generator random(7007, seed);
    const outcome done = play_any(random_script(random));
    EXPECT_EQ(done.wrong, "") << "seed " << seed;
    operations += done.operations;
  }
}

}  // namespace
}  // namespace espalier::fuzz
