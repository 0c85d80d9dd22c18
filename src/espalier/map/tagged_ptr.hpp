#pragma once

#include <cassert>
#include <cstdint>

namespace espalier {

/// A pointer and, in the low bits that its alignment leaves free, a few flags. A value type of one word; an edge of a
/// lock-free tree is a std::atomic of it. The algorithm defines what the bits mean.
template <class T, unsigned Bits>
class tagged_ptr {
 public:
  constexpr tagged_ptr() noexcept = default;
  tagged_ptr(T* pointer, std::uintptr_t tags = 0) noexcept  // NOLINT(google-explicit-constructor)
      : word_(reinterpret_cast<std::uintptr_t>(pointer) | tags) {
    static_assert(alignof(T) >= (std::size_t{1} << Bits), "the alignment leaves too few bits");
    assert((reinterpret_cast<std::uintptr_t>(pointer) & mask) == 0 && tags <= mask);
  }

  [[nodiscard]] T* get() const noexcept { return reinterpret_cast<T*>(word_ & ~mask); }  // NOLINT
  [[nodiscard]] std::uintptr_t tags() const noexcept { return word_ & mask; }
  [[nodiscard]] bool has(std::uintptr_t tags) const noexcept { return (word_ & tags) != 0; }
  [[nodiscard]] tagged_ptr with(std::uintptr_t tags) const noexcept { return from_word(word_ | tags); }

  friend bool operator==(tagged_ptr, tagged_ptr) noexcept = default;

  [[nodiscard]] std::uintptr_t word() const noexcept { return word_; }
  [[nodiscard]] static tagged_ptr from_word(std::uintptr_t word) noexcept {
    tagged_ptr p;
    p.word_ = word;
    return p;
  }

 private:
  static constexpr std::uintptr_t mask = (std::uintptr_t{1} << Bits) - 1;
  std::uintptr_t word_ = 0;
};

}  // namespace espalier
