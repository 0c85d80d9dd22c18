#include "espalier/workload/result.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace espalier::workload {
namespace {

using ::testing::ElementsAre;

/// The values of a member, in the order of the text.
std::vector<std::string> values_of(std::string_view member, std::string_view json) {
  const std::string before = std::string("\"").append(member).append("\": \"");
  std::vector<std::string> values;
  for (auto at = json.find(before); at != std::string_view::npos; at = json.find(before, at)) {
    at += before.size();
    values.emplace_back(json.substr(at, json.find('"', at) - at));
  }
  return values;
}

TEST(to_json, names_the_operations_that_a_mix_draws) {
  measurement m;
  m.plan = make_plan({});
  m.latency.resize(map_operations.size());
  for (const map_operation op : drawn_operations) m.latency[static_cast<std::size_t>(op)].record(1);
  EXPECT_THAT(values_of("operation", to_json({}, {m})),
              ElementsAre("all", "lookup", "insert", "erase", "update", "scan", "read_modify_write"));
  m.latency[static_cast<std::size_t>(map_operation::insert)] = histogram();
  EXPECT_THAT(values_of("operation", to_json({}, {m})),
              ElementsAre("all", "lookup", "erase", "update", "scan", "read_modify_write"));
}

}  // namespace
}  // namespace espalier::workload
