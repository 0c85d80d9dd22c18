#include "preload/random_malloc/random_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace espalier::preload {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct outcome {
  std::string wrong;
  random_settings got;
};

outcome read(std::vector<std::string> variables) {
  std::vector<char*> environment;
  for (std::string& one : variables) environment.push_back(one.data());
  environment.push_back(nullptr);
  outcome done;
  if (const char* const wrong = read_random_settings(environment.data(), done.got)) done.wrong = wrong;
  return done;
}

TEST(random_settings, are_those_of_the_environment) {
  const outcome done =
      read({"PATH=/bin", "ESPALIER_RANDOM_SEED=18446744073709551615", "ESPALIER_RANDOM_BYTES=256",
            "ESPALIER_RANDOM_STATS=1", "ESPALIER_MALLOC_STATS=maybe"});
  EXPECT_EQ(done.wrong, "");
  EXPECT_EQ(done.got.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(done.got.largest, 256U);
  EXPECT_TRUE(done.got.stats);
}

TEST(random_settings, are_there_without_variables) {
  random_settings none;
  none.largest = 1;
  EXPECT_EQ(read_random_settings(nullptr, none), nullptr);
  EXPECT_EQ(none.largest, random_settings{}.largest);
  EXPECT_GT(none.largest, 0U);
  EXPECT_EQ(none.seed, 0U);
  EXPECT_FALSE(none.stats);
}

TEST(random_settings, of_bytes_end_where_the_range_ends) {
  EXPECT_EQ(read({"ESPALIER_RANDOM_BYTES=0"}).got.largest, 0U);
  EXPECT_EQ(read({"ESPALIER_RANDOM_BYTES=65536"}).got.largest, 65536U);
  EXPECT_NE(read({"ESPALIER_RANDOM_BYTES=65552"}).wrong, "");
}

TEST(random_settings, that_are_wrong_are_named_and_leave_no_trace) {
  for (const char* const value :
       {"", "-16", "17", "16 ", "0x10", "65552", "99999999999999999999999", "many"}) {
    const outcome done = read(
        {"ESPALIER_RANDOM_SEED=9", "ESPALIER_RANDOM_STATS=1", std::string("ESPALIER_RANDOM_BYTES=") + value});
    EXPECT_THAT(done.wrong, AllOf(HasSubstr("ESPALIER_RANDOM_BYTES"), HasSubstr("16"), HasSubstr("65536"),
                                  Not(HasSubstr("\n"))))
        << value;
    EXPECT_EQ(done.got.seed, 0U) << "half of what was asked for is another experiment";
    EXPECT_FALSE(done.got.stats);
  }
  EXPECT_THAT(read({"ESPALIER_RANDOM_SEED=18446744073709551616"}).wrong, HasSubstr("2^64"));
  EXPECT_THAT(read({"ESPALIER_RANDOM_STATS=yes"}).wrong, HasSubstr("neither 0 nor 1"));
  EXPECT_THAT(read({"ESPALIER_RANDOM_BYTE=16"}).wrong, HasSubstr("other than SEED, BYTES and STATS"));
}

}  // namespace
}  // namespace espalier::preload
