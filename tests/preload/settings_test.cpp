#include "preload/recording/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::preload {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  EXPECT_THAT(got.file.data(), ::testing::EndsWith("/espalier-inspect.%p"));
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

}  // namespace
}  // namespace espalier::preload
