#include "sim/transactions/records.hpp"

#include <algorithm>

#include "sim/machine/machine_spec.hpp"

namespace espalier::sim {

void records::forget(std::uint64_t begin, std::uint64_t end) {
  if (intervals_.empty() || begin >= end) return;
  auto at = intervals_.upper_bound(begin);
  if (at != intervals_.begin()) --at;
  while (at != intervals_.end() && at->first < end) {
    const auto [old_begin, old] = *at;
    if (old.end <= begin) {
      ++at;
      continue;
    }
    at = intervals_.erase(at);
    if (old_begin < begin) intervals_.emplace(old_begin, interval{begin, old.kind});
    if (old.end > end) {
      intervals_.emplace(end, interval{old.end, old.kind});
      return;
    }
  }
}

void records::annotate(std::uint64_t begin, std::uint64_t end, hw::record_kind kind) {
  if (begin >= end) return;
  forget(begin, end);
  intervals_.emplace(begin, interval{end, kind});
}

abort_reason records::meeting(std::uint64_t line, std::uint64_t one, std::uint64_t other) const {
  const std::uint64_t first = line * line_bytes;
  std::uint64_t unannotated = ~std::uint64_t{0};
  bool metadata_is_shared = false;
  auto at = intervals_.upper_bound(first);
  if (at != intervals_.begin()) --at;
  for (; at != intervals_.end() && at->first < first + line_bytes; ++at) {
    if (at->second.end <= first) continue;
    const std::uint64_t begin = std::max(at->first, first);
    const std::uint64_t end = std::min(at->second.end, first + line_bytes);
    const std::uint64_t mask = byte_mask(begin - first, end - begin);
    unannotated &= ~mask;
    if ((one & mask) == 0 || (other & mask) == 0) continue;
    if (at->second.kind == hw::record_kind::record) return abort_reason::true_conflict;
    metadata_is_shared = true;
  }
  if ((one & other & unannotated) != 0) return abort_reason::true_conflict;
  return metadata_is_shared ? abort_reason::metadata : abort_reason::false_conflict;
}

}  // namespace espalier::sim
