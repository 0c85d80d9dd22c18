#include "espalier/memory/any_placement.hpp"

#include <algorithm>
#include <span>
#include <stdexcept>

#include "espalier/memory/baselines/chunked_heap.hpp"
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
  std::unique_ptr<held> (*make)(std::string_view chosen, recording keeps);
  bool (*available)() noexcept;

  template <placement Placement>
  static constexpr registered of() {
    return {Placement::name,
            [](std::string_view chosen, recording keeps) -> std::unique_ptr<held> {
              if (keeps == recording::on) return std::make_unique<held_one<recorded<Placement>>>(chosen);
              return std::make_unique<held_one<Placement>>(chosen);
            },
            []() noexcept {
              if constexpr (requires { Placement::available(); })
                return Placement::available();
              else
                return true;
            }};
  }
};

std::span<const any_placement::registered> any_placement::registry() {
  // Constant, so that it belongs to no world of a simulated program.
  static constexpr registered all[]{
      registered::of<shared_heap>(),
      registered::of<segregated>(),
      registered::of<clustered>(),
      registered::of<index_aware>(),
      registered::of<numa_local>(),
      registered::of<random_padding<shared_heap>>(),
      registered::of<shifted<shared_heap>>(),
      registered::of<chunked_heap>(),
      registered::of<chunked_heaps>(),
      registered::of<jemalloc_arenas>(),
  };
  return all;
}

any_placement::any_placement(std::string_view chosen, recording keeps) {
  const std::span<const registered> all = registry();
  const auto found = std::ranges::find(all, chosen, &registered::name);
  if (found == all.end() || !found->available()) {
    std::string message = "there is no placement '";
    message.append(chosen).append("'");
    if (found != all.end()) message.append(" in this process, which does not run on its malloc");
    message.append("; there are");
    for (const std::string_view known : placement_names())
      message.append(known == all.front().name ? " " : ", ").append(known);
    throw std::invalid_argument(message);
  }
  held_ = found->make(found->name, keeps);
}

std::vector<std::string_view> placement_names() {
  std::vector<std::string_view> names;
  for (const any_placement::registered& r : any_placement::registry()) {
    if (r.available()) names.push_back(r.name);
  }
  return names;
}

}  // namespace espalier
