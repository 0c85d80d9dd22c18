#include "espalier/workload/key_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <system_error>

namespace espalier::workload {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t max64 = std::numeric_limits<std::uint64_t>::max();

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
