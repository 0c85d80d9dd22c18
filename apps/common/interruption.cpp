#include "apps/common/interruption.hpp"

#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace espalier::app {
namespace {

std::atomic<bool> is_requested{false};
std::atomic<int> by_signal{0};
std::atomic<bool> closed_pipe{false};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void request(int signal) {
  const int kept = errno;
  constexpr std::string_view said =
      "\nespalier: interrupted; what is measured is written, marked incomplete. Again ends it at once.\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, said.data(), said.size());
  by_signal = signal;
  is_requested = true;
  errno = kept;
}

}  // namespace

interruption::interruption() {
  is_requested = false;
  struct sigaction once{};
  once.sa_handler = request;
  once.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  for (std::size_t i = 0; i < signals.size(); ++i) {
    sigaction(signals[i], nullptr, &before_[i]);
    // Signals that a caller such as nohup has set to be ignored stay ignored.
    if (before_[i].sa_handler != SIG_IGN) sigaction(signals[i], &once, nullptr);
  }
}

interruption::~interruption() {
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
}

const std::atomic<bool>& interruption::requested() noexcept { return is_requested; }

int interruption::status() noexcept { return is_requested ? 128 + by_signal : 0; }

void outlive_closed_pipes() noexcept {
  // A handler rather than SIG_IGN, because exec() resets handlers.
  struct sigaction noted{};
  noted.sa_handler = [](int) { closed_pipe = true; };
  noted.sa_flags = SA_RESTART;
  struct sigaction before{};
  sigaction(SIGPIPE, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGPIPE, &noted, nullptr);
}

bool met_closed_pipe() noexcept { return closed_pipe; }

}  // namespace espalier::app
