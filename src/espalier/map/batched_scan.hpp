#pragma once

#include <algorithm>
#include <cstddef>
#include <new>
#include <optional>
#include <type_traits>

#include "espalier/map/map_facade.hpp"

// Scans of maps whose readers hold a lock. Entries are copied in batches under the lock and visited after its release,
// so that a visitor may call the map, or run for long.

namespace espalier {

/// Where a scan continues: at a key or behind it.
template <class Key, class Compare>
struct scan_bound {
  [[no_unique_address]] comparator_in_use<Compare> less;
  const Key& key;
  bool exclusive;

  [[nodiscard]] bool admits(const Key& candidate) const {
    return exclusive ? less(key, candidate) : !less(candidate, key);
  }
};

/// Space for copies of a few entries. None is constructed before it is added.
template <class Key, class Value>
class entry_batch {
  static_assert(std::is_trivially_copyable_v<Key> && std::is_trivially_copyable_v<Value>,
                "keys and values are copied while other threads use them: both must be trivially copyable, "
                "which std::string is not; use a number, an index or a fixed array of characters");

 public:
  struct entry {
    Key key;
    Value value;
  };

  /// 64, or fewer if they are large: a batch lies on the stack.
  static constexpr std::size_t capacity =
      std::clamp(std::size_t{16384} / sizeof(entry), std::size_t{1}, std::size_t{64});

  void add(const Key& key, const Value& value) noexcept {
    ::new (room_ + size_++ * sizeof(entry)) entry{key, value};
  }
  void clear() noexcept { size_ = 0; }

  [[nodiscard]] bool full() const noexcept { return size_ == capacity; }
  [[nodiscard]] const entry* begin() const noexcept {
    return std::launder(reinterpret_cast<const entry*>(room_));
  }
  [[nodiscard]] const entry* end() const noexcept { return begin() + size_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  alignas(entry) std::byte room_[capacity * sizeof(entry)];
  std::size_t size_ = 0;
};

/// Visits batch after batch. fill(batch, bound) adds to the empty batch, in order, the first entries that the bound
/// admits, until the batch is full or there are no more. It returns with no lock held.
template <class Key, class Value, class Compare, class Fill, class Visitor>
std::size_t batched_scan(const Compare& less, const Key& from, Fill&& fill, Visitor&& visitor) {
  entry_batch<Key, Value> batch;
  std::size_t visits = 0;
  std::optional<Key> last;
  do {
    batch.clear();
    fill(batch, scan_bound<Key, Compare>{less, last ? *last : from, last.has_value()});
    for (const auto& entry : batch) {
      ++visits;
      if (!visit_entry(visitor, entry.key, entry.value)) return visits;
    }
    if (batch.size() != 0) last = (batch.end() - 1)->key;
  } while (batch.full());
  return visits;
}

}  // namespace espalier
