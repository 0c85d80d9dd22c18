#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "espalier/measure/random.hpp"

namespace espalier::app::caches {

/// The values of one thread, each of which tells its key and its version, and what this thread may find in the cache. A value is
/// words: the key's number, the version, and what follows from both.
class own_values {
 public:
  own_values(unsigned thread, std::uint64_t items, std::size_t value_bytes)
      : writer_(thread + 1), words_(value_bytes / sizeof(std::uint64_t)), newest_(items) {}

  /// The value with which an item begins, whichever thread stores it.
  static void make_first(std::uint64_t number, std::byte* value, std::size_t value_bytes) {
    write(number, 0, value, value_bytes / sizeof(std::uint64_t));
  }
  /// The value of this thread's next set.
  void make_next(std::uint64_t number, std::byte* value) {
    write(number, version_of(writer_, ++newest_[number]), value, words_);
  }

  enum class finding : std::uint8_t {
    right,
    overwritten,  ///< this thread has stored a newer value
    wrong         ///< another key's, torn, or from nowhere
  };
  [[nodiscard]] finding judge(std::uint64_t number, const std::byte* value) const {
    const std::uint64_t version = word(value, 1);
    if (word(value, 0) != number) return finding::wrong;
    for (std::size_t i = 2; i < words_; ++i) {
      if (word(value, i) != content(number, version, i)) return finding::wrong;
    }
    const std::uint32_t mine = newest_[number];
    if (version == 0) return mine == 0 ? finding::right : finding::overwritten;
    if (version >> turn_bits != writer_) return finding::right;
    const auto turn = static_cast<std::uint32_t>(version);
    return turn == mine ? finding::right : turn < mine && turn != 0 ? finding::overwritten : finding::wrong;
  }

  /// Whether a cache at rest may have this value of the key: the last one of a thread.
  [[nodiscard]] static bool is_last(std::uint64_t number, const std::byte* value,
                                    const std::vector<own_values>& of_all) {
    const std::uint64_t writer = word(value, 1) >> turn_bits;
    if (writer > of_all.size()) return false;
    if (writer != 0) return of_all[writer - 1].judge(number, value) == finding::right;
    return of_all.front().judge(number, value) == finding::right &&
           std::ranges::all_of(of_all, [&](const own_values& one) { return one.newest_[number] == 0; });
  }

 private:
  static constexpr unsigned turn_bits = 32;

  static std::uint64_t version_of(std::uint64_t writer, std::uint32_t turn) {
    return writer << turn_bits | turn;
  }
  static std::uint64_t content(std::uint64_t number, std::uint64_t version, std::size_t at) {
    return measure::mix64(number * 31 + version) + at;
  }
  static std::uint64_t word(const std::byte* value, std::size_t at) {
    std::uint64_t w = 0;
    std::memcpy(&w, value + at * sizeof w, sizeof w);
    return w;
  }
  static void write(std::uint64_t number, std::uint64_t version, std::byte* value, std::size_t words) {
    for (std::size_t i = 0; i < words; ++i) {
      const std::uint64_t w = i == 0 ? number : i == 1 ? version : content(number, version, i);
      std::memcpy(value + i * sizeof w, &w, sizeof w);
    }
  }

  std::uint64_t writer_;
  std::size_t words_;
  std::vector<std::uint32_t> newest_;  ///< of each key, how many sets of it this thread has begun
};

}  // namespace espalier::app::caches
