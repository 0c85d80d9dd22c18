#include "espalier/memory/recorded.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <new>
#include <random>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "espalier/memory/segregated.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "support/on_threads.hpp"
#include "support/reexecute.hpp"
#include "support/sanitizers.hpp"

namespace espalier {
namespace {

static_assert(heap_placement<recorded<shared_heap>> && !heap_placement<recorded<segregated>>);
static_assert(recorded<segregated>::releases_on_destruction &&
              !recorded<shared_heap>::releases_on_destruction);

using facts = std::tuple<std::size_t, std::size_t, memory_role>;

facts facts_of(const block& b) { return {b.bytes, b.align, b.role}; }

template <class Placement>
std::map<void*, facts> live_in(const Placement& source) {
  std::map<void*, facts> found;
  source.for_each_live([&](const live_block& one) {
    EXPECT_TRUE(found.emplace(one.memory, facts_of(one.asked)).second) << "visited twice";
  });
  return found;
}

TEST(recorded, knows_each_block_in_use_as_it_was_asked_for) {
  recorded<shared_heap> source;
  EXPECT_TRUE(live_in(source).empty());
  std::map<void*, facts> expected;
  std::vector<std::pair<void*, block>> blocks;
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    if (random() % 3 != 0 || blocks.empty()) {
      const block b{1 + random() % 200, std::size_t{1} << (random() % 8),
                    static_cast<memory_role>(random() % memory_role_count)};
      void* const memory = source.allocate(b);
      blocks.emplace_back(memory, b);
      expected[memory] = facts_of(b);
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const auto [memory, b] = blocks.back();
      blocks.pop_back();
      source.deallocate(memory, b);
      expected.erase(memory);
    }
    if (i == 10 || i == 5000) {
      EXPECT_EQ(live_in(source), expected);
    }
  }
  EXPECT_EQ(live_in(source), expected);
  EXPECT_EQ(source.usage().blocks, expected.size());
  EXPECT_GE(source.record_bytes(), expected.size() * 32);
  for (const auto& [memory, b] : blocks) source.deallocate(memory, b);
  EXPECT_TRUE(live_in(source).empty());
}

TEST(recorded, leaves_the_layout_below_alone) {
  recorded<segregated> source;
  segregated plain;
  // As far as the first span reaches, which lies where the system will have it.
  const auto offsets = [](auto& from) {
    const block b{40, 8, memory_role::node};
    std::vector<std::ptrdiff_t> all;
    std::byte* first = nullptr;
    for (int i = 0; i < 1500; ++i) {
      auto* const memory = static_cast<std::byte*>(from.allocate(b));
      if (first == nullptr) first = memory;
      all.push_back(memory - first);
      if (i % 5 == 4) from.deallocate(memory, b);
    }
    return all;
  };
  EXPECT_EQ(offsets(source), offsets(plain));
}

TEST(recorded, threads_that_free_each_others_blocks_lose_nothing) {
  recorded<segregated> source;
  constexpr int threads = 4;
  const block b{48, 16, memory_role::node};
  std::array<std::atomic<void*>, 64> mailbox{};
  test::on_threads(threads, [&](int t) {
    std::mt19937 random(static_cast<unsigned>(t));
    for (int i = 0; i < 5000; ++i) {
      void* const mine = source.allocate(b);
      if (void* const theirs = mailbox[random() % mailbox.size()].exchange(mine, std::memory_order_acq_rel))
        source.deallocate(theirs, b);
      if (i % 1000 == 0) {
        std::set<void*> seen;
        source.for_each_live([&](const live_block& one) {
          EXPECT_TRUE(seen.insert(one.memory).second);
          EXPECT_EQ(facts_of(one.asked), facts_of(b));
        });
      }
    }
  });
  std::map<void*, facts> expected;
  for (const std::atomic<void*>& left : mailbox) {
    if (void* const memory = left.load()) expected[memory] = facts_of(b);
  }
  EXPECT_EQ(live_in(source), expected);
}

/// Serves from memory that it has from the beginning, and refuses on demand.
struct prepared {
  static constexpr std::string_view name = "prepared";
  static constexpr bool releases_on_destruction = true;
  void* allocate(const block&, const void* = nullptr) {
    if (refuse) throw std::bad_alloc();
    ++asked;
    return &memory[next++ % count];
  }
  void deallocate(void*, const block&) noexcept {}
  [[nodiscard]] memory_usage usage() const noexcept { return {}; }

  static constexpr std::size_t count = std::size_t{4} << 20U;
  std::vector<char> memory = std::vector<char>(count);
  std::size_t next = 0;
  std::uint64_t asked = 0;
  bool refuse = false;
};

std::uint64_t count_live(const recorded<prepared>& source) {
  std::uint64_t live = 0;
  source.for_each_live([&](const live_block&) { ++live; });
  return live;
}

TEST(recorded, a_refusal_below_leaves_no_record) {
  recorded<prepared> source;
  const block b{1, 1, memory_role::other};
  (void)source.allocate(b);
  source.below().refuse = true;
  for (int i = 0; i < 300; ++i) EXPECT_THROW((void)source.allocate(b), std::bad_alloc);
  EXPECT_EQ(count_live(source), 1U);
  EXPECT_EQ(source.below().asked, 1U);
}

// In a child: the limit is for the whole process.
TEST(recorded, where_the_record_has_no_room_the_placement_below_is_not_asked) {
  if (test::address_sanitizer || test::thread_sanitizer)
    GTEST_SKIP() << "a sanitizer needs the address space";
  enum outcome { fine, refused_at_once, no_refusal, asked_below, wrong_count, cannot_go_on };
  const int outcome = test::in_forked_child([]() -> int {
    recorded<prepared> source;
    const block b{1, 1, memory_role::other};
    std::vector<void*> blocks;
    blocks.reserve(prepared::count);
    for (int i = 0; i < 10; ++i) blocks.push_back(source.allocate(b));
    rlimit before{};
    getrlimit(RLIMIT_AS, &before);
    rlimit tight = before;
    tight.rlim_cur = 1;  // nothing more is mapped
    setrlimit(RLIMIT_AS, &tight);
    bool refused = false;
    while (!refused && blocks.size() < prepared::count) {
      try {
        blocks.push_back(source.allocate(b));
      } catch (const std::bad_alloc&) {
        refused = true;
      }
    }
    const std::uint64_t live = count_live(source);
    setrlimit(RLIMIT_AS, &before);
    if (!refused) return no_refusal;
    // Tables that could not grow in between must do.
    if (blocks.size() < 1000) return refused_at_once;
    if (source.below().asked != blocks.size()) return asked_below;
    if (live != blocks.size()) return wrong_count;
    try {
      for (int i = 0; i < 5000; ++i) blocks.push_back(source.allocate(b));
    } catch (const std::bad_alloc&) {
      return cannot_go_on;
    }
    for (void* const memory : blocks) source.deallocate(memory, b);
    return count_live(source) == 0 ? fine : wrong_count;
  });
  EXPECT_EQ(outcome, fine);
}

}  // namespace
}  // namespace espalier
