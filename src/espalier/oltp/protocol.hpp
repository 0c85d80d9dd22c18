#pragma once

#include <array>
#include <cstdint>
#include <string_view>

// The protocols that keep transactions serializable.
//
//   NO_WAIT, WAIT_DIE  strict two-phase locking (Yu et al., "Staring into the Abyss", VLDB 2014). Rows are changed in place,
//                      and an abort writes the former contents back.
//   Silo               optimistic (Tu et al., "Speedy Transactions in Multicore In-Memory Databases", SOSP 2013). Reads copy a
//                      row and note its number. A commit locks what it writes in the order of the addresses, notes the epoch,
//                      validates what it has read, and installs the new contents under a larger number.
//
// No phantoms, over any map:
//   locking   The lock of a row guards the gap before the row too, in each index (next-key locking; Mohan, "ARIES/KVL",
//             VLDB 1990). The gap behind the last row has a lock of its own. A transaction that reads a range, or that a
//             key is absent, locks the rows and the one behind them, and looks into the index once more: what has come
//             between is locked as well. One that inserts a key locks the row behind it exclusively for the moment of the
//             insert. The new row is locked by then. An erased row stays in the indexes, locked, until the commit. Where no
//             transaction reads gaps of the index, an insert locks none: it looks after the insert, and a transaction that
//             begins to read gaps says so before it looks.
//   Silo      A row is inserted into the indexes when the transaction inserts it, marked absent. A commit scans each range
//             that it has read once more, after it has locked what it writes: of two transactions that insert into each
//             other's ranges one sees the other's row. Each index notes the keys that rows leave, before they leave them:
//             so a range that is the same has been the same.
//
// Progress. Under WAIT_DIE a transaction keeps its age over its attempts, and waits for younger ones. Under the others it may
// lose against transactions that come again and again. So after database_options::precedence_after attempts a transaction
// takes precedence, which one of a database has at a time, the oldest that wants it first. It holds nothing while it waits for
// that. Then it gives up no more:
//   NO_WAIT   It waits for locks. No other transaction waits for any, so there is no circle. It reserves the lock for which it
//             waits: no new holder comes in.
//   WAIT_DIE  It is older than all others: so it waits for each of them, none waits for it, and none overtakes it.
//   Silo      No other attempt begins. Those that run may still commit, and so end its attempt; it does not give up for a key
//             that one of them is inserting, but waits for its end.
// So the locking protocols commit a transaction in one attempt more; Silo in one more than the attempts of others that ran
// when it took precedence have spoilt. This does not hold for a transaction inside one of another database: it might wait for
// what waits for the outer one. It never takes precedence, and the outer one does not wait because of its own meanwhile.

namespace espalier::oltp {

enum class protocol : std::uint8_t { no_wait, wait_die, silo };
inline constexpr std::array all_protocols{protocol::no_wait, protocol::wait_die, protocol::silo};
[[nodiscard]] std::string_view to_string(protocol p) noexcept;
/// Throws std::invalid_argument, which lists the names, for another text.
[[nodiscard]] protocol parse_protocol(std::string_view text);

}  // namespace espalier::oltp
