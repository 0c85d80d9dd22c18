#include "espalier/oltp/engine/table_base.hpp"

#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

#include "espalier/oltp/row.hpp"

namespace espalier::oltp {

index_base& table_base::add_index(std::unique_ptr<index_base> one) {
  for (const auto& other : indexes_) {
    if (other->name() == one->name())
      throw std::invalid_argument("oltp: the table " + name_ + " has an index " + one->name() + " already");
  }
  indexes_.push_back(std::move(one));
  return *indexes_.back();
}

stored_row* table_base::create(const std::byte* data) {
  const std::size_t bytes = 8 * words_of(row_bytes_);
  void* const wrapper = rows_.allocate({sizeof(stored_row), alignof(stored_row), row_role});
  void* lock = nullptr;
  void* contents = nullptr;
  try {
    lock = rows_.allocate({lock_bytes_, alignof(row_lock), lock_role}, wrapper);
    contents = rows_.allocate({bytes, 8, data_role}, wrapper);
  } catch (...) {
    if (lock != nullptr) rows_.deallocate(lock, {lock_bytes_, alignof(row_lock), lock_role});
    rows_.deallocate(wrapper, {sizeof(stored_row), alignof(stored_row), row_role});
    throw;
  }
  std::memset(static_cast<std::byte*>(contents) + bytes - 8, 0, 8);
  std::memcpy(contents, data, row_bytes_);
  return new (wrapper) stored_row{new (lock) row_lock, static_cast<std::byte*>(contents), this};
}

void table_base::destroy(stored_row* r) noexcept {
  rows_.deallocate(r->data, {8 * words_of(row_bytes_), 8, data_role});
  std::destroy_at(r->lock);
  rows_.deallocate(r->lock, {lock_bytes_, alignof(row_lock), lock_role});
  std::destroy_at(r);
  rows_.deallocate(r, {sizeof(stored_row), alignof(stored_row), row_role});
}

void table_base::retire(epoch_domain::guard& pinned, stored_row* r) noexcept {
  pinned.retire({r, nullptr, this, [](const retired& one) noexcept {
                   // Under Silo another transaction may have found since then that the row cannot leave an index. It was
                   // pinned until it had said so. relaxed: for that reason.
                   auto* const erased = static_cast<stored_row*>(one.object);
                   if (!erased->left_over.load(std::memory_order_relaxed))
                     static_cast<table_base*>(one.owner)->destroy(erased);
                 }});
}

void table_base::destroy_rows() noexcept {
  domain_.purge(this);
  if (indexes_.empty()) return;
  primary().scan(0, [this](std::uint64_t, stored_row* r) {
    if (!r->left_over.load(std::memory_order_relaxed)) destroy(r);  // relaxed: no other thread uses it
    return true;
  });
}

}  // namespace espalier::oltp
