// The in-memory database under chosen schedules.

#include "scheduled/oltp_scenes.hpp"

#include <gtest/gtest.h>

#include "scheduled/expect.hpp"

namespace {

using namespace espalier;

TEST(oltp, histories_are_serializable) {
  sim::transactional::for_each_scene([](const std::string& name, void (*build)(sim::scene&)) {
    SCOPED_TRACE(name);
    sim::expect_kept(100, build, sim::transactional::long_runs());
  });
}

}  // namespace
