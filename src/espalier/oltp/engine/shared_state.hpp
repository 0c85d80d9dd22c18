#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/memory/any_placement.hpp"
#include "espalier/oltp/engine/precedence.hpp"
#include "espalier/oltp/protocol.hpp"
#include "espalier/reclaim/epoch.hpp"

namespace espalier::oltp::engine {

struct stored_row;

/// What a database was opened with; database_options explains it.
struct settings {
  protocol by;
  std::string_view map;
  any_placement rows;
  any_placement indexes;
  std::size_t lock_bytes;
  unsigned sample_every;
  unsigned commits_per_epoch;
  unsigned precedence_after;
};

/// What the tables, the indexes and the transactions of a database share.
struct shared_state {
  explicit shared_state(settings s) : chosen(std::move(s)) {}

  settings chosen;
  /// In a child of fork(): another thread of the parent ran a transaction. Its rows stay locked, and may be half changed.
  bool torn = false;
  epoch_domain domain;
  /// Silo's clock, which numbers of rows have from bit `epoch_bit` on. A transaction that depends on another one has the same
  /// epoch or a later one. After 2^30 epochs it begins again at 0; the numbers of a row still grow.
  static constexpr unsigned epoch_bit = 34;
  alignas(hw::false_sharing_bytes) std::atomic<std::uint32_t> epoch{1};
  precedence first;
  /// Rows that could not leave an index.
  alignas(hw::false_sharing_bytes) std::atomic<stored_row*> left_over{nullptr};
};

}  // namespace espalier::oltp::engine
