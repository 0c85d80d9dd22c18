#pragma once

#include <cstdint>
#include <map>

#include "espalier/hw/record.hpp"
#include "sim/transactions/transaction_counts.hpp"

namespace espalier::sim {

/// Which bytes of simulated memory are one record or one piece of metadata, as the program annotated them.
class records {
 public:
  /// [begin, end) is one from now on. What overlaps it keeps the bytes outside; bytes cut off on both sides
  /// become two.
  void annotate(std::uint64_t begin, std::uint64_t end, hw::record_kind kind);
  /// The bytes belong to nothing any more.
  void forget(std::uint64_t begin, std::uint64_t end);
  void clear() noexcept { intervals_.clear(); }

  /// What a meeting on a line was about, where one thread wants the bytes of one mask and another those of
  /// the other (bit i: byte i of the line). The same bytes of no record are a true conflict; and a record
  /// that both want makes it one whatever else they share. O(log records + those in the line).
  [[nodiscard]] abort_reason meeting(std::uint64_t line, std::uint64_t one, std::uint64_t other) const;

 private:
  struct interval {
    std::uint64_t end;
    hw::record_kind kind;
  };
  std::map<std::uint64_t, interval> intervals_;  // by begin, disjoint
};

}  // namespace espalier::sim
