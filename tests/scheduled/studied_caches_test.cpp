// Scenes of the engines of the study of caches: what each get returns, and that no set is lost.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/studies/cache/engines.hpp"
#include "apps/studies/cache/values.hpp"
#include "espalier/hw/pause.hpp"
#include "scheduled/scenes.hpp"
#include "sim/explore.hpp"

namespace espalier::sim {
namespace {

using namespace app::caches;

constexpr std::uint64_t items = 6;
constexpr std::size_t value_bytes = 32;
constexpr unsigned threads = 2;

/// Two threads with requests in a given order.
struct scene_of_engine {
  class feed final : public request_feed {
   public:
    feed(scene_of_engine& of, unsigned thread, std::vector<request> requests)
        : of_(of), values_(of.values[thread]), requests_(std::move(requests)) {}

    bool next(request& r) override {
      if (at_ == requests_.size()) return false;
      r = requests_[at_++];
      return true;
    }
    void make_value(std::uint64_t number, std::byte* value) override {
      if (at_ == 0)
        own_values::make_first(number, value, value_bytes);
      else
        values_.make_next(number, value);
    }
    void got(std::uint64_t number, const std::byte* value) override {
      require(value != nullptr, "a get misses an item that nothing removes");
      const own_values::finding found = values_.judge(number, value);
      require(found != own_values::finding::wrong, "a get returns what no set has stored for its key");
      require(found == own_values::finding::right || of_.shape.how == engine::dps_parsec,
              "a get returns what its own thread has overwritten");
    }
    void was_set(std::uint64_t /*number*/, bool stored) override {
      require(stored, "there is room for a set");
    }
    void ended() override { of_.running.fetch_sub(1); }
    bool all_ended() override { return of_.running.load() == 0; }

   private:
    scene_of_engine& of_;
    own_values& values_;
    std::vector<request> requests_;
    std::size_t at_ = 0;
  };

  explicit scene_of_engine(engine how)
      : shape{.how = how, .roles = {}, .partitions = 1, .items = items, .value_bytes = value_bytes} {
    for (unsigned i = 0; i < threads; ++i) {
      values.emplace_back(i, items, value_bytes);
      if (how == engine::stock || how == engine::parsec)
        shape.roles.push_back({.rank = i, .members = threads});
      else if (how == engine::ffwd)
        shape.roles.push_back({.serves = i == 0});
      else
        shape.roles.push_back({.home = i});
    }
    if (how != engine::stock && how != engine::parsec && how != engine::ffwd) shape.partitions = threads;
    running = how == engine::ffwd ? 1 : threads;
    cache = make_cache(shape);
  }

  void run(unsigned thread, std::vector<request> requests) {
    feed mine(*this, thread, std::move(requests));
    cache->settle(thread, mine);
    settled.fetch_add(1);
    while (settled.load() != threads) hw::cpu_relax();
    cache->operate(thread, mine);
  }
  void check_end() {
    std::array<std::byte, value_bytes> value{};
    for (std::uint64_t number = 0; number < items; ++number) {
      require(cache->find(number, value.data()), "an item is lost");
      require(own_values::is_last(number, value.data(), values), "a set is lost");
    }
  }

  cache_shape shape;
  std::vector<own_values> values;
  std::atomic<unsigned> settled{0};
  std::atomic<unsigned> running{0};
  std::unique_ptr<studied_cache> cache;
};

/// Both threads set and get one item. One also sets and gets the others, with more sets than there are buffers.
void set_and_get(scene& s, engine how) {
  auto& e = s.make<scene_of_engine>(how);
  s.thread("some", [&e] {
    e.run(0, {{0, true}, {0, true}, {0, false}, {1, false}, {0, true}, {0, false}});  // or it serves
  });
  s.thread("all", [&e] {
    std::vector<request> requests;
    for (const bool sets : {false, true, true, false}) {
      for (std::uint64_t i = 0; i < items; ++i) requests.push_back({i, sets});
    }
    e.run(1, std::move(requests));
  });
  s.at_end([&e] { e.check_end(); });
}

ESPALIER_SCENE(studied_caches, stock, 60, 1, steps_up_to(400'000)) { set_and_get(s, engine::stock); }
ESPALIER_SCENE(studied_caches, ffwd, 20, 1, steps_up_to(400'000)) { set_and_get(s, engine::ffwd); }
ESPALIER_SCENE(studied_caches, parsec, 20, 1, steps_up_to(400'000)) { set_and_get(s, engine::parsec); }
ESPALIER_SCENE(studied_caches, dps, 20, 1, steps_up_to(400'000)) { set_and_get(s, engine::dps); }
ESPALIER_SCENE(studied_caches, dps_parsec, 20, 1, steps_up_to(400'000)) {
  set_and_get(s, engine::dps_parsec);
}
ESPALIER_SCENE(studied_caches, dps_parsec_fenced, 20, 1, steps_up_to(400'000)) {
  set_and_get(s, engine::dps_parsec_fenced);
}

}  // namespace
}  // namespace espalier::sim
