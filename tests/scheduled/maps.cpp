#include "scheduled/maps.hpp"

#include <gtest/gtest.h>

#include "scheduled/schedules.hpp"

namespace espalier::sim::battery {
namespace {

constexpr double usual_schedules = 2000;

class scenario_test : public ::testing::Test {
 public:
  scenario_test(const subject_type& type, options o) : type_(type), options_(std::move(o)) {}

  void TestBody() override {
    const result r = run(type_, options_);
    EXPECT_TRUE(r.passed) << r.text;
    RecordProperty("schedules", std::to_string(r.schedules));
    RecordProperty("steps", std::to_string(r.steps));
  }

 private:
  subject_type type_;
  options options_;
};

}  // namespace

bool add_tests(const std::string& map, const subject_type& type, double share) {
  for (const std::string& name : scenario_names()) {
    options o;
    o.map = map;
    o.only = name;
    o.schedules_per_scenario = scaled_schedules(usual_schedules * share);
    ::testing::RegisterTest(map.c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [type, o]() -> ::testing::Test* { return new scenario_test(type, o); });
  }
  return true;
}

}  // namespace espalier::sim::battery
