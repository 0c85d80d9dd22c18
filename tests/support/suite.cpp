#include "support/suite.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "support/chosen_placement.hpp"
#include "support/codec.hpp"

namespace espalier::test {
namespace {

// Functions, because initialisers of other files may run first, in an unspecified order.
std::vector<check>& all_checks() {
  static std::vector<check> all;
  return all;
}
std::map<std::string, bool (*)(const subject_type&)>& all_filters() {
  static std::map<std::string, bool (*)(const subject_type&)> all;
  return all;
}
std::vector<subject_type>& all_subjects() {
  static std::vector<subject_type> all;
  return all;
}

class check_test : public ::testing::Test {
 public:
  check_test(const check& c, const subject_type& type) : check_(c), type_(type) {}
  void TestBody() override {
    chosen_placement::now = type_.placement;
    chosen_placement::keeps = any_placement::recording::off;
    check_.run(type_);
  }

 private:
  const check& check_;
  const subject_type& type_;
};

}  // namespace

bool add_check(check c) {
  all_checks().push_back(std::move(c));
  return true;
}

bool add_filter(std::string suite, bool (*takes)(const subject_type&)) {
  return all_filters().emplace(std::move(suite), takes).second;
}

bool add_subject(subject_type type) {
  all_subjects().push_back(std::move(type));
  return true;
}

const std::vector<subject_type>& subjects() { return all_subjects(); }

bool register_tests() {
  for (const subject_type& type : all_subjects()) {
    for (const check& c : all_checks()) {
      if (!type.only_in.empty() && type.only_in != c.suite) continue;
      const auto takes = all_filters().find(c.suite);
      if (takes != all_filters().end() && !takes->second(type)) continue;
      const std::string suite = c.suite + "/" + type.name;
      ::testing::RegisterTest(suite.c_str(), c.name.c_str(), nullptr, nullptr, c.file, c.line,
                              [&c, &type]() -> ::testing::Test* { return new check_test(c, type); });
    }
  }
  return !all_subjects().empty() && !all_checks().empty();
}

void report_torn(std::uint64_t first, std::uint64_t second, std::uint64_t third) {
  ADD_FAILURE() << "a key or a value was seen that no thread wrote: " << std::hex << first << " " << second
                << " " << third;
}

}  // namespace espalier::test
