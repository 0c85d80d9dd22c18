#include "espalier/inspect/registry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/forking.hpp"
#include "support/sanitizers.hpp"

namespace espalier::inspect {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct session {
  std::uint64_t id;
  session* next;
  char rest[16];
};

std::uint64_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

TEST(registry, gathers_the_blocks_of_every_type) {
  std::array<session, 3> pool{};
  std::array<char, 64> text{};
  const registered_type sessions("session", [&](auto visit) {
    for (const session& s : pool) visit(&s, sizeof s, sizeof s + 16);
  });
  const registered_type texts(block_type{"text", true, {{0, 8}}, {}}, [&](auto visit) { visit(&text, 10); });
  const snapshot s = take_snapshot("a test");
  EXPECT_EQ(s.subject, "a test");
  ASSERT_EQ(s.types.size(), 2u);
  EXPECT_EQ(s.types[0].name, "session");
  EXPECT_EQ(s.types[1], (block_type{"text", true, {{0, 8}}, {}}));
  ASSERT_EQ(s.blocks.size(), 4u);
  const auto is_text = [](const live_block& b) { return b.type == 1; };
  EXPECT_EQ(std::ranges::count_if(s.blocks, is_text), 1);
  EXPECT_EQ(*std::ranges::find_if(s.blocks, is_text), (live_block{address(&text), 10, 0, 1}));
  EXPECT_EQ(*std::ranges::find(s.blocks, address(&pool[0]), &live_block::address),
            (live_block{address(&pool[0]), sizeof(session), 16, 0}));
  // Whoever may not see frames is told so, but they were asked for.
  EXPECT_NE(s.frames_unknown, snapshot{}.frames_unknown);
  EXPECT_EQ(s.links_unknown, snapshot{}.links_unknown);
}

TEST(registry, a_type_is_registered_as_long_as_it_lives) {
  registry own;
  int one = 0;
  EXPECT_THAT(own.take_snapshot("none").types, IsEmpty());
  std::optional<registered_type> first(std::in_place, "first", [&](auto visit) { visit(&one, 4); }, own);
  EXPECT_EQ(own.take_snapshot("one").blocks.size(), 1u);
  const registered_type second("second", [](auto) {}, own);
  first.reset();
  const snapshot s = own.take_snapshot("another");
  EXPECT_THAT(s.blocks, IsEmpty());
  ASSERT_EQ(s.types.size(), 1u);
  EXPECT_EQ(s.types[0].name, "second");
  EXPECT_THAT(take_snapshot("of the process").types, IsEmpty());
}

TEST(registry, pools_of_one_type_are_one) {
  registry own;
  std::array<int, 3> pools{};
  const registered_type a("node", [&](auto visit) { visit(&pools[0], 4); }, own);
  const registered_type b("node", [&](auto visit) { visit(&pools[1], 4); }, own);
  const registered_type c(block_type{"node", true, {}, {}}, [&](auto visit) { visit(&pools[2], 4); }, own);
  const snapshot s = own.take_snapshot("test");
  EXPECT_EQ(s.types.size(), 2u);
  EXPECT_THAT(s.blocks,
              ElementsAre(live_block{address(&pools[0]), 4, 0, 0}, live_block{address(&pools[1]), 4, 0, 0},
                          live_block{address(&pools[2]), 4, 0, 1}));
}

TEST(registry, pointers_where_they_are_asked_for) {
  registry own;
  std::array<session, 2> pool{};
  pool[0].next = &pool[1];
  const registered_type sessions(
      "session",
      [&](auto visit) {
        for (const session& s : pool) visit(&s, sizeof s);
      },
      own);
  EXPECT_THAT(own.take_snapshot("test", {.frames = false, .links = true}).links, ElementsAre(link{0, 1}));
  EXPECT_EQ(own.take_snapshot("test", {.frames = false}).frames_unknown, snapshot{}.frames_unknown);
}

TEST(registry, a_block_is_held_in_no_less_than_it_has) {
  registry own;
  const registered_type odd(
      "odd",
      [](auto visit) {
        visit(reinterpret_cast<const void*>(0x1000), 16, 8);
        visit(reinterpret_cast<const void*>(0x2000), 16, std::size_t{1} << 40U);
      },
      own);
  const snapshot s = own.take_snapshot("test", {.frames = false});
  EXPECT_EQ(s.blocks[0].held(), 16u);
  EXPECT_EQ(s.blocks[1].slack, 0xffffffffu);
}

TEST(registry, what_goes_wrong_in_a_walk_is_passed_on) {
  registry own;
  const int one = 0;
  const registered_type twice(
      "twice",
      [&](auto visit) {
        visit(&one, 4);
        visit(&one, 4);
      },
      own);
  EXPECT_THROW(static_cast<void>(own.take_snapshot("test")), std::invalid_argument);
  registry other;
  const registered_type thrower("thrower", [](auto) { throw std::runtime_error("no"); }, other);
  EXPECT_THROW(static_cast<void>(other.take_snapshot("test")), std::runtime_error);
  // And the registry goes on.
  EXPECT_THROW(static_cast<void>(other.take_snapshot("test")), std::runtime_error);
}

TEST(registry, snapshots_beside_pools_that_come_and_go) {
  registry own;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      do {
        // Dies before what it lists: the destructor must wait for whoever walks it.
        std::mutex lock;
        std::vector<std::uint64_t> pool(10);
        const registered_type mine(
            "pool",
            [&](auto visit) {
              const std::scoped_lock held(lock);
              for (const auto& element : pool) visit(&element, sizeof element);
            },
            own);
        const std::scoped_lock held(lock);
        pool.resize(pool.size() + 1);
      } while (!stop.load());
    });
  }
  for (int i = 0; i < 300; ++i) {
    const snapshot s = own.take_snapshot("test", {.frames = false});
    EXPECT_LE(s.blocks.size(), 33u);
    EXPECT_LE(s.types.size(), 1u);
  }
  stop.store(true);
  for (std::thread& t : threads) t.join();
  EXPECT_THAT(own.take_snapshot("test").types, IsEmpty());
}

TEST(registry, a_child_of_a_process_whose_thread_takes_a_snapshot) {
  if (test::thread_sanitizer || test::address_sanitizer) GTEST_SKIP() << "it does not fork among threads";
  registry all;
  std::atomic<bool> stops{true};
  std::atomic<bool> walking{false};
  std::atomic<bool> go_on{false};
  const session one{};
  const registered_type sessions(
      "session",
      [&](auto visit) {
        visit(&one, sizeof one);
        if (!stops.exchange(false)) return;
        walking = true;
        walking.notify_all();
        go_on.wait(false);
      },
      all);
  std::thread other([&] { static_cast<void>(all.take_snapshot("in the parent")); });
  walking.wait(false);
  EXPECT_EQ(test::in_forked_copy([&] {
              const snapshot before = all.take_snapshot("in the child");
              if (before.blocks.size() != 1) return 1;
              const registered_type more("more", [&](auto visit) { visit(&go_on, sizeof go_on); }, all);
              return all.take_snapshot("in the child").blocks.size() == 2 ? 0 : 2;
            }),
            0);
  go_on = true;
  go_on.notify_all();
  other.join();
}

}  // namespace
}  // namespace espalier::inspect
