// Queues, store buffers, fences and hardware threads that share a core.

#include <gtest/gtest.h>

#include "tests/sim/machine_fixture.hpp"

namespace espalier::sim {
namespace {

TEST(machine_timing, requests_for_one_line_queue) {
  machine m(tiny_spec(), tiny_bytes);
  m.set_page(0, tiny_bytes, {.huge = false, .numa_node = 0});
  m.access(0, 0, 0, 8, touch::atomic);
  // At one moment: 176 from core 0, then in turn behind it.
  EXPECT_EQ(m.access(2, 1000, 0, 8, touch::atomic), 20u + 196);
  EXPECT_EQ(m.access(0, 1000, 0, 8, touch::atomic), 20u + 2 * 196);
  EXPECT_EQ(m.access(3, 1000, 0, 8, touch::atomic), 20u + 3 * 196);
  EXPECT_EQ(m.of(3).queue_cycles, 2u * 196);
  EXPECT_EQ(m.of(3).stall_cycles, 3u * 196);
  // Another line has no queue.
  EXPECT_EQ(m.access(0, 1000, 64, 8, touch::read), 180u);
}

TEST(machine_timing, a_line_on_its_way_is_waited_for) {
  machine m(tiny_spec(), tiny_bytes);
  m.access(0, 0, 0, 8, touch::read);
  EXPECT_EQ(m.access(1, 100, 0, 8, touch::read), 76u + 60);
  // Asking the owner keeps the line busy.
  EXPECT_EQ(m.access(0, 1000, 0, 8, touch::read), 4u);
  m.access(0, 2000, 64, 8, touch::read);
  EXPECT_EQ(m.access(1, 3000, 64, 8, touch::read), 60u);
  EXPECT_EQ(m.access(2, 3000, 64, 8, touch::read), 56u + 150);
  // A second hit in the last level waits, and keeps nobody waiting.
  machine shared(tiny_spec(), tiny_bytes);
  shared.access(0, 0, 0, 8, touch::read);
  shared.access(2, 1000, 0, 8, touch::read);
  shared.access(1, 2000, 0, 8, touch::read);
  EXPECT_EQ(shared.access(3, 2000, 0, 8, touch::read), 40u);
}

TEST(machine_timing, memory_channels_queue) {
  machine_spec spec = tiny_spec();
  spec.latency.dram_occupancy = 50;
  machine m(spec, tiny_bytes);
  m.set_page(0, 8192, {.huge = false, .numa_node = 0});
  m.set_page(8192, 4096, {.huge = false, .numa_node = 1});
  EXPECT_EQ(m.access(0, 0, 0, 8, touch::read), 180u);
  EXPECT_EQ(m.access(1, 0, 4096, 8, touch::read), 50u + 180);
  EXPECT_EQ(m.access(2, 30, 64, 8, touch::read), 70u + 300);
  EXPECT_EQ(m.access(3, 0, 8192, 8, touch::read), 180u);
  EXPECT_EQ(m.access(0, 1000, 128, 8, touch::read), 180u);
  EXPECT_EQ(m.of(1).queue_cycles, 50u);
}

TEST(machine_timing, prefetches_use_the_channel) {
  machine_spec spec = tiny_spec();
  spec.latency.dram_occupancy = 50;
  spec.adjacent_line_prefetch = true;
  machine m(spec, tiny_bytes);
  m.access(0, 0, 0, 8, touch::read);
  EXPECT_EQ(m.access(0, 0, 128, 8, touch::read), 100u + 180);
}

TEST(machine_timing, stores_are_buffered_until_the_buffer_is_full) {
  machine m(tiny_spec(), tiny_bytes);
  // Four places; each line is there 176 cycles after its store.
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(m.access(0, i, i * 64, 8, touch::write), 1u);
  }
  EXPECT_EQ(m.access(0, 4, 256, 8, touch::write), 1u + 172);
  EXPECT_EQ(m.of(0).stall_cycles, 172u);
  EXPECT_EQ(m.of(0).writes, 5u);
}

TEST(machine_timing, a_buffered_store_keeps_its_order) {
  machine m(tiny_spec(), tiny_bytes);
  m.access(0, 0, 0, 8, touch::write);
  EXPECT_EQ(m.access(0, 1, 0, 8, touch::write), 1u);
  // The second store hits, and still is visible only after the first, at 177.
  EXPECT_EQ(m.fence(0, 10), 167u + 30);
  EXPECT_EQ(m.fence(0, 1000), 30u);
  EXPECT_EQ(m.of(0).fences, 2u);
}

TEST(machine_timing, an_atomic_drains_the_buffer) {
  machine m(tiny_spec(), tiny_bytes);
  m.access(0, 0, 64, 8, touch::atomic);
  EXPECT_EQ(m.access(0, 1000, 64, 8, touch::atomic), 20u);
  m.access(0, 2000, 0, 8, touch::write);
  EXPECT_EQ(m.access(0, 2001, 64, 8, touch::atomic), 20u + 175);
  EXPECT_EQ(m.of(0).atomics, 3u);
}

TEST(machine_timing, a_read_does_not_wait_for_stores) {
  machine m(tiny_spec(), tiny_bytes);
  m.access(0, 0, 0, 8, touch::write);
  EXPECT_EQ(m.access(0, 1, 0, 8, touch::read), 4u);
  EXPECT_EQ(m.access(0, 2, 4, 4, touch::read), 4u);
}

// The line of a store is there 176 cycles after it.
TEST(machine_timing, a_read_waits_for_the_line_that_a_store_has_asked_for) {
  machine m(tiny_spec(), tiny_bytes);
  m.access(0, 0, 0, 8, touch::write);
  EXPECT_EQ(m.access(0, 1, 8, 8, touch::read), 4u + 175);
  EXPECT_EQ(m.access(0, 100, 4, 8, touch::read), 4u + 76);  // partly stored
  EXPECT_EQ(m.access(0, 175, 63, 1, touch::read), 4u + 1);
  EXPECT_EQ(m.access(0, 176, 8, 8, touch::read), 4u);
  EXPECT_EQ(m.of(0).l1_hits, 4u);
  EXPECT_EQ(m.of(0).stall_cycles, 175u + 76 + 1);
}

TEST(machine_timing, a_read_of_what_several_stores_have_written_does_not_wait) {
  machine m(tiny_spec(), tiny_bytes);
  m.access(0, 0, 0, 8, touch::write);
  m.access(0, 1, 8, 8, touch::write);
  EXPECT_EQ(m.access(0, 2, 0, 16, touch::read), 4u);
  EXPECT_EQ(m.access(0, 2, 0, 17, touch::read), 4u + 174);
  // Of another core's stores it knows nothing.
  EXPECT_EQ(m.of(1).accesses, 0u);
}

TEST(machine_timing, a_read_of_a_line_that_is_there_does_not_wait_for_a_store_that_makes_it_writable) {
  machine m(tiny_spec(), tiny_bytes);
  m.access(0, 0, 0, 8, touch::read);
  m.access(1, 1000, 0, 8, touch::read);
  EXPECT_EQ(m.access(0, 2000, 0, 8, touch::write), 1u);
  EXPECT_EQ(m.access(0, 2001, 8, 8, touch::read), 4u);
}

TEST(machine_timing, threads_that_share_a_core_slow_each_other) {
  machine_spec spec = tiny_spec();
  spec.threads_per_core = 2;
  machine m(spec, tiny_bytes);
  m.access(0, 0, 0, 8, touch::read);
  m.set_running(0, true);
  m.set_running(0, true);
  EXPECT_EQ(m.access(0, 1000, 0, 8, touch::read), 4u);
  EXPECT_EQ(m.work(0, 100), 100u);
  m.set_running(1, true);
  EXPECT_EQ(m.access(0, 2000, 0, 8, touch::read), 6u);
  EXPECT_EQ(m.work(0, 100), 150u);
  EXPECT_EQ(m.work(2, 100), 100u);
  EXPECT_EQ(m.fence(0, 3000), 45u);
  // What is waited for takes as long as before.
  EXPECT_EQ(m.access(0, 4000, 64, 8, touch::read), 6u + 176);
  m.set_running(1, false);
  EXPECT_EQ(m.access(0, 5000, 0, 8, touch::read), 4u);
}

}  // namespace
}  // namespace espalier::sim
