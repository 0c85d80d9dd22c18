#include "espalier/reclaim/leaky.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <type_traits>
#include <utility>

#include "espalier/reclaim/no_guard.hpp"

namespace espalier {
namespace {

int reclaimed = 0;
const retired entry{nullptr, nullptr, nullptr, [](const retired&) noexcept { ++reclaimed; }};

TEST(leaky, counts_and_never_gives_back) {
  static_assert(!leaky::gives_back && !std::is_copy_constructible_v<leaky::guard>);
  reclaimed = 0;
  {
    leaky domain;
    auto first = domain.pin();
    auto guard = std::move(first);
    guard.reserve(2);
    guard.retire(entry);
    guard.retire(entry);
    std::thread([&] {
      auto theirs = domain.pin();
      theirs.reserve(1);
      theirs.retire(entry);
    }).join();
    EXPECT_EQ(domain.retired_count(), 3U);
    domain.purge(nullptr);
  }
  EXPECT_EQ(reclaimed, 0);
}

TEST(unprotected, gives_back_at_once) {
  static_assert(unprotected::gives_back && !std::is_copy_constructible_v<no_guard>);
  static_assert(std::is_empty_v<unprotected> && std::is_empty_v<no_guard>);
  reclaimed = 0;
  unprotected domain;
  auto guard = domain.pin();
  guard.reserve(1);
  EXPECT_EQ(reclaimed, 0);
  guard.retire(entry);
  EXPECT_EQ(reclaimed, 1);
  domain.purge(nullptr);
  EXPECT_EQ(reclaimed, 1);
}

}  // namespace
}  // namespace espalier
