#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace espalier::app::serving {

/// Replies that wait to be sent. It never throws: replies that find no memory are lost, and failed() says so.
class output {
 public:
  output() = default;
  output(output&& other) noexcept { *this = std::move(other); }
  output& operator=(output&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(capacity_, other.capacity_);
    std::swap(begin_, other.begin_);
    std::swap(end_, other.end_);
    std::swap(failed_, other.failed_);
    return *this;
  }
  output(const output&) = delete;
  output& operator=(const output&) = delete;
  ~output() { std::free(bytes_); }

  [[nodiscard]] std::string_view pending() const noexcept { return {bytes_ + begin_, end_ - begin_}; }
  [[nodiscard]] std::size_t size() const noexcept { return end_ - begin_; }
  [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  /// Room for `bytes`, to be written in place and then kept by wrote(); null if there is no memory.
  [[nodiscard]] char* room(std::size_t bytes) noexcept {
    if (capacity_ - end_ < bytes && !grow(bytes)) return nullptr;
    return bytes_ + end_;
  }
  /// The end of what was written in the last room.
  void wrote(const char* end) noexcept { end_ = static_cast<std::size_t>(end - bytes_); }

  output& operator<<(std::string_view text) noexcept {
    if (char* const at = room(text.size())) {
      std::memcpy(at, text.data(), text.size());
      end_ += text.size();
    }
    return *this;
  }
  output& operator<<(char c) noexcept { return *this << std::string_view(&c, 1); }
  output& operator<<(std::uint64_t number) noexcept {
    constexpr std::size_t digits = 20;
    if (char* const at = room(digits)) wrote(std::to_chars(at, at + digits, number).ptr);
    return *this;
  }

  /// Takes back what was written after size() was this.
  void shrink_to(std::size_t size) noexcept { end_ = begin_ + size; }
  /// The first bytes were sent.
  void sent(std::size_t bytes) noexcept {
    begin_ += bytes;
    if (begin_ == end_) begin_ = end_ = 0;
  }
  /// Drops all of it, and the failure.
  void clear() noexcept {
    begin_ = end_ = 0;
    failed_ = false;
  }
  /// Frees a buffer that has become large and is not in use.
  void trim() noexcept {
    constexpr std::size_t large = std::size_t{2} << 20U;
    if (empty() && capacity_ > large) {
      std::free(std::exchange(bytes_, nullptr));
      capacity_ = 0;
    }
  }

 private:
  bool grow(std::size_t bytes) noexcept {
    constexpr std::size_t smallest = std::size_t{16} << 10U;
    std::size_t wanted = capacity_ < smallest ? smallest : 2 * capacity_;
    if (wanted < end_ + bytes) wanted = end_ + bytes;
    auto* const larger = static_cast<char*>(std::realloc(bytes_, wanted));
    if (larger == nullptr) {
      failed_ = true;
      return false;
    }
    bytes_ = larger;
    capacity_ = wanted;
    return true;
  }

  char* bytes_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool failed_ = false;
};

}  // namespace espalier::app::serving
