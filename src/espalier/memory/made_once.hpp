#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace espalier {

/// An object that the first thread to need it makes. Threads that come first together each make one; one of
/// these stays.
template <class T>
class made_once {
 public:
  made_once() = default;
  made_once(const made_once&) = delete;
  made_once& operator=(const made_once&) = delete;
  ~made_once() { delete object_.load(std::memory_order_relaxed); }

  /// Null until it is made.
  [[nodiscard]] T* get() const noexcept {
    // order: get (acquire) <- make (release)
    return object_.load(std::memory_order_acquire);
  }

  /// The arguments construct it. Throws what that throws.
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
    if (object_.compare_exchange_strong(present, fresh.get(), std::memory_order_acq_rel,
                                        std::memory_order_acquire))
      return *fresh.release();
    return *present;
  }

  std::atomic<T*> object_{nullptr};
};

}  // namespace espalier
