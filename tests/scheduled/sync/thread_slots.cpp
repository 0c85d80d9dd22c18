// Thread slots: each has one holder, each is counted, and the next holder sees what a thread left under its slot.

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "espalier/hw/slot_table.hpp"
#include "scheduled/scenes.hpp"

namespace espalier::sim {
namespace {

using table = hw::slot_table<4>;
using tenure = table::tenure;

/// The slots, and the elements of per-thread arrays under each: plain words, which only the holder touches.
struct slots {
  table all;
  std::array<int, 4> holders{};
  std::array<int, 4> left_behind{};
  std::atomic<std::int32_t> gone{0};  // threads up to this number have ended
  bool ask(std::int32_t thread) const { return thread <= gone.load(); }

  std::uint32_t take(std::int32_t thread, tenure how) {
    const std::uint32_t slot = all.take(thread, how, [this](std::int32_t t) noexcept { return ask(t); });
    require(slot != table::none, "there is a slot for each thread");
    require(all.used() > slot, "a slot is taken that no scan visits");
    require(++holders[slot] == 1, "two threads hold one slot");
    require(all.holder_of(slot) == thread, "a slot names another holder");
    ++left_behind[slot];
    return slot;
  }
  void release(std::uint32_t slot) {
    --holders[slot];
    all.release(slot);
  }
};

ESPALIER_SCENE(thread_slots, begin_together, 1000) {
  auto& w = s.make<slots>();
  for (std::int32_t t = 1; t <= 2; ++t) {
    s.thread(std::string(1, static_cast<char>('a' + t)), [&w, t] { w.take(t, tenure::ends_with_thread); });
  }
  s.at_end([&w] { require(w.all.used() == 2, "as many slots are counted as were taken"); });
}

ESPALIER_SCENE(thread_slots, come_and_go, 1000) {
  auto& w = s.make<slots>();
  for (std::int32_t t = 1; t <= 3; ++t) {
    s.thread(std::string(1, static_cast<char>('a' + t)), [&w, t] {
      for (int n = 0; n < 2; ++n) w.release(w.take(t, tenure::ends_with_thread));
    });
  }
  s.at_end([&w] {
    int sum = 0;
    for (const int n : w.left_behind) sum += n;
    require(sum == 6, "what a thread left under its slot is overwritten");
  });
}

/// Late slots of ended threads. Two threads that come late find the same one; a third thread comes in time.
ESPALIER_SCENE(thread_slots, reclaim, 1000) {
  auto& w = s.make<slots>();
  for (std::int32_t t = 1; t <= 2; ++t) --w.holders[w.take(t, tenure::late)];
  w.gone = 2;
  for (std::int32_t t = 3; t <= 4; ++t) {
    s.thread(std::string(1, static_cast<char>('a' + t)), [&w, t] { w.take(t, tenure::late); });
  }
  s.thread("in time", [&w] { w.release(w.take(5, tenure::ends_with_thread)); });
  s.at_end([&w] { require(w.all.used() <= 3, "slots of threads that are gone are not used again"); });
}

}  // namespace
}  // namespace espalier::sim
