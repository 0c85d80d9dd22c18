#include "preload/heap/heap_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace espalier::preload {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> complaints;

heap_settings read(std::vector<std::string> variables) {
  complaints.clear();
  std::vector<char*> environment;
  for (std::string& v : variables) environment.push_back(v.data());
  environment.push_back(nullptr);
  heap_settings got;
  read_heap_settings(environment.data(), got, [](const char* line) { complaints.emplace_back(line); });
  return got;
}

TEST(heap_settings, are_what_they_are_without_variables) {
  heap_settings got;
  read_heap_settings(nullptr, got, [](const char*) { FAIL(); });
  EXPECT_FALSE(got.prefault || got.huge || got.stats);
  EXPECT_EQ(got.keep, std::size_t{32} << 20U);
  EXPECT_EQ(got.decay, 1000U);
  EXPECT_EQ(read({"PATH=/bin", "ESPALIER_MALLOC", "ESPALIER_MALLOC_KEEP"}).keep, got.keep);
  EXPECT_THAT(complaints, IsEmpty());
}

TEST(heap_settings, are_read) {
  const heap_settings got =
      read({"ESPALIER_MALLOC_PREFAULT=1", "ESPALIER_MALLOC_HUGE=1", "A=B", "ESPALIER_MALLOC_KEEP=7",
            "ESPALIER_MALLOC_DECAY=250", "ESPALIER_MALLOC_STATS=1"});
  EXPECT_TRUE(got.prefault && got.huge && got.stats);
  EXPECT_EQ(got.keep, std::size_t{7} << 20U);
  EXPECT_EQ(got.decay, 250U);
  EXPECT_THAT(complaints, IsEmpty());
  EXPECT_FALSE(read({"ESPALIER_MALLOC_STATS=1", "ESPALIER_MALLOC_STATS=0"}).stats);
  EXPECT_EQ(read({"ESPALIER_MALLOC_KEEP=0"}).keep, 0U);
}

TEST(heap_settings, that_are_wrong_are_named_and_left_out) {
  for (const char* const wrong : {"", "yes", "2", "01", "1 "}) {
    const heap_settings got =
        read({std::string("ESPALIER_MALLOC_PREFAULT=") + wrong, "ESPALIER_MALLOC_HUGE=1"});
    EXPECT_FALSE(got.prefault);
    EXPECT_TRUE(got.huge) << "the others are read";
    EXPECT_THAT(complaints, ElementsAre(HasSubstr("PREFAULT is neither 0 nor 1"))) << wrong;
  }
  for (const char* const wrong : {"", "-1", "1M", "134217729", "99999999999999999999"}) {
    EXPECT_EQ(read({std::string("ESPALIER_MALLOC_KEEP=") + wrong}).keep, std::size_t{32} << 20U);
    EXPECT_THAT(complaints, ElementsAre(HasSubstr("KEEP is not a number of MiB"))) << wrong;
  }
  for (const char* const wrong : {"", "1s", "4294967297"}) {
    EXPECT_EQ(read({std::string("ESPALIER_MALLOC_DECAY=") + wrong}).decay, 1000U);
    EXPECT_THAT(complaints, ElementsAre(HasSubstr("DECAY is not a number of milliseconds"))) << wrong;
  }
  EXPECT_EQ(read({"ESPALIER_MALLOC_DECAY=0"}).decay, 0U);
  EXPECT_EQ(read({"ESPALIER_MALLOC_KEEP=134217728"}).keep, std::size_t{1} << 47U);
  static_cast<void>(read({"ESPALIER_MALLOC_STATS=x", "ESPALIER_MALLOC_HUGE=x", "ESPALIER_MALLOC_KEEPS=1"}));
  EXPECT_THAT(complaints, ElementsAre(HasSubstr("STATS is neither"), HasSubstr("HUGE is neither"),
                                      HasSubstr("other than PREFAULT, HUGE, KEEP, DECAY and STATS")));
}

}  // namespace
}  // namespace espalier::preload
