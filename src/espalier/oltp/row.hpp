#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>

#include "espalier/memory/placement_concept.hpp"

// A row is three blocks: a wrapper to which the indexes lead, a lock, and the data. Or it has the five blocks of the database of
// the ATC 2018 study (row_form::dbx). Each has a role of its own, so that placements and the inspector tell them apart.

namespace espalier::oltp {

inline constexpr memory_role row_role = memory_role::program_1;
inline constexpr memory_role lock_role = memory_role::program_2;
inline constexpr memory_role data_role = memory_role::program_3;
// Of row_form::dbx alone.
inline constexpr memory_role value_role = memory_role::value;
inline constexpr memory_role lock_wrapper_role = memory_role::other;

/// Of which blocks a row is made, and how a look-up goes through them.
enum class row_form : std::uint8_t {
  plain,  ///< index -> wrapper (40 bytes) -> lock, data
  /// index -> value (32 bytes) -> row (64) -> lock wrapper (64) -> lock, and row -> data. Allocated in the order row, data, lock
  /// wrapper, lock, value; then the node of the index.
  dbx
};

/// The room for the lock of a row, of any protocol. The database may have more.
inline constexpr std::size_t least_lock_bytes = 48;

/// What a transaction will do with a row that it reads, or in the place of one that it does not find.
enum class intent : std::uint8_t { read, write };

namespace engine {

/// A row as an attempt sees it.
struct found {
  const std::byte* data = nullptr;  ///< null: there is none
  std::uint32_t access = 0;
  explicit operator bool() const noexcept { return data != nullptr; }
};

}  // namespace engine

/// A row that a transaction has found, or none. Its contents stay as they are until the transaction changes them or ends. Where
/// there is none, * and -> end a program that was built with assertions.
template <class Row>
class found_row {
 public:
  found_row() = default;
  explicit operator bool() const noexcept { return static_cast<bool>(found_); }
  const Row& operator*() const noexcept { return *get(); }
  const Row* operator->() const noexcept { return get(); }

 private:
  friend class transaction;
  explicit found_row(engine::found f) noexcept : found_(f) {}
  const Row* get() const noexcept {
    assert(found_ && "oltp: there is no row; look whether find() has found one");
    return reinterpret_cast<const Row*>(found_.data);
  }
  engine::found found_;
};
template <class T>
inline constexpr bool is_found_row = false;
template <class Row>
inline constexpr bool is_found_row<found_row<Row>> = true;

}  // namespace espalier::oltp
