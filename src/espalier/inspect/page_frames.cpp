#include "espalier/inspect/page_frames.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/hw/pages.hpp"
#include "espalier/io/text.hpp"

namespace espalier::inspect {
namespace {

/// A file of 64-bit words. Consecutive words are read in large pieces. The kernel computes each word when it is read,
/// so that for scattered words large pieces would cost more than they save.
class word_file {
 public:
  explicit word_file(const std::string& name) : descriptor_(open(name.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) trouble_ = fmt::format("{}: {}", name, std::strerror(errno));
    name_ = name;
  }
  word_file(const word_file&) = delete;
  word_file& operator=(const word_file&) = delete;
  ~word_file() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  /// nullopt if the file has no such word or cannot be read.
  std::optional<std::uint64_t> at(std::uint64_t index) {
    if (descriptor_ < 0) return std::nullopt;
    if (index < first_ || index >= first_ + count_) fill(index, index == first_ + count_ ? words_.size() : 8);
    return index - first_ < count_ ? std::optional(words_[index - first_]) : std::nullopt;
  }

  /// Why words could not be read; empty if there was no error.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

 private:
  void fill(std::uint64_t first, std::size_t words) {
    first_ = first;
    count_ = 0;
    const ssize_t got = pread(descriptor_, words_.data(), words * 8, static_cast<off_t>(first * 8));
    if (got < 0 && trouble_.empty()) trouble_ = fmt::format("{}: {}", name_, std::strerror(errno));
    if (got > 0) count_ = static_cast<std::uint64_t>(got) / 8;
  }

  int descriptor_;
  std::string name_;
  std::string trouble_;
  std::array<std::uint64_t, 512> words_{};
  std::uint64_t first_ = 0;
  std::uint64_t count_ = 0;
};

void read_frames(snapshot& s, const std::string& file) {
  word_file pagemap(file);
  std::uint64_t absent = 0;
  std::uint64_t hidden = 0;
  for (page& p : s.pages) {
    const std::uint64_t word = pagemap.at(p.number).value_or(0);
    const std::uint64_t frame = hw::frame_of(word);
    if (!hw::is_in_memory(word))
      ++absent;
    else if (frame == 0)
      ++hidden;
    else
      p.set_frame(frame);
  }
  s.frames_unknown.clear();
  if (!pagemap.trouble().empty())
    s.frames_unknown = pagemap.trouble();
  else if (hidden != 0)
    s.frames_unknown = fmt::format("{} hides the frames from this process, which lacks CAP_SYS_ADMIN", file);
  else if (absent != 0)
    s.frames_unknown = fmt::format("{} of {} pages are not in memory", absent, s.pages.size());
}

/// What smaps says about one mapping.
struct mapping {
  std::uint64_t first_page = 0;
  std::uint64_t end_page = 0;
  std::uint64_t resident = 0;  // KiB, as all of these
  std::uint64_t huge = 0;
  std::uint64_t page_size = 0;

  [[nodiscard]] std::optional<bool> is_huge() const {
    if (page_size >= huge_page_bytes / 1024) return true;
    if (huge == 0) return false;
    return huge >= resident ? std::optional(true) : std::nullopt;
  }
};

/// "7f0000000000-7f0000021000 rw-p ..." begins a mapping, "Rss:   132 kB" is one of its fields.
std::vector<mapping> read_mappings(const std::string& file) {
  std::vector<mapping> all;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::string_view head = std::string_view(line).substr(0, line.find(' '));
    if (const std::size_t dash = head.find('-'); dash != std::string_view::npos) {
      const auto first = io::parse_whole<std::uint64_t>(head.substr(0, dash), 16);
      const auto end = io::parse_whole<std::uint64_t>(head.substr(dash + 1), 16);
      if (first && end) all.push_back({*first / page_bytes, *end / page_bytes});
      continue;
    }
    if (all.empty()) continue;
    std::string_view value = std::string_view(line).substr(head.size());
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    const std::uint64_t kib =
        io::parse_whole<std::uint64_t>(value.substr(0, value.find(' ')), 10).value_or(0);
    if (head == "Rss:") all.back().resident = kib;
    if (head == "KernelPageSize:") all.back().page_size = kib;
    if (head == "AnonHugePages:" || head == "ShmemPmdMapped:" || head == "FilePmdMapped:")
      all.back().huge += kib;
  }
  return all;
}

void read_sizes_by_frame(snapshot& s, word_file& flags) {
  for (page& p : s.pages) {
    const auto frame = p.frame();
    if (!frame) continue;
    const auto word = flags.at(*frame);
    if (!word) continue;
    p.set_huge(hw::is_huge(*word, *frame, p.number));
  }
}

void read_sizes_by_mapping(snapshot& s, const std::string& file) {
  const std::vector<mapping> all = read_mappings(file);
  auto at = all.begin();
  for (page& p : s.pages) {
    if (p.huge()) continue;
    while (at != all.end() && at->end_page <= p.number) ++at;
    if (at == all.end()) break;
    if (p.number < at->first_page) continue;
    if (const auto huge = at->is_huge()) p.set_huge(*huge);
  }
}

void read_sizes(snapshot& s, const page_sources& from) {
  word_file flags(from.page_flags);
  read_sizes_by_frame(s, flags);
  const auto count_unknown = [&] {
    return std::ranges::count_if(s.pages, [](const page& p) { return !p.huge(); });
  };
  if (count_unknown() != 0) read_sizes_by_mapping(s, from.mappings);
  s.huge_unknown.clear();
  const auto unknown = count_unknown();
  if (unknown == 0) return;
  std::string why = !flags.trouble().empty() ? flags.trouble() : s.frames_unknown;
  if (!why.empty()) why += "; ";
  s.huge_unknown = fmt::format("{}{} does not tell the size of {} of {} pages", why, from.mappings, unknown,
                               s.pages.size());
}

}  // namespace

void find_frames(snapshot& s, const page_sources& from) {
  for (page& p : s.pages) p.state = 0;
  read_frames(s, from.pagemap);
  read_sizes(s, from);
}

}  // namespace espalier::inspect
