#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>

// Keys as 64-bit numbers in the same order, so that nodes of one kind serve them all: integers, floating-point numbers,
// enumerations and pointers, in increasing or decreasing order.

namespace espalier::btree {

namespace detail {
template <class Key, class Order>
inline constexpr bool increasing =
    std::is_same_v<Order, std::less<Key>> || std::is_same_v<Order, std::less<>>;
template <class Key, class Order>
inline constexpr bool decreasing =
    std::is_same_v<Order, std::greater<Key>> || std::is_same_v<Order, std::greater<>>;

template <std::size_t Bytes>
struct unsigned_of;
template <>
struct unsigned_of<1> {
  using type = std::uint8_t;
};
template <>
struct unsigned_of<2> {
  using type = std::uint16_t;
};
template <>
struct unsigned_of<4> {
  using type = std::uint32_t;
};
template <>
struct unsigned_of<8> {
  using type = std::uint64_t;
};
}  // namespace detail

/// Whether keys have such images.
template <class Key, class Order>
inline constexpr bool has_image = sizeof(Key) <= sizeof(std::uint64_t) &&
                                  (std::is_integral_v<Key> || std::is_enum_v<Key> || std::is_pointer_v<Key> ||
                                   (std::is_floating_point_v<Key> && std::numeric_limits<Key>::is_iec559)) &&
                                  (detail::increasing<Key, Order> || detail::decreasing<Key, Order>);

/// The image of a key, and the key of an image. Both zeros of a floating-point type are one key, the positive one. NaN is
/// none: it has no place in the order.
template <class Key, class Order>
  requires has_image<Key, Order>
struct key_image {
  using type = std::uint64_t;
  using order = std::less<std::uint64_t>;

  [[nodiscard]] static type of(const Key key) noexcept {
    bits b = 0;
    if constexpr (std::is_floating_point_v<Key>) {
      b = std::bit_cast<bits>(key == 0 ? Key{0} : key);
      b = (b & sign) != 0 ? static_cast<bits>(~b) : static_cast<bits>(b | sign);
    } else {
      b = std::bit_cast<bits>(key);
      if constexpr (is_signed) b ^= sign;
    }
    return detail::decreasing<Key, Order> ? ~type{b} : type{b};
  }
  [[nodiscard]] static Key key(const type image) noexcept {
    auto b = static_cast<bits>(detail::decreasing<Key, Order> ? ~image : image);
    if constexpr (std::is_floating_point_v<Key>)
      b = (b & sign) != 0 ? static_cast<bits>(b & ~sign) : static_cast<bits>(~b);
    else if constexpr (is_signed)
      b ^= sign;
    return std::bit_cast<Key>(b);
  }

 private:
  using bits = typename detail::unsigned_of<sizeof(Key)>::type;
  static constexpr bits sign = bits{1} << (8 * sizeof(Key) - 1);
  static constexpr bool is_signed = [] {
    if constexpr (std::is_enum_v<Key>)
      return std::is_signed_v<std::underlying_type_t<Key>>;
    else
      return std::is_signed_v<Key>;
  }();
};

}  // namespace espalier::btree
