#pragma once

#include "espalier/oltp/engine/attempt.hpp"
#include "espalier/oltp/table.hpp"

namespace espalier::oltp {

/// What the function of database::transact() is given. Keys of tables are those of their first index. Every operation may
/// end the attempt by an exception that the database catches (outcome.hpp, restart), and may throw std::bad_alloc. What
/// insert, update and erase throw undoes the transaction, even if the function catches it: transact() throws it again.
class transaction {
 public:
  static constexpr std::uint64_t last_key = std::numeric_limits<std::uint64_t>::max();

  // Reading. Say intent::write where the row will be changed, or inserted if it is absent: then two transactions do not both
  // read it first. In a range it is said of all rows and of the gaps between them.

  template <class Row>
  [[nodiscard]] found_row<Row> find(const table<Row>& in, std::uint64_t key, intent i = intent::read) {
    return found_row<Row>(attempt_.find(in.primary(), key, i));
  }
  /// By an index that is unique. Throws std::logic_error for another one.
  template <class Row>
  [[nodiscard]] found_row<Row> find(table_index<Row>& in, std::uint64_t key, intent i = intent::read) {
    if (!in.is_unique())
      throw std::logic_error("oltp: the index " + in.name() +
                             " may have several rows of a key; scan it from the key to the key");
    return found_row<Row>(attempt_.find(in, key, i));
  }
  /// Several at once, whose cache misses overlap: results[i] is that of find(in, keys[i]). Throws std::logic_error if there
  /// are more keys than results.
  template <class Row>
  void find_batch(const table<Row>& in, std::span<const std::uint64_t> keys,
                  std::span<found_row<std::type_identity_t<Row>>> results, intent i = intent::read) {
    if (results.size() < keys.size())
      throw std::logic_error("oltp: find_batch() has " + std::to_string(keys.size()) + " keys and room for " +
                             std::to_string(results.size()) + " results");
    std::array<engine::found, together_most> found;
    while (!keys.empty()) {
      const std::size_t n = std::min(keys.size(), together_most);
      attempt_.find_batch(in.primary(), keys.first(n), found, i);
      for (std::size_t k = 0; k < n; ++k) results[k] = found_row<Row>(found[k]);
      keys = keys.subspan(n);
      results = results.subspan(n);
    }
  }
  /// Calls visitor(row) for the rows whose key is from `from` to `to`, both included, in order. It takes a const Row& or a
  /// found_row<Row> (as `const auto&` does), and may return a bool: whether to go on.
  template <class Row, class Visitor>
  void scan(table_index<Row>& in, std::uint64_t from, std::uint64_t to, Visitor&& visitor,
            intent i = intent::read) {
    attempt_.scan(in, from, to, i, rows_at_once,
                  [&](const engine::found& one) { return visit(visitor, found_row<Row>(one)); });
  }
  template <class Row, class Visitor>
  void scan(const table<Row>& in, std::uint64_t from, std::uint64_t to, Visitor&& visitor,
            intent i = intent::read) {
    scan(in.primary_index(), from, to, std::forward<Visitor>(visitor), i);
  }
  /// The first row of a range: no other one is locked, but for those of the same key.
  template <class Row>
  [[nodiscard]] found_row<Row> first(table_index<Row>& in, std::uint64_t from, std::uint64_t to,
                                     intent i = intent::read) {
    found_row<Row> result;
    attempt_.scan(in, from, to, i, 1, [&](const engine::found& one) {
      result = found_row<Row>(one);
      return false;
    });
    return result;
  }
  template <class Row>
  [[nodiscard]] found_row<Row> first(const table<Row>& in, std::uint64_t from, std::uint64_t to,
                                     intent i = intent::read) {
    return first(in.primary_index(), from, to, i);
  }

  // Writing.

  /// False if there is a row with one of its unique keys.
  template <class Row>
  bool insert(table<Row>& into, const std::type_identity_t<Row>& r) {
    return attempt_.insert(into, reinterpret_cast<const std::byte*>(&r));
  }
  /// Adds a row that no index has: no transaction finds it, and for_each_at_rest() does. It stays until the database ends. For
  /// a log, or for measurements without the cost of indexes.
  template <class Row>
  void append(table<Row>& to, const std::type_identity_t<Row>& r) {
    attempt_.append(to, reinterpret_cast<const std::byte*>(&r));
  }
  /// Calls change(row) with the row to write to. Throws std::logic_error if it changes the primary key, and duplicate_key if
  /// another row has its new key in a unique index.
  template <class Row, class Change>
  void update(const found_row<Row>& one, Change&& change) {
    attempt_.update(one.found_, [&](std::byte* data) { change(*reinterpret_cast<Row*>(data)); });
  }
  /// False if there is no row with the key.
  template <class Row, class Change>
  bool update(table<Row>& in, std::uint64_t key, Change&& change) {
    const found_row<Row> one = find_to_change(in, key);
    if (one) update(one, change);
    return static_cast<bool>(one);
  }
  template <class Row>
  void erase(const found_row<Row>& one) {
    attempt_.erase(one.found_);
  }
  template <class Row>
  bool erase(table<Row>& in, std::uint64_t key) {
    const found_row<Row> one = find_to_change(in, key);
    if (one) erase(one);
    return static_cast<bool>(one);
  }

  /// Undoes the transaction for good: transact() returns false.
  [[noreturn]] void roll_back() { attempt_.ask_for_roll_back(); }

 private:
  friend class database;
  static constexpr std::size_t rows_at_once = 16;
  explicit transaction(engine::attempt& of) noexcept : attempt_(of) {}

  /// Where there is none, none is inserted.
  template <class Row>
  [[nodiscard]] found_row<Row> find_to_change(const table<Row>& in, std::uint64_t key) {
    return found_row<Row>(attempt_.find(in.primary(), key, intent::write, intent::read));
  }
  template <class Visitor, class Row>
  static bool visit(Visitor& visitor, const found_row<Row>& one) {
    const auto call = [&] {
      if constexpr (std::is_invocable_v<Visitor&, const found_row<Row>&>)
        return visitor(one);
      else
        return visitor(*one);
    };
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      return true;
    } else {
      return static_cast<bool>(call());
    }
  }

  engine::attempt& attempt_;
};

}  // namespace espalier::oltp
