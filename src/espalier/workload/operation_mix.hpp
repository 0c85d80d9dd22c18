#pragma once

// What the next operation does: shares of operations in percent, given as numbers or by a YCSB name.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "espalier/workload/distribution.hpp"
#include "espalier/workload/random.hpp"

namespace espalier::workload {

enum class operation : std::uint8_t {
  lookup,
  insert,  // of a key that is absent, as far as the workload knows
  erase,
  update,             // insert_or_assign on an existing key
  scan,               // 1 to max_scan entries, starting at a key
  read_modify_write,  // find, then insert_or_assign on the same key
};
inline constexpr std::size_t operation_kinds = 6;

std::string_view to_string(operation op) noexcept;

/// Shares of operations. The constructor fixes the fields and builds the table for draw(). To change a mix, construct
/// another. Immutable afterwards, shared by threads.
struct operation_mix {
  std::string name;
  std::array<unsigned, operation_kinds> percent;  // by operation; the sum is 100
  unsigned max_scan;                              // scan lengths are uniform in [1, max_scan]
  std::optional<distribution_spec> distribution;  // the distribution that the mix prescribes, if any

  /// Throws std::invalid_argument if the percentages do not sum to 100 or max_scan is 0.
  operation_mix(std::string mix_name, const std::array<unsigned, operation_kinds>& percentages,
                unsigned longest_scan = 100, std::optional<distribution_spec> prescribed = std::nullopt);

  /// "90/5/5" is lookup/insert/erase. "ycsb-a" to "ycsb-f", in either case, are the core workloads of YCSB (Cooper et
  /// al., SoCC 2010) with their request distributions. Throws std::invalid_argument.
  static operation_mix parse(std::string_view text);

  [[nodiscard]] unsigned share(operation op) const noexcept { return percent[static_cast<std::size_t>(op)]; }

  [[nodiscard]] operation draw(random_generator& random) const noexcept {
    return table_[random.below(table_.size())];
  }

  [[nodiscard]] std::uint64_t draw_scan_length(random_generator& random) const noexcept {
    return 1 + random.below(max_scan);
  }

 private:
  std::array<operation, 100> table_{};
};

}  // namespace espalier::workload
