// The delegation runtime under chosen schedules.

#include "scheduled/delegation_scenes.hpp"

#include <gtest/gtest.h>

#include "scheduled/expect.hpp"

namespace {

using namespace espalier;

TEST(delegation, keeps_its_promises) {
  sim::delegated::for_each_scene([](const char* name, void (*build)(sim::scene&)) {
    SCOPED_TRACE(name);
    sim::expect_kept(1500, build);
  });
  sim::delegated::for_each_scene_in_order([](const char* name, void (*build)(sim::scene&)) {
    SCOPED_TRACE(name);
    sim::expect_kept(100, build);
  });
  sim::delegated::for_each_scene_alone([](const char* name, void (*build)(sim::scene&)) {
    SCOPED_TRACE(name);
    sim::expect_kept(1, build);
  });
}

}  // namespace
