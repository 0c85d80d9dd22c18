#pragma once

#include "espalier/oltp/engine/table_base.hpp"
#include "espalier/oltp/index.hpp"
#include "espalier/oltp/schema.hpp"

namespace espalier::oltp {

template <class Row>
class table : public engine::table_base {
  static_assert(std::is_trivially_copyable_v<Row>,
                "a row is copied as bytes: it must be trivially copyable; use oltp::text<N> for characters");
  static_assert(alignof(Row) <= 8, "rows are aligned to 8 bytes");

 public:
  /// Another index, of a table that is empty. The key of a row is key(row): a function without state whose result depends on
  /// the row alone. Throws std::logic_error if there are rows, std::invalid_argument if there is an index of this name (that of
  /// the primary one is "primary"), std::bad_alloc.
  template <class Key>
  table_index<Row>& create_index(std::string name, uniqueness kind, Key /*key*/) {
    if (!indexes().empty() && primary().first_from(0).of != nullptr)
      throw std::logic_error("oltp: the table " + this->name() + " has rows; create the index " + name +
                             " before");
    return add<Key>(std::move(name), kind);
  }
  /// The key is a member of the row: create_index<&order::customer>("by customer", uniqueness::many).
  template <auto Member>
  table_index<Row>& create_index(std::string name, uniqueness kind) {
    return create_index(std::move(name), kind, member_key<Member>());
  }
  /// Calls visitor(row) for each row, in order, and then for each that was appended. While no transaction runs.
  template <class Visitor>
  void for_each_at_rest(Visitor&& visitor) const {
    primary().scan(0, [&](std::uint64_t, engine::stored_row* r) {
      // relaxed: no other thread uses it.
      if (r->live.load(std::memory_order_relaxed)) visitor(*reinterpret_cast<const Row*>(r->data));
      return true;
    });
    shared().appended.for_each([&](std::uint32_t, const engine::row_list& one) {
      for (const engine::stored_row* r = one.first; r != nullptr; r = r->next_listed) {
        if (r->of == this) visitor(*reinterpret_cast<const Row*>(r->data));
      }
    });
  }
  [[nodiscard]] table_index<Row>& primary_index() const noexcept {
    return static_cast<table_index<Row>&>(primary());
  }
  /// A row as text, by the schema that the table was created with.
  [[nodiscard]] std::string to_string(const Row& r) const {
    return oltp::to_string(columns_, reinterpret_cast<const std::byte*>(&r));
  }

 private:
  friend class database;
  table(std::string name, engine::shared_state& shared, std::vector<column> columns)
      : table_base(std::move(name), sizeof(Row), shared), columns_(std::move(columns)) {}
  template <class Key>
  table_index<Row>& add(std::string name, uniqueness kind) {
    static_assert(std::is_empty_v<Key> && std::is_default_constructible_v<Key>,
                  "the key of a row depends on the row alone: a lambda without captures");
    static_assert(std::is_invocable_v<Key, const Row&>, "a key is computed from a const Row& of this table");
    using key_type = std::invoke_result_t<Key, const Row&>;
    static_assert(
        std::is_convertible_v<key_type, std::uint64_t> && !std::is_floating_point_v<key_type> &&
            sizeof(key_type) <= 8,
        "a key is a number of 64 bits; oltp::packed, hash_key and prefix_key make one of other columns");
    const engine::key_function of = [](const std::byte* data) -> std::uint64_t {
      return static_cast<std::uint64_t>(Key{}(*reinterpret_cast<const Row*>(data)));
    };
    return static_cast<table_index<Row>&>(add_index(
        std::make_unique<table_index<Row>>(std::move(name), kind == uniqueness::unique, of, shared())));
  }

  std::vector<column> columns_;
};

}  // namespace espalier::oltp
