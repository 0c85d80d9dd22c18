// Slabs and the placements above them hand out no block twice.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "espalier/hw/thread_slot.hpp"
#include "espalier/memory/clustered.hpp"
#include "espalier/memory/parts/cluster_slab.hpp"
#include "espalier/memory/parts/slab.hpp"
#include "espalier/memory/segregated.hpp"
#include "scheduled/scenes.hpp"

namespace espalier::sim {
namespace {

constexpr std::size_t large = 1024;  // four blocks in a thread's run
constexpr std::size_t batch = 64;

void all_different(std::vector<void*> blocks) {
  std::sort(blocks.begin(), blocks.end());
  require(std::adjacent_find(blocks.begin(), blocks.end()) == blocks.end(), "a block is handed out twice");
}

/// Blocks that threads hold at the end.
struct held_blocks {
  std::array<std::vector<void*>, 4> of;

  held_blocks() {
    for (auto& blocks : of) blocks.reserve(512);
  }
  [[nodiscard]] std::vector<void*> all() const {
    std::vector<void*> sum;
    for (const auto& blocks : of) sum.insert(sum.end(), blocks.begin(), blocks.end());
    return sum;
  }
};

ESPALIER_SCENE(slabs, fresh_blocks, 50) {
  auto& held = s.make<held_blocks>();
  auto& source = s.make<slab>(large);
  for (std::size_t i = 0; i < 3; ++i) {
    s.thread(std::string(1, static_cast<char>('a' + i)), [&, i] {
      for (int n = 0; n < 5; ++n) held.of[i].push_back(source.allocate());
    });
  }
  s.at_end([&] { all_different(held.all()); });
}

/// One thread frees a batch while another takes one.
ESPALIER_SCENE(slabs, batches, 25, 0.5, {.strategies = {"pct:2", "pct:3"}}) {
  auto& held = s.make<held_blocks>();
  auto& source = s.make<slab>(std::size_t{32});
  auto& given = s.make<std::vector<void*>>();
  std::vector<void*> first;
  for (std::size_t i = 0; i < 2 * batch; ++i) {
    first.push_back(source.allocate());
    given.push_back(source.allocate());
  }
  for (void* block : first) source.deallocate(block);
  s.thread("gives", [&] {
    for (void* block : given) source.deallocate(block);
  });
  s.thread("takes", [&] {
    for (int n = 0; n < 2; ++n) held.of[0].push_back(source.allocate());
  });
  s.at_end([&] {
    for (std::size_t i = 0; i < 4 * batch; ++i) held.of[1].push_back(source.allocate());
    all_different(held.all());
  });
}

ESPALIER_SCENE(slabs, beside, 50) {
  auto& held = s.make<held_blocks>();
  auto& source = s.make<cluster_slab>(std::size_t{16}, 4U);
  void* const near = source.allocate(nullptr);
  held.of[0].push_back(near);
  void* const leaves = source.allocate(near);
  s.thread("gives", [&, leaves] {
    source.deallocate(leaves);
    held.of[0].push_back(source.allocate(nullptr));
  });
  for (std::size_t i = 1; i < 3; ++i) {
    s.thread(std::string(1, static_cast<char>('a' + i)),
             [&, i, near] { held.of[i].push_back(source.allocate(near)); });
  }
  s.at_end([&, near] {
    for (int n = 0; n < 4; ++n) held.of[3].push_back(source.allocate(near));
    all_different(held.all());
    for (void* block : held.all()) source.deallocate(block);
    require(source.usage().blocks == 0, "blocks are left when all were freed");
  });
}

/// One thread frees clusters, as a batch for all threads; the other takes them at once and fills them.
ESPALIER_SCENE(slabs, clusters_reused, 400, 8, {.strategies = {"pct:2", "pct:3", "random"}}) {
  constexpr std::size_t half = std::size_t{16} << 10U;  // two clusters make a batch
  auto& held = s.make<held_blocks>();
  auto& source = s.make<cluster_slab>(half, 2U);
  auto& given = s.make<std::vector<void*>>();
  for (int n = 0; n < 4; ++n) given.push_back(source.allocate(nullptr));
  s.thread("gives", [&] {
    for (void* block : given) source.deallocate(block);
  });
  s.thread("takes", [&] {
    for (int n = 0; n < 3; ++n) {
      void* const first = source.allocate(nullptr);
      void* const second = source.allocate(first);
      require(static_cast<std::byte*>(second) - static_cast<std::byte*>(first) == std::ptrdiff_t{half},
              "a new cluster has no room beside its first block");
      held.of[0].insert(held.of[0].end(), {first, second});
    }
  });
  s.at_end([&] {
    all_different(held.all());
    // Each slot is there: after all frees, as many blocks can be carved, less those that two threads cache.
    for (void* block : held.all()) source.deallocate(block);
    require(source.usage().blocks == 0, "blocks are left when all were freed");
    const std::uint64_t carved = source.usage().bytes_reserved;
    std::vector<void*> again;
    for (std::uint64_t n = 0; n < carved / (2 * half); ++n) {
      again.push_back(source.allocate(nullptr));
      again.push_back(source.allocate(again.back()));
    }
    require(source.usage().bytes_reserved <= carved + 4 * 2 * half, "a cluster's slots are lost");
    all_different(again);
    for (void* block : again) source.deallocate(block);
  });
}

/// Threads, by slot, that get no memory for their records.
struct without_records {
  std::array<bool, 33> lacks{};
};
constinit const without_records* records = nullptr;

/// Two threads free without a record, while a third one allocates what they free.
ESPALIER_SCENE(slabs, freed_for_all, 50) {
  struct all {
    without_records without;
    held_blocks held;
    slab source{std::size_t{32} << 10U};  // two blocks make a batch
    std::array<std::vector<void*>, 2> given;
    all() { records = &without; }
    all(const all&) = delete;
    all& operator=(const all&) = delete;
    ~all() { records = nullptr; }
  };
  auto& a = s.make<all>();
  for (auto& given : a.given) {
    for (int n = 0; n < 3; ++n) given.push_back(a.source.allocate());
  }
  const std::uint64_t carved = a.source.usage().bytes_reserved;
  for (std::size_t i = 0; i < 2; ++i) {
    s.thread(std::string(1, static_cast<char>('a' + i)), [&a, i] {
      a.without.lacks[hw::thread_slot()] = true;
      for (void* block : a.given[i]) a.source.deallocate(block);
    });
  }
  s.thread("lives on them", [&a] {
    auto& mine = a.held.of[0];
    for (int round = 0; round < 2; ++round) {
      for (int n = 0; n < 3; ++n) mine.push_back(a.source.allocate());
      all_different(mine);
      for (void* block : mine) a.source.deallocate(block);
      mine.clear();
    }
  });
  s.at_end([&a, carved] {
    require(a.source.usage().blocks == 0, "blocks are left when all were freed");
    // The third thread caches fewer than two batches.
    std::vector<void*> again;
    for (int n = 0; n < 6; ++n) again.push_back(a.source.allocate());
    all_different(again);
    require(a.source.usage().bytes_reserved <= carved + 3 * (std::uint64_t{32} << 10U),
            "a freed block is not found again");
    for (void* block : again) a.source.deallocate(block);
  });
}

/// The first block of a placement comes from the heap: one thread has it at a time.
ESPALIER_SCENE(slabs, first_blocks, 50) {
  static constexpr block leaf{2048, 64, memory_role::leaf};
  auto& source = s.make<segregated>();
  for (std::uint64_t t = 1; t <= 3; ++t) {
    s.thread(std::to_string(t), [&source, t] {
      for (int round = 0; round < 2; ++round) {
        auto* const mine = static_cast<std::uint64_t*>(source.allocate(leaf));
        *mine = t;
        require(source.usage().blocks >= 1, "a block in use is not counted");
        require(*mine == t, "a block is handed out twice");
        source.deallocate(mine, leaf);
      }
    });
  }
  s.at_end([&source] { require(source.usage().blocks == 0, "a block is in use at the end"); });
}

/// A thread requests memory near a block of another slab, while this slab gets its first span.
ESPALIER_SCENE(slabs, foreign, 50) {
  auto& held = s.make<held_blocks>();
  auto& elsewhere = s.make<std::uint64_t>();
  auto& source = s.make<cluster_slab>(std::size_t{512}, 2U);
  s.thread("a", [&] { held.of[0].push_back(source.allocate(nullptr)); });
  s.thread("b", [&] { held.of[1].push_back(source.allocate(&elsewhere)); });
  s.at_end([&] { all_different(held.all()); });
}

ESPALIER_SCENE(slabs, first_comers, 50) {
  auto& source = s.make<clustered>();
  static constexpr block router{32, 32, memory_role::node};  // outlives this call, as the threads do
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&] { source.deallocate(source.allocate(router), router); });
  }
  s.at_end([&] { require(source.usage().blocks == 0, "blocks are left when all were freed"); });
}

}  // namespace
}  // namespace espalier::sim

namespace espalier::hw {

/// Replaces the simulator's.
std::uint32_t detail::try_first_thread_slot() noexcept {
  const std::uint32_t mine = thread_slot();
  return sim::records != nullptr && sim::records->lacks[mine] ? max_thread_slots : mine;
}

}  // namespace espalier::hw
