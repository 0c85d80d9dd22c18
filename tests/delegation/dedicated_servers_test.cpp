#include "espalier/delegation/dedicated_servers.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <cerrno>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "support/sanitizers.hpp"

namespace {

/// How many threads can still be made; less than 0: all.
int threads_left = -1;

}  // namespace

#if !defined(ESPALIER_ADDRESS_SANITIZER) && !defined(ESPALIER_THREAD_SANITIZER)
// In the place of the C library's: std::thread calls it.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*run)(void*),
                              void* argument) noexcept {
  using function = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto real = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left == 0) return EAGAIN;
  if (threads_left > 0) --threads_left;
  return real(thread, how, run, argument);
}
#endif

namespace {

using namespace espalier;
using namespace espalier::delegation;

struct counter {
  long n = 0;  // one server alone changes it
};

TEST(dedicated_servers, requests_of_many_clients) {
  dedicated_servers servers(2);
  served_partitions<counter> all(servers, 4);
  std::vector<std::thread> clients;
  for (int t = 0; t < 20; ++t) {
    clients.emplace_back([&] {
      for (int i = 0; i < 200; ++i) all.call(i, [](counter& c) noexcept { return ++c.n; });
    });
  }
  for (std::thread& one : clients) one.join();
  long sum = 0;
  for (unsigned p = 0; p < all.count(); ++p) sum += all.call_at(p, [](counter& c) noexcept { return c.n; });
  EXPECT_EQ(sum, 4000);
}

TEST(dedicated_servers, results_of_every_kind) {
  dedicated_servers servers(1);
  served_partitions<counter> all(servers, 1, by_hash(), counter{5});
  EXPECT_EQ(all.call(0, [](counter& c) noexcept { return c.n; }), 5);
  all.call(0, [](counter& c) noexcept { ++c.n; });
  EXPECT_EQ(all.call(0, [](counter& c) { return std::string(60, 'x') + std::to_string(c.n); }),
            std::string(60, 'x') + "6");
  EXPECT_THROW(all.call(0, [](counter&) -> int { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(all.call(0, [](counter& c) noexcept { return c.n; }), 6);
}

TEST(dedicated_servers, operations_that_cannot_be_copied) {
  dedicated_servers servers(1);
  served_partitions<counter> all(servers, 1);
  EXPECT_EQ(all.call(0, [n = std::make_unique<long>(3)](counter& c) { return c.n += *n; }), 3);
  auto twice = [n = std::make_unique<long>(2)](counter& c) { return c.n *= (*n)++; };
  EXPECT_EQ(all.call_at(0, twice), 6);
  EXPECT_EQ(all.call_at(0, twice), 18);
}

TEST(dedicated_servers, a_thread_that_cannot_be_made) {
  if (test::address_sanitizer || test::thread_sanitizer) GTEST_SKIP() << "a sanitizer makes the threads";
  for (const int possible : {0, 1, 2}) {
    threads_left = possible;
    EXPECT_THROW(dedicated_servers(3), std::system_error);
  }
  threads_left = -1;
}

TEST(dedicated_servers, are_checked) {
  EXPECT_THROW(dedicated_servers(0), std::invalid_argument);
  dedicated_servers servers(1);
  EXPECT_THROW(served_partitions<counter>(servers, 0), std::invalid_argument);
  served_partitions<counter> two(servers, 2);
  EXPECT_THROW(two.call_at(7, [](counter& c) { return c.n; }), std::out_of_range);
}

}  // namespace
