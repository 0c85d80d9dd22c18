// Allocation inside transactions that abort, in the models of allocators and in the library's own placement.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "apps/studies/malloc_tsx/allocation_models.hpp"
#include "espalier/memory/baselines/disturbed.hpp"
#include "espalier/memory/index_aware.hpp"
#include "sim/machine/presets.hpp"
#include "sim/simulation/simulation.hpp"
#include "sim/transactions/simulated_htm.hpp"

namespace {

using namespace espalier;
using sim::simulation;

constexpr block wanted{512, 16, memory_role::node};

template <class Placement>
class allocation_in_transactions : public testing::Test {};
using placements = testing::Types<simulate::glibc_model, random_padding<simulate::glibc_model>,
                                  simulate::size_class_model, index_aware>;
TYPED_TEST_SUITE(allocation_in_transactions, placements);

/// Each of a few transactions allocates blocks and frees some; every second one aborts at its end.
TYPED_TEST(allocation_in_transactions, an_abort_leaves_nothing) {
  simulation s(sim::preset("i7_4770"), 1);
  TypeParam* from = nullptr;  // in the simulation's memory: other memory is not restored
  std::vector<void*> kept(64);
  std::uint64_t blocks_before = 0;
  std::uint64_t blocks_after = 0;
  std::vector<bool> same;
  same.reserve(16);
  s.without_time([&](unsigned) {
    from = new TypeParam;
    for (void*& k : kept) k = from->allocate(wanted);
    for (std::size_t i = 0; i < 32; ++i) from->deallocate(kept[i], wanted);
    blocks_before = from->usage().blocks;
  });
  const sim::phase_result r = s.run([&](unsigned) {
    for (unsigned round = 0; round < 8; ++round) {
      const auto attempt = [&](bool commits, void*& got) {
        return sim::simulated_htm::run([&]() noexcept {
          void* const first = from->allocate(wanted);
          void* const second = from->allocate(wanted);
          from->deallocate(first, wanted);
          from->deallocate(second, wanted);
          got = from->allocate(wanted);
          if (!commits) return hw::transaction_verdict::abort(hw::abort_code::validation);
          from->deallocate(got, wanted);
          return hw::transaction_verdict::commit();
        });
      };
      // Locals of the caller are not restored.
      void* aborted = nullptr;
      void* committed = nullptr;
      const bool first = attempt(false, aborted).committed;
      const bool second = attempt(true, committed).committed;
      same.push_back(!first && second && aborted != nullptr && aborted == committed);
    }
  });
  s.without_time([&](unsigned) {
    blocks_after = from->usage().blocks;
    delete from;
  });
  EXPECT_EQ(same, std::vector<bool>(8, true)) << "an attempt after an abort finds other blocks";
  EXPECT_EQ(blocks_before, 32U);
  EXPECT_EQ(blocks_after, 32U);
  EXPECT_EQ(r.transactions.of(sim::abort_reason::explicit_abort), 8U);
  EXPECT_EQ(r.transactions.committed, 8U);
  EXPECT_EQ(r.transactions.begun, 16U);
}

/// A transaction can neither map a page nor write as much as a thread's first allocation does. The attempt fails, and
/// later ones are unaffected.
TYPED_TEST(allocation_in_transactions, first_allocations_abort) {
  simulation s(sim::preset("i7_4770"), 1);
  TypeParam* from = nullptr;  // in the simulation's memory: other memory is not restored
  s.without_time([&](unsigned) { from = new TypeParam; });
  hw::transaction_outcome first{true, {}};
  hw::transaction_outcome second{false, {}};
  const sim::phase_result r = s.run([&](unsigned) {
    const auto attempt = [&] {
      return sim::simulated_htm::run([&]() noexcept { static_cast<void>(from->allocate(wanted)); });
    };
    first = attempt();
    static_cast<void>(from->allocate(wanted));
    second = attempt();
  });
  std::uint64_t blocks = 0;
  s.without_time([&](unsigned) {
    blocks = from->usage().blocks;
    delete from;
  });
  EXPECT_FALSE(first.committed);
  EXPECT_FALSE(first.status.may_retry());
  EXPECT_TRUE(second.committed);
  EXPECT_EQ(r.transactions.of(sim::abort_reason::other) + r.transactions.of(sim::abort_reason::capacity), 1U);
  EXPECT_EQ(r.transactions.begun, 2U);
  EXPECT_EQ(blocks, 2U);
}

}  // namespace
