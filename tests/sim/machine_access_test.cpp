// What an access finds at which level, does to the lines of other cores, and costs. Threads 0 and 1 are the cores of
// socket 0, threads 2 and 3 of socket 1; all pages lie on node 0.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/machine_fixture.hpp"

namespace espalier::sim {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

/// The script of a scene, word by word:
///   0r7=20+180   thread 0 reads 8 bytes of line 7 in so many cycles; w writes, a modifies atomically
///   0r0..8:4     lines 0, 4 and 8, each with the cost behind it
///   0r7+60/2     2 bytes from byte 60 of line 7
///   0f=30        a fence
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
        R"((\d)([rwaf])(\d*)(?:\.\.(\d+))?(?::(\d+))?(?:\+(\d+))?(?:/(\d+))?(?:=(.+))?)");
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
          const std::uint64_t cycles = take(static_cast<unsigned>(number(1)), part[2].str().front(),
                                            line * line_bytes + number(6), number(7, 8));
          if (part.length(8) != 0) {
            EXPECT_EQ(cycles, sum(part[8])) << "line " << line;
          }
        }
      }
    }
  }

 private:
  std::uint64_t take(unsigned thread, char what, std::uint64_t address, std::uint64_t bytes) {
    p_.now += 100'000;
    const std::uint64_t begin = at_.value_or(p_.now);
    if (what == 'f') return p_.m.fence(thread, begin);
    return p_.m.access(thread, begin, address, static_cast<unsigned>(bytes),
                       what == 'r'   ? touch::read
                       : what == 'w' ? touch::write
                                     : touch::atomic);
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

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(machine_pages, bad_ranges_are_named) {
  paced_machine p(tiny_spec(), 8 * mib);
  EXPECT_THROW(p.m.set_page(8 * mib, 1, {}), std::invalid_argument);
  EXPECT_THROW(p.m.set_page(0, ~std::uint64_t{0}, {}), std::invalid_argument);
  EXPECT_THROW(p.m.set_page(mib, 2 * mib, {.huge = true, .numa_node = 0}), std::invalid_argument);
  EXPECT_THROW(p.m.first_touch(8 * mib, 0), std::invalid_argument);
  EXPECT_THROW(p.m.first_touch(0, 2), std::invalid_argument);
  EXPECT_EQ(refusal([&] { p.m.set_page(0, 1, {.huge = false, .numa_node = 2}); }),
            "machine \"tiny\" has NUMA nodes 0 to 1, not 2");
  EXPECT_NO_THROW(p.m.access(0, 0, 8 * mib - 8, 8, touch::read));
  EXPECT_EQ(refusal([&] { p.m.access(0, 0, 8 * mib - 7, 8, touch::read); }),
            "machine: 8 bytes at address 8388601 leave the address space of 8388608 bytes");
  EXPECT_THROW(p.m.access(0, 0, ~std::uint64_t{0}, 8, touch::read), std::invalid_argument);
  EXPECT_THROW(machine(tiny_spec(), 0), std::invalid_argument);
  EXPECT_THROW(machine(tiny_spec(), std::uint64_t{128} << 30), std::invalid_argument);
}

TEST(machine_tlb_kinds, a_second_level_may_hold_huge_pages) {
  hw::tlb_shape spec = tiny_spec().tlb;
  spec.l2_holds_huge = true;
  tlb t(spec);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(t.translate(i * huge_page_bytes, true), tlb::outcome::walk);
  }
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
  EXPECT_EQ(m.work(0, 100), 100u);
  m.set_running(1, true);
  EXPECT_EQ(m.access(0, 2000, 0, 8, touch::read), 6u);
  EXPECT_EQ(m.work(0, 100), 150u);
  EXPECT_EQ(m.work(2, 100), 100u);
  EXPECT_EQ(m.fence(0, 3000), 45u);
  // What is waited for takes as long as before.
  EXPECT_EQ(m.access(0, 4000, 64, 8, touch::read), 6u + 176);
  m.set_running(1, false);
  EXPECT_EQ(m.access(0, 5000, 0, 8, touch::read), 4u);
}

}  // namespace
}  // namespace espalier::sim
