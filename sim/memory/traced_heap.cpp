#include "sim/memory/traced_heap.hpp"

#include "sim/runtime/world.hpp"
#include "sim/transactions/transactions.hpp"

namespace espalier::sim {

void traced_heap::count(std::int64_t blocks, std::int64_t bytes) noexcept {
  const own_code scope;
  if (world* const w = scope.running(); w != nullptr && in_transaction(*w)) {
    w->transactional->on_abort(w->slot() - 1, [this, blocks, bytes] {
      blocks_ -= blocks;
      bytes_ -= bytes;
    });
  }
  blocks_ += blocks;
  bytes_ += bytes;
}

memory_usage traced_heap::usage() const noexcept {
  memory_usage sum;
  sum.blocks = static_cast<std::uint64_t>(blocks_);
  sum.bytes_in_use = sum.bytes_reserved = static_cast<std::uint64_t>(bytes_);
  return sum;
}

}  // namespace espalier::sim
