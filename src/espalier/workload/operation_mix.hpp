#pragma once

// What the next operation does: shares of operations in percent, given as numbers or by a YCSB name.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "espalier/map/map_concept.hpp"
#include "espalier/measure/distribution.hpp"
#include "espalier/measure/random.hpp"

namespace espalier::workload {

/// The operations that a mix can draw. Shares, drawing and results have this order.
inline constexpr std::array drawn_operations{
    map_operation::find,
    map_operation::insert,  // of a key that is absent, as far as the workload knows
    map_operation::erase,
    map_operation::insert_or_assign,  // on an existing key
    map_operation::scan,              // 1 to max_scan entries, starting at a key
    map_operation::update,            // YCSB's read-modify-write, atomic on maps that exchange (apply)
};

/// A number for each of drawn_operations.
using operation_shares = std::array<unsigned, drawn_operations.size()>;

/// The operation's name in results.
[[nodiscard]] std::string_view word_of(map_operation op) noexcept;

/// Shares of operations. The constructor fixes the fields and builds the table for draw(). To change a mix, construct
/// another. Immutable afterwards, shared by threads.
struct operation_mix {
  std::string name;
  operation_shares percent;                                // the sum is 100
  unsigned max_scan;                                       // scan lengths are uniform in [1, max_scan]
  std::optional<measure::distribution_spec> distribution;  // the distribution that the mix prescribes, if any
  bool into_empty = false;  // a run inserts all keys, in random order, into an empty map

  /// Throws std::invalid_argument if the percentages do not sum to 100 or max_scan is 0.
  operation_mix(std::string mix_name, const operation_shares& percentages, unsigned longest_scan = 100,
                std::optional<measure::distribution_spec> prescribed = std::nullopt);

  /// "90/5/5" is lookup/insert/erase. "hits" looks up keys that are all
  /// present, "load" fills an empty map. "ycsb-a" to "ycsb-f", in either case, are the core workloads of YCSB (Cooper et
  /// al., SoCC 2010) with their request distributions. Throws std::invalid_argument.
  static operation_mix parse(std::string_view text);

  /// In percent; 0 for an operation that no mix draws.
  [[nodiscard]] unsigned share(map_operation op) const noexcept;

  [[nodiscard]] map_operation draw(measure::random_generator& random) const noexcept {
    return table_[random.below(table_.size())];
  }

  [[nodiscard]] std::uint64_t draw_scan_length(measure::random_generator& random) const noexcept {
    return 1 + random.below(max_scan);
  }

 private:
  std::array<map_operation, 100> table_{};
};

}  // namespace espalier::workload
