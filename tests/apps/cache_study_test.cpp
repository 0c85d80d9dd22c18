// Claims of the study cache, judged over readings of which it is known what they say, and its values.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "apps/judged.hpp"
#include "apps/studies/cache/claims.hpp"
#include "apps/studies/cache/values.hpp"

namespace espalier::app {
namespace {

using namespace ::testing;

/// Of every engine under every load.
caches::results all_alike(const std::vector<caches::page>& pages, const caches::load_reading& r) {
  caches::results all;
  for (const caches::page& p : pages) {
    for (const caches::load& l : p.panels.front().loads) {
      for (const caches::engine e : caches::all_engines) all.add(l, name_of(e), r);
    }
  }
  return all;
}

TEST(cache_study, judges_each_claim_by_its_bound_and_nothing_over_readings_that_are_too_short) {
  using caches::engine;
  const std::vector<caches::page> pages = caches::pages_of({1, 20, 40, 80});
  const caches::results alike = all_alike(pages, {.speed = 1, .costs = {.remote_transfers = 1}, .p99 = 1});
  const caches::results brief = all_alike(pages, {.speed = 1, .too_short = "Too short"});
  std::size_t judged = 0;
  for (const caches::page& p : pages) {
    for (const judged_claim& c : p.judge(alike)) {
      EXPECT_NE(c.ours.verdict, unknown) << c.claim;
      judged += c.ours.verdict == agrees ? 1 : 0;
    }
    for (const judged_claim& c : p.judge(brief)) {
      EXPECT_EQ(c.ours.verdict == too_short, c.claim.find("Hit ratios") == std::string::npos) << c.claim;
    }
  }
  EXPECT_EQ(judged, 9U) << "where all are alike, what says that one is no worse";

  const auto first = [&](const caches::results& of, std::size_t claim) {
    return pages[0].judge(of)[claim].ours;
  };
  const caches::load at = caches::few_sets_of(80);
  caches::results measured = alike;
  measured.add(at, name_of(engine::dps), {.speed = 2.1, .costs = {.remote_transfers = 0.4}});
  EXPECT_EQ(first(measured, 0).verdict, agrees) << "half of the paper's difference";
  EXPECT_EQ(first(measured, 1).verdict, agrees) << "at most half of the lines";
  measured.add(at, name_of(engine::dps),
               {.speed = 2, .costs = {.remote_transfers = 0.6, .stall_cycles = 77}});
  EXPECT_EQ(first(measured, 0).verdict, differs);
  EXPECT_THAT(first(measured, 0).sentence, HasSubstr("77 stalled cycles in DPS"));
  EXPECT_EQ(first(measured, 1).verdict, differs);
  measured.add(at, name_of(engine::stock), {.p99 = 13});
  measured.add(at, name_of(engine::dps), {.p99 = 1});
  EXPECT_EQ(pages[4].judge(measured)[0].ours.verdict, agrees);
  measured.add(at, name_of(engine::dps), {.p99 = 2});
  EXPECT_EQ(pages[4].judge(measured)[0].ours.verdict, differs);
  EXPECT_EQ(caches::equal_hits(measured, {at}).ours.verdict, agrees);
  measured.add(at, name_of(engine::ffwd), {.hits = 0.98});
  EXPECT_EQ(caches::equal_hits(measured, {at}).ours.verdict, differs);
  EXPECT_EQ(caches::misses_of_own_sets(measured, at).ours.verdict, too_short) << "none misses any";
  measured.add(at, name_of(engine::dps_parsec), {.overwritten = 0.01});
  EXPECT_EQ(caches::misses_of_own_sets(measured, at).ours.verdict, agrees);
  measured.add(at, name_of(engine::dps_parsec_fenced), {.overwritten = 0.01});
  EXPECT_EQ(caches::misses_of_own_sets(measured, at).ours.verdict, differs);
  EXPECT_NO_THROW(caches::check_contents(engine::stock, at, 0, 0));
  EXPECT_THROW(caches::check_contents(engine::stock, at, 1, 0), std::logic_error);
  EXPECT_THROW(caches::check_contents(engine::stock, at, 0, 1), std::logic_error);
}

TEST(cache_study, a_value_tells_its_key_its_thread_and_its_turn) {
  using finding = caches::own_values::finding;
  constexpr std::size_t bytes = 64;
  using value = std::array<std::byte, bytes>;
  std::vector<caches::own_values> threads{{0, 10, bytes}, {1, 10, bytes}};
  value start;
  value older;
  value newer;
  value others;
  caches::own_values::make_first(3, start.data(), bytes);
  EXPECT_EQ(threads[0].judge(3, start.data()), finding::right);
  EXPECT_TRUE(caches::own_values::is_last(3, start.data(), threads));
  threads[0].make_next(3, older.data());
  EXPECT_EQ(threads[0].judge(3, start.data()), finding::overwritten);
  EXPECT_EQ(threads[1].judge(3, start.data()), finding::right) << "it may not know";
  EXPECT_FALSE(caches::own_values::is_last(3, start.data(), threads)) << "a set was lost";
  threads[0].make_next(3, newer.data());
  threads[1].make_next(3, others.data());
  EXPECT_EQ(threads[0].judge(3, older.data()), finding::overwritten);
  EXPECT_EQ(threads[0].judge(3, newer.data()), finding::right);
  EXPECT_EQ(threads[0].judge(3, others.data()), finding::right);
  EXPECT_FALSE(caches::own_values::is_last(3, older.data(), threads));
  EXPECT_TRUE(caches::own_values::is_last(3, newer.data(), threads));
  EXPECT_TRUE(caches::own_values::is_last(3, others.data(), threads));
  EXPECT_EQ(threads[0].judge(4, newer.data()), finding::wrong) << "another key's";
  value torn = newer;
  torn[bytes - 1] ^= std::byte{1};
  EXPECT_EQ(threads[0].judge(3, torn.data()), finding::wrong);
  std::copy_n(others.begin(), bytes / 2, torn.begin());
  EXPECT_EQ(threads[1].judge(3, torn.data()), finding::wrong);
}

}  // namespace
}  // namespace espalier::app
