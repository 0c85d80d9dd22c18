#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "espalier/hw/pages.hpp"
#include "espalier/memory/any_placement.hpp"
#include "espalier/memory/clustered.hpp"
#include "espalier/memory/index_aware.hpp"
#include "espalier/memory/parts/cluster_slab.hpp"
#include "espalier/memory/segregated.hpp"
#include "scheduled/expect.hpp"

namespace {

using namespace espalier;
using sim::scene;

constexpr std::size_t block_bytes = 32;
constexpr block node_request{block_bytes, alignof(std::uint64_t), memory_role::node};

sim::exploration_options with_many_blocks() {
  sim::exploration_options o;
  o.step_budget = 200'000;  // hundreds of blocks, each recorded
  return o;
}

/// A block in use has its owner's mark in all its words. If it is handed out twice, it has another owner's.
struct marked_block {
  std::uint64_t words[block_bytes / sizeof(std::uint64_t)];

  void mark(std::uint64_t by) {
    for (std::uint64_t& w : words) w = by;
  }
  void check(std::uint64_t by) const {
    for (const std::uint64_t w : words)
      sim::require(w == by, "a block in use is written to by another owner");
  }
};

// A common interface of what hands out blocks.

/// Clusters larger than those of `clustered`.
class large_cluster_source {
 public:
  void* take(const void* near = nullptr) { return memory_.allocate(near); }
  void give(void* memory) noexcept { memory_.deallocate(memory); }
  [[nodiscard]] memory_usage usage() const noexcept { return memory_.usage(); }

 private:
  cluster_slab memory_{block_bytes, 8};
};

template <class Placement>
class placement_source {
 public:
  void* take(const void* near = nullptr) { return memory_.allocate(node_request, near); }
  void give(void* memory) noexcept { memory_.deallocate(memory, node_request); }
  [[nodiscard]] memory_usage usage() const noexcept { return memory_.usage(); }

 private:
  Placement memory_;
};

class chosen_source {
 public:
  void* take(const void* near = nullptr) { return memory_.allocate(node_request, near); }
  void give(void* memory) noexcept { memory_.deallocate(memory, node_request); }
  [[nodiscard]] memory_usage usage() const noexcept {
    std::uint64_t live = 0;
    memory_.for_each_live([&](const live_block&) { ++live; });
    sim::require(live == memory_.usage().blocks, "every block in use is recorded");
    return memory_.usage();
  }

 private:
  any_placement memory_{"clustered", any_placement::recording::on};
};

/// The blocks of one thread, with its mark.
template <class Source, std::size_t Most>
class holder {
 public:
  holder(Source& source, std::uint64_t mark) : source_(source), mark_(mark) {}

  void* take(const void* near = nullptr) {
    auto* const b = static_cast<marked_block*>(source_.take(near));
    sim::require(reinterpret_cast<std::uintptr_t>(b) % alignof(std::uint64_t) == 0, "a block is aligned");
    b->mark(mark_);
    blocks_[count_++] = b;
    return b;
  }
  void give_all() {
    for (std::size_t i = 0; i < count_; ++i) blocks_[i]->check(mark_);
    for (std::size_t i = 0; i < count_; ++i) source_.give(blocks_[i]);
    count_ = 0;
  }

 private:
  Source& source_;
  std::uint64_t mark_;
  std::array<marked_block*, Most> blocks_{};
  std::size_t count_ = 0;
};

template <class Source>
class placements : public ::testing::Test {};

using all_sources =
    ::testing::Types<large_cluster_source, placement_source<segregated>, placement_source<clustered>,
                     placement_source<index_aware>, chosen_source>;
TYPED_TEST_SUITE(placements, all_sources);

void require_empty(memory_usage usage) {
  sim::require(usage.blocks == 0 && usage.bytes_in_use == 0, "no block is in use at the end");
}

TYPED_TEST(placements, hand_out_no_block_twice) {
  sim::expect_kept_in_all_models(
      1500,
      [](scene& s) {
        auto& source = s.make<TypeParam>();
        for (std::uint64_t t = 1; t <= 3; ++t) {
          s.thread(std::to_string(t), [&source, t] {
            holder<TypeParam, 4> mine(source, t);
            for (int round = 0; round < 2; ++round) {
              for (int i = 0; i < 3; ++i) mine.take();
              mine.give_all();
            }
          });
        }
        s.at_end([&source] { require_empty(source.usage()); });
      },
      with_many_blocks());
}

/// All request memory near one block, which stays; and each near its own.
TYPED_TEST(placements, share_the_room_beside_a_block) {
  sim::expect_kept_in_all_models(
      3000,
      [](scene& s) {
        auto& source = s.make<TypeParam>();
        void* const wanted = source.take();
        for (std::uint64_t t = 1; t <= 3; ++t) {
          s.thread(std::to_string(t), [&source, wanted, t] {
            holder<TypeParam, 4> mine(source, t);
            for (int round = 0; round < 2; ++round) {
              const void* const own = mine.take(wanted);
              mine.take(own);
              mine.give_all();
            }
          });
        }
        s.at_end([&source, wanted] {
          source.give(wanted);
          require_empty(source.usage());
        });
      },
      with_many_blocks());
}

/// Two threads free adjacent blocks while a third allocates: the last free releases the whole cluster.
TYPED_TEST(placements, neighbours_freed_by_two_threads) {
  sim::expect_kept_in_all_models(
      3000,
      [](scene& s) {
        auto& source = s.make<TypeParam>();
        void* const first = source.take();
        void* const second = source.take(first);
        s.thread("gives first", [&source, first] {
          source.give(first);
          holder<TypeParam, 2> mine(source, 1);
          mine.take(mine.take());
          mine.give_all();
        });
        s.thread("gives second", [&source, second] {
          source.give(second);
          holder<TypeParam, 2> mine(source, 2);
          mine.take(mine.take());
          mine.give_all();
        });
        s.thread("takes", [&source] {
          holder<TypeParam, 4> mine(source, 3);
          mine.take(mine.take());
          mine.take(mine.take());
          mine.give_all();
        });
        s.at_end([&source] { require_empty(source.usage()); });
      },
      with_many_blocks());
}

/// Enough blocks for the batches that move one thread's memory to another.
TYPED_TEST(placements, batches_from_thread_to_thread) {
  sim::expect_kept_in_all_models(
      60,
      [](scene& s) {
        constexpr std::size_t many = 270;
        auto& source = s.make<TypeParam>();
        auto& blocks = s.make<std::array<std::atomic<void*>, many>>();
        for (auto& b : blocks) {
          void* const memory = source.take();
          static_cast<marked_block*>(memory)->mark(99);
          b.store(memory);
        }
        s.thread("gives", [&] {
          for (auto& b : blocks) {
            void* const memory = b.exchange(nullptr);
            if (memory == nullptr) continue;
            static_cast<marked_block*>(memory)->check(99);
            source.give(memory);
          }
        });
        for (std::uint64_t t = 1; t <= 2; ++t) {
          s.thread(std::to_string(t), [&, t] {
            holder<TypeParam, 160> mine(source, t);
            for (std::size_t i = 0; i < 60; ++i) {
              mine.take();
              if (void* const memory = blocks[many - 1 - i].exchange(nullptr)) source.give(memory);
            }
            for (std::size_t i = 0; i < 80; ++i) mine.take();
            mine.give_all();
            for (std::size_t i = 0; i < 70; ++i) mine.take();
            mine.give_all();
          });
        }
        s.at_end([&] {
          for (auto& b : blocks) sim::require(b.load() == nullptr, "every block was given back");
          require_empty(source.usage());
        });
      },
      with_many_blocks());
}

/// Includes pages that a previous exploration has used.
TEST(pages, are_zero) {
  for (int exploration = 0; exploration < 2; ++exploration) {
    sim::expect_kept_in_all_models(
        10,
        [](scene& s) {
          auto& kept = s.make<hw::page_run>(hw::map_pages(1));
          sim::require(kept.data()[10] == std::byte{}, "a mapped page is zero");
          s.thread("writes", [&kept] { kept.data()[10] = std::byte{1}; });
          // Pages that are freed out of order are cleared later.
          s.make<hw::page_run>(hw::map_pages(1));
          s.at_end([&kept] { kept = {}; });
        },
        with_many_blocks());
  }
}

}  // namespace
