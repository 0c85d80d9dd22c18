#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "preload/kernel/saved_errno.hpp"

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

/// Appends the absolute form of a path: the program may change its folder before it ends. False where that folder is
/// gone.
inline bool put_absolute(text& to, const char* path) noexcept {
  std::array<char, 4096> folder{};
  if (path[0] != '/') {
    if (getcwd(folder.data(), folder.size()) == nullptr) return false;
    to << folder.data() << "/";
  }
  to << path;
  return true;
}

/// What a pattern of file names contains.
struct pattern_uses {
  bool process = false;
  bool number = false;
};

/// Appends a file name: a pattern with the process in place of %p and, unless it is null, `number` in place of %n.
inline pattern_uses put_pattern(text& to, const char* pattern, long process,
                                const char* number = nullptr) noexcept {
  pattern_uses uses;
  for (const char* at = pattern; *at != 0; ++at) {
    if (at[0] == '%' && at[1] == 'p') {
      to << static_cast<std::uint64_t>(process);
      uses.process = true;
      ++at;
    } else if (at[0] == '%' && at[1] == 'n' && number != nullptr) {
      to << number;
      uses.number = true;
      ++at;
    } else {
      to.append(at, 1);
    }
  }
  return uses;
}

/// During its life this thread may write to a pipe without reader or a file that may not grow, without a signal.
/// SIGPIPE for a line of this library would end a program that had written nothing. errno is the write's.
class quiet_writing {
 public:
  quiet_writing() noexcept {
    sigemptyset(&raised_);
    sigaddset(&raised_, SIGPIPE);
    sigaddset(&raised_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &raised_, &before_);
    // A signal that is pending already is the program's.
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    for (const int signal : {SIGPIPE, SIGXFSZ}) {
      if (sigismember(&pending, signal) == 1) sigdelset(&raised_, signal);
    }
  }
  quiet_writing(const quiet_writing&) = delete;
  quiet_writing& operator=(const quiet_writing&) = delete;
  ~quiet_writing() {
    const saved_errno keep;
    constexpr timespec at_once{};
    while (sigtimedwait(&raised_, nullptr, &at_once) > 0 || errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t raised_;
  sigset_t before_;
};

/// Writes one line of these texts to standard error, in one piece. Where that is closed the line is lost.
template <class... Texts>
void say_line(Texts... texts) noexcept {
  const quiet_writing quiet;
  const auto part = [](const char* text) { return iovec{const_cast<char*>(text), std::strlen(text)}; };
  const std::array line{part(texts)..., part("\n")};
  if (writev(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

/// Reports the consequence of a wrong setting, `about`, and the error, `what`.
inline void complain(const char* about, const char* what) noexcept { say_line("espalier: ", about, what); }

/// Writes the whole text without raising a signal. False where that is impossible, with errno as write() set it.
inline bool write_whole(int descriptor, const char* text, std::size_t size) noexcept {
  const quiet_writing quiet;
  while (size > 0) {
    const ssize_t written = write(descriptor, text, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

/// Standard error for messages after all else has ended. Many programs close theirs before, and some have then opened
/// a file of their own under its number.
class last_words {
 public:
  /// Duplicates standard error's descriptor to a number far from those that programs expect.
  void keep() noexcept {
    constexpr int far = 500;
    constexpr int behind_those_of_scripts = 10;  // where few numbers are allowed
    descriptor_ = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, far);
    if (descriptor_ < 0) descriptor_ = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, behind_those_of_scripts);
    if (descriptor_ < 0) descriptor_ = STDERR_FILENO;
    known_ = fstat(descriptor_, &kept_) == 0;
  }

  /// The descriptor for messages; -1 where it no longer is standard error's file, for then it is the program's.
  [[nodiscard]] int descriptor() const noexcept {
    struct stat now{};
    const bool same =
        known_ && fstat(descriptor_, &now) == 0 && now.st_dev == kept_.st_dev && now.st_ino == kept_.st_ino;
    return same ? descriptor_ : -1;
  }

  void say(const char* text, std::size_t size) const noexcept {
    if (const int to = descriptor(); to >= 0) write_whole(to, text, size);
  }

 private:
  int descriptor_ = STDERR_FILENO;
  bool known_ = false;
  struct stat kept_{};
};

/// Whether a file may replace this name: true where it is free or a regular file; false for a device, pipe, folder,
/// or a link to one of these.
inline bool is_replaceable(const char* name) noexcept {
  struct stat found{};
  return lstat(name, &found) != 0 || S_ISREG(found.st_mode);
}

}  // namespace espalier::preload
