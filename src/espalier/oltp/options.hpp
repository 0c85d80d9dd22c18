#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>

#include "espalier/memory/any_placement.hpp"
#include "espalier/oltp/row.hpp"

// Protocols keep transactions serializable, without phantoms, over any map: engine/two_phase.cpp (NO_WAIT, WAIT_DIE) and
// engine/silo.cpp have the arguments.
//
// Progress. Under WAIT_DIE a transaction keeps its age over its attempts, and waits for younger ones. Under the others its
// attempts may fail again and again. So after database_options::precedence_after attempts a transaction takes precedence. One
// transaction of a database has it at a time, and the oldest that asks for it is the next. It holds no lock while it asks.
// From then on it does not give up:
//   NO_WAIT   It waits for locks. No other transaction waits, so no circle of waits is possible. It reserves the lock for
//             which it waits: the lock gets no new holder.
//   WAIT_DIE  It is older than all others. So it waits for each of them, none waits for it, and none overtakes it.
//   Silo      No other attempt begins. An attempt that runs already may still commit, and so spoil one of its attempts. If
//             that attempt is inserting a key that it needs, it waits.
// So two-phase locking commits it in one more attempt. Silo needs one more than the running attempts spoil. This does not hold
// for a transaction inside one of another database: it might wait for a transaction that waits for the outer one. So it never
// takes precedence, and the outer one does not wait while it runs.

namespace espalier::oltp {

enum class protocol : std::uint8_t { no_wait, wait_die, silo };
inline constexpr std::array all_protocols{protocol::no_wait, protocol::wait_die, protocol::silo};
[[nodiscard]] constexpr std::string_view to_string(protocol p) noexcept {
  return std::array<std::string_view, all_protocols.size()>{"no_wait", "wait_die",
                                                            "silo"}[static_cast<std::size_t>(p)];
}
/// Throws std::invalid_argument, which lists the names, for another text.
[[nodiscard]] inline protocol parse_protocol(std::string_view text) {
  for (const protocol p : all_protocols) {
    if (text == to_string(p)) return p;
  }
  throw std::invalid_argument("there is no protocol '" + std::string(text) +
                              "'; there are no_wait, wait_die, silo");
}

/// What a database is opened with.
struct database_options {
  /// The map of all indexes: one of any_map_names().
  std::string_view map = "ordered_map";
  protocol by = protocol::no_wait;
  /// Placements by name. All indexes share one, and all rows another one.
  std::string_view index_placement = "segregated";
  std::string_view row_placement = "segregated";
  /// One placement for both, the rows'.
  bool one_placement = false;
  any_placement::recording recording = any_placement::recording::off;
  row_form rows_as = row_form::plain;
  /// Bytes of a row's lock: 48, or more to pad it.
  std::size_t lock_bytes = least_lock_bytes;
  /// One transaction in this many of a thread is timed, with all of its attempts; 0: none.
  unsigned sample_every = 0;
  /// Under Silo: one commit in this many of a thread begins an epoch. Not 0.
  unsigned commits_per_epoch = 256;
  /// After this many attempts in vain a transaction takes precedence over all others: Progress, above.
  unsigned precedence_after = 100;
};

}  // namespace espalier::oltp
