#include "espalier/programs/code_names.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace espalier::programs {
namespace {

namespace fs = std::filesystem;

TEST(programs_short_names, have_no_parameters) {
  EXPECT_EQ(short_function_name("main"), "main");
  EXPECT_EQ(short_function_name("f(int, char const*)"), "f");
  EXPECT_EQ(short_function_name("a::b<int (*)(char)>::c(int) const"), "a::b<int (*)(char)>::c");
  EXPECT_EQ(short_function_name("(anonymous namespace)::f(int)"), "f");
  EXPECT_EQ(short_function_name("a::(anonymous namespace)::b::f()"), "a::b::f");
}

TEST(programs_short_names, have_no_return_type) {
  EXPECT_EQ(short_function_name("void f<int>(int)"), "f<int>");
  EXPECT_EQ(short_function_name("std::pair<int, long> a::g<char>(char*)"), "a::g<char>");
}

TEST(programs_short_names, keep_operators) {
  EXPECT_EQ(short_function_name("operator new(unsigned long)"), "operator new");
  EXPECT_EQ(short_function_name("operator new[](unsigned long, std::nothrow_t const&)"), "operator new[]");
  EXPECT_EQ(short_function_name("a::operator()(int) const"), "a::operator()");
  EXPECT_EQ(short_function_name("a::operator<<(int)"), "a::operator<<");
  EXPECT_EQ(short_function_name("a::operator<(a const&)"), "a::operator<");
}

TEST(programs_short_names, have_no_marks_of_copies) {
  EXPECT_EQ(short_function_name("f.isra.0"), "f");
  EXPECT_EQ(short_function_name("f.constprop.0.isra.3"), "f");
  EXPECT_EQ(short_function_name("f(int) [clone .cold]"), "f");
  EXPECT_EQ(short_function_name(""), "");
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

}  // namespace
}  // namespace espalier::programs
