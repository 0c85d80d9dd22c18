// Claims of the study oltp, judged over readings of which it is known what they say.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "apps/judged.hpp"
#include "apps/studies/oltp/claims.hpp"

namespace espalier::app {
namespace {

using namespace ::testing;

/// Times of the paper, in seconds, and what it says of sets, pages and locks.
dbx::results papers_database() {
  dbx::results all;
  for (const dbx::page& p : dbx::pages_of("s")) {
    for (const dbx::configuration& c : p.configurations()) {
      const bool apart = c.where == dbx::memory::segregated;
      const bool is_48 = c.index == "edge_int_lf/published";
      const bool fast = c.index.starts_with("occ_avl");
      dbx::database_reading r;
      // Four classes alone and segregated; in one heap log_int is among the first, and ticket with ext_lf.
      const bool slow = c.index == "ticket" || c.index == "ext_lf";
      r.speed = fast ? 4 : !slow ? 3 : c.index == "ticket" || (c.what == dbx::work::ycsb && !apart) ? 2 : 1;
      if (c.what == dbx::work::ycsb && !apart && c.index == "log_int") r.speed = 4;
      if (c.what == dbx::work::ycsb && !apart && c.index == "edge_ext_lf_2") r.speed = 2.5;
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
      r.index_stalls = r.index_time;
      r.stalls = *r.index_time + *r.rest_time;
      r.page_walks = apart ? 161 : 412;
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
  for (const dbx::page& p : dbx::pages_of("s")) {
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
    for (const dbx::page& p : dbx::pages_of("s")) {
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

TEST(oltp_study, judges_nothing_over_what_is_missing_not_counted_or_too_short) {
  dbx::results nothing, uncounted, short_runs;
  for (const dbx::page& p : dbx::pages_of("s")) {
    for (const dbx::configuration& c : p.configurations()) {
      nothing.miss(c, "not in this build");
      uncounted.add(c, {});
      dbx::database_reading r = *papers_database().find(c);
      r.too_short = "Too short";
      short_runs.add(c, r);
    }
  }
  for (const dbx::page& p : dbx::pages_of("s")) {
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
