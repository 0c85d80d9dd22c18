#include "espalier/inspect/played_pattern.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <random>
#include <utility>

#include "espalier/inspect/page_frames.hpp"

namespace espalier::inspect {
namespace {

constexpr std::size_t malloc_alignment = 16;
constexpr block extra_block{64, malloc_alignment, memory_role::other};

memory_role role_of(const allocation_pattern& pattern, type_index type) noexcept {
  if (pattern.objects[type].type.name == "node") return memory_role::node;
  constexpr std::array others{memory_role::value, memory_role::descriptor, memory_role::leaf,
                              memory_role::other};
  return others[type % others.size()];
}

}  // namespace

played_pattern::played_pattern(const allocation_pattern& pattern, std::uint64_t rounds, any_placement& from,
                               std::uint64_t seed)
    : pattern_(pattern), from_(from) {
  const std::vector<type_index> order = order_of(pattern);
  std::mt19937_64 random(seed);
  // Reserved before the first allocation, so that recording a block cannot fail and leak it.
  blocks_.reserve(rounds * order.size());
  if (pattern.allocator.extra_percent != 0) extra_.reserve(rounds * order.size());
  try {
    for (std::uint64_t round = 0; round < rounds; ++round) {
      for (const type_index type : order) {
        if (pattern.allocator.extra_percent != 0 && random() % 100 < pattern.allocator.extra_percent) {
          extra_.push_back(from_.allocate(extra_block));
        }
        const block b = request(type);
        void* const memory = from_.allocate(b);
        blocks_.push_back({memory, type});
        std::memset(memory, 0, b.bytes);  // untouched pages have no frames
      }
    }
  } catch (...) {
    give_back();
    throw;
  }
}

played_pattern::~played_pattern() { give_back(); }

block played_pattern::request(type_index type) const noexcept {
  const std::size_t bytes = pattern_.objects[type].bytes;
  const std::size_t align = bytes % malloc_alignment == 0 ? malloc_alignment : alignof(void*);
  return {bytes, align, role_of(pattern_, type)};
}

void played_pattern::give_back() noexcept {
  for (const allocation& a : blocks_) from_.deallocate(a.memory, request(a.type));
  for (void* const memory : extra_) from_.deallocate(memory, extra_block);
}

snapshot played_pattern::layout() const {
  std::vector<block_type> types;
  types.reserve(pattern_.objects.size());
  for (const model_object& o : pattern_.objects) types.push_back(o.type);
  std::vector<live_block> blocks;
  blocks.reserve(blocks_.size());
  for (const allocation& a : blocks_) {
    const block b = request(a.type);
    const std::size_t held = from_.bytes_held(a.memory, b);
    blocks.push_back({reinterpret_cast<std::uint64_t>(a.memory), static_cast<std::uint32_t>(b.bytes),
                      static_cast<std::uint32_t>(held - b.bytes), a.type});
  }
  snapshot s = make_snapshot(pattern_.name, std::move(types), std::move(blocks));
  find_frames(s);
  return s;
}

}  // namespace espalier::inspect
