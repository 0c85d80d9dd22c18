#include "preload/elision/futex_mutex.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <cerrno>

#include "support/sanitizers.hpp"

namespace espalier::preload {
namespace {

/// This C library's functions, and ways to be another.
struct probed_functions : ::testing::Test {
  void SetUp() override {
    if (test::thread_sanitizer)
      GTEST_SKIP() << "thread_sanitizer takes mutexes that are locked by their words for free";
    ASSERT_TRUE(look_up(real));
    functions = real;
  }
  static inline next_mutex real;
  next_mutex functions;
};

TEST_F(probed_functions, this_c_librarys_words_are_known) {
  errno = 4321;
  EXPECT_TRUE(keeps_known_words(functions));
  EXPECT_EQ(errno, 4321);
}

TEST_F(probed_functions, another_librarys_are_not) {
  functions.lock = [](pthread_mutex_t* mutex) {
    const int failed = real.lock(mutex);
    mutex->__data.__lock = 3;
    return failed;
  };
  EXPECT_FALSE(keeps_known_words(functions)) << "another value for a taken mutex";
  functions.lock = [](pthread_mutex_t* mutex) {
    const int failed = real.lock(mutex);
    mutex->__data.__owner = 0;
    return failed;
  };
  EXPECT_FALSE(keeps_known_words(functions)) << "an owner that is not kept";
  functions.lock = [](pthread_mutex_t*) { return 0; };
  EXPECT_FALSE(keeps_known_words(functions)) << "elsewhere than in the words";
}

TEST_F(probed_functions, nor_those_that_leave_something) {
  functions.unlock = [](pthread_mutex_t* mutex) {
    const int failed = real.unlock(mutex);
    mutex->__data.__nusers = 1;
    return failed;
  };
  EXPECT_FALSE(keeps_known_words(functions)) << "a user stays";
  functions = real;
  functions.trylock = [](pthread_mutex_t*) { return 0; };
  EXPECT_FALSE(keeps_known_words(functions)) << "what is taken is not seen to be";
  functions = real;
  functions.destroy = [](pthread_mutex_t*) { return EBUSY; };
  EXPECT_FALSE(keeps_known_words(functions)) << "what is free is not seen to be";
  functions = real;
  functions.init = [](pthread_mutex_t* mutex, const pthread_mutexattr_t* attributes) {
    const int failed = real.init(mutex, attributes);
    mutex->__data.__kind = 1;
    return failed;
  };
  EXPECT_FALSE(keeps_known_words(functions)) << "another number for a kind";
}

}  // namespace
}  // namespace espalier::preload
