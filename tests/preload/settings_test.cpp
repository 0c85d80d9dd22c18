// What each preloaded library reads from its variables.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "preload/elision/settings.hpp"
#include "preload/heap/heap_settings.hpp"
#include "preload/random_malloc/padding.hpp"
#include "preload/recording/settings.hpp"

namespace espalier::preload {
namespace {

using namespace ::testing;

/// An environment as main() is given one.
class variables {
 public:
  explicit variables(std::vector<std::string> all) : all_(std::move(all)) {
    for (std::string& one : all_) pointers_.push_back(one.data());
    pointers_.push_back(nullptr);
  }
  char** data() { return pointers_.data(); }
  [[nodiscard]] std::vector<std::string> left() const {
    std::vector<std::string> texts;
    for (std::size_t i = 0; pointers_[i] != nullptr; ++i) texts.emplace_back(pointers_[i]);
    return texts;
  }

 private:
  std::vector<std::string> all_;
  std::vector<char*> pointers_;
};

settings read(std::vector<std::string> all) {
  variables environment(std::move(all));
  settings got;
  const char* const wrong = read_settings(environment.data(), got);
  EXPECT_EQ(wrong, nullptr) << wrong;
  return got;
}

std::string refused(const std::string& variable) {
  variables environment({variable});
  settings got;
  const char* const wrong = read_settings(environment.data(), got);
  return wrong == nullptr ? "" : wrong;
}

TEST(preload_settings, are_what_the_readme_says_where_nothing_is_set) {
  const settings got = read({"HOME=/", "ESPALIER_OTHER=1"});
  EXPECT_THAT(got.file.data(), EndsWith("/espalier-inspect.%p"));
  EXPECT_EQ(got.file[0], '/');
  EXPECT_EQ(got.frames, 12U);
  EXPECT_EQ(got.sample.how, sampling::kind::all);
  EXPECT_EQ(got.signal, SIGUSR2);
  EXPECT_EQ(got.every_ms, 0U);
  EXPECT_EQ(got.follow, followed::none);
  EXPECT_FALSE(got.pointers);
  EXPECT_FALSE(got.peak);
}

TEST(preload_settings, are_read) {
  const settings got =
      read({"ESPALIER_INSPECT_FILE=/tmp/x.%n", "ESPALIER_INSPECT_FRAMES=16",
            "ESPALIER_INSPECT_SAMPLE=bytes:65536", "ESPALIER_INSPECT_SIGNAL=USR1", "ESPALIER_INSPECT_EVERY=5",
            "ESPALIER_INSPECT_FOLLOW=forks", "ESPALIER_INSPECT_POINTERS=1", "ESPALIER_INSPECT_MEMORY=10",
            "ESPALIER_INSPECT_SEED=18446744073709551615", "ESPALIER_INSPECT_PEAK=1"});
  EXPECT_STREQ(got.file.data(), "/tmp/x.%n");
  EXPECT_EQ(got.frames, 16U);
  EXPECT_EQ(got.sample.how, sampling::kind::bytes);
  EXPECT_EQ(got.sample.every, 65536U);
  EXPECT_EQ(got.signal, SIGUSR1);
  EXPECT_EQ(got.every_ms, 5000U);
  EXPECT_EQ(got.follow, followed::forks);
  EXPECT_TRUE(got.pointers);
  EXPECT_TRUE(got.peak);
  EXPECT_EQ(got.memory_limit, 10U << 20U);
  EXPECT_EQ(got.seed, ~std::uint64_t{0});
  EXPECT_EQ(read({"ESPALIER_INSPECT_SIGNAL=none"}).signal, 0);
  EXPECT_EQ(read({"ESPALIER_INSPECT_SIGNAL=10"}).signal, 10);
  EXPECT_EQ(read({"ESPALIER_INSPECT_SAMPLE=regions:8"}).sample.how, sampling::kind::regions);
  EXPECT_EQ(read({"ESPALIER_INSPECT_SAMPLE=blocks:1"}).sample.how, sampling::kind::blocks);
  EXPECT_EQ(read({"ESPALIER_INSPECT_FOLLOW=all"}).follow, followed::all);
}

TEST(preload_settings, that_are_wrong_are_explained) {
  for (const char* const value : {"0", "17", "", "-1", "6x", "99999999999999999999999"})
    EXPECT_THAT(refused(std::string("ESPALIER_INSPECT_FRAMES=") + value), HasSubstr("1 to 16")) << value;
  for (const char* const value : {"", "some", "blocks", "blocks:", "blocks:0", "bytes:x", "block:5",
                                  "blocks:1:2", "regions:1099511627777"})
    EXPECT_THAT(refused(std::string("ESPALIER_INSPECT_SAMPLE=") + value), HasSubstr("blocks:N")) << value;
  for (const char* const value : {"9", "19", "0", "USR3", "65"})
    EXPECT_THAT(refused(std::string("ESPALIER_INSPECT_SIGNAL=") + value), HasSubstr("USR2")) << value;
  EXPECT_THAT(refused("ESPALIER_INSPECT_FILE="), HasSubstr("name a file"));
  EXPECT_THAT(refused(std::string("ESPALIER_INSPECT_FILE=/").append(4095, 'x')), HasSubstr("less than 4096"));
  EXPECT_THAT(refused("ESPALIER_INSPECT_EVERY=0.5"), HasSubstr("whole number"));
  EXPECT_THAT(refused("ESPALIER_INSPECT_FOLLOW=some"), HasSubstr("none, forks and all"));
  EXPECT_THAT(refused("ESPALIER_INSPECT_POINTERS=yes"), HasSubstr("0 nor 1"));
  EXPECT_THAT(refused("ESPALIER_INSPECT_PEAK=always"), HasSubstr("neither 0 nor 1"));
  EXPECT_THAT(refused("ESPALIER_INSPECT_MEMORY=0"), HasSubstr("MiB"));
  EXPECT_THAT(refused("ESPALIER_INSPECT_SEED=18446744073709551616"), HasSubstr("2^64"));
  EXPECT_THAT(refused("ESPALIER_INSPECT_SAMPEL=all"), HasSubstr("SAMPLE"));
}

TEST(preload_settings, vanish_from_what_the_program_hands_on) {
  variables environment({"A=1", "LD_PRELOAD=/x/libespalier-inspect.so", "ESPALIER_INSPECT_FILE=y", "B=2"});
  remove_from_environment(environment.data(), "libespalier-inspect.so");
  EXPECT_THAT(environment.left(), ElementsAre("A=1", "B=2"));

  const auto list = [](std::string of) {
    variables one({"LD_PRELOAD=" + std::move(of)});
    remove_from_environment(one.data(), "libespalier-inspect.so");
    return one.left();
  };
  EXPECT_THAT(list("a.so:/x/libespalier-inspect.so:/b/c.so"), ElementsAre("LD_PRELOAD=a.so:/b/c.so"));
  EXPECT_THAT(list("libespalier-inspect.so c.so"), ElementsAre("LD_PRELOAD=c.so"));
  EXPECT_THAT(list("c.so:libespalier-inspect.so"), ElementsAre("LD_PRELOAD=c.so"));
  EXPECT_THAT(list("libespalier-inspect.so.bak:xlibespalier-inspect.so"),
              ElementsAre("LD_PRELOAD=libespalier-inspect.so.bak:xlibespalier-inspect.so"));
  EXPECT_THAT(list("libespalier-inspect.so:libespalier-inspect.so"), ElementsAre());
}

TEST(preload_settings, are_put_back_for_the_program_that_this_one_becomes) {
  variables own({"ESPALIER_INSPECT_FILE=y", "A=1", "LD_PRELOAD=/x/library.so", "ESPALIER_INSPECT_EVERY=1"});
  remove_from_environment(own.data(), "library.so");
  memory_budget memory;
  const auto put_back = [&](std::vector<std::string> given) {
    variables environment(std::move(given));
    char** const whole = put_back_in_environment(environment.data(), "/x/library.so", memory);
    std::vector<std::string> all;
    for (char** at = whole; at != nullptr && *at != nullptr; ++at) all.emplace_back(*at);
    memory.unmap(whole, memory.bytes());
    return all;
  };
  EXPECT_THAT(put_back({"B=2", "LD_PRELOAD=/z.so:y.so", "C="}),
              ElementsAre("B=2", "C=", "ESPALIER_INSPECT_FILE=y", "ESPALIER_INSPECT_EVERY=1",
                          "LD_PRELOAD=/x/library.so:/z.so:y.so"));
  EXPECT_THAT(put_back({"ESPALIER_INSPECT_FILE=z"}),
              ElementsAre("ESPALIER_INSPECT_FILE=y", "ESPALIER_INSPECT_EVERY=1", "LD_PRELOAD=/x/library.so"));
  memory.set_limit(0);
  EXPECT_THAT(put_back({"B=2"}), ElementsAre()) << "it then becomes what it would without us";
}

TEST(preload_settings, name_files) {
  settings how = read({"ESPALIER_INSPECT_FILE=/t/%p-%n.%%"});
  std::array<char, 32> name{};
  ASSERT_TRUE(file_name(how, 12, 3, true, name.data(), name.size()));
  EXPECT_STREQ(name.data(), "/t/12-3.%%");
  how = read({"ESPALIER_INSPECT_FILE=/t/x"});
  ASSERT_TRUE(file_name(how, 12, 3, false, name.data(), name.size()));
  EXPECT_STREQ(name.data(), "/t/x");
  ASSERT_TRUE(file_name(how, 12, 3, true, name.data(), name.size()));
  EXPECT_STREQ(name.data(), "/t/x.12") << "a child does not write over its parent's";
  how = read({std::string("ESPALIER_INSPECT_FILE=/t/").append(40, 'y')});
  EXPECT_FALSE(file_name(how, 12, 3, false, name.data(), name.size()));
}

TEST(preload_settings, name_the_file_of_the_peak) {
  std::array<char, 32> name{};
  const auto named = [&](std::vector<std::string> all, bool of_child) {
    EXPECT_TRUE(peak_file_name(read(std::move(all)), 12, of_child, name.data(), name.size()));
    return std::string(name.data());
  };
  EXPECT_EQ(named({"ESPALIER_INSPECT_FILE=/t/%n"}, false), "/t/peak");
  EXPECT_EQ(named({"ESPALIER_INSPECT_FILE=/t/%n"}, true), "/t/peak.12");
  EXPECT_EQ(named({"ESPALIER_INSPECT_FILE=/t/%p-%n"}, true), "/t/12-peak");
  EXPECT_EQ(named({"ESPALIER_INSPECT_FILE=/t/x.%p"}, false), "/t/x.12.peak");
  EXPECT_EQ(named({"ESPALIER_INSPECT_FILE=/t/x"}, false), "/t/x.peak");
  // Programs that this one starts would write over its file.
  EXPECT_EQ(named({"ESPALIER_INSPECT_FILE=/t/x", "ESPALIER_INSPECT_FOLLOW=all"}, false), "/t/x.peak.12");
  const settings how = read({std::string("ESPALIER_INSPECT_FILE=/t/").append(25, 'y')});
  EXPECT_TRUE(file_name(how, 12, 3, false, name.data(), name.size()));
  EXPECT_FALSE(peak_file_name(how, 12, false, name.data(), name.size()));
}

std::vector<std::string> complaints;

heap_settings read_heap(std::vector<std::string> all) {
  complaints.clear();
  variables environment(std::move(all));
  heap_settings got;
  read_heap_settings(environment.data(), got, [](const char* line) { complaints.emplace_back(line); });
  return got;
}

TEST(heap_settings, are_what_they_are_without_variables) {
  heap_settings got;
  read_heap_settings(nullptr, got, [](const char*) { FAIL(); });
  EXPECT_FALSE(got.prefault || got.huge || got.stats);
  EXPECT_EQ(got.keep, std::size_t{32} << 20U);
  EXPECT_EQ(got.decay, 1000U);
  EXPECT_EQ(read_heap({"PATH=/bin", "ESPALIER_MALLOC", "ESPALIER_MALLOC_KEEP"}).keep, got.keep);
  EXPECT_THAT(complaints, IsEmpty());
}

TEST(heap_settings, are_read) {
  const heap_settings got =
      read_heap({"ESPALIER_MALLOC_PREFAULT=1", "ESPALIER_MALLOC_HUGE=1", "A=B", "ESPALIER_MALLOC_KEEP=7",
                 "ESPALIER_MALLOC_DECAY=250", "ESPALIER_MALLOC_STATS=1"});
  EXPECT_TRUE(got.prefault && got.huge && got.stats);
  EXPECT_EQ(got.keep, std::size_t{7} << 20U);
  EXPECT_EQ(got.decay, 250U);
  EXPECT_THAT(complaints, IsEmpty());
  EXPECT_FALSE(read_heap({"ESPALIER_MALLOC_STATS=1", "ESPALIER_MALLOC_STATS=0"}).stats);
  EXPECT_EQ(read_heap({"ESPALIER_MALLOC_KEEP=0"}).keep, 0U);
}

TEST(heap_settings, that_are_wrong_are_named_and_left_out) {
  for (const char* const wrong : {"", "yes", "2", "01", "1 "}) {
    const heap_settings got =
        read_heap({std::string("ESPALIER_MALLOC_PREFAULT=") + wrong, "ESPALIER_MALLOC_HUGE=1"});
    EXPECT_FALSE(got.prefault);
    EXPECT_TRUE(got.huge) << "the others are read";
    EXPECT_THAT(complaints, ElementsAre(HasSubstr("PREFAULT is neither 0 nor 1"))) << wrong;
  }
  for (const char* const wrong : {"", "-1", "1M", "134217729", "99999999999999999999"}) {
    EXPECT_EQ(read_heap({std::string("ESPALIER_MALLOC_KEEP=") + wrong}).keep, std::size_t{32} << 20U);
    EXPECT_THAT(complaints, ElementsAre(HasSubstr("KEEP is not a number of MiB"))) << wrong;
  }
  for (const char* const wrong : {"", "1s", "4294967297"}) {
    EXPECT_EQ(read_heap({std::string("ESPALIER_MALLOC_DECAY=") + wrong}).decay, 1000U);
    EXPECT_THAT(complaints, ElementsAre(HasSubstr("DECAY is not a number of milliseconds"))) << wrong;
  }
  EXPECT_EQ(read_heap({"ESPALIER_MALLOC_DECAY=0"}).decay, 0U);
  EXPECT_EQ(read_heap({"ESPALIER_MALLOC_KEEP=134217728"}).keep, std::size_t{1} << 47U);
  static_cast<void>(
      read_heap({"ESPALIER_MALLOC_STATS=x", "ESPALIER_MALLOC_HUGE=x", "ESPALIER_MALLOC_KEEPS=1"}));
  EXPECT_THAT(complaints, ElementsAre(HasSubstr("STATS is neither"), HasSubstr("HUGE is neither"),
                                      HasSubstr("other than PREFAULT, HUGE, KEEP, DECAY and STATS")));
}

struct outcome {
  std::string wrong;
  random_settings got;
};

outcome read_random(std::vector<std::string> all) {
  variables environment(std::move(all));
  outcome done;
  if (const char* const wrong = read_random_settings(environment.data(), done.got)) done.wrong = wrong;
  return done;
}

TEST(random_settings, are_those_of_the_environment) {
  const outcome done =
      read_random({"PATH=/bin", "ESPALIER_RANDOM_SEED=18446744073709551615", "ESPALIER_RANDOM_BYTES=256",
                   "ESPALIER_RANDOM_STATS=1", "ESPALIER_MALLOC_STATS=maybe"});
  EXPECT_EQ(done.wrong, "");
  EXPECT_EQ(done.got.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(done.got.largest, 256U);
  EXPECT_TRUE(done.got.stats);
  for (const std::size_t bytes : {0U, 65536U})
    EXPECT_EQ(read_random({"ESPALIER_RANDOM_BYTES=" + std::to_string(bytes)}).got.largest, bytes);
}

TEST(random_settings, are_there_without_variables) {
  random_settings none;
  none.largest = 1;
  EXPECT_EQ(read_random_settings(nullptr, none), nullptr);
  EXPECT_EQ(none.largest, random_settings{}.largest);
  EXPECT_GT(none.largest, 0U);
  EXPECT_EQ(none.seed, 0U);
  EXPECT_FALSE(none.stats);
}

TEST(random_settings, that_are_wrong_are_named_and_leave_no_trace) {
  for (const char* const value :
       {"", "-16", "17", "16 ", "0x10", "65552", "99999999999999999999999", "many"}) {
    const outcome done = read_random(
        {"ESPALIER_RANDOM_SEED=9", "ESPALIER_RANDOM_STATS=1", std::string("ESPALIER_RANDOM_BYTES=") + value});
    EXPECT_THAT(done.wrong, AllOf(HasSubstr("ESPALIER_RANDOM_BYTES"), HasSubstr("16"), HasSubstr("65536"),
                                  Not(HasSubstr("\n"))))
        << value;
    EXPECT_EQ(done.got.seed, 0U) << "half of what was asked for is another experiment";
    EXPECT_FALSE(done.got.stats);
  }
  EXPECT_THAT(read_random({"ESPALIER_RANDOM_SEED=18446744073709551616"}).wrong, HasSubstr("2^64"));
  EXPECT_THAT(read_random({"ESPALIER_RANDOM_STATS=yes"}).wrong, HasSubstr("neither 0 nor 1"));
  EXPECT_THAT(read_random({"ESPALIER_RANDOM_BYTE=16"}).wrong, HasSubstr("other than SEED, BYTES and STATS"));
}

elision_settings read_elision(std::vector<std::string> all) {
  complaints.clear();
  variables environment(std::move(all));
  elision_settings got;
  read_elision_settings(environment.data(), got, [](const char* line) { complaints.emplace_back(line); });
  return got;
}

std::string name_for(const elision_settings& of, long process) {
  std::array<char, 4096> name{};
  return counts_file_name(of, process, name.data(), name.size()) ? name.data() : "";
}

TEST(elision_settings, are_what_the_readme_says_where_nothing_is_set) {
  const elision_settings got = read_elision({"HOME=/", "ESPALIER_INSPECT_FRAMES=3", "ESPALIER_ELIDE_POLICY"});
  EXPECT_EQ(got.policy, elision_policy::tle);
  EXPECT_FALSE(got.policy_asked);
  EXPECT_TRUE(got.rtm);
  EXPECT_TRUE(got.learns);
  EXPECT_FALSE(got.counting());
  EXPECT_THAT(complaints, IsEmpty());
  elision_settings none;
  read_elision_settings(nullptr, none, [](const char*) { FAIL(); });
  EXPECT_EQ(none.policy, elision_policy::tle);
}

TEST(elision_settings, are_read) {
  const elision_settings got =
      read_elision({"ESPALIER_ELIDE_POLICY=tts", "ESPALIER_ELIDE_RTM=off", "ESPALIER_ELIDE_LEARN=off",
                    "ESPALIER_ELIDE_STATS=/tmp/counts.%p%%"});
  EXPECT_EQ(got.policy, elision_policy::tts);
  EXPECT_TRUE(got.policy_asked);
  EXPECT_FALSE(got.rtm);
  EXPECT_FALSE(got.learns);
  EXPECT_TRUE(got.counting());
  EXPECT_EQ(name_for(got, 321), "/tmp/counts.321%%");
  EXPECT_THAT(complaints, IsEmpty());
  EXPECT_EQ(read_elision({"ESPALIER_ELIDE_POLICY=tle"}).policy, elision_policy::tle);
  EXPECT_TRUE(read_elision({"ESPALIER_ELIDE_RTM=auto"}).rtm);
  EXPECT_TRUE(read_elision({"ESPALIER_ELIDE_LEARN=auto"}).learns);
  EXPECT_EQ(name_for(read_elision({"ESPALIER_ELIDE_STATS=stderr"}), 1), "stderr");
  EXPECT_THAT(complaints, IsEmpty());
}

TEST(elision_settings, a_relative_file_is_of_the_folder_of_the_start) {
  const std::string name = name_for(read_elision({"ESPALIER_ELIDE_STATS=counts"}), 1);
  EXPECT_EQ(name.front(), '/');
  EXPECT_THAT(name, EndsWith("/counts"));
}

TEST(elision_settings, what_is_wrong_is_told_and_left_as_it_is_by_default) {
  const elision_settings got =
      read_elision({"ESPALIER_ELIDE_POLICY=TTS", "ESPALIER_ELIDE_RTM=no", "ESPALIER_ELIDE_LEARN=no",
                    "ESPALIER_ELIDE_STATS=", "ESPALIER_ELIDE_POLICIES=tts"});
  EXPECT_EQ(got.policy, elision_policy::tle);
  EXPECT_FALSE(got.policy_asked);
  EXPECT_TRUE(got.rtm);
  EXPECT_TRUE(got.learns);
  EXPECT_FALSE(got.counting());
  EXPECT_THAT(complaints, ElementsAre(AllOf(HasSubstr("ESPALIER_ELIDE_POLICY"), HasSubstr("tts")),
                                      AllOf(HasSubstr("ESPALIER_ELIDE_RTM"), HasSubstr("off")),
                                      AllOf(HasSubstr("ESPALIER_ELIDE_LEARN"), HasSubstr("off")),
                                      AllOf(HasSubstr("ESPALIER_ELIDE_STATS"), HasSubstr("stderr")),
                                      HasSubstr("other than POLICY, RTM, LEARN and STATS")));
  for (const std::string& line : complaints) EXPECT_EQ(line.find('\n'), std::string::npos);
}

TEST(elision_settings, a_name_without_room_is_none) {
  EXPECT_FALSE(read_elision({"ESPALIER_ELIDE_STATS=/" + std::string(5000, 'a')}).counting());
  EXPECT_THAT(complaints, ElementsAre(HasSubstr("too long")));
  const elision_settings got = read_elision({"ESPALIER_ELIDE_STATS=/a/%p"});
  std::array<char, 6> small{};
  EXPECT_TRUE(counts_file_name(got, 42, small.data(), small.size()));
  EXPECT_FALSE(counts_file_name(got, 421, small.data(), small.size()));
}

}  // namespace
}  // namespace espalier::preload
