#pragma once

#include <string>
#include <vector>

#include "support/subject.hpp"

// The suites are GoogleTest suites created at run time: every check of the executable is combined with every subject of
// it, as a test <check's suite>/<subject>.<check>. Unlike TYPED_TEST_P, this registration compiles a check once instead
// of once for each map type, and a check is written in one place.

namespace espalier::test {

struct check {
  std::string suite;
  std::string name;
  const char* file;
  int line;
  void (*run)(const subject_type&);
};

bool add_check(check c);
/// A suite without a filter takes every subject.
bool add_filter(std::string suite, bool (*takes)(const subject_type&));
bool add_subject(subject_type type);
[[nodiscard]] const std::vector<subject_type>& subjects();

/// Called by main, after static initialisation has gathered checks and subjects. False if there are none.
[[nodiscard]] bool register_tests();

}  // namespace espalier::test

/// Defines which subjects a suite takes; the body sees `type` and returns a bool.
#define ESPALIER_SUITE_TAKES(suite)                                                                          \
  static bool suite##_takes(const ::espalier::test::subject_type& type);                                     \
  [[maybe_unused]] static const bool suite##_filtered = ::espalier::test::add_filter(#suite, suite##_takes); \
  static bool suite##_takes([[maybe_unused]] const ::espalier::test::subject_type& type)

/// Defines a check; the body sees `type`, the subject_type for which it runs.
#define ESPALIER_CHECK(suite, name)                                                     \
  static void suite##_##name(const ::espalier::test::subject_type& type);               \
  [[maybe_unused]] static const bool suite##_##name##_added =                           \
      ::espalier::test::add_check({#suite, #name, __FILE__, __LINE__, suite##_##name}); \
  static void suite##_##name([[maybe_unused]] const ::espalier::test::subject_type& type)
