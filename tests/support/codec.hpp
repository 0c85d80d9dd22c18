#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "espalier/workload/codec.hpp"
#include "espalier/workload/random.hpp"

// The codecs of the suites (workload/codec.hpp), with the words that name them in a subject's name.

namespace espalier::test {

void report_torn_value(std::uint64_t first, std::uint64_t second, std::uint64_t third);

struct plain_codec : workload::number_codec<> {
  static constexpr std::string_view suffix = "";
};

struct string_codec : workload::string_codec {
  static constexpr std::string_view suffix = "+string_key";
};

/// Values of 24 bytes, larger than a word. Each part can be computed from the first, which shows whether a reader got
/// one value, parts of two, or reclaimed memory.
struct wide_codec : plain_codec {
  static constexpr std::string_view suffix = "+wide_value";
  struct value_type {
    std::uint64_t first, second, third;
  };
  static value_type encode_value(std::uint64_t v) noexcept { return {v, workload::mix64(v), ~v}; }
  static std::uint64_t decode_value(const value_type& v) {
    if (v.second != workload::mix64(v.first) || v.third != ~v.first)
      report_torn_value(v.first, v.second, v.third);
    return v.first;
  }
};

/// Values of wide_codec, and signed keys of 32 bits, largest first, in an order under which different keys are equivalent:
/// the lowest bit does not count, and the suite's keys reach the map with either. A map that compares with == anywhere
/// loses keys here, and so does one that compares with another comparator than its own, because the comparator's state
/// determines that this bit does not count.
struct folded_codec : wide_codec {
  static constexpr std::string_view suffix = "+folded_int32";
  using key_type = std::int32_t;
  struct compare {
    unsigned ignored_bits = 0;
    bool operator()(key_type a, key_type b) const noexcept {
      return (a >> ignored_bits) > (b >> ignored_bits);
    }
  };
  static constexpr std::int64_t first = std::numeric_limits<key_type>::max();
  static compare order() noexcept { return {1}; }
  static constexpr std::uint64_t largest_key = std::numeric_limits<std::uint32_t>::max() >> 1U;
  static key_type encode_key(std::uint64_t k) noexcept {
    thread_local std::uint64_t calls = 0;
    return static_cast<key_type>(first - static_cast<std::int64_t>(k << 1U | (++calls & 1U)));
  }
  static std::uint64_t decode_key(key_type k) noexcept { return static_cast<std::uint64_t>(first - k) >> 1U; }
};

}  // namespace espalier::test
