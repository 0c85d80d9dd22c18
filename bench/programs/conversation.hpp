#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

// Lines from standard input and to standard output, without malloc.

namespace espalier::bench {

/// Text beyond its capacity is dropped.
class answer {
 public:
  template <class... Values>
  answer& put(const char* format, Values... values) noexcept {
    const int wanted = std::snprintf(text_.data() + size_, text_.size() - size_, format, values...);
    if (wanted > 0) size_ = std::min(size_ + static_cast<std::size_t>(wanted), text_.size() - 1);
    return *this;
  }
  /// Ends the program if there is no reader.
  void send() noexcept {
    put("\n");
    for (std::size_t sent = 0; sent < size_;) {
      const ssize_t n = write(STDOUT_FILENO, text_.data() + sent, size_ - sent);
      if (n <= 0) std::exit(1);
      sent += static_cast<std::size_t>(n);
    }
    size_ = 0;
  }

 private:
  std::array<char, std::size_t{1} << 16> text_{};
  std::size_t size_ = 0;
};

/// Reads requests one by one from standard input.
class requests {
 public:
  /// Empty at the end, and if a line is longer than any request.
  std::string_view next() noexcept {
    std::memmove(text_.data(), text_.data() + used_, filled_ - used_);
    filled_ -= used_;
    used_ = 0;
    while (true) {
      const std::string_view all(text_.data(), filled_);
      if (const std::size_t end = all.find('\n'); end != std::string_view::npos) {
        used_ = end + 1;
        return all.substr(0, end);
      }
      const ssize_t n =
          filled_ == text_.size() ? 0 : read(STDIN_FILENO, text_.data() + filled_, text_.size() - filled_);
      if (n <= 0) return {};
      filled_ += static_cast<std::size_t>(n);
    }
  }

 private:
  std::array<char, 256> text_{};
  std::size_t filled_ = 0;
  std::size_t used_ = 0;
};

}  // namespace espalier::bench
