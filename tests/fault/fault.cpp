// The nth allocation fails, for one n after the other: an operation that throws must have changed nothing,
// the map must go on working, and nothing may be lost.

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <thread>
#include <vector>

#include "support/allocation_failure.hpp"
#include "support/chosen_placement.hpp"
#include "support/model.hpp"
#include "support/on_threads.hpp"
#include "support/suite.hpp"

namespace espalier::test {
namespace {

constexpr key script_keys = 48;

std::vector<step> make_script(const subject_type& type) {
  using enum map_operation;
  constexpr map_operation frequent[] = {
      insert, insert, insert, insert_or_assign, insert_or_assign, erase,  erase,
      erase,  find,   scan,   exchange,         extract,          update, update};
  random_source random(3003);
  std::vector<step> script;
  while (script.size() < 1300) {
    const map_operation what = frequent[random.below(std::size(frequent))];
    if (has(type, what)) script.push_back({what, random.below(script_keys), random.next()});
  }
  return script;
}

/// Some contents for both; nothing fails.
void prepare(subject& map, model& expected) {
  for (key k = 0; k < script_keys; k += 3) {
    map.plain().insert(k, k);
    expected[k] = k;
  }
}

/// Whether a dead map of this type leaves nothing behind: all but those which never give back what the shared
/// heap would have to get from them.
bool dies_clean(const subject_type& type) { return type.reclaims || !type.from_heap; }

bool erases(map_operation what) {
  return what == map_operation::erase || what == map_operation::extract || what == map_operation::update;
}

/// One run of the script in which the nth allocation fails. Returns the allocations that it made.
std::uint64_t run_script(const subject_type& type, const std::vector<step>& script, std::uint64_t nth) {
  const std::int64_t before = live_allocations();
  failure_plan plan{nth};
  {
    const auto map = make(type);
    model expected;
    prepare(*map, expected);
    int thrown = 0;
    bool untold = false;  // at an erase that leaves a sparse node as it is
    int left = 300;       // actions after the failure
    for (const step& a : script) {
      if (thrown != 0 && --left < 0) break;
      outcome got;
      try {
        const armed now(plan);
        got = act(map->plain(), a);
      } catch (const std::bad_alloc&) {
        ++thrown;
        expect_equal(map->plain(), expected, key_range(0, script_keys));
        const char* const wrong = map->check_invariants();
        EXPECT_EQ(wrong, nullptr) << wrong;
        if (::testing::Test::HasFailure()) {
          ADD_FAILURE() << "changed by an operation that threw";
          return plan.seen;
        }
        got = act(map->plain(), a);  // nothing fails now
      }
      EXPECT_TRUE(got == act(expected, a))
          << to_string(a.op) << " of key " << a.key << " tells the wrong thing";
      if (plan.has_failed() && thrown == 0 && !untold) {
        untold = type.node_entries > 1 && erases(a.op);
        EXPECT_TRUE(untold) << "a failed allocation was not reported";
      }
      if (::testing::Test::HasFailure()) return plan.seen;
    }
    EXPECT_EQ(thrown, plan.has_failed() && !untold ? 1 : 0);
    expect_equal(map->plain(), expected, key_range(0, script_keys));
    expect_sound_at_rest(*map, type);
  }
  if (dies_clean(type)) {
    EXPECT_EQ(live_allocations(), before) << "allocations left behind by a dead map";
  }
  return plan.seen;
}

}  // namespace

ESPALIER_SUITE_TAKES(fault) {
  return type.codec.empty() || type.codec == mirrored_suffix || type.only_in == "fault";
}

ESPALIER_CHECK(fault, nth_allocation_of_a_script) {
  constexpr std::uint64_t most = 200;
  const auto script = make_script(type);
  const std::uint64_t there = run_script(type, script, 0);
  // The arenas ask operator new for little; these two for every block.
  if (type.placement == "shared_heap" || type.placement == chosen_placement::failing) {
    ASSERT_GE(there, type.node_entries <= 1 ? most : most / (3 * type.node_entries))
        << "the script fails too little";
  }
  for (std::uint64_t nth = 1; nth <= std::min(there, most); ++nth) {
    run_script(type, script, nth);
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << "where allocation " << nth << " failed";
      return;
    }
  }
}

ESPALIER_CHECK(fault, first_operation_of_a_thread) {
  // A thread's first pin, retirement or block may need room for what the map keeps per thread.
  std::uint64_t failures = 0;
  for (const bool filled : {false, true}) {
    for (const map_operation what : map_operations) {
      if (!has(type, what)) continue;
      // Key 9 is there where the map is filled, key 10 never.
      for (const key k : {key{9}, key{10}}) {
        if (!filled && k == 9) continue;
        const step a{what, k, 77};
        bool failed = true;
        unsigned untold = 0;
        for (std::uint64_t nth = 1; failed; ++nth) {
          ASSERT_LE(nth, 100U) << "no end of failures";
          const std::int64_t before = live_allocations();
          {
            const auto map = make(type);
            model expected;
            if (filled) prepare(*map, expected);
            failure_plan plan{nth};
            outcome got;
            bool thrown = false;
            std::thread([&] {
              try {
                const armed now(plan);
                got = act(map->plain(), a);
              } catch (const std::bad_alloc&) {
                thrown = true;
              }
            }).join();
            failed = plan.has_failed();
            ASSERT_TRUE(failed || !thrown);
            if (failed) ++failures;
            if (failed && !thrown) {
              ASSERT_LE(++untold, 3U)
                  << "only a thread's counter, and its cache of freed blocks with the table in which it "
                     "is, can do without memory";
            }
            if (thrown) {
              expect_equal(map->plain(), expected, key_range(0, script_keys));
              ASSERT_FALSE(::testing::Test::HasFailure()) << "changed by an operation that threw";
              std::thread([&] { got = act(map->plain(), a); }).join();
            }
            ASSERT_TRUE(got == act(expected, a))
                << to_string(what) << " of key " << k << ", allocation " << nth;
            expect_equal(map->plain(), expected, key_range(0, script_keys));
            expect_sound_at_rest(*map, type);
          }
          if (dies_clean(type)) {
            ASSERT_EQ(live_allocations(), before);
          }
        }
      }
    }
  }
  EXPECT_GT(failures, 0U) << "the first insertion into a map must have needed memory";
}

ESPALIER_CHECK(fault, memory_comes_back_where_there_is_none) {
  // Per-thread records come into being sixteen slots at a time: the later threads have none yet when they free what
  // another has allocated.
  constexpr int threads = 40;
  constexpr key keys = 100;
  const auto map = make(type);
  const auto erase_all = [&] {
    for (key k = 0; k < keys; ++k) map->plain().erase(k);
  };
  on_threads_in_turn(
      threads,
      [&](int) {
        erase_all();
        for (const bool retired : {true, false}) {
          for (key k = 0; k < keys; ++k) {
            map->plain().insert(k, k);
            if (retired) map->plain().erase(k);
          }
        }
      },
      [&](int) {
        const refuse_memory none;
        map->collect();
        try {
          erase_all();
        } catch (const std::bad_alloc&) {  // what it may say; main goes on
        }
      });
  erase_all();
  EXPECT_EQ(map->plain().scan(0, [](key, value) { return true; }), 0U);
  expect_sound_at_rest(*map, type);
}

ESPALIER_CHECK(fault, construction) {
  failure_plan count;
  const std::int64_t before = live_allocations();
  {
    const armed now(count);
    type.construct_only();
  }
  ASSERT_EQ(live_allocations(), before);
  if (type.properties.region_protection) {
    EXPECT_GT(count.seen, 0U) << "a reclaimer of its own needs memory";
  }
  for (std::uint64_t nth = 1; nth <= count.seen; ++nth) {
    failure_plan plan{nth};
    bool thrown = false;
    try {
      const armed now(plan);
      type.construct_only();
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    EXPECT_TRUE(thrown) << "allocation " << nth;
    EXPECT_EQ(live_allocations(), before) << "left behind where allocation " << nth << " failed";
  }
}

}  // namespace espalier::test
