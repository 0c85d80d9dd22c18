#include "preload/recording/site_table.hpp"

#include <gnu/libc-version.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "support/on_threads.hpp"

namespace espalier::preload {
namespace {

struct preload_site_table : ::testing::Test {
  memory_budget budget;
  module_list modules{budget};
  std::unique_ptr<site_table> sites = std::make_unique<site_table>(budget, modules);

  std::uint32_t intern(const std::vector<std::uintptr_t>& frames) {
    return sites->intern(frames.data(), static_cast<unsigned>(frames.size()));
  }
};

TEST_F(preload_site_table, numbers_stacks_from_one_on) {
  EXPECT_EQ(intern({10, 20}), 1U);
  EXPECT_EQ(intern({20, 10}), 2U) << "order matters";
  EXPECT_EQ(intern({10}), 3U);
  EXPECT_EQ(intern({10, 20, 0}), 4U);
  EXPECT_EQ(intern({10, 20}), 1U);
  EXPECT_EQ(sites->size(), 4U);
  EXPECT_EQ(sites->depth(4), 3U);
  EXPECT_EQ(sites->frame(2, 1).address, 10U);
  EXPECT_EQ(sites->frame(2, 1).module, module_list::none);
}

TEST_F(preload_site_table, has_no_number_for_no_stack) {
  EXPECT_EQ(sites->intern(nullptr, 0), site_table::unknown);
  const std::array<std::uintptr_t, most_frames + 1> deep{};
  EXPECT_EQ(sites->intern(deep.data(), most_frames + 1), site_table::unknown);
  EXPECT_NE(sites->intern(deep.data(), most_frames), site_table::unknown);
}

TEST_F(preload_site_table, knows_many) {
  for (std::uintptr_t i = 1; i <= 30'000; ++i) ASSERT_EQ(intern({i, i + 1, 7}), i);
  for (std::uintptr_t i = 1; i <= 30'000; ++i) {
    ASSERT_EQ(intern({i, i + 1, 7}), i);
    ASSERT_EQ(sites->frame(static_cast<std::uint32_t>(i), 0).address, i);
  }
}

TEST_F(preload_site_table, says_unknown_where_memory_is_refused) {
  ASSERT_EQ(intern({1, 2}), 1U);
  budget.set_limit(budget.bytes());
  std::uint32_t last = 1;
  std::uintptr_t next = 3;
  for (; last != site_table::unknown; ++next) last = intern({next, next});
  EXPECT_GT(sites->size(), 100U) << "what was mapped is used up first";
  EXPECT_EQ(intern({1, 2}), 1U) << "what is known stays known";
}

TEST_F(preload_site_table, gives_one_number_to_all_threads) {
  constexpr int threads = 4;
  std::array<std::vector<std::uint32_t>, threads> numbers;
  test::on_threads(threads, [&](int t) {
    for (std::uintptr_t i = 0; i < 20'000; ++i)
      numbers[static_cast<std::size_t>(t)].push_back(intern({i / 2, 5}));
  });
  for (const auto& of : numbers) EXPECT_EQ(of, numbers[0]);
  EXPECT_EQ(sites->size(), 10'000U);
  EXPECT_EQ(std::set(numbers[0].begin(), numbers[0].end()).size(), 10'000U);
}

TEST_F(preload_site_table, names_the_module_of_a_frame) {
  // No sanitizer has its own, which would be in the executable.
  const auto in_libc = reinterpret_cast<std::uintptr_t>(&gnu_get_libc_version) + 1;
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  const std::uint32_t site = intern({in_libc, here});
  const site_frame first = sites->frame(site, 0);
  const site_frame second = sites->frame(site, 1);
  ASSERT_LT(first.module, modules.size());
  ASSERT_LT(second.module, modules.size());
  EXPECT_NE(first.module, second.module);
  EXPECT_NE(std::string_view(modules[second.module].path.data()).find("preload"), std::string_view::npos)
      << "the executable's own path: " << modules[second.module].path.data();
  EXPECT_EQ(modules[second.module].build_id_bytes, 20U);
  EXPECT_EQ(second.address + modules[second.module].bias, here);
  EXPECT_FALSE(sites->modules_changed()) << "nothing was unloaded";
  EXPECT_EQ(intern({in_libc, here}), site);
}

}  // namespace
}  // namespace espalier::preload
