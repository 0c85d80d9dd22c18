#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/interface.hpp"
#include "apps/oltp/layout.hpp"
#include "espalier/hw/cache_geometry.hpp"

// The database of the ATC 2018 study in a simulated program: YCSB, or TPC-C as DBx1000 has it. Instrumented.

namespace espalier::simulate {

/// The parts of the program whose counts the machine keeps apart.
enum class database_part : std::uint8_t { rest, index };

struct database_shape {
  std::string index;
  /// Rows in one heap, and each role of the indexes in an arena of its own. Else all of it in that heap.
  bool segregated = false;
  std::size_t lock_bytes = 48;
  unsigned threads = 1;
  std::uint64_t rows = 0;  ///< of YCSB
  double theta = 0;
  unsigned warehouses = 0;  ///< of TPC-C; 0: YCSB
  unsigned items = 0;
  unsigned customers = 0;  ///< of a district
  std::uint64_t seed = 0;
};

/// Gives a thread leave for one transaction after the other. Implemented outside the simulated program.
class transaction_feed : public app::interface {
 public:
  virtual bool next() = 0;
};

class studied_database : public app::interface {
 public:
  /// Called once by each thread, before time begins.
  virtual void load(unsigned thread) = 0;
  virtual void operate(unsigned thread, transaction_feed& feed) = 0;

  // While no thread runs.

  virtual void for_each_block(void (*visit)(void* context, std::uint64_t address, std::size_t bytes,
                                            memory_role role),
                              void* context) const = 0;
  /// What a block of a role is called.
  [[nodiscard]] virtual std::string_view name_of(memory_role role) const = 0;
  [[nodiscard]] virtual std::vector<app::db::kind_of_block> layout(
      const hw::cache_geometry& caches) const = 0;
  [[nodiscard]] virtual std::uint64_t commits() const = 0;
  [[nodiscard]] virtual std::uint64_t attempts() const = 0;
  /// What condition the database does not meet; empty if it meets all.
  [[nodiscard]] virtual std::string broken() = 0;
};

[[nodiscard]] std::unique_ptr<studied_database> make_studied_database(const database_shape& shape);

}  // namespace espalier::simulate
