#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/cache/byte_cache.hpp"

namespace espalier::memcached {

/// Replies that wait to be sent: bytes, and between them large values, which stay where they lie in the cache. Nothing
/// throws: replies that find no memory are lost, and failed() says so. One thread uses it at a time.
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
    std::swap(values_, other.values_);
    std::swap(first_value_, other.first_value_);
    std::swap(value_bytes_, other.value_bytes_);
    return *this;
  }
  output(const output&) = delete;
  output& operator=(const output&) = delete;
  ~output() { std::free(bytes_); }

  /// What is to be sent first, in at most `most` parts. Returns how many.
  [[nodiscard]] std::size_t pending(iovec* parts, std::size_t most) const noexcept {
    std::size_t count = 0;
    std::size_t at = begin_;
    const auto add = [&](const char* from, std::size_t bytes) {
      if (bytes != 0 && count < most) parts[count++] = {const_cast<char*>(from), bytes};
    };
    for (std::size_t i = first_value_; i < values_.size() && count < most; ++i) {
      add(bytes_ + at, values_[i].at - at);
      at = values_[i].at;
      add(values_[i].text.data(), values_[i].text.size());
    }
    add(bytes_ + at, end_ - at);
    return count;
  }
  [[nodiscard]] std::size_t size() const noexcept { return end_ - begin_ + value_bytes_; }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
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
  template <std::integral Number>
  output& operator<<(Number number) noexcept {
    constexpr std::size_t digits = 20;
    if (char* const at = room(digits)) wrote(std::to_chars(at, at + digits, number).ptr);
    return *this;
  }

  /// A value that lies in the cache, after what was written.
  void refer(std::string_view text, byte_cache::hold held) noexcept {
    try {
      values_.push_back({end_, text, std::move(held)});
      value_bytes_ += text.size();
    } catch (const std::bad_alloc&) {
      failed_ = true;
    }
  }

  /// Takes back what was written after size() was this.
  void shrink_to(std::size_t size) noexcept {
    while (values_.size() > first_value_ &&
           this->size() - (end_ - values_.back().at) - values_.back().text.size() >= size) {
      end_ = values_.back().at;
      value_bytes_ -= values_.back().text.size();
      values_.pop_back();
    }
    end_ = begin_ + size - value_bytes_;
  }
  /// The first bytes were sent.
  void sent(std::size_t bytes) noexcept {
    for (; bytes != 0 && first_value_ < values_.size();) {
      part& next = values_[first_value_];
      const std::size_t before = std::min(bytes, next.at - begin_);
      begin_ += before;
      bytes -= before;
      const std::size_t of_value = std::min(bytes, next.text.size());
      next.text.remove_prefix(of_value);
      value_bytes_ -= of_value;
      bytes -= of_value;
      if (begin_ != next.at || !next.text.empty()) return;
      next.held = {};
      ++first_value_;
    }
    begin_ += bytes;
    if (empty()) reset();
  }
  /// Drops all of it, and the failure.
  void clear() noexcept {
    reset();
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
  struct part {
    std::size_t at;  ///< bytes before it, from the start of the buffer
    std::string_view text;
    byte_cache::hold held;
  };

  void reset() noexcept {
    begin_ = end_ = first_value_ = value_bytes_ = 0;
    values_.clear();
  }

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
  std::vector<part> values_;
  std::size_t first_value_ = 0;  // that is not sent
  std::size_t value_bytes_ = 0;
};

}  // namespace espalier::memcached
