// The soak on a heap as an object, where sanitizers see it; and that the soak finds what it is there for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "heap_fixture.hpp"
#include "malloc_soak.hpp"
#include "support/environment.hpp"

namespace espalier::preload {
namespace {

using test::malloc_soak;
using test::soak_figures;
using test::soak_options;
using test::soak_outcome;
using ::testing::HasSubstr;

/// A thread's heap, as long as there is the thread.
class adopted_heap {
 public:
  explicit adopted_heap(thread_heaps& heaps) : heaps_(heaps), mine_(*heaps.adopt()) {}
  ~adopted_heap() { heaps_.leave(mine_); }
  adopted_heap(const adopted_heap&) = delete;
  adopted_heap& operator=(const adopted_heap&) = delete;

  void* allocate(std::size_t bytes) { return heap_fixture::allocate(mine_, bytes); }
  void* allocate_zeroed(std::size_t bytes) { return mine_.allocate_zeroed(bytes); }
  void* allocate_aligned(std::size_t bytes, std::size_t align) {
    return mine_.allocate_aligned(bytes, align);
  }
  void* resize(void* block, std::size_t bytes) { return mine_.resize(block, bytes); }
  void deallocate(void* block) { heap_fixture::deallocate(mine_, block); }
  static std::size_t usable(void* block) { return heap_fixture::usable(block); }

 protected:
  thread_heaps& heaps_;
  thread_heap& mine_;
};

soak_options a_short_one() {
  soak_options options;
  options.operations = test::instrumented ? 200'000 : 400'000;
  options.of_one_thread = options.operations / 16;
  options.places = 1000;
  return options;
}

/// What two blocks share, two threads never do: else the errors below would race, and ThreadSanitizer be right.
soak_options one_that_keeps_to_itself() {
  soak_options options = a_short_one();
  options.passes_on = false;
  options.of_one_thread = options.operations;
  return options;
}

struct preload_heap_soak : heap_fixture {
  template <class Malloc = adopted_heap>
  soak_outcome run(const soak_options& options) {
    return malloc_soak([this] { return Malloc(heaps); }, options).run([](const soak_figures&) {
      return std::string();
    });
  }
};

TEST_F(preload_heap_soak, loses_nothing_and_keeps_nothing) {
  const soak_outcome ended = run(a_short_one());
  EXPECT_EQ(ended.wrong, "");
  EXPECT_GE(ended.figures.operations, a_short_one().operations / 4 * 3);
  EXPECT_GT(ended.figures.threads, 12U);
  EXPECT_EQ(ended.figures.live_bytes, 0U);
  EXPECT_GT(ended.figures.most_live_bytes, 0U);
  heaps.trim(&mine);
  EXPECT_EQ(heaps.count().used_blocks, 0U);
  EXPECT_EQ(heaps.count().used_bytes, 0U);
  EXPECT_EQ(heaps.count().regions, 0U);
  EXPECT_LE(heaps.count().heaps, a_short_one().lines + 4) << "as many as there were threads at once";
}

/// Errors that a malloc may have. Of two blocks that overlap we do one's writing, so that the heap stays whole.
enum class defect {
  double_allocation,
  blocks_overlap,
  zeroes_too_little,
  loses_what_it_moves,
  aligns_by_half,
  has_less_than_asked_for,
  keeps_a_block,
};

/// Makes its error once in a while.
template <defect Kind>
class broken_heap : public adopted_heap {
 public:
  using adopted_heap::adopted_heap;

  void* allocate(std::size_t bytes) {
    if (Kind == defect::double_allocation && bytes <= 64 && now_and_then()) {
      if (chosen_ == nullptr) chosen_ = adopted_heap::allocate(64);
      return chosen_;
    }
    void* const block = adopted_heap::allocate(bytes);
    if (Kind == defect::blocks_overlap && bytes > 128 && now_and_then()) {
      if (chosen_ != nullptr) static_cast<std::byte*>(chosen_)[40] ^= std::byte{1};
      chosen_ = block;
    }
    return block;
  }
  static std::size_t usable(void* block) {
    return adopted_heap::usable(block) / (Kind == defect::has_less_than_asked_for ? 2 : 1);
  }
  void* allocate_zeroed(std::size_t bytes) {
    auto* const block = static_cast<std::byte*>(adopted_heap::allocate_zeroed(bytes));
    if (Kind == defect::zeroes_too_little && now_and_then()) block[bytes - 1] = std::byte{1};
    return block;
  }
  void* allocate_aligned(std::size_t bytes, std::size_t align) {
    return adopted_heap::allocate_aligned(bytes, Kind == defect::aligns_by_half ? align / 2 : align);
  }
  void* resize(void* block, std::size_t bytes) {
    if (block == chosen_) return resize_chosen(bytes);
    auto* const moved = static_cast<std::byte*>(adopted_heap::resize(block, bytes));
    if (Kind == defect::loses_what_it_moves && now_and_then()) moved[0] ^= std::byte{1};
    return moved;
  }
  void deallocate(void* block) {
    if (block == chosen_) return deallocate_chosen();
    if (Kind != defect::keeps_a_block || !now_and_then()) adopted_heap::deallocate(block);
  }

 private:
  bool now_and_then() { return ++turns_ % 256 == 0; }

  void* resize_chosen(std::size_t bytes) {
    void* const moved = adopted_heap::allocate(bytes);
    std::memcpy(moved, chosen_, std::min(bytes, usable(chosen_)));
    deallocate_chosen();
    return moved;
  }
  /// Who else has it has it still.
  void deallocate_chosen() {
    if (Kind == defect::double_allocation) return;
    adopted_heap::deallocate(std::exchange(chosen_, nullptr));
  }

  unsigned turns_ = 0;
  void* chosen_ = nullptr;  // the block that is given twice, or that the next one overlaps
};

TEST_F(preload_heap_soak, finds_each_error_that_it_is_there_for) {
  const soak_options options = a_short_one();
  const soak_options alone = one_that_keeps_to_itself();
  EXPECT_THAT(run<broken_heap<defect::double_allocation>>(alone).wrong, HasSubstr("lost"));
  EXPECT_THAT(run<broken_heap<defect::blocks_overlap>>(alone).wrong, HasSubstr("lost"));
  EXPECT_THAT(run<broken_heap<defect::zeroes_too_little>>(options).wrong, HasSubstr("to be zero"));
  EXPECT_THAT(run<broken_heap<defect::loses_what_it_moves>>(options).wrong,
              HasSubstr("lost contents by resizing"));
  EXPECT_THAT(run<broken_heap<defect::aligns_by_half>>(options).wrong, HasSubstr("not aligned"));
  EXPECT_THAT(run<broken_heap<defect::has_less_than_asked_for>>(options).wrong,
              HasSubstr("less may be used"));
}

TEST_F(preload_heap_soak, sees_what_is_not_freed) {
  EXPECT_EQ(run<broken_heap<defect::keeps_a_block>>(a_short_one()).wrong, "");
  heaps.trim(&mine);
  EXPECT_GT(heaps.count().used_blocks, 0U);
}

}  // namespace
}  // namespace espalier::preload
