#include "espalier/oltp/engine/table_base.hpp"

#include <cstring>
#include <new>
#include <type_traits>

namespace espalier::oltp::engine {

index_base& table_base::add_index(std::unique_ptr<index_base> one) {
  for (const auto& other : indexes_) {
    if (other->name() == one->name())
      throw std::invalid_argument("oltp: the table " + name_ + " has an index " + one->name() + " already");
  }
  indexes_.push_back(std::move(one));
  return *indexes_.back();
}

stored_row* table_base::create(const std::byte* data) {
  any_placement& rows = shared_.rows;
  const block for_lock{shared_.chosen.lock_bytes, alignof(row_lock), lock_role};
  const std::size_t bytes = 8 * words_of(row_bytes_);
  void* const wrapper = rows.allocate({sizeof(stored_row), alignof(stored_row), row_role});
  void* lock = nullptr;
  void* contents = nullptr;
  try {
    lock = rows.allocate(for_lock, wrapper);
    contents = rows.allocate({bytes, 8, data_role}, wrapper);
  } catch (...) {
    if (lock != nullptr) rows.deallocate(lock, for_lock);
    rows.deallocate(wrapper, {sizeof(stored_row), alignof(stored_row), row_role});
    throw;
  }
  std::memset(static_cast<std::byte*>(contents) + bytes - 8, 0, 8);
  std::memcpy(contents, data, row_bytes_);
  return new (wrapper)
      stored_row{new (lock) row_lock(shared_.chosen.by), static_cast<std::byte*>(contents), this};
}

void table_base::destroy(stored_row* r) noexcept {
  static_assert(std::is_trivially_destructible_v<row_lock> && std::is_trivially_destructible_v<stored_row>);
  any_placement& rows = shared_.rows;
  rows.deallocate(r->data, {8 * words_of(row_bytes_), 8, data_role});
  rows.deallocate(r->lock, {shared_.chosen.lock_bytes, alignof(row_lock), lock_role});
  rows.deallocate(r, {sizeof(stored_row), alignof(stored_row), row_role});
}

void table_base::retire(epoch_domain::guard& pinned, stored_row* r) noexcept {
  pinned.retire({r, nullptr, this, [](const retired& one) noexcept {
                   // Under Silo another transaction may have found meanwhile that the row cannot leave an index. It was
                   // pinned until it had set left_over. relaxed: for that reason.
                   auto* const erased = static_cast<stored_row*>(one.object);
                   if (!erased->left_over.load(std::memory_order_relaxed))
                     static_cast<table_base*>(one.owner)->destroy(erased);
                 }});
}

void table_base::destroy_rows() noexcept {
  shared_.domain.purge(this);
  if (indexes_.empty()) return;
  primary().scan(0, [this](std::uint64_t, stored_row* r) {
    if (!r->left_over.load(std::memory_order_relaxed)) destroy(r);  // relaxed: no other thread uses it
    return true;
  });
}

}  // namespace espalier::oltp::engine
