// Names of code, of the functions that allocate, and of the places that call them; what keeps a library from a program.

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "espalier/inspect/snapshot_file.hpp"
#include "espalier/inspect/snapshot_format.hpp"
#include "espalier/programs/code_names.hpp"
#include "espalier/programs/preload_obstacle.hpp"
#include "espalier/programs/site_names.hpp"
#include "support/temporary_folder.hpp"

namespace espalier::programs {
namespace {

using namespace ::testing;

namespace fs = std::filesystem;

TEST(programs_short_names, are_what_a_reader_calls_a_function) {
  const std::map<std::string, std::string> names{
      {"main", "main"},
      {"", ""},
      // Without parameters.
      {"f(int, char const*)", "f"},
      {"a::b<int (*)(char)>::c(int) const", "a::b<int (*)(char)>::c"},
      {"(anonymous namespace)::f(int)", "f"},
      {"a::(anonymous namespace)::b::f()", "a::b::f"},
      // Without a return type.
      {"void f<int>(int)", "f<int>"},
      {"std::pair<int, long> a::g<char>(char*)", "a::g<char>"},
      {"operator new(unsigned long)", "operator new"},
      {"operator new[](unsigned long, std::nothrow_t const&)", "operator new[]"},
      {"a::operator()(int) const", "a::operator()"},
      {"a::operator<<(int)", "a::operator<<"},
      {"a::operator<(a const&)", "a::operator<"},
      // Without the marks of copies.
      {"f.isra.0", "f"},
      {"f.constprop.0.isra.3", "f"},
      {"f(int) [clone .cold]", "f"}};
  for (const auto& [name, expected] : names) EXPECT_EQ(short_function_name(name), expected) << name;
}

TEST(programs_short_names, lose_template_arguments_where_they_are_too_long) {
  const std::string arguments(90, 'x');
  EXPECT_EQ(short_function_name("a<" + arguments + ", b<c> >::f<d>(int)"), "a<>::f<>");
}

TEST(programs_code_names, of_a_file_that_changed_are_not_believed) {
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  const std::vector<code_module> modules{{self, "another build"}};
  code_names names(modules);
  const std::vector<code_place> places = names.places_of({0, 0x2000});
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].source, name_source::module_only);
  EXPECT_EQ(places[0].function, fs::path(self).filename().string() + "+0x2000");
}

TEST(programs_code_names, of_what_is_not_there_are_addresses) {
  const std::vector<code_module> modules{
      {"/no/such/file.so", ""}, {"linux-vdso.so.1", ""}, {"/etc/passwd", ""}};
  code_names names(modules);
  EXPECT_EQ(names.places_of({0, 0x1234})[0].function, "file.so+0x1234");
  EXPECT_EQ(names.places_of({1, 0x10})[0].function, "linux-vdso.so.1+0x10");
  EXPECT_EQ(names.places_of({2, 0x10})[0].function, "passwd+0x10");
  const std::vector<code_place> places = names.places_of({std::nullopt, 0x7f00});
  EXPECT_EQ(places[0].function, "code made at run time+0x7f00");
  EXPECT_EQ(places[0].source, name_source::module_only);
}

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
  layout nothing;
  EXPECT_EQ(nothing.name(), naming{});
  EXPECT_TRUE(nothing.s.types.empty());
}

namespace format = inspect::format;

struct programs_call_sites : ::testing::Test, test::temporary_folder {
  /// What is written of some numbers, of a wide one, and of texts.
  static std::string made(std::initializer_list<std::uint32_t> numbers) {
    return {reinterpret_cast<const char*>(numbers.begin()), 4 * numbers.size()};
  }
  static std::string made_wide(std::uint64_t number) { return {reinterpret_cast<const char*>(&number), 8}; }
  static std::string made(const std::string& text) {
    return made({static_cast<std::uint32_t>(text.size())}) + text;
  }

  /// A file of these two sections alone.
  fs::path write(const std::string& modules, const std::string& sites) const {
    std::vector<format::section_entry> entries;
    std::string payload;
    const std::uint64_t begin = sizeof(format::header) + 2 * sizeof(format::section_entry);
    for (const auto& [tag, content] : {std::pair{format::modules_tag, modules}, {format::sites_tag, sites}}) {
      format::checksum sum;
      sum.add(content.data(), content.size());
      entries.push_back({tag, format::may_be_skipped, begin + payload.size(), content.size(), sum.sum()});
      payload += content;
      payload.resize(format::padded(payload.size()));
    }
    format::header head;
    std::ranges::copy(format::magic, head.magic);
    head.version = format::version;
    head.sections = 2;
    format::checksum sum;
    sum.add(&head, offsetof(format::header, check));
    sum.add(entries.data(), entries.size() * sizeof entries[0]);
    head.check = sum.sum();
    const fs::path file = at("snapshot");
    std::ofstream out(file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&head), sizeof head);
    out.write(reinterpret_cast<const char*>(entries.data()),
              static_cast<std::streamsize>(entries.size() * sizeof entries[0]));
    out << payload;
    return file;
  }
};

TEST_F(programs_call_sites, are_read) {
  const fs::path file = write(made({1}) + made("/bin/program") + made(std::string("\0\1id", 4)),
                              made({2, 2, 0}) + made_wide(0x1'0000'0001) + made({format::no_module}) +
                                  made_wide(0x7fff'0000'0000) + made({0}));
  const call_sites got = read_call_sites(file);
  EXPECT_EQ(got.modules, (std::vector<code_module>{{"/bin/program", std::string("\0\1id", 4)}}));
  ASSERT_EQ(got.sites.size(), 2U);
  EXPECT_EQ(got.sites[0], (std::vector<code_frame>{{0, 0x1'0000'0001}, {std::nullopt, 0x7fff'0000'0000}}));
  EXPECT_TRUE(got.sites[1].empty());
  EXPECT_EQ(inspect::read_snapshot(file), inspect::read_snapshot(file)) << "others skip the sections";
}

TEST_F(programs_call_sites, of_other_snapshots_are_none) {
  const inspect::snapshot s = inspect::make_snapshot("test", {{"t", false, {}, {}}}, {{4096, 8, 0, 0}});
  inspect::write_snapshot(s, at("other"));
  EXPECT_TRUE(read_call_sites(at("other")).sites.empty());
  EXPECT_TRUE(read_call_sites(at("other")).modules.empty());
}

TEST_F(programs_call_sites, that_are_damaged_are_refused) {
  const std::string none = made({0});
  const std::string frame = made({1, 1, 0}) + made_wide(5);
  EXPECT_THROW(static_cast<void>(read_call_sites(write(none, frame))), std::invalid_argument)
      << "a module that there is not";
  const std::string one = made({1}) + made("path") + made("");
  EXPECT_EQ(read_call_sites(write(one, frame)).sites.size(), 1U);
  for (std::size_t size = 1; size < frame.size(); ++size)
    EXPECT_THROW(static_cast<void>(read_call_sites(write(one, frame.substr(0, size)))), std::invalid_argument)
        << size;
  for (std::size_t size = 1; size < one.size(); ++size)
    EXPECT_THROW(static_cast<void>(read_call_sites(write(one.substr(0, size), none))), std::invalid_argument)
        << size;
  EXPECT_THROW(static_cast<void>(read_call_sites(write(one, frame + "x"))), std::invalid_argument)
      << "too long";
  EXPECT_THROW(static_cast<void>(read_call_sites(write(one, made({0xffff'ffff})))), std::invalid_argument);
}

struct programs_preload_obstacle : ::testing::Test, test::temporary_folder {
  fs::path make(const std::string& name, const std::string& content, mode_t mode = 0755) const {
    chmod(put(name, content).c_str(), mode);
    return at(name);
  }

  /// The headers of a program for a machine, with segments of these kinds.
  static std::string program(unsigned machine, const std::vector<unsigned>& segments) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_machine = static_cast<Elf64_Half>(machine);
    header.e_phoff = sizeof header;
    header.e_phnum = static_cast<Elf64_Half>(segments.size());
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    for (const unsigned kind : segments) {
      Elf64_Phdr segment{};
      segment.p_type = kind;
      bytes.append(reinterpret_cast<const char*>(&segment), sizeof segment);
    }
    return bytes;
  }

  static std::string of(const fs::path& file) { return preload_obstacle(file).value_or("none"); }
};

TEST_F(programs_preload_obstacle, is_none_for_ordinary_programs_and_else_is_named) {
  for (const fs::path& ordinary : {fs::path("/bin/sh"), fs::path("sh"), fs::path("/proc/self/exe"),
                                   make("program", program(EM_X86_64, {PT_LOAD, PT_INTERP}))})
    EXPECT_EQ(of(ordinary), "none") << ordinary;
  EXPECT_THAT(of("no-such-program"), AllOf(HasSubstr("no-such-program"), HasSubstr("PATH")));
  std::string narrow = program(EM_386, {PT_INTERP});
  narrow[EI_CLASS] = ELFCLASS32;
  const std::pair<fs::path, std::string> others[] = {
      {at("none"), "there is no program"},
      {path(), "no file that may be executed"},
      {make("data", "text", 0644), "no file that may be executed"},
      {make("text", "neither\n"), "neither a program nor a script"},
      {make("empty", ""), "neither a program nor a script"},
      {make("static", program(EM_X86_64, {PT_LOAD, PT_NOTE})), "linked statically"},
      // Cut short in its headers.
      {make("short", program(EM_X86_64, {PT_LOAD, PT_INTERP}).substr(0, 100)), "linked statically"},
      {make("arm", program(EM_AARCH64, {PT_INTERP})), "another architecture"},
      {make("narrow", narrow), "another architecture"},
      {make("cut", program(EM_X86_64, {}).substr(0, 30)), "another architecture"}};
  for (const auto& [file, words] : others) EXPECT_THAT(of(file), HasSubstr(words)) << file;
}

TEST_F(programs_preload_obstacle, is_the_rights_of_another_user) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const fs::path file = make("setuid", program(EM_X86_64, {PT_INTERP}));
  ASSERT_EQ(chown(file.c_str(), 12345, 12345), 0);
  chmod(file.c_str(), 04755);
  EXPECT_THAT(of(file), HasSubstr("more rights"));
  chmod(file.c_str(), 02755);
  EXPECT_THAT(of(file), HasSubstr("more rights"));
  chmod(file.c_str(), 0755);
  EXPECT_EQ(of(file), "none");
}

TEST_F(programs_preload_obstacle, of_a_script_is_that_of_its_interpreter) {
  const fs::path interpreter = make("static", program(EM_X86_64, {PT_LOAD}));
  EXPECT_EQ(of(make("script", "#! /bin/sh -e\nexit\n")), "none");
  EXPECT_THAT(of(make("for_static", "#!" + interpreter.string() + " word\n")),
              HasSubstr("linked statically"));
  EXPECT_THAT(of(make("for_none", "#!/no/such/interpreter\n")),
              AllOf(HasSubstr("for_none"), HasSubstr("/no/such/interpreter")));
  const fs::path itself = at("itself");
  EXPECT_THAT(of(make("itself", "#!" + itself.string() + "\n")), HasSubstr("neither a program nor a script"));
}

}  // namespace
}  // namespace espalier::programs
