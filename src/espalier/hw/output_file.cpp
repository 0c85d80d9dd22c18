#include "espalier/hw/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace espalier::hw {

namespace {

namespace fs = std::filesystem;

/// What a file cannot take the place of: a device, a pipe, a descriptor of this process under a name.
bool is_stream(const fs::path& target) {
  std::error_code failed;
  const fs::file_status found = fs::status(target, failed);
  if (!fs::exists(found) || fs::is_directory(found)) return false;
  if (!fs::is_regular_file(found)) return true;
  if (!fs::is_symlink(fs::symlink_status(target, failed))) return false;
  return fs::read_symlink(target, failed).native().starts_with("/proc/");
}

}  // namespace

output_file::output_file(std::filesystem::path target) : target_(std::move(target)) {
  std::error_code failed;
  if (is_stream(target_)) {
    descriptor_ = open(target_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (descriptor_ < 0) refuse(std::strerror(errno));
    stream_ = true;
    return;
  }
  // A link stays, and leads to the new file.
  if (fs::exists(target_, failed) && fs::is_symlink(fs::symlink_status(target_, failed))) {
    const fs::path led_to = fs::canonical(target_, failed);
    if (!failed) target_ = led_to;
  }
  if (!target_.has_filename() || std::filesystem::is_directory(target_, failed)) refuse("it is a folder");
  const std::filesystem::path folder = target_.has_parent_path() ? target_.parent_path() : ".";
  std::filesystem::create_directories(folder, failed);
  if (failed) refuse(failed.message());
  if (std::filesystem::exists(target_, failed) && access(target_.c_str(), W_OK) != 0)
    refuse(std::strerror(errno));
  beside_ = (folder / ("." + target_.filename().string() + ".XXXXXX")).string();
  // Without a name, where the file system can: even a killed process then leaves nothing behind.
  descriptor_ = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (descriptor_ < 0) open_named();
  if (descriptor_ < 0) refuse(std::strerror(errno));
}

void output_file::refuse(std::string_view why) const {
  throw std::invalid_argument("cannot write " + target_.string() + ": " + std::string(why) +
                              "; name a file in a folder that you may write to");
}

void output_file::fail() const {
  throw std::runtime_error("writing " + target_.string() + " failed: " + std::strerror(errno));
}

void output_file::open_named() {
  std::string name = beside_;
  descriptor_ = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ >= 0) temporary_ = std::move(name);
}

void output_file::give_name() {
  const std::string self = "/proc/self/fd/" + std::to_string(descriptor_);
  // The pattern serves mkstemp's way of finding a free name; the file it makes only holds the place.
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
  if (temporary_.empty()) give_name();
  if (temporary_.empty() || fchmod(descriptor_, 0666 & ~mask) != 0) fail();
  if (close(std::exchange(descriptor_, -1)) != 0) fail();
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail();
  temporary_.clear();
}

}  // namespace espalier::hw
