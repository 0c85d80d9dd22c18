// The simulated machine: what its caches hold; what an access finds at which level, does to the lines of other cores, and
// costs; the machines that there are. In scripts threads 0 and 1 are the cores of socket 0, threads 2 and 3 of socket 1, and
// all pages lie on node 0.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sim/machine/cache.hpp"
#include "sim/machine/machine.hpp"
#include "sim/machine/machine_spec.hpp"
#include "sim/machine/presets.hpp"
#include "support/refusal.hpp"
#include "tests/sim/machine_fixture.hpp"

namespace espalier::sim {
namespace {

std::vector<std::uint32_t> content(const cache& c) {
  std::vector<std::uint32_t> lines;
  c.visit([&](const cache::way& w) { lines.push_back(w.line()); });
  return lines;
}

TEST(machine_cache, replaces_the_least_recently_used) {
  cache c({1, 3});
  EXPECT_FALSE(c.insert(10));
  EXPECT_FALSE(c.insert(11));
  EXPECT_FALSE(c.insert(12));
  ASSERT_NE(c.use(10), nullptr);
  ASSERT_TRUE(c.victim_for(13));
  EXPECT_EQ(c.victim_for(13)->line(), 11u);
  EXPECT_EQ(c.insert(13)->line(), 11u);
  EXPECT_EQ(c.insert(14)->line(), 12u);
  EXPECT_EQ(content(c), (std::vector<std::uint32_t>{14, 13, 10}));
}

TEST(machine_cache, looking_is_not_using) {
  for (const unsigned tree_ways : {1u, 2u}) {
    cache c({1, 2}, tree_ways);
    c.insert(1);
    c.insert(2);
    EXPECT_TRUE(c.contains(1)) << tree_ways;
    EXPECT_NE(c.find(1), nullptr) << tree_ways;
    EXPECT_EQ(c.insert(3)->line(), 1u) << tree_ways;
  }
}

TEST(machine_cache, removed_ways_are_filled_first) {
  cache c({1, 3});
  for (const std::uint32_t line : {1u, 2u, 3u}) c.insert(line);
  EXPECT_TRUE(c.remove(2));
  EXPECT_FALSE(c.remove(2));
  EXPECT_EQ(content(c), (std::vector<std::uint32_t>{3, 1}));
  EXPECT_FALSE(c.insert(4));
  EXPECT_EQ(c.insert(5)->line(), 1u);
  c.clear();
  EXPECT_TRUE(content(c).empty());
}

TEST(machine_cache, marks_move_with_their_line) {
  cache c({1, 2});
  c.insert(1);
  c.find(1)->mark(true);
  c.insert(2);
  EXPECT_FALSE(c.find(2)->marked());
  EXPECT_TRUE(c.find(1)->marked());
  EXPECT_TRUE(c.insert(3)->marked());
  c.insert(1);
  EXPECT_FALSE(c.find(1)->marked());
}

TEST(machine_cache, holds_line_zero_and_the_largest) {
  cache c({1, 2});
  EXPECT_FALSE(c.contains(0));
  const auto largest = static_cast<std::uint32_t>(cache::line_limit - 1);
  EXPECT_FALSE(c.contains(largest));
  c.insert(0);
  c.insert(largest);
  EXPECT_TRUE(c.contains(0));
  EXPECT_TRUE(c.contains(largest));
  EXPECT_EQ(c.insert(5)->line(), 0u);
}

// With ways in trees.

TEST(machine_cache_in_trees, replaces_where_the_bits_lead) {
  cache c({1, 4}, 4);
  for (const std::uint32_t line : {10u, 11u, 12u, 13u}) EXPECT_FALSE(c.insert(line));
  ASSERT_NE(c.use(10), nullptr);
  // The other pair's, of which 13 was used later; exact order would take 11.
  EXPECT_EQ(c.victim_for(14)->line(), 12u);
  EXPECT_EQ(c.insert(14)->line(), 12u);
  EXPECT_EQ(content(c), (std::vector<std::uint32_t>{10, 11, 14, 13}));
  EXPECT_EQ(c.insert(15)->line(), 11u);
  EXPECT_EQ(c.use(11), nullptr);
}

TEST(machine_cache_in_trees, removed_ways_are_filled_first) {
  cache c({1, 4}, 4);
  for (const std::uint32_t line : {1u, 2u, 3u, 4u}) c.insert(line);
  EXPECT_TRUE(c.remove(4));
  EXPECT_FALSE(c.remove(4));
  EXPECT_EQ(c.use(4), nullptr) << "the latest used, but gone";
  EXPECT_FALSE(c.victim_for(5));
  EXPECT_FALSE(c.insert(5));
  EXPECT_EQ(content(c), (std::vector<std::uint32_t>{1, 2, 3, 5}));
  EXPECT_TRUE(c.remove(2));
  EXPECT_EQ(content(c), (std::vector<std::uint32_t>{1, 3, 5}));
  EXPECT_FALSE(c.insert(6));
  EXPECT_EQ(content(c), (std::vector<std::uint32_t>{1, 6, 3, 5})) << "the others stay in their ways";
  c.clear();
  EXPECT_TRUE(content(c).empty());
  EXPECT_FALSE(c.insert(6));
}

TEST(machine_cache_in_trees, marks_stay_with_their_line) {
  cache c({1, 2}, 2);
  c.insert(1);
  c.use(1)->mark(true);
  c.insert(2);
  EXPECT_TRUE(c.find(1)->marked());
  EXPECT_FALSE(c.use(2)->marked());
  EXPECT_TRUE(c.insert(3)->marked());
  EXPECT_FALSE(c.find(3)->marked());
}

TEST(machine_cache_in_trees, every_set_has_its_own) {
  cache c({2, 2, 2}, 2);
  std::set<unsigned> sets;
  for (std::uint32_t line = 0; line < 64; ++line) {
    c.insert(line);
    EXPECT_NE(c.use(line), nullptr) << line;
    sets.insert(c.set_of(line));
  }
  EXPECT_EQ(sets.size(), 4u);
  EXPECT_EQ(content(c).size(), 8u);
}

TEST(machine_cache, spreads_over_sets_that_are_no_power_of_two) {
  cache c({3, 1});
  for (std::uint32_t line = 0; line < 3; ++line) EXPECT_FALSE(c.insert(line));
  EXPECT_EQ(c.insert(4)->line(), 1u);
  EXPECT_EQ(c.insert(5)->line(), 2u);
}

TEST(machine_cache, uses_every_set_of_every_slice) {
  const cache c({4, 1, 6});
  std::set<unsigned> sets;
  for (std::uint32_t line = 0; line < 4096; ++line) {
    ASSERT_EQ(c.set_of(line), c.set_of(line));
    ASSERT_EQ(c.set_of(line) % 4, line % 4);
    sets.insert(c.set_of(line));
  }
  EXPECT_EQ(sets.size(), 24u);
  EXPECT_EQ(*sets.rbegin(), 23u);
}

struct shape {
  unsigned ways;
  unsigned tree_ways;
  /// Uses of others after which a way may be the victim.
  unsigned shortest;
};

class machine_pseudo_lru : public testing::TestWithParam<shape> {
 protected:
  static pseudo_lru used_at_random(std::mt19937& random) {
    pseudo_lru order(1, GetParam().ways, GetParam().tree_ways);
    for (unsigned i = 0; i < 100; ++i) order.use(0, static_cast<unsigned>(random() % GetParam().ways));
    return order;
  }

  /// Whether some sequence of so many uses of other ways makes `way` the victim.
  static bool can_become_victim(const pseudo_lru& order, unsigned way, unsigned uses) {
    if (order.victim(0) == way) return true;
    if (uses == 0) return false;
    for (unsigned other = 0; other < GetParam().ways; ++other) {
      if (other == way) continue;
      pseudo_lru next = order;
      next.use(0, other);
      if (can_become_victim(next, way, uses - 1)) return true;
    }
    return false;
  }
};

TEST_P(machine_pseudo_lru, misses_take_every_way_once) {
  std::mt19937 random(1);
  for (unsigned repeat = 0; repeat < 50; ++repeat) {
    pseudo_lru order = used_at_random(random);
    std::set<unsigned> taken;
    for (unsigned miss = 0; miss < GetParam().ways; ++miss) {
      const unsigned victim = order.victim(0);
      taken.insert(victim);
      order.use(0, victim);
      EXPECT_EQ(order.latest(0), victim);
    }
    EXPECT_EQ(taken.size(), GetParam().ways);
  }
}

TEST_P(machine_pseudo_lru, a_way_is_kept_for_so_many_uses_and_no_more) {
  std::mt19937 random(2);
  for (unsigned repeat = 0; repeat < 3; ++repeat) {
    pseudo_lru order = used_at_random(random);
    const auto way = static_cast<unsigned>(random() % GetParam().ways);
    order.use(0, way);
    EXPECT_FALSE(can_become_victim(order, way, GetParam().shortest - 1)) << way;
    EXPECT_TRUE(can_become_victim(order, way, GetParam().shortest)) << way;
  }
}

TEST_P(machine_pseudo_lru, using_the_latest_again_changes_nothing) {
  std::mt19937 random(3);
  pseudo_lru order = used_at_random(random);
  pseudo_lru again = order;
  for (unsigned i = 0; i < 5; ++i) again.use(0, order.latest(0));
  for (unsigned miss = 0; miss < 2 * GetParam().ways; ++miss) {
    ASSERT_EQ(again.victim(0), order.victim(0));
    again.use(0, again.victim(0));
    order.use(0, order.victim(0));
  }
}

INSTANTIATE_TEST_SUITE_P(shapes, machine_pseudo_lru,
                         testing::Values(shape{8, 8, 3}, shape{16, 16, 4}, shape{12, 4, 4}, shape{4, 2, 2},
                                         shape{4, 1, 3}, shape{2, 2, 1}),
                         [](const auto& param) {
                           return std::to_string(param.param.ways) + "_in_trees_of_" +
                                  std::to_string(param.param.tree_ways);
                         });

TEST(machine_pseudo_lru_trees, of_one_way_are_exact_lru_order) {
  std::mt19937 random(4);
  pseudo_lru order(1, 8, 1);
  std::vector<unsigned> oldest_first(8);
  std::iota(oldest_first.rbegin(), oldest_first.rend(), 0U);
  // As the order is after a clear.
  EXPECT_EQ(order.victim(0), 0U);
  for (const unsigned way : {7U, 6U, 5U, 4U, 3U, 2U, 1U, 0U}) order.use(0, way);
  for (unsigned i = 0; i < 1000; ++i) {
    ASSERT_EQ(order.victim(0), oldest_first.front());
    const auto way = static_cast<unsigned>(random() % 8);
    std::erase(oldest_first, way);
    oldest_first.push_back(way);
    order.use(0, way);
  }
}

// Known cases, by hand.
TEST(machine_pseudo_lru_trees, a_use_turns_the_path_away) {
  pseudo_lru order(1, 8, 8);
  for (unsigned way = 0; way < 8; ++way) order.use(0, way);
  EXPECT_EQ(order.victim(0), 0U);
  order.use(0, 0);
  EXPECT_EQ(order.victim(0), 4U);  // exact order: 1
  order.use(0, 5);
  EXPECT_EQ(order.victim(0), 2U);
  order.use(0, 2);
  EXPECT_EQ(order.victim(0), 6U);
}

TEST(machine_pseudo_lru_trees, the_tree_that_was_used_least_recently_gives_the_victim) {
  pseudo_lru order(1, 12, 4);
  for (unsigned way = 0; way < 12; ++way) order.use(0, way);
  EXPECT_EQ(order.victim(0), 0U);
  order.use(0, 3);
  EXPECT_EQ(order.victim(0), 4U);
  order.use(0, 4);
  EXPECT_EQ(order.victim(0), 8U);
  order.use(0, 9);
  // The first tree again: 3 was used, so that it leads to 0.
  EXPECT_EQ(order.victim(0), 0U);
}

TEST(machine_pseudo_lru_sets, are_apart_and_cleared_together) {
  pseudo_lru order(3, 8, 8);
  order.use(1, 0);
  EXPECT_EQ(order.victim(0), 0U);
  EXPECT_EQ(order.victim(1), 4U);
  EXPECT_EQ(order.victim(2), 0U);
  order.use(2, 3);
  EXPECT_EQ(order.latest(2), 3U);
  order.clear();
  for (const unsigned set : {0U, 1U, 2U}) {
    EXPECT_EQ(order.victim(set), 0U);
    EXPECT_EQ(order.latest(set), 0U);
  }
}

TEST(machine_pseudo_lru_shapes, that_are_possible) {
  for (const auto& [ways, tree_ways] : std::vector<std::pair<unsigned, unsigned>>{
           {8, 8}, {12, 4}, {16, 16}, {32, 32}, {32, 4}, {8, 1}, {1, 1}})
    EXPECT_TRUE(pseudo_lru::possible(ways, tree_ways)) << ways << ' ' << tree_ways;
  for (const auto& [ways, tree_ways] : std::vector<std::pair<unsigned, unsigned>>{
           {8, 0}, {12, 8}, {12, 12}, {12, 6}, {64, 64}, {32, 2}, {12, 1}})
    EXPECT_FALSE(pseudo_lru::possible(ways, tree_ways)) << ways << ' ' << tree_ways;
}

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

/// The script of a scene, word by word:
///   0r7=20+180   thread 0 reads 8 bytes of line 7 in so many cycles; w writes, a modifies atomically
///   0r0..8:4     lines 0, 4 and 8, each with the cost behind it
///   0r7+60/2     2 bytes from byte 60 of line 7
///   0f=30        a fence
///   0r5->9=4     what it reads is the address of line 9
///   @100         accesses begin at this cycle; without it, each when the queues of the one before are long empty
///   0.upgrades=1, .upgrades=1   a count of thread 0, and of all
///   l1:1:7, !llc:0:7            core 1's L1 has line 7; the last level of socket 0 has not
///   lost=0:7,1:9                the last access pushed written lines out of the L1s of cores 0 and 1; lost=, none
///   page:2=1     page 2 lies on node 1
///   huge         all pages are huge
///   reset        counts begin anew
class player {
 public:
  explicit player(paced_machine& on) : p_(on) {}

  void play(const std::string& script) {
    static const std::regex access(
        R"((\d)([rwaf])(\d*)(?:\.\.(\d+))?(?::(\d+))?(?:\+(\d+))?(?:/(\d+))?(?:->(\d+))?(?:=(.+))?)");
    static const std::regex count(R"((\d?)\.(\w+)=(.+))");
    static const std::regex holds(R"((!?)(l1|l2|llc):(\d):(\d+))");
    static const std::regex page(R"(page:(\d+)=(\d))");
    std::istringstream words(script);
    for (std::string word; words >> word;) {
      SCOPED_TRACE(word);
      std::smatch part;
      const auto number = [&](std::size_t i, std::uint64_t otherwise = 0) {
        return part.length(i) == 0 ? otherwise : std::stoull(part[i]);
      };
      if (word == "reset") {
        p_.m.reset_counts();
      } else if (word == "huge") {
        p_.m.set_page(0, p_.m.address_space_bytes(), {.huge = true, .numa_node = 0});
      } else if (word.front() == '@') {
        at_ = std::stoull(word.substr(1));
      } else if (word.starts_with("lost=")) {
        EXPECT_EQ(lost(), word.substr(5));
      } else if (std::regex_match(word, part, page)) {
        p_.m.set_page(number(1) * page_bytes, 1,
                      {.huge = false, .numa_node = static_cast<unsigned>(number(2))});
      } else if (std::regex_match(word, part, holds)) {
        EXPECT_EQ(held(part[2], static_cast<unsigned>(number(3)), number(4) * line_bytes),
                  part.length(1) == 0);
      } else if (std::regex_match(word, part, count)) {
        const counts c = part.length(1) == 0 ? p_.m.total() : p_.m.of(static_cast<unsigned>(number(1)));
        const auto field = std::ranges::find(counts_fields, part[2].str(), &counts_field::name);
        ASSERT_NE(field, counts_fields.end());
        EXPECT_EQ(c.*field->value, sum(part[3]));
      } else {
        ASSERT_TRUE(std::regex_match(word, part, access)) << "no word of a script";
        for (std::uint64_t line = number(3); line <= number(4, number(3)); line += number(5, 1)) {
          const std::uint64_t cycles =
              take(static_cast<unsigned>(number(1)), part[2].str().front(), line * line_bytes + number(6),
                   number(7, 8), part.length(8) == 0 ? load_window::no_address : number(8) * line_bytes);
          EXPECT_TRUE(part.length(9) == 0 || cycles == sum(part[9]))
              << "line " << line << " takes " << cycles;
        }
      }
    }
  }

 private:
  std::uint64_t take(unsigned thread, char what, std::uint64_t address, std::uint64_t bytes,
                     std::uint64_t value) {
    p_.now += 100'000;
    const std::uint64_t begin = at_.value_or(p_.now);
    if (what == 'f') return p_.m.fence(thread, begin);
    return p_.m.access(thread, begin, address, static_cast<unsigned>(bytes),
                       what == 'r'   ? touch::read
                       : what == 'w' ? touch::write
                                     : touch::atomic,
                       value);
  }
  [[nodiscard]] bool held(const std::string& level, unsigned where, std::uint64_t address) const {
    return level == "l1"   ? p_.m.l1_holds(where, address)
           : level == "l2" ? p_.m.l2_holds(where, address)
                           : p_.m.llc_holds(where, address);
  }
  [[nodiscard]] std::string lost() const {
    std::string all;
    for (const displaced_line& one : p_.m.displaced())
      all += (all.empty() ? "" : ",") + std::to_string(one.core) + ':' + std::to_string(one.line);
    return all;
  }
  /// Of a text such as 20+2*196.
  static std::uint64_t sum(const std::string& text) {
    std::istringstream in(text);
    std::uint64_t total = 0;
    std::uint64_t product = 1;
    std::uint64_t factor = 0;
    char sign = '+';
    while (in >> factor) {
      product *= factor;
      if (!(in >> sign) || sign == '+') total += std::exchange(product, 1);
    }
    return total;
  }

  paced_machine& p_;
  std::optional<std::uint64_t> at_;
};

std::string times(int n, const std::string& script) {
  std::string all;
  while (n-- > 0) all += script + ' ';
  return all;
}

/// Reads of n lines at a stride, each between two other pieces of a script.
std::string reads_between(const std::string& before, char thread, unsigned stride, unsigned n,
                          const std::string& after) {
  std::string all;
  for (unsigned i = 1; i <= n; ++i)
    all += before + ' ' + thread + 'r' + std::to_string(i * stride) + ' ' + after + ' ';
  return all;
}

/// The counts are those of the second round.
std::string twice(const std::string& script) { return script + " reset " + script + ' '; }

struct scene {
  const char* name;
  std::string script;
  void (*change)(machine_spec&) = [](machine_spec&) {};
  std::uint64_t bytes = tiny_bytes;
};

void not_inclusive(machine_spec& m) { m.llc_inclusive = false; }
void prefetching(machine_spec& m) { m.adjacent_line_prefetch = true; }
void two_cores_for_an_l2(machine_spec& m) {
  m.cores_per_socket = 4;
  m.cores_per_l2 = 2;
}
void walking(machine_spec& m) {
  m.latency.l2_tlb = 7;
  m.latency.page_walk = 25;
}
void with_channels(machine_spec& m) { m.latency.dram_occupancy = 50; }
void with_write_backs(machine_spec& m) {
  with_channels(m);
  m.write_backs_queue = true;
}
void with_window(machine_spec& m) {
  m.overlaps_loads = true;
  m.loads_in_flight = 2;
  m.window_accesses = 4;
}

class machine_access : public testing::TestWithParam<scene> {};

TEST_P(machine_access, goes_as_written) {
  machine_spec spec = tiny_spec();
  GetParam().change(spec);
  paced_machine p(spec, GetParam().bytes);
  p.place(0);
  player(p).play(GetParam().script);
  p.m.check_invariants();
}

std::string name_of(const testing::TestParamInfo<scene>& one) { return one.param.name; }

const std::vector<scene> levels{
    {"first_round_comes_from_memory",
     "0r0..7=180 0.local_dram=8 0.reads=8 0.accesses=8 0.cycles=8*180 0.stall_cycles=8*176"},
    {"working_set_of_the_l1_hits_it", twice("0r0..7") + ".l1_hits=8 .cycles=8*4 .stall_cycles=0"},
    {"twice_the_l1_never_hits_it", twice("0r0..15") + ".l1_hits=0 .l2_hits=16 .cycles=16*10"},
    {"twice_the_l2_never_hits_it", twice("0r0..63") + ".l1_hits=0 .l2_hits=0 .llc_hits=64 .cycles=64*40"},
    {"twice_the_last_level_never_hits_it", twice("0r0..255") + ".local_dram=256 .writebacks=0"},
    {"one_line_too_many_in_a_set_misses_always",
     twice("0r0..4:4") + ".l1_hits=2 " + twice("0r0..8:4") + ".l1_hits=0 " + twice("0r0..24:8") +
         ".l2_hits=4 " + twice("0r0..32:8") + ".llc_hits=5 " + twice("0r0..112:16") + ".llc_hits=8 " +
         twice("0r0..128:16") + ".local_dram=9"},
    {"two_lines_are_two_accesses",
     "@0 0r0+60=2*180 @1000 0r0/128=2*4 @2000 0r0+63/1=4 0r0+63/0=0 0.accesses=5 0.l1_hits=3"},
    {"modified_lines_are_written_back_once",
     "0w0..255 0.writebacks=128 0r0..255 0.writebacks=256 0r0..255 0.writebacks=256"},
    // Lines 12 to 36 are others of the L1 set, not of the last level's.
    {"a_hit_in_the_last_level_is_a_use",
     "0r0 1r16..112:16 0r12..36:8 2r0=150 1r0=40 1r128 llc:0:0 !llc:0:16"},
    // The L2 loses the line, as hits in the L1 do not use it there.
    {"a_modified_line_that_leaves_the_l1_goes_to_the_l2",
     "0w0 " + reads_between("", '0', 8, 4, "0r0") +
         "l1:0:0 !l2:0:0 0r4 0r12 !l1:0:0 l2:0:0 0.writebacks=0 0r0=10"},
    {"an_unmodified_line_that_leaves_the_l1_is_dropped",
     "0r0 " + reads_between("", '0', 8, 4, "0r0") + "0r4 0r12 !l2:0:0 0r0=40"},
    {"an_inclusive_last_level_takes_lines_from_the_l1",
     "0r0 " + reads_between("0r0=4", '1', 16, 8, "") + "!l1:0:0 !llc:0:0 1.back_invalidations=1 0r0=180"},
    {"a_modified_line_taken_back_is_written_to_memory",
     "0w0 1r16..128:16 1.back_invalidations=1 1.writebacks=1"},
    {"a_last_level_that_does_not_include_holds_what_the_private_caches_evict",
     "0r0..31 !llc:0:0 0r32 0.local_dram=33 !l2:0:0 llc:0:0 0r0=40 llc:0:0", not_inclusive},
    {"a_last_level_that_does_not_include_takes_nothing_from_the_l1",
     "0r0 1r1..255 0r0=4 .back_invalidations=0", not_inclusive},
    // When the pair is there, there is no further prefetch.
    {"a_prefetch_brings_the_other_line_of_the_pair",
     "0r5=180 l2:0:4 !l1:0:4 !l2:0:6 0r4=10 0.prefetches=1 0.accesses=2 0.local_dram=1 0.l2_hits=1 "
     "0r5 0.prefetches=1",
     prefetching},
    {"a_prefetch_leaves_a_line_that_another_core_has_modified",
     "1w4 1.prefetches=1 1w5 0r4 0.prefetches=0 !l2:0:5 1w5=1 1.upgrades=0", prefetching},
    // Each core has a TLB of its own.
    {"a_walk_is_added_once", "0r0=180+25 0r0=4 0r1=180 0.tlb_misses=1 0.page_walks=1 1r1=60+25", walking,
     64 * mib},
    {"reach_of_small_pages",
     twice("0r0..192:64") + ".tlb_misses=0 " + twice("0r0..256:64") + ".tlb_misses=5 .page_walks=0 " +
         twice("0r0..448:64") + ".page_walks=0 " + twice("0r0..512:64") + ".page_walks=9",
     walking, 64 * mib},
    // All small pages of two huge ones; then two and three huge ones, which the second level does not hold.
    {"reach_of_huge_pages",
     "huge " + twice("0r0..65472:64") + ".tlb_misses=0 " + twice("0r0..32768:32768") + ".tlb_misses=0 " +
         twice("0r0..65536:32768") + ".tlb_misses=3 .page_walks=3",
     walking, 64 * mib},
};
INSTANTIATE_TEST_SUITE_P(levels, machine_access, testing::ValuesIn(levels), name_of);

const std::vector<scene> written_lines_that_an_l1_could_not_keep{
    // Line 4 was only read, and line 0 is told once.
    {"a_written_line_that_others_push_out_of_the_l1_is_told", "1w0 1r4 lost= 1r8 lost=1:0 1r12 lost="},
    {"a_written_line_in_use_stays",
     "0w0 " + reads_between("", '0', 4, 10, "lost= 0r0") + "0r44 0r48 lost=0:0"},
    {"one_access_may_displace_two", "0w0 0r4 0w1 0r5 0w8/128 lost=0:0,0:1"},
    // In the end both have read the line, which is then no core's written one.
    {"a_line_that_another_core_takes_is_not_displaced",
     "0w0 1r0 lost= 0w0 1w0 lost= 0r0 1r4 1r8 !l1:1:0 lost="},
    {"a_written_line_that_an_inclusive_last_level_takes_back_is_told",
     "0w0 " + reads_between("0r0", '1', 16, 7, "lost=") + "1r128 !l1:0:0 lost=0:0"},
    {"a_line_read_that_an_inclusive_last_level_takes_back_is_not",
     "0r0 " + reads_between("0r0", '1', 16, 8, "lost=") + "!l1:0:0"},
};
INSTANTIATE_TEST_SUITE_P(displaced, machine_access,
                         testing::ValuesIn(written_lines_that_an_l1_could_not_keep), name_of);

const std::vector<scene> coherence{
    {"writing_a_line_that_no_other_core_holds_asks_none",
     "0r7 0w7 0w7 0.l1_hits=2 0.upgrades=0 0.stall_cycles=176"},
    {"two_readers_of_a_socket_then_a_writer",
     "0r7=180 1r7=60 1.llc_hits=1 0a7=20+90 0.l1_hits=1 0.upgrades=1 0.local_invalidations=1 "
     "0.remote_invalidations=0 !l1:1:7 1r7=80 1.local_transfers=1 .remote_transfers=0"},
    {"readers_of_two_sockets_then_a_writer",
     "0r7 2r7=150 2.remote_transfers=1 3r7=40 3.llc_hits=1 0a7=20+210 0.upgrades=1 0.local_invalidations=0 "
     "0.remote_invalidations=1 !llc:1:7 !l1:2:7 !l1:3:7"},
    {"ping_pong_is_one_remote_transfer_a_write",
     "0w7 reset " + times(10, "2a7=20+196 0a7=20+196") +
         ".remote_transfers=20 .local_transfers=0 .remote_invalidations=0 .local_invalidations=0 .upgrades=0 "
         ".writebacks=0"},
    {"ping_pong_in_a_socket_is_local",
     "0w7 reset " + times(10, "1a7=20+76 0a7=20+76") + ".local_transfers=20 .remote_transfers=0"},
    {"write_miss_on_shared_lines_invalidates_each_core_here_and_each_socket_there",
     "0r7 2r7 3r7 1a7=20+210 1.llc_hits=1 1.upgrades=0 1.local_invalidations=1 1.remote_invalidations=1"},
    {"modified_line_read_from_elsewhere_is_written_back_and_shared",
     "0w7 2r7=200 2.remote_transfers=1 2.writebacks=1 l1:0:7 0r7=4 0a7=20+210 0.upgrades=1"},
    // Memory does not have the contents, so that another socket must take them from this one.
    {"modified_line_read_in_the_socket_is_dirty_in_the_last_level",
     "0w7 1r7=80 1.writebacks=0 2r7=200 2.writebacks=1 3r7=40"},
    {"clean_elsewhere_and_at_home_here_comes_from_here", "2r7 2.remote_dram=1 0r7=180 0.local_dram=1"},
    {"clean_at_its_remote_home_comes_from_there", "0r7 2r7=150 2.remote_transfers=1 2.remote_dram=0"},
    // The home's own caches answer in either case.
    {"clean_lines_are_forwarded_from_a_third_socket_where_that_is_faster",
     "page:0=2 0r7 2r7=150 2.remote_transfers=1 2.remote_dram=0 4r8 2r8=150 2.remote_transfers=2",
     [](machine_spec& m) { m.sockets = 3; }},
    {"clean_lines_are_not_forwarded_from_a_third_socket_where_that_is_slower",
     "page:0=2 0r7 2r7=300 2.remote_transfers=0 2.remote_dram=1 4r8 2r8=301 2.remote_transfers=1",
     [](machine_spec& m) {
       m.sockets = 3;
       m.latency.remote_clean = 301;
     }},
    {"a_shared_line_that_others_dropped_is_still_asked_for",
     "0r0 1r0 1r8..32:8 !l1:1:0 !l2:1:0 0a0=20+40 0.upgrades=1 0.local_invalidations=0"},
    {"a_write_of_a_clean_exclusive_line_elsewhere_moves_it",
     "page:0=1 2r7 0a7=20+146 0.remote_transfers=1 0.remote_invalidations=0 !l1:2:7"},
    {"threads_of_a_core_share_its_caches", "0w7 1w7=1 1.l1_hits=1",
     [](machine_spec& m) { m.threads_per_core = 2; }},
    {"a_core_serves_what_a_last_level_that_does_not_include_lacks",
     "0r7 1r7=80 1.local_transfers=1 1a7=20+90 1.local_invalidations=1 0r7=80 0.writebacks=1", not_inclusive},
    {"a_written_line_leaves_a_last_level_that_does_not_include", "0r0..32:8 llc:0:0 0r0=40 0w0 !llc:0:0",
     not_inclusive},
    {"cores_of_one_l2_read_each_others_lines_there", "0w7 1r7=10 1.l2_hits=1 1.local_transfers=0",
     two_cores_for_an_l2},
    // Core 0 reads the line again: core 1 must then take it from there again.
    {"a_write_takes_the_line_from_the_other_l1",
     "0r7 1r7 1w7 1.local_invalidations=1 1.upgrades=0 !l1:0:7 0r7=10 1w7 1.local_invalidations=2",
     two_cores_for_an_l2},
    {"another_l2_of_the_socket_is_another_private_cache", "0w7 2r7=80 2.local_transfers=1",
     two_cores_for_an_l2},
};
INSTANTIATE_TEST_SUITE_P(coherence, machine_access, testing::ValuesIn(coherence), name_of);

// A line comes from memory 176 cycles after it was asked for, and from another socket after 196.
const std::vector<scene> timing{
    {"requests_for_one_line_queue_and_those_for_another_do_not",
     "@0 0a0 @1000 2a0=20+196 0a0=20+2*196 3a0=20+3*196 3.queue_cycles=2*196 3.stall_cycles=3*196 0r1=180"},
    // From 3000 on: asking the owner keeps the line busy.
    {"a_line_on_its_way_is_waited_for",
     "@0 0r0 @100 1r0=76+60 @1000 0r0=4 @2000 0r1 @3000 1r1=60 2r1=56+150"},
    {"a_second_hit_in_the_last_level_keeps_no_core_waiting", "@0 0r0 @1000 2r0 @2000 1r0 3r0=40"},
    {"memory_channels_queue",
     "page:2=1 @0 0r0=180 1r64=50+180 @30 2r1=70+300 @0 3r128=180 @1000 0r2=180 1.queue_cycles=50",
     with_channels},
    // Lines 0 and 1 lie in core 0, lines 64 and 65 in the memory of the other socket.
    {"links_queue_by_direction",
     "page:1=1 @0 0a0 0a1 @1000 2a0=20+196 2a1=20+30+196 0a64=20+296 0a65=20+30+296 2.queue_cycles=30",
     [](machine_spec& m) { m.latency.link_occupancy = 30; }},
    // The request of core 0 for line 0 waits for the line, and the link from socket 1 meanwhile carries line 1.
    {"a_request_that_waits_for_its_line_leaves_the_link_to_others",
     "@0 0a0 2a1 @1000 2a0=20+196 0a0=20+2*196 0a1=20+30+196",
     [](machine_spec& m) { m.latency.link_occupancy = 30; }},
    {"a_modified_line_that_is_read_elsewhere_occupies_its_memory",
     "@0 0a0 @1000 2r0=200 2.writebacks=1 1r2=50+180", with_write_backs},
    {"memory_accepts_32_lines_before_it_has_written_them", "@0 0a0..33 @100000 2r0..31 2r32=200 2r33=50+200",
     with_write_backs},
    {"and_the_link_to_its_memory", "page:1=1 @0 0a64 0a1 @1000 2r64=200 2a1=20+60+196",
     [](machine_spec& m) {
       m.latency.link_occupancy = 30;
       m.write_backs_queue = true;
     }},
    {"one_that_is_written_elsewhere_occupies_nothing", "@0 0a0 @1000 2a0=20+196 1r2=180", with_write_backs},
    {"a_modified_line_comes_from_its_owner_not_from_its_home", "@0 2a0 @1000 4a0=20+196 4a2=20+296",
     [](machine_spec& m) {
       m.sockets = 3;
       m.latency.link_occupancy = 30;
     }},
    {"prefetches_use_the_link", "page:1=1 @0 0r64 0r66=30+30+300",
     [](machine_spec& m) {
       m.latency.link_occupancy = 30;
       prefetching(m);
     }},
    {"prefetches_use_the_channel", "@0 0r0 0r2=100+180",
     [](machine_spec& m) {
       with_channels(m);
       prefetching(m);
     }},
    // It has four places.
    {"stores_are_buffered_until_the_buffer_is_full",
     "@0 0w0=1 @1 0w1=1 @2 0w2=1 @3 0w3=1 @4 0w4=1+172 0.stall_cycles=172 0.writes=5"},
    // The second store hits, and still is visible only after the first, at 177.
    {"a_buffered_store_keeps_its_order", "@0 0w0 @1 0w0=1 @10 0f=167+30 @1000 0f=30 0.fences=2"},
    {"an_atomic_drains_the_buffer", "@0 0a1 @1000 0a1=20 @2000 0w0 @2001 0a1=20+175 0.atomics=3"},
    {"a_read_does_not_wait_for_stores", "@0 0w0 @1 0r0=4 @2 0r0+4/4=4"},
    // At 100 of a part of the bytes.
    {"a_read_waits_for_the_line_that_a_store_has_asked_for",
     "@0 0w0 @1 0r0+8=4+175 @100 0r0+4=4+76 @175 0r0+63/1=4+1 @176 0r0+8=4 0.l1_hits=4 "
     "0.stall_cycles=175+76+1"},
    {"a_read_of_what_several_stores_have_written_does_not_wait",
     "@0 0w0 @1 0w0+8 @2 0r0/16=4 0r0/17=4+174 1.accesses=0"},
    {"a_read_of_a_line_that_is_there_does_not_wait_for_a_store_that_makes_it_writable",
     "@0 0r0 @1000 1r0 @2000 0w0=1 @2001 0r0+8=4"},
};
INSTANTIATE_TEST_SUITE_P(timing, machine_access, testing::ValuesIn(timing), name_of);

// Loads that miss overlap: two lines at once, and four accesses beyond the oldest. Line 8 is a hit from the start.
const std::vector<scene> window{
    {"loads_overlap_and_the_third_waits_for_a_place",
     "@0 0r0=1 @4 0r1=1 @8 0r2=1+172 0.reads=3 0.stall_cycles=172", with_window},
    {"without_one_each_waits", "@0 0r0=180 @180 0r1=180"},
    // Line 4 lies below the address, and line 100 is another object.
    {"what_follows_a_pointer_waits_for_it", "@0 0r0->5=1 @4 0r4=1 @8 0r5=1+172 @1000 0r1->5=1 @1004 0r100=1",
     with_window},
    {"what_follows_a_pointer_waits_for_a_hit_too",
     "0r8 0r5 @200000 0r8->5=1 @200001 0r5=1+3 @200010 0r8->5=1 @200014 0r5=1", with_window},
    {"a_line_comes_with_the_one_that_has_brought_it", "@0 0r0=1 @4 0r1->5=1 @8 0r5=1+172",
     [](machine_spec& m) {
       with_window(m);
       prefetching(m);
     }},
    {"both_take_a_place", "@0 0r0=1 @4 0r2=1+176",
     [](machine_spec& m) {
       with_window(m);
       prefetching(m);
     }},
    {"there_is_room_for_sixteen_loads",
     "@0 0r0=1 @1 0r0=1 @2 0r0=1 @3 0r0=1 @4 0r0=1 @5 0r0=1 @6 0r0=1 @7 0r0=1 @8 0r0=1 @9 0r0=1 @10 0r0=1 "
     "@11 0r0=1 "
     "@12 0r0=1 @13 0r0=1 @14 0r0=1 @15 0r0=1 @16 0r0=1+164",
     [](machine_spec& m) {
       with_window(m);
       m.window_accesses = 48;
     }},
    {"a_field_is_below_its_objects_end", "@0 0r0->5=1 @4 0r68=1+176 @1000 0r1->5=1 @1004 0r69=1",
     with_window},
    {"another_word_of_a_line_on_its_way_comes_with_it", "@0 0r0=1 @4 0r0+8->5=1 @8 0r5=1+172", with_window},
    {"the_window_reaches_so_far_and_no_farther",
     "0r8 @200000 0r0=1 @200004 0r8=1 @200008 0r8=1 @200012 0r8=1 @200016 0r8=1 @200020 0r8=1+160",
     with_window},
    {"an_atomic_waits_for_the_loads_before_it", "0a8 @200000 0r0=1 @200010 0a8=20+170", with_window},
    {"a_fence_waits_for_the_loads_before_it", "@0 0r0=1 @10 0f=170+30", with_window},
    {"a_store_is_seen_after_the_loads_before_it", "0w8 @200000 0r0=1 @200010 0w8=1 @200020 1a8=20+160+76",
     with_window},
    {"a_store_is_seen_at_once_where_no_load_is_on_its_way", "0w8 @200010 0w8=1 @200020 1a8=20+76",
     with_window},
};
INSTANTIATE_TEST_SUITE_P(window, machine_access, testing::ValuesIn(window), name_of);

TEST(machine_window, is_shared_by_the_threads_of_a_core) {
  machine_spec spec = tiny_spec();
  spec.threads_per_core = 2;
  with_window(spec);
  machine m(spec, tiny_bytes);
  m.set_page(0, tiny_bytes, {.huge = false, .numa_node = 0});
  m.set_running(0, true);
  m.set_running(1, true);
  EXPECT_EQ(m.access(0, 0, 0, 8, touch::read), 2u);
  EXPECT_EQ(m.access(1, 0, 128, 8, touch::read), 2u);
  EXPECT_EQ(m.access(0, 6, 64, 8, touch::read), 2u + 174u) << "both lines are on their way";
  EXPECT_EQ(m.access(1, 400, 192, 8, touch::read), 2u);
  EXPECT_EQ(m.access(1, 406, 256, 8, touch::read), 2u) << "the other thread waits for no line then";
  // Each thread goes on for two accesses, half of four.
  EXPECT_EQ(m.access(0, 1000, 320, 8, touch::read), 2u);
  EXPECT_EQ(m.access(0, 1010, 0, 8, touch::read), 2u);
  EXPECT_EQ(m.access(0, 1020, 0, 8, touch::read), 2u);
  EXPECT_EQ(m.access(0, 1030, 0, 8, touch::read), 2u + 150u);
}

TEST(machine_smt, a_thread_that_waits_leaves_its_core_to_the_other) {
  machine_spec spec = tiny_spec();
  spec.threads_per_core = 2;
  spec.waiting_frees_core = true;
  machine m(spec, tiny_bytes);
  m.set_page(0, tiny_bytes, {.huge = false, .numa_node = 0});
  m.set_running(0, true);
  m.set_running(1, true);
  m.access(0, 0, 0, 8, touch::read);
  EXPECT_EQ(m.access(1, 1000, 64, 8, touch::read), 6u + 176u) << "the other executes";
  EXPECT_EQ(m.access(0, 1100, 0, 8, touch::read), 4u) << "the other waits for its line until 1176";
  EXPECT_EQ(m.access(0, 1176, 0, 8, touch::read), 6u);
  EXPECT_EQ(m.work(0, 1176, 10), 15u);
  m.waits(1, 2000);
  EXPECT_EQ(m.work(0, 1999, 10), 10u) << "it waits in a loop";
  EXPECT_EQ(m.work(0, 2000, 10), 15u);
}

// Where pages lie, and what a TLB holds.

TEST(machine_pages, first_touch_decides_the_home) {
  paced_machine p(tiny_spec());
  EXPECT_EQ(p.m.home_of(0), std::nullopt);
  EXPECT_EQ(p.read(2, 0), 180u);
  EXPECT_EQ(p.m.home_of(0), 1u);
  EXPECT_EQ(p.m.home_of(page_bytes - 1), 1u);
  EXPECT_EQ(p.m.home_of(page_bytes), std::nullopt);
  EXPECT_EQ(p.read(0, 1), 300u);
  EXPECT_EQ(p.m.of(0).remote_dram, 1u);
  EXPECT_EQ(p.m.of(2).local_dram, 1u);
}

TEST(machine_pages, homes_can_be_touched_without_time) {
  paced_machine p(tiny_spec());
  p.m.first_touch(5000, 1);
  p.m.first_touch(5000, 0);
  EXPECT_EQ(p.m.home_of(4096), 1u);
  EXPECT_EQ(p.m.total(), counts{});
  EXPECT_EQ(p.read(0, 64), 300u);
}

TEST(machine_pages, set_page_places_whole_pages_again) {
  paced_machine p(tiny_spec());
  p.m.first_touch(0, 0);
  p.m.set_page(100, page_bytes, {.huge = false, .numa_node = 1});
  EXPECT_EQ(p.m.home_of(0), 1u);
  EXPECT_EQ(p.m.home_of(2 * page_bytes - 1), 1u);
  EXPECT_EQ(p.m.home_of(2 * page_bytes), std::nullopt);
  p.m.set_page(0, 1, {});
  EXPECT_EQ(p.m.home_of(0), std::nullopt);
}

TEST(machine_pages, a_huge_page_has_one_home) {
  paced_machine p(tiny_spec(), 8 * mib);
  p.m.set_page(2 * mib, 4 * mib, {.huge = true, .numa_node = std::nullopt});
  p.read(2, 3 * mib / line_bytes);
  EXPECT_EQ(p.m.home_of(2 * mib), 1u);
  EXPECT_EQ(p.m.home_of(4 * mib - 1), 1u);
  EXPECT_EQ(p.m.home_of(4 * mib), std::nullopt);
  EXPECT_EQ(p.m.home_of(2 * mib - 1), std::nullopt);
}

TEST(machine_pages, bad_ranges_are_named) {
  paced_machine p(tiny_spec(), 8 * mib);
  EXPECT_THROW(p.m.set_page(8 * mib, 1, {}), std::invalid_argument);
  EXPECT_THROW(p.m.set_page(0, ~std::uint64_t{0}, {}), std::invalid_argument);
  EXPECT_THROW(p.m.set_page(mib, 2 * mib, {.huge = true, .numa_node = 0}), std::invalid_argument);
  EXPECT_THROW(p.m.first_touch(8 * mib, 0), std::invalid_argument);
  EXPECT_THROW(p.m.first_touch(0, 2), std::invalid_argument);
  EXPECT_EQ(test::refusal([&] { p.m.set_page(0, 1, {.huge = false, .numa_node = 2}); }),
            "machine \"tiny\" has NUMA nodes 0 to 1, not 2");
  EXPECT_NO_THROW(p.m.access(0, 0, 8 * mib - 8, 8, touch::read));
  EXPECT_EQ(test::refusal([&] { p.m.access(0, 0, 8 * mib - 7, 8, touch::read); }),
            "machine: 8 bytes at address 8388601 leave the address space of 8388608 bytes");
  EXPECT_THROW(p.m.access(0, 0, ~std::uint64_t{0}, 8, touch::read), std::invalid_argument);
  EXPECT_THROW(machine(tiny_spec(), 0), std::invalid_argument);
  EXPECT_THROW(machine(tiny_spec(), std::uint64_t{128} << 30), std::invalid_argument);
}

TEST(machine_tlb_kinds, a_second_level_may_hold_huge_pages) {
  hw::tlb_shape spec = tiny_spec().tlb;
  spec.l2_holds_huge = true;
  tlb t(spec);
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(t.translate(i * huge_page_bytes, true), tlb::outcome::walk);
  EXPECT_EQ(t.translate(0, true), tlb::outcome::l2_hit);
  EXPECT_EQ(t.translate(0, true), tlb::outcome::l1_hit);
  // The small page at the same address is another page.
  EXPECT_EQ(t.translate(0, false), tlb::outcome::walk);
  t.flush();
  EXPECT_EQ(t.translate(0, false), tlb::outcome::walk);
}

TEST(machine_tlb_kinds, without_an_array_for_huge_pages_each_is_walked) {
  hw::tlb_shape spec = tiny_spec().tlb;
  spec.l1_huge = {};
  tlb t(spec);
  EXPECT_EQ(t.translate(0, true), tlb::outcome::walk);
  EXPECT_EQ(t.translate(0, true), tlb::outcome::walk);
}

TEST(machine_threads, that_share_a_core_slow_each_other) {
  machine_spec spec = tiny_spec();
  spec.threads_per_core = 2;
  machine m(spec, tiny_bytes);
  EXPECT_EQ(m.core_of(1), 0u);
  EXPECT_EQ(m.core_of(2), 1u);
  EXPECT_EQ(m.socket_of(3), 0u);
  EXPECT_EQ(m.socket_of(4), 1u);
  m.access(0, 0, 0, 8, touch::read);
  m.set_running(0, true);
  m.set_running(0, true);
  EXPECT_EQ(m.access(0, 1000, 0, 8, touch::read), 4u);
  EXPECT_EQ(m.work(0, 0, 100), 100u);
  m.set_running(1, true);
  EXPECT_EQ(m.access(0, 2000, 0, 8, touch::read), 6u);
  EXPECT_EQ(m.work(0, 0, 100), 150u);
  EXPECT_EQ(m.work(2, 0, 100), 100u);
  EXPECT_EQ(m.fence(0, 3000), 45u);
  // What is waited for takes as long as before.
  EXPECT_EQ(m.access(0, 4000, 64, 8, touch::read), 6u + 176);
  m.set_running(1, false);
  EXPECT_EQ(m.access(0, 5000, 0, 8, touch::read), 4u);
}

struct property_shape {
  const char* name;
  bool inclusive;
  unsigned cores_per_l2;
  bool prefetch;
  unsigned l1_tree_ways = 1;
};

class machine_property : public ::testing::TestWithParam<property_shape> {
 protected:
  /// Caches smaller than the lines in use, so that everything is evicted all the time.
  static machine_spec spec() {
    machine_spec m = tiny_spec();
    m.sockets = 3;
    m.cores_per_socket = 4;
    m.threads_per_core = 2;
    m.cores_per_l2 = GetParam().cores_per_l2;
    m.llc_inclusive = GetParam().inclusive;
    m.adjacent_line_prefetch = GetParam().prefetch;
    m.l1 = {2, 2};
    m.l1_tree_ways = GetParam().l1_tree_ways;
    m.l2 = {2, 3};
    m.llc = {4, 3};
    m.latency.dram_occupancy = 5;
    return m;
  }

  /// Every latency of a random run; `check` is called after each access.
  template <class Check>
  static std::vector<std::uint64_t> run(machine& m, unsigned accesses, unsigned seed, Check check) {
    std::mt19937 random(seed);
    std::vector<std::uint64_t> clocks(m.spec().hardware_threads(), 0);
    std::vector<std::uint64_t> latencies;
    for (unsigned i = 0; i < accesses; ++i) {
      const auto thread = static_cast<unsigned>(random() % clocks.size());
      const std::uint64_t address = random() % (m.address_space_bytes() - 16);
      const auto kind = static_cast<touch>(random() % 3);
      latencies.push_back(m.access(thread, clocks[thread], address, 1 + random() % 16, kind));
      clocks[thread] += latencies.back();
      if (random() % 50 == 0) clocks[thread] += m.fence(thread, clocks[thread]);
      check();
    }
    return latencies;
  }

  static void expect_balanced(const counts& c) {
    EXPECT_EQ(c.accesses, c.reads + c.writes + c.atomics);
    EXPECT_EQ(c.accesses, c.l1_hits + c.l2_hits + c.llc_hits + c.local_transfers + c.remote_transfers +
                              c.local_dram + c.remote_dram);
    EXPECT_LE(c.queue_cycles, c.stall_cycles + c.writes * 100'000);
    EXPECT_LE(c.stall_cycles, c.cycles);
    EXPECT_LE(c.page_walks, c.tlb_misses);
  }
};

TEST_P(machine_property, invariants_hold_after_each_access) {
  machine m(spec(), 48 * line_bytes);
  run(m, 6000, 1, [&] { ASSERT_NO_THROW(m.check_invariants()); });
  const counts c = m.total();
  expect_balanced(c);
  // The run reached what it is there for.
  for (const counts_field& field : counts_fields) {
    const bool inclusive_only = field.name == "back_invalidations";
    const bool prefetch_only = field.name == "prefetches";
    if ((inclusive_only && !GetParam().inclusive) || (prefetch_only && !GetParam().prefetch))
      EXPECT_EQ(c.*field.value, 0u) << field.name;
    else
      EXPECT_GT(c.*field.value, 0u) << field.name;
  }
}

TEST_P(machine_property, a_run_can_be_repeated) {
  machine a(spec(), 48 * line_bytes);
  machine b(spec(), 48 * line_bytes);
  const auto nothing = [] {};
  EXPECT_EQ(run(a, 5000, 2, nothing), run(b, 5000, 2, nothing));
  for (unsigned thread = 0; thread < a.spec().hardware_threads(); ++thread)
    EXPECT_EQ(a.of(thread), b.of(thread));
}

TEST_P(machine_property, resetting_counts_changes_nothing_else) {
  machine a(spec(), 48 * line_bytes);
  machine b(spec(), 48 * line_bytes);
  const auto nothing = [] {};
  run(a, 1000, 3, nothing);
  run(b, 1000, 3, nothing);
  const counts before = a.total();
  b.reset_counts();
  EXPECT_EQ(b.total(), counts{});
  EXPECT_EQ(run(a, 1000, 4, nothing), run(b, 1000, 4, nothing));
  EXPECT_EQ(a.total() - before, b.total());
}

INSTANTIATE_TEST_SUITE_P(shapes, machine_property,
                         ::testing::Values(property_shape{"inclusive", true, 1, false},
                                           property_shape{"inclusive_modules", true, 2, true},
                                           property_shape{"inclusive_prefetch", true, 1, true},
                                           property_shape{"not_inclusive", false, 1, true},
                                           property_shape{"inclusive_trees", true, 1, true, 2},
                                           property_shape{"modules_in_trees", false, 2, true, 2},
                                           property_shape{"not_inclusive_modules", false, 2, false}),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(machine_property_presets, invariants_hold_at_the_end) {
  for (const machine_spec& spec : presets()) {
    SCOPED_TRACE(spec.name);
    machine m(spec, 4 << 20);
    std::mt19937 random(5);
    std::vector<std::uint64_t> clocks(spec.hardware_threads(), 0);
    for (int i = 0; i < 60'000; ++i) {
      const auto thread = static_cast<unsigned>(random() % clocks.size());
      const auto kind = random() % 8 == 0 ? touch::atomic : touch::read;
      clocks[thread] += m.access(thread, clocks[thread], random() % (2 << 20), 8, kind);
    }
    EXPECT_NO_THROW(m.check_invariants());
    EXPECT_GE(m.total().accesses, 60'000u);
  }
}

TEST(machine_presets, are_valid_and_listed_in_order) {
  for (const machine_spec& m : presets()) {
    EXPECT_NO_THROW(validate(m));
    EXPECT_FALSE(m.description.empty());
    EXPECT_EQ(&preset(m.name), &m);
  }
  EXPECT_EQ(test::refusal([] { return preset("e7-4850"); }),
            "no simulated machine \"e7-4850\": there are abu_dhabi, haswell, e7_4850, e5_2650_htm, i7_4770, "
            "emerald_rapids");
}

struct totals {
  const char* name;
  unsigned sockets, cores, threads;
  std::uint64_t l1, l2, llc;  // KiB
  bool prefetch, transactions;
};

TEST(machine_presets, totals) {
  constexpr totals expected[] = {
      {"abu_dhabi", 8, 64, 64, 16, 2048, 8 * 1024, false, false},
      {"haswell", 2, 24, 48, 32, 256, 30 * 1024, true, false},
      {"e7_4850", 4, 40, 80, 32, 256, 24 * 1024, true, false},
      {"e5_2650_htm", 2, 20, 20, 32, 256, 25 * 1024, true, true},
      {"i7_4770", 1, 4, 8, 32, 256, 8 * 1024, true, true},
      {"emerald_rapids", 1, 8, 16, 48, 2048, 40 * 1024, true, true},
  };
  for (const totals& t : expected) {
    SCOPED_TRACE(t.name);
    const machine_spec& m = preset(t.name);
    EXPECT_EQ(m.sockets, t.sockets);
    EXPECT_EQ(m.cores(), t.cores);
    EXPECT_EQ(m.hardware_threads(), t.threads);
    EXPECT_EQ(m.l1.bytes(), t.l1 * 1024);
    EXPECT_EQ(m.l2.bytes(), t.l2 * 1024);
    EXPECT_EQ(m.llc.bytes(), t.llc * 1024);
    EXPECT_EQ(m.llc_inclusive, m.name != "abu_dhabi" && m.name != "emerald_rapids");
    EXPECT_EQ(m.adjacent_line_prefetch, t.prefetch);
    ASSERT_EQ(m.transactions.has_value(), t.transactions);
    if (m.transactions) {
      EXPECT_EQ(m.transactions->write_sets, m.l1.sets);
      EXPECT_EQ(m.transactions->write_ways, m.l1.ways);
      // Haswells follow what was read as far as the L3, which includes the other caches.
      EXPECT_EQ(m.transactions->read_set_lines, m.llc_inclusive ? m.llc.lines() : m.l2.lines());
    }
  }
}

TEST(machine_presets, latencies_rise_with_distance) {
  for (const machine_spec& m : presets()) {
    SCOPED_TRACE(m.name);
    const latency_spec& l = m.latency;
    EXPECT_LT(l.l1, l.l2);
    EXPECT_LT(l.l2, l.llc);
    EXPECT_LT(l.llc, l.llc_snoop);
    EXPECT_LE(l.llc_snoop, l.local_transfer);
    EXPECT_LT(l.local_transfer, l.remote_transfer);
    EXPECT_LT(l.llc, l.local_dram);
    EXPECT_LE(l.local_dram, l.remote_dram);
  }
}

TEST(machine_presets, nanoseconds_become_cycles) {
  EXPECT_EQ(preset("haswell").latency.local_dram, 202u);      // 96.4 ns at 2.1 GHz
  EXPECT_EQ(preset("e5_2650_htm").latency.local_dram, 222u);  // at 2.3 GHz
  EXPECT_EQ(preset("e7_4850").latency.remote_dram, 396u);     // 198 ns at 2.0 GHz
  EXPECT_EQ(preset("emerald_rapids").latency.llc, 125u);      // 43 ns at 2.9 GHz
}

// What was measured on such a processor: 768 lines one behind the other, and 12 in one set.
TEST(machine_presets, transactions_of_the_emerald_rapids) {
  const auto& t = preset("emerald_rapids").transactions;
  ASSERT_TRUE(t);
  EXPECT_EQ(t->write_sets * t->write_ways, 768u);
  EXPECT_EQ(t->write_ways, 12u);
  EXPECT_TRUE(t->keeps_written);
  EXPECT_FALSE(preset("i7_4770").transactions->keeps_written) << "not known";
}

// As Abel and Reineke measured the processors, or their kin; without transactions it hardly matters, and order is exact.
TEST(machine_presets, trees_of_the_l1) {
  const auto trees = [](const char* name) { return preset(name).l1_tree_ways; };
  EXPECT_EQ(trees("i7_4770"), 8u);
  EXPECT_EQ(trees("e5_2650_htm"), 8u);
  EXPECT_EQ(trees("emerald_rapids"), 4u);
  for (const char* name : {"abu_dhabi", "haswell", "e7_4850"}) EXPECT_EQ(trees(name), 1u) << name;
}

TEST(machine_presets, can_be_run) {
  for (const machine_spec& spec : presets()) {
    SCOPED_TRACE(spec.name);
    machine m(spec, 1 << 20);
    const unsigned last = spec.hardware_threads() - 1;
    EXPECT_EQ(m.socket_of(last), spec.sockets - 1);
    EXPECT_EQ(m.access(last, 0, 0, 8, touch::atomic),
              spec.latency.atomic + spec.latency.local_dram - spec.latency.l1 + spec.latency.page_walk);
    EXPECT_EQ(m.access(last, 1000, 0, 8, touch::read), spec.overlaps_loads ? 1 : spec.latency.l1);
  }
}

TEST(machine_spec_rules, name_the_field) {
  const auto message = [](auto change) {
    machine_spec m = tiny_spec();
    change(m);
    return test::refusal([&] { validate(m); });
  };
  EXPECT_EQ(message([](machine_spec&) {}), "accepted");
  EXPECT_EQ(message([](machine_spec& m) { m.sockets = 17; }), "machine \"tiny\": sockets must be 1 to 16");
  EXPECT_EQ(message([](machine_spec& m) { m.cores_per_l2 = 3; }),
            "machine \"tiny\": cores_per_l2 must divide cores_per_socket");
  EXPECT_EQ(message([](machine_spec& m) { m.cores_per_socket = 65; }),
            "machine \"tiny\": there may be at most 128 L2 caches");
  EXPECT_EQ(message([](machine_spec& m) { m.llc.slices = 0; }),
            "machine \"tiny\": l1, l2 and llc need at least one set, way and slice");
  const std::string trees =
      "machine \"tiny\": l1_tree_ways must be a power of 2 that divides the L1's ways, with at most 32 ways "
      "and 8 "
      "trees, or 1";
  for (const unsigned ways : {0U, 3U, 4U})
    EXPECT_EQ(message([&](machine_spec& m) { m.l1_tree_ways = ways; }), trees) << ways;
  EXPECT_EQ(message([](machine_spec& m) {
              m.l1 = {4, 20};
              m.l1_tree_ways = 2;
            }),
            trees);
  EXPECT_EQ(message([](machine_spec& m) { m.l1 = {4, 20}; }), "accepted");
  EXPECT_EQ(message([](machine_spec& m) { m.l1_tree_ways = 2; }), "accepted");
  EXPECT_EQ(message([](machine_spec& m) { m.smt_factor = 0.5; }),
            "machine \"tiny\": smt_factor must be at least 1");
  EXPECT_EQ(message([](machine_spec& m) { m.store_buffer = 0; }),
            "machine \"tiny\": store_buffer must be at least 1");
}

TEST(machine_thread_order, takes_every_thread_once) {
  for (const machine_spec& m : presets()) {
    for (const pinning order : {pinning::smt_last, pinning::compact, pinning::scatter}) {
      std::vector<unsigned> threads = thread_order(m, order);
      std::sort(threads.begin(), threads.end());
      std::vector<unsigned> all(m.hardware_threads());
      std::iota(all.begin(), all.end(), 0u);
      EXPECT_EQ(threads, all) << m.name;
    }
  }
}

TEST(machine_thread_order, orders) {
  machine_spec m = tiny_spec();
  m.threads_per_core = 2;
  EXPECT_EQ(thread_order(m), (std::vector<unsigned>{0, 2, 4, 6, 1, 3, 5, 7}));
  EXPECT_EQ(thread_order(m, pinning::compact), (std::vector<unsigned>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(thread_order(m, pinning::scatter), (std::vector<unsigned>{0, 4, 2, 6, 1, 5, 3, 7}));
}

hw::topology synthetic(const char* description) {
  setenv("HWLOC_SYNTHETIC", description, 1);
  hw::topology t = hw::topology::discover();
  unsetenv("HWLOC_SYNTHETIC");
  return t;
}

TEST(machine_this, has_the_topologys_shape) {
  const machine_spec m = this_machine(
      synthetic("package:2 l3:1(size=31457280) core:3 l2:1(size=262144) l1d:1(size=32768) pu:2"));
  EXPECT_EQ(m.name, "this");
  EXPECT_EQ(m.sockets, 2u);
  EXPECT_EQ(m.cores_per_socket, 3u);
  EXPECT_EQ(m.threads_per_core, 2u);
  EXPECT_EQ(m.cores_per_l2, 1u);
  EXPECT_EQ(m.l1.bytes(), 32768u);
  EXPECT_EQ(m.l2.bytes(), 262144u);
  EXPECT_EQ(m.llc.bytes(), 31457280u);
  EXPECT_NE(m.description.find("guesses, not measured"), std::string::npos);
}

TEST(machine_this, each_last_level_cache_is_a_socket) {
  const machine_spec m = this_machine(
      synthetic("package:2 l3:4(size=16777216) l2:2(size=1048576) core:2 l1d:1(size=32768) pu:1"));
  EXPECT_EQ(m.sockets, 8u);
  EXPECT_EQ(m.cores_per_socket, 4u);
  EXPECT_EQ(m.cores_per_l2, 2u);
  EXPECT_EQ(m.hardware_threads(), 32u);
}

TEST(machine_this, caches_that_are_not_told_are_guessed) {
  const machine_spec m = this_machine(synthetic("package:1 core:2 pu:1"));
  EXPECT_EQ(m.sockets, 1u);
  EXPECT_EQ(m.cores_per_socket, 2u);
  EXPECT_GT(m.l1.bytes(), 0u);
  EXPECT_GT(m.llc.bytes(), m.l2.bytes());
}

TEST(machine_this, too_large_a_machine_is_refused) {
  EXPECT_THROW(this_machine(synthetic("package:32 core:2 pu:1")), std::invalid_argument);
}

TEST(machine_this, the_real_one_can_be_run) {
  const machine_spec spec = this_machine(hw::topology::system());
  machine m(spec, 1 << 20);
  EXPECT_EQ(m.access(0, 0, 0, 8, touch::read), spec.latency.local_dram + spec.latency.page_walk);
  EXPECT_EQ(m.access(0, 1000, 0, 8, touch::read), spec.latency.l1);
}

}  // namespace
}  // namespace espalier::sim
