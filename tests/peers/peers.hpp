#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string_view>
#include <thread>

#include "peers/checks.hpp"

// The suite for every adapter found, instantiated by a unit for each.

namespace espalier::peers {

template <class Map>
class peers : public testing::Test {};

TYPED_TEST_SUITE_P(peers);

TYPED_TEST_P(peers, names_its_library_and_version) {
  const std::string_view paper = TypeParam::properties.paper;
  EXPECT_NE(paper.find_first_of("0123456789"), std::string_view::npos) << paper;
}

TYPED_TEST_P(peers, agrees_with_model) {
  for (const std::uint64_t seed : {1U, 2U, 3U})
    EXPECT_EQ(checks::agrees_with_model<TypeParam>(8000, seed), "");
}

TYPED_TEST_P(peers, refuses_what_it_lacks) { EXPECT_EQ(checks::refuses_what_it_lacks<TypeParam>(), ""); }

TYPED_TEST_P(peers, conserves_keys) { EXPECT_EQ(checks::conserves_keys<TypeParam>(100000, 4), ""); }

TYPED_TEST_P(peers, scans_beside_updates) {
  if constexpr (TypeParam::supports_scan)
    EXPECT_EQ(checks::scans_beside_updates<TypeParam>(2000), "");
  else
    GTEST_SKIP() << TypeParam::properties.name << " has no scan";
}

// Threads that come and go, as they do between two runs of the driver; the map may end on another thread
// than the one that made it.
TYPED_TEST_P(peers, outlives_threads) {
  auto map = std::make_unique<TypeParam>();
  for (std::uint64_t i = 0; i < 300; ++i) {
    std::thread([&] {
      const typename TypeParam::thread_scope scope;
      const typename TypeParam::thread_scope nested;
      EXPECT_TRUE(map->insert(i, i + 1));
      EXPECT_EQ(map->find(i), i + 1);
      EXPECT_EQ(map->contains(i - 1), i > 0);
    }).join();
  }
  std::thread([&] { map.reset(); }).join();
}

REGISTER_TYPED_TEST_SUITE_P(peers, names_its_library_and_version, agrees_with_model, refuses_what_it_lacks,
                            conserves_keys, scans_beside_updates, outlives_threads);

}  // namespace espalier::peers

#define ESPALIER_CATALOG_UNIT(algorithm)                                                         \
  namespace espalier::peers {                                                                    \
  INSTANTIATE_TYPED_TEST_SUITE_P(algorithm, peers, catalog::algorithm::maps_as<testing::Types>); \
  }
