#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace espalier {

// Orderings
//   (1) make (acq_rel) -> get, make (acquire): a thread that finds the object sees it constructed. The acquire of make
//       is needed only where the exchange fails and finds another thread's object.

/// An object that the first thread to need it makes. Threads that are first at the same time each make one; one of
/// these stays.
template <class T>
class made_once {
 public:
  made_once() = default;
  made_once(const made_once&) = delete;
  made_once& operator=(const made_once&) = delete;
  // relaxed: no other thread uses an object that is being destroyed.
  ~made_once() { delete object_.load(std::memory_order_relaxed); }

  /// Null until it is made.
  [[nodiscard]] T* get() const noexcept {
    // order (1): get, acquire
    return object_.load(std::memory_order_acquire);
  }

  /// The arguments construct it. Throws what the constructor throws.
  template <class... Arguments>
  [[nodiscard]] T& get_or_make(Arguments&&... arguments) {
    T* const present = get();
    return present != nullptr ? *present : make(std::forward<Arguments>(arguments)...);
  }

 private:
  template <class... Arguments>
  T& make(Arguments&&... arguments) {
    auto fresh = std::make_unique<T>(std::forward<Arguments>(arguments)...);
    T* present = nullptr;
    // order (1): make, acq_rel
    if (object_.compare_exchange_strong(present, fresh.get(), std::memory_order_acq_rel,
                                        std::memory_order_acquire))
      return *fresh.release();
    return *present;
  }

  std::atomic<T*> object_{nullptr};
};

}  // namespace espalier
