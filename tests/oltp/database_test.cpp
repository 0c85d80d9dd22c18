// What one transaction sees and leaves behind, for each protocol and some maps.

#include "espalier/oltp/database.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "oltp/shop.hpp"
#include "support/allocation_failure.hpp"
#include "support/refusal.hpp"

namespace espalier::oltp {
namespace {

using testing::AnyOfArray;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;
using testing::StartsWith;
using testing::UnorderedElementsAre;
using testing::UnorderedElementsAreArray;

TEST_P(databases, run_the_first_program) {
  struct account {
    std::uint64_t id;
    std::int64_t balance;
  };
  database bank(options());
  auto& accounts = bank.create_table<&account::id>("accounts");
  EXPECT_TRUE(bank.transact([&](auto& t) {
    t.insert(accounts, {1, 100});
    t.insert(accounts, {2, 0});
  }));
  EXPECT_TRUE(bank.transact([&](auto& t) {
    t.update(accounts, 1, [](account& a) { a.balance -= 10; });
    t.update(accounts, 2, [](account& a) { a.balance += 10; });
  }));
  bank.transact([&](auto& t) {
    EXPECT_EQ(t.find(accounts, 1)->balance, 90);
    EXPECT_EQ((*t.find(accounts, 2)).balance, 10);
    EXPECT_FALSE(t.find(accounts, 3));
  });
  EXPECT_EQ(bank.transact([&](auto& t) { return t.find(accounts, 1)->balance; }), 90);
  EXPECT_EQ(bank.counts().commits, 4U);
  EXPECT_EQ(bank.counts().attempts(), 4U);
  EXPECT_GT(bank.counts().index_operations, 0U);
}

// One transaction alone.

TEST_P(databases, a_transaction_has_a_result_if_it_commits) {
  s.fill(1, 2);
  const std::optional<std::vector<std::uint64_t>> all =
      s.db.transact([&](transaction& t) { return ids(t, s.items); });
  EXPECT_THAT(all, Optional(ElementsAre(1, 2)));
  const std::optional<int> none = s.db.transact([&](transaction& t) {
    if (t.erase(s.items, 1)) t.roll_back();
    return 1;
  });
  EXPECT_EQ(none, std::nullopt);
  EXPECT_EQ(contents(s)[0].size(), 2U);
}

TEST_P(databases, a_transaction_sees_what_it_has_done) {
  s.fill(1, 3);
  s.db.transact([&](transaction& t) {
    EXPECT_TRUE(t.insert(s.items, {4, 7, 104, 1}));
    EXPECT_FALSE(t.insert(s.items, {4, 7, 105, 2})) << "its own key";
    EXPECT_FALSE(t.insert(s.items, {1, 7, 105, 2})) << "a key of before";
    EXPECT_EQ(t.find(s.items, 4)->amount, 1);
    EXPECT_EQ(t.find(s.by_code, 104)->id, 4U);
    EXPECT_TRUE(t.update(s.items, 4, [](item& i) { i.amount = 5; }));
    EXPECT_EQ(t.find(s.items, 4)->amount, 5);
    EXPECT_FALSE(t.update(s.items, 9, [](item&) { FAIL(); }));
    EXPECT_TRUE(t.erase(s.items, 2));
    EXPECT_FALSE(t.erase(s.items, 2));
    EXPECT_FALSE(t.find(s.items, 2));
    EXPECT_FALSE(t.find(s.by_code, 102));
    EXPECT_THAT(ids(t, s.items), ElementsAre(1, 3, 4));
    EXPECT_THAT(ids(t, s.by_code), ElementsAre(1, 3, 4));
    EXPECT_THAT(ids(t, s.by_group), ElementsAre(3, 1, 4));
  });
  EXPECT_EQ(contents(s)[0], (std::vector<item>{{1, 1, 101, 0}, {3, 0, 103, 0}, {4, 7, 104, 5}}));
}

TEST_P(databases, a_key_is_inserted_and_erased_in_turn) {
  s.fill(1, 3);
  s.db.transact([&](transaction& t) {
    for (std::int64_t n = 0; n < 3; ++n) {
      EXPECT_TRUE(t.erase(s.items, 2)) << "of before, and then of its own";
      EXPECT_THAT(ids(t, s.items), ElementsAre(1, 3));
      EXPECT_TRUE(t.insert(s.items, {2, 5, 102, n}));
      EXPECT_TRUE(t.insert(s.items, {8, 5, 108, n}));
      EXPECT_TRUE(t.erase(s.items, 8));
      EXPECT_EQ(t.find(s.by_code, 102)->amount, n);
      EXPECT_THAT(ids(t, s.by_group, 5, 5), ElementsAre(2));
    }
    EXPECT_TRUE(t.insert(s.items, {8, 5, 109, 9}));
  });
  s.db.transact([&](transaction& t) {
    EXPECT_THAT(ids(t, s.items), ElementsAre(1, 2, 3, 8));
    EXPECT_THAT(ids(t, s.by_group), ElementsAre(3, 1, 8, 2)) << "group 2 has none";
    EXPECT_FALSE(t.find(s.by_code, 108));
    EXPECT_TRUE(t.erase(s.items, 8));
  });
  s.db.transact([&](transaction& t) { EXPECT_TRUE(t.insert(s.items, {8, 5, 108, 0})); });
}

TEST_P(databases, an_insert_that_fails_leaves_nothing_behind) {
  s.fill(1, 2);
  const auto before = contents(s);
  s.db.transact(
      [&](transaction& t) { EXPECT_FALSE(t.insert(s.items, {3, 5, 101, 0})) << "its code is there"; });
  EXPECT_EQ(contents(s), before);
  s.db.transact([&](transaction& t) {
    EXPECT_FALSE(t.insert(s.items, {3, 5, 101, 0}));
    EXPECT_FALSE(t.find(s.items, 3));
    EXPECT_THAT(ids(t, s.by_group, 5, 5), IsEmpty());
    EXPECT_TRUE(t.insert(s.items, {3, 5, 103, 0})) << "the same transaction may insert the key after that";
    EXPECT_TRUE(t.erase(s.items, 2));
    EXPECT_FALSE(t.insert(s.items, {2, 6, 103, 0})) << "over an erased row, too";
    EXPECT_FALSE(t.find(s.items, 2));
  });
  s.db.transact([&](transaction& t) {
    EXPECT_THAT(ids(t, s.items), ElementsAre(1, 3));
    EXPECT_THAT(ids(t, s.by_group), ElementsAre(1, 3));
    EXPECT_THAT(ids(t, s.by_code), ElementsAre(1, 3));
  });
}

TEST_P(databases, keys_of_an_insert_that_failed_are_free) {
  struct line {
    std::uint64_t id;
    std::uint64_t first;
    std::uint64_t second;
    std::uint64_t group;
  };
  auto& lines = s.db.create_table<&line::id>("lines");
  auto& by_first = lines.create_index<&line::first>("by first", uniqueness::unique);
  auto& by_group = lines.create_index<&line::group>("by group", uniqueness::many);
  lines.create_index<&line::second>("by second", uniqueness::unique);
  const auto all = [&](transaction& t, table_index<line>& in) {
    std::vector<std::uint64_t> seen;
    t.scan(in, 0, last_key, [&](const line& l) { seen.push_back(l.id); });
    return seen;
  };
  s.db.transact([&](transaction& t) { EXPECT_TRUE(t.insert(lines, {1, 11, 21, 0})); });
  for (const bool commits : {false, true}) {
    s.db.transact([&](transaction& t) {
      EXPECT_FALSE(t.insert(lines, {2, 12, 21, 5})) << "its second is there";
      EXPECT_TRUE(t.insert(lines, {3, 12, 23, 5}));
      EXPECT_TRUE(t.insert(lines, {2, 14, 22, 5}));
      EXPECT_EQ(t.find(by_first, 12)->id, 3U);
      EXPECT_TRUE(t.erase(lines, 3));
      EXPECT_FALSE(t.insert(lines, {3, 12, 21, 6})) << "over an erased row";
      EXPECT_FALSE(t.find(by_first, 12));
      EXPECT_TRUE(t.insert(lines, {3, 12, 24, 6}));
      if (!commits) t.roll_back();
    });
    s.db.transact([&](transaction& t) {
      EXPECT_EQ(all(t, lines.primary_index()),
                (commits ? std::vector<std::uint64_t>{1, 2, 3} : std::vector<std::uint64_t>{1}));
      EXPECT_EQ(all(t, by_first),
                (commits ? std::vector<std::uint64_t>{1, 3, 2} : std::vector<std::uint64_t>{1}));
      EXPECT_EQ(all(t, by_group),
                (commits ? std::vector<std::uint64_t>{1, 2, 3} : std::vector<std::uint64_t>{1}));
    });
  }
}

TEST_P(databases, an_update_changes_the_keys_of_other_indexes_there_and_back) {
  s.fill(1, 3);
  const auto set = [](std::uint64_t group, std::uint64_t code) {
    return [=](item& i) {
      i.group = group;
      i.code = code;
    };
  };
  s.db.transact([&](transaction& t) {
    for (int n = 0; n < 2; ++n) {
      t.update(s.items, 2, set(9, 50));
      EXPECT_THAT(ids(t, s.by_group), ElementsAre(3, 1, 2));
      EXPECT_EQ(t.find(s.by_code, 50)->id, 2U);
      EXPECT_FALSE(t.find(s.by_code, 102));
      t.update(s.items, 2, set(2, 102));
      EXPECT_THAT(ids(t, s.by_code), ElementsAre(1, 2, 3));
      EXPECT_THAT(ids(t, s.by_group, 9, 9), IsEmpty());
    }
  });
  EXPECT_EQ(contents(s)[1], (std::vector<item>{{3, 0, 103, 0}, {1, 1, 101, 0}, {2, 2, 102, 0}}));
  s.db.transact([&](transaction& t) { t.update(s.items, 2, set(0, 200)); });
  s.db.transact([&](transaction& t) {
    EXPECT_THAT(ids(t, s.by_group, 0, 0), UnorderedElementsAre(2, 3));
    EXPECT_EQ(ids(t, s.by_group).back(), 1U);
    EXPECT_THAT(ids(t, s.by_code), ElementsAre(1, 3, 2));
    EXPECT_TRUE(t.insert(s.items, {4, 2, 102, 0})) << "what it has left is free";
  });
}

TEST_P(databases, a_duplicate_key_of_an_update_ends_the_transaction) {
  s.fill(1, 3);
  const auto before = contents(s);
  const auto duplicate = [&](transaction& t) {
    t.update(s.items, 1, [](item& i) {
      i.group = 8;
      i.code = 102;
    });
  };
  EXPECT_EQ(test::refusal<duplicate_key>([&] { s.db.transact(duplicate); }),
            "oltp: the index by code of items has the key 102");
  EXPECT_EQ(contents(s), before);
  // Also where the function catches it: half of an update is not committed.
  EXPECT_THROW(s.db.transact([&](transaction& t) {
    try {
      duplicate(t);
    } catch (const duplicate_key&) {
    }
  }),
               duplicate_key);
  EXPECT_THROW(s.db.transact([&](transaction& t) {
    try {
      t.update(s.items, 1, [](item& i) {
        i.id = 77;
        throw std::range_error("half");
      });
    } catch (const std::range_error&) {
    }
  }),
               std::range_error);
  EXPECT_EQ(contents(s), before);
}

TEST_P(databases, the_smallest_and_the_largest_key) {
  s.fill({{0, 0, 0, 1}, {last_key, last_key, last_key, 2}, {5, 5, 5, 3}, {6, last_key, last_key - 1, 4}});
  s.db.transact([&](transaction& t) {
    EXPECT_EQ(t.find(s.items, 0)->amount, 1);
    EXPECT_EQ(t.find(s.by_code, last_key)->amount, 2);
    EXPECT_THAT(ids(t, s.items), ElementsAre(0, 5, 6, last_key));
    EXPECT_THAT(ids(t, s.items, 0, 0), ElementsAre(0));
    EXPECT_THAT(ids(t, s.items, 6, last_key), ElementsAre(6, last_key));
    EXPECT_THAT(ids(t, s.items, last_key, last_key), ElementsAre(last_key));
    EXPECT_THAT(ids(t, s.by_group, last_key), ElementsAre(6, last_key));
    EXPECT_THAT(ids(t, s.items, 7, 6), IsEmpty());
    EXPECT_EQ(t.first(s.items.primary_index(), 0, last_key)->id, 0U);
    EXPECT_EQ(t.first(s.items.primary_index(), 7, last_key)->id, last_key);
    EXPECT_FALSE(t.first(s.items.primary_index(), 1, 4));
    EXPECT_TRUE(t.erase(s.items, last_key));
    EXPECT_TRUE(t.erase(s.items, 0));
    EXPECT_THAT(ids(t, s.items), ElementsAre(5, 6));
    EXPECT_FALSE(t.find(s.items, last_key));
    EXPECT_EQ(t.first(s.items.primary_index(), 0, last_key)->id, 5U);
  });
  s.db.transact([&](transaction& t) { EXPECT_TRUE(t.insert(s.items, {last_key, 1, 1, 1})); });
}

TEST_P(databases, find_several_at_once) {
  s.fill(1, 60);
  s.db.transact([&](transaction& t) {
    t.erase(s.items, 10);
    t.insert(s.items, {70, 0, 170, 7});
    t.update(s.items, 11, [](item& i) { i.amount = 11; });
    std::vector<std::uint64_t> keys;
    for (std::uint64_t k = 75; k-- > 0;) keys.push_back(k);
    std::vector<found_row<item>> rows(keys.size());
    t.find_batch(s.items, keys, std::span(rows));
    for (std::size_t n = 0; n < keys.size(); ++n) {
      const bool there = (keys[n] >= 1 && keys[n] <= 60 && keys[n] != 10) || keys[n] == 70;
      ASSERT_EQ(static_cast<bool>(rows[n]), there) << keys[n];
      if (there) {
        EXPECT_EQ(rows[n]->id, keys[n]);
      }
    }
    t.update(rows[74 - 20], [](item& i) { i.amount = 20; });
    EXPECT_EQ(rows[74 - 11]->amount, 11);
    EXPECT_EQ(t.find(s.items, 20)->amount, 20);
    t.find_batch(s.items, {}, std::span<found_row<item>>());
    std::array<found_row<item>, 2> two;
    t.find_batch(s.items, std::array<std::uint64_t, 2>{20, 10}, two);
    EXPECT_TRUE(two[0] && !two[1]);
    t.find_batch(s.items, keys, rows);
    EXPECT_THROW(t.find_batch(s.items, keys, std::span(rows).first(74)), std::logic_error);
  });
}

// Scans whose visitors do everything.

TEST_P(databases, visitors_may_change_what_they_visit) {
  s.fill(1, 100);
  s.db.transact([&](transaction& t) {
    std::uint64_t visited = 0;
    t.scan(
        s.items, 1, 99,
        [&](const found_row<item>& r) {
          ++visited;
          const std::uint64_t id = r->id;
          if (id % 4 == 0) return t.erase(r);
          if (id % 4 == 1) t.update(r, [](item& i) { i.group = 50; });
          if (id == 17) {
            EXPECT_FALSE(t.insert(s.items, {18, 0, 999, 0}));
          }
          if (id % 10 == 3) {
            EXPECT_TRUE(t.insert(s.items, {1000 + id, 0, 2000 + id, 0}));
            t.erase(s.items, id + 1);
          }
          t.update(r, [](item& i) { ++i.amount; });
        },
        intent::write);
    EXPECT_EQ(visited, 99U - 10U) << "ten were erased before";
    EXPECT_EQ(ids(t, s.by_group, 50, 50).size(), 25U);
  });
  std::uint64_t rows = 0;
  const auto after = contents(s);
  for (const item& i : after[0]) {
    ++rows;
    EXPECT_TRUE(i.id % 4 != 0 || i.id == 100 || i.id > 1000) << i;
    EXPECT_EQ(i.amount, i.id < 100 ? 1 : 0) << i;
  }
  EXPECT_EQ(rows, 1U + 99U - 24U - 5U + 10U);
}

TEST_P(databases, scans_stop_and_nest) {
  s.fill(1, 50);
  s.db.transact([&](transaction& t) {
    std::uint64_t outer = 0;
    std::uint64_t inner = 0;
    t.scan(s.items, 0, last_key, [&](const item& i) {
      ++outer;
      t.scan(s.by_group, i.group, i.group, [&](const item& other) {
        ++inner;
        EXPECT_EQ(other.group, i.group);
        return inner % 7 != 0;
      });
      return i.id != 40;
    });
    EXPECT_EQ(outer, 40U);
    EXPECT_GT(inner, outer);
    // A scan that ends by an exception inside another one.
    std::vector<std::uint64_t> seen;
    t.scan(s.items, 1, 3, [&](const item& i) {
      seen.push_back(i.id);
      try {
        t.scan(s.items, 30, 40, [](const item&) { throw std::range_error("enough"); });
      } catch (const std::range_error&) {
      }
    });
    EXPECT_THAT(seen, ElementsAre(1, 2, 3));
  });
}

TEST(transactions, that_begin_later_are_younger_for_years) {
  constexpr std::uint64_t day = std::uint64_t{3'000'000'000} * 24 * 3600;
  std::uint64_t former = 0;
  for (const std::uint64_t days : {1U, 2U, 17U, 18U, 36U, 365U, 1000U, 4000U}) {
    const std::uint64_t one = engine::age_at(days * day, 7, 0);
    EXPECT_LT(former, one) << days;
    EXPECT_LT(one, engine::age_at(days * day, 8, 0)) << days;
    EXPECT_LT(one, engine::age_at(days * day, 7, one)) << "in the same moment, after " << days;
    EXPECT_NE(engine::age_at(days * day, 7, one), engine::age_at(days * day, 8, one - 1)) << days;
    former = one;
  }
}

TEST(database, keeps_the_names_of_its_options) {
  std::string map = "ticket", placement = "shared_heap";
  database made({.map = map, .index_placement = placement});
  map.assign(map.size(), 'x');
  placement.assign(placement.size(), 'x');
  struct one {
    std::uint64_t id;
  };
  made.create_table<&one::id>("ones");
  EXPECT_EQ(made.chosen().map, "ticket");
  EXPECT_EQ(made.chosen().index_placement, "shared_heap");
}

TEST(database, counts_the_memory_of_every_index) {
  for (const std::string& map : maps()) {
    database_options o;
    o.map = map;
    shop many(o);
    many.fill(1, 1000);
    // The primary index has a key and a row for each.
    EXPECT_GE(many.db.index_usage().bytes_in_use, 1000U * 16) << map;
  }
}

TEST_P(databases, a_large_transaction_leaves_little_memory_with_its_thread) {
  struct wide {
    std::uint64_t id;
    std::array<char, 1000> fill;
  };
  constexpr std::uint64_t rows = 2000;
  auto& wides = s.db.create_table<&wide::id>("wides");
  s.db.transact([&](transaction& t) {
    for (std::uint64_t id = 0; id < rows; ++id) t.insert(wides, {id, {}});
  });
  const std::int64_t before = test::live_allocations();
  ASSERT_NE(before, 0);
  s.db.transact([&](transaction& t) {
    for (std::uint64_t id = 0; id < rows; ++id) t.update(wides, id, [](wide& w) { w.fill[0] = 'x'; });
  });
  EXPECT_LT(test::live_allocations(), before + 16) << "two megabytes are 64 blocks";
}

// What is undone.

TEST_P(databases, undo_rows_and_indexes) {
  s.fill(1, 40);
  const auto before = contents(s);
  s.db.collect();
  const auto rows = s.db.row_usage().blocks;
  const auto entries = s.db.index_usage().blocks;
  const auto change_much = [&](transaction& t) {
    for (std::uint64_t id = 1; id <= 40; id += 4) {
      t.update(s.items, id, [](item& i) {
        i.group = 77;
        i.code += 1000;
        i.amount = 3;
      });
      t.erase(s.items, id + 1);
      t.insert(s.items, {id + 1000, 1, id, 0});
      t.erase(s.items, id + 2);
      t.insert(s.items, {id + 2, 78, id + 102, 0});
      t.insert(s.items, {id + 500, 79, id + 500, 0});
      t.erase(s.items, id + 500);
    }
  };
  for (int round = 0; round < 3; ++round) {
    EXPECT_FALSE(s.db.transact([&](transaction& t) {
      change_much(t);
      t.roll_back();
    }));
    EXPECT_THROW(s.db.transact([&](transaction& t) {
      change_much(t);
      throw std::range_error("no");
    }),
                 std::range_error);
    EXPECT_EQ(contents(s), before);
  }
  EXPECT_EQ(s.db.counts().aborts[static_cast<std::size_t>(abort_reason::rolled_back)], 6U);
  for (int n = 0; n < 4; ++n) s.db.collect();
  EXPECT_EQ(s.db.row_usage().blocks, rows);
  EXPECT_LE(s.db.index_usage().blocks, entries + 4) << "maps may keep a node";
  // A commit, and all that is left of it.
  s.db.transact(change_much);
  s.db.transact([&](transaction& t) {
    t.scan(s.items, 0, last_key, [&](const found_row<item>& r) { t.erase(r); }, intent::write);
  });
  for (int n = 0; n < 4; ++n) s.db.collect();
  EXPECT_EQ(s.db.row_usage().blocks, 0U);
  EXPECT_THAT(contents(s)[0], IsEmpty());
}

// Misuse.

TEST_P(databases, say_what_is_wrong) {
  s.fill(1, 2);
  const auto inside = [&](const std::function<void(transaction&)>& misuse) {
    return test::refusal<std::logic_error>([&] { s.db.transact(misuse); });
  };
  EXPECT_EQ(inside([&](transaction& t) { static_cast<void>(t.find(s.by_group, 1)); }),
            "oltp: the index by group may have several rows of a key; scan it from the key to the key");
  EXPECT_EQ(inside([&](transaction& t) { t.update(t.find(s.items, 9), [](item&) {}); }),
            "oltp: there is no row to change; look whether find() has found one");
  EXPECT_EQ(inside([&](transaction& t) { t.erase(found_row<item>()); }),
            "oltp: there is no row to change; look whether find() has found one");
  EXPECT_EQ(inside([&](transaction& t) { t.update(s.items, 1, [](item& i) { i.id = 7; }); }),
            "oltp: an update may not change the primary key of items; erase the row and insert another one");
  EXPECT_EQ(inside([&](transaction& t) {
              const auto r = t.find(s.items, 1);
              t.erase(r);
              t.update(r, [](item&) {});
            }),
            "oltp: the transaction has erased this row of items");
  for (const bool erases : {false, true}) {
    EXPECT_EQ(inside([&](transaction& t) {
                const auto r = t.find(s.items, 1, intent::write);
                t.update(r, [&](item& i) {
                  i.group = 70;
                  erases ? t.erase(r) : t.update(r, [](item& same) { same.group = 71; });
                  i.group = 72;
                });
              }),
              "oltp: a row of items may not be changed or erased by the function that changes it");
  }
  EXPECT_EQ(inside([&](transaction& t) {
              try {
                t.erase(found_row<item>());
              } catch (const std::logic_error&) {
                t.erase(s.items, 1);
              }
            }),
            "oltp: there is no row to change; look whether find() has found one")
      << "what an erase throws undoes the transaction";
  EXPECT_EQ(inside([&](transaction&) { s.db.transact([](transaction&) {}); }),
            "oltp: a transaction may not run inside another one of its thread");
  // Keys of unique indexes that the transaction itself has left.
  EXPECT_THAT(inside([&](transaction& t) {
                t.erase(s.items, 1);
                t.insert(s.items, {3, 0, 101, 0});
              }),
              StartsWith("oltp: a row has left the key 101 of the index by code in this transaction"));
  EXPECT_THAT(inside([&](transaction& t) {
                t.update(s.items, 1, [](item& i) { i.code = 500; });
                t.update(s.items, 2, [](item& i) { i.code = 101; });
              }),
              StartsWith("oltp: a row has left the key 101 of the index by code in this transaction"));
  EXPECT_EQ(test::refusal<std::logic_error>([&] {
              s.items.create_index("late", uniqueness::many, [](const item& i) { return i.group; });
            }),
            "oltp: the table items has rows; create the index late before");
  EXPECT_EQ(contents(s)[0].size(), 2U);

  const auto opened = [](const database_options& o) {
    return test::refusal<std::invalid_argument>([&] { const database made(o); });
  };
  EXPECT_THAT(opened({.map = "hash"}), StartsWith("there is no map 'hash'; there are "));
  EXPECT_THAT(opened({.row_placement = "swap"}), HasSubstr("'swap'"));
  EXPECT_THAT(opened({.index_placement = "swap"}), HasSubstr("'swap'"));
  EXPECT_EQ(opened({.lock_bytes = 40}),
            "oltp: the lock of a row has at least 48 bytes, a multiple of 8, and not 40");
  EXPECT_EQ(opened({.lock_bytes = 50}),
            "oltp: the lock of a row has at least 48 bytes, a multiple of 8, and not 50");
  EXPECT_EQ(opened({.commits_per_epoch = 0}), "oltp: an epoch has at least one commit");
  EXPECT_EQ(test::refusal<std::invalid_argument>([] { static_cast<void>(parse_protocol("mvcc")); }),
            "there is no protocol 'mvcc'; there are no_wait, wait_die, silo");
  for (const protocol p : all_protocols) EXPECT_EQ(parse_protocol(to_string(p)), p);
}

// What is of another database has other locks.
TEST_P(databases, refuse_what_is_not_theirs) {
  s.fill(1, 2);
  shop other(options());
  other.fill(1, 2);
  found_row<item> found;
  other.db.transact([&](transaction& t) { found = t.find(other.items, 1); });
  const std::vector<std::function<void(transaction&)>> table_uses{
      [&](transaction& t) { static_cast<void>(t.find(other.items, 1)); },
      [&](transaction& t) {
        const std::uint64_t key = 1;
        found_row<item> one;
        t.find_batch(other.items, std::span(&key, 1), std::span(&one, 1));
      },
      [&](transaction& t) { static_cast<void>(ids(t, other.items)); },
      [&](transaction& t) { static_cast<void>(t.first(other.items, 0, last_key)); },
      [&](transaction& t) { t.insert(other.items, {9, 9, 9, 9}); },
      [&](transaction& t) { t.update(other.items, 1, [](item& i) { ++i.amount; }); },
      [&](transaction& t) { t.erase(other.items, 1); },
  };
  const auto refusal_of = [&](const std::function<void(transaction&)>& use) {
    return test::refusal<std::logic_error>([&] { s.db.transact(use); });
  };
  for (const auto& use : table_uses)
    EXPECT_THAT(refusal_of(use), HasSubstr("is of another database than the transaction"));
  EXPECT_EQ(refusal_of([&](transaction& t) { static_cast<void>(t.find(other.by_code, 101)); }),
            "oltp: by code is of another database than the transaction");
  const std::string_view not_found = "oltp: the row was found by another transaction, or by another attempt";
  EXPECT_EQ(refusal_of([&](transaction& t) { t.erase(found); }), not_found);
  EXPECT_EQ(refusal_of([&](transaction& t) {
              static_cast<void>(t.find(s.items, 1));
              t.update(found, [](item& i) { ++i.amount; });
            }),
            not_found);
  for (shop* const one : {&s, &other}) {
    const auto rows = contents(*one)[0];
    for (const item& i : rows) EXPECT_EQ(i.amount, 0);
  }
}

TEST_P(databases, have_each_name_once) {
  struct line {
    std::uint64_t id;
  };
  EXPECT_EQ(test::refusal<std::invalid_argument>([&] { s.db.create_table<&line::id>("items"); }),
            "oltp: there is a table items already");
  for (const std::string name : {"by code", "primary"}) {
    EXPECT_EQ(test::refusal<std::invalid_argument>(
                  [&] { s.items.create_index<&item::group>(name, uniqueness::many); }),
              "oltp: the table items has an index " + name + " already");
  }
  s.fill(1, 1);
  EXPECT_EQ(contents(s)[2].size(), 1U);
}

// Rows that leave a key of many rows, in several orders, and come back.
TEST_P(databases, take_rows_out_of_a_long_list) {
  constexpr std::uint64_t rows = 300;
  const auto expect = [&](const std::set<std::uint64_t>& there) {
    s.db.transact(
        [&](transaction& t) { EXPECT_THAT(ids(t, s.by_group, 7, 7), UnorderedElementsAreArray(there)); });
  };
  for (const std::uint64_t step : {1U, 299U, 91U}) {
    std::set<std::uint64_t> there;
    const auto insert = [&](std::uint64_t id) {
      s.db.transact([&](transaction& t) { EXPECT_TRUE(t.insert(s.items, {id, 7, id, 0})); });
      there.insert(id);
    };
    for (std::uint64_t id = 0; id < rows; ++id) insert(id);
    for (std::uint64_t n = 0; n < rows; ++n) {
      const std::uint64_t id = n * step % rows;
      s.db.transact([&](transaction& t) { EXPECT_TRUE(t.erase(s.items, id)); });
      there.erase(id);
      if (n % 3 == 0) insert(rows + n);
      if (n % 16 == 0) expect(there);
    }
    expect(there);
    EXPECT_EQ(there.size(), rows / 3);
    s.db.transact([&](transaction& t) {
      t.scan(s.items, 0, last_key, [&](const found_row<item>& r) { t.erase(r); }, intent::write);
    });
    expect({});
  }
  for (int n = 0; n < 4; ++n) s.db.collect();
  EXPECT_EQ(s.db.row_usage().blocks, 0U);
}

// The keys of a row are looked at in that row alone.
TEST_P(databases, an_update_inside_another_one_may_throw) {
  struct wide {
    std::uint64_t id;
    std::array<char, 60000> fill;
    std::uint64_t key;
  };
  s.fill(1, 1);
  auto& wides = s.db.create_table<&wide::id>("wides");
  static_cast<void>(wides.create_index("by the last", uniqueness::many, [](const wide& w) {
    EXPECT_EQ(w.key, 3U);
    return w.key;
  }));
  s.db.transact([&](transaction& t) { t.insert(wides, {1, {}, 3}); });
  EXPECT_THROW(s.db.transact([&](transaction& t) {
    t.update(s.items, 1, [&](item& i) {
      try {
        t.update(wides, 1, [](wide&) { throw std::range_error("no"); });
      } catch (const std::range_error&) {
        i.group = 5;
      }
    });
  }),
               std::range_error);
  EXPECT_EQ(contents(s)[0][0], (item{1, 1, 101, 0}));
}

TEST_P(databases, have_rows_that_no_index_has) {
  s.fill(1, 1);
  const auto at_rest = [this] {
    std::vector<std::uint64_t> all;
    s.items.for_each_at_rest([&](const item& i) { all.push_back(i.id); });
    return all;
  };
  const std::uint64_t blocks = s.db.row_usage().blocks;
  s.db.transact([&](transaction& t) {
    t.append(s.items, {1, 0, 101, 7});  // an index has another row with these keys
    t.append(s.items, {5, 0, 105, 0});
    EXPECT_FALSE(t.find(s.items, 5));
  });
  s.db.transact([&](transaction& t) { EXPECT_THAT(ids(t, s.items), ElementsAre(1)); });
  EXPECT_THAT(at_rest(), UnorderedElementsAre(1, 1, 5));
  s.db.transact([&](transaction& t) {
    t.append(s.items, {9, 0, 109, 0});
    t.roll_back();
  });
  EXPECT_THAT(at_rest(), UnorderedElementsAre(1, 1, 5));
  for (int n = 0; n < 4; ++n) s.db.collect();
  EXPECT_EQ(s.db.row_usage().blocks, 3 * blocks);
}

TEST_P(databases, an_index_is_created_while_a_table_is_empty) {
  s.fill(1, 1);
  s.db.transact([&](transaction& t) { t.erase(s.items, 1); });
  auto& by_amount = s.items.create_index("by amount", uniqueness::many,
                                         [](const item& i) { return static_cast<std::uint64_t>(i.amount); });
  s.fill({{1, 0, 1, 9}, {2, 0, 2, 8}});
  s.db.transact([&](transaction& t) { EXPECT_THAT(ids(t, by_amount), ElementsAre(2, 1)); });
}

TEST_P(databases, have_locks_and_placements_of_choice) {
  database_options o = options();
  o.one_placement = true;
  o.row_placement = "clustered";
  o.recording = any_placement::recording::on;
  o.lock_bytes = 64;
  o.sample_every = 1;
  shop other(o);
  other.fill(1, 20);
  EXPECT_EQ(other.db.row_usage().blocks, other.db.index_placement().usage().blocks);
  std::size_t locks = 0;
  other.db.row_placement().for_each_live(
      [&](const auto& one) { locks += one.asked.role == lock_role ? 1 : 0; });
  EXPECT_EQ(locks, 20U);
  EXPECT_EQ(other.db.row_placement().chosen_name(), "clustered");
  EXPECT_LE(other.db.counts().sampled, other.db.counts().commits);
  // Attempts in vain are timed, too, unless each one loses its processor.
  const std::uint64_t before = other.db.counts().sampled;
  for (int n = 0; n < 10'000 && other.db.counts().sampled == before; ++n)
    other.db.transact([](transaction& t) { t.roll_back(); });
  EXPECT_GT(other.db.counts().sampled, before);
  EXPECT_LE(other.db.counts().sampled, other.db.counts().attempts());
}

TEST(rows, of_the_studys_form_have_its_blocks_in_its_order) {
  for (const std::size_t lock_bytes : {48U, 192U}) {
    database_options o{.map = "ticket", .rows_as = row_form::dbx, .lock_bytes = lock_bytes};
    o.recording = any_placement::recording::on;
    {
      // End to end in one arena for each role: the n-th block of a role is that of the n-th row.
      shop s(o);
      s.fill(1, 3);
      std::map<memory_role, std::vector<std::size_t>> bytes;
      s.db.row_placement().for_each_live(
          [&](const live_block& one) { bytes[one.asked.role].push_back(one.asked.bytes); });
      const auto each = [](std::size_t n) { return ElementsAre(n, n, n); };
      EXPECT_THAT(bytes[row_role], each(64));
      EXPECT_THAT(bytes[data_role], each(sizeof(item)));
      EXPECT_THAT(bytes[lock_wrapper_role], each(64));
      EXPECT_THAT(bytes[lock_role], each(lock_bytes));
      EXPECT_THAT(bytes[value_role], each(32));
      // An index leads to the value, the value to the row, and the row to the lock by way of its wrapper.
      const auto word = s.items.primary().map().find(2);
      ASSERT_TRUE(word.has_value());
      std::set<std::uintptr_t> values;
      s.db.row_placement().for_each_live([&](const live_block& one) {
        if (one.asked.role == value_role) values.insert(std::bit_cast<std::uintptr_t>(one.memory));
      });
      EXPECT_TRUE(values.contains(*word));
      s.db.transact([&](transaction& t) { EXPECT_TRUE(t.erase(s.items, 2)); });
      s.db.collect();
      s.db.collect();
      s.db.collect();
      EXPECT_EQ(s.db.row_usage().blocks, 10U);
    }
  }
  EXPECT_EQ(engine::row_blocks({}, 100).lock_wrapper, std::nullopt);
}

TEST(placements, give_each_role_an_arena_that_all_indexes_share) {
  // int_lf keeps descriptors in use. Builds with a sanitizer do not have it.
  const bool has_descriptors = std::ranges::count(any_map_names(), "int_lf") != 0;
  shop s({.map = has_descriptors ? "int_lf" : "ticket", .recording = any_placement::recording::on});
  s.fill(1, 500);
  const auto page_of = [](const void* memory) { return std::bit_cast<std::uintptr_t>(memory) / 4096; };

  std::map<std::uintptr_t, std::set<memory_role>> roles;
  std::set<memory_role> seen;
  s.db.index_placement().for_each_live([&](const live_block& one) {
    roles[page_of(one.memory)].insert(one.asked.role);
    seen.insert(one.asked.role);
  });
  for (const auto& [page, of_page] : roles) EXPECT_EQ(of_page.size(), 1U);
  EXPECT_TRUE(seen.contains(memory_role::other)) << "the lists of the index by group";
  EXPECT_EQ(seen.contains(memory_role::descriptor), has_descriptors);

  const auto pages_of_nodes = [&](const engine::index_base& in) {
    std::set<std::uintptr_t> pages;
    in.map().visit_nodes([&](const void* memory, std::size_t, memory_role role) {
      if (role == memory_role::node || role == memory_role::leaf) pages.insert(page_of(memory));
    });
    return pages;
  };
  const auto of_primary = pages_of_nodes(s.items.primary_index());
  EXPECT_THAT(pages_of_nodes(s.by_code), Contains(AnyOfArray(of_primary))) << "a page has nodes of both";
}

// No memory.

TEST_P(databases, fail_whole_for_want_of_memory) {
  for (const bool and_later : {false, true}) {
    database_options o = options();
    o.row_placement = "shared_heap";
    o.index_placement = "shared_heap";
    auto in_memory = std::make_unique<shop>(o);
    shop& in = *in_memory;
    const any_placement rows = in.db.row_placement();
    const any_placement indexes = in.db.index_placement();
    const std::vector<item> original{{1, 1, 101, 0}, {2, 1, 102, 0}, {3, 2, 103, 0}, {4, 2, 104, 0}};
    const std::vector<item> changed{{1, 5, 201, 6}, {3, 2, 103, 0}, {4, 9, 104, 0}, {8, 1, 108, 0}};
    const auto sorted = [](std::vector<item> of, auto key) {
      std::sort(of.begin(), of.end(), [&](const item& a, const item& b) { return key(a) < key(b); });
      return of;
    };
    const auto expect = [&](const std::vector<item>& all, std::uint64_t nth) {
      auto now = contents(in);
      EXPECT_EQ(now[0], all) << nth;
      EXPECT_EQ(now[2], sorted(all, [](const item& i) { return i.code; })) << nth;
      EXPECT_EQ(sorted(now[1], [](const item& i) { return i.id; }), all) << nth;
      EXPECT_TRUE(std::is_sorted(now[1].begin(), now[1].end(), [](const item& a, const item& b) {
        return a.group < b.group;
      })) << nth;
    };
    in.fill(original);
    for (std::uint64_t nth = 1;; ++nth) {
      test::failure_plan plan{.nth = nth, .and_later = and_later};
      bool threw = false;
      try {
        const test::armed now(plan);
        in.db.transact([&](transaction& t) {
          t.insert(in.items, {8, 1, 108, 0});
          t.update(in.items, 1, [](item& i) { i = {1, 5, 201, 6}; });
          t.erase(in.items, 2);
          t.erase(in.items, 4);
          t.insert(in.items, {4, 9, 104, 0});
        });
      } catch (const std::bad_alloc&) {
        threw = true;
      }
      expect(threw ? original : changed, nth);
      std::vector<item> at_rest;
      in.items.for_each_at_rest([&](const item& i) { at_rest.push_back(i); });
      EXPECT_EQ(at_rest, threw ? original : changed) << nth;
      if (testing::Test::HasFailure()) return;
      if (!threw) {
        // What it has left is free, whether or not there was memory to remove it from the indexes.
        in.fill({{50, 1, 101, 0}, {51, 1, 102, 0}});
        in.db.transact([&](transaction& t) {
          for (const std::uint64_t id : {50U, 51U, 8U}) EXPECT_TRUE(t.erase(in.items, id)) << nth;
          EXPECT_TRUE(t.update(in.items, 4, [](item& i) { i = {4, 2, 105, 0}; }));
        });
        in.db.transact([&](transaction& t) {
          EXPECT_TRUE(t.insert(in.items, {2, 1, 102, 0}));
          EXPECT_TRUE(t.update(in.items, 1, [](item& i) { i = {1, 1, 101, 0}; }));
          EXPECT_TRUE(t.update(in.items, 4, [](item& i) { i = {4, 2, 104, 0}; }));
        });
        expect(original, nth);
        if (testing::Test::HasFailure()) return;
      }
      if (!plan.has_failed()) break;
      ASSERT_LT(nth, 2000U);
    }
    EXPECT_GE(rows.usage().blocks, 3 * original.size());
    in_memory.reset();
    EXPECT_EQ(rows.usage().blocks, 0U);
    EXPECT_EQ(indexes.usage().blocks, 0U);
  }
}

}  // namespace
}  // namespace espalier::oltp

// A program's own names, and those of POSIX, beside all of this namespace.
namespace of_a_program {

using namespace espalier::oltp;

struct row {
  std::uint64_t id;
};

TEST(names, are_none_of_a_program_or_of_posix) {
  database db;
  table<row>& rows = db.create_table<&row::id>("rows");
  table_index<row>& by_id = rows.primary_index();
  db.transact([&](transaction& t) { t.insert(rows, row{7}); });
  EXPECT_EQ(db.transact([&](transaction& t) { return t.find(by_id, 7)->id; }), 7U);
  EXPECT_STREQ(index("oltp", 't'), "tp");
}

#ifndef NDEBUG
TEST(names, no_row_has_no_members) {
  EXPECT_DEATH(static_cast<void>(found_row<row>()->id),
               "there is no row; look whether find\\(\\) has found one");
}
#endif

}  // namespace of_a_program
