// That kernel calls fail and wait as the rules of tests/kernel_faults say, and no others.

#include "kernel_faults/kernel_faults.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <vector>

#include "preload/heap/page_source.hpp"
#include "preload/kernel/pages.hpp"

namespace espalier::preload {
namespace {

using test::kernel_call;
using test::kernel_calls;
using test::kernel_faults;
using test::kernel_window;

TEST(preload_kernel_faults, fail_the_calls_that_rules_name) {
  page_source pages;
  const kernel_faults faults("mmap:fail=ENOMEM@2,munmap:fail=EAGAIN@3+");
  ASSERT_EQ(faults.wrong(), nullptr);
  std::vector<void*> got;
  for (int i = 0; i < 4; ++i) {
    errno = 77;
    got.push_back(pages.map(page_bytes, page_bytes));
    EXPECT_EQ(errno, 77) << "the heap keeps it";
    EXPECT_EQ(got.back() == nullptr, i == 1);
  }
  EXPECT_EQ(kernel_calls(kernel_call::mmap), 4U);
  EXPECT_EQ(munmap(got[0], page_bytes), 0);
  EXPECT_EQ(munmap(got[2], page_bytes), 0);
  EXPECT_EQ(munmap(got[3], page_bytes), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(test::set_kernel_faults(nullptr), nullptr);
  EXPECT_EQ(munmap(got[3], page_bytes), 0);
}

TEST(preload_kernel_faults, show_the_windows_of_a_call) {
  page_source pages;
  void* const got = pages.map(2 * page_bytes, page_bytes);
  *static_cast<char*>(got) = 1;
  struct seen {
    int before = 0;
    int behind = 0;
    char first = 0;
    char last = 0;
  } all;
  const kernel_faults faults(
      [](const kernel_window& w, void* context) {
        auto& to = *static_cast<seen*>(context);
        if (w.kind != kernel_call::madvise) return;
        EXPECT_EQ(w.bytes, 2 * page_bytes);
        ++(w.behind ? to.behind : to.before);
        (w.behind ? to.last : to.first) = *static_cast<char*>(w.pages);
        // Neither counted nor seen.
        munmap(mmap(nullptr, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), page_bytes);
      },
      &all);
  EXPECT_TRUE(page_source::discard(got, 2 * page_bytes));
  EXPECT_EQ(all.before, 1);
  EXPECT_EQ(all.behind, 1);
  EXPECT_EQ(all.first, 1);
  EXPECT_EQ(all.last, 0);
  EXPECT_EQ(kernel_calls(kernel_call::mmap), 0U);
  pages.unmap(got, 2 * page_bytes);
}

TEST(preload_kernel_faults, say_what_is_wrong_with_rules) {
  for (const char* const right :
       {"", "mmap:fail=ENOMEM@1", "madvise:fail=22@*", "munmap:delay_us=5@2+,munmap:delay_after_us=5@*",
        "futex:fail=EINTR@1,membarrier:fail=EPERM@1,mremap:fail=ENOSYS@9,mprotect:fail=EACCES@1"})
    EXPECT_EQ(kernel_faults(right).wrong(), nullptr) << right;
  for (const char* const wrong :
       {"open:fail=ENOMEM@1", "mmap", "mmap:", "mmap:fail=EWHAT@1", "mmap:fail=0@1", "mmap:fail=ENOMEM",
        "mmap:fail=ENOMEM@", "mmap:fail=ENOMEM@0", "mmap:fail=ENOMEM@1;", "mmap:fail=ENOMEM@1,",
        "mmap:delay_us=@1", "mmap:delay_us=999999999999999@1", " mmap:fail=ENOMEM@1"})
    EXPECT_NE(kernel_faults(wrong).wrong(), nullptr) << wrong;
}

}  // namespace
}  // namespace espalier::preload
