#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>

namespace espalier::test {

/// A value that counts lives and misuses. It has no assignment, and its copy constructor throws when told to.
class counted {
 public:
  /// What the copy constructor throws.
  struct no_copy : std::runtime_error {
    no_copy() : std::runtime_error("this copy fails") {}
  };
  /// Objects that exist, of all threads.
  static inline std::atomic<std::int64_t> live = 0;
  /// Reads, moves and destructions of what is no object, or no longer one.
  static inline std::atomic<std::int64_t> misuses = 0;
  /// Of this thread: copies so far, and the copy that throws, counted from 1.
  static inline thread_local std::uint64_t copies = 0;
  static inline thread_local std::uint64_t failing_copy = 0;

  explicit counted(std::uint64_t number) noexcept : number_(number) { begin(); }
  counted(const counted& other) : number_(other.number()) {
    if (++copies == failing_copy) throw no_copy();
    begin();
  }
  counted(counted&& other) noexcept : number_(other.number()) {
    begin();
    other.number_ = moved_from;
  }
  counted& operator=(const counted&) = delete;
  ~counted() {
    check();
    canary_ = 0;
    live.fetch_sub(1);
  }

  [[nodiscard]] std::uint64_t number() const noexcept {
    check();
    return number_;
  }
  [[nodiscard]] bool is_moved_from() const noexcept { return number() == moved_from; }

 private:
  static constexpr std::uint64_t moved_from = ~std::uint64_t{0};

  /// A copy of the bytes has another one.
  [[nodiscard]] std::uint64_t own_canary() const noexcept {
    return 0x5afe'0b1e'c700'0000U ^ reinterpret_cast<std::uintptr_t>(this);
  }
  void begin() noexcept {
    canary_ = own_canary();
    live.fetch_add(1);
  }
  void check() const noexcept {
    if (canary_ != own_canary()) misuses.fetch_add(1);
  }

  std::uint64_t number_;
  volatile std::uint64_t canary_ = 0;  // volatile: the destructor's store is not dead
};

}  // namespace espalier::test
