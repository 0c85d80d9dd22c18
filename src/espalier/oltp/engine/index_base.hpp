#pragma once

#include <optional>
#include <span>
#include <utility>

#include "espalier/catalog/any_map.hpp"
#include "espalier/oltp/engine/gaps.hpp"
#include "espalier/oltp/engine/shared_state.hpp"
#include "espalier/oltp/engine/stored_row.hpp"

// An index of a table: a map of the catalogue from keys to rows. It may be unique, or a multimap: then a key leads to the head
// of a list of rows, under a table of locks, as in the database of the ATC 2018 study. So it needs nothing of the map but
// find, lower_bound, insert, erase and scan.
//
// An index knows nothing of transactions. It has a place where they note which of its gaps they use.

namespace espalier::oltp::engine {

/// The key of a row in an index.
using key_function = std::uint64_t (*)(const std::byte* row);

/// For a map that is an index.
[[nodiscard]] inline any_map_options options_for(std::string_view map, const any_placement& placement,
                                                 epoch_domain* domain) {
  if (!any_map_takes_placement(map)) return {std::nullopt, domain};
  return {placement, domain};
}

class index_base {
 public:
  index_base(std::string name, bool unique, key_function key, shared_state& shared)
      : name_(std::move(name)),
        unique_(unique),
        key_(key),
        shared_(shared),
        map_(shared.chosen.map, options_for(shared.chosen.map, shared.indexes, &shared.domain)),
        gaps_(shared.chosen.by),
        by_value_(shared.chosen.rows_as == row_form::dbx) {}
  index_base(const index_base&) = delete;
  index_base& operator=(const index_base&) = delete;
  virtual ~index_base();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The database's.
  [[nodiscard]] const shared_state& shared() const noexcept { return shared_; }
  [[nodiscard]] bool is_unique() const noexcept { return unique_; }
  [[nodiscard]] std::uint64_t key_of(const std::byte* data) const { return key_(data); }
  [[nodiscard]] const any_map& map() const noexcept { return map_; }
  [[nodiscard]] index_gaps& gaps() noexcept { return gaps_; }

  // The calling thread is pinned in the domain.

  /// Of a unique index: the row.
  [[nodiscard]] stored_row* find(std::uint64_t key) const {
    const auto found = map_.find(key);
    return found ? to_row(*found) : nullptr;
  }
  /// results[i] is that of find(keys[i]); for at most together_most keys.
  void find_batch(std::span<const std::uint64_t> keys, std::span<stored_row*> results) const;
  /// False if the index is unique and has the key. Throws std::bad_alloc, with the index unchanged.
  bool insert(std::uint64_t key, stored_row* r);
  /// Removes this row under this key, if it is there. Amortised, it takes no longer where the key has many rows. Throws
  /// std::bad_alloc, with the index unchanged.
  void remove(epoch_domain::guard& pinned, std::uint64_t key, stored_row* r);
  /// Calls visit(key, row) in the order of the keys, from this one on, until it returns false. Rows of one key come in no
  /// particular order: attempts put them in, and no attempt knows whether it will commit, or when.
  template <class Visit>
  void scan(std::uint64_t from, Visit&& visit) const {
    map_.scan(from, [&](std::uint64_t key, std::uint64_t word) {
      if (is_unique()) return visit(key, to_row(word));
      // order (1): first, next, acquire
      for (const entry* e = to_list(word)->first.load(std::memory_order_acquire); e != nullptr;
           e = e->next.load(std::memory_order_acquire)) {
        if (!visit(key, e->to)) return false;
      }
      return true;
    });
  }
  /// The same. Of few rows a unique index asks the map for one at a time: the map need not bring its keys in order for them.
  template <class Visit>
  void scan(std::uint64_t from, bool few, Visit&& visit) const {
    if (!few || !is_unique()) return scan(from, visit);
    while (true) {
      const entry_of_row at = first_from(from);
      if (at.of == nullptr || !visit(at.key, at.of) || at.key == ~std::uint64_t{0}) return;
      from = at.key + 1;
    }
  }
  struct entry_of_row {
    std::uint64_t key = 0;
    stored_row* of = nullptr;  ///< null: there is none
    friend bool operator==(const entry_of_row&, const entry_of_row&) = default;
  };
  /// The first row whose key is not smaller: an insert of the key would come before it.
  [[nodiscard]] entry_of_row first_from(std::uint64_t key) const {
    while (const auto at = map_.lower_bound(key)) {
      if (is_unique()) return {at->key, to_row(at->value)};
      // order (1): first, acquire
      if (const entry* const e = to_list(at->value)->first.load(std::memory_order_acquire))
        return {at->key, e->to};
      // Its last row has left, and the list is about to.
      if (at->key == ~std::uint64_t{0}) break;
      key = at->key + 1;
    }
    return {};
  }

 private:
  // Orderings
  //   (1) link (release) -> first, next (acquire): a reader sees the entry made.
  struct entry {
    stored_row* to;
    std::atomic<entry*> next{nullptr};
  };
  /// Of a longer list a removal remembers where each row is.
  static constexpr std::size_t long_walk = 32;
  /// What leads to an entry: the next one's of another, or the first one's of the list.
  using link = std::atomic<entry*>;
  class link_set;
  struct list {
    link first{nullptr};
    std::unique_ptr<link_set>
        known;  ///< null: a short list, or one of which few rows have left. The lock guards it
  };
  static_assert(sizeof(std::uint64_t) == sizeof(void*));

  /// Of a unique index.
  [[nodiscard]] stored_row* to_row(std::uint64_t word) const noexcept {
    return by_value_ ? reinterpret_cast<const dbx_row::value*>(word)->row
                     : reinterpret_cast<stored_row*>(word);
  }
  [[nodiscard]] std::uint64_t to_row_word(const stored_row* r) const noexcept {
    return by_value_ ? to_word(static_cast<const dbx_row*>(r)->led_by) : to_word(r);
  }
  static list* to_list(std::uint64_t word) noexcept { return reinterpret_cast<list*>(word); }
  static std::uint64_t to_word(const void* p) noexcept { return reinterpret_cast<std::uint64_t>(p); }

  [[nodiscard]] ttas_lock& lock_of(std::uint64_t key) noexcept {
    return locks_[(key * 0x9E3779B97F4A7C15U) >> 56];
  }
  [[nodiscard]] link* link_to(list& all, const stored_row* r);
  template <class T>
  [[nodiscard]] T* create(memory_role role);
  template <class T>
  void destroy(T* one, memory_role role) noexcept;
  template <class T>
  void retire(epoch_domain::guard& pinned, T* one) noexcept;

  std::string name_;
  bool unique_;
  key_function key_;
  shared_state& shared_;
  any_map map_;
  index_gaps gaps_;
  const bool by_value_;  ///< a key leads to a row's value block
  std::array<ttas_lock, 256> locks_;
};

}  // namespace espalier::oltp::engine
