#include "espalier/hw/transactional_memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace espalier::hw {
namespace {

bool kernel_lists_rtm() {
  std::ifstream in("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return text.find(" rtm") != std::string::npos;
}

TEST(transactional_memory, verdict_comes_with_its_reason) {
  const auto status = rtm_probe();
  EXPECT_FALSE(status.reason.empty());
  EXPECT_EQ(status.reason.find('\n'), std::string::npos);
  EXPECT_EQ(status.available, status.reason.starts_with("a trial transaction committed"));
}

TEST(transactional_memory, never_available_where_the_processor_lacks_it) {
  if (kernel_lists_rtm()) GTEST_SKIP() << "this processor announces RTM";
  const auto status = rtm_probe();
  // A kernel may hide the feature that CPUID still announces; without the announcement the reason says so.
  if (!status.available) {
    EXPECT_THAT(status.reason,
                ::testing::AnyOf(::testing::HasSubstr("does not announce RTM"),
                                 ::testing::HasSubstr("aborts every transaction"),
                                 ::testing::HasSubstr("none of"), ::testing::HasSubstr("not an x86-64")));
  }
#if defined(__x86_64__)
  if (__builtin_cpu_is("amd") != 0) {
    EXPECT_FALSE(status.available);
    EXPECT_EQ(status.reason, "the processor does not announce RTM (CPUID leaf 7)");
  }
#else
  EXPECT_FALSE(status.available);
#endif
}

}  // namespace
}  // namespace espalier::hw
