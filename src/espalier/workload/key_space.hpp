#pragma once

// Maps the indices that a distribution draws to the keys that a map receives, and orders the prefill. The keys of an
// explicit list are read here too.
//
// A key is a number of 64 bits. A string is the address of its view, which listed_string_codec reads.

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/hw/cache_line.hpp"
#include "espalier/measure/random.hpp"

namespace espalier::workload {

enum class key_order {
  sequential,     // the key is the index
  scrambled,      // a bijection of the 64-bit integers: keys lie anywhere in the whole domain
  explicit_list,  // the keys of a file
};

std::string_view to_string(key_order order) noexcept;

/// Accepts "sequential" and "scrambled"; throws std::invalid_argument otherwise.
key_order parse_key_order(std::string_view text);

enum class key_type { integer, string };

std::string_view to_string(key_type type) noexcept;

/// Accepts "integer" and "string"; throws std::invalid_argument otherwise.
key_type parse_key_type(std::string_view text);

/// Distinct strings, and the text that they are parts of.
struct string_list {
  std::string text;
  std::vector<std::string_view> keys;
};

/// Injective map from indices to 64-bit keys. Immutable, shared by threads; key() neither allocates nor
/// throws.
class key_space {
 public:
  /// Throws std::invalid_argument if size is 0 or order is explicit_list.
  key_space(key_order order, std::uint64_t size, std::uint64_t seed = 0);

  /// The keys in the given order. Throws std::invalid_argument if there are none, or if one occurs twice.
  explicit key_space(std::vector<std::uint64_t> keys);

  /// The strings in the given order. Throws std::invalid_argument if there are none.
  explicit key_space(std::shared_ptr<const string_list> strings);

  [[nodiscard]] key_order order() const noexcept { return order_; }
  [[nodiscard]] key_type type() const noexcept { return strings_ ? key_type::string : key_type::integer; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  /// Computed orders continue past size(), for workloads that insert new keys; an explicit list does not.
  [[nodiscard]] std::uint64_t key(std::uint64_t index) const noexcept {
    switch (order_) {
      case key_order::scrambled:
        return measure::mix64(index + offset_);
      case key_order::explicit_list:
        assert(index < size_);
        return strings_ ? requested(strings_->keys[index]) : keys_[index];
      case key_order::sequential:
        break;
    }
    return index;
  }

 private:
  /// Requests its bytes: a program that looks a string up has just made or read it.
  static std::uint64_t requested(const std::string_view& key) noexcept {
    hw::request_lines(key.data(), key.size());
    return reinterpret_cast<std::uintptr_t>(&key);
  }

  key_order order_;
  std::uint64_t size_;
  std::uint64_t offset_ = 0;
  std::vector<std::uint64_t> keys_;
  std::shared_ptr<const string_list> strings_;
};

/// Half-open range of indices.
struct index_range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  friend bool operator==(const index_range&, const index_range&) = default;
};

/// The part of [0, total) that belongs to one of `threads` threads. The parts are disjoint, cover the whole and differ
/// in length by at most one. thread must be below threads.
constexpr index_range share_of(std::uint64_t total, unsigned thread, unsigned threads) noexcept {
  const auto edge = [=](std::uint64_t part) {
    return static_cast<std::uint64_t>(measure::detail::uint128{total} * part / threads);
  };
  return {edge(thread), edge(std::uint64_t{thread} + 1)};
}

// Real keys: from a file, or from the modification times of the files of a directory tree.

enum class key_file_format {
  text,    // one key per line
  binary,  // little-endian 64-bit words, nothing else
};

struct key_list {
  std::vector<std::uint64_t> keys;             // distinct, in the order of their first occurrence
  std::shared_ptr<const string_list> strings;  // the same of strings; then there are no other keys
  std::uint64_t duplicates = 0;                // repeated keys, dropped
  key_file_format format = key_file_format::text;
};

/// Keys that are strings are the lines of the file as they are, without their ends and without empty ones.
///
/// Integers are unsigned numbers of 64 bits. A name that ends in .u64 or .bin means binary. Otherwise a file is text if
/// its first 4 KiB are printable ASCII and white space, and binary if its size is a multiple of 8. In text there is a
/// decimal number on each line; '#' begins a comment, and lines may be blank.
///
/// Without a type the keys of a text are integers if its first key is one, otherwise strings.
///
/// Throws std::invalid_argument if the file is neither text nor binary, holds no key, or has a line that is not a key
/// ("file:line: found; expected"); std::system_error if it cannot be read. Linear in the size of the file.
key_list load_key_file(const std::filesystem::path& file, std::optional<key_type> type = key_type::integer);

/// Modification times, in nanoseconds since 1970, of the regular files below `root`: at most `limit` distinct ones, in
/// the order of the sorted paths. Links are not followed; unreadable entries are skipped; times before 1970 wrap
/// around. Throws std::invalid_argument if root is not a directory.
std::vector<std::uint64_t> file_times_under(const std::filesystem::path& root, std::size_t limit);

}  // namespace espalier::workload
