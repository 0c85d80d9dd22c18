// What the transactions of a world keep, without a program, and which bytes are one record.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/runtime/arena.hpp"
#include "sim/runtime/fibers.hpp"
#include "sim/runtime/world.hpp"
#include "sim/transactions/transactions.hpp"
#include "support/abort_statuses.hpp"

namespace espalier::sim {
namespace {

using namespace hw;
using namespace test::abort_statuses;

constexpr std::uint64_t some_line = 100;
constexpr std::int64_t first_byte = some_line * 64;

/// Bytes from the line's first on that become a record or metadata; without a kind they are forgotten.
struct annotated {
  std::int64_t begin, end;
  std::optional<record_kind> kind;
};
struct pair_of_bytes {
  std::uint64_t one, other;  // bytes of the line
  abort_reason reason;
};

records known_after(const std::vector<annotated>& all) {
  records known;
  for (const auto& [begin, end, kind] : all) {
    const auto from = static_cast<std::uint64_t>(first_byte + begin);
    const auto to = static_cast<std::uint64_t>(first_byte + end);
    kind ? known.annotate(from, to, *kind) : known.forget(from, to);
  }
  return known;
}

TEST(byte_mask, whole_and_parts) {
  EXPECT_EQ(byte_mask(0, 64), ~std::uint64_t{0});
  EXPECT_EQ(byte_mask(0, 1), 1U);
  EXPECT_EQ(byte_mask(8, 8), 0xff00U);
  EXPECT_EQ(byte_mask(63, 1), std::uint64_t{1} << 63U);
}

TEST(record_meeting, is_true_false_or_about_metadata) {
  constexpr auto record = record_kind::record;
  constexpr auto metadata = record_kind::metadata;
  constexpr auto is_true = abort_reason::true_conflict;
  constexpr auto is_false = abort_reason::false_conflict;
  struct rule {
    const char* what;
    std::vector<annotated> known;
    std::vector<pair_of_bytes> meetings;
  };
  const rule rules[] = {
      {"without annotations, about bytes", {}, {{3, 3, is_true}, {3, 4, is_false}}},
      {"one record", {{8, 24, record}}, {{8, 23, is_true}, {7, 8, is_false}, {23, 24, is_false}}},
      {"two records", {{0, 16, record}, {16, 32, record}}, {{15, 16, is_false}}},
      {"metadata",
       {{0, 16, metadata}, {16, 32, record}, {32, 48, metadata}},
       {{0, 0, abort_reason::metadata},
        {0, 15, abort_reason::metadata},
        {0, 16, is_false},
        {0, 32, is_false}}},
      {"records of several lines",
       {{-128, 8, record}, {60, 100, record}},
       {{0, 7, is_true}, {60, 63, is_true}, {7, 60, is_false}}},
      {"cut in two by a new one",
       {{0, 64, record}, {16, 32, metadata}},
       {{0, 15, is_true}, {16, 31, abort_reason::metadata}, {32, 63, is_true}, {0, 63, is_false}}},
      {"cut, and the cut covered again",
       {{0, 64, record}, {16, 32, metadata}, {8, 40, record}},
       {{8, 39, is_true}, {7, 8, is_false}, {40, 63, is_true}}},
      {"partly forgotten",
       {{-64, 8, record}, {8, 16, record}, {24, 64, record}, {4, 32, {}}},
       {{0, 3, is_true}, {4, 7, is_false}, {8, 15, is_false}, {24, 31, is_false}, {32, 63, is_true}}},
      {"all forgotten", {{-64, 8, record}, {-first_byte, -1 - first_byte, {}}}, {{0, 3, is_false}}},
      {"empty ranges", {{0, 0, record}, {0, 8, record}, {4, 4, {}}}, {{0, 7, is_true}}},
  };
  for (const rule& r : rules) {
    const records known = known_after(r.known);
    for (const pair_of_bytes& m : r.meetings) {
      SCOPED_TRACE(std::string(r.what) + ": " + std::to_string(m.one) + " and " + std::to_string(m.other));
      EXPECT_EQ(known.meeting(some_line, byte_mask(m.one, 1), byte_mask(m.other, 1)), m.reason);
      EXPECT_EQ(known.meeting(some_line, byte_mask(m.other, 1), byte_mask(m.one, 1)), m.reason);
    }
  }
}

TEST(record_meeting, a_shared_record_outweighs_shared_metadata) {
  const records known = known_after({{0, 16, record_kind::metadata}, {16, 32, record_kind::record}});
  EXPECT_EQ(known.meeting(some_line, byte_mask(0, 17), byte_mask(8, 24)), abort_reason::true_conflict);
  EXPECT_EQ(known.meeting(some_line, byte_mask(0, 17), byte_mask(8, 8)), abort_reason::metadata);
  EXPECT_EQ(known.meeting(some_line, byte_mask(0, 64), byte_mask(8, 8) | byte_mask(40, 1)),
            abort_reason::true_conflict);
}

// What the transactions of a world keep, without a program: fibers are numbers here, and accesses are told.

/// A world in which nothing runs.
class still_world final : public sim::world {
 public:
  still_world() {
    memory = &heap;
    transactional = &all;
    heap.reset(sim::heap::policy::reuse);
  }
  void before(const access&) override {}
  void fence(std::memory_order) override {}
  void wait(bool) override {}
  std::uint32_t slot() const noexcept override { return 0; }
  std::uint32_t slots() const noexcept override { return 1; }
  void fault(const char* what, const block_record*) override { throw std::logic_error(what); }
  block_event event() const noexcept override { return block_event::now(0, 0); }
  std::uint64_t moment() noexcept override { return 0; }

  sim::heap heap;
  transactions all{*this};
};

class transaction_sets : public testing::Test {
 protected:
  static constexpr std::size_t lines = 4096;

  transaction_sets() { limit({64, 12, 512}); }

  void limit(const transactional_spec& limits) {
    world.heap.reset(sim::heap::policy::reuse);
    world.all.reset(limits);
    bytes = static_cast<unsigned char*>(world.heap.allocate(lines * 64, 4096, {}));
    for (std::size_t i = 0; i < lines * 64; ++i) bytes[i] = static_cast<unsigned char>(i * 7);
    before.assign(bytes, bytes + lines * 64);
  }

  std::uintptr_t at(std::size_t offset) const { return reinterpret_cast<std::uintptr_t>(bytes) + offset; }

  void begin(unsigned fiber) { all().begin(fiber, nowhere); }
  void read(unsigned fiber, std::size_t offset, std::uint32_t n = 8) {
    all().observe(fiber, {at(offset), n, access_kind::read, nullptr});
  }
  void write(unsigned fiber, std::size_t offset, std::uint32_t n = 8) {
    all().observe(fiber, {at(offset), n, access_kind::write, nullptr});
    if (!all().doomed(fiber)) std::memset(bytes + offset, 0xee, n);
  }
  bool memory_is_as_before() const { return std::memcmp(bytes, before.data(), before.size()) == 0; }

  transactions& all() { return world.all; }
  std::uint64_t counted(abort_reason reason) { return all().counts().of(reason); }

  still_world world;
  std::jmp_buf nowhere{};
  unsigned char* bytes = nullptr;
  std::vector<unsigned char> before;
};

TEST_F(transaction_sets, commit_keeps_and_abort_undoes_each_byte) {
  begin(0);
  write(0, 3, 5);
  write(0, 60, 9);
  write(0, 4, 2);
  write(0, 6, 8);
  EXPECT_FALSE(memory_is_as_before());
  all().abort(0, abort_code::user_1);
  EXPECT_TRUE(memory_is_as_before());
  EXPECT_TRUE(all().doomed(0));
  EXPECT_EQ(all().taken_back(0).status, abort_status::asked_for(abort_code::user_1));
  EXPECT_FALSE(all().active(0));

  begin(0);
  write(0, 60, 9);
  ASSERT_TRUE(all().try_commit(0));
  EXPECT_EQ(bytes[60], 0xee);
  EXPECT_EQ(bytes[68], 0xee);
  EXPECT_EQ(bytes[59], before[59]);
  EXPECT_EQ(all().counts().begun, 2U);
  EXPECT_EQ(all().counts().committed, 1U);
  EXPECT_EQ(all().counts().aborted(), 1U);
}

TEST_F(transaction_sets, requester_wins) {
  struct meeting {
    access_kind mine;
    access_kind theirs;
    bool aborts;
  };
  using enum access_kind;
  const meeting meetings[] = {
      {read, read, false},         {read, atomic_load, false}, {read, write, true},
      {read, atomic_store, true},  {read, modify, true},       {write, read, true},
      {write, atomic_load, true},  {write, write, true},       {modify, atomic_load, true},
      {atomic_load, modify, true}, {atomic_store, read, true}, {atomic_load, atomic_load, false},
  };
  for (const meeting& m : meetings) {
    for (const bool in_transaction : {false, true}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(m.mine)) + " met by " +
                   std::to_string(static_cast<int>(m.theirs)));
      limit({64, 12, 512});
      begin(0);
      if (in_transaction) begin(1);
      all().observe(0, {at(0), 8, m.mine, nullptr});
      if (is_write(m.mine)) std::memset(bytes, 0, 8);
      all().observe(1, {at(56), 8, m.theirs, nullptr});
      EXPECT_EQ(all().doomed(0), m.aborts);
      EXPECT_FALSE(all().doomed(1));
      if (!m.aborts) continue;
      EXPECT_TRUE(memory_is_as_before());
      EXPECT_EQ(all().taken_back(0).status, conflict);
      EXPECT_EQ(counted(abort_reason::false_conflict), 1U);
    }
  }
}

TEST_F(transaction_sets, the_next_line_is_no_conflict) {
  begin(0);
  write(0, 0, 64);
  read(1, 64);
  write(1, 64);
  EXPECT_FALSE(all().doomed(0));
  write(1, 63, 2);
  EXPECT_TRUE(all().doomed(0));
}

TEST_F(transaction_sets, one_write_aborts_all_readers) {
  for (const unsigned fiber : {0U, 1U, 2U}) begin(fiber);
  for (const unsigned fiber : {0U, 1U, 2U}) read(fiber, 0);
  write(1, 0);
  EXPECT_TRUE(all().doomed(0));
  EXPECT_FALSE(all().doomed(1));
  EXPECT_TRUE(all().doomed(2));
  EXPECT_EQ(counted(abort_reason::true_conflict), 2U);
  // Whoever is doomed stands in nobody's way.
  read(1, 64);
  EXPECT_TRUE(all().try_commit(1));
}

TEST_F(transaction_sets, ended_transactions_conflict_with_none) {
  begin(0);
  read(0, 0);
  write(0, 64);
  ASSERT_TRUE(all().try_commit(0));
  begin(0);
  write(1, 0);
  write(1, 64);
  EXPECT_FALSE(all().doomed(0));
}

TEST_F(transaction_sets, a_buffered_store_meets_when_it_is_seen) {
  begin(0);
  write(0, 8);
  all().on_visible(1, at(0), 4);
  EXPECT_TRUE(all().doomed(0));
  EXPECT_TRUE(memory_is_as_before());
  EXPECT_EQ(counted(abort_reason::false_conflict), 1U);
}

TEST_F(transaction_sets, what_a_fiber_does_to_its_stack_is_not_put_back) {
  const std::uintptr_t stack = arena::stacks + 2 * fibers::stack_bytes;
  int& own = *reinterpret_cast<int*>(stack + 4096);
  int& others = *reinterpret_cast<int*>(stack - 4096);
  own = others = 1;
  begin(2);
  for (int* const variable : {&own, &others}) {
    all().observe(2, {reinterpret_cast<std::uintptr_t>(variable), sizeof(int), access_kind::write, nullptr});
    *variable = 2;
  }
  all().abort(2, abort_code::user_1);
  EXPECT_EQ(own, 2);
  EXPECT_EQ(others, 1);
}

TEST_F(transaction_sets, contiguous_writes_fit_exactly_sets_times_ways) {
  begin(0);
  for (std::size_t line = 0; line < 768; ++line) write(0, line * 64, 64);
  EXPECT_FALSE(all().doomed(0));
  EXPECT_TRUE(all().try_commit(0));
  limit({64, 12, 512});
  begin(0);
  for (std::size_t line = 0; line < 768; ++line) write(0, line * 64, 64);
  write(0, 0);
  EXPECT_FALSE(all().doomed(0)) << "no new line";
  write(0, 768 * 64, 1);
  ASSERT_TRUE(all().doomed(0));
  EXPECT_TRUE(memory_is_as_before());
  EXPECT_EQ(all().taken_back(0).status, capacity);
  EXPECT_EQ(counted(abort_reason::capacity), 1U);
}

TEST_F(transaction_sets, one_set_holds_its_ways) {
  begin(0);
  for (std::size_t i = 0; i < 12; ++i) write(0, i * 4096);
  EXPECT_FALSE(all().doomed(0));
  write(0, 64);
  read(0, 12 * 4096);
  EXPECT_FALSE(all().doomed(0)) << "another set, and no write";
  write(0, 12 * 4096);
  ASSERT_TRUE(all().doomed(0));
  EXPECT_TRUE(memory_is_as_before());
  EXPECT_EQ(all().taken_back(0).status, capacity);
  // Each transaction has all the room.
  begin(0);
  for (std::size_t i = 0; i < 12; ++i) write(0, i * 4096);
  EXPECT_TRUE(all().try_commit(0));
}

TEST_F(transaction_sets, a_written_line_that_is_displaced_lacks_capacity) {
  const std::uint64_t line = arena::simulated(at(0)).value() / 64;
  begin(0);
  read(0, 0);
  all().on_displaced(line);
  EXPECT_FALSE(all().doomed(0)) << "what was read is followed further out";
  write(0, 8);
  all().on_displaced(line + 1);
  EXPECT_FALSE(all().doomed(0)) << "another line";
  all().on_displaced(line);
  ASSERT_TRUE(all().doomed(0));
  EXPECT_TRUE(memory_is_as_before());
  EXPECT_EQ(all().taken_back(0).status, capacity);
  EXPECT_EQ(counted(abort_reason::capacity), 1U);
}

TEST_F(transaction_sets, a_displaced_line_is_kept_where_caches_keep_them) {
  all().reset({.write_sets = 64, .write_ways = 12, .read_set_lines = 512, .keeps_written = true});
  begin(0);
  for (std::size_t i = 0; i < 12; ++i) write(0, i * 4096);
  all().on_displaced(arena::simulated(at(0)).value() / 64);
  EXPECT_FALSE(all().doomed(0));
  write(0, 12 * 4096);
  EXPECT_TRUE(all().doomed(0)) << "more than ways do not fit";
  EXPECT_EQ(all().taken_back(0).status, capacity);
}

TEST_F(transaction_sets, a_displaced_line_aborts_its_writer) {
  const std::uint64_t line = arena::simulated(at(0)).value() / 64;
  begin(0);
  begin(1);
  all().begin_inner(1);
  read(0, 64);
  write(0, 128);
  write(1, 0);
  all().on_displaced(line);
  EXPECT_FALSE(all().doomed(0));
  ASSERT_TRUE(all().doomed(1));
  EXPECT_EQ(all().taken_back(1).status.word(), capacity.word() | abort_status::nested_bit);
  // Aborted and committed ones have none.
  all().on_displaced(line);
  begin(1);
  write(1, 0);
  ASSERT_TRUE(all().try_commit(1));
  all().on_displaced(line);
  ASSERT_TRUE(all().try_commit(0));
  all().on_displaced(line + 2);
  EXPECT_EQ(counted(abort_reason::capacity), 1U);
  EXPECT_EQ(all().counts().aborted(), 1U);
}

TEST_F(transaction_sets, reads_fit_exactly_their_lines) {
  begin(0);
  for (std::size_t line = 0; line < 512; ++line) read(0, line * 64);
  read(0, 8);
  write(0, 600 * 64);
  EXPECT_FALSE(all().doomed(0));
  all().observe(0, {at(600 * 64), 8, access_kind::modify, nullptr});
  ASSERT_TRUE(all().doomed(0)) << "a modification reads too";
  EXPECT_EQ(all().taken_back(0).status, capacity);
}

TEST_F(transaction_sets, one_long_access_takes_its_lines) {
  limit({64, 12, 4});
  begin(0);
  read(0, 63, 2 + 2 * 64);
  EXPECT_FALSE(all().doomed(0));
  read(0, 10 * 64 + 63, 2);
  EXPECT_TRUE(all().doomed(0));
}

TEST_F(transaction_sets, inner_aborts_say_so) {
  begin(0);
  all().begin_inner(0);
  write(0, 0);
  read(1, 0);
  ASSERT_TRUE(all().doomed(0));
  EXPECT_EQ(all().taken_back(0).status.word(), conflict.word() | abort_status::nested_bit);
  begin(0);
  all().begin_inner(0);
  all().end_inner(0);
  write(0, 0);
  read(1, 0);
  EXPECT_EQ(all().taken_back(0).status, conflict) << "the inner one had ended";
  EXPECT_EQ(all().counts().of(abort_cause::conflict), 2U);
}

TEST_F(transaction_sets, abort_frees_what_was_allocated_and_nothing_else) {
  void* const old = world.heap.allocate(32, 16, {});
  begin(0);
  void* const first = world.heap.allocate(48, 16, {});
  all().allocated(0, first);
  void* const second = world.heap.allocate(48, 16, {});
  all().allocated(0, second);
  all().free_at_commit(0, old, {});
  all().free_at_commit(0, first, {});
  EXPECT_EQ(world.heap.live().size(), 4U);
  all().abort(0, abort_code::validation);
  EXPECT_EQ(world.heap.live().size(), 2U);
  static_cast<void>(all().taken_back(0));
  EXPECT_EQ(world.heap.find(reinterpret_cast<std::uintptr_t>(old))->state, block_state::live);
  EXPECT_EQ(world.heap.allocate(48, 16, {}), first) << "the next attempt finds the same places";
  EXPECT_EQ(world.heap.allocate(48, 16, {}), second);
}

TEST_F(transaction_sets, commit_frees_what_was_freed) {
  void* const old = world.heap.allocate(32, 16, {});
  begin(0);
  void* const kept = world.heap.allocate(48, 16, {});
  void* const dropped = world.heap.allocate(48, 16, {});
  for (void* const memory : {kept, dropped}) all().allocated(0, memory);
  for (void* const memory : {old, dropped}) all().free_at_commit(0, memory, {});
  ASSERT_TRUE(all().try_commit(0));
  static_cast<void>(all().committed(0));
  const auto live = world.heap.live();
  ASSERT_EQ(live.size(), 2U);
  EXPECT_EQ(live[0]->address, at(0));
  EXPECT_EQ(live[1]->address, reinterpret_cast<std::uintptr_t>(kept));
}

TEST_F(transaction_sets, a_block_freed_twice_is_found_at_the_commit) {
  void* const old = world.heap.allocate(32, 16, {});
  begin(0);
  all().free_at_commit(0, old, {});
  all().free_at_commit(0, old, {});
  ASSERT_TRUE(all().try_commit(0));
  EXPECT_THROW(static_cast<void>(all().committed(0)), std::logic_error);
}

TEST_F(transaction_sets, actions_follow_the_outcome) {
  std::string done;
  const auto add = [&done](const char* what) { return [&done, what] { done += what; }; };
  const auto give = [&] {
    all().on_commit(0, add("c1 "));
    all().on_abort(0, add("a1 "));
    all().on_commit(0, add("c2 "));
    all().on_abort(0, add("a2 "));
  };
  begin(0);
  give();
  all().abort(0, abort_code::user_2);
  EXPECT_EQ(done, "");
  for (const auto& action : all().taken_back(0).undo) action();
  EXPECT_EQ(done, "a2 a1 ");
  done.clear();
  begin(0);
  give();
  ASSERT_TRUE(all().try_commit(0));
  for (const auto& action : all().committed(0)) action();
  EXPECT_EQ(done, "c1 c2 ");
  done.clear();
  begin(0);
  ASSERT_TRUE(all().try_commit(0));
  EXPECT_TRUE(all().committed(0).empty());
}

TEST_F(transaction_sets, a_read_meets_what_was_written_only) {
  all().annotate(at(0), 16, record_kind::record);
  begin(0);
  read(0, 0);
  write(0, 32);
  read(1, 0);
  EXPECT_EQ(counted(abort_reason::false_conflict), 1U);
}

TEST_F(transaction_sets, annotations_go_with_their_block) {
  void* const block = world.heap.allocate(64, 64, {});
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  all().annotate(address, 64, record_kind::record);
  const auto meet = [&] {
    begin(0);
    all().observe(0, {address, 8, access_kind::write, nullptr});
    all().observe(1, {address + 8, 8, access_kind::write, nullptr});
    static_cast<void>(all().taken_back(0));
  };
  meet();
  EXPECT_EQ(counted(abort_reason::true_conflict), 1U);
  world.deallocate(block, {});
  ASSERT_EQ(world.heap.allocate(64, 64, {}), block);
  meet();
  EXPECT_EQ(counted(abort_reason::false_conflict), 1U);
}

TEST_F(transaction_sets, spurious_aborts_depend_on_seed_fiber_and_number) {
  const auto outcomes = [&](std::uint64_t seed, bool other_fibers) {
    all().reset({64, 12, 512}, seed);
    std::string text;
    for (int i = 0; i < 400; ++i) {
      for (unsigned fiber = 0; fiber < (other_fibers ? 3U : 1U); ++fiber) {
        begin(fiber);
        read(fiber, 0);
        const bool committed = all().try_commit(fiber);
        if (!committed) {
          EXPECT_EQ(all().taken_back(fiber).status, abort_status{});
        }
        if (fiber == 0) text += committed ? 'c' : 'a';
      }
    }
    return text;
  };
  EXPECT_EQ(outcomes(0, false), std::string(400, 'c'));
  const std::string seven = outcomes(7, false);
  EXPECT_EQ(outcomes(7, true), seven);
  EXPECT_NE(outcomes(8, false), seven);
  const auto aborted = std::count(seven.begin(), seven.end(), 'a');
  EXPECT_GT(aborted, 20);
  EXPECT_LT(aborted, 100);
}

TEST_F(transaction_sets, reset_forgets) {
  all().annotate(at(0), 64, record_kind::record);
  begin(0);
  write(0, 0);
  limit({64, 12, 512});
  EXPECT_FALSE(all().active(0));
  EXPECT_EQ(all().counts(), transaction_counts{});
  begin(0);
  write(0, 0);
  read(1, 8);
  EXPECT_EQ(counted(abort_reason::false_conflict), 1U);
}

TEST_F(transaction_sets, limits_of_zero_are_refused) {
  EXPECT_THROW(all().reset({0, 12, 512}), std::invalid_argument);
  EXPECT_THROW(all().reset({64, 0, 512}), std::invalid_argument);
  EXPECT_THROW(all().reset({64, 12, 0}), std::invalid_argument);
}

}  // namespace
}  // namespace espalier::sim
