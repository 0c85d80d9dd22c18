#include "espalier/inspect/snapshot_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "espalier/inspect/snapshot_format.hpp"

namespace espalier::inspect {
namespace {

using format::section;

// Writing

void put(std::string& to, std::size_t number) {
  if (number > std::numeric_limits<std::uint32_t>::max())
    throw std::runtime_error("a snapshot's lists of types, facts and ranges have less than 2^32 entries");
  const auto word = static_cast<std::uint32_t>(number);
  to.append(reinterpret_cast<const char*>(&word), sizeof word);
}

void put(std::string& to, std::string_view text) {
  put(to, text.size());
  to.append(text);
}

void put(std::string& to, const std::vector<byte_range>& ranges) {
  put(to, ranges.size());
  for (const byte_range& r : ranges) {
    put(to, r.first);
    put(to, r.bytes);
  }
}

std::string about_section(const snapshot& s) {
  std::string text;
  for (const auto* member : {&s.subject, &s.frames_unknown, &s.huge_unknown, &s.links_unknown})
    put(text, *member);
  return text;
}

std::string facts_section(const snapshot& s) {
  std::string text;
  put(text, s.facts.size());
  for (const fact& f : s.facts) {
    put(text, f.name);
    put(text, f.value);
  }
  return text;
}

std::string types_section(const snapshot& s) {
  std::string text;
  put(text, s.types.size());
  for (const block_type& t : s.types) {
    put(text, t.name);
    put(text, t.written ? 1 : 0);
    put(text, t.always_read);
    put(text, t.one_read);
  }
  return text;
}

template <class T>
std::string_view bytes_of(const std::vector<T>& all) {
  return {reinterpret_cast<const char*>(all.data()), all.size() * sizeof(T)};
}

// Reading

class snapshot_reader {
 public:
  explicit snapshot_reader(const std::filesystem::path& from) : file_(from), size_(file_.size()) {}

  std::vector<char> read_section(std::uint32_t tag) {
    read_entries();
    std::vector<char> found;
    for (const format::section_entry& e : entries_) {
      std::vector<char> payload;
      read_payload(e, payload);
      if (e.tag == tag) found = std::move(payload);
    }
    return found;
  }

  snapshot read() {
    read_entries();
    for (const format::section_entry& e : entries_) read_section(e);
    try {
      require_valid(read_);
    } catch (const std::invalid_argument& wrong) {
      file_.refuse_damage(wrong.what());
    }
    return std::move(read_);
  }

 private:
  void read_entries() {
    format::header head;
    const bool whole = file_.read_whole(&head, sizeof head);
    if (std::string_view(head.magic, sizeof head.magic) != format::magic)
      file_.refuse("is no snapshot of a memory layout");
    if (!whole) refuse_short();
    if (head.version != format::version)
      file_.refuse(fmt::format("is a snapshot of version {}; this program reads version {}", head.version,
                               format::version));
    if (head.sections > format::most_sections) file_.refuse_damage("its header has too many sections");
    entries_.resize(head.sections);
    const std::size_t bytes = entries_.size() * sizeof(format::section_entry);
    if (!file_.read_whole(entries_.data(), bytes)) refuse_short();
    format::checksum sum;
    sum.add(&head, offsetof(format::header, check));
    sum.add(entries_.data(), bytes);
    if (sum.sum() != head.check) file_.refuse_damage("the checksum of its header is wrong");
    for (auto e = entries_.begin(); e != entries_.end(); ++e) {
      if (std::find_if(entries_.begin(), e, [&](const auto& before) { return before.tag == e->tag; }) != e)
        file_.refuse_damage("a section occurs twice");
    }
    require_contiguous(sizeof head + bytes);
  }

  void require_contiguous(std::uint64_t next) const {
    for (const format::section_entry& e : entries_) {
      // Lengths near 2^64 must not wrap around.
      if (e.offset != next || e.bytes > std::numeric_limits<std::uint64_t>::max() / 2 - next)
        file_.refuse_damage("its sections do not follow one another");
      next += format::padded(e.bytes);
    }
    if (next > size_) refuse_short();
    if (next < size_) file_.refuse_damage("there is something behind its end");
  }

  [[noreturn]] void refuse_short() const {
    file_.refuse(fmt::format("is a snapshot cut short, at {} bytes; take it again", size_));
  }

  template <class T>
  void read_payload(const format::section_entry& e, std::vector<T>& to) {
    if (e.bytes % sizeof(T) != 0) file_.refuse_damage("a section has a part of an entry");
    to.resize(e.bytes / sizeof(T));
    if (!file_.read_whole(to.data(), e.bytes)) refuse_short();
    std::array<char, 8> zeros{};
    const std::uint64_t behind = format::padded(e.bytes) - e.bytes;
    if (!file_.read_whole(zeros.data(), behind)) refuse_short();
    format::checksum sum;
    sum.add(to.data(), e.bytes);
    if (sum.sum() != e.check || zeros != std::array<char, 8>{})
      file_.refuse_damage(fmt::format("the checksum of its section {} is wrong", e.tag));
  }

  void read_section(const format::section_entry& e) {
    switch (static_cast<section>(e.tag)) {
      case section::blocks:
        return read_payload(e, read_.blocks);
      case section::pages:
        return read_payload(e, read_.pages);
      case section::links:
        return read_payload(e, read_.links);
      default:
        break;
    }
    std::vector<char> payload;
    read_payload(e, payload);
    section_reader in(file_, {payload.data(), payload.size()});
    switch (static_cast<section>(e.tag)) {
      case section::about:
        for (auto* member :
             {&read_.subject, &read_.frames_unknown, &read_.huge_unknown, &read_.links_unknown})
          *member = in.text();
        break;
      case section::facts:
        for (std::uint32_t left = in.number(); left > 0; --left) {
          std::string name = in.text();
          read_.facts.push_back({std::move(name), in.text()});
        }
        break;
      case section::types:
        for (std::uint32_t left = in.number(); left > 0; --left) {
          block_type& t = read_.types.emplace_back();
          t.name = in.text();
          t.written = in.number() != 0;
          t.always_read = in.ranges();
          t.one_read = in.ranges();
        }
        break;
      default:
        if ((e.flags & format::may_be_skipped) == 0)
          file_.refuse(
              fmt::format("has a section {} that this program does not know; use a newer one", e.tag));
        return;
    }
    in.end();
  }

  snapshot_input file_;
  std::uint64_t size_;
  std::vector<format::section_entry> entries_;
  snapshot read_;
};

}  // namespace

snapshot_input::snapshot_input(const std::filesystem::path& file)
    : file_(file), number_(open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (number_ < 0) fail();
}

snapshot_input::~snapshot_input() {
  if (number_ >= 0) close(number_);
}

void snapshot_input::fail() const {
  throw std::system_error(errno, std::generic_category(),
                          fmt::format("cannot read the snapshot '{}'", file_.string()));
}

void snapshot_input::refuse(std::string_view why) const {
  throw std::invalid_argument(fmt::format("'{}' {}", file_.string(), why));
}

void snapshot_input::refuse_damage(std::string_view what) const {
  refuse(fmt::format("is a damaged snapshot: {}; take it again", what));
}

std::uint64_t snapshot_input::size() const {
  struct ::stat status{};
  if (fstat(number_, &status) != 0) fail();
  if (!S_ISREG(status.st_mode)) refuse("is no file; name one that a snapshot was written to");
  return static_cast<std::uint64_t>(status.st_size);
}

bool snapshot_input::read_whole(void* to, std::uint64_t bytes) const {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::read(number_, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail();
    if (got == 0) return false;
    at += got;
    bytes -= static_cast<std::uint64_t>(got);
  }
  return true;
}

void write_snapshot(const snapshot& s, io::output_file& to) {
  const std::string about = about_section(s);
  const std::string facts = facts_section(s);
  const std::string types = types_section(s);
  const std::array<std::pair<section, std::string_view>, 6> sections{{{section::about, about},
                                                                      {section::facts, facts},
                                                                      {section::types, types},
                                                                      {section::blocks, bytes_of(s.blocks)},
                                                                      {section::pages, bytes_of(s.pages)},
                                                                      {section::links, bytes_of(s.links)}}};
  std::array<format::section_entry, sections.size()> entries;
  std::uint64_t offset = sizeof(format::header) + sizeof entries;
  std::ranges::transform(sections, entries.begin(), [&](const auto& part) {
    format::checksum sum;
    sum.add(part.second.data(), part.second.size());
    const format::section_entry e{static_cast<std::uint32_t>(part.first), 0, offset, part.second.size(),
                                  sum.sum()};
    offset += format::padded(e.bytes);
    return e;
  });
  format::header head;
  std::ranges::copy(format::magic, head.magic);
  head.version = format::version;
  head.sections = static_cast<std::uint32_t>(entries.size());
  format::checksum sum;
  sum.add(&head, offsetof(format::header, check));
  sum.add(entries.data(), sizeof entries);
  head.check = sum.sum();

  to.write({reinterpret_cast<const char*>(&head), sizeof head});
  to.write({reinterpret_cast<const char*>(entries.data()), sizeof entries});
  for (const auto& [tag, payload] : sections) {
    to.write(payload);
    to.write(
        std::string_view("\0\0\0\0\0\0\0", 7).substr(0, format::padded(payload.size()) - payload.size()));
  }
  to.commit();
}

void write_snapshot(const snapshot& s, const std::filesystem::path& to) {
  io::output_file file(to);
  write_snapshot(s, file);
}

snapshot read_snapshot(const std::filesystem::path& from) { return snapshot_reader(from).read(); }

std::vector<char> read_section(const std::filesystem::path& from, std::uint32_t tag) {
  return snapshot_reader(from).read_section(tag);
}

}  // namespace espalier::inspect
