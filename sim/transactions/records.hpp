#pragma once

#include <cstdint>
#include <map>

#include "espalier/hw/record.hpp"
#include "sim/transactions/transaction_counts.hpp"

namespace espalier::sim {

/// Bytes of a line as bits: `bytes` of them from `offset` on; 1 <= bytes, offset + bytes <= 64.
[[nodiscard]] constexpr std::uint64_t byte_mask(std::uint64_t offset, std::uint64_t bytes) noexcept {
  return ~std::uint64_t{0} >> (64 - bytes) << offset;
}

/// Which bytes of simulated memory form a record or a piece of metadata, according to the program's annotations.
class records {
 public:
  /// [begin, end) becomes one. Overlapping annotations keep their bytes outside; one that is cut on both sides becomes
  /// two.
  void annotate(std::uint64_t begin, std::uint64_t end, hw::record_kind kind);
  /// The bytes no longer belong to any annotation.
  void forget(std::uint64_t begin, std::uint64_t end);
  void clear() noexcept { intervals_.clear(); }

  /// Classifies a conflict on a line, where one thread uses the bytes of one mask and another thread those of the other
  /// (bit i: byte i of the line). Common bytes in no record are a true conflict. A record that both use makes it one,
  /// too, whatever else they share. O(log records + those in the line).
  [[nodiscard]] abort_reason meeting(std::uint64_t line, std::uint64_t one, std::uint64_t other) const;

 private:
  struct interval {
    std::uint64_t end;
    hw::record_kind kind;
  };
  std::map<std::uint64_t, interval> intervals_;  // by begin, disjoint
};

}  // namespace espalier::sim
