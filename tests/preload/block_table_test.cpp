#include "preload/recording/block_table.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "espalier/workload/random.hpp"
#include "support/on_threads.hpp"

namespace espalier::preload {
namespace {

struct table_fixture : ::testing::Test {
  memory_budget budget;
  std::unique_ptr<block_table> table = std::make_unique<block_table>(budget);

  std::map<std::uintptr_t, block_record> contents() const {
    std::map<std::uintptr_t, block_record> all;
    table->visit([&](const block_record& block) { all.emplace(block.address, block); });
    return all;
  }
  ~table_fixture() override {
    table->clear();
    EXPECT_EQ(budget.bytes(), 0U) << "what was mapped is given back";
  }
};

using preload_block_table = table_fixture;

TEST_F(preload_block_table, does_as_a_map_does) {
  std::map<std::uintptr_t, block_record> model;
  workload::random_generator random(1);
  for (unsigned i = 0; i < 200'000; ++i) {
    // Few pages, so that blocks come again; of some, every 16 bytes.
    const std::uintptr_t address =
        0x5555'0000'0000 + random.next() % 4096 * 16 + random.next() % 4 * 0x40'0000;
    if (random.next() % 5 < 3) {
      const std::uint64_t asked = random.next() % 5000;
      const block_record block{address, asked, asked + random.next() % 100,
                               static_cast<std::uint32_t>(random.next() % block_table::site_limit) + 1};
      ASSERT_TRUE(table->insert(block));
      model.insert_or_assign(address, block);
    } else {
      block_record removed{};
      const auto found = model.find(address);
      ASSERT_EQ(table->erase(address, &removed), found != model.end());
      if (found == model.end()) continue;
      ASSERT_EQ(removed, found->second);
      model.erase(found);
    }
    ASSERT_EQ(table->size(), model.size());
  }
  EXPECT_GT(model.size(), 5000U);
  EXPECT_EQ(contents(), model);
}

TEST_F(preload_block_table, keeps_every_field_to_its_limit) {
  const block_record last{block_table::address_limit - 8, block_table::asked_limit,
                          block_table::asked_limit + block_table::exact_slack - 1, block_table::site_limit};
  std::uint64_t replaced = 5;
  ASSERT_TRUE(table->insert(last, &replaced));
  EXPECT_EQ(replaced, 5U) << "nothing was in its place";
  EXPECT_EQ(contents().at(last.address), last);
  ASSERT_TRUE(table->insert(last, &replaced));
  EXPECT_EQ(replaced, 5U + block_table::asked_limit);
  EXPECT_EQ(table->counted().used, 1U);
  EXPECT_EQ(table->counted().inserted, 2U);
  EXPECT_TRUE(table->erase(last.address));
  EXPECT_TRUE(table->put_back(last));
  EXPECT_EQ(contents().at(last.address), last);
  EXPECT_EQ(table->counted().inserted, 2U) << "the same block";
  EXPECT_TRUE(table->erase(last.address));
  EXPECT_EQ(table->size(), 0U);
}

TEST_F(preload_block_table, refuses_what_it_cannot_say) {
  EXPECT_FALSE(table->insert({0, 1, 1, 1}));
  EXPECT_FALSE(table->insert({block_table::address_limit, 1, 1, 1}));
  EXPECT_FALSE(table->insert({64, 1, 1, block_table::site_limit + 1}));
  EXPECT_FALSE(table->erase(0));
  EXPECT_FALSE(table->erase(block_table::address_limit));
  EXPECT_EQ(table->size(), 0U);
}

TEST_F(preload_block_table, rounds_large_slack_up_and_huge_sizes_down) {
  ASSERT_TRUE(table->insert({64, 100, 100 + block_table::exact_slack + 1, 1}));
  EXPECT_EQ(contents().at(64).held, 100 + block_table::exact_slack + 4096);
  ASSERT_TRUE(table->insert({64, block_table::asked_limit + 5, block_table::asked_limit + 9, 1}));
  EXPECT_EQ(contents().at(64).asked, block_table::asked_limit);
  EXPECT_EQ(table->size(), 1U) << "the same address is the same block";
  EXPECT_EQ(table->inserted(), 2U);
}

TEST_F(preload_block_table, is_as_it_was_where_memory_is_refused) {
  std::uintptr_t refused = 0;
  ASSERT_TRUE(table->insert({1 << 20, 1, 1, 1}));
  budget.set_limit(budget.bytes() + 100'000);
  for (std::uintptr_t address = 2 << 20; refused == 0; address += 32) {
    const std::size_t before = table->size();
    if (table->insert({address, 7, 8, 3})) continue;
    refused = address;
    EXPECT_EQ(table->size(), before);
  }
  const auto all = contents();
  EXPECT_EQ(all.size(), table->size());
  EXPECT_FALSE(all.contains(refused));
  EXPECT_TRUE(table->erase(refused - 32)) << "blocks can still go";
  budget.set_limit(std::size_t{1} << 30);
  EXPECT_TRUE(table->insert({refused, 7, 8, 3})) << "and come again where there is memory";
}

TEST_F(preload_block_table, lets_threads_take_out_what_others_put_in) {
  constexpr int threads = 4;
  constexpr std::uintptr_t each = 20'000;
  std::atomic<std::uintptr_t> published[threads] = {};
  test::on_threads(threads, [&](int t) {
    const auto address = [](int of, std::uintptr_t i) { return (std::uintptr_t(of + 1) << 32) + 48 * i; };
    const int other = (t + 1) % threads;
    // Every second block of the other thread.
    std::uintptr_t next = 0;
    const auto take = [&] {
      for (; next < published[other].load(std::memory_order_acquire); next += 2) {
        block_record removed{};
        ASSERT_TRUE(table->erase(address(other, next), &removed));
        ASSERT_EQ(removed.asked, next);
      }
    };
    for (std::uintptr_t i = 0; i < each; ++i) {
      ASSERT_TRUE(table->insert({address(t, i), i, i, 1}));
      published[t].store(i + 1, std::memory_order_release);
      take();
      if (i % 5000 == 0) {
        table->lock_all();
        const std::size_t counted = table->size();
        std::size_t seen = 0;
        table->visit([&](const block_record&) { ++seen; });
        table->unlock_all();
        EXPECT_EQ(seen, counted) << "nothing changes while all is locked";
      }
    }
    while (next < each) {
      take();
      std::this_thread::yield();
    }
  });
  EXPECT_EQ(table->size(), threads * each / 2);
  EXPECT_EQ(table->inserted(), threads * each);
}

}  // namespace
}  // namespace espalier::preload
