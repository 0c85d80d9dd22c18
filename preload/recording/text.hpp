#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace espalier::preload {

/// Text in a caller's buffer, always terminated; what does not fit is left out and recorded. It replaces printf,
/// which signal handlers must not use.
class text {
 public:
  text(char* to, std::size_t room) noexcept : to_(to), room_(room) { to_[0] = 0; }

  text& operator<<(const char* more) noexcept { return append(more, std::strlen(more)); }
  text& operator<<(std::uint64_t number) noexcept {
    char digits[20];
    std::size_t at = sizeof digits;
    do {
      digits[--at] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    return append(digits + at, sizeof digits - at);
  }
  /// Appends 0x and digits.
  text& hexadecimal(std::uint64_t number) noexcept {
    char digits[16];
    std::size_t at = sizeof digits;
    do {
      digits[--at] = "0123456789abcdef"[number % 16];
      number /= 16;
    } while (number != 0);
    return append("0x", 2).append(digits + at, sizeof digits - at);
  }
  text& append(const char* more, std::size_t size) noexcept {
    if (size >= room_ - size_) {
      whole_ = false;
      return *this;
    }
    std::memcpy(to_ + size_, more, size);
    size_ += size;
    to_[size_] = 0;
    return *this;
  }

  [[nodiscard]] bool whole() const noexcept { return whole_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] const char* c_str() const noexcept { return to_; }

 private:
  char* to_;
  std::size_t room_;
  std::size_t size_ = 0;
  bool whole_ = true;
};

}  // namespace espalier::preload
