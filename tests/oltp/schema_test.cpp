// Rows as text, text of a fixed size, and keys.

#include "espalier/oltp/schema.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

#include "espalier/oltp/database.hpp"
#include "support/refusal.hpp"

namespace espalier::oltp {
namespace {

using testing::StartsWith;

TEST(schema, shows_rows) {
  struct wide {
    std::uint64_t id = 7;
    std::int32_t level = -3;
    std::uint8_t small = 200;
    std::int8_t less = -2;
    std::uint16_t port = 65535;
    text<8> name = "Ann";
    text<4> full = "abcd";
    double real = 1.5;
    float half = 0.5F;
    bool is_open = true;
  };
  database db;
  auto& rows = db.create_table<wide>(
      "rows", [](const wide& w) { return w.id; },
      schema<wide>()
          .with("id", &wide::id)
          .with("level", &wide::level)
          .with("small", &wide::small)
          .with("less", &wide::less)
          .with("port", &wide::port)
          .with("name", &wide::name)
          .with("full", &wide::full)
          .with("real", &wide::real)
          .with("half", &wide::half)
          .with("is open", &wide::is_open));
  EXPECT_EQ(rows.to_string({}),
            "id 7, level -3, small 200, less -2, port 65535, name 'Ann', full 'abcd', real 1.500000, half "
            "0.500000, "
            "is open 1");
  std::string named = "the number of the row, which";
  auto& strings = db.create_table<wide>(
      "strings", [](const wide& w) { return w.id; }, schema<wide>().with(named, &wide::id));
  named.assign(named.size(), 'x');
  EXPECT_EQ(strings.to_string({}), "the number of the row, which 7");
  struct bare {
    std::uint64_t id;
  };
  EXPECT_EQ(db.create_table<bare>("bare", [](const bare& b) { return b.id; }).to_string({1}), "");
}

TEST(schema, has_text_of_a_fixed_size) {
  const text<4> name = "abcd";
  EXPECT_EQ(name.view(), "abcd");
  EXPECT_EQ(text<4>().view(), "");
  EXPECT_LT(text<4>("ab"), text<4>("abc"));
  EXPECT_EQ(text<4>("ab"), text<4>(std::string_view("ab")));
  EXPECT_EQ(test::refusal<std::length_error>([] { static_cast<void>(text<4>("abcde")); }),
            "oltp: 'abcde' has more than 4 characters");
  const std::string_view bytes("a\0b", 3);
  EXPECT_THAT(test::refusal<std::invalid_argument>([&] { static_cast<void>(text<4>(bytes)); }),
              StartsWith("oltp: text ends at a zero character"));
}

TEST(schema, makes_keys) {
  static_assert(packed({{1, 8}, {2, 16}}) == (1U << 16 | 2U));
  EXPECT_EQ(packed({{transaction::last_key, 64}}), transaction::last_key);
  EXPECT_EQ(packed({{3, 2}, {(std::uint64_t{1} << 62) - 1, 62}}), transaction::last_key);
  EXPECT_LT(packed({{1, 32}, {transaction::last_key >> 32, 32}}), packed({{2, 32}, {0, 32}}));
  const auto refused = [](std::initializer_list<key_part> parts) {
    return test::refusal<std::out_of_range>([&] { static_cast<void>(packed(parts)); });
  };
  EXPECT_EQ(refused({{4, 2}}), "oltp: 4 does not fit 2 bits of a key");
  EXPECT_EQ(refused({{1, 60}, {1, 5}}), "oltp: a key has at most 64 bits");
  EXPECT_THAT(refused({{0, 0}}), StartsWith("oltp: a "));
  EXPECT_EQ(hash_key("Ann"), hash_key(text<9>("Ann").view()));
  EXPECT_NE(hash_key("Ann"), hash_key("Bob"));
  EXPECT_LT(prefix_key("Ann"), prefix_key("Anna"));
  EXPECT_LT(prefix_key("Anna"), prefix_key("B"));
  EXPECT_LT(prefix_key("z"), prefix_key("\xC3\xA9")) << "bytes are not negative";
  EXPECT_EQ(prefix_key("Christian"), prefix_key("Christia"));
  EXPECT_EQ(prefix_key(""), 0U);
}

}  // namespace
}  // namespace espalier::oltp
