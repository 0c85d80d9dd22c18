#include "preload/elision/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace espalier::preload {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> complaints;

elision_settings read(std::vector<std::string> all) {
  std::vector<char*> environment;
  for (std::string& one : all) environment.push_back(one.data());
  environment.push_back(nullptr);
  elision_settings got;
  complaints.clear();
  read_elision_settings(environment.data(), got, [](const char* line) { complaints.emplace_back(line); });
  return got;
}

std::string name_for(const elision_settings& of, long process) {
  std::array<char, 4096> name{};
  return counts_file_name(of, process, name.data(), name.size()) ? name.data() : "";
}

TEST(elision_settings, are_what_the_readme_says_where_nothing_is_set) {
  const elision_settings got = read({"HOME=/", "ESPALIER_INSPECT_FRAMES=3", "ESPALIER_ELIDE_POLICY"});
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
  const elision_settings got = read({"ESPALIER_ELIDE_POLICY=tts", "ESPALIER_ELIDE_RTM=off",
                                     "ESPALIER_ELIDE_LEARN=off", "ESPALIER_ELIDE_STATS=/tmp/counts.%p%%"});
  EXPECT_EQ(got.policy, elision_policy::tts);
  EXPECT_TRUE(got.policy_asked);
  EXPECT_FALSE(got.rtm);
  EXPECT_FALSE(got.learns);
  EXPECT_TRUE(got.counting());
  EXPECT_EQ(name_for(got, 321), "/tmp/counts.321%%");
  EXPECT_THAT(complaints, IsEmpty());
  EXPECT_EQ(read({"ESPALIER_ELIDE_POLICY=tle"}).policy, elision_policy::tle);
  EXPECT_TRUE(read({"ESPALIER_ELIDE_RTM=auto"}).rtm);
  EXPECT_TRUE(read({"ESPALIER_ELIDE_LEARN=auto"}).learns);
  EXPECT_EQ(name_for(read({"ESPALIER_ELIDE_STATS=stderr"}), 1), "stderr");
  EXPECT_THAT(complaints, IsEmpty());
}

TEST(elision_settings, a_relative_file_is_of_the_folder_of_the_start) {
  const std::string name = name_for(read({"ESPALIER_ELIDE_STATS=counts"}), 1);
  EXPECT_EQ(name.front(), '/');
  EXPECT_THAT(name, EndsWith("/counts"));
}

TEST(elision_settings, what_is_wrong_is_told_and_left_as_it_is_by_default) {
  const elision_settings got =
      read({"ESPALIER_ELIDE_POLICY=TTS", "ESPALIER_ELIDE_RTM=no", "ESPALIER_ELIDE_LEARN=no",
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
  EXPECT_FALSE(read({"ESPALIER_ELIDE_STATS=/" + std::string(5000, 'a')}).counting());
  EXPECT_THAT(complaints, ElementsAre(HasSubstr("too long")));
  const elision_settings got = read({"ESPALIER_ELIDE_STATS=/a/%p"});
  std::array<char, 6> small{};
  EXPECT_TRUE(counts_file_name(got, 42, small.data(), small.size()));
  EXPECT_FALSE(counts_file_name(got, 421, small.data(), small.size()));
}

}  // namespace
}  // namespace espalier::preload
