#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/queue/priority_queue_concept.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/optimistic_lock.hpp"
#include "espalier/sync/ttas_lock.hpp"

// heap_queue: priority queue in an array, under one lock.
// Williams, "Algorithm 232: Heapsort", CACM 1964; four children a node: Johnson, "Priority Queues with Update and Finding Minimum
// Spanning Trees", IPL 1975; in aligned cache lines: LaMarca and Ladner, "The Influence of Caches on the Performance of Heaps", JEA
// 1996; the removal from the bottom up: Wegener, "Bottom-Up-Heapsort", TCS 1993.
//
// Essence. Each entry comes before its four children. With keys of 8 bytes these are one cache line, so a pop reads one line
// a level, and has half of the levels of a binary heap. A pop goes down along the smallest children to the bottom, and from there up
// to the place of the last entry.
//
// Deviations from the papers:
//  1. An entry has the number of its push: it decides between equal keys, which so come in the order of their pushes. A number
//     has 32 bits. When they are used up, the entries get new ones, from zero on in the same order.
//  2. Values do not move. An entry has the index of its value. The entries behind the end of the heap have the free indices: what
//     a pop frees, the next push takes.
//  3. All comparisons, and the copy of the value, come before the first change, because they may throw.
//  4. A copy of the smallest element lies apart, twice. An update writes the copy that is not current, and then makes it the current
//     one. A look reads the current one, and again where another one has become current meanwhile. It waits for no update.
//
// Invariants, where the lock is free: no entry comes before its parent, by key and number; the indices of the entries and of those
// behind them, up to the capacity, are a permutation; the current copy is of the first entry.
//
// Progress. push and pops are blocking. empty() is lock-free, and so is try_find_min() where it reads the copy (shows_elements):
// it repeats only where an update has come between. Other values try_find_min() copies under the lock.
//
// Reclamation: none is needed. What the lock protects is read under the lock alone. Copies of values, and the comparator, run under
// the lock, unless an element is read from the copy: they may not call the queue.
//
// Linearization points: show, the store of the version, where an update changes the smallest element. Of other updates any moment
// under the lock. Of looks the first read of the version, or under the lock.
//
// Orderings
//   (1) show (release) -> look (acquire): a look sees the copy that the version stands for.
//   (2) set (release) in sync/optimistic_lock.hpp -> get (acquire) in sync/optimistic_lock.hpp: a look that reads a part of a later
//       copy sees a later version after that.

namespace espalier {

/// The default policies.
using heap_queue_traits =
    basic_map_traits<segregated, unused_policy, unused_policy, ttas_lock, unused_policy>;

/// Number: of the pushes; with at most as many elements.
template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>,
          std::unsigned_integral Number = std::uint32_t>
class heap_queue {
  static_assert(std::is_trivially_copyable_v<Key>, "keys move while the heap changes: a move may not throw");
  static_assert(std::is_default_constructible_v<Key>, "the unused end of the array has keys, too");
  static_assert(std::is_nothrow_destructible_v<Value>);

  using store =
      node_store<typename completed_traits<Traits, heap_queue_traits>::template with_reclaimer<unprotected>>;

 public:
  using key_type = Key;
  using mapped_type = Value;
  using value_type = map_entry<Key, Value>;
  using key_compare = Compare;
  using traits_type = completed_traits<Traits, heap_queue_traits>;
  using guard_type = typename store::guard_type;
  using reclaimer_type = typename store::reclaimer_type;

  static constexpr queue_properties properties{
      .name = "heap_queue",
      .order = queue_order::linearizable,
      .update_progress = progress::blocking,
      .paper = "LaMarca and Ladner, The Influence of Caches on the Performance of Heaps, JEA 1996"};

  /// Whether try_find_min() reads a copy of the element, and waits for no update.
  static constexpr bool shows_elements =
      std::is_trivially_copyable_v<Value> && std::is_default_constructible_v<Value> &&
      std::is_default_constructible_v<Key> && sizeof(Key) + sizeof(Value) <= hw::cache_line_bytes / 2;

  /// The queue has no use for a domain. The further arguments construct the placement.
  template <class... PlacementArguments>
  explicit heap_queue(const Compare& less = Compare(), reclaimer_type* domain = nullptr,
                      PlacementArguments&&... placement)
      : store_(domain, std::forward<PlacementArguments>(placement)...), less_(less) {}
  heap_queue(const heap_queue&) = delete;
  heap_queue& operator=(const heap_queue&) = delete;
  /// No other thread may use the queue any more.
  ~heap_queue() {
    if constexpr (!std::is_trivially_destructible_v<Value>) {
      for (std::size_t i = 0; i < size_; ++i) std::destroy_at(value_at(root_[i].slot));
    }
    if constexpr (store::template must_visit<entry_array>()) {
      if (array_ != nullptr) store_.destroy(memory_role::node, array_);
      for (value_array* const one : values_) {
        if (one != nullptr) store_.destroy(memory_role::value, one);
      }
    }
  }

  [[nodiscard]] guard_type pin() const { return store_.pin(); }
  [[nodiscard]] const Compare& key_comp() const noexcept { return less_; }

  /// Logarithmic in the number of elements, and constant on average where keys come in random order. Where the memory is used up, as
  /// linear as that of a std::vector: the queue then doubles it, and keeps it. Throws std::bad_alloc also where there are as many
  /// elements as numbers.
  void push(const Key& key, const Value& value) {
    auto guard = pin();
    push(guard, key, value);
  }
  void push(guard_type&, const Key& key, const Value& value) {
    const lock_guard hold(lock_);
    if (size_ == capacity_) [[unlikely]]
      grow();
    if (next_number_ == std::numeric_limits<Number>::max()) [[unlikely]]
      number_again();
    // Its number is the largest: it stays behind equal keys.
    std::size_t at = size_;
    while (at != 0 && less_(key, root_[parent(at)].key)) at = parent(at);
    const std::uint32_t slot = root_[size_].slot;
    ::new (static_cast<void*>(value_at(slot))) Value(value);
    for (std::size_t i = size_; i != at; i = parent(i)) root_[i] = root_[parent(i)];
    root_[at] = {key, next_number_++, slot};
    ++size_;
    if (at == 0) show();
  }

  /// Logarithmic in the number of elements.
  std::optional<value_type> try_pop_min() {
    auto guard = pin();
    return try_pop_min(guard);
  }
  std::optional<value_type> try_pop_min(guard_type&) {
    return pop([](const Key&) { return true; });
  }

  std::optional<value_type> try_pop_min_up_to(const Key& limit) {
    auto guard = pin();
    return try_pop_min_up_to(guard, limit);
  }
  std::optional<value_type> try_pop_min_up_to(guard_type&, const Key& limit) {
    return pop([this, &limit](const Key& key) { return !less_(limit, key); });
  }

  [[nodiscard]] std::optional<value_type> try_find_min() const {
    auto guard = pin();
    return try_find_min(guard);
  }
  [[nodiscard]] std::optional<value_type> try_find_min(guard_type&) const {
    if constexpr (shows_elements) {
      const shown seen = look();
      if (!seen.present) return std::nullopt;
      return value_type{seen.key, seen.value};
    } else {
      const lock_guard hold(lock_);
      if (size_ == 0) return std::nullopt;
      return value_type{root_->key, *value_at(root_->slot)};
    }
  }

  [[nodiscard]] bool empty() const {
    auto guard = pin();
    return empty(guard);
  }
  [[nodiscard]] bool empty(guard_type&) const { return !look().present; }

  /// As that of maps.
  [[nodiscard]] memory_usage usage() const noexcept {
    memory_usage sum = store_.usage();
    sum.bytes_reserved += sizeof(*this);
    return sum;
  }
  [[nodiscard]] reclaimer_type& domain() noexcept { return store_.domain(); }

  // Quiescent only, for tests.

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    if constexpr (requires { lock_.is_locked(); }) {
      if (lock_.is_locked()) return "the lock is held";
    }
    std::vector<bool> seen(capacity_);
    for (std::size_t i = 0; i < capacity_; ++i) {
      const std::uint32_t slot = root_[i].slot;
      if (slot >= capacity_ || seen[slot]) return "two entries have one value";
      seen[slot] = true;
      if (i != 0 && i < size_ && is_before(root_[i], root_[parent(i)]))
        return "an entry comes before its parent";
    }
    const shown now = look();
    if (now.present == (size_ == 0)) return "the copy of the smallest element is of another size";
    if constexpr (shows_elements) {
      if (now.present && (less_(now.key, root_->key) || less_(root_->key, now.key)))
        return "the copy of the smallest element is of another one";
    }
    return nullptr;
  }

 private:
  static constexpr std::size_t arity = 4;
  static constexpr std::size_t first_capacity = 16;
  static constexpr std::size_t capacity_most =
      std::min<std::size_t>(std::numeric_limits<std::uint32_t>::max(), std::numeric_limits<Number>::max());

  struct entry {
    Key key;
    Number number;
    std::uint32_t slot;
  };

  /// The entries, with the first one at the end of a cache line: so the children of each begin a line if four of them fill one.
  struct alignas(hw::cache_line_bytes) entry_array {
    std::size_t bytes;
    static_assert(alignof(entry) <= hw::cache_line_bytes);
    static constexpr std::size_t lead =
        (sizeof(std::size_t) + sizeof(entry) + hw::cache_line_bytes - 1) & ~(hw::cache_line_bytes - 1);
    [[nodiscard]] static std::size_t bytes_for(std::size_t count) noexcept {
      return lead + (count - 1) * sizeof(entry);
    }
    explicit entry_array(std::size_t all) noexcept : bytes(all) {}
    [[nodiscard]] std::size_t node_block_bytes() const noexcept { return bytes; }
    [[nodiscard]] entry* root() noexcept {
      return reinterpret_cast<entry*>(reinterpret_cast<std::byte*>(this) + lead - sizeof(entry));
    }
  };
  /// Values of consecutive indices.
  struct alignas(std::max(alignof(Value), alignof(std::size_t))) value_array {
    std::size_t bytes;
    explicit value_array(std::size_t all) noexcept : bytes(all) {}
    [[nodiscard]] std::size_t node_block_bytes() const noexcept { return bytes; }
    [[nodiscard]] Value* values() noexcept { return reinterpret_cast<Value*>(this + 1); }
  };

  struct shown_nothing {
    bool present = false;
  };
  struct shown_element {
    Key key;
    Value value;
    bool present = false;
  };
  using shown = std::conditional_t<shows_elements, shown_element, shown_nothing>;

  [[nodiscard]] static constexpr std::size_t parent(std::size_t i) noexcept { return (i - 1) / arity; }
  /// The first one.
  [[nodiscard]] static constexpr std::size_t child_of(std::size_t i) noexcept { return i * arity + 1; }

  // Without a branch: which entry is smaller, no processor predicts.
  [[nodiscard]] bool is_before(const entry& a, const entry& b) const {
    if constexpr (has_rank) {
      return rank(a) < rank(b);
    } else {
      const auto by_key = static_cast<unsigned>(less_(a.key, b.key));
      const auto not_by_key = static_cast<unsigned>(!less_(b.key, a.key));
      return (by_key | (not_by_key & static_cast<unsigned>(a.number < b.number))) != 0;
    }
  }
  /// Of unsigned numbers in their own order: key and number as one number, which two instructions compare.
  static constexpr bool has_rank = std::unsigned_integral<Key> && std::is_same_v<Compare, std::less<Key>>;
  __extension__ using rank_type = unsigned __int128;
  [[nodiscard]] static rank_type rank(const entry& e) noexcept {
    return static_cast<rank_type>(e.key) << 64U | e.number;
  }
  /// The smallest of so many entries.
  [[nodiscard]] std::size_t least_of(const entry* some, std::size_t count) const {
    if (count >= arity) [[likely]] {
      const auto a = static_cast<std::size_t>(is_before(some[1], some[0]));
      const auto b = 2 + static_cast<std::size_t>(is_before(some[3], some[2]));
      return a + (b - a) * static_cast<std::size_t>(is_before(some[b], some[a]));
    }
    std::size_t least = 0;
    for (std::size_t i = 1; i < count; ++i) least = is_before(some[i], some[least]) ? i : least;
    return least;
  }

  // The first array has the first indices, each further one as many as all before.
  [[nodiscard]] static constexpr unsigned array_of(std::size_t slot) noexcept {
    return static_cast<unsigned>(std::bit_width(slot / first_capacity));
  }
  [[nodiscard]] Value* value_at(std::uint32_t slot) const noexcept {
    const unsigned array = array_of(slot);
    const std::size_t first = array == 0 ? 0 : first_capacity << (array - 1);
    return values_[array]->values() + (slot - first);
  }

  template <class IsWithin>
  std::optional<value_type> pop(const IsWithin& is_within) {
    const lock_guard hold(lock_);
    if (size_ == 0 || !is_within(root_->key)) return std::nullopt;
    return take_first();
  }
  /// With the lock held. A function of its own, whose result is not moved: a move might throw when the element is gone.
  std::optional<value_type> take_first() {
    Value* const value = value_at(root_->slot);
    hw::request_to_write(value);
    const std::size_t end = size_ - 1;
    const entry last = root_[end];
    std::array<std::size_t, levels_most> path;
    std::size_t depth = 0;
    for (std::size_t child = 1; child < end; child = child_of(path[depth++])) {
      // Of the children of these, it will read some. Which, it knows only when it has read these.
      if (child_of(child) < end) hw::request_lines(root_ + child_of(child), arity * arity * sizeof(entry));
      path[depth] = child + least_of(root_ + child, end - child);
      if (shows_elements && depth == 0) hw::request_lines(value_at(root_[path[0]].slot), sizeof(Value));
    }
    while (depth != 0 && is_before(last, root_[path[depth - 1]])) --depth;

    std::optional<value_type> popped(value_type{root_->key, std::move_if_noexcept(*value)});
    const std::uint32_t slot = root_->slot;
    std::destroy_at(value);
    std::size_t hole = 0;
    for (std::size_t i = 0; i < depth; hole = path[i++]) root_[hole] = root_[path[i]];
    root_[hole] = last;
    root_[end].slot = slot;
    size_ = end;
    show();
    return popped;
  }

  /// Doubles the room. Throws std::bad_alloc, with nothing changed.
  [[gnu::noinline]] void grow() {
    const std::size_t capacity = std::min(capacity_ == 0 ? first_capacity : 2 * capacity_, capacity_most);
    if (capacity == capacity_) throw std::bad_alloc();
    const std::size_t bytes = entry_array::bytes_for(capacity);
    unpublished<store, entry_array> entries(store_, memory_role::node);
    entry* const root = entries.emplace_sized(nullptr, bytes, bytes).root();
    const std::size_t value_bytes = sizeof(value_array) + (capacity - capacity_) * sizeof(Value);
    values_[array_of(capacity_)] =
        store_.template create_sized<value_array>(memory_role::value, nullptr, value_bytes, value_bytes);
    for (std::size_t i = 0; i < capacity; ++i)
      ::new (static_cast<void*>(root + i))
          entry(i < capacity_ ? root_[i] : entry{Key{}, Number{}, static_cast<std::uint32_t>(i)});
    if (array_ != nullptr) store_.destroy(memory_role::node, array_);
    array_ = entries.release();
    root_ = root;
    capacity_ = capacity;
  }

  /// Gives the entries the smallest numbers, in the same order. Throws std::bad_alloc, with nothing changed.
  [[gnu::noinline]] void number_again() {
    std::vector<std::uint32_t> in_order(size_);
    std::iota(in_order.begin(), in_order.end(), 0U);
    std::sort(in_order.begin(), in_order.end(),
              [this](std::uint32_t a, std::uint32_t b) { return root_[a].number < root_[b].number; });
    next_number_ = 0;
    for (const std::uint32_t i : in_order) root_[i].number = next_number_++;
  }

  /// Makes the smallest element visible to looks.
  void show() noexcept {
    shown now{};
    now.present = size_ != 0;
    if constexpr (shows_elements) {
      if (now.present) now = {root_->key, *value_at(root_->slot), true};
    }
    // relaxed: written under the lock.
    const std::uint64_t next = version_.load(std::memory_order_relaxed) + 1;
    copies_[next % 2].set(exclusive_access{}, now);
    version_.store(next, std::memory_order_release);  // LP: push, pops. order (1): show, release
  }
  [[nodiscard]] shown look() const noexcept {
    while (true) {
      const std::uint64_t version = version_.load(std::memory_order_acquire);  // order (1): look, acquire
      const shown seen = copies_[version % 2].get(unvalidated{});
      // relaxed: the loads of the copy are acquire; see (2).
      if (version_.load(std::memory_order_relaxed) == version) return seen;
    }
  }

  static constexpr std::size_t levels_most = 17;
  static constexpr std::size_t arrays_most = array_of(capacity_most - 1) + 1;

  // What updates use, and what looks read.
  alignas(hw::false_sharing_bytes) mutable typename traits_type::lock_type lock_;
  Number next_number_ = 0;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  entry* root_ = nullptr;
  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> version_{0};
  std::array<optimistic_field<shown>, 2> copies_;
  alignas(hw::false_sharing_bytes) std::array<value_array*, arrays_most> values_{};
  entry_array* array_ = nullptr;
  store store_;
  [[no_unique_address]] Compare less_;
};

}  // namespace espalier
