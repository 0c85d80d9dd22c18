#include "support/interruptions.hpp"

#include <pthread.h>

#include <cerrno>
#include <csignal>
#include <ctime>

#include "espalier/workload/random.hpp"

namespace espalier::test {
namespace {

void rest(long nanoseconds) noexcept {
  const timespec time{0, nanoseconds};
  nanosleep(&time, nullptr);
}

void install_handler() {
  struct sigaction action{};
  action.sa_handler = [](int) {
    const int saved = errno;
    rest(50'000);
    errno = saved;
  };
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
}

}  // namespace

interruptions::interruptions(std::span<std::thread> threads) {
  install_handler();
  thread_ = std::thread([this, threads] {
    workload::random_generator random(5005);
    while (!end_.load(std::memory_order_relaxed)) {
      pthread_kill(threads[random.below(threads.size())].native_handle(), SIGUSR1);
      rest(static_cast<long>(random.below(60'000)));
    }
  });
}

interruptions::~interruptions() {
  end_.store(true, std::memory_order_relaxed);
  thread_.join();
}

}  // namespace espalier::test
