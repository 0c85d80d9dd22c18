#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/workload/random.hpp"
#include "sim/history/history.hpp"
#include "sim/history/order_search.hpp"

// The behaviour of a map, for the search: as a register for one key, and as a whole.

namespace espalier::sim {

/// One key: absent, with the value 0, or present.
struct register_state {
  std::uint64_t value = 0;
  bool present = false;

  [[nodiscard]] std::uint64_t hash() const noexcept {
    return workload::mix64(value) + static_cast<std::uint64_t>(present);
  }
  friend bool operator==(const register_state&, const register_state&) = default;
};

/// Operations of one key; no scan.
struct register_model {
  using state = register_state;

  [[nodiscard]] static std::optional<state> apply(const operation& o, const state& before) noexcept;
  [[nodiscard]] static std::string describe(const state& s);
};

/// Operations of any key; a scan takes effect at one moment.
class map_model {
 public:
  /// The number of a map content that the model has stored.
  struct state {
    std::uint32_t number = 0;

    [[nodiscard]] std::uint64_t hash() const noexcept { return workload::mix64(number); }
    friend bool operator==(const state&, const state&) = default;
  };

  /// The memory of the contents is charged to the budget.
  map_model(const history& observed, search_budget& budget) : observed_(observed), budget_(budget) {}
  map_model(const map_model&) = delete;
  map_model& operator=(const map_model&) = delete;
  ~map_model() { budget_.release(held_); }

  /// The history's initial contents.
  [[nodiscard]] state start();
  [[nodiscard]] std::optional<state> apply(const operation& o, const state& before);
  [[nodiscard]] std::string describe(const state& s) const;

 private:
  using contents = std::vector<map_entry>;

  struct in_order {
    [[nodiscard]] bool operator()(const contents& a, const contents& b) const {
      const auto words = [](const map_entry& e) { return std::pair(e.key, e.value); };
      return std::ranges::lexicographical_compare(a, b, {}, words, words);
    }
  };

  [[nodiscard]] state number_of(contents&& c);
  [[nodiscard]] bool agrees(const operation& scan, const contents& c) const;

  const history& observed_;
  search_budget& budget_;
  std::map<contents, std::uint32_t, in_order> numbers_;
  std::vector<const contents*> contents_;
  std::size_t held_ = 0;
};

}  // namespace espalier::sim
