// What a recording holds: blocks, the stacks that allocated them, and threads.

#include <gmock/gmock.h>
#include <gnu/libc-version.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "espalier/measure/random.hpp"
#include "preload/recording/block_table.hpp"
#include "preload/recording/site_table.hpp"
#include "preload/recording/snapshot_writer.hpp"
#include "preload/recording/thread_records.hpp"
#include "support/on_threads.hpp"

namespace espalier::preload {
namespace {

using inspect::live_block;
using ::testing::ElementsAre;

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
  measure::random_generator random(1);
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

TEST_F(preload_block_table, lets_threads_remove_what_others_inserted) {
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

constexpr std::uintptr_t base = 0x5000'0000;

struct preload_young_blocks : ::testing::Test {
  memory_budget budget;
  block_table table{budget};
  std::unique_ptr<young_blocks> young = std::make_unique<young_blocks>();

  static block_record block(std::uintptr_t address, std::uint64_t asked = 24, std::uint32_t site = 7) {
    return {address, asked, asked + 8, site};
  }
  void put(const block_record& b) {
    ASSERT_TRUE(young->has_room(b.address));
    young->put(b);
  }
  std::vector<std::uintptr_t> there() const {
    std::vector<std::uintptr_t> addresses;
    young->visit([&](const block_record& b) { addresses.push_back(b.address); });
    return addresses;
  }
  /// An address whose block goes to the same place as that of another.
  std::uintptr_t rival_of(std::uintptr_t address) const {
    for (std::uintptr_t other = address + 16;; other += 16) {
      if (!young->has_room(other)) return other;
    }
  }
};

TEST_F(preload_young_blocks, are_taken_as_they_were_put) {
  put(block(base, 100, 3));
  block_record taken{};
  EXPECT_FALSE(young->take(base + 16, &taken));
  EXPECT_TRUE(young->take(base, &taken));
  EXPECT_EQ(taken, block(base, 100, 3));
  EXPECT_FALSE(young->take(base, nullptr)) << "once";
  EXPECT_THAT(there(), ElementsAre());
  EXPECT_EQ(young->not_moved(), 1U);
}

TEST_F(preload_young_blocks, have_room_for_neighbours) {
  // What a thread allocates in a row is what it is likely to give back.
  for (std::uintptr_t i = 0; i < young_blocks::places; ++i) put(block(base + 16 * i));
  EXPECT_EQ(there().size(), young_blocks::places);
}

TEST_F(preload_young_blocks, move_to_the_table_for_another) {
  put(block(base, 100, 3));
  const std::uintptr_t other = rival_of(base);
  EXPECT_FALSE(young->take(other, nullptr)) << "the same place is not the same block";
  EXPECT_TRUE(young->moved(other, table));
  put(block(other));
  EXPECT_THAT(there(), ElementsAre(other));
  EXPECT_EQ(young->not_moved(), 1U) << "the other counts in the table";
  block_record removed{};
  EXPECT_TRUE(table.erase(base, &removed));
  EXPECT_EQ(removed, block(base, 100, 3));
}

TEST_F(preload_young_blocks, of_the_same_address_are_the_latest) {
  put(block(base, 100, 3));
  EXPECT_TRUE(young->holds(base));
  EXPECT_FALSE(young->holds(rival_of(base)));
  EXPECT_EQ(young->asked_for(base), 100U);
  young->put(block(base, 50, 4));
  block_record taken{};
  EXPECT_TRUE(young->take(base, &taken));
  EXPECT_EQ(taken, block(base, 50, 4));
}

TEST_F(preload_young_blocks, tell_of_what_they_replace_in_the_table) {
  ASSERT_TRUE(table.insert(block(base, 100)));
  put(block(base, 50));
  std::uint64_t replaced = 7;
  EXPECT_TRUE(young->moved(base, table, &replaced));
  EXPECT_EQ(replaced, 107U);
  put(block(base, 20));
  put(block(base + 16, 30));
  EXPECT_TRUE(young->all_moved(table, &replaced));
  EXPECT_EQ(replaced, 157U);
}

TEST_F(preload_young_blocks, all_move_when_their_thread_ends) {
  for (std::uintptr_t i = 0; i < 5; ++i) put(block(base + 16 * i));
  EXPECT_TRUE(young->all_moved(table));
  EXPECT_THAT(there(), ElementsAre());
  EXPECT_EQ(table.size(), 5U);
  EXPECT_EQ(young->not_moved(), 0U);
}

TEST_F(preload_young_blocks, are_lost_where_the_table_refuses_them) {
  budget.set_limit(0);
  put(block(base));
  EXPECT_FALSE(young->moved(base, table));
  EXPECT_THAT(there(), ElementsAre()) << "their thread goes on";
}

TEST_F(preload_young_blocks, are_freed_by_others_once) {
  // The owner puts and moves, another thread gives every block back: each is in exactly one of the two places.
  constexpr std::uintptr_t blocks = 20'000;
  std::atomic<std::uintptr_t> handed{0};
  std::uintptr_t from_owner = 0;
  std::uintptr_t from_table = 0;
  std::thread other([&] {
    for (std::uintptr_t i = 0; i < blocks; ++i) {
      while (handed.load(std::memory_order_acquire) <= i) std::this_thread::yield();
      const std::uintptr_t address = base + 16 * i;
      block_record taken{};
      const bool young_still = young->take_of_other(address, &taken);
      (young_still ? from_owner : from_table) += 1;
      ASSERT_TRUE(young_still || table.erase(address, &taken)) << i;
      ASSERT_EQ(taken, block(address, i));
    }
  });
  for (std::uintptr_t i = 0; i < blocks; ++i) {
    const std::uintptr_t address = base + 16 * i;
    if (!young->has_room(address)) {
      ASSERT_TRUE(young->moved(address, table));
    }
    young->put(block(address, i));
    handed.store(i + 1, std::memory_order_release);
  }
  other.join();
  EXPECT_EQ(from_owner + from_table, blocks);
  EXPECT_THAT(there(), ElementsAre());
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(young->not_moved() + table.inserted(), blocks);
}

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

/// Sorts `blocks`, and demands the same as of std::sort. Their bytes grow, so that an order by both keeps
/// blocks with one address as they were.
void expect_sorted(std::vector<live_block> blocks) {
  std::vector<live_block> expected = blocks;
  std::ranges::sort(expected, {}, [](const live_block& b) { return std::pair(b.address, b.bytes); });
  std::vector<live_block> spare(blocks.size());
  const live_block* const sorted = in_address_order(blocks.data(), spare.data(), blocks.size());
  EXPECT_EQ(std::vector<live_block>(sorted, sorted + blocks.size()), expected);
}

std::vector<live_block> blocks_at(std::size_t count, auto&& address) {
  std::vector<live_block> blocks;
  for (std::uint32_t i = 0; i < count; ++i) blocks.push_back({address(i), i, 7, i});
  return blocks;
}

TEST(preload_address_order, is_that_of_comparing) {
  measure::random_generator random(3);
  for (const std::uint64_t mask :
       {std::uint64_t{0xf0}, std::uint64_t{0xffff'fff0}, std::uint64_t{0x7fff'ffff'fff8}, ~std::uint64_t{0},
        std::uint64_t{0x7000'0000'0010}}) {
    for (const std::size_t count : {std::size_t{2}, std::size_t{1000}, std::size_t{30'000}})
      expect_sorted(blocks_at(count, [&](std::uint32_t) { return random.next() & mask; }));
  }
}

TEST(preload_address_order, needs_no_digit_that_all_have_in_common) {
  measure::random_generator random(4);
  expect_sorted(blocks_at(5000, [&](std::uint32_t) { return 0x5555'1230'0000 + random.next() % 4096 * 16; }));
  expect_sorted(blocks_at(5000, [](std::uint32_t i) { return 0x7fff'0000'0000 - std::uint64_t{i} * 32; }));
  expect_sorted(blocks_at(3, [](std::uint32_t) { return std::uint64_t{0x1230}; }));
}

TEST(preload_address_order, has_blocks_that_begin_anywhere) {
  measure::random_generator random(5);
  expect_sorted(blocks_at(1000, [&](std::uint32_t) { return 0x1000 + random.next() % 300; }));
}

TEST(preload_address_order, may_be_of_nothing) {
  EXPECT_EQ(in_address_order(nullptr, nullptr, 0), nullptr);
  expect_sorted({{64, 1, 2, 3}});
}

std::atomic<int> ended{0};
void on_end(void* record) {
  ++ended;
  thread_records::release(*static_cast<thread_record*>(record));
}

memory_budget budget;
// Records stay with the threads of this process until these end.
thread_records records(budget);

struct preload_thread_records : ::testing::Test {
  preload_thread_records() {
    static const bool started = records.start(on_end);
    if (!started) skip = true;
  }
  void SetUp() override {
    if (skip) GTEST_SKIP() << "the kernel has no barrier for all threads of a process";
  }
  bool skip = false;
};

TEST_F(preload_thread_records, are_none_before_the_start) {
  thread_records none(budget);
  EXPECT_EQ(none.acquire(), nullptr);
  none.freeze();
  none.thaw();
}

TEST_F(preload_thread_records, are_different_for_threads_of_one_time_and_come_back) {
  ended = 0;
  std::set<thread_record*> first;
  futex_lock lock;
  std::atomic<int> together{0};
  const auto one = [&](std::set<thread_record*>& to) {
    thread_record* const mine = records.acquire();
    ASSERT_NE(mine, nullptr);
    ++together;
    while (together < 4) std::this_thread::yield();
    const futex_guard guard(lock);
    to.insert(mine);
  };
  test::on_threads(4, [&](int) { one(first); });
  EXPECT_EQ(first.size(), 4U);
  EXPECT_EQ(ended, 4);
  const std::size_t mapped = budget.bytes();
  together = 0;
  std::set<thread_record*> second;
  test::on_threads(4, [&](int) { one(second); });
  EXPECT_EQ(second, first);
  EXPECT_EQ(budget.bytes(), mapped);
}

TEST_F(preload_thread_records, are_none_where_memory_is_refused) {
  memory_budget small(0);
  thread_records refused(small);
  ASSERT_TRUE(refused.start(on_end));
  EXPECT_EQ(refused.acquire(), nullptr);
}

TEST_F(preload_thread_records, keep_their_owners_out_while_frozen) {
  // Owners count twice at work. While they are kept out, both counts are the same and stay what they are.
  constexpr int owners = 3;
  struct counts {
    std::atomic<std::uint64_t> one{0};
    std::atomic<std::uint64_t> other{0};
  };
  std::vector<counts> of(owners);
  std::atomic<bool> stop{false};
  std::atomic<int> ready{0};
  std::thread keeper([&] {
    while (ready < owners) std::this_thread::yield();
    for (int round = 0; round < 300; ++round) {
      records.freeze();
      std::vector<std::uint64_t> seen;
      seen.reserve(of.size());
      for (const counts& c : of) seen.push_back(c.one.load(std::memory_order_relaxed));
      std::this_thread::yield();
      for (int t = 0; t < owners; ++t) {
        EXPECT_EQ(of[static_cast<std::size_t>(t)].one.load(std::memory_order_relaxed),
                  seen[static_cast<std::size_t>(t)]);
        EXPECT_EQ(of[static_cast<std::size_t>(t)].other.load(std::memory_order_relaxed),
                  seen[static_cast<std::size_t>(t)]);
      }
      records.thaw();
    }
    stop = true;
  });
  test::on_threads(owners, [&](int t) {
    thread_record* const mine = records.acquire();
    ASSERT_NE(mine, nullptr);
    counts& my = of[static_cast<std::size_t>(t)];
    ++ready;
    const auto count = [](std::atomic<std::uint64_t>& what) {
      what.store(what.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    };
    while (!stop.load(std::memory_order_relaxed)) {
      const thread_records::working scope(records, *mine);
      count(my.one);
      count(my.other);
    }
  });
  keeper.join();
  for (const counts& c : of) EXPECT_GT(c.one.load(), 0U);
}

TEST_F(preload_thread_records, of_other_threads_have_no_owner_in_a_child) {
  thread_record* const mine = records.acquire();
  ASSERT_NE(mine, nullptr);
  std::atomic<bool> done{false};
  std::atomic<thread_record*> theirs{nullptr};
  std::thread other([&] {
    theirs = records.acquire();
    theirs.load()->busy.store(true);
    while (!done) std::this_thread::yield();
  });
  while (theirs == nullptr || !theirs.load()->busy) std::this_thread::yield();
  records.forget_other_threads(mine);
  EXPECT_FALSE(theirs.load()->busy) << "nobody is there to end its work";
  EXPECT_FALSE(theirs.load()->owned);
  EXPECT_TRUE(mine->owned);
  done = true;
  other.join();
}

}  // namespace
}  // namespace espalier::preload
