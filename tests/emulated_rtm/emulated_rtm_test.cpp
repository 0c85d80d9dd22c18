// The emulator itself, which is preloaded into this program: what an abort puts back and what nobody else sees. The
// tests of hw/htm and sync/elided_lock are run under it besides.

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "espalier/hw/htm.hpp"
#include "espalier/hw/rtm_instructions.hpp"

namespace espalier::hw {
namespace {

constexpr std::size_t page = 4096;

/// Aborts of others' making, of which a test may ask for any number by its environment, are not counted.
template <class Body>
transaction_outcome settled(Body body) {
  transaction_outcome outcome;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    outcome = rtm::run(body);
    if (outcome.committed || outcome.status.is_explicit() || outcome.status.is_capacity()) break;
  }
  return outcome;
}

/// Pages that nobody has touched.
class fresh_pages {
 public:
  explicit fresh_pages(std::size_t count)
      : bytes_(count * page),
        start_(static_cast<unsigned char*>(
            mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~fresh_pages() { munmap(start_, bytes_); }
  fresh_pages(const fresh_pages&) = delete;
  fresh_pages& operator=(const fresh_pages&) = delete;

  [[nodiscard]] volatile unsigned char& operator[](std::size_t at) const { return start_[at]; }
  void touch() const { std::memset(start_, 1, bytes_); }

 private:
  std::size_t bytes_;
  unsigned char* start_;
};

TEST(emulated_rtm, is_there_and_says_so) {
  ASSERT_TRUE(rtm_is_emulated()) << "this test is to be run under the emulator";
  ASSERT_TRUE(rtm::available());
  EXPECT_NE(rtm::probe().reason.find("emulated"), std::string::npos);
}

/// What a section does in many ways: vectors, strings, pushes and calls, a swap, single bytes.
struct varied_data {
  alignas(64) std::array<std::uint64_t, 64> words;
  std::array<unsigned char, 300> bytes;
  std::array<float, 32> floats;
  std::uint64_t swapped;
};

__attribute__((noinline)) std::uint64_t deep(varied_data& data, unsigned levels) noexcept {
  volatile const std::uint64_t local = levels;
  data.words[levels] += local;
  return levels == 0 ? local : deep(data, levels - 1) + local;
}

__attribute__((noinline)) void change(varied_data& data) noexcept {
  for (std::uint64_t& word : data.words) ++word;
  for (float& number : data.floats) number = number * 0.5F + 3;
  auto* to = data.bytes.data();
  std::size_t count = 257;  // NOLINT(misc-const-correctness): the instruction counts it down
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(data.bytes[0] + 1) : "memory");
  std::atomic_ref(data.swapped).exchange(deep(data, 20));
}

TEST(emulated_rtm, an_abort_at_any_moment_puts_back_all_that_was_written) {
  const auto data = std::make_unique<varied_data>();
  std::memset(data.get(), 1, sizeof *data);
  int commits = 0;
  int aborts = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto before = std::make_unique<varied_data>(*data);
    const auto after = std::make_unique<varied_data>(*data);
    change(*after);
    const bool committed = rtm::run([&]() noexcept { change(*data); }).committed;
    ++(committed ? commits : aborts);
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): every byte counts
    ASSERT_EQ(std::memcmp(data.get(), committed ? after.get() : before.get(), sizeof *data), 0) << committed;
  }
  EXPECT_GT(commits, 0);
  const auto asked = settled([&]() noexcept {
    change(*data);
    return transaction_verdict::abort(abort_code::user_1);
  });
  EXPECT_EQ(asked.status.code(), abort_code::user_1);
  RecordProperty("aborts", aborts);
}

/// The registers that a section has overwritten are at xbegin's end as they were before it.
TEST(emulated_rtm, an_abort_puts_back_the_registers) {
  const std::array<std::uint64_t, 2> in{0x0123'4567'89ab'cdef, 0xfedc'ba98'7654'3210};
  // NOLINTBEGIN(misc-const-correctness): the instructions write them
  std::array<std::uint64_t, 2> vector{};
  std::uint64_t rbx = 0;
  std::uint64_t r12 = 0;
  std::uint32_t status = 0;
  std::uint64_t carry = 0;
  // NOLINTEND(misc-const-correctness)
  for (int attempt = 0; attempt < 1000 && (status & abort_status::explicit_bit) == 0; ++attempt) {
    __asm__ volatile(
        "movdqu %[in], %%xmm9\n"
        "mov $77, %%rbx\n"
        "mov $78, %%r12\n"
        "mov $-1, %%eax\n"
        "stc\n"
        "xbegin 1f\n"
        "pxor %%xmm9, %%xmm9\n"
        "mov $1, %%rbx\n"
        "push %%rbx\n"
        "pop %%r12\n"
        "add $1, %%rbx\n"
        "xabort $9\n"
        "1:\n"
        "mov $0, %%ecx\n"
        "adc $0, %%rcx\n"
        "mov %%rcx, %[carry]\n"
        "mov %%eax, %[status]\n"
        "mov %%rbx, %[rbx]\n"
        "mov %%r12, %[r12]\n"
        "movdqu %%xmm9, %[vector]\n"
        : [vector] "=m"(vector), [rbx] "=m"(rbx), [r12] "=m"(r12), [status] "=m"(status), [carry] "=m"(carry)
        : [in] "m"(in)
        : "rax", "rbx", "rcx", "r12", "xmm9", "memory", "cc");
    ASSERT_EQ(vector, in);
    ASSERT_EQ(rbx, 77U);
    ASSERT_EQ(r12, 78U);
    ASSERT_EQ(carry, 1U);
  }
  EXPECT_EQ(status, abort_status::explicit_bit | 9U << abort_status::code_shift);
}

TEST(emulated_rtm, others_see_all_of_a_transaction_or_nothing) {
  struct both {
    alignas(64) std::atomic<std::uint64_t> first{0};
    alignas(64) std::atomic<std::uint64_t> second{0};
  } pair;
  std::atomic<bool> over{false};
  std::atomic<int> torn{0};
  std::atomic<int> looks{0};
  std::vector<std::thread> lookers;
  lookers.reserve(2);
  for (int t = 0; t < 2; ++t)
    lookers.emplace_back([&] {
      while (!over) {
        // The first is read last: it is never behind.
        const std::uint64_t second = pair.second;
        if (pair.first < second) ++torn;
        ++looks;
      }
    });
  while (looks == 0) std::this_thread::yield();
  for (int i = 0; i < 300; ++i) {
    (void)rtm::run([&]() noexcept {
      pair.second.store(pair.second + 1);
      pair.first.store(pair.second);
    });
  }
  over = true;
  for (std::thread& looker : lookers) looker.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(pair.first, pair.second);
  EXPECT_GT(pair.first, 0U);
}

TEST(emulated_rtm, writes_have_to_fit_the_ways_of_the_cache) {
  const fresh_pages pages(13);
  pages.touch();
  const auto write_lines = [&](std::size_t lines, std::size_t stride) {
    return settled([&]() noexcept {
      for (std::size_t i = 0; i < lines; ++i) pages[i * stride] = 2;
    });
  };
  EXPECT_TRUE(write_lines(11, page).committed) << "and one for what else is written";
  EXPECT_TRUE(write_lines(13, page).status.is_capacity());
  EXPECT_TRUE(write_lines(std::size_t{11} * 64, 64).committed) << "as many to each set";
  // Read is as much as one likes.
  unsigned total = 0;
  EXPECT_TRUE(settled([&]() noexcept {
                for (std::size_t i = 0; i < 13; ++i) total += pages[i * page];
              }).committed);
  EXPECT_GT(total, 0U);
}

TEST(emulated_rtm, a_page_that_is_not_there_aborts_for_no_cause) {
  const fresh_pages pages(1);
  for (int i = 0; i < 3; ++i) {
    const auto outcome = rtm::run([&]() noexcept { pages[100] = 3; });
    EXPECT_FALSE(outcome.committed) << "who does not touch it outside never commits";
    EXPECT_FALSE(outcome.status.is_capacity());
  }
  pages.touch();
  EXPECT_TRUE(settled([&]() noexcept { pages[100] = 3; }).committed);
  EXPECT_EQ(int{pages[100]}, 3);
}

TEST(emulated_rtm, a_system_call_aborts_and_is_not_made) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  for (int i = 0; i < 3; ++i) {
    const auto outcome = rtm::run([&]() noexcept { (void)!write(ends[1], "x", 1); });
    EXPECT_FALSE(outcome.committed);
    EXPECT_FALSE(outcome.status.is_explicit());
  }
  ASSERT_EQ(write(ends[1], "y", 1), 1);
  char got = 0;
  EXPECT_EQ(read(ends[0], &got, 1), 1);
  EXPECT_EQ(got, 'y');
  close(ends[0]);
  close(ends[1]);
}

TEST(emulated_rtm, a_pause_aborts) {
  EXPECT_FALSE(rtm::run([]() noexcept { __builtin_ia32_pause(); }).committed);
}

TEST(emulated_rtm, clearing_the_upper_halves_aborts) {
  if (!__builtin_cpu_supports("avx")) GTEST_SKIP() << "this processor has no AVX";
  EXPECT_FALSE(rtm::run([]() noexcept { asm volatile("vzeroupper"); }).committed);
}

TEST(emulated_rtm, the_c_library_copies_and_compares_in_sections) {
  std::string text(300, 'x');
  std::string copy(text.size(), ' ');
  int difference = 1;
  EXPECT_TRUE(settled([&]() noexcept {
                std::memcpy(copy.data(), text.data(), text.size());
                difference = std::memcmp(copy.data(), text.data(), text.size());
              }).committed);
  EXPECT_EQ(difference, 0);
  EXPECT_EQ(copy, text);
}

TEST(emulated_rtm, others_sleep_as_long_as_they_asked_for) {
  std::atomic<bool> slept{false};
  std::atomic<bool> was_interrupted{false};
  std::thread sleeper([&] {
    timespec left{};
    const timespec span{0, 20'000'000};
    const auto start = std::chrono::steady_clock::now();
    was_interrupted = nanosleep(&span, &left) != 0 ||
                      std::chrono::steady_clock::now() - start < std::chrono::milliseconds(20);
    slept = true;
  });
  std::uint64_t value = 0;
  while (!slept) (void)rtm::run([&]() noexcept { ++value; });
  sleeper.join();
  EXPECT_FALSE(was_interrupted);
}

TEST(emulated_rtm, a_thread_that_blocks_signals_stands_all_the_same) {
  std::atomic<int> state{0};
  std::thread blocker([&] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    state = 1;
    while (state != 2) std::this_thread::yield();
    state = 3;
  });
  while (state != 1) std::this_thread::yield();
  std::uint64_t value = 0;
  EXPECT_TRUE(settled([&]() noexcept { ++value; }).committed);
  state = 2;
  blocker.join();
  EXPECT_EQ(state, 3);
}

/// What a copy of the process ends with, which runs the body and gives what it returns; -1 where a signal ends it.
template <class Body>
int status_of_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(emulated_rtm, a_forked_child_has_transactions_of_its_own) {
  std::atomic<bool> over{false};
  std::uint64_t other = 0;
  std::thread beside([&] {
    while (!over) (void)rtm::run([&]() noexcept { ++other; });
  });
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(status_of_child([] {
                std::uint64_t value = 0;
                const bool committed = settled([&]() noexcept { ++value; }).committed;
                return committed && value == 1 ? 7 : 8;
              }),
              7);
  }
  over = true;
  beside.join();
}

TEST(emulated_rtm, a_program_may_have_handlers_of_its_own_for_illegal_instructions) {
  struct sigaction action{};
  action.sa_handler = [](int) { _exit(9); };
  EXPECT_EQ(status_of_child([&] {
              struct sigaction found{};
              if (sigaction(SIGILL, &action, nullptr) != 0 || sigaction(SIGILL, nullptr, &found) != 0 ||
                  found.sa_handler != action.sa_handler)
                return 1;
              std::uint64_t value = 0;
              if (!settled([&]() noexcept { ++value; }).committed) return 2;
              __builtin_trap();
            }),
            9);
}

TEST(emulated_rtm, a_program_may_set_them_by_signal) {
  EXPECT_EQ(status_of_child([] {
              const auto on_illegal = [](int) { _exit(9); };
              if (signal(SIGILL, on_illegal) != SIG_DFL || signal(SIGILL, on_illegal) != +on_illegal)
                return 1;
              if (signal(SIGUSR2, SIG_IGN) != SIG_DFL || signal(SIGUSR2, SIG_DFL) != SIG_IGN) return 2;
              std::uint64_t value = 0;
              if (!settled([&]() noexcept { ++value; }).committed) return 3;
              __builtin_trap();
            }),
            9);
}

/// A handler of the program's own may run transactions, and none runs within one.
std::atomic<int> handled{0};
std::uint64_t of_handlers = 0;
std::uint64_t seen_in_section = 0;

TEST(emulated_rtm, signals_wait_for_the_end_of_a_transaction) {
  struct sigaction action{};
  action.sa_handler = [](int) {
    const auto outcome = settled([]() noexcept { ++of_handlers; });
    if (outcome.committed) ++handled;
  };
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  std::atomic<bool> over{false};
  const pthread_t target = pthread_self();
  std::thread sender([&] {
    for (int i = 0; i < 50; ++i) {
      const int before = handled;
      pthread_kill(target, SIGUSR1);
      while (handled == before) std::this_thread::yield();
    }
    over = true;
  });
  int changed_within = 0;
  while (!over) {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    const auto outcome = rtm::run([&]() noexcept {
      first = of_handlers;
      for (int i = 0; i < 20; ++i) seen_in_section = seen_in_section + 1;
      last = of_handlers;
    });
    if (outcome.committed && first != last) ++changed_within;
  }
  sender.join();
  EXPECT_EQ(of_handlers, 50U);
  EXPECT_EQ(changed_within, 0);
}

}  // namespace
}  // namespace espalier::hw
