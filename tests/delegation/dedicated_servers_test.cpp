#include "espalier/delegation/dedicated_servers.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

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

TEST(dedicated_servers, are_checked) {
  EXPECT_THROW(dedicated_servers(0), std::invalid_argument);
  dedicated_servers servers(1);
  EXPECT_THROW(served_partitions<counter>(servers, 0), std::invalid_argument);
}

}  // namespace
