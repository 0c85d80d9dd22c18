// Keys: their spaces, and files of them.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <system_error>
#include <unordered_set>
#include <vector>

#include "espalier/workload/key_space.hpp"
#include "workload/chi_square.hpp"

namespace espalier::workload {
namespace {

using testing::chi_square;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t max64 = std::numeric_limits<std::uint64_t>::max();

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

class permutation_of_size : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(permutation_of_size, is_bijective_for_every_seed) {
  const auto size = GetParam();
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const permutation shuffled(size, seed);
    EXPECT_EQ(shuffled.size(), size);
    std::vector<bool> hit(size);
    for (std::uint64_t i = 0; i < size; ++i) {
      const auto image = shuffled(i);
      ASSERT_LT(image, size);
      ASSERT_FALSE(hit[image]) << "twice " << image << " with seed " << seed;
      hit[image] = true;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(sizes, permutation_of_size,
                         ::testing::Values(1, 2, 3, 4, 5, 7, 8, 1000, 1024, 65535, 65536, 65537));

TEST(permutation, reaches_every_place_from_every_place) {
  // Over many seeds the image of each element of a small range is uniform.
  for (std::uint64_t element = 0; element < 7; ++element) {
    std::vector<std::uint64_t> seen(7);
    for (std::uint64_t seed = 0; seed < 7000; ++seed) ++seen.at(permutation(7, seed)(element));
    const auto fit = chi_square(seen, std::vector<double>(7, 1));
    EXPECT_TRUE(fit.accepted()) << "element " << element << ": " << fit;
  }
}

TEST(permutation, has_a_random_first_half) {
  const permutation shuffled(100'003, 5);
  std::vector<std::uint64_t> by_tenth(10);
  std::uint64_t rising = 0;
  for (std::uint64_t i = 0; i < 50'000; ++i) {
    ++by_tenth.at(shuffled(i) / 10'001);
    if (shuffled(i) < shuffled(i + 1)) ++rising;
  }
  const auto fit = chi_square(by_tenth, std::vector<double>(10, 1));
  EXPECT_TRUE(fit.accepted()) << fit;
  EXPECT_NEAR(static_cast<double>(rising), 25'000, 500);  // 7 standard deviations of a random order
}

TEST(permutation, differs_by_seed_and_repeats) {
  const permutation one(1000, 1);
  const permutation again(1000, 1);
  const permutation two(1000, 2);
  std::uint64_t equal = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(one(i), again(i));
    if (one(i) == two(i)) ++equal;
  }
  EXPECT_LT(equal, 12U);  // 1 on average
}

TEST(permutation, covers_sizes_up_to_the_whole_word) {
  for (const std::uint64_t size : {std::uint64_t{1} << 32, (std::uint64_t{1} << 63) + 1, max64}) {
    const permutation shuffled(size, 9);
    std::unordered_set<std::uint64_t> images;
    std::uint64_t upper_half = 0;
    for (std::uint64_t i = 0; i < 4000; ++i) {
      const auto image = shuffled(i % 2 == 0 ? i : size - i);
      ASSERT_LT(image, size);
      images.insert(image);
      if (image >= size / 2) ++upper_half;
    }
    EXPECT_EQ(images.size(), 4000U);
    EXPECT_NEAR(static_cast<double>(upper_half), 2000, 200);
  }
}

TEST(permutation, refuses_no_elements) {
  EXPECT_THAT(refusal([] { permutation(0, 1); }), HasSubstr("at least 1"));
}

TEST(key_space, gives_the_index_itself_in_sequential_order) {
  const key_space keys(key_order::sequential, 10);
  EXPECT_EQ(keys.key(0), 0U);
  EXPECT_EQ(keys.key(9), 9U);
  EXPECT_EQ(keys.key(10), 10U);
  EXPECT_EQ(keys.size(), 10U);
}

TEST(key_space, scatters_scrambled_keys_over_the_whole_domain_without_repeats) {
  const key_space keys(key_order::scrambled, 100'000, 3);
  std::unordered_set<std::uint64_t> distinct;
  std::vector<std::uint64_t> by_sixteenth(16);
  for (std::uint64_t i = 0; i < keys.size(); ++i) {
    distinct.insert(keys.key(i));
    ++by_sixteenth.at(keys.key(i) >> 60);
  }
  EXPECT_EQ(distinct.size(), 100'000U);
  const auto fit = chi_square(by_sixteenth, std::vector<double>(16, 1));
  EXPECT_TRUE(fit.accepted()) << fit;
  EXPECT_NE(keys.key(1), key_space(key_order::scrambled, 100'000, 4).key(1));
  EXPECT_EQ(keys.key(1), key_space(key_order::scrambled, 5, 3).key(1));
}

TEST(key_space, keeps_an_explicit_list_in_its_order) {
  const key_space keys({max64, 0, 17});
  EXPECT_EQ(keys.order(), key_order::explicit_list);
  EXPECT_EQ(keys.size(), 3U);
  EXPECT_EQ(keys.key(0), max64);
  EXPECT_EQ(keys.key(1), 0U);
  EXPECT_EQ(keys.key(2), 17U);
}

TEST(key_space, refuses_what_is_no_injective_map) {
  EXPECT_THAT(refusal([] { key_space(key_order::sequential, 0); }), HasSubstr("at least 1"));
  EXPECT_THAT(refusal([] { key_space(key_order::explicit_list, 3); }), HasSubstr("from its keys"));
  EXPECT_THAT(refusal([] { key_space(std::vector<std::uint64_t>{}); }), HasSubstr("at least one key"));
  EXPECT_THAT(refusal([] { key_space(std::vector<std::uint64_t>{5, 6, 5}); }),
              HasSubstr("key 5 occurs more than once"));
}

TEST(key_order, round_trips_through_text) {
  for (const auto order : {key_order::sequential, key_order::scrambled}) {
    EXPECT_EQ(parse_key_order(to_string(order)), order);
  }
  EXPECT_EQ(to_string(key_order::explicit_list), "explicit");
  EXPECT_THAT(refusal([] { parse_key_order("random"); }), HasSubstr("expected sequential or scrambled"));
}

TEST(share_of, splits_without_gap_or_overlap) {
  for (const std::uint64_t total : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{100}, max64}) {
    std::uint64_t next = 0;
    for (unsigned thread = 0; thread < 7; ++thread) {
      const auto share = share_of(total, thread, 7);
      EXPECT_EQ(share.begin, next);
      EXPECT_GE(share.end - share.begin, total / 7);
      EXPECT_LE(share.end - share.begin, total / 7 + 1);
      next = share.end;
    }
    EXPECT_EQ(next, total);
  }
  EXPECT_EQ(share_of(10, 1, 4), (index_range{2, 5}));
}

class key_files : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::filesystem::path at(const std::string& name) const { return folder_ / name; }

  std::filesystem::path write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(at(name).parent_path());
    std::ofstream(at(name), std::ios::binary) << content;
    return at(name);
  }

  void write_at_time(const std::string& name, std::int64_t seconds, std::int64_t nanoseconds) const {
    const auto file = write(name, "x");
    const std::array<timespec, 2> times{{{seconds, nanoseconds}, {seconds, nanoseconds}}};
    ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times.data(), 0), 0);
  }

  [[nodiscard]] std::string refusal(const std::string& name, const std::string& content) const {
    try {
      load_key_file(write(name, content));
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ("espalier_key_file_" + std::to_string(::getpid()));
};

std::string little_endian(std::initializer_list<std::uint64_t> keys) {
  std::string bytes;
  for (auto key : keys) {
    for (int i = 0; i < 8; ++i, key >>= 8) bytes += static_cast<char>(key & 0xff);
  }
  return bytes;
}

TEST_F(key_files, of_text_hold_a_number_a_line) {
  const auto list =
      load_key_file(write("keys", "# taken from the log\n17\n\n  0 \t\r\n18446744073709551615 # top"));
  EXPECT_THAT(list.keys, ElementsAre(17, 0, max64));
  EXPECT_EQ(list.duplicates, 0U);
  EXPECT_EQ(list.format, key_file_format::text);
}

TEST_F(key_files, of_words_are_known_by_name_or_by_content) {
  const auto bytes = little_endian({1, 0x0102030405060708, max64});
  for (const auto* name : {"keys.u64", "keys.bin", "keys", "keys.dat"}) {
    const auto list = load_key_file(write(name, bytes));
    EXPECT_THAT(list.keys, ElementsAre(1, 0x0102030405060708, max64)) << name;
    EXPECT_EQ(list.format, key_file_format::binary) << name;
  }
  // Eight digits are text by content, and one word by name.
  EXPECT_THAT(load_key_file(write("digits", "12345678")).keys, ElementsAre(12345678));
  EXPECT_THAT(load_key_file(write("digits.u64", "12345678")).keys, ElementsAre(0x3837363534333231));
}

TEST_F(key_files, lose_duplicates_but_keep_the_order_of_first_occurrence) {
  const auto text = load_key_file(write("keys", "5\n3\n5\n9\n3\n5\n"));
  EXPECT_THAT(text.keys, ElementsAre(5, 3, 9));
  EXPECT_EQ(text.duplicates, 3U);
  const auto binary = load_key_file(write("keys.u64", little_endian({7, 7, 1})));
  EXPECT_THAT(binary.keys, ElementsAre(7, 1));
  EXPECT_EQ(binary.duplicates, 1U);
}

TEST_F(key_files, name_the_line_that_is_no_key) {
  for (const auto* bad : {"-5", "+5", "0x10", "5 6", "five", "1.5", "18446744073709551616"}) {
    EXPECT_EQ(refusal("keys", std::string("1\n") + bad + "\n3\n"),
              at("keys").string() + ":2: found '" + bad + "'; expected one unsigned 64-bit decimal number");
  }
  std::string late;  // beyond the bytes that decide between text and binary
  for (int i = 0; i < 5000; ++i) late += std::to_string(i) + "\n";
  EXPECT_THAT(refusal("keys", late + "\x01\n"), HasSubstr(":5001: found"));
}

TEST_F(key_files, that_are_neither_or_empty_are_refused) {
  EXPECT_THAT(refusal("keys", std::string("\0\1\2", 3)), HasSubstr("has 3 bytes that are not text"));
  EXPECT_THAT(refusal("keys.u64", "1\n2\n3"), HasSubstr("has 5 bytes; expected a multiple of 8"));
  for (const auto* name : {"keys", "keys.u64"}) EXPECT_THAT(refusal(name, ""), HasSubstr("holds no key"));
  EXPECT_THAT(refusal("keys", "# nothing\n\n"), HasSubstr("holds no key"));
  EXPECT_THROW(load_key_file(at("missing")), std::system_error);
  EXPECT_THROW(load_key_file(at(".")), std::system_error);
}

TEST_F(key_files, under_a_directory_give_their_times_in_the_order_of_their_paths) {
  write_at_time("b", 2, 1);
  write_at_time("a/z", 1, 999'999'999);
  write_at_time("a/deep/er", 1'700'000'000, 123'456'789);
  write_at_time("ab", 2, 1);  // the same time as b, whose turn comes later
  write_at_time("a.x", 7, 0);
  EXPECT_THAT(file_times_under(at("."), 100),
              ElementsAre(1'700'000'000'123'456'789, 1'999'999'999, 7'000'000'000, 2'000'000'001));
  EXPECT_THAT(file_times_under(at("."), 2), ElementsAre(1'700'000'000'123'456'789, 1'999'999'999));
  EXPECT_THAT(file_times_under(at("."), 0), IsEmpty());
}

TEST_F(key_files, under_a_directory_are_not_reached_through_links_or_closed_doors) {
  write_at_time("tree/file", 3, 0);
  write_at_time("outside/file", 4, 0);
  std::filesystem::create_symlink(at("outside/file"), at("tree/link"));
  std::filesystem::create_directory_symlink(at("outside"), at("tree/folder_link"));
  std::filesystem::create_symlink(at("nowhere"), at("tree/dangling"));
  ASSERT_EQ(::mkfifo(at("tree/pipe").c_str(), 0600), 0);
  EXPECT_THAT(file_times_under(at("tree"), 100), ElementsAre(3'000'000'000));

  write_at_time("tree/closed/file", 5, 0);
  std::filesystem::permissions(at("tree/closed"), std::filesystem::perms::none);
  const auto times = file_times_under(at("tree"), 100);
  std::filesystem::permissions(at("tree/closed"), std::filesystem::perms::owner_all);
  if (::geteuid() == 0) {  // for whom no door is closed
    EXPECT_THAT(times, ElementsAre(5'000'000'000, 3'000'000'000));
  } else {
    EXPECT_THAT(times, ElementsAre(3'000'000'000));
  }
}

TEST_F(key_files, under_what_is_no_directory_are_refused) {
  const auto file = write("file", "1\n");
  EXPECT_THROW(file_times_under(file, 1), std::invalid_argument);
  EXPECT_THROW(file_times_under(at("missing"), 1), std::invalid_argument);
}

}  // namespace
}  // namespace espalier::workload
