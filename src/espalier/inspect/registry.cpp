#include "espalier/inspect/registry.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>

#include "espalier/inspect/page_frames.hpp"

namespace espalier::inspect {

void block_visitor::operator()(const void* block, std::size_t bytes, std::size_t held) const {
  const std::size_t slack = held < bytes ? 0 : held - bytes;
  constexpr std::size_t most_slack = std::numeric_limits<std::uint32_t>::max();
  blocks_->push_back({reinterpret_cast<std::uintptr_t>(block), bytes,
                      static_cast<std::uint32_t>(std::min(slack, most_slack)), type_});
}

registry& registry::of_process() {
  static registry all;
  return all;
}

namespace {

/// Sets a flag for its lifetime, so that a child of fork() sees it too.
class [[nodiscard]] flagged {
 public:
  explicit flagged(bool& flag) noexcept : flag_(flag) {
    flag_ = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  flagged(const flagged&) = delete;
  flagged& operator=(const flagged&) = delete;
  ~flagged() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    flag_ = false;
  }

 private:
  bool& flag_;
};

}  // namespace

std::uint64_t registry::add(block_type type, walk visit_blocks) {
  const std::scoped_lock held(lock_);
  const flagged change(changes_);
  entries_.push_back({next_id_, std::move(type), std::move(visit_blocks)});
  return next_id_++;
}

void registry::remove(std::uint64_t id) noexcept {
  const std::scoped_lock held(lock_);
  const flagged change(changes_);
  std::erase_if(entries_, [id](const entry& e) { return e.id == id; });
}

void registry::recover_in_child() noexcept {
  if (lock_.try_lock()) return lock_.unlock();
  // The lock is held by a thread that the child does not have. Entries that it was changing are leaked, not destroyed.
  if (changes_) std::construct_at(&entries_);
  changes_ = false;
  std::construct_at(&lock_);
}

snapshot registry::take_snapshot(std::string subject, const snapshot_options& options) const {
  std::vector<block_type> types;
  std::vector<live_block> blocks;
  // The lock is held until the blocks are read, so that none of their pools is destroyed before.
  const std::scoped_lock held(lock_);
  for (const entry& e : entries_) {
    const auto known = std::ranges::find(types, e.type);
    const auto type = static_cast<type_index>(known - types.begin());
    if (known == types.end()) types.push_back(e.type);
    e.visit_blocks(block_visitor(blocks, type));
  }
  snapshot s = make_snapshot(std::move(subject), std::move(types), std::move(blocks));
  if (options.frames) find_frames(s);
  if (options.links) find_links(s);
  return s;
}

snapshot take_snapshot(std::string subject, const snapshot_options& options) {
  return registry::of_process().take_snapshot(std::move(subject), options);
}

}  // namespace espalier::inspect
