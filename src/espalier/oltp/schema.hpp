#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// What rows are made of. A row is a trivially copyable struct. Its character columns are text<N>. A schema names the
// columns, for messages and tables; the database itself does not need it.

namespace espalier::oltp {

/// Up to N characters; the rest is zero.
template <std::size_t N>
class text {
 public:
  constexpr text() noexcept = default;
  /// Throws std::length_error for more than N characters, and std::invalid_argument for a zero among them.
  template <std::convertible_to<std::string_view> Text>
  constexpr text(const Text& from) {  // NOLINT(google-explicit-constructor): as a string
    const std::string_view all = from;
    if (all.size() > N)
      throw std::length_error("oltp: '" + std::string(all) + "' has more than " + std::to_string(N) +
                              " characters");
    if (all.find('\0') != std::string_view::npos)
      throw std::invalid_argument("oltp: text ends at a zero character; keep bytes in an array");
    std::copy(all.begin(), all.end(), characters_.begin());
  }

  [[nodiscard]] constexpr std::string_view view() const noexcept {
    const auto end = std::find(characters_.begin(), characters_.end(), '\0');
    return {characters_.data(), static_cast<std::size_t>(end - characters_.begin())};
  }
  friend constexpr bool operator==(const text&, const text&) = default;
  friend constexpr auto operator<=>(const text& a, const text& b) noexcept { return a.view() <=> b.view(); }

 private:
  std::array<char, N> characters_{};
};

/// A part of a key: a number and how many bits it has.
struct key_part {
  std::uint64_t number;
  unsigned bits;
};

/// One key of 64 bits of several numbers, in their order: the first one counts most. Throws std::out_of_range for a number
/// that does not fit its bits, and for more than 64 bits.
[[nodiscard]] constexpr std::uint64_t packed(std::initializer_list<key_part> parts) {
  std::uint64_t key = 0;
  unsigned bits = 0;
  for (const key_part& p : parts) {
    bits += p.bits;
    if (p.bits == 0 || bits > 64) throw std::out_of_range("oltp: a key has at most 64 bits");
    if (p.bits < 64 && p.number >> p.bits != 0)
      throw std::out_of_range("oltp: " + std::to_string(p.number) + " does not fit " +
                              std::to_string(p.bits) + " bits of a key");
    key = p.bits == 64 ? p.number : key << p.bits | p.number;
  }
  return key;
}

/// A key for text, for an index that is asked for equality: different texts may have the same, so a query compares the column.
[[nodiscard]] inline std::uint64_t hash_key(std::string_view text) noexcept {
  return std::hash<std::string_view>{}(text);
}

/// A key for text in its order, by the first eight characters.
[[nodiscard]] constexpr std::uint64_t prefix_key(std::string_view text) noexcept {
  std::uint64_t key = 0;
  for (std::size_t i = 0; i < 8; ++i)
    key = key << 8 | (i < text.size() ? static_cast<unsigned char>(text[i]) : 0U);
  return key;
}

enum class column_kind : std::uint8_t { whole, natural, real, characters };

struct column {
  std::string name;
  column_kind kind;
  std::size_t offset;
  std::size_t bytes;
};

/// The columns of a row type:
///
///     oltp::schema<account>().with("id", &account::id).with("owner", &account::owner)
template <class Row>
class schema {
  static_assert(std::is_trivially_copyable_v<Row>,
                "a row is copied as bytes: it must be trivially copyable; use oltp::text<N> for characters");

 public:
  template <class T>
  schema&& with(std::string name, T Row::* member) && {
    static_assert(std::is_default_constructible_v<Row>, "a schema makes a row, to see where its columns are");
    static const Row sample{};
    const auto* const begin = reinterpret_cast<const char*>(&sample);
    const auto* const at = reinterpret_cast<const char*>(&(sample.*member));
    columns_.push_back({std::move(name), kind_of<T>(), static_cast<std::size_t>(at - begin), sizeof(T)});
    return std::move(*this);
  }
  [[nodiscard]] const std::vector<column>& columns() const noexcept { return columns_; }

 private:
  template <class T>
  static constexpr column_kind kind_of() {
    if constexpr (std::is_floating_point_v<T>) {
      static_assert(sizeof(T) <= 8, "a column is a float or a double, and no long double");
      return column_kind::real;
    } else if constexpr (std::is_integral_v<T>) {
      static_assert(sizeof(T) <= 8, "a column is a number of at most 64 bits");
      return std::is_signed_v<T> ? column_kind::whole : column_kind::natural;
    } else {
      static_assert(requires(const T& t) { t.view(); }, "a column is a number or an oltp::text<N>");
      return column_kind::characters;
    }
  }
  std::vector<column> columns_;
};

/// The columns of a row as text: "id 7, owner 'Ann'".
[[nodiscard]] std::string to_string(const std::vector<column>& columns, const std::byte* row);

}  // namespace espalier::oltp
