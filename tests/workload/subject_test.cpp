#include "espalier/workload/subject.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace espalier::workload {
namespace {

std::shared_ptr<const workload_plan> plan_of(const char* mix, std::vector<trace_record> trace = {}) {
  plan_request p;
  p.keys = 10;
  p.mix = mix;
  p.trace = std::move(trace);
  return make_plan(p);
}

std::shared_ptr<const workload_plan> trace_of(map_operation op) {
  return plan_of("100/0/0", {{1, 0, map_operation::find}, {1, 2, op}});
}

TEST(cannot_run, refuses_a_trace_that_exchanges_to_a_map_that_does_not) {
  subject_facts facts;
  for (const map_operation op : map_operations) {
    facts.properties.exchanges = false;
    EXPECT_EQ(facts.cannot_run(*trace_of(op)), op == map_operation::exchange || op == map_operation::extract
                                                   ? "it has no atomic exchange and extract"
                                                   : "")
        << to_string(op);
    facts.properties.exchanges = true;
    EXPECT_EQ(facts.cannot_run(*trace_of(op)), "") << to_string(op);
  }
}

TEST(cannot_run, lets_every_map_run_updates) {
  EXPECT_EQ(subject_facts{}.cannot_run(*plan_of("ycsb-f")), "");
  EXPECT_EQ(subject_facts{}.cannot_run(*trace_of(map_operation::update)), "");
}

TEST(cannot_run, judges_a_trace_by_its_records_and_not_by_the_mix) {
  subject_facts facts;
  facts.supports_erase = false;
  EXPECT_EQ(facts.cannot_run(*plan_of("90/5/5")), "it has no concurrent erase");
  EXPECT_EQ(facts.cannot_run(*plan_of("90/5/5", {{1, 0, map_operation::find}})), "");
  EXPECT_EQ(facts.cannot_run(*trace_of(map_operation::erase)), "it has no concurrent erase");
  facts.supports_scan = false;
  EXPECT_EQ(facts.cannot_run(*plan_of("ycsb-e")), "it has no concurrent scan");
  EXPECT_EQ(facts.cannot_run(*trace_of(map_operation::scan)), "it has no concurrent scan");
  EXPECT_EQ(facts.cannot_run(*plan_of("ycsb-a")), "");
}

TEST(cannot_run, refuses_every_write_to_a_map_whose_reads_are_right_without_writers) {
  subject_facts facts;
  facts.properties.reads_beside_writers = false;
  facts.properties.exchanges = true;
  constexpr const char* why = "its reads are right only while no thread writes";
  for (const char* mix : {"90/10/0", "90/0/10", "ycsb-a", "ycsb-f"})
    EXPECT_EQ(facts.cannot_run(*plan_of(mix)), why) << mix;
  EXPECT_EQ(facts.cannot_run(*plan_of("100/0/0")), "");
  for (const map_operation op : map_operations)
    EXPECT_EQ(facts.cannot_run(*trace_of(op)), is_write(op) ? why : "") << to_string(op);
}

}  // namespace
}  // namespace espalier::workload
