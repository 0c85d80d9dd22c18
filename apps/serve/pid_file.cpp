#include "apps/serve/pid_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "apps/common/exit_status.hpp"

// Two servers that start at once. The new file is locked before it has its name. It replaces a file that is locked as well,
// or takes a name that no file has: link() refuses where another server was faster.

namespace espalier::app::serving {
namespace {

bool is_at(const std::string& path, int descriptor) noexcept {
  struct stat named{};
  struct stat opened{};
  return stat(path.c_str(), &named) == 0 && fstat(descriptor, &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

/// False: another process has locked it. Where the file system has no locks, nothing is.
bool try_lock(int descriptor) noexcept {
  return flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

}  // namespace

pid_file::pid_file(const std::string& path) {
  if (path.empty()) return;
  path_ = std::filesystem::absolute(path);
  const auto refuse = [&](std::string_view why) {
    remove_temporary();
    throw usage_error(fmt::format("-P {}: {}", path_, why));
  };
  while ((before_ = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) >= 0) {
    struct stat found{};
    if (fstat(before_, &found) != 0 || !S_ISREG(found.st_mode)) refuse("it is no file; name another path");
    if (!try_lock(before_)) refuse_running(before_);
    if (is_at(path_, before_)) break;
    close(before_);  // its server has ended meanwhile
  }
  if (before_ < 0 && errno != ENOENT) refuse(std::strerror(errno));
  temporary_ = path_ + ".XXXXXX";
  descriptor_ = mkostemp(temporary_.data(), O_CLOEXEC);
  if (descriptor_ < 0) {
    temporary_.clear();
    refuse(std::strerror(errno));
  }
  try_lock(descriptor_);
  const mode_t mask = umask(0);
  umask(mask);
  if (fchmod(descriptor_, 0644 & ~mask) != 0) refuse(std::strerror(errno));
}

pid_file::~pid_file() {
  remove_temporary();
  if (writer_ == getpid() && is_at(path_, descriptor_) && unlink(path_.c_str()) != 0) [[maybe_unused]]
    const int emptied = ftruncate(descriptor_, 0);
  close(descriptor_);
}

void pid_file::write() {
  if (path_.empty()) return;
  const std::string text = fmt::format("{}\n", getpid());
  const bool written = ::write(descriptor_, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written || (before_ >= 0 ? rename(temporary_.c_str(), path_.c_str())
                                : link(temporary_.c_str(), path_.c_str())) != 0)
    throw usage_error(fmt::format("-P {}: {}", path_, std::strerror(errno)));
  if (before_ >= 0)
    temporary_.clear();
  else
    remove_temporary();
  close(std::exchange(before_, -1));
  writer_ = getpid();
}

void pid_file::refuse_running(int descriptor) const {
  std::array<char, 24> text{};
  const ssize_t size = read(descriptor, text.data(), text.size() - 1);
  std::string_view number(text.data(), size < 0 ? 0 : static_cast<std::size_t>(size));
  number = number.substr(0, number.find('\n'));
  throw usage_error(fmt::format(
      "-P {}: the file is that of process {}, which runs; stop it, or name another file", path_, number));
}

void pid_file::remove_temporary() noexcept {
  if (!temporary_.empty()) unlink(temporary_.c_str());
  temporary_.clear();
}

}  // namespace espalier::app::serving
