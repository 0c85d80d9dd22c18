#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "espalier/inspect/snapshot.hpp"

namespace espalier::inspect {

/// A T for each type that has been requested since clear(), which takes constant time.
template <class T>
class by_type_seen {
 public:
  explicit by_type_seen(std::size_t types) : slots_(types, {0, 0}) {}

  T& operator[](type_index type) {
    slot& s = slots_[type];
    if (s.round != round_) {
      s = {round_, static_cast<std::uint32_t>(seen_.size())};
      seen_.push_back({type, T{}});
    }
    return seen_[s.place].second;
  }
  void clear() {
    ++round_;
    seen_.clear();
  }
  /// In the order of the first requests.
  [[nodiscard]] const std::vector<std::pair<type_index, T>>& seen() const { return seen_; }

 private:
  struct slot {
    std::uint64_t round;
    std::uint32_t place;
  };
  std::uint64_t round_ = 1;
  std::vector<slot> slots_;
  std::vector<std::pair<type_index, T>> seen_;
};

}  // namespace espalier::inspect
