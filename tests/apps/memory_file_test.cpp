// The file in which a server leaves its entries: what comes out of it, and what is refused.

#include "apps/serve/memory_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "memcached/conversation.hpp"

namespace espalier::app::serving {
namespace {

namespace fs = std::filesystem;
using memcached::choice;
using memcached::conversation;

// Where the file has what: a header, and blocks that begin with their size and their hash.
constexpr std::size_t origin_at = 56;
constexpr std::size_t header_bytes = 72;
constexpr std::size_t block_head = 16;

/// All that a cache knows of an entry.
using known = std::tuple<std::string, std::string, std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t,
                         bool, bool, bool, std::uint64_t, unsigned, bool>;
std::vector<known> entries_of(service& of) {
  std::vector<known> all;
  of.cache().drain([&](const kept_entry& e) {
    const cache_entry& s = e.seen;
    all.emplace_back(e.key, s.value, s.flags, s.expires, s.accessed, s.version, s.fetched, s.stale, s.claimed,
                     e.order, e.frequency, e.is_proven);
    return true;
  });
  std::ranges::sort(all);  // segments are filled side by side
  return all;
}

choice sizes(std::size_t memory = std::size_t{16} << 20U) {
  choice chosen;
  chosen.chosen.version = "1.2.3";
  chosen.memory.memory_limit = memory;
  chosen.memory.largest_entry = std::size_t{3} << 20U;
  return chosen;
}

class MemoryFile : public testing::Test {
 protected:
  using fill = std::function<void(conversation&)>;

  ~MemoryFile() override { fs::remove_all(folder_); }

  /// What a server leaves that was asked this.
  std::string left_by(const fill& asks) {
    conversation server(sizes());
    asks(server);
    EXPECT_EQ(memory_file(path()).save(server.shared), "");
    return content();
  }
  [[nodiscard]] std::string path() const { return folder_ / "memory"; }
  [[nodiscard]] std::string content() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << bytes;
  }
  /// Why a server starts empty with these bytes.
  [[nodiscard]] std::string refusal_of(const std::string& bytes) const {
    write(bytes);
    conversation server(sizes());
    std::string why = memory_file(path()).load(server.shared);
    EXPECT_EQ(fs::file_size(path()), 0U) << "it is for one start";
    if (!why.empty()) {
      EXPECT_EQ(server.ask("get k\r\n"), "END\r\n");
      EXPECT_TRUE(entries_of(server.shared).empty()) << why;
    }
    return why;
  }

 private:
  static fs::path made() {
    std::string name = fs::temp_directory_path() / "memory_file_test.XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder");
    return name;
  }
  const fs::path folder_ = made();
};

std::string stored(const std::string& key, const std::string& value, const std::string& flags = "") {
  return "ms " + key + " " + std::to_string(value.size()) + flags + "\r\n" + value + "\r\n";
}

TEST_F(MemoryFile, HasAllThatTheCacheKnows) {
  const fill asks = [](conversation& server) {
    for (unsigned n = 0; n != 3000; ++n) {
      const std::string key = "key" + std::to_string(n);
      server.say(
          stored(key, std::string(n % 1500, static_cast<char>('a' + n % 26)), " F" + std::to_string(n)));
      for (unsigned get = 0; get != n % 5; ++get) server.say("mg " + key + "\r\n");
      if (n % 7 == 0) server.say("mg " + key + " T" + std::to_string(1000 + n) + "\r\n");
      if (n % 11 == 0) server.say("md " + key + " I T900\r\n");
      if (n % 22 == 0) server.say("mg " + key + " v\r\n");  // has the claim
      if (n % 13 == 0) server.say(stored(key, "its own version", " E" + std::to_string(10'000'000 + n)));
      if (n % 500 == 0) server.shared.clock().move(1);
    }
    server.say(stored(std::string(250, 'k'), std::string(2 << 20U, 'l')));
    server.say(stored("AAEC", "", " b"));  // three bytes in base64
  };
  conversation same(sizes());
  asks(same);
  const std::vector<known> expected = entries_of(same.shared);
  ASSERT_GT(left_by(asks).size(), std::size_t{4} << 20U);
  conversation next(sizes());
  ASSERT_EQ(memory_file(path()).load(next.shared), "");
  EXPECT_EQ(next.shared.clock().now(), same.shared.clock().now());
  const std::vector<known> found = entries_of(next.shared);
  ASSERT_EQ(found.size(), expected.size());
  std::vector<unsigned> marked(4);
  for (std::size_t i = 0; i != found.size(); ++i) {
    ASSERT_EQ(found[i], expected[i]) << std::get<0>(expected[i]);
    marked[0] += std::get<6>(found[i]);
    marked[1] += std::get<7>(found[i]);
    marked[2] += std::get<8>(found[i]);
    marked[3] += std::get<10>(found[i]) != 0;
  }
  for (const unsigned some : marked) EXPECT_NE(some, 0U);
}

TEST_F(MemoryFile, KeepsWhatProvedItsWorth) {
  const fill asks = [](conversation& server) {
    // More than fits, so that what is asked for survives.
    for (unsigned n = 0; n != 40'000; ++n) {
      server.say(stored("key" + std::to_string(n), std::string(1000, 'v')));
      for (unsigned asked = n % 10; asked < 10; asked += 4)
        server.say("mg key" + std::to_string(asked * 7) + " v\r\n");
    }
    server.shared.tick();  // which keeps the limit, as a save does
  };
  conversation same(sizes());
  asks(same);
  const std::vector<known> expected = entries_of(same.shared);
  left_by(asks);
  conversation next(sizes());
  ASSERT_EQ(memory_file(path()).load(next.shared), "");
  EXPECT_TRUE(entries_of(next.shared) == expected);
  unsigned proven = 0;
  for (const known& one : expected) proven += std::get<11>(one);
  EXPECT_NE(proven, 0U);
}

TEST_F(MemoryFile, LeavesOutWhatHasEnded) {
  std::string file = left_by([](conversation& server) {
    server.say(stored("k", "1") + stored("short", "2", " T50") + stored("long", "3", " T500"));
  });
  // It was left a hundred seconds before.
  std::int64_t origin = 0;
  std::memcpy(&origin, file.data() + origin_at, sizeof(origin));
  origin -= 100;
  std::memcpy(file.data() + origin_at, &origin, sizeof(origin));
  write(file);
  conversation server(sizes());
  ASSERT_EQ(memory_file(path()).load(server.shared), "");
  EXPECT_EQ(server.shared.cache().statistics().entries, 2U);
  EXPECT_EQ(server.ask("mg k t\r\nmg short t\r\nmg long\r\n"), "HD t-1\r\nEN\r\nHD\r\n");
  const int left = std::stoi(server.ask("mg long t\r\n").substr(4));
  EXPECT_GT(left, 300);
  EXPECT_LE(left, 401);
}

TEST_F(MemoryFile, EachByteCounts) {
  const std::string file =
      left_by([](conversation& server) { server.say(stored("k", "value") + stored("other", "2")); });
  ASSERT_EQ(refusal_of(file), "");
  // But for those of the clock.
  for (std::size_t at = 16; at != file.size(); at = at == 51 ? header_bytes : at + 1) {
    for (const char change : {'\x01', '\x80'}) {
      std::string other = file;
      other[at] = static_cast<char>(other[at] ^ change);
      const std::string why = refusal_of(other);
      EXPECT_NE(why, "") << "byte " << at;
    }
  }
}

TEST_F(MemoryFile, EachPartIsNeeded) {
  const std::string file =
      left_by([](conversation& server) { server.say(stored("k", "value") + stored("other", "2")); });
  for (std::size_t size = header_bytes; size != file.size(); ++size)
    EXPECT_EQ(refusal_of(file.substr(0, size)), "it is not whole") << size;
  EXPECT_EQ(refusal_of("espalier cache 0" + file.substr(16)), "it was not closed, or has been read");
}

TEST_F(MemoryFile, ALaterBlockThatIsWrongTakesTheEarlierOnesAlong) {
  std::string file = left_by([](conversation& server) {
    server.say(stored("k", "value") + stored("second", std::string(2 << 20U, '2')) + stored("third", "3"));
  });
  file[file.size() - block_head - 1] ^= 1;
  EXPECT_EQ(refusal_of(file), "it was changed");
}

/// As another program might leave it, with hashes that are right.
TEST_F(MemoryFile, RecordsThatDoNotFitTheirBlock) {
  const std::string file = left_by([](conversation& server) { server.say(stored("k", "value")); });
  const std::string record =
      file.substr(header_bytes + block_head, file.size() - header_bytes - 2 * block_head);
  const auto with = [&](const std::string& records) {
    const auto head = [](const std::string& of) {
      const std::array<std::uint64_t, 2> numbers{of.size(),
                                                 XXH3_64bits_withSeed(of.data(), of.size(), of.size())};
      return std::string(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers));
    };
    return file.substr(0, header_bytes) + head(records) + records + head("");
  };
  ASSERT_EQ(with(record), file);
  for (std::size_t size = 1; size != record.size(); ++size)
    EXPECT_EQ(refusal_of(with(record.substr(0, size))), "it was changed");
  EXPECT_EQ(refusal_of(with(record + record.substr(0, 39))), "it was changed");
  std::string larger = record;
  larger[19] = '\x7f';  // of the value's size
  EXPECT_EQ(refusal_of(with(larger)), "it was changed");
}

TEST_F(MemoryFile, AFileThatWasLongerIsReplaced) {
  left_by([](conversation& server) { server.say(stored("long", std::string(1 << 20U, 'l'))); });
  const std::string file = left_by([](conversation& server) { server.say(stored("k", "1")); });
  EXPECT_LT(file.size(), 300U);
  EXPECT_EQ(refusal_of(file), "");
}

TEST_F(MemoryFile, IsOfOneServer) {
  const memory_file first(path());
  EXPECT_THROW(memory_file{path()}, std::exception);
  EXPECT_THROW(memory_file{fs::path(path()).parent_path()}, std::exception);
  EXPECT_THROW(memory_file{"/dev/null"}, std::exception);
}

TEST_F(MemoryFile, LeavesAFileOfSomethingElse) {
  for (const std::string letter :
       {"a letter\n", "a letter that is longer than the header of such a file, which has 72 bytes\n"}) {
    write(letter);
    EXPECT_THROW(memory_file{path()}, std::exception);
    EXPECT_EQ(content(), letter);
  }
}

TEST_F(MemoryFile, KeepsAFlushToCome) {
  left_by([](conversation& server) { server.say(stored("k", "1") + "flush_all 100\r\n"); });
  conversation server(sizes());
  ASSERT_EQ(memory_file(path()).load(server.shared), "");
  EXPECT_NE(server.shared.flush_due(), 0U);
}

}  // namespace
}  // namespace espalier::app::serving
