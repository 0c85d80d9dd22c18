#include "espalier/programs/site_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace espalier::programs {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

TEST(programs_allocator_names, are_those_that_hand_on) {
  for (const char* const name : {"malloc",
                                 "__libc_calloc",
                                 "xmalloc",
                                 "zmalloc_usable",
                                 "PyObject_Malloc",
                                 "_PyMem_RawMalloc",
                                 "g_strdup",
                                 "operator new",
                                 "operator new[]",
                                 "_ZNSt4pairIiiEC2IRiEEOS1_",
                                 "a::b::operator new",
                                 "std::vector<int>::push_back",
                                 "std::__new_allocator<a>::allocate",
                                 "__gnu_cxx::new_allocator<int>::allocate",
                                 "CRYPTO_zalloc",
                                 "PyType_GenericAlloc",
                                 "sqlite3MallocZero",
                                 "valloc",
                                 "vasprintf",
                                 "posix_memalign",
                                 "je_realloc"})
    EXPECT_TRUE(is_allocator_name(name)) << name;
  for (const char* const name : {"main", "createObject", "dictAddRaw", "alloc_commit_node", "allocate_user",
                                 "mystd::f", "", "stdin_open"})
    EXPECT_FALSE(is_allocator_name(name)) << name;
}

/// Sites whose frames are at numbered addresses of one module: without a file, each frame is a function of its
/// own, "m+0x...".
struct layout {
  inspect::snapshot s;
  call_sites sites{{{"/nowhere/m", ""}}, {}};

  std::uint32_t add_site(std::vector<std::uint64_t> frames) {
    auto& added = sites.sites.emplace_back();
    for (const std::uint64_t address : frames) added.push_back({0, address});
    s.types.push_back({"call site", false, {}, {}});
    return static_cast<std::uint32_t>(sites.sites.size() - 1);
  }
  void add_block(std::uint32_t site, std::uint64_t bytes) {
    const std::uint64_t address = s.blocks.empty() ? 0x1000 : s.blocks.back().address + 4096;
    s.blocks.push_back({address, bytes, 0, site});
  }
  naming name() {
    code_names names(sites.modules);
    return name_types(s, sites, names);
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const inspect::block_type& type : s.types) all.push_back(type.name);
    return all;
  }
};

TEST(programs_site_names, make_one_type_of_what_is_called_the_same) {
  layout of;
  const std::uint32_t one = of.add_site({1, 2});
  const std::uint32_t other = of.add_site({1, 3});
  const std::uint32_t third = of.add_site({9});
  of.add_site({10});
  for (const std::uint32_t site : {one, other, third, one}) of.add_block(site, 8);
  EXPECT_EQ(of.name(), (naming{.unnamed = 32}));
  EXPECT_THAT(of.names(), ElementsAre("m+0x1", "m+0x9")) << "what has no block is no type";
  std::vector<std::uint32_t> types;
  for (const inspect::live_block& block : of.s.blocks) types.push_back(block.type);
  EXPECT_THAT(types, ElementsAre(0, 0, 1, 0));
}

TEST(programs_site_names, look_beyond_a_function_of_many_sizes_and_callers) {
  layout of;
  // Function 1 allocates for callers 10 to 13 in four sizes; function 2 one size for as many callers.
  for (std::uint64_t i = 0; i < 4; ++i) {
    of.add_block(of.add_site({1, 10 + i, 99}), 100 + i);
    of.add_block(of.add_site({2, 20 + i, 99}), 64);
  }
  of.name();
  EXPECT_THAT(of.names(), UnorderedElementsAre("m+0xa", "m+0xb", "m+0xc", "m+0xd", "m+0x2"));
}

TEST(programs_site_names, stay_where_there_is_nothing_beyond) {
  layout of;
  for (std::uint64_t i = 0; i < 4; ++i) of.add_block(of.add_site({1, 10 + i}), 100 + i);
  of.add_block(of.add_site({1}), 7);
  of.name();
  EXPECT_THAT(of.names(), UnorderedElementsAre("m+0xa", "m+0xb", "m+0xc", "m+0xd", "m+0x1"));
}

TEST(programs_site_names, look_through_one_allocator_after_another) {
  layout of;
  // 1 is called by 2 and 3 to 5; 2 itself allocates four sizes for 20 to 23.
  for (std::uint64_t i = 0; i < 4; ++i) {
    of.add_block(of.add_site({1, 2, 20 + i}), 100 + i);
    if (i > 0) of.add_block(of.add_site({1, 2 + i, 30}), 200);
  }
  of.name();
  EXPECT_THAT(of.names(),
              UnorderedElementsAre("m+0x14", "m+0x15", "m+0x16", "m+0x17", "m+0x3", "m+0x4", "m+0x5"));
}

TEST(programs_site_names, are_the_same_in_all_snapshots_of_a_process) {
  // By itself the second would say "m+0x1": only together do they show that function 1 allocates for others.
  layout first;
  for (std::uint64_t i = 0; i < 4; ++i) first.add_block(first.add_site({1, 10 + i}), 100 + i);
  layout second = first;
  second.s.blocks.resize(1);
  second.add_block(second.add_site({7}), 8);
  code_names names(second.sites.modules);
  const std::vector<inspect::snapshot*> both{&first.s, &second.s};
  std::vector<std::size_t> steps;
  const auto progress = [&](std::size_t done, std::size_t all) {
    steps.push_back(done);
    EXPECT_EQ(all, 5U);
  };
  EXPECT_THAT(name_types(both, second.sites, names, progress),
              ElementsAre(naming{.unnamed = 406}, naming{.unnamed = 108}));
  EXPECT_THAT(steps, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(first.names(), UnorderedElementsAre("m+0xa", "m+0xb", "m+0xc", "m+0xd"));
  EXPECT_THAT(second.names(), ElementsAre("m+0xa", "m+0x7"));
  layout later = second;
  later.s.types.resize(second.sites.sites.size() + 1);
  const std::vector<inspect::snapshot*> wrong{&later.s, &second.s};
  EXPECT_THROW(name_types(wrong, second.sites, names), std::invalid_argument);
}

TEST(programs_site_names, need_as_many_sites_as_types) {
  layout of;
  of.add_block(of.add_site({1}), 8);
  of.s.types.emplace_back();
  EXPECT_THROW(of.name(), std::invalid_argument);
}

TEST(programs_site_names, of_nothing_are_none) {
  layout of;
  EXPECT_EQ(of.name(), naming{});
  EXPECT_TRUE(of.s.types.empty());
}

}  // namespace
}  // namespace espalier::programs
