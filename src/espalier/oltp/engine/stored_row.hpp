#pragma once

#include <atomic>
#include <cstddef>
#include <optional>

#include "espalier/oltp/engine/row_lock.hpp"
#include "espalier/oltp/row.hpp"

// The blocks of a row.

namespace espalier::oltp::engine {

class table_base;

/// A row's first block.
struct stored_row {
  stored_row(row_lock* its_lock, std::byte* its_data, table_base* its_table,
             bool in_dbx_form = false) noexcept
      : data(its_data), of(its_table), is_dbx(in_dbx_form), lock_(its_lock) {}

  /// As a transaction reaches it: in the study's form by way of the lock's wrapper.
  [[nodiscard]] row_lock& lock() const noexcept;

  std::byte* const data;
  table_base* const of;
  /// Its insert has committed, and no erase has. The lock guards it.
  std::atomic<bool> live{false};
  /// It could not leave an index, for want of memory: it is freed with the database.
  std::atomic<bool> left_over{false};
  const bool is_dbx;  ///< a dbx_row
  stored_row* next_listed = nullptr;

 private:
  row_lock* const lock_;
};

/// The same in the study's form, with two blocks more.
struct dbx_row : stored_row {
  /// To which the indexes lead.
  struct value {
    stored_row* row;
  };
  struct lock_wrapper {
    row_lock* lock;
  };
  static constexpr std::size_t row_bytes = 64, value_bytes = 32, lock_wrapper_bytes = 64;

  dbx_row(lock_wrapper* its_wrapper, std::byte* its_data, table_base* its_table, value* its_value) noexcept
      : stored_row(nullptr, its_data, its_table, true), wrapper(its_wrapper), led_by(its_value) {}

  lock_wrapper* const wrapper;
  value* const led_by;
};
static_assert(sizeof(stored_row) == 40 && sizeof(dbx_row) <= dbx_row::row_bytes);

inline row_lock& stored_row::lock() const noexcept {
  return is_dbx ? *static_cast<const dbx_row*>(this)->wrapper->lock : *lock_;
}

/// The contents of a row fill whole words, which Silo copies one by one.
[[nodiscard]] constexpr std::size_t words_of(std::size_t bytes) noexcept { return (bytes + 7) / 8; }

/// The blocks of a row.
struct row_blocks {
  block row, lock, data;
  std::optional<block> lock_wrapper, value;  ///< of row_form::dbx alone

  row_blocks(const database_options& o, std::size_t row_bytes) noexcept
      : row{sizeof(stored_row), alignof(stored_row), row_role},
        lock{o.lock_bytes, alignof(row_lock), lock_role},
        data{8 * words_of(row_bytes), 8, data_role} {
    if (o.rows_as == row_form::plain) return;
    row.bytes = dbx_row::row_bytes;
    lock_wrapper = block{dbx_row::lock_wrapper_bytes, 8, lock_wrapper_role};
    value = block{dbx_row::value_bytes, 8, value_role};
  }
  /// Calls visit(block) for each.
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    visit(row);
    visit(lock);
    visit(data);
    if (lock_wrapper) visit(*lock_wrapper);
    if (value) visit(*value);
  }
};

}  // namespace espalier::oltp::engine
