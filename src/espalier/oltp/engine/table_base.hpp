#pragma once

#include <vector>

#include "espalier/oltp/engine/index_base.hpp"

namespace espalier::oltp::engine {

/// A table without the type of its rows. It creates and frees them, and has their indexes; the first one is the primary.
class table_base {
 public:
  table_base(std::string name, std::size_t row_bytes, shared_state& shared)
      : name_(std::move(name)), row_bytes_(row_bytes), shared_(shared) {}
  table_base(const table_base&) = delete;
  table_base& operator=(const table_base&) = delete;
  virtual ~table_base() = default;
  /// All except those that are left over. No transaction runs.
  void destroy_rows() noexcept;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The database's.
  [[nodiscard]] shared_state& shared() const noexcept { return shared_; }
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
  shared_state& shared_;
  std::vector<std::unique_ptr<index_base>> indexes_;
};

}  // namespace espalier::oltp::engine
