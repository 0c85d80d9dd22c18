#pragma once

// For each of its types or pools, a program registers in one line where their blocks are:
//
//   espalier::inspect::registered_type sessions("session", [&](auto visit) {
//     for (const session& s : pool) visit(&s, sizeof s);
//   });
//
// take_snapshot() gathers all of them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "espalier/hw/fork_recovery.hpp"
#include "espalier/inspect/snapshot.hpp"

namespace espalier::inspect {

/// A walk calls it for each block.
class block_visitor {
 public:
  block_visitor(std::vector<live_block>& blocks, type_index type) noexcept : blocks_(&blocks), type_(type) {}

  /// A block of `bytes` that occupies `held` bytes. A `held` below `bytes` counts as `bytes`.
  void operator()(const void* block, std::size_t bytes, std::size_t held) const;
  void operator()(const void* block, std::size_t bytes) const { (*this)(block, bytes, bytes); }

 private:
  std::vector<live_block>* blocks_;
  type_index type_;
};

struct snapshot_options {
  /// Ask the kernel for frames and page sizes.
  bool frames = true;
  /// Search the blocks for pointers to each other. No thread may write the blocks meanwhile.
  bool links = false;
};

class registered_type;

/// The types of a program. Any thread may call any member at any time. A walk runs under the registry's lock, in the
/// thread that takes the snapshot, and must itself keep its blocks from changing. A walk must not use the registry. A
/// child of fork() inherits the types of its parent, or none of them if another thread was adding or removing one.
class registry {
 public:
  using walk = std::function<void(const block_visitor&)>;

  registry() = default;
  registry(const registry&) = delete;
  registry& operator=(const registry&) = delete;

  /// The registry of the process.
  [[nodiscard]] static registry& of_process();

  /// Merges equal types, such as those of several pools. Throws what a walk throws, and std::invalid_argument if two
  /// blocks overlap.
  [[nodiscard]] snapshot take_snapshot(std::string subject, const snapshot_options& options = {}) const;

 private:
  friend class registered_type;

  struct entry {
    std::uint64_t id;
    block_type type;
    walk visit_blocks;
  };

  std::uint64_t add(block_type type, walk visit_blocks);
  void remove(std::uint64_t id) noexcept;

  void recover_in_child() noexcept;

  mutable std::mutex lock_;
  std::vector<entry> entries_;
  std::uint64_t next_id_ = 0;
  bool changes_ = false;  // true under the lock while entries_ changes
  hw::fork_link after_fork_{this, [](void* one, const hw::fork_survivor&) noexcept {
                              static_cast<registry*>(one)->recover_in_child();
                            }};
};

/// Registers a type for its lifetime. Its destructor waits for a running snapshot to finish.
class registered_type {
 public:
  registered_type(block_type type, registry::walk visit_blocks, registry& in = registry::of_process())
      : in_(in), id_(in.add(std::move(type), std::move(visit_blocks))) {}
  registered_type(std::string name, registry::walk visit_blocks, registry& in = registry::of_process())
      : registered_type(block_type{std::move(name), false, {}, {}}, std::move(visit_blocks), in) {}
  registered_type(const registered_type&) = delete;
  registered_type& operator=(const registered_type&) = delete;
  ~registered_type() { in_.remove(id_); }

 private:
  registry& in_;
  std::uint64_t id_;
};

/// Takes a snapshot of the types that the process has registered.
[[nodiscard]] snapshot take_snapshot(std::string subject, const snapshot_options& options = {});

}  // namespace espalier::inspect
