#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "espalier/memory/any_placement.hpp"
#include "espalier/oltp/engine/index_base.hpp"
#include "espalier/oltp/engine/row_lock.hpp"
#include "espalier/reclaim/epoch.hpp"

// A table without the type of its rows: it makes and frees them, and has their indexes. attempt.hpp has what happens to
// the rows, and oltp/table.hpp the tables of programs.

namespace espalier::oltp {

/// The contents of a row fill whole words, which Silo copies one by one.
[[nodiscard]] constexpr std::size_t words_of(std::size_t bytes) noexcept { return (bytes + 7) / 8; }

class table_base {
 public:
  table_base(std::string name, std::size_t row_bytes, std::size_t lock_bytes, any_placement rows,
             epoch_domain& domain)
      : name_(std::move(name)),
        row_bytes_(row_bytes),
        lock_bytes_(lock_bytes),
        rows_(std::move(rows)),
        domain_(domain) {}
  table_base(const table_base&) = delete;
  table_base& operator=(const table_base&) = delete;
  ~table_base() = default;
  /// All but those that are left over. No transaction runs.
  void destroy_rows() noexcept;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const epoch_domain& domain() const noexcept { return domain_; }
  [[nodiscard]] std::size_t row_bytes() const noexcept { return row_bytes_; }
  [[nodiscard]] const std::vector<std::unique_ptr<index_base>>& indexes() const noexcept { return indexes_; }
  [[nodiscard]] index_base& primary() const noexcept { return *indexes_.front(); }
  /// Throws std::invalid_argument if there is one of its name.
  index_base& add_index(std::unique_ptr<index_base> one);

  /// A row with these contents that no index has. Throws std::bad_alloc.
  [[nodiscard]] stored_row* create(const std::byte* data);
  void destroy(stored_row* r) noexcept;
  void retire(epoch_domain::guard& pinned, stored_row* r) noexcept;

 private:
  std::string name_;
  std::size_t row_bytes_;
  std::size_t lock_bytes_;
  any_placement rows_;
  epoch_domain& domain_;
  std::vector<std::unique_ptr<index_base>> indexes_;
};

}  // namespace espalier::oltp
