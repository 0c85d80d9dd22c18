// Claims of the study oltp, judged over readings of which it is known what they say.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/judged.hpp"
#include "apps/studies/oltp/claims.hpp"

namespace espalier::app {
namespace {

using namespace ::testing;

/// Times of the paper, in seconds, and what it says of sets, pages and locks.
dbx::results papers_database() {
  dbx::results all;
  for (const dbx::page& p : dbx::pages_of({})) {
    for (const dbx::configuration& c : p.configurations()) {
      const bool apart = c.where == dbx::memory::segregated;
      const bool is_48 = c.index == "edge_int_lf/published";
      const bool fast = c.index.starts_with("occ_avl");
      dbx::database_reading r;
      // Four classes alone and segregated; in one heap log_int is among the first, and ticket with ext_lf.
      const std::string tree = c.index.substr(0, c.index.find('/'));
      const bool slow = tree == "ticket" || tree == "ext_lf";
      r.speed = fast ? 4 : !slow ? 3 : tree == "ticket" || (c.what == dbx::work::ycsb && !apart) ? 2 : 1;
      if (c.what == dbx::work::ycsb && !apart && c.index == "log_int") r.speed = 4;
      if (c.what == dbx::work::ycsb && !apart && c.index == "edge_ext_lf_2") r.speed = 2.5;
      if (tree != c.index) r.speed = 0.9 * (tree == "ext_lf" ? 1 : r.speed);
      r.index_time = 400 / r.speed;
      r.rest_time = 67;
      if (c.what == dbx::work::ycsb && fast) r.index_time = apart ? 108 : 121;
      if (c.what == dbx::work::ycsb && fast && apart) r.rest_time = 70;
      if (is_48) {
        r.rest_time = apart && c.lock_bytes == 48 ? 67 : 58;
        if (c.lock_bytes == 192) r.index_time = apart ? 90 : 100;
      }
      if (c.what == dbx::work::tpcc) {
        r.index_time = apart ? 95 : c.index.ends_with("/published") ? 108 : 105;
        r.rest_time = apart ? 137 : c.index.ends_with("/published") ? 141 : 135;
        if (c.index == "int_lf/wide_descriptors") {
          r.index_time = apart ? 97 : 113;
          r.rest_time = apart ? 140 : 135;
        }
      }
      r.in_index = {.stalls = *r.index_time};
      r.all = {.page_walks = apart ? 161.0 : 412.0, .stalls = *r.index_time + *r.rest_time};
      r.false_transfers = c.lock_bytes == 192 ? 0 : apart ? 3 : 1;
      r.unused_llc = fast && !apart ? 2.0 / 3 : 0;
      r.chunks = 1000;
      r.runs = apart ? 4 : 500;
      r.huge_pages = is_48 ? 20 : 6;
      all.add(c, r);
    }
  }
  return all;
}

TEST(oltp_study, agrees_with_the_numbers_of_the_paper) {
  const dbx::results measured = papers_database();
  std::size_t judged = 0;
  for (const dbx::page& p : dbx::pages_of({})) {
    for (const judged_claim& c : p.judge(measured)) {
      EXPECT_EQ(c.ours.verdict, agreement::agrees) << p.id << ": " << c.claim << ": " << c.ours.sentence;
      ++judged;
    }
    EXPECT_TRUE(p.figure(measured, "").missing.empty()) << p.id;
    EXPECT_FALSE(p.figure(measured, "").charts.empty()) << p.id;
  }
  EXPECT_GE(judged, 30U);
}

TEST(oltp_study, a_change_of_less_than_half_of_the_papers_differs) {
  const auto verdict_with = [](double index_of_segregated) {
    dbx::results measured = papers_database();
    const dbx::configuration c{dbx::work::ycsb, "occ_avl", dbx::memory::segregated, 192};
    dbx::database_reading r = *measured.find(c);
    r.index_time = index_of_segregated;
    measured.add(c, r);
    for (const dbx::page& p : dbx::pages_of({})) {
      for (const judged_claim& found : p.judge(measured)) {
        if (found.claim.starts_with("Segregation reduces the time of occ_avl's index"))
          return found.ours.verdict;
      }
    }
    return too_short;
  };
  EXPECT_EQ(verdict_with(114.4), agreement::agrees);
  EXPECT_EQ(verdict_with(114.6), agreement::differs);
  EXPECT_EQ(verdict_with(125), agreement::differs);
}

/// Of the page on improved trees.
judged_claim mean_of_improved(const dbx::results& measured) {
  for (const dbx::page& p : dbx::pages_of({})) {
    if (p.id == "improved") return p.judge(measured).front();
  }
  return {};
}

TEST(oltp_study, compares_rounds_that_were_in_turns_one_by_one) {
  const dbx::configuration before{dbx::work::ycsb, "occ_avl/published", dbx::memory::shared, 192};
  const dbx::configuration after{dbx::work::ycsb, "occ_avl", dbx::memory::segregated, 192};
  for (const std::size_t session : {1U, 2U}) {
    dbx::results measured;
    // The machine is slower in the last two rounds, of which one session had the first half.
    measured.add(before, {.speed = 1, .rounds = {120, 120, 240}, .session = 1});
    measured.add(after, {.speed = 0.8, .rounds = {100, 200, 200}, .session = session});
    EXPECT_THAT(mean_of_improved(measured).ours.sentence,
                HasSubstr(session == 1 ? "occ_avl 1.200" : "occ_avl 0.800"));
  }
}

TEST(oltp_study, gives_a_reason_for_a_difference_only_of_a_simulation) {
  // All alike: what is to differ does not.
  dbx::database_reading r{.speed = 1};
  r.index_time = r.rest_time = 100;
  r.all = r.in_index = {.accesses = 100, .page_walks = 10, .memory_lines = 1, .stalls = 20};
  dbx::results measured;
  for (const dbx::page& p : dbx::pages_of({})) {
    for (const dbx::configuration& c : p.configurations()) measured.add(c, r);
  }
  std::size_t reasons = 0;
  for (const bool simulated : {false, true}) {
    for (const dbx::page& p : dbx::pages_of({.simulated = simulated})) {
      for (const judged_claim& c : p.judge(measured)) {
        if (c.ours.verdict != agreement::differs) continue;
        const bool has_one = c.ours.sentence.find("Model: ") != std::string::npos ||
                             c.ours.sentence.find("Program: ") != std::string::npos ||
                             c.ours.sentence.find("Paper: ") != std::string::npos;
        EXPECT_TRUE(simulated || !has_one) << c.claim << ": " << c.ours.sentence;
        if (has_one) ++reasons;
      }
    }
  }
  EXPECT_GT(reasons, 0U);
}

TEST(oltp_study, leaves_what_has_the_chosen_trees) {
  std::vector<dbx::page> pages = dbx::pages_of({});
  dbx::leave_trees(pages, {"edge_int_lf", "ticket"});
  std::set<std::string> indexes;
  for (const dbx::page& p : pages) {
    EXPECT_FALSE(p.configurations().empty()) << p.id;
    for (const dbx::configuration& c : p.configurations()) indexes.insert(c.index);
  }
  EXPECT_EQ(indexes,
            (std::set<std::string>{"edge_int_lf", "edge_int_lf/published", "ticket", "ticket/published"}));
  EXPECT_THROW(dbx::leave_trees(pages, {"ticket/published"}), usage_error);
}

TEST(oltp_study, judges_nothing_over_what_is_missing_not_counted_or_too_short) {
  dbx::results nothing, uncounted, short_runs;
  for (const dbx::page& p : dbx::pages_of({})) {
    for (const dbx::configuration& c : p.configurations()) {
      nothing.miss(c, "not in this build");
      uncounted.add(c, {});
      dbx::database_reading r = *papers_database().find(c);
      r.too_short = "Too short";
      short_runs.add(c, r);
    }
  }
  for (const dbx::page& p : dbx::pages_of({})) {
    for (const judged_claim& c : p.judge(nothing)) {
      EXPECT_EQ(c.ours.verdict, agreement::not_measurable) << c.claim;
      EXPECT_THAT(c.ours.sentence, HasSubstr("not in this build")) << c.claim;
    }
    EXPECT_FALSE(p.figure(nothing, "").missing.empty());
    for (const judged_claim& c : p.judge(short_runs)) EXPECT_EQ(c.ours.verdict, too_short) << c.claim;
    for (const judged_claim& c : p.judge(uncounted))
      EXPECT_NE(c.ours.verdict, agreement::agrees) << c.claim << ": " << c.ours.sentence;
  }
}

}  // namespace
}  // namespace espalier::app
