// Four threads count the words of a text in one map. A key may be any trivially copyable struct that has an order and
// no padding. A value may be a pointer. Here it points to a counter, so that counting a known word writes to no node.
//
// Prints:
//   a 6
//   for 4
//   key 2
//   leaf 2
//   leaves 1
//   node 1
//   nodes 1
//   two 2
//   value 1

#include <array>
#include <atomic>
#include <compare>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <espalier/map/bst/edge_ext_lf.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

struct word {
  std::array<char, 16> letters{};
  auto operator<=>(const word&) const = default;
};

using counter = std::atomic<std::uint64_t>;
using word_map = espalier::edge_ext_lf<word, counter*>;

/// Counts the words of one part of the text. Stores the counters that it makes in `mine`, which outlives the map.
void count(const std::string& part, word_map& counters, std::deque<counter>& mine) {
  std::istringstream words(part);
  for (std::string next; words >> next;) {
    word key;
    next.copy(key.letters.data(), key.letters.size() - 1);
    counter* shared = counters.find(key).value_or(nullptr);
    if (shared == nullptr) {
      shared = &mine.emplace_back(0);
      // False if another thread has inserted the word since. Then the map has its counter.
      if (!counters.insert(key, shared)) shared = counters.find(key).value_or(shared);
    }
    shared->fetch_add(1);
  }
}

}  // namespace

int main() {
  const std::array<std::string, 4> text{"a leaf for a key", "a node for two leaves", "a key for a value",
                                        "two nodes for a leaf"};
  std::array<std::deque<counter>, text.size()> storage;
  word_map counters;
  std::vector<std::thread> threads;
  threads.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i)
    threads.emplace_back([&, i] { count(text[i], counters, storage[i]); });
  for (std::thread& t : threads) t.join();
  counters.scan(word{}, [](const word& key, const counter* count) {
    std::printf("%s %llu\n", key.letters.data(), static_cast<unsigned long long>(count->load()));
  });
}
