// The interface for C where operator new fails: a status says so, nothing is half done, and nothing is lost.

#include <espalier.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>

#include "support/allocation_failure.hpp"

namespace espalier {
namespace {

espalier_bytes bytes(const std::string& s) { return {s.data(), s.size()}; }

using contents = std::map<std::string, std::string>;

int collect(void* context, espalier_bytes key, espalier_bytes value) {
  static_cast<contents*>(context)->emplace(std::string(static_cast<const char*>(key.data), key.size),
                                           std::string(static_cast<const char*>(value.data), value.size));
  return 0;
}

int ignore(void* /*context*/, espalier_bytes /*key*/, espalier_bytes /*value*/) { return 0; }

int replace(void* context, const espalier_bytes* /*now*/, espalier_bytes* next) {
  *next = bytes(*static_cast<std::string*>(context));
  return ESPALIER_STORE;
}

/// Long strings, and what became of them. It allocates nothing after it was made.
struct script {
  static constexpr std::size_t entries = 40;
  enum class state : std::uint8_t { absent, inserted, replaced };

  script() {
    for (std::size_t i = 0; i != entries; ++i) {
      keys[i] = "a key that is long enough to need memory, " + std::to_string(i);
      values[i] = std::string(100, static_cast<char>('a' + static_cast<int>(i % 26)));
    }
  }

  /// Each operation that is not done says that there is no memory.
  void run(espalier_map_bytes_bytes* map) {
    for (std::size_t i = 0; i != entries; ++i) {
      if (!is_done(espalier_map_bytes_bytes_insert(map, bytes(keys[i]), bytes(values[i])), ESPALIER_OK))
        continue;
      states[i] = state::inserted;
      if ((i % 3 == 0 &&
           is_done(espalier_map_bytes_bytes_assign(map, bytes(keys[i]), bytes(other)), ESPALIER_PRESENT)) ||
          (i % 3 == 1 &&
           is_done(espalier_map_bytes_bytes_update(map, bytes(keys[i]), replace, &other), ESPALIER_OK)))
        states[i] = state::replaced;
    }
  }
  [[nodiscard]] contents done() const {
    contents all;
    for (std::size_t i = 0; i != entries; ++i)
      if (states[i] != state::absent) all[keys[i]] = states[i] == state::inserted ? values[i] : other;
    return all;
  }
  bool is_done(espalier_status is, espalier_status otherwise) {
    if (is != otherwise && is != ESPALIER_NO_MEMORY) unexpected = is;
    return is == otherwise;
  }

  std::array<std::string, entries> keys;
  std::array<std::string, entries> values;
  std::string other = std::string(200, '+');
  std::array<state, entries> states{};
  espalier_status unexpected = ESPALIER_OK;
};

TEST(CWithoutMemory, TheNthAllocationOfAScriptFails) {
  for (std::uint64_t nth = 1;; nth += nth / 20 + 1) {
    SCOPED_TRACE(nth);
    test::failure_plan plan{.nth = nth};
    script played;
    espalier_map_bytes_bytes* map = nullptr;
    {
      const test::armed armed(plan);
      map = espalier_map_bytes_bytes_new();
      if (map != nullptr) played.run(map);
    }
    EXPECT_EQ(played.unexpected, ESPALIER_OK);
    if (map == nullptr) {
      EXPECT_TRUE(plan.has_failed());
      continue;
    }
    contents found;
    static_cast<void>(espalier_map_bytes_bytes_scan(map, nullptr, nullptr, collect, &found));
    EXPECT_EQ(found, played.done());
    espalier_map_bytes_bytes_free(map);
    if (plan.has_failed()) continue;
    EXPECT_EQ(found.size(), script::entries);
    EXPECT_GT(nth, std::uint64_t{script::entries}) << "the library does not use this program's operator new";
    break;
  }
}

/// Whatever it does, a call without memory says so, or needs none.
TEST(CWithoutMemory, EveryCallReturns) {
  espalier_map_bytes_bytes* const map = espalier_map_bytes_bytes_new();
  const script s;
  for (std::size_t i = 0; i != script::entries; ++i) {
    ASSERT_EQ(espalier_map_bytes_bytes_insert(map, bytes(s.keys[i]), bytes(s.values[i])), ESPALIER_OK);
  }
  espalier_map_bytes_bytes_cursor* const at = espalier_map_bytes_bytes_cursor_new(map);
  const std::array<espalier_bytes, 2> keys{bytes(s.keys[3]), bytes(s.other)};
  std::array<char, 200> room;
  std::array<espalier_buffer, 2> values{espalier_buffer{room.data(), 100, 0},
                                        espalier_buffer{room.data() + 100, 100, 0}};
  std::array<espalier_status, 2> each{};
  std::size_t count = 0;
  const auto is_done = [](espalier_status status) { return status >= 0; };
  const auto is_refused = [](espalier_status status) { return status == ESPALIER_NO_MEMORY; };
  unsigned refused = 0;
  for (const auto& call : std::initializer_list<std::function<espalier_status()>>{
           [&] { return espalier_map_bytes_bytes_cursor_seek(at, keys[0]); },
           [&] { return espalier_map_bytes_bytes_cursor_first(at); },
           [&] { return espalier_map_bytes_bytes_cursor_last(at); },
           [&] { return espalier_map_bytes_bytes_find(map, keys[0], values.data()); },
           [&] {
             return espalier_map_bytes_bytes_find_batch(map, keys.data(), 2, values.data(), each.data());
           },
           [&] { return espalier_map_bytes_bytes_scan(map, nullptr, nullptr, ignore, nullptr); },
           [&] { return espalier_map_bytes_bytes_reverse_scan(map, nullptr, nullptr, ignore, nullptr); },
           [&] { return espalier_map_bytes_bytes_erase_batch(map, keys.data(), 2, &count); },
           [&] { return espalier_map_bytes_bytes_insert_batch(map, keys.data(), keys.data(), 2, &count); },
           [&] { return espalier_map_bytes_bytes_clear(map); }}) {
    espalier_status status = ESPALIER_OK;
    {
      const test::refuse_memory refuse;
      status = call();
    }
    EXPECT_TRUE(is_done(status) || is_refused(status)) << status;
    refused += unsigned{is_refused(status)};
    EXPECT_TRUE(is_done(call()));
  }
  EXPECT_GT(refused, 1U);
  espalier_map_bytes_bytes_cursor_free(at);
  espalier_map_bytes_bytes_free(map);
}

TEST(CWithoutMemory, NothingIsMade) {
  const test::refuse_memory refuse;
  EXPECT_EQ(espalier_map_u64_u64_new(), nullptr);
  espalier_cache* cache = nullptr;
  EXPECT_EQ(espalier_cache_new(nullptr, &cache), ESPALIER_NO_MEMORY);
  EXPECT_EQ(cache, nullptr);
}

}  // namespace
}  // namespace espalier
