#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/oltp/database.hpp"
#include "oltp/protocol_and_map.hpp"

// A database of one table, and the fixture that has it with each protocol and with some maps.

namespace espalier::oltp {

inline constexpr std::uint64_t last_key = transaction::last_key;

struct item {
  std::uint64_t id = 0;
  std::uint64_t group = 0;
  std::uint64_t code = 0;
  std::int64_t amount = 0;

  friend bool operator==(const item&, const item&) = default;
  friend std::ostream& operator<<(std::ostream& out, const item& i) {
    return out << i.id << '/' << i.group << '/' << i.code << '/' << i.amount;
  }
};

/// A table with an index of several rows a key and a unique one.
struct shop {
  database db;
  table<item>& items;
  table_index<item>& by_group;
  table_index<item>& by_code;

  explicit shop(const database_options& o)
      : db(o),
        items(db.create_table<item>("items", [](const item& i) { return i.id; })),
        by_group(items.create_index<&item::group>("by group", uniqueness::many)),
        by_code(items.create_index("by code", uniqueness::unique, [](const item& i) { return i.code; })) {}

  void fill(const std::vector<item>& all) {
    db.transact([&](transaction& t) {
      for (const item& i : all) EXPECT_TRUE(t.insert(items, i)) << i;
    });
  }
  /// Rows with these keys, code 100 + key, and group key % 3.
  void fill(std::uint64_t from, std::uint64_t to) {
    std::vector<item> all;
    for (std::uint64_t id = from; id <= to; ++id) all.push_back({id, id % 3, 100 + id, 0});
    fill(all);
  }
};

template <class Index>
std::vector<std::uint64_t> ids(transaction& t, Index& in, std::uint64_t from = 0,
                               std::uint64_t to = last_key) {
  std::vector<std::uint64_t> seen;
  t.scan(in, from, to, [&](const item& i) { seen.push_back(i.id); });
  return seen;
}

/// All rows, as each index has them.
inline std::vector<std::vector<item>> contents(shop& s) {
  std::vector<std::vector<item>> all;
  s.db.transact([&](transaction& t) {
    all.assign(3, {});
    t.scan(s.items, 0, last_key, [&](const item& i) { all[0].push_back(i); });
    t.scan(s.by_group, 0, last_key, [&](const item& i) { all[1].push_back(i); });
    t.scan(s.by_code, 0, last_key, [&](const item& i) { all[2].push_back(i); });
  });
  for (const auto& one : all) EXPECT_EQ(one.size(), all[0].size());
  return all;
}

class databases : public testing::TestWithParam<protocol_and_map> {
 protected:
  static database_options options() { return options_of(GetParam(), 2); }
  shop s{options()};
};

/// Builds with a sanitizer have only some maps.
inline std::vector<std::string> maps() {
  std::vector<std::string> there;
  for (const std::string_view name : any_map_names()) {
    for (const std::string_view wanted : {"ordered_map", "ticket", "locked_map", "partitioned"}) {
      if (name == wanted) there.emplace_back(name);
    }
  }
  return there;
}

INSTANTIATE_TEST_SUITE_P(engines, databases,
                         testing::Combine(testing::ValuesIn(all_protocols), testing::ValuesIn(maps())),
                         name_of);

}  // namespace espalier::oltp
