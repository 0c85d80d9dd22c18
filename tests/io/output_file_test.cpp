#include "espalier/io/output_file.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

namespace espalier::io {
namespace {

namespace fs = std::filesystem;

struct io_output_file : ::testing::Test, test::temporary_folder {
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }

  const fs::path& folder = path();
};

TEST_F(io_output_file, is_there_whole_or_not_at_all) {
  const fs::path file = folder / "file";
  {
    output_file out(file);
    out.write("half");
    EXPECT_FALSE(fs::exists(file));
  }
  EXPECT_FALSE(fs::exists(file));
  output_file out(file);
  out.write("one ");
  out.commit("two");
  EXPECT_EQ(test::content_of(file), "one two");
}

TEST_F(io_output_file, leaves_the_old_file_until_the_new_one_is_there) {
  const fs::path file = folder / "file";
  std::ofstream(file) << "old";
  {
    output_file out(file);
    out.write("new");
  }
  EXPECT_EQ(test::content_of(file), "old");
  output_file(file).commit("new");
  EXPECT_EQ(test::content_of(file), "new");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(io_output_file, takes_no_pipes_place) {
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  output_file out(pipe);
  out.write("one ");
  out.commit("two");
  std::array<char, 16> text{};
  EXPECT_EQ(read(reader, text.data(), text.size()), 7);
  EXPECT_STREQ(text.data(), "one two");
  close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(entries(), 1U);
}

TEST_F(io_output_file, takes_no_descriptors_place) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const fs::path named = "/proc/self/fd/" + std::to_string(ends[1]);
  // As /dev/stdout is one.
  const fs::path link = folder / "stdout";
  fs::create_symlink(named, link);
  for (const fs::path& target : {link, named}) {
    output_file(target).commit("text");
    std::array<char, 16> text{};
    EXPECT_EQ(read(ends[0], text.data(), text.size()), 4);
  }
  EXPECT_TRUE(fs::is_symlink(link));
  close(ends[0]);
  close(ends[1]);

  const fs::path file = folder / "file";
  const int held = open(file.c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_GE(held, 0);
  struct stat before{};
  ASSERT_EQ(fstat(held, &before), 0);
  fs::remove(link);
  fs::create_symlink("/proc/self/fd/" + std::to_string(held), link);
  output_file(link).commit("more");
  EXPECT_EQ(test::content_of(file), "more");
  struct stat after{};
  ASSERT_EQ(stat(file.c_str(), &after), 0);
  EXPECT_EQ(after.st_ino, before.st_ino) << "it is the file that the descriptor has open";
  EXPECT_TRUE(fs::is_symlink(link));
  close(held);
}

TEST_F(io_output_file, takes_no_devices_place) {
  const fs::path device = folder / "null";
  if (mknod(device.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0) GTEST_SKIP() << "no device can be made here";
  const int opened = open(device.c_str(), O_WRONLY);
  if (opened < 0) GTEST_SKIP() << "devices are not served in this folder";
  close(opened);
  output_file(device).commit("text");
  EXPECT_TRUE(fs::is_character_file(device));
  const fs::path block = folder / "block";
  ASSERT_EQ(mknod(block.c_str(), S_IFBLK | 0600, makedev(7, 200)), 0);
  EXPECT_THROW(output_file{block}, std::invalid_argument);
  EXPECT_TRUE(fs::is_block_file(block));
}

TEST_F(io_output_file, a_link_leads_to_the_new_file) {
  const fs::path there = folder / "there";
  fs::create_directory(there);
  std::ofstream(there / "file") << "old";
  fs::create_symlink(there / "file", folder / "absolute");
  fs::create_symlink("there/other", folder / "to_nothing_yet");
  fs::create_symlink("to_nothing_yet", folder / "to_a_link");
  for (const char* const link : {"absolute", "to_nothing_yet", "to_a_link"}) {
    output_file(folder / link).commit(link);
    EXPECT_TRUE(fs::is_symlink(folder / link));
    EXPECT_EQ(test::content_of(folder / link), link);
  }
  EXPECT_EQ(test::content_of(there / "other"), "to_a_link");
  EXPECT_EQ(entries(), 4U);
}

TEST_F(io_output_file, makes_no_folder) {
  EXPECT_THAT(test::refusal([&] { output_file(folder / "new" / "file"); }),
              testing::HasSubstr("there is no folder " + (folder / "new").string()));
  EXPECT_EQ(entries(), 0U);
}

TEST_F(io_output_file, is_one_with_those_that_would_overwrite_it) {
  fs::create_symlink("file", folder / "link");
  fs::create_directory_symlink(folder, folder / "here");
  const auto identity_of = [](const fs::path& file) { return output_file(file).identity(); };
  for (const bool exists : {false, true}) {
    if (exists) std::ofstream(folder / "file") << "old";
    for (const char* const name : {"link", "here/file", "here/here/link"})
      EXPECT_EQ(identity_of(folder / name), identity_of(folder / "file")) << name << exists;
    EXPECT_NE(identity_of(folder / "other"), identity_of(folder / "file"));
  }
  const int held = open((folder / "file").c_str(), O_WRONLY);
  EXPECT_EQ(output_file(held, "standard output").identity(), identity_of(folder / "file"));
  EXPECT_EQ(identity_of("/dev/null"), std::nullopt);
}

TEST_F(io_output_file, says_what_cannot_be_written) {
  EXPECT_THROW(output_file{folder}, std::invalid_argument);
  std::ofstream(folder / "file") << "text";
  EXPECT_THROW(output_file{folder / "file" / "below"}, std::invalid_argument);
  fs::create_symlink("circle", folder / "circle");
  EXPECT_THROW(output_file{folder / "circle"}, std::invalid_argument);
  EXPECT_THROW(output_file{folder / ""}, std::invalid_argument);
  EXPECT_THROW(output_file{folder / std::string(300, 'x')}, std::invalid_argument);
  EXPECT_THROW(output_file{fs::path("/proc/nowhere/file")}, std::invalid_argument);
  EXPECT_THAT(
      test::refusal([] { output_file(fs::path("/proc/file")); }),
      testing::HasSubstr(geteuid() == 0 ? "/proc/file: nothing can be made in /proc" : "/proc/file: "));
}

}  // namespace
}  // namespace espalier::io
