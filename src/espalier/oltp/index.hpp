#pragma once

#include "espalier/oltp/engine/index_base.hpp"

namespace espalier::oltp {

enum class uniqueness : bool { many, unique };

/// A member of a row as its key.
template <auto Member>
struct member_key {
  template <class Row, class Column>
  static Row row_of(Column Row::*);
  using row = decltype(row_of(Member));
  [[nodiscard]] auto operator()(const row& r) const noexcept { return r.*Member; }
};

/// An index of a table with rows of this type.
template <class Row>
class table_index : public engine::index_base {
 public:
  using index_base::index_base;
};

}  // namespace espalier::oltp
