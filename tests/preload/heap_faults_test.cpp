// The heap while the kernel refuses, and in the windows between two of its calls; first, that kernel calls fail and wait
// as the rules of tests/kernel_faults say, and no others.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "heap_fixture.hpp"
#include "kernel_faults/kernel_faults.hpp"
#include "preload/heap/page_source.hpp"
#include "preload/kernel/pages.hpp"

namespace espalier::preload {
namespace {

using test::kernel_call;
using test::kernel_calls;
using test::kernel_faults;
using test::kernel_window;

TEST(preload_kernel_faults, fail_the_calls_that_rules_name) {
  page_source pages;
  const kernel_faults faults("mmap:fail=ENOMEM@2,munmap:fail=EAGAIN@3+");
  ASSERT_EQ(faults.wrong(), nullptr);
  std::vector<void*> got;
  for (int i = 0; i < 4; ++i) {
    errno = 77;
    got.push_back(pages.map(page_bytes, page_bytes));
    EXPECT_EQ(errno, 77) << "the heap keeps it";
    EXPECT_EQ(got.back() == nullptr, i == 1);
  }
  EXPECT_EQ(kernel_calls(kernel_call::mmap), 4U);
  EXPECT_EQ(munmap(got[0], page_bytes), 0);
  EXPECT_EQ(munmap(got[2], page_bytes), 0);
  EXPECT_EQ(munmap(got[3], page_bytes), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(test::set_kernel_faults(nullptr), nullptr);
  EXPECT_EQ(munmap(got[3], page_bytes), 0);
}

TEST(preload_kernel_faults, show_the_windows_of_a_call) {
  page_source pages;
  void* const got = pages.map(2 * page_bytes, page_bytes);
  *static_cast<char*>(got) = 1;
  struct seen {
    int before = 0;
    int behind = 0;
    char first = 0;
    char last = 0;
  } all;
  const kernel_faults faults(
      [](const kernel_window& w, void* context) {
        auto& to = *static_cast<seen*>(context);
        if (w.kind != kernel_call::madvise) return;
        EXPECT_EQ(w.bytes, 2 * page_bytes);
        ++(w.behind ? to.behind : to.before);
        (w.behind ? to.last : to.first) = *static_cast<char*>(w.pages);
        // Neither counted nor seen.
        munmap(mmap(nullptr, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), page_bytes);
      },
      &all);
  EXPECT_TRUE(page_source::discard(got, 2 * page_bytes));
  EXPECT_EQ(all.before, 1);
  EXPECT_EQ(all.behind, 1);
  EXPECT_EQ(all.first, 1);
  EXPECT_EQ(all.last, 0);
  EXPECT_EQ(kernel_calls(kernel_call::mmap), 0U);
  pages.unmap(got, 2 * page_bytes);
}

TEST(preload_kernel_faults, say_what_is_wrong_with_rules) {
  for (const char* const right :
       {"", "mmap:fail=ENOMEM@1", "madvise:fail=22@*", "munmap:delay_us=5@2+,munmap:delay_after_us=5@*",
        "futex:fail=EINTR@1,tgkill:fail=EPERM@1,mremap:fail=ENOSYS@9,mmap:fail=EACCES@1"})
    EXPECT_EQ(kernel_faults(right).wrong(), nullptr) << right;
  for (const char* const wrong :
       {"open:fail=ENOMEM@1", "mmap", "mmap:", "mmap:fail=EWHAT@1", "mmap:fail=0@1", "mmap:fail=ENOMEM",
        "mmap:fail=ENOMEM@", "mmap:fail=ENOMEM@0", "mmap:fail=ENOMEM@1;", "mmap:fail=ENOMEM@1,",
        "mmap:delay_us=@1", "mmap:delay_us=999999999999999@1", " mmap:fail=ENOMEM@1"})
    EXPECT_NE(kernel_faults(wrong).wrong(), nullptr) << wrong;
}

using preload_heap_faults = heap_fixture;
constexpr std::size_t mebibyte = std::size_t{1} << 20U;

/// What another thread maps as soon as a call has left addresses to it.
struct foreign_mapping {
  static constexpr std::size_t bytes = 12 * mebibyte;

  void map_at(void* at) {
    void* const got =
        mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != at) return;
    pages = static_cast<unsigned char*>(got);
    std::memset(pages, 0x5a, bytes);
    // As the next span of this heap would.
    test_registry.enter(pages, address_registry::unit_bytes, address_registry::span);
  }
  void expect_whole() {
    ASSERT_NE(pages, nullptr) << "the addresses are not left to others";
    EXPECT_EQ(test_registry.of(pages), address_registry::span) << "an entry of another's is overwritten";
    ASSERT_EQ(msync(pages, bytes, MS_ASYNC), 0) << "another's pages are unmapped";
    for (std::size_t i = 0; i < bytes; i += page_bytes) ASSERT_EQ(pages[i], 0x5a);
  }
  ~foreign_mapping() {
    if (pages == nullptr) return;
    munmap(pages, bytes);
    test_registry.enter(pages, address_registry::unit_bytes, address_registry::foreign);
  }

  unsigned char* pages = nullptr;
};

TEST_F(preload_heap_faults, a_block_that_moves_leaves_others_what_they_map_where_it_lay) {
  auto* const block = static_cast<unsigned char*>(allocate(mine, 40 * mebibyte));
  block[0] = 1;
  block[39 * mebibyte] = 2;
  // So that it cannot grow in place.
  void* const behind = block + usable(block);
  void* const in_the_way =
      mmap(behind, page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  foreign_mapping theirs;
  unsigned char* moved = nullptr;
  {
    const kernel_faults faults(
        [](const kernel_window& w, void* context) {
          auto& to = *static_cast<foreign_mapping*>(context);
          if (w.kind != kernel_call::mremap || !w.behind || to.pages != nullptr) return;
          to.map_at(w.pages);
        },
        &theirs);
    moved = static_cast<unsigned char*>(mine.resize(block, 200 * mebibyte));
  }
  ASSERT_NE(moved, nullptr);
  EXPECT_NE(moved, block);
  theirs.expect_whole();
  EXPECT_EQ(moved[0], 1);
  EXPECT_EQ(moved[39 * mebibyte], 2);
  EXPECT_EQ(moved[199 * mebibyte], 0);
  munmap(in_the_way, page_bytes);
  deallocate(mine, moved);
  EXPECT_EQ(test_registry.of(moved), address_registry::foreign);
}

TEST_F(preload_heap_faults, a_block_that_cannot_move_stays_and_costs_nothing) {
  page_source& pages = heaps.commons().pages;
  auto* const block = static_cast<unsigned char*>(allocate(mine, 40 * mebibyte));
  block[0] = 1;
  block[39 * mebibyte] = 2;
  {
    // Neither in place nor by moving: it is copied.
    const kernel_faults faults("mremap:fail=ENOMEM@*");
    auto* const copied = static_cast<unsigned char*>(mine.resize(block, 80 * mebibyte));
    ASSERT_NE(copied, nullptr);
    EXPECT_EQ(copied[0], 1);
    EXPECT_EQ(copied[39 * mebibyte], 2);
    deallocate(mine, copied);
  }
  EXPECT_EQ(heaps.count().large_bytes, 0U);
  const std::size_t before = pages.bytes();
  auto* const other = static_cast<unsigned char*>(allocate(mine, 40 * mebibyte));
  const std::size_t with = pages.bytes();
  other[0] = 3;
  {
    const kernel_faults faults("mremap:fail=ENOMEM@*,mmap:fail=ENOMEM@2+");
    EXPECT_EQ(mine.resize(other, 200 * mebibyte), nullptr);
  }
  EXPECT_EQ(pages.bytes(), with);
  EXPECT_EQ(test_registry.of(other), address_registry::huge);
  EXPECT_EQ(other[0], 3);
  deallocate(mine, other);
  EXPECT_EQ(pages.bytes(), before);
}

TEST_F(preload_heap_faults, heaps_stay_with_threads_that_the_kernel_does_not_tell_of) {
  thread_heap* theirs = nullptr;
  std::promise<void> over;
  std::promise<void> adopted;
  std::thread other([&] {
    theirs = heaps.adopt();
    adopted.set_value();
    over.get_future().wait();
    heaps.leave(*theirs);
  });
  adopted.get_future().wait();
  {
    const kernel_faults faults("tgkill:fail=EPERM@*");
    ASSERT_EQ(faults.wrong(), nullptr);
    for (int i = 0; i < 100; ++i) EXPECT_NE(heaps.adopt(), theirs);
    EXPECT_NE(kernel_calls(kernel_call::tgkill), 0U);
  }
  over.set_value();
  other.join();
}

// Memory that the system does not take back.

struct preload_refused_memory : heap_fixture {
  span_pool& pool = heaps.commons().spans;

  /// Fills blocks, gives them back, and wants zeroed ones of their sizes.
  void expect_zeroed(std::size_t bytes, std::size_t count, bool trims) {
    std::vector<void*> blocks;
    for (std::size_t i = 0; i < count; ++i) {
      blocks.push_back(allocate(mine, bytes));
      std::memset(blocks.back(), 0xee, bytes);
    }
    for (void* const b : blocks) deallocate(mine, b);
    if (trims) heaps.trim(&mine);
    for (void*& b : blocks) {
      b = mine.allocate_zeroed(bytes);
      const auto* const at = static_cast<const unsigned char*>(b);
      ASSERT_TRUE(at[0] == 0 && std::memcmp(at, at + 1, bytes - 1) == 0);
    }
    for (void* const b : blocks) deallocate(mine, b);
  }
};

TEST_F(preload_refused_memory, is_not_taken_for_zero) {
  for (const char* const rules :
       {"madvise:fail=EINVAL@*", "madvise:fail=EPERM@1", "madvise:fail=EINVAL@2+"}) {
    for (const std::uint64_t period : {0U, 1U, 1000U}) {
      const kernel_faults faults(rules);
      pool.set_keep(0);
      pool.set_period(period);
      for (const bool trims : {false, true}) {
        expect_zeroed(100'000, 200, trims);
        expect_zeroed(400, 40'000, trims);
      }
    }
  }
}

TEST_F(preload_refused_memory, stays_and_is_tried_again) {
  const std::size_t regions = 40;
  std::vector<region*> all;
  bool zeroed = false;
  region* const kept = pool.take(1, zeroed);
  for (std::size_t i = 0; i < regions; ++i) {
    all.push_back(pool.take(1, zeroed));
    std::memset(span::of(all.back())->memory(span::number_of(*all.back())), 0xee, region_bytes);
  }
  {
    // All that was idle, row by row; each but once.
    const kernel_faults faults("madvise:fail=EINVAL@*");
    for (region* const r : all) pool.release(*r, 1);
    EXPECT_EQ(pool.count().dirty_regions, regions);
    EXPECT_GT(kernel_calls(kernel_call::madvise), 0U);
    EXPECT_LE(kernel_calls(kernel_call::madvise), 16 * regions);
    EXPECT_EQ(pool.discard_empty(), 0U);
    EXPECT_EQ(pool.count().dirty_regions, regions);
    EXPECT_EQ(pool.take(1, zeroed), all[0]);
    EXPECT_FALSE(zeroed);
    pool.release(*all[0], 1);
  }
  EXPECT_EQ(pool.discard_empty(), regions * region_bytes);
  EXPECT_EQ(pool.count().dirty_regions, 0U);
  EXPECT_EQ(pool.take(1, zeroed), all[0]);
  EXPECT_TRUE(zeroed);
  pool.release(*all[0], 1);
  pool.release(*kept, 1);
}

TEST_F(preload_refused_memory, goes_with_its_span) {
  bool zeroed = false;
  pool.set_keep(2 * span::bytes);
  region* const all = pool.take(span_pool::most_regions, zeroed);
  pool.release(*all, span_pool::most_regions);
  const kernel_faults faults("madvise:fail=EINVAL@*,munmap:fail=ENOMEM@1");
  EXPECT_EQ(pool.discard_empty(), 0U) << "neither";
  EXPECT_EQ(test_registry.of(all), address_registry::span);
  EXPECT_EQ(pool.count().dirty_regions, span_pool::most_regions);
  EXPECT_EQ(pool.discard_empty(), span_pool::most_regions * region_bytes);
  EXPECT_EQ(test_registry.of(all), address_registry::foreign);
  EXPECT_EQ(pool.count().dirty_regions, 0U);
  EXPECT_EQ(heaps.commons().pages.bytes() < span::bytes, true);
}

// Few addresses.

struct preload_small_limits : heap_fixture {
  page_source& pages = heaps.commons().pages;
  /// As many bytes more as there are.
  void leave(std::size_t bytes) { pages.set_limit(pages.bytes() + bytes); }
};

TEST_F(preload_small_limits, leave_spans_of_fewer_regions) {
  span_pool& pool = heaps.commons().spans;
  leave(4 * mebibyte);
  bool zeroed = false;
  std::vector<region*> all;
  while (region* const r = pool.take(1, zeroed)) {
    EXPECT_TRUE(zeroed);
    std::memset(span::of(r)->memory(span::number_of(*r)), 1, region_bytes);
    all.push_back(r);
  }
  EXPECT_EQ(all.size(), 15U) << "4 MiB but for what is known of them";
  EXPECT_EQ(pool.count().spans, 1U);
  for (region* const r : all) pool.release(*r, 1);
  EXPECT_EQ(pool.count().free_regions, 15U);
  // Rows end where the span does.
  region* const row = pool.take(14, zeroed);
  ASSERT_NE(row, nullptr);
  EXPECT_FALSE(pool.extend(*row, 14, 2));
  EXPECT_TRUE(pool.extend(*row, 14, 1));
  EXPECT_EQ(pool.take(1, zeroed), nullptr);
  pool.release(*row, 15);
  pool.discard_empty();
  EXPECT_EQ(pool.count().free_regions, 0U);
  EXPECT_EQ(test_registry.of(row), address_registry::foreign);
  // Nothing of it is left, and more fits again.
  pages.set_limit(~std::size_t{0});
  ASSERT_NE(pool.take(span_pool::most_regions, zeroed), nullptr);
}

TEST_F(preload_small_limits, leave_the_rest_of_a_unit_to_others) {
  leave(mebibyte);
  auto* const block = static_cast<std::byte*>(allocate(mine, 100));
  ASSERT_NE(block, nullptr);
  auto* const base = reinterpret_cast<std::byte*>(span::of(block));
  // Where nothing lies: others have mappings in the unit already, a sanitizer's among them.
  std::byte* theirs = nullptr;
  for (std::size_t at = 2; at < 30 && theirs == nullptr; ++at) {
    void* const got = mmap(base + at * mebibyte, page_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != MAP_FAILED) theirs = static_cast<std::byte*>(got);
  }
  ASSERT_NE(theirs, nullptr);
  theirs[0] = std::byte{7};
  for (std::byte* const foreign : {theirs, theirs + 64, base + mebibyte, base + 30 * mebibyte + 7}) {
    deallocate(mine, foreign);
    EXPECT_EQ(usable(foreign), 0U);
  }
  auto* const copied = static_cast<std::byte*>(mine.resize(theirs, 40));
  ASSERT_NE(copied, nullptr);
  EXPECT_EQ(copied[0], std::byte{7});
  EXPECT_EQ(theirs[0], std::byte{7});
  munmap(theirs, page_bytes);
  deallocate(mine, copied);
  deallocate(mine, block);
}

TEST_F(preload_small_limits, leave_larger_blocks_to_smaller_requests) {
  leave(mebibyte);
  // Three classes have the three regions.
  for (const std::size_t bytes : {30'000U, 5000U, 700U}) ASSERT_NE(allocate(mine, bytes), nullptr);
  for (const std::size_t bytes : {16U, 100U, 600U, 3000U, 20'000U}) {
    auto* const block = static_cast<std::byte*>(allocate(mine, bytes));
    ASSERT_NE(block, nullptr) << bytes;
    EXPECT_GE(usable(block), bytes);
    std::memset(block, 0xee, usable(block));
    EXPECT_EQ(mine.resize(block, usable(block)), block);
    deallocate(mine, block);
    auto* const zeroed = static_cast<std::byte*>(mine.allocate_zeroed(bytes));
    ASSERT_NE(zeroed, nullptr);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(zeroed[i], std::byte{0});
    deallocate(mine, zeroed);
  }
  // To the last one, each of its own.
  std::vector<void*> all;
  while (void* const block = allocate(mine, 64)) {
    std::memset(block, static_cast<int>(all.size() % 251), 64);
    all.push_back(block);
  }
  EXPECT_GT(all.size(), 2 * region_bytes / 6000);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(static_cast<unsigned char*>(all[i])[63], i % 251);
    deallocate(mine, all[i]);
  }
  mine.free_empty_regions();
  EXPECT_EQ(heaps.count().used_blocks, 3U);
}

TEST_F(preload_small_limits, leave_huge_blocks_of_just_their_size) {
  leave(41 * mebibyte);
  auto* const huge = static_cast<std::byte*>(allocate(mine, 40 * mebibyte));
  ASSERT_NE(huge, nullptr);
  huge[0] = huge[usable(huge) - 1] = std::byte{1};
  // What others have behind it, in the last of its units.
  std::byte* const behind = huge + usable(huge);
  EXPECT_LT(address(behind) % address_registry::unit_bytes, 10 * mebibyte);
  EXPECT_EQ(test_registry.of(huge), address_registry::huge);
  auto* const theirs = mmap(behind, page_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(theirs, behind);
  deallocate(mine, theirs);
  deallocate(mine, behind + 64);
  EXPECT_EQ(usable(behind), 0U);
  EXPECT_EQ(mine.resize(huge, 50 * mebibyte), nullptr);
  EXPECT_EQ(huge[0], std::byte{1});
  munmap(theirs, page_bytes);
  auto* const shrunk = static_cast<std::byte*>(mine.resize(huge, 17 * mebibyte));
  EXPECT_EQ(shrunk[0], std::byte{1});
  deallocate(mine, shrunk);
  EXPECT_EQ(heaps.count().large_blocks, 0U);
}

// Long rows and the memory of other regions.

struct preload_long_rows : heap_fixture {
  preload_long_rows() {
    pool.set_keep(span::bytes);
    // Two long rows, and one region behind each.
    std::array<region*, 4> all{};
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = pool.take(i % 2 == 0 ? half : 1, zeroed);
    for (const std::size_t i : {0U, 2U}) {
      std::memset(memory(all[i], 0), 0xee, half * region_bytes);
      pool.release(*all[i], half);
    }
  }
  static unsigned char* memory(region* first, std::size_t number) {
    return reinterpret_cast<unsigned char*>(span::of(first)->memory(span::number_of(*first) + number));
  }
  /// How many regions of a row have the memory that others had; the rest must be zero.
  static std::size_t filled(region* row, std::size_t regions) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < regions; ++i) {
      // The first page tells whether memory is locked, and may be zero.
      const unsigned char* const at = memory(row, i) + page_bytes;
      EXPECT_TRUE(at[0] == 0 || at[0] == 0xee);
      EXPECT_EQ(std::memcmp(at, at + 1, region_bytes - page_bytes - 1), 0);
      count += at[0] == 0xee ? 1 : 0;
    }
    return count;
  }

  static constexpr std::size_t half = 40;
  span_pool& pool = heaps.commons().spans;
  bool zeroed = false;
};

TEST_F(preload_long_rows, get_the_memory_of_other_regions) {
  constexpr std::size_t regions = 60;
  const kernel_faults faults("mremap:fail=EINVAL@1000");
  region* const taken = pool.take(regions, zeroed);
  EXPECT_EQ(kernel_calls(kernel_call::mremap), 2U) << "one call for each row of regions that give theirs";
  EXPECT_FALSE(zeroed);
  EXPECT_EQ(filled(taken, regions), regions) << "no page is new";
  EXPECT_EQ(pool.count().dirty_regions, 2 * half - regions);
  // What gave its memory is empty and zero.
  region* const rest = pool.take(span_pool::most_regions, zeroed);
  EXPECT_FALSE(zeroed);
  EXPECT_EQ(filled(rest, span_pool::most_regions), 2 * half - regions);
  EXPECT_EQ(pool.count().dirty_regions, 0U);
  pool.release(*taken, regions);
  pool.release(*rest, span_pool::most_regions);
  EXPECT_EQ(pool.discard_empty() % region_bytes, 0U);
}

TEST_F(preload_long_rows, do_without_where_the_kernel_moves_nothing) {
  const kernel_faults faults("mremap:fail=EINVAL@*");
  for (int round = 0; round < 2; ++round) {
    region* const taken = pool.take(60, zeroed);
    EXPECT_EQ(filled(taken, 60), zeroed ? 0U : filled(taken, 60));
    EXPECT_EQ(kernel_calls(kernel_call::mremap), 1U) << "it is asked once";
    EXPECT_EQ(pool.count().dirty_regions + (zeroed ? 0 : filled(taken, 60)), 2 * half);
  }
}

TEST_F(preload_long_rows, get_what_came_from_several_mappings_by_several_calls) {
  region* const taken = pool.take(60, zeroed);
  // It comes back, but for what lies behind it: the next long row lies elsewhere.
  ASSERT_TRUE(pool.extend(*taken, 60, 30));
  pool.release(*taken, 60);
  const kernel_faults faults("mremap:fail=EINVAL@1000");
  region* const next = pool.take(90, zeroed);
  ASSERT_NE(span::of(next), span::of(taken));
  EXPECT_EQ(filled(next, 90), 2 * half);
  EXPECT_EQ(kernel_calls(kernel_call::mremap), 3U) << "most kernels move no pages of two mappings at once";
  EXPECT_EQ(pool.count().dirty_regions, 0U);
}

TEST_F(preload_long_rows, get_it_in_pieces_where_some_have_memory) {
  constexpr std::size_t regions = 45;
  // Of these the ten in the middle keep their memory.
  region* const whole = pool.take(regions, zeroed);
  const auto after = [&](std::size_t number) -> region& {
    return span::of(whole)->slot(span::number_of(*whole) + number);
  };
  pool.set_keep(0);
  pool.release(*whole, 10);
  pool.release(after(20), regions - 20);
  pool.set_keep(span::bytes);
  pool.release(after(10), 10);
  const std::size_t others = 2 * half - regions;
  ASSERT_EQ(pool.count().dirty_regions, others + 10);
  region* taken = nullptr;
  {
    const kernel_faults faults("mremap:fail=EINVAL@2");
    taken = pool.take(regions, zeroed);
  }
  ASSERT_EQ(taken, whole);
  EXPECT_FALSE(zeroed);
  EXPECT_EQ(filled(taken, regions), 20U) << "the first piece";
  EXPECT_EQ(pool.count().dirty_regions, others - 10) << "the second one was refused";
  // Each region that counts as zero is.
  std::size_t left = others - 10;
  for (std::size_t i = pool.count().free_regions; i != 0; --i) {
    region* const one = pool.take(1, zeroed);
    ASSERT_NE(one, nullptr);
    const std::size_t with_memory = filled(one, 1);
    EXPECT_EQ(with_memory, zeroed ? 0U : 1U);
    left -= with_memory;
  }
  EXPECT_EQ(left, 0U);
  pool.release(*taken, regions);
}

TEST_F(preload_long_rows, leave_alone_what_may_be_anothers) {
  const std::size_t free_before = pool.count().free_regions;
  region* taken = nullptr;
  {
    // As if the pages that were to be replaced were gone, and others mapped there: it cannot be told.
    const kernel_faults faults("mremap:fail=ENOMEM@2");
    taken = pool.take(60, zeroed);
  }
  ASSERT_NE(taken, nullptr);
  static_cast<void>(filled(taken, 60));
  const std::size_t in_new_spans = (pool.count().spans - 1) * span_pool::most_regions;
  EXPECT_EQ(pool.count().free_regions + 60 + half, free_before + in_new_spans)
      << "those of one call are lost";
  // Those that had got memory before it have kept it.
  for (std::size_t left = pool.count().free_regions; left != 0; --left) {
    region* const one = pool.take(1, zeroed);
    ASSERT_NE(one, nullptr);
    const std::size_t with_memory = filled(one, 1);
    if (zeroed) {
      EXPECT_EQ(with_memory, 0U);
    }
  }
  pool.release(*taken, 60);
}

TEST_F(preload_long_rows, leave_the_program_room_for_mappings) {
  // Every second region gives its memory, again and again: a mapping of its own for each that gets it.
  constexpr std::size_t spans = 20;
  constexpr std::size_t most = 8192;
  std::vector<region*> giving;
  for (std::size_t i = 0; i < spans * span_pool::most_regions; ++i) {
    region* const one = pool.take(1, zeroed);
    if (i % 2 == 0) giving.push_back(one);
  }
  pool.set_keep(spans * span::bytes);
  const kernel_faults faults("mremap:fail=EINVAL@100000");
  for (std::size_t before = kernel_calls(kernel_call::mremap), calls = 1; calls != 0; before += calls) {
    ASSERT_LE(before, most) << "no bound";
    for (region* const one : giving) pool.release(*one, 1);
    for (std::size_t rows = 0; rows < giving.size() / span_pool::long_row; ++rows)
      ASSERT_NE(pool.take(span_pool::long_row, zeroed), nullptr);
    // Those that gave it are free, and zero: in the same places.
    for (region*& one : giving) ASSERT_NE(one = pool.take(1, zeroed), nullptr);
    calls = kernel_calls(kernel_call::mremap) - before;
  }
  EXPECT_GE(kernel_calls(kernel_call::mremap), most / 2);
}

TEST_F(preload_long_rows, go_where_they_exceed_what_is_kept) {
  pool.set_keep(0);
  pool.set_period(1'000'000);
  region* const taken = pool.take(span_pool::most_regions - 1, zeroed);
  std::memset(memory(taken, 0), 0xee, (span_pool::most_regions - 1) * region_bytes);
  pool.release(*taken, span_pool::most_regions - 1);
  EXPECT_EQ(pool.count().dirty_regions, 64U) << "16 MiB";
}

}  // namespace
}  // namespace espalier::preload
