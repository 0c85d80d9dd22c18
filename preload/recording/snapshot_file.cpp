#include "preload/recording/snapshot_file.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "preload/environment/replaceable.hpp"
#include "preload/recording/text.hpp"

namespace espalier::preload {

namespace format = inspect::format;

constinit std::array<char, 4096> snapshot_file::temporary_{};
constinit std::array<char, snapshot_file::buffer_bytes> snapshot_file::buffer_{};
constinit std::array<format::section_entry, snapshot_file::most_sections> snapshot_file::entries_{};

namespace {

bool write_whole(int descriptor, const void* bytes, std::size_t size, off_t at) noexcept {
  const auto* from = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = pwrite(descriptor, from, size, at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    from += written;
    at += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

}  // namespace

snapshot_file::snapshot_file(const char* name, std::size_t sections) noexcept
    : name_(name),
      sections_(sections),
      offset_(sizeof(format::header) + sections * sizeof(format::section_entry)) {
  text temporary(temporary_.data(), temporary_.size());
  temporary << name << "." << static_cast<std::uint64_t>(getpid()) << ".part";
  if (temporary.whole() && sections <= most_sections && is_replaceable(name))
    descriptor_ = open(temporary_.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  failed_ = descriptor_ < 0;
}

snapshot_file::~snapshot_file() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.data());
}

void snapshot_file::begin(std::uint32_t tag, std::uint32_t flags) noexcept {
  if (begun_ == sections_) {
    failed_ = true;
    return;
  }
  entries_[begun_++] = {tag, flags, offset_, 0, 0};
  sum_ = {};
}

void snapshot_file::put_bytes(const void* bytes, std::size_t size) noexcept {
  const auto* from = static_cast<const char*>(bytes);
  while (size > 0 && !failed_) {
    const std::size_t part = std::min(size, buffer_.size() - buffered_);
    std::memcpy(buffer_.data() + buffered_, from, part);
    buffered_ += part;
    from += part;
    size -= part;
    if (buffered_ == buffer_.size()) flush();
  }
}

void snapshot_file::put_text(const char* text) noexcept {
  const std::size_t size = std::strlen(text);
  put_number(static_cast<std::uint32_t>(size));
  put_bytes(text, size);
}

void snapshot_file::flush() noexcept {
  sum_.add(buffer_.data(), buffered_);
  failed_ |= !write_whole(descriptor_, buffer_.data(), buffered_, static_cast<off_t>(offset_));
  offset_ += buffered_;
  buffered_ = 0;
}

void snapshot_file::end() noexcept {
  if (failed_) return;
  format::section_entry& entry = entries_[begun_ - 1];
  entry.bytes = offset_ + buffered_ - entry.offset;
  const std::uint64_t zero = 0;
  put_bytes(&zero, format::padded(entry.bytes) - entry.bytes);
  flush();
  entry.check = sum_.sum();
}

bool snapshot_file::commit() noexcept {
  if (failed_ || begun_ != sections_) return false;
  format::header head;
  std::copy(format::magic.begin(), format::magic.end(), head.magic);
  head.version = format::version;
  head.sections = static_cast<std::uint32_t>(sections_);
  const std::size_t bytes = sections_ * sizeof(format::section_entry);
  format::checksum sum;
  sum.add(&head, offsetof(format::header, check));
  sum.add(entries_.data(), bytes);
  head.check = sum.sum();
  if (!write_whole(descriptor_, &head, sizeof head, 0)) return false;
  if (!write_whole(descriptor_, entries_.data(), bytes, sizeof head)) return false;
  if (rename(temporary_.data(), name_) != 0) return false;
  close(descriptor_);
  descriptor_ = -1;
  return true;
}

}  // namespace espalier::preload
