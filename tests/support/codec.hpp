#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>

#include "espalier/catalog/codec.hpp"
#include "espalier/measure/random.hpp"

// The codecs of the suites (catalog/codec.hpp), with the words that name them in a subject's name.

namespace espalier::test {

void report_torn(std::uint64_t first, std::uint64_t second, std::uint64_t third);

struct plain_codec : catalog::number_codec<> {
  static constexpr std::string_view suffix = "";
};

inline constexpr std::string_view folded_suffix = "+folded_int32";

struct string_codec : catalog::string_codec {
  static constexpr std::string_view suffix = "+string_key";
};

/// Values of 24 bytes, larger than a word. Each part can be computed from the first, which shows whether a reader got
/// one value, parts of two, or reclaimed memory.
struct wide_codec : plain_codec {
  static constexpr std::string_view suffix = "+wide_value";
  struct value_type {
    std::uint64_t first, second, third;
  };
  static value_type encode_value(std::uint64_t v) noexcept { return {v, measure::mix64(v), ~v}; }
  static std::uint64_t decode_value(const value_type& v) {
    if (v.second != measure::mix64(v.first) || v.third != ~v.first) report_torn(v.first, v.second, v.third);
    return v.first;
  }
};

/// Keys that are such values. The comparator sees whether it is called with parts of two.
struct large_key_codec : wide_codec {
  static constexpr std::string_view suffix = "+large_key";
  using key_type = value_type;
  struct compare {
    bool operator()(const key_type& a, const key_type& b) const { return decode_key(a) < decode_key(b); }
  };
  static compare order() noexcept { return {}; }
  static key_type encode_key(std::uint64_t k) noexcept { return encode_value(k); }
  static std::uint64_t decode_key(const key_type& k) { return decode_value(k); }
};

/// Values that own memory: their copies allocate, so they may fail, and the memory of one that is not destroyed is lost.
/// They have parts as those of wide_codec, and no assignment.
struct owned_codec : plain_codec {
  static constexpr std::string_view suffix = "+owned_value";
  class value_type {
   public:
    explicit value_type(std::uint64_t v)
        : parts_(std::make_unique<wide_codec::value_type>(wide_codec::encode_value(v))) {}
    value_type(const value_type& other) : value_type(other.number()) {}
    value_type(value_type&&) noexcept = default;
    [[nodiscard]] std::uint64_t number() const { return wide_codec::decode_value(*parts_); }

   private:
    std::unique_ptr<const wide_codec::value_type> parts_;
  };
  static value_type encode_value(std::uint64_t v) { return value_type(v); }
  static std::uint64_t decode_value(const value_type& v) { return v.number(); }
};

/// The values of another codec, and signed keys of 32 bits, largest first, in an order under which different keys are
/// equivalent: the lowest bit does not count, and the suite's keys reach the map with either. A map that compares with ==
/// anywhere loses keys here, and so does one that compares with another comparator than its own, because the comparator's
/// state determines that this bit does not count.
template <class Values>
struct folded : Values {
  static constexpr std::string_view suffix = folded_suffix;
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
