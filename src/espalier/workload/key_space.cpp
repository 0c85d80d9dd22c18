#include "espalier/workload/key_space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

namespace espalier::workload {

namespace {

constexpr std::uint64_t mask_of(unsigned bits) noexcept { return (std::uint64_t{1} << bits) - 1; }

// Both halves have at most 32 bits, so that no shift reaches the width of the type.
unsigned bits_of(std::uint64_t size) noexcept { return static_cast<unsigned>(std::bit_width(size - 1)); }

}  // namespace

permutation::permutation(std::uint64_t size, std::uint64_t seed)
    : size_(size),
      low_bits_(bits_of(size) / 2),
      low_mask_(mask_of(low_bits_)),
      high_mask_(mask_of(bits_of(size) - low_bits_)) {
  if (size == 0) throw std::invalid_argument("a permutation of 0 elements; the size must be at least 1");
  random_generator random(seed, size);
  for (auto& key : keys_) key = random.next();
}

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

key_space::key_space(key_order order, std::uint64_t size, std::uint64_t seed)
    : order_(order), size_(size), offset_(order == key_order::scrambled ? mix64(seed) : 0) {
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

}  // namespace espalier::workload
