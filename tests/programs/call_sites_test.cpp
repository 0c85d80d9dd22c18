#include "espalier/programs/call_sites.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "espalier/inspect/site_format.hpp"
#include "espalier/inspect/snapshot_file.hpp"
#include "espalier/inspect/snapshot_format.hpp"

namespace espalier::programs {
namespace {

namespace fs = std::filesystem;
namespace format = inspect::format;

struct programs_call_sites : ::testing::Test {
  programs_call_sites() {
    std::string pattern = (fs::temp_directory_path() / "espalier-sites.XXXXXX").string();
    folder = mkdtemp(pattern.data());
  }
  ~programs_call_sites() override { fs::remove_all(folder); }

  static void put(std::string& to, std::uint32_t number) {
    to.append(reinterpret_cast<const char*>(&number), 4);
  }
  static void put_wide(std::string& to, std::uint64_t number) {
    to.append(reinterpret_cast<const char*>(&number), 8);
  }
  static void put(std::string& to, const std::string& text) {
    put(to, static_cast<std::uint32_t>(text.size()));
    to += text;
  }

  /// A file of these two sections alone.
  fs::path write(const std::string& modules, const std::string& sites) const {
    std::vector<format::section_entry> entries;
    std::string payload;
    const std::uint64_t begin = sizeof(format::header) + 2 * sizeof(format::section_entry);
    for (const auto& [tag, content] : {std::pair{format::modules_tag, modules}, {format::sites_tag, sites}}) {
      format::checksum sum;
      sum.add(content.data(), content.size());
      entries.push_back({tag, format::may_be_skipped, begin + payload.size(), content.size(), sum.sum()});
      payload += content;
      payload.resize(format::padded(payload.size()));
    }
    format::header head;
    std::ranges::copy(format::magic, head.magic);
    head.version = format::version;
    head.sections = 2;
    format::checksum sum;
    sum.add(&head, offsetof(format::header, check));
    sum.add(entries.data(), entries.size() * sizeof entries[0]);
    head.check = sum.sum();
    const fs::path file = folder / "snapshot";
    std::ofstream out(file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&head), sizeof head);
    out.write(reinterpret_cast<const char*>(entries.data()),
              static_cast<std::streamsize>(entries.size() * sizeof entries[0]));
    out << payload;
    return file;
  }

  fs::path folder;
};

TEST_F(programs_call_sites, are_read) {
  std::string modules;
  put(modules, 1);
  put(modules, "/bin/program");
  put(modules, std::string("\0\1id", 4));
  std::string sites;
  put(sites, 2);
  put(sites, 2);
  put(sites, 0);
  put_wide(sites, 0x1'0000'0001);
  put(sites, format::no_module);
  put_wide(sites, 0x7fff'0000'0000);
  put(sites, 0);
  const fs::path file = write(modules, sites);
  const call_sites got = read_call_sites(file);
  EXPECT_EQ(got.modules, (std::vector<code_module>{{"/bin/program", std::string("\0\1id", 4)}}));
  ASSERT_EQ(got.sites.size(), 2U);
  EXPECT_EQ(got.sites[0], (std::vector<code_frame>{{0, 0x1'0000'0001}, {std::nullopt, 0x7fff'0000'0000}}));
  EXPECT_TRUE(got.sites[1].empty());
  EXPECT_EQ(inspect::read_snapshot(file), inspect::read_snapshot(file)) << "others skip the sections";
}

TEST_F(programs_call_sites, of_other_snapshots_are_none) {
  const inspect::snapshot s = inspect::make_snapshot("test", {{"t", false, {}, {}}}, {{4096, 8, 0, 0}});
  inspect::write_snapshot(s, folder / "other");
  EXPECT_TRUE(read_call_sites(folder / "other").sites.empty());
  EXPECT_TRUE(read_call_sites(folder / "other").modules.empty());
}

TEST_F(programs_call_sites, that_are_damaged_are_refused) {
  std::string none;
  put(none, 0);
  std::string frame;
  put(frame, 1);
  put(frame, 1);
  put(frame, 0);
  put_wide(frame, 5);
  EXPECT_THROW(static_cast<void>(read_call_sites(write(none, frame))), std::invalid_argument)
      << "a module that there is not";
  std::string one;
  put(one, 1);
  put(one, "path");
  put(one, "");
  EXPECT_EQ(read_call_sites(write(one, frame)).sites.size(), 1U);
  for (std::size_t size = 1; size < frame.size(); ++size)
    EXPECT_THROW(static_cast<void>(read_call_sites(write(one, frame.substr(0, size)))), std::invalid_argument)
        << size;
  for (std::size_t size = 1; size < one.size(); ++size)
    EXPECT_THROW(static_cast<void>(read_call_sites(write(one.substr(0, size), none))), std::invalid_argument)
        << size;
  EXPECT_THROW(static_cast<void>(read_call_sites(write(one, frame + "x"))), std::invalid_argument)
      << "too long";
  std::string huge;
  put(huge, 0xffff'ffff);
  EXPECT_THROW(static_cast<void>(read_call_sites(write(one, huge))), std::invalid_argument);
}

}  // namespace
}  // namespace espalier::programs
