#include "apps/common/child.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace espalier::app {
namespace {

std::vector<std::string> shell(const std::string& script) { return {"/bin/sh", "-c", script}; }

int status_of(const std::vector<std::string>& command, const spawn_how& how = {}) {
  const auto child = spawn(command, how);
  return child ? wait_for(*child).status : -1;
}

/// What it writes, few words.
std::string said_by(const std::vector<std::string>& command,
                    const std::vector<std::string>* environment = nullptr) {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  child_descriptors descriptors;
  descriptors.take(STDOUT_FILENO, ends[1]);
  const int status = status_of(command, {&descriptors, environment});
  close(ends[1]);
  EXPECT_EQ(status, 0);
  std::array<char, 4096> said{};
  const ssize_t n = read(ends[0], said.data(), said.size());
  close(ends[0]);
  return {said.data(), static_cast<std::size_t>(n < 0 ? 0 : n)};
}

TEST(spawn, gives_every_word) {
  EXPECT_EQ(said_by({"/bin/sh", "-c", "printf '%s|' \"$@\"", "sh", "a b", "", "$c"}), "a b||$c|");
}

TEST(spawn, looks_for_programs_as_the_shell_does) {
  EXPECT_EQ(status_of({"true"}), 0);
  EXPECT_EQ(spawn({"espalier-no-such-program"}, {}), std::nullopt);
  EXPECT_EQ(spawn({"/nowhere/true"}, {}), std::nullopt);
}

TEST(spawn, environment_is_this_process_s_or_what_is_given) {
  setenv("ESPALIER_SPAWN_TEST", "here", 1);
  EXPECT_EQ(said_by(shell("printf %s \"$ESPALIER_SPAWN_TEST\"")), "here");
  const std::vector<std::string> given{"ESPALIER_SPAWN_OTHER=there"};
  EXPECT_EQ(said_by(shell("printf %s \"$ESPALIER_SPAWN_TEST$ESPALIER_SPAWN_OTHER\""), &given), "there");
  const std::vector<std::string> nothing;
  EXPECT_EQ(said_by(shell("printf %s \"[$ESPALIER_SPAWN_TEST]\""), &nothing), "[]");
  unsetenv("ESPALIER_SPAWN_TEST");
}

TEST(spawn, descriptors) {
  child_descriptors descriptors;
  descriptors.open(STDIN_FILENO, "/dev/null", O_RDONLY);
  EXPECT_EQ(status_of(shell("! read line"), {&descriptors}), 0);
  descriptors.open(STDOUT_FILENO, "/nowhere/file", O_WRONLY);
  EXPECT_EQ(spawn({"true"}, {&descriptors}), std::nullopt);
}

TEST(spawn, tells_what_the_program_used) {
  const auto child = spawn(shell("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"), {});
  ASSERT_TRUE(child);
  const ended_child ended = wait_for(*child);
  EXPECT_EQ(ended.status, 0);
  EXPECT_GT(ended.used.ru_maxrss, 0);
  EXPECT_GT(ended.used.ru_utime.tv_sec + ended.used.ru_utime.tv_usec + ended.used.ru_stime.tv_usec, 0);
}

volatile std::sig_atomic_t alarms = 0;

TEST(spawn, waits_through_signals) {
  struct sigaction counts{};
  counts.sa_handler = [](int) { alarms = alarms + 1; };
  struct sigaction before{};
  sigaction(SIGALRM, &counts, &before);  // without SA_RESTART: waiting is interrupted
  const itimerval often{.it_interval = {0, 5000}, .it_value = {0, 5000}};
  setitimer(ITIMER_REAL, &often, nullptr);
  const auto child = spawn(shell("sleep 0.1; exit 7"), {});
  ASSERT_TRUE(child);
  const int status = wait_for(*child).status;
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_GT(alarms, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(run_child, gives_the_status_as_a_shell_would) {
  EXPECT_EQ(run_child(shell("exit 3")), 3);
  EXPECT_EQ(run_child(shell("kill -TERM $$")), 128 + SIGTERM);
  EXPECT_EQ(run_child({"espalier-no-such-program"}), std::nullopt);
}

TEST(run_child, drops_output_and_takes_an_environment) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_child(shell("echo shown")), 0);
  EXPECT_EQ(run_child(shell("echo dropped"), child_output::dropped), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "shown\n");
  const std::vector<std::string> given{"ESPALIER_SPAWN_TEST=there"};
  EXPECT_EQ(run_child(shell("[ \"$ESPALIER_SPAWN_TEST\" = there ]"), child_output::shown, &given), 0);
}

// The child must not inherit what keeps this process through an interrupt from the keyboard.
TEST(run_child, interrupts_are_the_child_s_to_heed) {
  std::signal(SIGINT, SIG_DFL);  // programs that a script started in the background ignore it
  EXPECT_EQ(run_child(shell("kill -INT $$; exit 0")), 128 + SIGINT);
  EXPECT_EQ(run_child(shell("kill -INT $PPID; exit 5")), 5);
}

TEST(run_child, requests_to_end_are_handed_on) {
  EXPECT_EQ(run_child(shell("kill -TERM $PPID; exec sleep 7200")), 128 + SIGTERM);
}

}  // namespace
}  // namespace espalier::app
