#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "espalier/hw/cache_line.hpp"

// Values on their way into a cache. Of the threads that miss a key one makes its value, and the others wait for it. A change
// of the key ends the flight: its value still goes to those that wait, whose calls began before the change ended, and not into
// the cache, which would keep what the change made stale.
//
// Orderings
//   (1) take_off (release) -> forget (acquire): a change that follows what a maker has read sees its flight.

namespace espalier::caching {

template <class Value>
class flights {
 public:
  /// The value that find() returns, or else what make() does; that goes to store() unless the key was changed meanwhile. make
  /// runs without a lock, store under one that forget() takes. What make throws goes to its caller, and a thread that waits
  /// makes in its place. Throws std::logic_error where make asks for its own key.
  template <class Find, class Make, class Store>
  Value fetch(std::uint64_t hash, std::string_view key, Find&& find, Make&& make, Store&& store) {
    stripe& s = stripe_of(hash);
    const auto mine = std::make_shared<flight>(std::string(key));
    std::unique_lock held(s.mutex);
    for (auto other = s.at(key); other != s.all.end(); other = s.at(key)) {
      const std::shared_ptr<flight> theirs = *other;
      if (theirs->maker == mine->maker)
        throw std::logic_error("the function that makes a value asks the cache for the same key");
      s.landed.wait(held, [&] { return theirs->is_over; });
      if (theirs->value) {
        held.unlock();
        return *theirs->value;
      }
    }
    s.all.push_back(mine);
    s.count.fetch_add(1, std::memory_order_release);  // order (1): take_off, release
    held.unlock();
    try {
      // One that was on its way a moment ago may be there.
      std::optional<Value> made = find();
      const bool is_new = !made;
      if (is_new) made.emplace(std::forward<Make>(make)());
      held.lock();
      if (is_new && mine->is_current) store(std::as_const(*made));
      mine->value = std::move(made);
    } catch (...) {
      if (!held.owns_lock()) held.lock();
      s.end(*mine);
      throw;
    }
    s.end(*mine);
    held.unlock();
    return *mine->value;
  }

  /// To be called before a change of the key.
  void forget(std::uint64_t hash, std::string_view key) noexcept {
    stripe& s = stripe_of(hash);
    if (s.count.load(std::memory_order_acquire) == 0) return;  // order (1): forget, acquire
    const std::lock_guard held(s.mutex);
    if (const auto found = s.at(key); found != s.all.end()) s.remove(**found);
  }
  void forget_all() noexcept {
    for (stripe& s : stripes_) {
      const std::lock_guard held(s.mutex);
      while (!s.all.empty()) s.remove(*s.all.back());
    }
  }

  /// Threads that wait for the maker of a key, for tests; nullopt: no thread makes it.
  [[nodiscard]] std::optional<std::size_t> waiting(std::uint64_t hash, std::string_view key) {
    stripe& s = stripe_of(hash);
    const std::lock_guard held(s.mutex);
    const auto found = s.at(key);
    if (found == s.all.end()) return std::nullopt;
    return static_cast<std::size_t>(found->use_count()) - 2;  // beside the maker and the stripe
  }

 private:
  struct flight {
    explicit flight(std::string k) : key(std::move(k)) {}

    std::string key;
    std::thread::id maker = std::this_thread::get_id();
    bool is_current = true;  ///< in its stripe
    bool is_over = false;
    std::optional<Value> value;
  };
  struct alignas(hw::false_sharing_bytes) stripe {
    std::atomic<std::size_t> count{0};
    std::mutex mutex;
    std::condition_variable landed;
    std::vector<std::shared_ptr<flight>> all;

    [[nodiscard]] auto at(std::string_view key) noexcept {
      return std::ranges::find_if(all, [key](const auto& f) { return f->key == key; });
    }
    void remove(flight& which) noexcept {
      which.is_current = false;
      std::erase_if(all, [&which](const auto& f) { return f.get() == &which; });
      count.fetch_sub(1, std::memory_order_relaxed);  // relaxed: one that is still seen is looked for in vain
    }
    void end(flight& which) noexcept {
      if (which.is_current) remove(which);
      which.is_over = true;
      landed.notify_all();
    }
  };

  [[nodiscard]] stripe& stripe_of(std::uint64_t hash) noexcept { return stripes_[hash % stripes_.size()]; }

  std::array<stripe, 16> stripes_;
};

}  // namespace espalier::caching
