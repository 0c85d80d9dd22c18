#pragma once

#include <atomic>
#include <cstdint>

#include "espalier/hw/cache_line.hpp"
#include "espalier/oltp/engine/precedence.hpp"
#include "espalier/oltp/engine/row_lock.hpp"
#include "espalier/oltp/protocol.hpp"
#include "espalier/reclaim/epoch.hpp"

namespace espalier::oltp {

/// A part of a database that the transactions of all threads share.
struct shared_state {
  shared_state(protocol p, unsigned commits) noexcept : by(p), commits_per_epoch(commits) {}
  const protocol by;
  /// In a child of fork(): a transaction of a thread that the child does not have ran. What it has locked stays locked, and
  /// what it has changed in place may be half of it.
  bool torn = false;
  const unsigned commits_per_epoch;
  epoch_domain domain;
  /// Silo's: the numbers have it from bit `epoch_bit` on. Dependencies between transactions never go back in it, until it
  /// begins again after 2^30 epochs; a row's numbers grow all the same.
  static constexpr unsigned epoch_bit = 34;
  alignas(hw::false_sharing_bytes) std::atomic<std::uint32_t> epoch{1};
  precedence first;
  /// Rows that could not leave an index.
  alignas(hw::false_sharing_bytes) std::atomic<stored_row*> left_over{nullptr};
};

}  // namespace espalier::oltp
