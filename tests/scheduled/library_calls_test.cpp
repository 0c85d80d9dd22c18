// Functions of the C library that access memory: their accesses are seen, even if sizes are constant and compilers
// would not call them.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>

#include "sim/explore.hpp"

namespace {

using namespace espalier;
using sim::failure_kind;
using sim::scene;

struct plain {
  std::uint64_t first = 1;
  std::uint64_t second = 1;
};

sim::exploration_report explore(const char* name, const std::function<void(scene&)>& build) {
  sim::exploration_options o;
  o.schedules = 500;
  return sim::explore(name, o, build);
}

void expect_found(const sim::exploration_report& report, failure_kind kind) {
  ASSERT_FALSE(report.passed()) << "nothing was found in " << report.runs << " schedules";
  EXPECT_EQ(report.failure->kind, kind) << report;
  EXPECT_NE(report.failure->text.find("library_calls_test.cpp"), std::string::npos) << report;
}

/// One thread frees a block while another still uses it.
template <class Use>
void expect_use_after_free(const char* name, Use use) {
  expect_found(explore(name,
                       [use](scene& s) {
                         auto& current = s.make<std::atomic<plain*>>(new plain);
                         s.thread("uses", [&current, use] {
                           if (plain* const seen = current.load()) use(*seen);
                         });
                         s.thread("frees", [&current] { delete current.exchange(nullptr); });
                       }),
               failure_kind::use_after_free);
}

TEST(library_calls, memset_of_a_freed_block) {
  expect_use_after_free("memset", [](plain& p) { std::memset(&p, 0, sizeof p); });
}

TEST(library_calls, memcpy_to_a_freed_block) {
  expect_use_after_free("memcpy_to", [](plain& p) {
    const plain mine;
    std::memcpy(&p, &mine, sizeof p);
  });
}

TEST(library_calls, memcpy_from_a_freed_block) {
  expect_use_after_free("memcpy_from", [](plain& p) {
    plain mine;
    std::memcpy(&mine, &p, sizeof p);
    sim::require(mine.first == mine.second, "both parts are from one block");
  });
}

TEST(library_calls, memmove_within_a_freed_block) {
  expect_use_after_free("memmove", [](plain& p) { std::memmove(&p.second, &p.first, sizeof p.first); });
}

TEST(library_calls, memcmp_with_a_freed_block) {
  expect_use_after_free("memcmp", [](plain& p) {
    const plain mine;
    sim::require(std::memcmp(&p, &mine, sizeof p) == 0, "nobody has written");
  });
}

/// A copy may be interrupted between the writes of its parts: halves of two values meet.
TEST(library_calls, copies_are_steps_of_their_own) {
  expect_found(explore("copies",
                       [](scene& s) {
                         auto& shared = s.make<plain>();
                         s.thread("writes", [&shared] {
                           std::memset(&shared.first, 0, sizeof shared.first);
                           std::memset(&shared.second, 0, sizeof shared.second);
                         });
                         s.thread("reads", [&shared] {
                           plain seen;
                           std::memcpy(&seen, &shared, sizeof seen);
                           sim::require(seen.first == seen.second, "both parts are of one time");
                         });
                       }),
               failure_kind::requirement);
}

}  // namespace
