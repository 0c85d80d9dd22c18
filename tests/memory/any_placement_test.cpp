#include "espalier/memory/any_placement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/map/bst/ticket.hpp"

namespace espalier {
namespace {

using testing::HasSubstr;

constexpr block node{40, 8, memory_role::node};

TEST(any_placement, lists_what_there_is_with_a_line_on_each) {
  std::set<std::string_view> names;
  for (const placement_choice& c : placement_names()) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name << " twice";
    EXPECT_FALSE(c.description.empty());
    EXPECT_EQ(c.description.find('\n'), std::string_view::npos);
    EXPECT_EQ(c.why_not.find('\n'), std::string::npos);
    EXPECT_EQ(c.available(), c.why_not.empty());
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"shared_heap", "segregated", "clustered", "jemalloc_arenas",
                                            "index_aware", "numa_local", "random_padding", "shifted"}));
}

TEST(any_placement, is_each_of_them) {
  for (const placement_choice& c : placement_names()) {
    if (!c.available()) {
      try {
        const any_placement source(c.name);
        FAIL() << c.name << " says that it is not available";
      } catch (const std::runtime_error& e) {
        EXPECT_EQ(e.what(), c.why_not);
      }
      continue;
    }
    any_placement source(c.name);
    EXPECT_EQ(source.chosen_name(), c.name);
    EXPECT_FALSE(source.is_recorded());
    void* const memory = source.allocate(node);
    EXPECT_EQ(source.usage().blocks, 1U);
    source.deallocate(memory, node);
  }
}

TEST(any_placement, another_name_is_refused_with_those_there_are) {
  for (const std::string_view name : {"", "Segregated", "segregate", "any", "recorded"}) {
    try {
      const any_placement source(name);
      FAIL() << name;
    } catch (const std::invalid_argument& e) {
      EXPECT_THAT(e.what(), HasSubstr("there is no placement '" + std::string(name) + "'"));
      for (const placement_choice& c : placement_names())
        EXPECT_THAT(e.what(), HasSubstr(std::string(c.name)));
      EXPECT_EQ(std::string_view(e.what()).find('\n'), std::string_view::npos);
    }
  }
}

TEST(any_placement, honours_near_where_the_chosen_one_does) {
  constexpr block node32{32, 32, memory_role::node};
  any_placement source("clustered");
  const auto line_of = [](const void* m) { return reinterpret_cast<std::uintptr_t>(m) / 64; };
  void* const parent = source.allocate(node32);
  void* const child = source.allocate(node32, parent);
  EXPECT_EQ(line_of(parent), line_of(child));
  source.deallocate(child, node32);
  source.deallocate(parent, node32);
}

TEST(any_placement, records_on_request) {
  const any_placement plain("segregated");
  EXPECT_THROW(plain.for_each_live([](const live_block&) {}), std::logic_error);
  any_placement source("segregated", any_placement::recording::on);
  EXPECT_TRUE(source.is_recorded());
  EXPECT_EQ(source.chosen_name(), "segregated");
  void* const memory = source.allocate(node);
  std::vector<void*> live;
  source.for_each_live([&](const live_block& one) { live.push_back(one.memory); });
  EXPECT_EQ(live, std::vector<void*>{memory});
  source.deallocate(memory, node);
  source.for_each_live([](const live_block&) { FAIL() << "nothing is in use"; });
}

TEST(any_placement, serves_a_map_and_gets_every_node_back) {
  for (const placement_choice& c : placement_names()) {
    if (!c.available()) continue;
    // A leak checker, or the placement's own pages, would miss what a dying map left.
    ticket<std::uint64_t, std::uint64_t, map_traits::with_placement<any_placement>> map(nullptr, c.name);
    for (std::uint64_t k = 0; k < 500; ++k) map.insert(k * 37 % 1009, k);
    for (std::uint64_t k = 0; k < 250; ++k) map.erase(k * 37 % 1009);
    EXPECT_EQ(map.find(499 * 37 % 1009), 499U) << c.name;
    EXPECT_GE(map.usage().blocks, 2U * 250 - 1) << "a leaf for each key, a router for each but one";
  }
}

}  // namespace
}  // namespace espalier
