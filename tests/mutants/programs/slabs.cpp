// Slabs and the placements above them hand out no block twice.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "espalier/memory/cluster_slab.hpp"
#include "espalier/memory/clustered.hpp"
#include "espalier/memory/slab.hpp"
#include "mutants/driver.hpp"

namespace espalier::mutants {
namespace {

constexpr std::size_t large = 1024;  // four blocks in a thread's run
constexpr std::size_t batch = 64;

void all_different(std::vector<void*> blocks) {
  std::sort(blocks.begin(), blocks.end());
  sim::require(std::adjacent_find(blocks.begin(), blocks.end()) == blocks.end(),
               "a block is handed out twice");
}

/// Blocks that threads hold at the end.
struct held_blocks {
  std::array<std::vector<void*>, 4> of;

  held_blocks() {
    for (auto& blocks : of) blocks.reserve(512);
  }
  [[nodiscard]] std::vector<void*> all() const {
    std::vector<void*> sum;
    for (const auto& blocks : of) sum.insert(sum.end(), blocks.begin(), blocks.end());
    return sum;
  }
};

void fresh_blocks(sim::scene& s) {
  auto& held = s.make<held_blocks>();
  auto& source = s.make<slab>(large);
  for (std::size_t i = 0; i < 3; ++i) {
    s.thread(std::string(1, static_cast<char>('a' + i)), [&, i] {
      for (int n = 0; n < 5; ++n) held.of[i].push_back(source.allocate());
    });
  }
  s.at_end([&] { all_different(held.all()); });
}

/// One gives a batch back while another takes one.
void batches(sim::scene& s) {
  auto& held = s.make<held_blocks>();
  auto& source = s.make<slab>(std::size_t{32});
  auto& given = s.make<std::vector<void*>>();
  std::vector<void*> first;
  for (std::size_t i = 0; i < 2 * batch; ++i) {
    first.push_back(source.allocate());
    given.push_back(source.allocate());
  }
  for (void* block : first) source.deallocate(block);
  s.thread("gives", [&] {
    for (void* block : given) source.deallocate(block);
  });
  s.thread("takes", [&] {
    for (int n = 0; n < 2; ++n) held.of[0].push_back(source.allocate());
  });
  s.at_end([&] {
    for (std::size_t i = 0; i < 4 * batch; ++i) held.of[1].push_back(source.allocate());
    all_different(held.all());
  });
}

void beside(sim::scene& s) {
  auto& held = s.make<held_blocks>();
  auto& source = s.make<cluster_slab>(std::size_t{16}, 4U);
  void* const near = source.allocate(nullptr);
  held.of[0].push_back(near);
  void* const leaves = source.allocate(near);
  s.thread("gives", [&, leaves] {
    source.deallocate(leaves);
    held.of[0].push_back(source.allocate(nullptr));
  });
  for (std::size_t i = 1; i < 3; ++i) {
    s.thread(std::string(1, static_cast<char>('a' + i)),
             [&, i, near] { held.of[i].push_back(source.allocate(near)); });
  }
  s.at_end([&, near] {
    for (int n = 0; n < 4; ++n) held.of[3].push_back(source.allocate(near));
    all_different(held.all());
    for (void* block : held.all()) source.deallocate(block);
    sim::require(source.usage().blocks == 0, "blocks are left when all were given back");
  });
}

/// Somebody asks near a block which is not in this slab, while its first span comes into being.
void foreign(sim::scene& s) {
  auto& held = s.make<held_blocks>();
  auto& elsewhere = s.make<std::uint64_t>();
  auto& source = s.make<cluster_slab>(std::size_t{512}, 2U);
  s.thread("a", [&] { held.of[0].push_back(source.allocate(nullptr)); });
  s.thread("b", [&] { held.of[1].push_back(source.allocate(&elsewhere)); });
  s.at_end([&] { all_different(held.all()); });
}

void first_comers(sim::scene& s) {
  auto& source = s.make<clustered>();
  static constexpr block router{32, 32, memory_role::node};  // outlives this call, as the threads do
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&] { source.deallocate(source.allocate(router), router); });
  }
  s.at_end([&] { sim::require(source.usage().blocks == 0, "blocks are left when all were given back"); });
}

}  // namespace

round_result explore_all(const round_options& options) {
  scenes all(options);
  all.run("fresh blocks", fresh_blocks);
  all.run("beside", beside);
  all.run("foreign", foreign);
  all.run("first comers", first_comers);
  sim::exploration_options how;  // the race is between two steps of some hundreds
  how.strategies = {"pct:2", "pct:3"};
  all.run("batches", batches, how, 0.5);
  return std::move(all).result();
}

}  // namespace espalier::mutants
