// Placements hand out each block once, with one thread or several.

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
#include "scheduled/scenes.hpp"

namespace espalier::sim {
namespace {

constexpr std::size_t block_bytes = 32;
constexpr block node_request{block_bytes, alignof(std::uint64_t), memory_role::node};

/// A block in use has its owner's mark in all its words. If it is handed out twice, it has another owner's.
struct marked_block {
  std::uint64_t words[block_bytes / sizeof(std::uint64_t)];

  void mark(std::uint64_t by) {
    for (std::uint64_t& w : words) w = by;
  }
  void check(std::uint64_t by) const {
    for (const std::uint64_t w : words) require(w == by, "a block in use is written to by another owner");
  }
};

/// What hands out blocks.
class block_source {
 public:
  block_source() = default;
  block_source(const block_source&) = delete;
  block_source& operator=(const block_source&) = delete;
  virtual ~block_source() = default;
  virtual void* take(const void* near = nullptr) = 0;
  virtual void give(void* memory) = 0;
  [[nodiscard]] virtual memory_usage usage() const = 0;
};

/// Clusters larger than those of `clustered`.
class large_cluster_source final : public block_source {
 public:
  void* take(const void* near) override { return memory_.allocate(near); }
  void give(void* memory) override { memory_.deallocate(memory); }
  [[nodiscard]] memory_usage usage() const override { return memory_.usage(); }

 private:
  cluster_slab memory_{block_bytes, 8};
};

template <class Placement>
class placement_source : public block_source {
 public:
  template <class... Arguments>
  explicit placement_source(Arguments... arguments) : memory_(arguments...) {}
  void* take(const void* near) override { return memory_.allocate(node_request, near); }
  void give(void* memory) override { memory_.deallocate(memory, node_request); }
  [[nodiscard]] memory_usage usage() const override { return memory_.usage(); }

 protected:
  Placement memory_;
};

class chosen_source final : public placement_source<any_placement> {
 public:
  chosen_source() : placement_source("clustered", any_placement::recording::on) {}
  [[nodiscard]] memory_usage usage() const override {
    std::uint64_t live = 0;
    memory_.for_each_live([&](const live_block&) { ++live; });
    require(live == memory_.usage().blocks, "every block in use is recorded");
    return memory_.usage();
  }
};

/// The blocks of one thread, with its mark.
template <std::size_t Most>
class holder {
 public:
  holder(block_source& source, std::uint64_t mark) : source_(source), mark_(mark) {}

  void* take(const void* near = nullptr) {
    auto* const b = static_cast<marked_block*>(source_.take(near));
    require(reinterpret_cast<std::uintptr_t>(b) % alignof(std::uint64_t) == 0, "a block is aligned");
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
  block_source& source_;
  std::uint64_t mark_;
  std::array<marked_block*, Most> blocks_{};
  std::size_t count_ = 0;
};

void require_empty(memory_usage usage) {
  require(usage.blocks == 0 && usage.bytes_in_use == 0, "no block is in use at the end");
}

void hand_out_no_block_twice(scene& s, block_source& source) {
  for (std::uint64_t t = 1; t <= 3; ++t) {
    s.thread(std::to_string(t), [&source, t] {
      holder<4> mine(source, t);
      for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < 3; ++i) mine.take();
        mine.give_all();
      }
    });
  }
  s.at_end([&source] { require_empty(source.usage()); });
}

/// All request memory near one block, which stays; and each near its own.
void share_the_room_beside_a_block(scene& s, block_source& source) {
  void* const wanted = source.take();
  for (std::uint64_t t = 1; t <= 3; ++t) {
    s.thread(std::to_string(t), [&source, wanted, t] {
      holder<4> mine(source, t);
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
}

/// Two threads free adjacent blocks while a third allocates: the last free releases the whole cluster.
void neighbours_freed_by_two_threads(scene& s, block_source& source) {
  void* const first = source.take();
  void* const second = source.take(first);
  s.thread("gives first", [&source, first] {
    source.give(first);
    holder<2> mine(source, 1);
    mine.take(mine.take());
    mine.give_all();
  });
  s.thread("gives second", [&source, second] {
    source.give(second);
    holder<2> mine(source, 2);
    mine.take(mine.take());
    mine.give_all();
  });
  s.thread("takes", [&source] {
    holder<4> mine(source, 3);
    mine.take(mine.take());
    mine.take(mine.take());
    mine.give_all();
  });
  s.at_end([&source] { require_empty(source.usage()); });
}

/// Enough blocks for the batches that move one thread's memory to another.
void batches_from_thread_to_thread(scene& s, block_source& source) {
  constexpr std::size_t many = 270;
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
      holder<160> mine(source, t);
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
    for (auto& b : blocks) require(b.load() == nullptr, "a block was not freed");
    require_empty(source.usage());
  });
}

constexpr std::uint64_t most_steps = 200'000;  // hundreds of blocks, each recorded

using scene_of_source = void(scene&, block_source&);

template <class Source>
bool add_source(const std::string& name) {
  const auto add = [&name](const char* what, scene_of_source* build, double schedules) {
    add_scene(
        "placements/" + name, what, [build](scene& s) { build(s, s.make<Source>()); },
        scene_runs(schedules, 1, steps_up_to(most_steps)).in_all_models());
  };
  add("hand_out_no_block_twice", hand_out_no_block_twice, 1500);
  add("share_the_room_beside_a_block", share_the_room_beside_a_block, 3000);
  add("neighbours_freed_by_two_threads", neighbours_freed_by_two_threads, 3000);
  add("batches_from_thread_to_thread", batches_from_thread_to_thread, 60);
  return true;
}
[[maybe_unused]] const bool sources_are_added = add_source<large_cluster_source>("large_clusters") &&
                                                add_source<placement_source<segregated>>("segregated") &&
                                                add_source<placement_source<clustered>>("clustered") &&
                                                add_source<placement_source<index_aware>>("index_aware") &&
                                                add_source<chosen_source>("chosen");

/// Includes pages that a previous exploration has used: that of the model before.
ESPALIER_SCENE(pages, are_zero, scene_runs(20, 1, steps_up_to(most_steps)).in_all_models()) {
  auto& kept = s.make<hw::page_run>(hw::map_pages(1));
  require(kept.data()[10] == std::byte{}, "a mapped page is zero");
  s.thread("writes", [&kept] { kept.data()[10] = std::byte{1}; });
  // Pages that are freed out of order are cleared later.
  s.make<hw::page_run>(hw::map_pages(1));
  s.at_end([&kept] { kept = {}; });
}

}  // namespace
}  // namespace espalier::sim
