#include "preload/next/later_definition.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace espalier::preload {
namespace {

TEST(preload_later_definition, is_what_the_dynamic_linker_finds) {
  // Of some there is a version that only old programs are to get.
  for (const char* const name : {"_exit", "_Exit", "quick_exit", "malloc", "free", "pthread_mutex_lock",
                                 "pthread_cond_wait", "regexec", "posix_spawn", "fopen", "dlsym"}) {
    void* const expected = dlsym(RTLD_NEXT, name);
    ASSERT_NE(expected, nullptr) << name;
    EXPECT_EQ(later_definition(name), expected) << name;
  }
}

TEST(preload_later_definition, is_none_where_there_is_none) {
  errno = 4321;
  EXPECT_EQ(later_definition("espalier_has_no_such_function"), nullptr);
  EXPECT_EQ(later_definition(""), nullptr);
  EXPECT_EQ(later_definition("environ"), nullptr) << "no function";
  EXPECT_EQ(later_definition("_exi"), nullptr) << "the beginning of a name";
  EXPECT_EQ(later_definition("_exit_"), nullptr);
  EXPECT_EQ(errno, 4321);
}

TEST(preload_later_definition, is_none_of_a_function_that_the_processor_chooses) {
  void* const chosen = dlsym(RTLD_NEXT, "strlen");
  ASSERT_NE(chosen, nullptr);
  void* const found = later_definition("strlen");
  EXPECT_TRUE(found == nullptr || found == chosen) << "a sanitizer's is an ordinary one";
}

}  // namespace
}  // namespace espalier::preload
