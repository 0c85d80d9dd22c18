#include "espalier/memory/baselines/jemalloc_arenas.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "espalier/memory/any_placement.hpp"
#include "memory/placement_audit.hpp"
#include "support/forking.hpp"
#include "support/on_threads.hpp"
#include "support/refusal.hpp"

// This program is linked with jemalloc where the build has one.
extern "C" __attribute__((weak)) int mallctl(const char* name, void* old_value, size_t* old_bytes,
                                             void* new_value, size_t new_bytes);

namespace espalier {
namespace {

constexpr block node{40, 8, memory_role::node};
constexpr block leaf{40, 8, memory_role::leaf};

unsigned arena_of(void* memory) {
  unsigned arena = 0;
  std::size_t bytes = sizeof arena;
  EXPECT_EQ(mallctl("arenas.lookup", &arena, &bytes, static_cast<void*>(&memory), sizeof memory), 0);
  return arena;
}

unsigned arenas() {
  unsigned count = 0;
  std::size_t bytes = sizeof count;
  EXPECT_EQ(mallctl("arenas.narenas", &count, &bytes, nullptr, 0), 0);
  return count;
}

bool exists(unsigned arena) {
  char what[40];
  std::snprintf(what, sizeof what, "arena.%u.initialized", arena);
  bool initialized = false;
  std::size_t bytes = sizeof initialized;
  return mallctl(what, &initialized, &bytes, nullptr, 0) == 0 && initialized;
}

TEST(without_jemalloc, it_says_what_would_bring_it) {
  if (jemalloc_arenas::available()) {
    EXPECT_EQ(jemalloc_arenas::why_not(), "");
    return;
  }
  const std::string why = test::refusal<std::runtime_error>([] { return jemalloc_arenas().usage().blocks; });
  EXPECT_EQ(why, jemalloc_arenas::why_not());
  EXPECT_THAT(why, testing::HasSubstr("LD_PRELOAD"));
}

class on_jemalloc : public testing::Test {
 protected:
  void SetUp() override {
    if (!jemalloc_arenas::available()) GTEST_SKIP() << jemalloc_arenas::why_not();
  }
};

TEST_F(on_jemalloc, it_keeps_its_promises) {
  for (const auto keeps : {any_placement::recording::off, any_placement::recording::on}) {
    const auto make = [&] { return any_placement("jemalloc_arenas", keeps); };
    any_placement source = make();
    EXPECT_EQ(test::audit(source), "");
    EXPECT_EQ(test::every_size(source), "");
    EXPECT_EQ(test::refusals(make), "");
  }
}

TEST_F(on_jemalloc, each_role_and_thread_has_an_arena_of_its_own) {
  jemalloc_arenas source;
  constexpr int threads = 3;
  std::barrier together(threads);
  std::array<std::array<std::set<unsigned>, memory_role_count>, threads> of;
  test::on_threads(threads, [&](int t) {
    for (int i = 0; i < 3000; ++i) {
      for (unsigned role = 0; role < memory_role_count; ++role) {
        const std::size_t bytes = i % 100 == 0 ? 20000U : 40U;
        void* const memory = source.allocate({bytes, 8, static_cast<memory_role>(role)});
        of[static_cast<std::size_t>(t)][role].insert(arena_of(memory));
      }
    }
    together.arrive_and_wait();  // a slot that came free would pass on its arenas
  });
  std::set<unsigned> all;
  for (const auto& of_thread : of) {
    for (const auto& of_role : of_thread) {
      EXPECT_EQ(of_role.size(), 1U);
      all.insert(of_role.begin(), of_role.end());
    }
  }
  EXPECT_EQ(all.size(), threads * memory_role_count);
  void* const heap = std::malloc(40);
  EXPECT_FALSE(all.contains(arena_of(heap)));
  std::free(heap);
}

TEST_F(on_jemalloc, blocks_that_another_thread_freed_never_change_their_role) {
  jemalloc_arenas source;
  std::vector<void*> nodes(2000);
  std::set<unsigned> node_arenas;
  for (void*& n : nodes) {
    n = source.allocate(node);
    node_arenas.insert(arena_of(n));
  }
  std::thread([&] {
    node_arenas.insert(arena_of(source.allocate(node)));
    for (void* const n : nodes) source.deallocate(n, node);
    for (int i = 0; i < 3000; ++i) {
      EXPECT_TRUE(node_arenas.contains(arena_of(source.allocate(node))));
      EXPECT_FALSE(node_arenas.contains(arena_of(source.allocate(leaf))));
      void* const heap = std::malloc(40);
      EXPECT_FALSE(node_arenas.contains(arena_of(heap)));
      std::free(heap);
    }
  }).join();
  // A thread that has allocated nothing has no caches to put them in.
  void* const last = source.allocate(leaf);
  const std::uint64_t before = source.usage().blocks;
  std::thread([&] { source.deallocate(last, leaf); }).join();
  EXPECT_EQ(source.usage().blocks, before - 1);
}

TEST_F(on_jemalloc, destruction_frees_arenas_with_blocks_in_use) {
  std::set<unsigned> used;
  {
    jemalloc_arenas source;
    for (int i = 0; i < 100000; ++i) used.insert(arena_of(source.allocate(i % 2 == 0 ? node : leaf)));
    EXPECT_GE(source.usage().bytes_reserved, 100000U * 40);
    EXPECT_LE(source.usage().bytes_reserved, 100000U * 40 * 3 / 2);
    for (const unsigned arena : used) EXPECT_TRUE(exists(arena));
  }
  for (const unsigned arena : used) EXPECT_FALSE(exists(arena));
  const unsigned before = arenas();
  for (int i = 0; i < 50; ++i) (void)jemalloc_arenas().allocate(node);
  EXPECT_EQ(arenas(), before) << "their numbers are used again";
}

TEST_F(on_jemalloc, caches_of_threads_that_a_fork_loses_are_left_behind) {
  jemalloc_arenas source;
  static_cast<void>(source.allocate(node));
  std::atomic<bool> end{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (!end.load(std::memory_order_relaxed)) {
        std::array<void*, 100> blocks{};
        for (void*& one : blocks) one = source.allocate(node);
        for (void* one : blocks) source.deallocate(one, node);
      }
    });
  }
  int status = 0;
  for (int child = 0; child < 30 && status == 0; ++child) {
    status = test::in_forked_copy([&] {
      // As many threads as were lost: each gets the slot of one, with its arenas.
      std::atomic<bool> wrong{false};
      test::on_threads(5, [&](int t) {
        std::vector<void*> blocks(2000);
        for (void*& one : blocks) std::memset(one = source.allocate(node), t, node.bytes);
        for (void* one : blocks) {
          if (*static_cast<char*>(one) != t) wrong = true;
          source.deallocate(one, node);
        }
      });
      return wrong ? 1 : 0;
    });
  }
  end = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(status, 0);
}

TEST_F(on_jemalloc, where_arenas_run_out_the_first_of_a_role_serves_all) {
  jemalloc_arenas source;
  void* const first = source.allocate(node);
  std::deque<jemalloc_arenas> others;
  bool refused = false;
  while (!refused && others.size() < 6000) {
    others.emplace_back();
    try {
      (void)others.back().allocate(node);
    } catch (const std::bad_alloc&) {
      refused = true;
      EXPECT_EQ(others.back().usage().blocks, 0U);
    }
  }
  EXPECT_TRUE(refused);
  std::thread([&] {
    void* const second = source.allocate(node);
    EXPECT_EQ(arena_of(second), arena_of(first));
    source.deallocate(second, node);
    source.deallocate(first, node);
  }).join();
  EXPECT_EQ(source.usage().blocks, 0U);
}

}  // namespace
}  // namespace espalier
