#include "espalier/delegation/departures.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "espalier/delegation/runtime.hpp"

namespace espalier::delegation::detail {
namespace {

/// A runtime, and its number: another one may come to lie at its address.
using numbered = std::pair<runtime*, std::uint64_t>;

struct live_runtime {
  numbered which;
  unsigned leaving = 0;  ///< threads
};

struct live_runtimes {
  std::mutex lock;
  std::condition_variable left;
  std::uint64_t made = 0;
  std::vector<live_runtime> all;

  [[nodiscard]] auto at(const runtime& one) {
    return std::find_if(all.begin(), all.end(), [&](const live_runtime& l) { return l.which.first == &one; });
  }
};

/// Never destroyed: threads may end after static objects.
live_runtimes& live() {
  static auto* const all = new live_runtimes;
  return *all;
}

class departures {
 public:
  departures() = default;
  departures(const departures&) = delete;
  departures& operator=(const departures&) = delete;
  ~departures() {
    live_runtimes& known = live();
    std::unique_lock hold(known.lock);
    for (const numbered& used : used_) {
      if (const auto at = known.at(*used.first); at == known.all.end() || at->which != used) continue;
      ++known.at(*used.first)->leaving;
      // Operations that other threads run for this one may use runtimes for the first time.
      hold.unlock();
      used.first->leave();
      hold.lock();
      --known.at(*used.first)->leaving;
      known.left.notify_all();
    }
  }
  void add(const numbered& one) {
    if (std::find(used_.begin(), used_.end(), one) == used_.end()) used_.push_back(one);
  }

 private:
  std::vector<numbered> used_;
};

}  // namespace

void leave_at_thread_end(runtime& one) {
  thread_local departures mine;
  live_runtimes& known = live();
  numbered entry;
  {
    const std::lock_guard hold(known.lock);
    auto at = known.at(one);
    if (at == known.all.end()) at = known.all.insert(at, {{&one, ++known.made}});
    entry = at->which;
  }
  mine.add(entry);
}

void forget_runtime(runtime& one) noexcept {
  live_runtimes& known = live();
  std::unique_lock hold(known.lock);
  known.left.wait(hold, [&] {
    const auto at = known.at(one);
    return at == known.all.end() || at->leaving == 0;
  });
  if (const auto at = known.at(one); at != known.all.end()) known.all.erase(at);
}

}  // namespace espalier::delegation::detail
