// The heap of libespalier-malloc: every block belongs to one thread, is whole, is as requested, and is reused after its
// free, whichever thread frees it and whatever happens to its thread and to the process.

#include "preload/heap/thread_heap.hpp"

#include <sys/mman.h>
#include <sys/single_threaded.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "espalier/hw/pause.hpp"
#include "preload/heap/thread_heaps.hpp"
#include "scheduled/scenes.hpp"

namespace espalier::preload {

// All simulated threads are one thread of the kernel.
void futex_lock::wait_and_lock() noexcept {
  while (word_.exchange(awaited, std::memory_order_acquire) != open) hw::park();
}
void futex_lock::wake_one() noexcept {}

}  // namespace espalier::preload

namespace espalier::sim {
namespace {

using namespace preload;

address_registry registry;

/// An access before and after each kernel call of the heap: a step of the schedule, at which other threads may run. A
/// thread that gets addresses sees what happened before another thread unmapped them: kernels synchronise.
std::atomic<int> kernel_steps;

/// How many moves of memory the kernel makes before it refuses one.
std::atomic<unsigned> moves_left;

/// Before addresses go to others: the heap no longer has them by then.
void require_foreign(const void* pages) {
  require(registry.of(pages) == address_registry::foreign,
          "addresses are returned to the system that the heap still takes for its own");
}

/// A block with a known content: its own address at both ends.
struct marked {
  void* at = nullptr;
  std::size_t bytes = 0;

  static marked of(void* at, std::size_t bytes) {
    require(at != nullptr, "there is no block");
    const marked m{at, bytes};
    std::memcpy(at, &at, sizeof at);
    std::memcpy(m.end(), &at, sizeof at);
    return m;
  }
  void check() const {
    void* there = nullptr;
    std::memcpy(&there, at, sizeof there);
    require(there == at, "the first word of a block was overwritten");
    std::memcpy(&there, end(), sizeof there);
    require(there == at, "the last word of a block was overwritten");
  }
  [[nodiscard]] std::byte* end() const { return static_cast<std::byte*>(at) + bytes - sizeof at; }
};

struct tested_heaps {
  tested_heaps() {
    // The C library reports a single thread, and locks are then taken without locked instructions.
    __libc_single_threaded = 0;
    heaps.commons().spans.set_keep(span::bytes);
    for (auto& blocks : held) blocks.reserve(64);
  }
  ~tested_heaps() { heaps.unmap_all(); }

  void expect_empty() {
    heaps.trim(nullptr);
    require(heaps.count().used_blocks == 0, "a freed block counts as used");
    require(heaps.count().regions == 0, "a region without blocks is not returned to the system");
    const span_pool::figures pool = heaps.commons().spans.count();
    require(pool.free_regions == pool.spans * span_pool::most_regions, "a region is double free");
  }

  thread_heaps heaps{registry};
  std::array<std::vector<marked>, 4> held;
};

/// For a pool with its lock held.
std::size_t held_regions(tested_heaps& all) { return all.heaps.commons().pages.bytes(); }

std::uintptr_t address(const void* block) { return reinterpret_cast<std::uintptr_t>(block); }

marked allocate(thread_heap& from, std::size_t bytes) {
  void* const quick = from.allocate_quickly(bytes);
  return marked::of(quick != nullptr ? quick : from.allocate(bytes), bytes);
}
void deallocate(thread_heap& by, const marked& block) {
  block.check();
  if (!by.deallocate_quickly(registry, block.at)) by.deallocate(block.at);
}

/// Called when every block is freed.
void leave_at_end(scene& s, tested_heaps& all, std::vector<thread_heap*> heaps) {
  s.at_end([&all, heaps = std::move(heaps)] {
    for (thread_heap* const heap : heaps) all.heaps.leave(*heap);
    all.expect_empty();
  });
}

/// A region has few blocks of this size.
constexpr std::size_t wide = 30'000;
constexpr std::size_t of_region = 8;

/// Two other threads free what is held for them.
void others_deallocate(scene& s, tested_heaps& all) {
  for (const std::size_t other : {1U, 2U}) {
    thread_heap& theirs = *all.heaps.adopt();
    s.thread(std::string("other ") + static_cast<char>('0' + other), [&all, &theirs, other] {
      for (const marked& block : all.held[other]) deallocate(theirs, block);
    });
  }
}

/// The owner uses up its region while others free blocks of it and of the one before.
ESPALIER_SCENE(heap, blocks_of_others, 50) {
  auto& all = s.make<tested_heaps>();
  thread_heap& mine = *all.heaps.adopt();
  for (std::size_t i = 0; i < of_region + 3; ++i) all.held[i % 3].push_back(allocate(mine, wide));
  s.thread("owner", [&] {
    deallocate(mine, all.held[0].back());
    all.held[0].pop_back();
    for (int i = 0; i < 7; ++i) all.held[3].push_back(allocate(mine, wide));
  });
  others_deallocate(s, all);
  s.at_end([&] {
    for (const marked& block : all.held[0]) deallocate(mine, block);
    for (const marked& block : all.held[3]) deallocate(mine, block);
    mine.free_empty_regions();
    all.heaps.leave(mine);
    all.expect_empty();
  });
}

/// Others empty a full region; the owner checks meanwhile, and takes it again.
ESPALIER_SCENE(heap, regions_emptied, 50) {
  auto& all = s.make<tested_heaps>();
  thread_heap& mine = *all.heaps.adopt();
  for (std::size_t i = 0; i < 2 * of_region; ++i)
    all.held[i < 3 ? 0 : 1 + i % 2].push_back(allocate(mine, wide));
  s.thread("owner", [&] {
    for (const marked& block : all.held[0]) deallocate(mine, block);
    mine.free_empty_regions();
    for (int i = 0; i < 3; ++i) all.held[3].push_back(allocate(mine, wide));
    mine.free_empty_regions();
  });
  others_deallocate(s, all);
  s.at_end([&] {
    for (const marked& block : all.held[3]) deallocate(mine, block);
    all.heaps.leave(mine);
    all.expect_empty();
  });
}

/// Others that allocate such blocks themselves take over full regions, while the last owner wants them again.
ESPALIER_SCENE(heap, regions_taken_over, 50) {
  auto& all = s.make<tested_heaps>();
  all.heaps.commons().patience = 0;
  auto& heaps = s.make<std::vector<thread_heap*>>();
  for (int i = 0; i < 3; ++i) heaps.push_back(all.heaps.adopt());
  for (std::size_t i = 0; i < 2 * of_region; ++i)
    all.held[i % heaps.size()].push_back(allocate(*heaps[0], wide));
  for (std::size_t t = 0; t < heaps.size(); ++t) {
    s.thread(std::string(1, static_cast<char>('a' + t)), [&, t] {
      thread_heap& mine = *heaps[t];
      std::vector<marked> more;
      more.push_back(allocate(mine, wide));
      for (const marked& block : all.held[t]) deallocate(mine, block);
      for (int i = 0; i < 3; ++i) more.push_back(allocate(mine, wide));
      for (const marked& block : more) deallocate(mine, block);
      mine.free_empty_regions();
    });
  }
  leave_at_end(s, all, heaps);
}

/// Freed blocks of full regions are cached, but only a few of them, and not for long where regions become empty.
ESPALIER_SCENE(heap, cached_blocks_are_bounded, 1, 0.02) {
  auto& all = s.make<tested_heaps>();
  thread_heap& mine = *all.heaps.adopt();
  s.thread("alone", [&] {
    for (std::size_t i = 0; i < 4 * of_region; ++i) all.held[i / of_region].push_back(allocate(mine, wide));
    const std::size_t before = all.heaps.count().regions;
    // Two of the first region are cached, and freed with the third; two of the second when the first is empty.
    for (std::size_t i = 0; i < 3; ++i) deallocate(mine, all.held[0][i]);
    require(mine.count_cached().blocks == 0, "too many blocks are kept aside");
    for (std::size_t i = 0; i < 2; ++i) deallocate(mine, all.held[1][i]);
    require(mine.count_cached().blocks == 2, "no block is kept aside");
    require(all.heaps.count().used_blocks == 4 * of_region - 5, "what is aside counts as used");
    for (std::size_t i = 3; i < of_region; ++i) deallocate(mine, all.held[0][i]);
    require(mine.count_cached().blocks == 0, "blocks are kept aside while regions become empty");
    // Once more; the cached blocks are handed out when there are no others.
    for (std::size_t i = 0; i < 2; ++i) deallocate(mine, all.held[2][i]);
    require(mine.count_cached().blocks == 2, "no block is kept aside");
    while (mine.count_cached().blocks != 0) all.held[3].push_back(allocate(mine, wide));
    require(all.held[3].back().at != all.held[3][all.held[3].size() - 2].at, "a block is handed out twice");
    all.held[2].erase(all.held[2].begin(), all.held[2].begin() + 2);
    for (std::size_t i = 2; i < of_region; ++i) deallocate(mine, all.held[1][i]);
    for (const std::size_t region : {2U, 3U}) {
      for (const marked& block : all.held[region]) deallocate(mine, block);
    }
    require(all.heaps.count().used_blocks == 0, "a freed block counts as used");
    require(all.heaps.count().regions <= before - 2, "empty regions are not returned to the system");
  });
  leave_at_end(s, all, {&mine});
}

/// Regions that one thread filled serve another, which frees their blocks and allocates as many.
ESPALIER_SCENE(heap, served_by_another, 1, 0.02) {
  auto& all = s.make<tested_heaps>();
  all.heaps.commons().patience = 1;
  thread_heap& mine = *all.heaps.adopt();
  thread_heap& other = *all.heaps.adopt();
  s.thread("alone", [&] {
    for (std::size_t i = 0; i < 4 * of_region; ++i) all.held[0].push_back(allocate(mine, wide));
    const std::size_t before = all.heaps.count().regions;
    all.held[1].push_back(allocate(other, wide));
    for (const marked& block : all.held[0]) {
      deallocate(other, block);
      all.held[1].push_back(allocate(other, wide));
    }
    // One of which its owner is notified, and one that is still abandoned.
    require(all.heaps.count().regions <= before + 2, "what has room is not used");
    for (const marked& block : all.held[1]) deallocate(other, block);
  });
  leave_at_end(s, all, {&mine, &other});
}

/// A thread that only frees leaves the room to one that allocates.
ESPALIER_SCENE(heap, freed_by_a_thread_that_allocates_none, 1, 0.02) {
  auto& all = s.make<tested_heaps>();
  all.heaps.commons().patience = 0;
  thread_heap& mine = *all.heaps.adopt();
  thread_heap& other = *all.heaps.adopt();
  s.thread("alone", [&] {
    for (std::size_t i = 0; i < 4 * of_region; ++i) all.held[i % 2].push_back(allocate(mine, wide));
    const std::size_t before = all.heaps.count().regions;
    for (const marked& block : all.held[0]) deallocate(other, block);
    for (std::size_t i = 0; i < 2 * of_region; ++i) all.held[1].push_back(allocate(mine, wide));
    require(all.heaps.count().regions <= before, "what has room is not used");
    for (const marked& block : all.held[1]) deallocate(mine, block);
  });
  leave_at_end(s, all, {&mine, &other});
}

/// Idle memory returns to the OS while others take regions: what is being discarded is not free.
ESPALIER_SCENE(heap, idle_discarded_beside, 50) {
  auto& all = s.make<tested_heaps>();
  span_pool& pool = all.heaps.commons().spans;
  constexpr std::size_t bytes = 300'000;
  pool.set_keep(0);
  pool.set_period(1'000'000);
  std::vector<thread_heap*> heaps;
  for (int i = 0; i < 3; ++i) heaps.push_back(all.heaps.adopt());
  {
    std::vector<marked> blocks;
    for (int i = 0; i < 6; ++i) blocks.push_back(allocate(*heaps[0], bytes));
    for (const marked& block : blocks) deallocate(*heaps[0], block);
  }
  // Each check then finds a period over, and idle what was there at the check before.
  pool.set_period(0);
  for (std::size_t t = 0; t < heaps.size(); ++t) {
    s.thread(std::string(1, static_cast<char>('a' + t)), [&mine = *heaps[t]] {
      const marked first = allocate(mine, bytes);
      const marked second = allocate(mine, bytes);
      deallocate(mine, first);
      deallocate(mine, second);
    });
  }
  leave_at_end(s, all, heaps);
}

/// Long rows get the memory of other empty regions, while threads take those.
void long_rows_filled(scene& s, unsigned moves) {
  moves_left = moves;
  auto& all = s.make<tested_heaps>();
  constexpr std::size_t bytes = std::size_t{3} << 20U;
  constexpr std::size_t between = 300'000;
  std::vector<thread_heap*> heaps;
  for (int i = 0; i < 3; ++i) heaps.push_back(all.heaps.adopt());
  // Scattered memory: rows of two regions between rows that stay.
  for (std::size_t i = 0; i < 24; ++i) {
    void* const block = heaps[0]->allocate(between);
    std::memset(block, 0xff, between);
    all.held[i % 2].push_back(marked::of(block, between));
  }
  for (const marked& block : all.held[0]) deallocate(*heaps[0], block);
  for (std::size_t t = 0; t < heaps.size(); ++t) {
    s.thread(std::string(1, static_cast<char>('a' + t)), [&mine = *heaps[t], t] {
      const marked small = allocate(mine, between);
      const auto zeroed = [&mine](std::size_t size) {
        auto* const block = static_cast<unsigned char*>(mine.allocate_zeroed(size));
        for (std::size_t byte = 0; byte < size; byte += 4096)
          require(block[byte] == 0, "memory that was to be zero is not");
        return marked::of(block, size);
      };
      const marked large = zeroed(bytes + t);
      const marked other = zeroed(between);
      deallocate(mine, small);
      deallocate(mine, large);
      deallocate(mine, other);
    });
  }
  s.at_end([&all, heaps] {
    for (const marked& block : all.held[1]) deallocate(*heaps[0], block);
    for (thread_heap* const heap : heaps) all.heaps.leave(*heap);
    all.expect_empty();
  });
}

/// Blocks with mappings of their own, which grow by moving and shrink, beside spans that come and go.
ESPALIER_SCENE(heap, huge_blocks_beside, 50) {
  auto& all = s.make<tested_heaps>();
  constexpr std::size_t bytes = std::size_t{40} << 20U;
  for (const std::size_t t : {0U, 1U}) {
    thread_heap& mine = *all.heaps.adopt();
    s.thread(std::string(1, static_cast<char>('a' + t)), [&, t] {
      marked block = allocate(mine, bytes);
      marked other = allocate(mine, bytes);
      block = marked::of(mine.resize(block.at, 3 * bytes), 3 * bytes);
      other.check();
      block = marked::of(mine.resize(block.at, bytes + t), bytes + t);
      deallocate(mine, other);
      deallocate(mine, allocate(mine, 300'000));
      all.heaps.trim(&mine);
      deallocate(mine, block);
    });
  }
  s.at_end([&] { all.expect_empty(); });
}

void wait_until(const std::atomic<bool>& happened) {
  while (!happened) wait_for_others();
}

/// A remote free that stops before it notifies the owner.
region& pushed_without_notice(const marked& block) {
  block.check();
  region& r = *region_of(block.at);
  const remote_free_list before(r.remote.load());
  require(before.notifies() && before.count() == 0, "the owner does not ask to be told");
  static_cast<free_block*>(block.at)->next = nullptr;
  r.remote.store(before.with(address(block.at) & (region_bytes - 1)));
  return r;
}

/// A thread is about to notify the owner of a region for so long that the owner uses it again, and frees it when empty.
/// If the schedule decides how long, few schedules have this; with `for_sure` each does.
void told_of_late(scene& s, bool for_sure) {
  auto& all = s.make<tested_heaps>();
  thread_heap& mine = *all.heaps.adopt();
  thread_heap& theirs = *all.heaps.adopt();
  auto& pushed = s.make<std::atomic<bool>>(false);
  auto& emptied = s.make<std::atomic<bool>>(false);
  auto& told = s.make<std::atomic<bool>>(false);
  auto& ended = s.make<std::atomic<int>>(0);
  const marked small = allocate(mine, 40);
  deallocate(mine, allocate(mine, 40));
  for (std::size_t i = 0; i <= of_region; ++i) all.held[i == 0 ? 1 : 0].push_back(allocate(mine, wide));
  // The owner has the full region again, and it has room.
  deallocate(mine, all.held[0].front());
  mine.free_empty_regions();
  s.thread("other", [&, for_sure] {
    if (for_sure) {
      region& r = pushed_without_notice(all.held[1].front());
      pushed = true;
      wait_until(emptied);
      mine.notify(r);
      told = true;
    } else {
      deallocate(theirs, all.held[1].front());
    }
    ++ended;
  });
  s.thread("owner", [&, for_sure] {
    if (for_sure) wait_until(pushed);
    // It is used up, then empty; and others take it.
    for (std::size_t i = 0; i < of_region + 3; ++i) all.held[2].push_back(allocate(mine, wide));
    for (std::size_t i = 1; i < all.held[0].size(); ++i) deallocate(mine, all.held[0][i]);
    for (const marked& block : all.held[2]) deallocate(mine, block);
    emptied = true;
    if (for_sure) wait_until(told);
    // Long enough for the notification.
    for (int i = 0; i < 60; ++i) deallocate(mine, allocate(mine, 40));
    mine.free_empty_regions();
    for (std::size_t i = 0; i < of_region; ++i) all.held[3].push_back(allocate(mine, wide / 2));
    mine.free_empty_regions();
    for (std::size_t i = 0; i < of_region; ++i) all.held[3].push_back(allocate(mine, wide));
    ++ended;
  });
  // As a thread, because a thread cannot run for ever.
  s.thread("last", [&, small] {
    while (ended != 2) wait_for_others();
    deallocate(mine, small);
    for (const marked& block : all.held[3]) deallocate(mine, block);
    all.heaps.leave(mine);
    all.expect_empty();
  });
}

/// A thread is about to notify the owner of a region for so long that the owner uses it up again and another thread
/// frees blocks of it.
ESPALIER_SCENE(heap, told_of_late_beside_another, 1, 0.02) {
  auto& all = s.make<tested_heaps>();
  thread_heap& mine = *all.heaps.adopt();
  thread_heap& theirs = *all.heaps.adopt();
  for (std::size_t i = 0; i <= of_region; ++i) all.held[0].push_back(allocate(mine, wide));
  s.thread("alone", [&] {
    deallocate(mine, all.held[0][0]);
    mine.free_empty_regions();
    region& r = pushed_without_notice(all.held[0][1]);
    while (r.state != region_state::current) all.held[1].push_back(allocate(mine, wide));
    while (r.state == region_state::current) all.held[1].push_back(allocate(mine, wide));
    deallocate(theirs, all.held[0][2]);
    mine.notify(r);
    for (std::size_t i = 3; i < all.held[0].size(); ++i) deallocate(mine, all.held[0][i]);
    for (const marked& block : all.held[1]) deallocate(mine, block);
  });
  leave_at_end(s, all, {&mine});
}

/// An owner that was notified of full regions uses them again; no other thread has them then.
ESPALIER_SCENE(heap, told_of_and_used, 1, 0.02) {
  auto& all = s.make<tested_heaps>();
  all.heaps.commons().patience = 0;
  thread_heap& mine = *all.heaps.adopt();
  thread_heap& other = *all.heaps.adopt();
  s.thread("alone", [&] {
    for (std::size_t i = 0; i < 4 * of_region; ++i) all.held[i % 2].push_back(allocate(mine, wide));
    // Of three full regions: `other` allocates none yet, and notifies.
    for (const marked& block : all.held[0]) deallocate(other, block);
    // Then one of these is current, the others have room.
    for (std::size_t i = 0; i < of_region; ++i) all.held[2].push_back(allocate(mine, wide));
    all.held[3].push_back(allocate(other, wide));
    for (const marked& block : all.held[1]) deallocate(other, block);
    for (std::size_t i = 0; i < 4 * of_region; ++i) {
      all.held[2].push_back(allocate(mine, wide));
      all.held[3].push_back(allocate(other, wide));
    }
    for (const marked& block : all.held[2]) deallocate(mine, block);
    for (const marked& block : all.held[3]) deallocate(other, block);
  });
  leave_at_end(s, all, {&mine, &other});
}

/// Threads come and go; there are no more heaps than there are threads.
ESPALIER_SCENE(heap, heaps_handed_on, 50) {
  auto& all = s.make<tested_heaps>();
  for (const std::size_t t : {0U, 1U, 2U}) {
    s.thread(std::string(1, static_cast<char>('a' + t)), [&, t] {
      for (int life = 0; life < 2; ++life) {
        thread_heap* const mine = all.heaps.adopt();
        require(mine != nullptr, "there is no heap");
        for (const marked& block : all.held[t]) deallocate(*mine, block);
        all.held[t].clear();
        all.held[t].push_back(allocate(*mine, wide));
        all.held[t].push_back(allocate(*mine, 40));
        all.heaps.leave(*mine);
      }
    });
  }
  s.at_end([&] {
    require(all.heaps.count().heaps <= 3, "a heap is not handed on");
    thread_heap& mine = *all.heaps.adopt();
    for (const auto& blocks : all.held) {
      for (const marked& block : blocks) deallocate(mine, block);
    }
    all.heaps.leave(mine);
    all.expect_empty();
  });
}

/// Rows of regions for large blocks, taken, grown and freed at the same time.
ESPALIER_SCENE(heap, large_blocks_beside, 50) {
  auto& all = s.make<tested_heaps>();
  for (const std::size_t t : {0U, 1U, 2U}) {
    thread_heap& mine = *all.heaps.adopt();
    s.thread(std::string(1, static_cast<char>('a' + t)), [&, t] {
      const std::size_t bytes = 300'000 + t * 400'000;
      marked block = allocate(mine, bytes);
      const marked other = allocate(mine, 33'000);
      block.check();
      block = marked::of(mine.resize(block.at, 2 * bytes), 2 * bytes);
      deallocate(mine, other);
      deallocate(mine, block);
    });
  }
  s.at_end([&] { all.expect_empty(); });
}

/// While fork() copies the process, only the heaps that are marked as busy are half changed.
ESPALIER_SCENE(heap, copies_of_the_process, 50) {
  auto& all = s.make<tested_heaps>();
  thread_heap& mine = *all.heaps.adopt();
  thread_heap& theirs = *all.heaps.adopt();
  s.thread("allocates", [&] {
    for (int i = 0; i < 2; ++i) all.held[0].push_back(allocate(mine, 300'000));
    all.heaps.with_shared([&](thread_heap& heap) { all.held[0].push_back(allocate(heap, 40)); });
    const thread_heap* const more = all.heaps.adopt();
    require(more != nullptr, "there is no heap");
  });
  s.thread("copies itself", [&] {
    for (int i = 0; i < 2; ++i) {
      all.heaps.before_fork();
      const std::size_t free_before = held_regions(all);
      hw::park();
      require(held_regions(all) == free_before, "regions change hands while the process is copied");
      all.heaps.after_fork_in_parent();
    }
  });
  s.at_end([&] {
    // In the child: heaps of lost threads go to others, except one that was being changed.
    all.heaps.before_fork();
    all.heaps.after_fork_in_child(&mine);
    std::vector<thread_heap*> adopted;
    for (int i = 0; i < 4; ++i) adopted.push_back(all.heaps.adopt());
    require(std::count(adopted.begin(), adopted.end(), &mine) == 0, "a heap has two threads");
    require(std::count(adopted.begin(), adopted.end(), &theirs) == 1, "a heap is lost to the copy");
  });
}

/// Checks that need one thread only.
ESPALIER_SCENE(heap, as_asked_for, 1, 0.02, {.step_budget = 2'000'000}) {
  auto& all = s.make<tested_heaps>();
  thread_heap& mine = *all.heaps.adopt();
  s.thread("alone", [&] {
    // While there is memory that was never used.
    for (const std::size_t bytes : {40U, 700U, 7000U, 40'000U}) {
      // As many as leave little of a region unused, if these are few.
      const std::size_t several = bytes == 7000 ? 34 : 1;
      for (int round = 0; round < 4; ++round) {
        std::vector<unsigned char*> blocks;
        for (std::size_t i = 0; i < several; ++i) {
          blocks.push_back(static_cast<unsigned char*>(mine.allocate_zeroed(bytes)));
          require(std::count(blocks[i], blocks[i] + bytes, 0) == static_cast<std::ptrdiff_t>(bytes),
                  "memory that was to be zero is not");
          std::memset(blocks[i], 0xff, bytes);
        }
        for (unsigned char* const block : blocks) mine.deallocate(block);
        // The same blocks again; then the region is freed, and taken again.
        if (round % 2 == 1) mine.free_empty_regions();
      }
    }
    // Neighbours of every size, including classes with a skipped line between some blocks.
    for (const std::size_t bytes :
         {1U, 48U, 64U, 100U, 128U, 200U, 512U, 1024U, 1025U, 1500U, 4096U, 32'832U}) {
      std::vector<marked> blocks;
      const std::size_t several = bytes < 1000 ? 70 : 10;
      for (std::size_t i = 0; i < several; ++i) {
        blocks.push_back(allocate(mine, std::max<std::size_t>(bytes, 8)));
        require(usable_bytes(registry, blocks.back().at) >= bytes, "less may be used than was asked for");
      }
      for (const marked& block : blocks) deallocate(mine, block);
    }
    for (const std::size_t align : {32U, 64U, 128U, 1024U, 4096U, 65'536U}) {
      std::array<marked, 3> blocks;
      for (marked& block : blocks) {
        block = marked::of(mine.allocate_aligned(600, align), 600);
        require(address(block.at) % align == 0, "a block is not aligned as asked for");
      }
      for (const marked& block : blocks) deallocate(mine, block);
    }
    // A block that cannot grow in place.
    marked grows = allocate(mine, 300'000);
    const marked behind = allocate(mine, 300'000);
    grows = marked::of(mine.resize(grows.at, 900'000), 900'000);
    std::memset(static_cast<std::byte*>(grows.at) + 8, 0xff, 900'000 - 16);
    deallocate(mine, behind);
    deallocate(mine, grows);
    // A block of which only its place in the class is known.
    auto* moved = static_cast<unsigned char*>(mine.allocate(100));
    for (std::size_t i = 0; i < 100; ++i) moved[i] = static_cast<unsigned char>(i);
    for (const std::size_t bytes : {5000U, 70'000U, 2'000'000U, 400U}) {
      moved = static_cast<unsigned char*>(mine.resize(moved, bytes));
      for (std::size_t i = 0; i < 100; ++i) require(moved[i] == i, "a block has lost contents by resizing");
    }
    mine.deallocate(moved);
  });
  leave_at_end(s, all, {&mine});
}

ESPALIER_SCENE(heap, told_of_late_for_sure, 3, 0.05) { told_of_late(s, true); }
ESPALIER_SCENE(heap, long_rows_filled_in_part, 3, 0.05) { long_rows_filled(s, 1); }
ESPALIER_SCENE(heap, told_of_late, 50) { told_of_late(s, false); }
ESPALIER_SCENE(heap, long_rows_filled, 50) { long_rows_filled(s, 1000); }

}  // namespace
}  // namespace espalier::sim

// The heap's kernel calls, by -Wl,--wrap.
using espalier::sim::kernel_steps;
using espalier::sim::moves_left;
using espalier::sim::require_foreign;

extern "C" {

int __real_madvise(void* pages, std::size_t bytes, int advice);
int __real_munmap(void* pages, std::size_t bytes);
void* __real_mremap(void* pages, std::size_t bytes, std::size_t to_bytes, int flags, ...);

int __wrap_madvise(void* pages, std::size_t bytes, int advice) {
  ++kernel_steps;
  const int done = __real_madvise(pages, bytes, advice);
  ++kernel_steps;
  return done;
}

int __wrap_munmap(void* pages, std::size_t bytes) {
  ++kernel_steps;
  require_foreign(pages);
  const int done = __real_munmap(pages, bytes);
  ++kernel_steps;
  return done;
}

void* __wrap_mremap(void* pages, std::size_t bytes, std::size_t to_bytes, int flags, ...) {
  std::va_list more;
  va_start(more, flags);
  void* const to = (flags & MREMAP_FIXED) != 0 ? va_arg(more, void*) : nullptr;
  va_end(more);
  ++kernel_steps;
  if ((flags & MREMAP_DONTUNMAP) != 0 && moves_left-- == 0) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  if (to != nullptr && (flags & MREMAP_DONTUNMAP) == 0) require_foreign(pages);
  void* const done = __real_mremap(pages, bytes, to_bytes, flags, to);
  ++kernel_steps;
  return done;
}

}  // extern "C"
