#include "espalier/workload/key_space.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "espalier/hw/process.hpp"
#include "espalier/io/text.hpp"

namespace espalier::workload {

namespace {

// Keys of files

constexpr std::size_t probe_bytes = 4096;

[[noreturn]] void fail(int error, const std::filesystem::path& file) {
  throw std::system_error(error != 0 ? error : EIO, std::generic_category(),
                          fmt::format("cannot read key file '{}'", file.string()));
}

/// Keys are held twice, in a list and in a set, in addition to the input.
constexpr std::uint64_t bytes_read_per_key = 64;

/// Throws if this many keys would not fit in memory: a device or a pipe may never end.
void check_room(const std::filesystem::path& file, std::size_t bytes_read, std::size_t least_keys,
                const std::optional<std::uint64_t>& available) {
  const std::uint64_t needed = bytes_read + least_keys * bytes_read_per_key;
  if (!available || needed <= *available) return;
  throw std::invalid_argument(fmt::format(
      "key file '{}' has {:.1f} GiB at least; its keys would take {:.1f} GiB and {:.1f} GiB are free",
      file.string(), static_cast<double>(bytes_read) / 0x1p30, static_cast<double>(needed) / 0x1p30,
      static_cast<double>(*available) / 0x1p30));
}

std::string read_all(const std::filesystem::path& file) {
  if (std::filesystem::is_directory(file)) fail(EISDIR, file);  // a stream would open it and read no bytes
  if (std::filesystem::is_character_file(file))
    throw std::invalid_argument(
        fmt::format("key file '{}' is a device, which may have no end; write as many keys as are wanted to a "
                    "file, or pass them through a pipe",
                    file.string()));
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) fail(errno, file);
  const std::optional<std::uint64_t> available = hw::available_memory_bytes();
  // Checked before it is read, if its size is known.
  std::error_code unknown;
  constexpr std::size_t most_bytes_per_key = 21;  // 20 digits and the end of the line
  if (const auto bytes = std::filesystem::file_size(file, unknown); !unknown)
    check_room(file, bytes, bytes / most_bytes_per_key, available);
  std::string content;
  std::vector<char> block(std::size_t{1} << 20);
  while (in) {
    check_room(file, content.size(), content.size() / most_bytes_per_key, available);
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    content.append(block.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad()) fail(errno, file);
  return content;
}

bool looks_like_text(std::string_view content) {
  const auto head = content.substr(0, probe_bytes);
  return std::all_of(head.begin(), head.end(),
                     [](char c) { return (c >= ' ' && c <= '~') || (c >= '\t' && c <= '\r'); });
}

key_file_format format_of(const std::filesystem::path& file, std::string_view content) {
  const bool named_binary = file.extension() == ".u64" || file.extension() == ".bin";
  if (!named_binary && looks_like_text(content)) return key_file_format::text;
  if (content.size() % 8 == 0) return key_file_format::binary;
  throw std::invalid_argument(
      fmt::format("key file '{}' has {} bytes{}; expected a multiple of 8 (little-endian 64-bit keys), or "
                  "text with one unsigned number a line",
                  file.string(), content.size(), named_binary ? "" : " that are not text"));
}

template <class Key>
class distinct_keys {
 public:
  void add(Key key) {
    if (seen_.insert(key).second) {
      keys_.push_back(key);
    } else {
      ++duplicates_;
    }
  }
  std::size_t size() const { return keys_.size(); }
  std::uint64_t duplicates() const { return duplicates_; }
  std::vector<Key> take() { return std::move(keys_); }

 private:
  std::vector<Key> keys_;
  std::uint64_t duplicates_ = 0;
  std::unordered_set<Key> seen_;
};

using distinct_numbers = distinct_keys<std::uint64_t>;

void parse_binary(std::string_view content, distinct_numbers& keys) {
  for (std::size_t at = 0; at < content.size(); at += 8) {
    std::uint64_t key = 0;
    for (std::size_t byte = 8; byte-- > 0;) key = key << 8 | static_cast<unsigned char>(content[at + byte]);
    keys.add(key);
  }
}

/// Removes the first line of `content` and returns it.
std::string_view take_line(std::string_view& content) {
  const auto end = content.find('\n');
  const auto line = content.substr(0, end);
  content.remove_prefix(end == std::string_view::npos ? content.size() : end + 1);
  return line;
}

std::string_view without_comment(std::string_view line) {
  return io::trimmed(line.substr(0, line.find('#')));
}

void parse_numbers(const std::filesystem::path& file, std::string_view content, std::string_view advice,
                   distinct_numbers& keys) {
  for (std::uint64_t number = 1; !content.empty(); ++number) {
    const auto line = without_comment(take_line(content));
    if (line.empty()) continue;
    const auto key = io::parse_whole<std::uint64_t>(line);
    if (!key) {
      throw std::invalid_argument(
          fmt::format("{}:{}: found {}; expected one unsigned 64-bit decimal number{}", file.string(), number,
                      io::quoted(line), advice));
    }
    keys.add(*key);
  }
}

/// The type of a text's first key.
key_type first_type(std::string_view content) {
  std::string_view line;
  while (line.empty() && !content.empty()) line = without_comment(take_line(content));
  return line.empty() || io::parse_whole<std::uint64_t>(line) ? key_type::integer : key_type::string;
}

key_list lines_of(std::string content) {
  const auto strings = std::make_shared<string_list>();
  strings->text = std::move(content);
  distinct_keys<std::string_view> keys;
  for (std::string_view rest = strings->text; !rest.empty();) {
    auto line = take_line(rest);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) keys.add(line);
  }
  key_list list;
  list.duplicates = keys.duplicates();
  strings->keys = keys.take();
  list.strings = strings;
  return list;
}

// Visits files depth first with sorted names, which is the order of the sorted paths. Stops at the limit.
void collect_times(const std::filesystem::path& directory, std::size_t limit, distinct_numbers& times) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    entries.push_back(it->path());
  }
  std::sort(entries.begin(), entries.end());
  for (const auto& entry : entries) {
    if (times.size() >= limit) return;
    struct ::stat status{};
    if (::lstat(entry.c_str(), &status) != 0) continue;
    if (S_ISDIR(status.st_mode)) {
      collect_times(entry, limit, times);
    } else if (S_ISREG(status.st_mode)) {
      times.add(static_cast<std::uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000U +
                static_cast<std::uint64_t>(status.st_mtim.tv_nsec));
    }
  }
}

}  // namespace

std::string_view to_string(key_order order) noexcept {
  switch (order) {
    case key_order::sequential:
      return "sequential";
    case key_order::scrambled:
      return "scrambled";
    case key_order::explicit_list:
      break;
  }
  return "explicit";
}

key_order parse_key_order(std::string_view text) {
  for (const auto order : {key_order::sequential, key_order::scrambled}) {
    if (text == to_string(order)) return order;
  }
  throw std::invalid_argument(fmt::format("unknown key order '{}'; expected sequential or scrambled", text));
}

std::string_view to_string(key_type type) noexcept { return type == key_type::string ? "string" : "integer"; }

key_type parse_key_type(std::string_view text) {
  for (const auto type : {key_type::integer, key_type::string}) {
    if (text == to_string(type)) return type;
  }
  throw std::invalid_argument(fmt::format("unknown key type '{}'; expected integer or string", text));
}

key_space::key_space(key_order order, std::uint64_t size, std::uint64_t seed)
    : order_(order), size_(size), offset_(order == key_order::scrambled ? measure::mix64(seed) : 0) {
  if (size == 0) throw std::invalid_argument("a key space of 0 keys; the number of keys must be at least 1");
  if (order == key_order::explicit_list) {
    throw std::invalid_argument("an explicit key order without keys; construct the key space from its keys");
  }
}

key_space::key_space(std::vector<std::uint64_t> keys)
    : order_(key_order::explicit_list), size_(keys.size()), keys_(std::move(keys)) {
  if (keys_.empty()) throw std::invalid_argument("an empty list of keys; at least one key is needed");
  auto sorted = keys_;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twin = std::adjacent_find(sorted.begin(), sorted.end()); twin != sorted.end()) {
    throw std::invalid_argument(
        fmt::format("key {} occurs more than once in the list of keys; each key must occur once", *twin));
  }
}

key_space::key_space(std::shared_ptr<const string_list> strings)
    : order_(key_order::explicit_list), size_(strings->keys.size()), strings_(std::move(strings)) {
  if (size_ == 0) throw std::invalid_argument("an empty list of keys; at least one key is needed");
}

key_list load_key_file(const std::filesystem::path& file, std::optional<key_type> type) {
  auto content = read_all(file);
  const auto advice = type ? "" : ", as is the first key; --key-type string takes lines as they are";
  const auto format = type == key_type::string ? key_file_format::text : format_of(file, content);
  key_list list;
  if (format == key_file_format::text && type.value_or(first_type(content)) == key_type::string) {
    list = lines_of(std::move(content));
  } else {
    distinct_numbers keys;
    if (format == key_file_format::binary) {
      parse_binary(content, keys);
    } else {
      parse_numbers(file, content, advice, keys);
    }
    list.duplicates = keys.duplicates();
    list.keys = keys.take();
  }
  if (list.keys.empty() && (!list.strings || list.strings->keys.empty())) {
    throw std::invalid_argument(fmt::format(
        "key file '{}' holds no key; expected one key a line, or 64-bit binary keys", file.string()));
  }
  list.format = format;
  return list;
}

std::vector<std::uint64_t> file_times_under(const std::filesystem::path& root, std::size_t limit) {
  std::error_code error;
  if (!std::filesystem::is_directory(root, error)) {
    throw std::invalid_argument(fmt::format(
        "'{}' is not a directory; expected one whose files give their times as keys", root.string()));
  }
  distinct_numbers times;
  collect_times(root, limit, times);
  return times.take();
}

}  // namespace espalier::workload
