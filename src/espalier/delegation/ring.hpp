#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "espalier/delegation/message.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/hw/thread_slot.hpp"
#include "espalier/sync/ttas_lock.hpp"

// The messages of one thread to one locality (runtime.hpp has the protocol): `ring` is the part in the locality's memory,
// which its servers read; `sending` is the part that only the sender uses.
//
// Orderings
//   (1) add (release) -> count (acquire): a server that sees the count sees the ring.

namespace espalier::delegation {
class runtime;
}

namespace espalier::delegation::detail {

struct member;
class reply;
struct sending;

/// Turns count the messages of a ring, and wrap. The first one is two below the wrap, so that every program passes it.
inline constexpr std::uint32_t first_turn = 0U - 2;

/// An operation of execute() or a continuation, in the list of those that the thread runs when fewer lie on its stack.
class postponed {
 public:
  postponed() = default;
  postponed(const postponed&) = delete;
  postponed& operator=(const postponed&) = delete;
  /// Deletes the object.
  virtual void run(member& me) noexcept = 0;

  unsigned depth = 0;   ///< of the operation that submitted it
  reply* to = nullptr;  ///< null: the result is destroyed
  postponed* next = nullptr;

 protected:
  ~postponed() = default;
};

/// Where the answer to a message goes. Of the thread that sent it.
class reply {
 public:
  reply(const reply&) = delete;
  reply& operator=(const reply&) = delete;

 protected:
  friend class delegation::runtime;
  reply() = default;
  reply(reply&& other) noexcept;
  virtual ~reply() { moved_to(nullptr); }
  /// Takes the result out of the message.
  virtual void deliver(message& answered) noexcept = 0;
  /// The object is at another address now; null: it is destroyed.
  void moved_to(reply* place) const noexcept;

  sending* by_ = nullptr;  ///< null: not in flight
  std::uint32_t turn_ = 0;
  postponed* later_ = nullptr;  ///< the operation, where it is postponed
  postponed* then_ = nullptr;   ///< the continuation, which runs when the slot of the message is free again
};

/// In the locality's memory.
struct ring {
  ring(member& from, std::uint32_t depth, std::optional<unsigned> numa_node)
      : sender(&from),
        mask(depth - 1),
        pages(hw::map_pages(depth * sizeof(message), {.numa_node = numa_node})),
        messages(reinterpret_cast<message*>(pages.data())) {
    for (std::uint32_t i = 0; i < depth; ++i) new (messages + i) message;
  }

  [[nodiscard]] message& slot(std::uint32_t turn) const noexcept { return messages[turn & mask]; }
  /// A hint.
  [[nodiscard]] bool has_work() const noexcept {
    return slot(next.load(std::memory_order_relaxed)).looks_posted();  // relaxed: a hint
  }

  // Constant: the sender reads them with each message.
  member* const sender;
  const std::uint32_t mask;
  const hw::page_run pages;
  message* const messages;
  // Of the servers. The holder of the lock writes `next`.
  alignas(hw::false_sharing_bytes) ttas_lock lock;
  std::atomic<std::uint32_t> next{first_turn};
};

/// In the sender's memory.
struct sending {
  struct record {
    reply* to = nullptr;
    /// Takes the result, advances the turn, and then destroys the result, whose destructor may submit.
    void (*discard)(message&, std::uint32_t& first) = nullptr;
    std::uint64_t key = 0;
    unsigned depth = 0;
  };

  ring* to = nullptr;
  unsigned locality = 0;
  std::uint32_t first = first_turn;  ///< the oldest that is not taken
  std::uint32_t end = first_turn;
  std::uint64_t operation = 0;   ///< the one that posted the newest message
  std::uint64_t sampled_at = 0;  ///< when the message with that turn was posted; 0: none is timed
  std::uint32_t sampled_turn = 0;
  unsigned patience = 32;
  unsigned served_itself = 0;  ///< how often in a row the sender has served the ring while it waited
  unsigned unserved = 0;       ///< how often serve_unserved() has found the oldest message unserved
  std::vector<record> records;

  /// Also where the thread has no ring yet.
  [[nodiscard]] bool is_empty() const noexcept { return first == end; }
  [[nodiscard]] record& of(std::uint32_t turn) noexcept { return records[turn & to->mask]; }
  [[nodiscard]] bool is_taken(std::uint32_t turn) const noexcept {
    return static_cast<std::int32_t>(turn - first) < 0;
  }
};

inline void reply::moved_to(reply* place) const noexcept {
  if (by_ != nullptr)
    by_->of(turn_).to = place;
  else if (later_ != nullptr) [[unlikely]]
    later_->to = place;
}
inline reply::reply(reply&& other) noexcept
    : by_(std::exchange(other.by_, nullptr)),
      turn_(other.turn_),
      later_(std::exchange(other.later_, nullptr)) {
  moved_to(this);
}

/// The rings of a locality, at most one for each slot of hw::thread_slot(). The runtime's lock guards additions.
class ring_table {
 public:
  ring_table() = default;
  ring_table(const ring_table&) = delete;
  ring_table& operator=(const ring_table&) = delete;
  ~ring_table() {
    // relaxed: no other thread uses it.
    for (auto& b : blocks_) delete b.load(std::memory_order_relaxed);
  }
  /// A server may read the elements with an index below it.
  [[nodiscard]] std::uint32_t count() const noexcept {
    return count_.load(std::memory_order_acquire);  // order (1): count, acquire
  }
  [[nodiscard]] ring& operator[](std::uint32_t index) const noexcept {
    // relaxed: published by the count.
    return *(*blocks_[index / per_block].load(std::memory_order_relaxed))[index % per_block];
  }
  /// Makes room for one more. Throws std::bad_alloc.
  void reserve() {
    // relaxed throughout: the lock guards writes.
    auto& b = blocks_[count_.load(std::memory_order_relaxed) / per_block];
    if (b.load(std::memory_order_relaxed) == nullptr) b.store(new block{}, std::memory_order_relaxed);
  }
  void add(ring& one) noexcept {
    // relaxed: the lock guards writes.
    const std::uint32_t at = count_.load(std::memory_order_relaxed);
    (*blocks_[at / per_block].load(std::memory_order_relaxed))[at % per_block] = &one;
    count_.store(at + 1, std::memory_order_release);  // order (1): add, release
  }

 private:
  static constexpr std::uint32_t per_block = 64;
  using block = std::array<ring*, per_block>;
  std::array<std::atomic<block*>, hw::max_thread_slots / per_block> blocks_{};
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace espalier::delegation::detail
