#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/memory/parts/live_blocks.hpp"
#include "espalier/memory/placement_concept.hpp"

namespace espalier {

/// Every placement that this process can have, in the order in which to show them. `jemalloc_arenas` is one where it runs on
/// jemalloc.
[[nodiscard]] std::vector<std::string_view> placement_names();

/// A placement that is chosen when the program runs. An operation costs one virtual call more than the chosen
/// placement, which a map that is compiled with it inlines.
class any_placement {
 public:
  enum class recording : bool { off, on };

  /// False for all sizes, since the type does not know the placement: a map's destructor visits its nodes.
  static constexpr bool releases_on_destruction = false;
  static constexpr std::string_view name = "any";

  /// A new instance of one of placement_names(). With recording it knows its blocks in use
  /// (memory/recorded.hpp). Throws std::invalid_argument, which lists the names, for any other.
  explicit any_placement(std::string_view chosen, recording keeps = recording::off);
  /// A copy is the same instance, lent: what both allocate lies together, and usage() is that of both.
  any_placement(const any_placement&) noexcept = default;
  any_placement& operator=(const any_placement&) = delete;
  ~any_placement() = default;

  [[nodiscard]] void* allocate(const block& b, const void* near = nullptr) {
    return held_->allocate(b, near);
  }
  void deallocate(void* memory, const block& b) noexcept { held_->deallocate(memory, b); }
  [[nodiscard]] memory_usage usage() const noexcept { return held_->usage(); }
  [[nodiscard]] std::size_t bytes_held(const void* memory, const block& b) const noexcept {
    return held_->bytes_held(memory, b);
  }

  /// The name by which it was chosen.
  [[nodiscard]] std::string_view chosen_name() const noexcept { return held_->chosen; }
  [[nodiscard]] bool is_recorded() const noexcept { return held_->keeps == recording::on; }

  /// As recorded::for_each_live. Throws std::logic_error where nothing is recorded.
  template <class Visitor>
  void for_each_live(Visitor&& visit) const {
    held_->visit_live([](void* v, const live_block& one) { (*static_cast<Visitor*>(v))(one); },
                      const_cast<void*>(static_cast<const void*>(&visit)));
  }

 private:
  using live_visitor = void (*)(void* visitor, const live_block& one);

  struct held {
    held(std::string_view name_of_it, recording keeps_blocks) noexcept
        : chosen(name_of_it), keeps(keeps_blocks) {}
    held(const held&) = delete;
    held& operator=(const held&) = delete;
    virtual ~held() = default;
    virtual void* allocate(const block& b, const void* near) = 0;
    virtual void deallocate(void* memory, const block& b) noexcept = 0;
    [[nodiscard]] virtual memory_usage usage() const noexcept = 0;
    [[nodiscard]] virtual std::size_t bytes_held(const void* memory, const block& b) const noexcept = 0;
    virtual void visit_live(live_visitor visit, void* visitor) const = 0;

    const std::string_view chosen;
    const recording keeps;
  };
  template <placement Placement>
  struct held_one;
  struct registered;
  static std::span<const registered> registry();
  friend std::vector<std::string_view> placement_names();

  std::shared_ptr<held> held_;
};

static_assert(placement<any_placement>);

}  // namespace espalier
