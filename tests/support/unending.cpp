#include "support/unending.hpp"

#include <gtest/gtest.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace espalier::test {
namespace {

std::array<char, 512> message{};

void end_test(int) {
  static_cast<void>(!write(STDERR_FILENO, message.data(), std::strlen(message.data())));
  _exit(unending_exit_code);
}

void set_timer(__itimer_which_t which, double seconds) {
  itimerval left{};
  left.it_value.tv_sec = static_cast<time_t>(seconds);
  left.it_value.tv_usec =
      static_cast<suseconds_t>((seconds - static_cast<double>(left.it_value.tv_sec)) * 1e6);
  setitimer(which, &left, nullptr);
}

class limits : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    limit_test(std::string(test.test_suite_name()).append(".").append(test.name()).c_str());
  }
  void OnTestEnd(const testing::TestInfo&) override { test_has_ended(); }
};

[[maybe_unused]] const bool has_limits = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new limits);
  return true;
}();

}  // namespace

void limit_test(const char* name) {
  if (std::getenv("ESPALIER_SOAK_OPERATIONS") != nullptr || std::getenv("ESPALIER_STRESS_SCALE") != nullptr)
    return;
  const char* const given = std::getenv("ESPALIER_TEST_SECONDS");
  const double seconds = given != nullptr ? std::strtod(given, nullptr) : 300;
  std::snprintf(message.data(), message.size(),
                "the test %s does not end: it has used %g s of processor time, or has waited for %g s\n",
                name, seconds, 4 * seconds);
  std::signal(SIGPROF, end_test);
  std::signal(SIGALRM, end_test);
  set_timer(ITIMER_PROF, seconds);
  set_timer(ITIMER_REAL, 4 * seconds);
}

void test_has_ended() {
  set_timer(ITIMER_PROF, 0);
  set_timer(ITIMER_REAL, 0);
}

}  // namespace espalier::test
