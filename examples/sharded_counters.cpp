// Four threads count words in shards, one for each locality of the machine. The count of a word is taken where its shard
// lies: the thread sends the operation there and goes on. So the lines of a shard stay in the caches of one locality.
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
#include <cstdio>
#include <espalier/delegation/partitions.hpp>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace espalier::delegation;
using counts = std::map<std::string, int>;

/// Several threads of a locality operate on its shard.
struct shard {
  std::mutex lock;
  counts of_words;
};

}  // namespace

int main() {
  const std::array<std::string, 4> text{"a leaf for a key", "a node for two leaves", "a key for a value",
                                        "two nodes for a leaf"};
  runtime threads(localities::numa_nodes());
  partitions<shard> shards(threads, threads.locality_count());

  std::vector<std::thread> crowd;
  for (const std::string& part : text) {
    crowd.emplace_back([&shards, &part] {
      std::istringstream words(part);
      for (std::string word; words >> word;) {
        static_cast<void>(shards.execute(word, [word](shard& s) {
          const std::lock_guard hold(s.lock);
          ++s.of_words[word];
        }));
      }
    });
  }
  for (std::thread& t : crowd) t.join();  // a thread that ends has waited for its operations

  const auto copy = [](shard& s) {
    const std::lock_guard hold(s.lock);
    return s.of_words;
  };
  const counts all = shards.broadcast(counts(), copy, [](counts sum, counts more) {
    sum.merge(more);
    return sum;
  });
  for (const auto& [word, count] : all) std::printf("%s %d\n", word.c_str(), count);
}
