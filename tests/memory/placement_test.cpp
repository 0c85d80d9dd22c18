#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "espalier/memory/clustered.hpp"
#include "espalier/memory/extra_allocations.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/memory/pmr.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "espalier/memory/shifted.hpp"

// What every placement promises, found out by one audit; placements that break one promise each show that
// the audit would notice.

namespace espalier {
namespace {

struct held_block {
  std::byte* memory;
  block asked;
  std::uint8_t pattern;
};

/// Two threads allocate blocks of many sizes, alignments and roles, fill them, and free each other's. Returns
/// the first broken promise, or nothing.
template <placement Placement>
std::string audit(Placement& source) {
  std::atomic<const char*> wrong{nullptr};
  std::vector<held_block> held[2];
  std::barrier step(2);
  const auto worker = [&](unsigned t) {
    std::mt19937 random(t + 1);
    for (int round = 0; round < 3; ++round) {
      std::vector<held_block>& mine = held[t];
      for (unsigned i = 0; i < 1500; ++i) {
        const std::size_t align = std::size_t{1} << (random() % 8);
        const std::size_t bytes = 1 + random() % (i % 50 == 0 ? 4000 : 130);
        const block b{bytes, align, static_cast<memory_role>(random() % memory_role_count)};
        const void* const near = mine.empty() || i % 2 == 0 ? nullptr : mine[random() % mine.size()].memory;
        auto* const memory = static_cast<std::byte*>(source.allocate(b, near));
        if (reinterpret_cast<std::uintptr_t>(memory) % align != 0) wrong = "a block is not aligned";
        const auto pattern = static_cast<std::uint8_t>(random());
        std::memset(memory, pattern, bytes);
        mine.push_back({memory, b, pattern});
      }
      step.arrive_and_wait();
      if (t == 0) {
        std::vector<held_block> all = held[0];
        all.insert(all.end(), held[1].begin(), held[1].end());
        std::uint64_t bytes = 0;
        for (const held_block& h : all) {
          bytes += h.asked.bytes;
          const bool intact = std::all_of(h.memory, h.memory + h.asked.bytes,
                                          [&](std::byte b) { return b == std::byte{h.pattern}; });
          if (!intact) wrong = "a block was overwritten";
        }
        std::sort(all.begin(), all.end(),
                  [](const held_block& a, const held_block& b) { return a.memory < b.memory; });
        for (std::size_t i = 1; i < all.size(); ++i) {
          if (all[i - 1].memory + all[i - 1].asked.bytes > all[i].memory) wrong = "blocks overlap";
        }
        const memory_usage usage = source.usage();
        if (usage.blocks != all.size()) wrong = "the number of blocks is wrong";
        if (usage.bytes_in_use < bytes) wrong = "fewer bytes in use than were asked for";
        if (usage.bytes_reserved < usage.bytes_in_use) wrong = "fewer bytes reserved than in use";
      }
      step.arrive_and_wait();
      std::vector<held_block>& theirs = held[1 - t];
      std::shuffle(theirs.begin(), theirs.end(), random);
      for (const held_block& h : theirs) source.deallocate(h.memory, h.asked);
      step.arrive_and_wait();
      mine.clear();
    }
  };
  std::thread other(worker, 1U);
  worker(0);
  other.join();
  if (wrong == nullptr && (source.usage().blocks != 0 || source.usage().bytes_in_use != 0))
    wrong = "what was freed still counts";
  return wrong == nullptr ? "" : wrong.load();
}

template <class Placement>
class placements : public testing::Test {};

using shipped = testing::Types<segregated, shared_heap, pmr_placement, clustered, shifted<shared_heap>,
                               extra_allocations<shared_heap>, extra_allocations<segregated>>;
TYPED_TEST_SUITE(placements, shipped);

TYPED_TEST(placements, keep_their_promises) {
  TypeParam source;
  EXPECT_EQ(audit(source), "");
  EXPECT_FALSE(TypeParam::name.empty());
}

TYPED_TEST(placements, die_with_blocks_in_use_only_where_they_say_so) {
  // Small blocks are left to those that release them: a leak checker objects where the promise is false.
  TypeParam source;
  for (const std::size_t bytes : {16U, 32U, 40U, 64U}) {
    for (unsigned role = 0; role < memory_role_count; ++role) {
      const block b{bytes, 8, static_cast<memory_role>(role)};
      void* const memory = source.allocate(b);
      std::memset(memory, 1, bytes);
      if (!TypeParam::releases_on_destruction(bytes)) source.deallocate(memory, b);
    }
  }
}

struct misaligning : shared_heap {
  void* allocate(const block& b, const void* near = nullptr) {
    return static_cast<std::byte*>(shared_heap::allocate({b.bytes + 1, b.align, b.role}, near)) + 1;
  }
  void deallocate(void* memory, const block& b) noexcept {
    shared_heap::deallocate(static_cast<std::byte*>(memory) - 1, {b.bytes + 1, b.align, b.role});
  }
};

/// Hands out blocks that begin within the block before.
struct overlapping {
  static constexpr std::string_view name = "overlapping";
  static constexpr bool releases_on_destruction(std::size_t) noexcept { return true; }
  void* allocate(const block& b, const void* = nullptr) {
    const std::lock_guard hold(lock);
    next = (next + b.align - 1) / b.align * b.align;
    void* const memory = &arena[next];
    next += b.bytes - b.bytes / 4;
    ++count.blocks;
    count.bytes_in_use += b.bytes;
    count.bytes_reserved += b.bytes;
    return memory;
  }
  void deallocate(void*, const block& b) noexcept {
    const std::lock_guard hold(lock);
    --count.blocks;
    count.bytes_in_use -= b.bytes;
    count.bytes_reserved -= b.bytes;
  }
  [[nodiscard]] memory_usage usage() const noexcept { return count; }

  std::mutex lock;
  alignas(128) std::byte arena[std::size_t{4} << 20U];
  std::size_t next = 0;
  memory_usage count;
};

struct forgetting : shared_heap {
  [[nodiscard]] memory_usage usage() const noexcept {
    memory_usage u = shared_heap::usage();
    if (u.blocks != 0) --u.blocks;
    return u;
  }
};

struct leaking_count : shared_heap {
  [[nodiscard]] memory_usage usage() const noexcept {
    memory_usage u = shared_heap::usage();
    if (u.blocks == 0) u.blocks = 1;
    return u;
  }
};

TEST(control, broken_placements_are_caught) {
  EXPECT_EQ(audit(*std::make_unique<misaligning>()), "a block is not aligned");
  EXPECT_EQ(audit(*std::make_unique<overlapping>()), "blocks overlap");
  EXPECT_EQ(audit(*std::make_unique<forgetting>()), "the number of blocks is wrong");
  EXPECT_EQ(audit(*std::make_unique<leaking_count>()), "what was freed still counts");
}

}  // namespace
}  // namespace espalier
