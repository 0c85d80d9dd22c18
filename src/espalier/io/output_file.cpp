#include "espalier/io/output_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace espalier::io {

namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : "."; }

/// Whether the name leads to a descriptor of a process, as /dev/stdout does: its file may have no name itself.
bool names_a_descriptor(const fs::path& file) {
  std::error_code failed;
  struct statfs holding{};
  return fs::is_symlink(fs::symlink_status(file, failed)) && statfs(folder_of(file).c_str(), &holding) == 0 &&
         holding.f_type == PROC_SUPER_MAGIC;
}

}  // namespace

std::string why_nothing_is_made(const std::filesystem::path& name, int error) {
  if (error != ENOENT) return std::strerror(error);
  std::error_code failed;
  const fs::path folder = folder_of(name);
  // A file system of the kernel's own, such as /proc, gives this error too.
  return (fs::is_directory(folder, failed) ? "nothing can be made in " : "there is no folder ") +
         folder.string();
}

output_file::output_file(int descriptor, std::string name)
    : target_(std::move(name)), descriptor_(descriptor), stream_(true) {}

output_file::output_file(std::filesystem::path target) : target_(std::move(target)) {
  if (!target_.has_filename()) refuse("it is a folder");
  follow_links();
  struct stat found{};
  const bool exists = stat(target_.c_str(), &found) == 0;
  if (!exists && errno != ENOENT) refuse(std::strerror(errno));
  if (exists) {
    if (S_ISDIR(found.st_mode)) refuse("it is a folder");
    if (S_ISBLK(found.st_mode)) refuse("it is a block device");
    if (S_ISSOCK(found.st_mode)) refuse("it is a socket");
    if (!S_ISREG(found.st_mode) || names_a_descriptor(target_)) {
      descriptor_ = open(target_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
      if (descriptor_ < 0) refuse(std::strerror(errno));
      stream_ = true;
      return;
    }
    if (access(target_.c_str(), W_OK) != 0) refuse(std::strerror(errno));
  }
  const fs::path folder = folder_of(target_);
  beside_ = (folder / ".espalier.XXXXXX").string();
  // Without a name, if the file system can: then even a killed process leaves nothing behind.
  descriptor_ = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (descriptor_ < 0 && errno != ENOENT) open_named();
  if (descriptor_ < 0) refuse(why_nothing_is_made(target_, errno));
}

/// A link stays, and leads to the new file. That file may not exist yet.
void output_file::follow_links() {
  constexpr int most_links = 40;  // as many as the kernel follows
  std::error_code failed;
  for (int i = 0; fs::is_symlink(fs::symlink_status(target_, failed)) && !names_a_descriptor(target_); ++i) {
    const fs::path to = fs::read_symlink(target_, failed);
    if (failed) refuse(failed.message());
    if (i == most_links) refuse(std::strerror(ELOOP));
    target_ = target_.parent_path() / to;  // which is `to` where that is absolute
  }
}

void output_file::refuse(std::string_view why) const {
  throw std::invalid_argument("cannot write " + target_.string() + ": " + std::string(why) +
                              "; name a file in a folder that you may write to");
}

void output_file::fail() const {
  throw std::runtime_error("writing " + target_.string() + " failed: " + std::strerror(errno));
}

std::optional<file_identity> output_file::identity() const {
  struct stat found{};
  if ((stream_ ? fstat(descriptor_, &found) : stat(target_.c_str(), &found)) == 0) {
    if (S_ISCHR(found.st_mode)) return std::nullopt;
    return file_identity{found.st_dev, found.st_ino, {}};
  }
  if (stat(folder_of(target_).c_str(), &found) != 0) fail();
  return file_identity{found.st_dev, found.st_ino, target_.filename().string()};
}

void output_file::open_named() {
  std::string name = beside_;
  descriptor_ = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ >= 0) temporary_ = std::move(name);
}

void output_file::link_temporary() {
  const std::string self = "/proc/self/fd/" + std::to_string(descriptor_);
  // mkostemp finds a free name by the pattern; the file that it makes is only a placeholder.
  std::string name = beside_;
  const int placeholder = mkostemp(name.data(), O_CLOEXEC);
  if (placeholder < 0) return;
  close(placeholder);
  unlink(name.c_str());
  if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0)
    temporary_ = std::move(name);
}

output_file::output_file(output_file&& other) noexcept
    : target_(std::move(other.target_)),
      beside_(std::move(other.beside_)),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      stream_(other.stream_) {}

output_file::~output_file() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void output_file::write(std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor_, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

void output_file::commit(std::string_view content) {
  write(content);
  if (stream_) {
    if (close(std::exchange(descriptor_, -1)) != 0) fail();
    return;
  }
  const mode_t mask = umask(0);
  umask(mask);
  if (temporary_.empty()) link_temporary();
  if (temporary_.empty() || fchmod(descriptor_, 0666 & ~mask) != 0) fail();
  if (close(std::exchange(descriptor_, -1)) != 0) fail();
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail();
  temporary_.clear();
}

}  // namespace espalier::io
