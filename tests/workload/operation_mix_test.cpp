// Operations: in which proportions they come, and recorded ones.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "espalier/workload/operation_mix.hpp"
#include "espalier/workload/random.hpp"
#include "espalier/workload/trace.hpp"
#include "workload/chi_square.hpp"

namespace espalier::workload {
namespace {

using ::testing::AllOf;
using testing::chi_square;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::size_t index_of(map_operation op) {
  const auto* const found = std::find(drawn_operations.begin(), drawn_operations.end(), op);
  return static_cast<std::size_t>(found - drawn_operations.begin());
}

std::string refusal(std::string_view text) {
  try {
    operation_mix::parse(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(operation_mix, parses_lookup_insert_erase_percentages) {
  const auto mix = operation_mix::parse("90/4/6");
  EXPECT_EQ(mix.name, "90/4/6");
  EXPECT_THAT(mix.percent, ElementsAre(90, 4, 6, 0, 0, 0));
  EXPECT_EQ(mix.share(map_operation::erase), 6U);
  EXPECT_EQ(mix.share(map_operation::contains), 0U);
  EXPECT_EQ(mix.distribution, std::nullopt);
  EXPECT_THAT(operation_mix::parse("0/50/50").percent, ElementsAre(0, 50, 50, 0, 0, 0));
  EXPECT_EQ(operation_mix::parse("090/5/5").name, "90/5/5");
}

TEST(operation_mix, knows_the_core_workloads_of_ycsb) {
  struct expectation {
    const char* name;
    operation_shares percent;
    const char* request;
  };
  // find, insert, erase, insert_or_assign, scan, update
  const std::array<expectation, 6> table{{
      {"ycsb-a", {50, 0, 0, 50, 0, 0}, "scrambled-zipfian:0.99"},
      {"ycsb-b", {95, 0, 0, 5, 0, 0}, "scrambled-zipfian:0.99"},
      {"ycsb-c", {100, 0, 0, 0, 0, 0}, "scrambled-zipfian:0.99"},
      {"ycsb-d", {95, 5, 0, 0, 0, 0}, "latest:0.99"},
      {"ycsb-e", {0, 5, 0, 0, 95, 0}, "scrambled-zipfian:0.99"},
      {"ycsb-f", {50, 0, 0, 0, 0, 50}, "scrambled-zipfian:0.99"},
  }};
  for (const auto& [name, percent, request] : table) {
    const auto mix = operation_mix::parse(name);
    EXPECT_EQ(mix.name, name);
    EXPECT_EQ(mix.percent, percent) << name;
    EXPECT_EQ(mix.distribution, distribution_spec::parse(request)) << name;
    EXPECT_EQ(mix.max_scan, 100U);
  }
  EXPECT_EQ(operation_mix::parse("YCSB-E").name, "ycsb-e");
}

TEST(operation_mix, draws_operations_by_their_shares) {
  const operation_mix mix("all", {40, 20, 5, 10, 24, 1});
  random_generator random(5);
  std::vector<std::uint64_t> seen(drawn_operations.size());
  for (int i = 0; i < 200'000; ++i) ++seen.at(index_of(mix.draw(random)));
  const auto fit = chi_square(seen, {40, 20, 5, 10, 24, 1});
  EXPECT_TRUE(fit.accepted()) << fit;
  EXPECT_FALSE(chi_square(seen, {39, 21, 5, 10, 24, 1}).accepted());
}

// Measurements of different versions are compared: a seed must go on to mean the same operations.
TEST(operation_mix, draws_the_same_operations_from_a_seed_in_every_version) {
  const operation_mix mix("all", {40, 20, 5, 10, 24, 1});
  random_generator random(5);
  std::string drawn;
  for (int i = 0; i < 100; ++i) drawn += word_of(mix.draw(random)).front();
  EXPECT_EQ(
      drawn,
      "sllllslliliiuilissllsiulllslulsuiliiuuuiillirslllliislsillllllsleislulilllllslliielslillleilllslslis");
}

TEST(operation_mix, never_draws_what_has_no_share) {
  const auto mix = operation_mix::parse("ycsb-c");
  random_generator random(6);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(mix.draw(random), map_operation::find);
}

TEST(operation_mix, draws_scan_lengths_uniformly) {
  const auto mix = operation_mix::parse("ycsb-e");
  random_generator random(7);
  std::vector<std::uint64_t> seen(101);
  for (int i = 0; i < 100'000; ++i) ++seen.at(mix.draw_scan_length(random));
  EXPECT_EQ(seen[0], 0U);
  seen.erase(seen.begin());
  const auto fit = chi_square(seen, std::vector<double>(100, 1));
  EXPECT_TRUE(fit.accepted()) << fit;
}

TEST(operation_mix, says_which_sum_it_found_and_shows_an_example) {
  EXPECT_THAT(refusal("90/5/6"), AllOf(HasSubstr("'90/5/6' sums to 101"), HasSubstr("90/5/5")));
  EXPECT_THAT(refusal("0/0/0"), HasSubstr("sums to 0"));
  EXPECT_THAT(refusal("4294967295/4294967295/2"), HasSubstr("sums to 8589934592"));
  EXPECT_THROW(operation_mix("short", {50, 0, 0, 0, 0, 49}), std::invalid_argument);
  EXPECT_THROW(operation_mix("no scans", {100, 0, 0, 0, 0, 0}, 0), std::invalid_argument);
}

TEST(operation_mix, refuses_other_text) {
  for (const auto* text : {"", "90", "90/10", "90/5/5/0", "90/5/", "/5/95", "90/-5/15", "90.0/5/5", "90 /5/5",
                           "99999999999/0/0", "ycsb-g", "ycsb", "a", "read-mostly"}) {
    EXPECT_THAT(refusal(text),
                AllOf(HasSubstr("unknown operation mix"), HasSubstr("90/5/5"), HasSubstr("ycsb-a to ycsb-f")))
        << text;
  }
}

TEST(word_of, names_each_operation_in_results) {
  EXPECT_EQ(word_of(map_operation::find), "lookup");
  EXPECT_EQ(word_of(map_operation::contains), "contains");
  EXPECT_EQ(word_of(map_operation::insert), "insert");
  EXPECT_EQ(word_of(map_operation::insert_or_assign), "update");
  EXPECT_EQ(word_of(map_operation::erase), "erase");
  EXPECT_EQ(word_of(map_operation::exchange), "exchange");
  EXPECT_EQ(word_of(map_operation::extract), "extract");
  EXPECT_EQ(word_of(map_operation::update), "read_modify_write");
  EXPECT_EQ(word_of(map_operation::scan), "scan");
}

constexpr std::uint64_t max64 = std::numeric_limits<std::uint64_t>::max();

constexpr std::array recordable{
    map_operation::find,     map_operation::insert,  map_operation::insert_or_assign, map_operation::erase,
    map_operation::exchange, map_operation::extract, map_operation::update,           map_operation::scan};

class trace_files : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::filesystem::path at(const std::string& name) const { return folder_ / name; }

 private:
  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ("espalier_trace_" + std::to_string(::getpid()));
};

std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::filesystem::path& to, std::span<const trace_record> records) {
  io::output_file file(to);
  write_trace(file, records);
}

std::vector<trace_record> parse(const std::string& text) {
  std::istringstream in(text);
  return read_trace(in, "ops");
}

std::string refusal_of_trace(const std::string& text) {
  try {
    parse(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(read_trace, understands_every_operation_comments_and_blanks) {
  EXPECT_THAT(
      parse("# recorded yesterday\n"
            "lookup 123\n"
            "\n"
            "  insert\t5 77   # the first\r\n"
            "assign 5 0xFF\n"
            "erase 0x5\n"
            "exchange 6 1\n"
            "extract 6\n"
            "add 0x7 2\n"
            "scan 18446744073709551615 100"),
      ElementsAre(trace_record{123, 0, map_operation::find}, trace_record{5, 77, map_operation::insert},
                  trace_record{5, 255, map_operation::insert_or_assign},
                  trace_record{5, 0, map_operation::erase}, trace_record{6, 1, map_operation::exchange},
                  trace_record{6, 0, map_operation::extract}, trace_record{7, 2, map_operation::update},
                  trace_record{max64, 100, map_operation::scan}));
  EXPECT_THAT(parse(""), IsEmpty());
  EXPECT_THAT(parse("# nothing\n\n"), IsEmpty());
}

TEST(read_trace, names_line_finding_and_expectation) {
  EXPECT_EQ(
      refusal_of_trace("lookup 1\nlokup 2\n"),
      "ops:2: found unknown operation 'lokup'; expected lookup KEY, insert KEY VALUE, assign KEY VALUE, "
      "erase KEY, exchange KEY VALUE, extract KEY, add KEY AMOUNT or scan KEY COUNT");
  EXPECT_EQ(refusal_of_trace("\n# x\ninsert 5\n"),
            "ops:3: found 'insert' with 1 of 2 numbers; expected insert KEY VALUE");
  EXPECT_EQ(refusal_of_trace("lookup"), "ops:1: found 'lookup' with 0 of 1 numbers; expected lookup KEY");
  EXPECT_EQ(refusal_of_trace("exchange 5"),
            "ops:1: found 'exchange' with 1 of 2 numbers; expected exchange KEY VALUE");
  EXPECT_EQ(refusal_of_trace("add 5"), "ops:1: found 'add' with 1 of 2 numbers; expected add KEY AMOUNT");
  EXPECT_EQ(refusal_of_trace("extract 5 6"),
            "ops:1: found '6' after the end of the operation; expected extract KEY");
  EXPECT_EQ(refusal_of_trace("erase 5 6"),
            "ops:1: found '6' after the end of the operation; expected erase KEY");
  for (const auto* word : {"-1", "+1", "1.5", "0x", "0xg", "ten", "18446744073709551616", "1k"}) {
    EXPECT_EQ(refusal_of_trace(std::string("lookup ") + word),
              std::string("ops:1: found '") + word +
                  "'; expected an unsigned 64-bit number, decimal or 0x hexadecimal");
  }
  EXPECT_THAT(refusal_of_trace("LOOKUP 5"), HasSubstr("unknown operation 'LOOKUP'"));
  EXPECT_THAT(refusal_of_trace("\x1b[2J\xff"), HasSubstr("unknown operation '\\x1b[2J\\xff'"));
  EXPECT_THAT(refusal_of_trace(std::string(10'000, 'a')), HasSubstr('\'' + std::string(40, 'a') + "...'"));
}

TEST_F(trace_files, come_back_as_they_were_written) {
  random_generator random(1);
  std::vector<trace_record> records{{0, 0, map_operation::find}, {max64, max64, map_operation::insert}};
  for (int i = 0; i < 20'000; ++i) {
    const map_operation operation = recordable[random.below(recordable.size())];
    const bool has_argument = operation != map_operation::find && operation != map_operation::erase &&
                              operation != map_operation::extract;
    records.push_back({random.next() >> random.below(64), has_argument ? random.next() : 0, operation});
  }
  write(at("ops"), records);
  EXPECT_EQ(read_trace(at("ops")), records);
  write(at("ops"), {});
  EXPECT_THAT(read_trace(at("ops")), IsEmpty());
}

TEST_F(trace_files, hold_the_text_that_people_write) {
  const std::vector<trace_record> records{{1, 0, map_operation::find},
                                          {2, 3, map_operation::insert},
                                          {2, 4, map_operation::insert_or_assign},
                                          {2, 0, map_operation::erase},
                                          {3, 1, map_operation::exchange},
                                          {3, 2, map_operation::update},
                                          {3, 0, map_operation::extract},
                                          {0, 9, map_operation::scan}};
  write(at("ops"), records);
  EXPECT_EQ(content_of(at("ops")),
            "lookup 1\ninsert 2 3\nassign 2 4\nerase 2\nexchange 3 1\nadd 3 2\nextract 3\nscan 0 9\n");
}

TEST_F(trace_files, hold_no_operation_without_a_form) {
  const std::vector<trace_record> records{{1, 0, map_operation::find}, {1, 0, map_operation::contains}};
  try {
    write(at("ops"), records);
    ADD_FAILURE() << "written";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "a trace has no form of the operation contains");
  }
  EXPECT_FALSE(std::filesystem::exists(at("ops")));
}

TEST_F(trace_files, name_the_file_in_errors) {
  std::ofstream(at("bad")) << "lookup 1\nlookup x\n";
  try {
    read_trace(at("bad"));
    ADD_FAILURE() << "accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr(at("bad").string() + ":2: found 'x'"));
  }
  try {
    read_trace(at("missing"));
    ADD_FAILURE() << "accepted";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::no_such_file_or_directory);
    EXPECT_THAT(error.what(), HasSubstr(at("missing").string()));
  }
  EXPECT_THROW(read_trace(at(".")), std::system_error);
}

TEST_F(trace_files, of_a_recorder_follow_the_sequence_across_lanes) {
  trace_recorder recorder(2);
  recorder.lane_of(1).record({1, 0, map_operation::find});
  recorder.lane_of(0).record({2, 5, map_operation::insert});
  recorder.lane_of(1).record({3, 0, map_operation::erase});
  io::output_file file(at("ops"));
  recorder.write(file);
  EXPECT_EQ(content_of(at("ops")), "lookup 1\ninsert 2 5\nerase 3\n");
  EXPECT_EQ(read_trace(at("ops")), recorder.records());
}

TEST(trace_recorder, keeps_each_threads_order_and_every_record) {
  constexpr unsigned threads = 4;
  constexpr std::uint64_t each = 2000;
  trace_recorder recorder(threads, 16);
  std::vector<std::thread> running;
  running.reserve(threads);
  for (unsigned thread = 0; thread < threads; ++thread) {
    running.emplace_back([&recorder, thread] {
      auto& lane = recorder.lane_of(thread);
      for (std::uint64_t i = 0; i < each; ++i) lane.record({i, thread, map_operation::insert});
    });
  }
  for (auto& thread : running) thread.join();

  const auto records = recorder.records();
  ASSERT_EQ(records.size(), threads * each);
  std::vector<std::uint64_t> next(threads);
  for (const auto& record : records) EXPECT_EQ(record.key, next.at(record.argument)++);
}

TEST(trace_recorder, refuses_no_threads_and_unknown_lanes) {
  EXPECT_THROW(trace_recorder(0), std::invalid_argument);
  trace_recorder recorder(1);
  EXPECT_THROW(recorder.lane_of(1), std::out_of_range);
}

}  // namespace
}  // namespace espalier::workload
