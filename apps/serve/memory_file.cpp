#include "apps/serve/memory_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/serve/options.hpp"

// The file: a header, and blocks of records, each with the hash of its bytes. The header says that the file is whole when all is
// written, and no longer when its entries are read.

namespace espalier::app::serving {
namespace {

struct header {
  std::array<char, 16> magic{};
  std::array<char, 32> version{};  // of Espalier
  std::uint32_t byte_order = 0x0102'0304U;
  std::uint32_t second = 0;  // of the server's clock
  std::int64_t origin = 0;   // the calendar's time of second 0
  std::uint32_t unused = 0;
  std::uint32_t flush_due = 0;  // the second of a flush to come; 0: there is none
};
constexpr std::string_view whole = "espalier cache 1";
constexpr std::string_view not_whole = "espalier cache 0";
static_assert(whole.size() == sizeof(header::magic) && not_whole.size() == sizeof(header::magic));

bool is(const header& h, std::string_view magic) noexcept {
  return std::string_view(h.magic.data(), h.magic.size()) == magic;
}

struct block {
  std::uint64_t bytes = 0;  // 0: the last one
  std::uint64_t hash = 0;
};

struct record {
  std::uint64_t order = 0;
  std::uint64_t version = 0;
  std::uint32_t value_bytes = 0;
  std::uint32_t flags = 0;
  std::uint32_t expires = 0;
  std::uint32_t accessed = 0;
  std::uint8_t key_bytes = 0;
  std::uint8_t frequency = 0;
  std::uint8_t marks = 0;
  std::array<std::uint8_t, 5> unused{};
};
static_assert(std::is_trivially_copyable_v<record> && sizeof(record) == 40);
enum record_mark : std::uint8_t { fetched = 1, stale = 2, claimed = 4, proven = 8 };

/// A block ends with the record that makes it so long.
constexpr std::size_t block_bytes = std::size_t{1} << 20U;
constexpr std::size_t longest_block = block_bytes + sizeof(record) + largest_item;

std::uint64_t hash_of(const block& b, const char* from) noexcept {
  return XXH3_64bits_withSeed(from, b.bytes, b.bytes);
}

/// Writes or reads all of it. False: errno says why; it is 0 at the end of the file.
template <class Move>
bool move_all(std::size_t bytes, Move move) {
  for (std::size_t at = 0; at < bytes;) {
    errno = 0;
    const ssize_t moved = move(at, bytes - at);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    at += static_cast<std::size_t>(moved);
  }
  return true;
}
bool write_all(int to, const void* from, std::size_t bytes) {
  return move_all(bytes, [&](std::size_t at, std::size_t left) {
    return write(to, static_cast<const char*>(from) + at, left);
  });
}
bool read_all(int from, void* to, std::size_t bytes) {
  return move_all(
      bytes, [&](std::size_t at, std::size_t left) { return read(from, static_cast<char*>(to) + at, left); });
}

/// After read_all().
std::string why_not_read(const char* at_the_end) { return errno == 0 ? at_the_end : std::strerror(errno); }

header header_for(const service& of, std::string_view magic) {
  header h;
  std::copy_n(magic.data(), h.magic.size(), h.magic.data());
  const std::string& version = of.chosen().version;
  std::copy_n(version.data(), std::min(version.size(), h.version.size()), h.version.data());
  return h;
}

/// Collects records, and writes them block by block.
class block_writer {
 public:
  explicit block_writer(int to) : to_(to) { bytes_.reserve(2 * block_bytes); }

  [[nodiscard]] bool add(const kept_entry& kept) {
    const cache_entry& e = kept.seen;
    record r;
    r.order = kept.order;
    r.version = e.version;
    r.value_bytes = static_cast<std::uint32_t>(e.value.size());
    r.flags = e.flags;
    r.expires = e.expires;
    r.accessed = e.accessed;
    r.key_bytes = static_cast<std::uint8_t>(kept.key.size());
    r.frequency = static_cast<std::uint8_t>(kept.frequency);
    r.marks = static_cast<std::uint8_t>((e.fetched ? fetched : 0) | (e.stale ? stale : 0) |
                                        (e.claimed ? claimed : 0) | (kept.is_proven ? proven : 0));
    append(&r, sizeof(r));
    append(kept.key.data(), kept.key.size());
    append(e.value.data(), e.value.size());
    return bytes_.size() < block_bytes || flush();
  }
  [[nodiscard]] bool flush() {
    block b{bytes_.size(), 0};
    b.hash = hash_of(b, bytes_.data());
    const bool done = write_all(to_, &b, sizeof(b)) && write_all(to_, bytes_.data(), bytes_.size());
    bytes_.clear();
    return done;
  }
  [[nodiscard]] bool finish() { return (bytes_.empty() || flush()) && flush(); }

 private:
  void append(const void* from, std::size_t bytes) {
    const auto* const at = static_cast<const char*>(from);
    if (bytes != 0) bytes_.insert(bytes_.end(), at, at + bytes);
  }

  int to_;
  std::vector<char> bytes_;
};

/// The records of a block, into a cache. False: it is none.
bool put_back(std::string_view bytes, byte_cache& into, std::uint32_t second) {
  while (!bytes.empty()) {
    record r;
    if (bytes.size() < sizeof(r)) return false;
    std::memcpy(&r, bytes.data(), sizeof(r));
    bytes.remove_prefix(sizeof(r));
    if (bytes.size() < std::size_t{r.key_bytes} + r.value_bytes) return false;
    kept_entry kept;
    kept.key = bytes.substr(0, r.key_bytes);
    kept.seen.value = bytes.substr(r.key_bytes, r.value_bytes);
    bytes.remove_prefix(std::size_t{r.key_bytes} + r.value_bytes);
    kept.seen.version = r.version;
    kept.seen.flags = r.flags;
    kept.seen.expires = r.expires;
    kept.seen.accessed = r.accessed;
    kept.seen.fetched = (r.marks & fetched) != 0;
    kept.seen.stale = (r.marks & stale) != 0;
    kept.seen.claimed = (r.marks & claimed) != 0;
    kept.order = r.order;
    kept.frequency = r.frequency;
    kept.is_proven = (r.marks & proven) != 0;
    // An entry that has no room is one that was evicted.
    if (r.expires > second) static_cast<void>(into.put_back(kept));
  }
  return true;
}

}  // namespace

memory_file::memory_file(const std::string& path)
    : descriptor_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR)) {
  if (descriptor_ < 0) throw usage_error(fmt::format("-e {}: {}", path, std::strerror(errno)));
  const std::string why = [&] {
    struct stat found{};
    if (fstat(descriptor_, &found) != 0 || !S_ISREG(found.st_mode)) return "it is no file";
    if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) return "another server has it";
    header h;
    const ssize_t read = pread(descriptor_, &h, sizeof(h), 0);
    const bool is_ours = read == 0 || (read == sizeof(h) && (is(h, whole) || is(h, not_whole)));
    return is_ours ? "" : "it is a file of something else, and would be lost; name another one";
  }();
  if (why.empty()) return;
  close(descriptor_);
  throw usage_error(fmt::format("-e {}: {}", path, why));
}

memory_file::~memory_file() { close(descriptor_); }

std::string memory_file::load(service& into) {
  const header expected = header_for(into, whole);
  header h;
  if (!read_all(descriptor_, &h, sizeof(h))) return why_not_read("");
  // Not this file's any more, whatever comes.
  const header read_once = header_for(into, not_whole);
  if (pwrite(descriptor_, &read_once, sizeof(read_once), 0) != static_cast<ssize_t>(sizeof(read_once)))
    return std::strerror(errno);
  const std::string why = [&]() -> std::string {
    if (!is(h, whole)) return "it was not closed, or has been read";
    if (h.byte_order != expected.byte_order) return "it is of another machine";
    if (h.version != expected.version) return "it is of another version";
    if (!into.clock().go_on(h.origin, h.second)) return "its clock is not this one's";
    std::vector<char> bytes;
    std::uint64_t read = sizeof(h);
    while (true) {
      block b;
      if (!read_all(descriptor_, &b, sizeof(b))) return why_not_read("it is not whole");
      if (b.bytes > longest_block) return "it was changed";
      if (bytes.size() < b.bytes) bytes.resize(b.bytes);
      if (!read_all(descriptor_, bytes.data(), b.bytes)) return why_not_read("it is not whole");
      if (hash_of(b, bytes.data()) != b.hash) return "it was changed";
      if (b.bytes == 0) {
        into.flush_at(h.flush_due);
        return {};
      }
      if (!put_back({bytes.data(), b.bytes}, into.cache(), into.clock().now())) return "it was changed";
      read += sizeof(b) + b.bytes;
      // In a tmpfs, and elsewhere, the memory of what was read is free for the cache. The header stays: if this start does not
      // come to its end, the next one sees whose file it is.
      static_cast<void>(fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, sizeof(h),
                                  static_cast<off_t>(read - sizeof(h))));
    }
  }();
  if (!why.empty()) into.cache().flush();
  if (ftruncate(descriptor_, 0) != 0 && why.empty()) return {};
  return why;
}

std::string memory_file::save(service& from) {
  header h = header_for(from, not_whole);
  if (ftruncate(descriptor_, 0) != 0 || lseek(descriptor_, 0, SEEK_SET) != 0 ||
      !write_all(descriptor_, &h, sizeof(h)))
    return std::strerror(errno);
  from.tick();
  std::optional<int> failed;
  block_writer writer(descriptor_);
  from.cache().drain([&](const kept_entry& kept) {
    if (!writer.add(kept)) failed = errno;
    return !failed;
  });
  if (!failed && !writer.finish()) failed = errno;
  if (!failed) {
    h = header_for(from, whole);
    h.second = from.clock().now();
    h.origin = from.clock().origin();
    h.flush_due = from.flush_due();
    if (pwrite(descriptor_, &h, sizeof(h), 0) != static_cast<ssize_t>(sizeof(h))) failed = errno;
  }
  if (!failed) return {};
  static_cast<void>(ftruncate(descriptor_, 0) == 0);
  return std::strerror(*failed);
}

}  // namespace espalier::app::serving
