// Placements in a child of fork() whose parent's threads were at work in them.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
#include <iterator>
#include <optional>
#include <random>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "espalier/hw/fork_recovery.hpp"
#include "espalier/memory/any_placement.hpp"
#include "espalier/memory/parts/block_cache.hpp"
#include "espalier/memory/parts/live_blocks.hpp"
#include "memory/placement_audit.hpp"
#include "memory/shipped_placements.hpp"
#include "support/forking.hpp"
#include "support/on_threads.hpp"
#include "support/sanitizers.hpp"

namespace espalier {
namespace {

/// Blocks of one thread, filled; looked at whenever one goes.
template <placement Placement>
class inventory {
 public:
  inventory(Placement& source, unsigned seed) : source_(source), random_(seed) {}

  /// False where a block was overwritten.
  bool work(int steps) {
    constexpr std::size_t sizes[] = {16, 32, 32, 40, 64, 200, 1024, 9000};
    for (int i = 0; i < steps; ++i) {
      if (blocks_.size() > 300 || (!blocks_.empty() && random_() % 2 == 0)) {
        std::swap(blocks_[random_() % blocks_.size()], blocks_.back());
        const test::held_block one = blocks_.back();
        blocks_.pop_back();
        if (!one.intact()) return false;
        source_.deallocate(one.memory, one.asked);
        continue;
      }
      const std::size_t bytes = i % 40 == 0 ? 40000 : sizes[random_() % std::size(sizes)];
      const block b{bytes, 8, static_cast<memory_role>(random_() % 2)};
      const void* const near = blocks_.empty() ? nullptr : blocks_.back().memory;
      blocks_.push_back(test::held_block::of(source_, b, static_cast<unsigned>(random_()), near));
    }
    return true;
  }
  [[nodiscard]] bool all_intact() const { return std::ranges::all_of(blocks_, &test::held_block::intact); }
  void free_all() noexcept {
    for (const test::held_block& one : blocks_) source_.deallocate(one.memory, one.asked);
    blocks_.clear();
  }

 private:
  Placement& source_;
  std::mt19937 random_;
  std::vector<test::held_block> blocks_;
};

template <placement Placement>
int allocate_in_child(Placement& source, inventory<Placement>& mine) {
  if (!mine.all_intact()) return 1;
  if (!mine.work(2000)) return 2;
  std::atomic<bool> good{true};
  test::on_threads(5, [&](int t) {
    inventory<Placement> own(source, static_cast<unsigned>(t) + 100);
    if (!own.work(1000)) good = false;
    own.free_all();
  });
  if (!good) return 3;
  if (!mine.all_intact()) return 4;
  mine.free_all();
  static_cast<void>(source.usage());
  return 0;
}

template <placement Placement>
void fork_beside_threads(Placement& source, int children) {
  if (test::thread_sanitizer || test::address_sanitizer)
    GTEST_SKIP() << "the sanitizer does not fork among threads";
  inventory<Placement> mine(source, 1);
  ASSERT_TRUE(mine.work(500));
  std::atomic<bool> end{false};
  std::atomic<bool> good{true};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      inventory<Placement> own(source, t + 2);
      while (!end.load(std::memory_order_relaxed)) {
        if (!own.work(100)) good = false;
      }
      own.free_all();
    });
  }
  int status = 0;
  for (int c = 0; c < children && status == 0; ++c)
    status = test::in_forked_copy([&] { return allocate_in_child(source, mine); });
  end = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(status, 0) << "1 to 4: a block was overwritten; -14: the child hangs";
  EXPECT_TRUE(good && mine.all_intact());
  mine.free_all();
  EXPECT_EQ(source.usage().blocks, 0U);
}

template <class Placement>
class forked_placements : public testing::Test {};

TYPED_TEST_SUITE(forked_placements, test::unnamed_placements);

TYPED_TEST(forked_placements, serve_a_child_whose_threads_are_lost) {
  TypeParam source;
  fork_beside_threads(source, 20);
}

TEST(forked_placements_by_name, serve_a_child_whose_threads_are_lost) {
  for (const std::string_view name : placement_names()) {
    SCOPED_TRACE(name);
    any_placement source(name);
    fork_beside_threads(source, 20);
  }
  any_placement recording("shared_heap", any_placement::recording::on);
  fork_beside_threads(recording, 20);
}

struct small_run {
  std::byte* memory = nullptr;
  std::size_t left = 0;

  void* next() noexcept { return left == 0 ? nullptr : memory + 64 * --left; }
};

/// A source that a thread may be stopped in while it refills.
class stoppable_source {
 public:
  void* allocate(const std::function<void()>& stop = {}) {
    return blocks_.allocate([&](small_run& run) {
      run.memory = pages_.data() + std::exchange(used_, used_ + 64 * per_run);
      if (stop) stop();
      run.left = per_run;
    });
  }
  void deallocate(void* memory) noexcept { blocks_.deallocate(memory); }
  [[nodiscard]] int refills_torn() const noexcept { return torn_; }

 private:
  static constexpr std::size_t per_run = 4;

  std::array<std::byte, std::size_t{256} * 64> pages_{};
  std::size_t used_ = 0;
  int torn_ = 0;
  block_cache<small_run> blocks_{64};
  hw::fork_link after_fork_{this, [](void* one, const hw::fork_survivor& survivor) noexcept {
                              auto& self = *static_cast<stoppable_source*>(one);
                              if (self.blocks_.recover_in_child(survivor, [](const small_run&) {}))
                                ++self.torn_;
                            }};
};

TEST(forked_slab, is_not_locked_by_a_thread_that_was_refilling) {
  if (test::thread_sanitizer || test::address_sanitizer) GTEST_SKIP() << "it does not fork among threads";
  stoppable_source source;
  void* const mine = source.allocate();
  std::memset(mine, 1, 64);
  std::optional<test::stopped_thread> refilling;
  refilling.emplace([&](auto stop) { source.deallocate(source.allocate(stop)); });
  const int status = test::in_forked_copy([&] {
    if (source.refills_torn() != 1) return 1;
    std::vector<void*> all{mine};
    const auto take = [&] { all.push_back(source.allocate()); };
    for (int i = 0; i < 20; ++i) take();
    std::thread([&] {
      for (int i = 0; i < 20; ++i) take();
    }).join();
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (all[i] == all[j]) return 2;
      }
    }
    for (void* one : all) source.deallocate(one);
    return 0;
  });
  EXPECT_EQ(source.refills_torn(), 0) << "the parent's threads are all there";
  refilling.reset();
  EXPECT_EQ(status, 0) << "2: a block is handed out twice; -14: the child hangs";
}

TEST(forked_live_blocks, are_not_locked_by_a_thread_that_was_visiting) {
  if (test::thread_sanitizer || test::address_sanitizer) GTEST_SKIP() << "it does not fork among threads";
  recorded<shared_heap> source;
  std::vector<void*> blocks;
  constexpr block small{32, 8, memory_role::node};
  for (int i = 0; i < 500; ++i) blocks.push_back(source.allocate(small));
  std::optional<test::stopped_thread> visiting;
  visiting.emplace([&](auto stop) {
    source.for_each_live([&, first = true](const live_block&) mutable {
      if (std::exchange(first, false)) stop();
    });
  });
  const int status = test::in_forked_copy([&] {
    std::size_t seen = 0;
    source.for_each_live([&](const live_block&) { ++seen; });
    if (seen != blocks.size()) return 1;
    for (int i = 0; i < 500; ++i) blocks.push_back(source.allocate(small));
    for (void* one : blocks) source.deallocate(one, small);
    seen = 0;
    source.for_each_live([&](const live_block&) { ++seen; });
    return seen == 0 ? 0 : 2;
  });
  visiting.reset();
  for (void* one : blocks) source.deallocate(one, small);
  EXPECT_EQ(status, 0) << "1: a block is missing; -14: the child hangs";
}

}  // namespace
}  // namespace espalier
