#include "espalier/inspect/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <random>
#include <stdexcept>
#include <utility>

#include "espalier/inspect/page_frames.hpp"

namespace espalier::inspect {
namespace {

/// Key, then one of two edges, as in the study's example (section 3.2.2).
const model_object node_64{'N', 64, {"node", false, {{0, 8}}, {{8, 8}, {16, 8}}}};
const model_object node_48{'N', 48, node_64.type};
const model_object descriptor{'D', 64, {"descriptor", false, {}, {}}};
const model_object row{'R', 64, {"row", false, {}, {}}};
const model_object wrapper{'W', 64, {"wrapper", false, {}, {}}};

/// jemalloc's size classes up to 1 KiB, as the study lists them (section 3.2.1).
const std::vector<std::uint32_t> classes{8,   16,  32,  48,  64,  80,  96,  112,
                                         128, 192, 256, 320, 384, 448, 512, 1024};

const allocator_model end_to_end{classes};
/// 63 blocks of 64 bytes per page. Inferred from row 1 of the study's table 4, which the model reproduces.
const allocator_model headed{.classes = classes, .paged = true, .header = 64};
const allocator_model chunks{.classes = classes, .paged = true};

allocator_model with_frames(allocator_model a, frame_model frames) {
  a.frames = frames;
  return a;
}

allocator_model with_extra(allocator_model a, unsigned percent) {
  a.extra_percent = percent;
  return a;
}

allocator_model segregated(allocator_model a) {
  a.segregated = true;
  return a;
}

/// What YCSB in DBx allocates for a row, in its order (section 4.3.3), and the node that the index allocates.
std::vector<model_object> ycsb(const model_object& node) {
  return {row,
          {'A', 128, {"data", false, {}, {}}},
          wrapper,
          {'L', 192, {"row lock", true, {}, {}}},
          {'V', 32, {"value", false, {}, {}}},
          node};
}

/// Row locks of a mutex, 48 bytes each, contiguous (section 4.3.2).
const model_object lock_48{'L', 48, {"row lock", true, {}, {}}};

std::vector<allocation_pattern> all_patterns() {
  using objects = std::vector<model_object>;
  const objects tree{node_64, descriptor};
  const objects small_tree{node_48, descriptor};
  const objects table{row, wrapper, node_64};
  return {
      {"ndnd", "64-byte nodes and descriptors alternate, end to end", tree, "ND", end_to_end},
      {"ndnd-paged",
       "the same, 63 to a page behind a header: int_lf of table 4, row 1 (the page is an inference)", tree,
       "ND", headed},
      {"ndnd-scattered", "the same, each page in a frame of its own", tree, "ND",
       with_frames(headed, frame_model::scattered)},
      {"ndnd-allocs", "the same with random further allocations between: table 4, rows 2 and 3", tree, "ND",
       with_extra(headed, 25)},
      {"nd-48", "48-byte nodes, in a class apart from the descriptors: table 4, row 4", small_tree, "ND",
       headed},
      {"rwn-paged", "row, wrapper, node of 64 bytes, 63 to a page behind a header (section 4.3.1)", table,
       "RWN", headed},
      {"rwn", "row, wrapper, node of 64 bytes, end to end in contiguous memory (section 4.3.1)", table, "RWN",
       with_frames(end_to_end, frame_model::contiguous)},
      {"rwnn", "the same with two nodes for each row, which the study calls fine", table, "RWNN",
       with_frames(end_to_end, frame_model::contiguous)},
      {"rwnn-paged", "the same, 63 to a page behind a header: half of the sets again", table, "RWNN", headed},
      {"locks-48", "row locks of 48 bytes, end to end (section 4.3.2)", {lock_48}, "L", chunks},
      {"locks-48-nodes",
       "the same with 48-byte nodes between (section 4.3.2)",
       {lock_48, node_48},
       "LN",
       chunks},
      {"ycsb-64", "what YCSB allocates for a row, and a 64-byte node (figure 6)", ycsb(node_64), "RAWLVN",
       chunks},
      {"ycsb-64-segregated", "the same, each type from an allocator of its own (figure 7)", ycsb(node_64),
       "RAWLVN", segregated(chunks)},
      {"ycsb-48", "what YCSB allocates for a row, and a 48-byte node (section 4.3.3)", ycsb(node_48),
       "RAWLVN", chunks},
      {"ycsb-48-segregated", "the same, each type from an allocator of its own", ycsb(node_48), "RAWLVN",
       segregated(chunks)}};
}

/// Hands out addresses as an allocator_model does. Each segregated type has a `bank` of its own.
class model_heap {
 public:
  explicit model_heap(const allocator_model& by) : by_(by) {}

  [[nodiscard]] std::uint32_t held(std::uint32_t bytes) const {
    const auto fits = std::ranges::lower_bound(by_.classes, bytes);
    return fits != by_.classes.end() ? *fits : (bytes + 15) / 16 * 16;
  }

  std::uint64_t allocate(std::uint32_t held_bytes, std::size_t bank) {
    if (bank >= next_.size()) next_.resize(bank + 1, 0);
    if (!by_.paged) return std::exchange(next_[bank], next_[bank] + held_bytes) + base_of(bank);
    run& r = runs_[{bank, held_bytes}];
    if (r.left < held_bytes) {
      r.at = base_of(bank) + next_[bank] + by_.header;
      r.left = page_bytes - by_.header;
      next_[bank] += page_bytes;
    }
    r.left -= held_bytes;
    return std::exchange(r.at, r.at + held_bytes);
  }

 private:
  struct run {
    std::uint64_t at = 0;
    std::uint64_t left = 0;
  };

  static std::uint64_t base_of(std::size_t bank) {
    constexpr std::uint64_t base = 0x10000000000;
    constexpr std::uint64_t apart = std::uint64_t{1} << 38U;
    return base + bank * apart;
  }

  const allocator_model& by_;
  std::vector<std::uint64_t> next_;
  std::map<std::pair<std::size_t, std::uint32_t>, run> runs_;
};

void assign_frames(snapshot& s, frame_model frames, std::mt19937_64& random) {
  // Physical addresses of 38 bits: a machine of 256 GiB.
  constexpr std::uint64_t frame_count = std::uint64_t{1} << 26U;
  constexpr std::uint64_t frames_of_huge = huge_page_bytes / page_bytes;
  std::uint64_t region = ~std::uint64_t{0};
  std::uint64_t region_frame = 0;
  const std::uint64_t start = frames_of_huge * 1000;
  for (page& p : s.pages) {
    switch (frames) {
      case frame_model::contiguous:
        p.set_frame(start + (p.number - s.pages.front().number) % frame_count);
        break;
      case frame_model::huge:
        if (p.number / frames_of_huge != region) {
          region = p.number / frames_of_huge;
          region_frame = random() % (frame_count / frames_of_huge) * frames_of_huge;
        }
        p.set_frame(region_frame + p.number % frames_of_huge);
        break;
      case frame_model::scattered:
        p.set_frame(random() % frame_count);
        break;
    }
    p.set_huge(frames == frame_model::huge);
  }
  s.frames_unknown.clear();
  s.huge_unknown.clear();
}

constexpr std::size_t malloc_alignment = 16;
constexpr block extra_block{64, malloc_alignment, memory_role::other};

memory_role role_of(const allocation_pattern& pattern, type_index type) noexcept {
  if (pattern.objects[type].type.name == "node") return memory_role::node;
  constexpr std::array others{memory_role::value, memory_role::descriptor, memory_role::leaf,
                              memory_role::other};
  return others[type % others.size()];
}

}  // namespace

std::span<const allocation_pattern> allocation_patterns() {
  static const std::vector<allocation_pattern> all = all_patterns();
  return all;
}

const allocation_pattern& allocation_pattern_named(std::string_view name) {
  std::string known;
  for (const allocation_pattern& p : allocation_patterns()) {
    if (p.name == name) return p;
    known += (known.empty() ? "" : ", ") + p.name;
  }
  throw std::invalid_argument(fmt::format("no pattern is called \"{}\": there are {}", name, known));
}

std::vector<type_index> order_of(const allocation_pattern& pattern) {
  std::vector<type_index> order;
  for (const char letter : pattern.order) {
    const auto found = std::ranges::find(pattern.objects, letter, &model_object::letter);
    if (found == pattern.objects.end())
      throw std::invalid_argument(
          fmt::format("pattern {}: no object has the letter '{}' of its order", pattern.name, letter));
    order.push_back(static_cast<type_index>(found - pattern.objects.begin()));
  }
  return order;
}

snapshot lay_out(const allocation_pattern& pattern, std::uint64_t rounds, std::uint64_t seed) {
  const allocator_model& by = pattern.allocator;
  model_heap heap(by);
  std::vector<block_type> types;
  for (const model_object& o : pattern.objects) {
    if (by.paged && heap.held(o.bytes) > page_bytes - by.header)
      throw std::invalid_argument(
          fmt::format("pattern {}: {} of {} bytes does not fit a page of {} behind {}", pattern.name,
                      o.type.name, o.bytes, page_bytes, by.header));
    types.push_back(o.type);
  }
  const std::vector<type_index> order = order_of(pattern);
  std::mt19937_64 random(seed);
  std::vector<live_block> blocks;
  blocks.reserve(rounds * order.size());
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (const type_index type : order) {
      const std::size_t bank = by.segregated ? type : 0;
      if (by.extra_percent != 0 && random() % 100 < by.extra_percent) heap.allocate(heap.held(64), bank);
      const std::uint32_t bytes = pattern.objects[type].bytes;
      const std::uint32_t held = heap.held(bytes);
      blocks.push_back({heap.allocate(held, bank), bytes, held - bytes, type});
    }
  }
  snapshot s = make_snapshot(pattern.name, std::move(types), std::move(blocks));
  s.facts.push_back({"model", pattern.description});
  assign_frames(s, by.frames, random);
  return s;
}

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
    free_all();
    throw;
  }
}

played_pattern::~played_pattern() { free_all(); }

block played_pattern::request(type_index type) const noexcept {
  const std::size_t bytes = pattern_.objects[type].bytes;
  const std::size_t align = bytes % malloc_alignment == 0 ? malloc_alignment : alignof(void*);
  return {bytes, align, role_of(pattern_, type)};
}

void played_pattern::free_all() noexcept {
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
