#include "espalier/memory/any_placement.hpp"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <type_traits>

#include "espalier/memory/baselines/disturbed.hpp"
#include "espalier/memory/baselines/jemalloc_arenas.hpp"
#include "espalier/memory/clustered.hpp"
#include "espalier/memory/index_aware.hpp"
#include "espalier/memory/numa_local.hpp"
#include "espalier/memory/recorded.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/memory/shared_heap.hpp"

namespace espalier {
namespace {

template <class Placement>
constexpr bool is_recorded_one = false;
template <class Below>
constexpr bool is_recorded_one<recorded<Below>> = true;

std::string nothing_missing() { return {}; }

}  // namespace

template <placement Placement>
struct any_placement::held_one final : held {
  explicit held_one(std::string_view chosen_as)
      : held(chosen_as, is_recorded_one<Placement> ? recording::on : recording::off) {}
  void* allocate(const block& b, const void* near) override { return one.allocate(b, near); }
  void deallocate(void* memory, const block& b) noexcept override { one.deallocate(memory, b); }
  [[nodiscard]] memory_usage usage() const noexcept override { return one.usage(); }
  [[nodiscard]] std::size_t bytes_held(const void* memory, const block& b) const noexcept override {
    return espalier::bytes_held(one, memory, b);
  }
  void visit_live(live_visitor visit, void* visitor) const override {
    if constexpr (is_recorded_one<Placement>)
      one.for_each_live([&](const live_block& b) { visit(visitor, b); });
    else
      throw std::logic_error("any_placement: nothing is recorded; construct it with recording::on");
  }

  Placement one;
};

struct any_placement::registered {
  std::string_view name;
  std::string_view description;
  std::string (*why_not)();
  std::unique_ptr<held> (*make)(std::string_view chosen, recording keeps);

  template <placement Placement>
  static constexpr registered of(std::string_view description, std::string (*why_not)() = nothing_missing) {
    return {Placement::name, description, why_not,
            [](std::string_view chosen, recording keeps) -> std::unique_ptr<held> {
              if (keeps == recording::on) return std::make_unique<held_one<recorded<Placement>>>(chosen);
              return std::make_unique<held_one<Placement>>(chosen);
            }};
  }
};

std::span<const any_placement::registered> any_placement::registry() {
  // Constant, so that it belongs to no world of a simulated program.
  static constexpr registered all[]{
      registered::of<shared_heap>("whatever malloc the program runs on; all blocks share its size classes"),
      registered::of<segregated>("an arena for each role, blocks end to end in huge pages"),
      registered::of<clustered>(
          "as segregated, and each small node in its parent's line where there is room"),
      registered::of<jemalloc_arenas>("a jemalloc arena and thread cache for each role and thread",
                                      jemalloc_arenas::why_not),
      registered::of<index_aware>(
          "at strides that visit every cache index; blocks of a line or more begin on one"),
      registered::of<numa_local>("pages bound to the NUMA node of the thread that asks"),
      registered::of<random_padding<shared_heap>>("malloc, asked for a random small amount more each time"),
      registered::of<shifted<shared_heap>>("malloc, each thread one block of 32 bytes out of step"),
  };
  return all;
}

any_placement::any_placement(std::string_view chosen, recording keeps) {
  const std::span<const registered> all = registry();
  const auto found = std::ranges::find(all, chosen, &registered::name);
  if (found == all.end()) {
    std::string message = "there is no placement '";
    message.append(chosen).append("'; there are");
    for (const registered& r : all) message.append(&r == &all.front() ? " " : ", ").append(r.name);
    throw std::invalid_argument(message);
  }
  if (const std::string missing = found->why_not(); !missing.empty()) throw std::runtime_error(missing);
  held_ = found->make(found->name, keeps);
}

std::vector<placement_choice> placement_names() {
  std::vector<placement_choice> choices;
  for (const any_placement::registered& r : any_placement::registry())
    choices.push_back({r.name, r.description, r.why_not()});
  return choices;
}

}  // namespace espalier
