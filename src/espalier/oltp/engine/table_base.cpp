#include "espalier/oltp/engine/table_base.hpp"

#include <array>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

namespace espalier::oltp::engine {

index_base& table_base::add_index(std::unique_ptr<index_base> one) {
  for (const auto& other : indexes_) {
    if (other->name() == one->name())
      throw std::invalid_argument("oltp: the table " + name_ + " has an index " + one->name() + " already");
  }
  indexes_.push_back(std::move(one));
  return *indexes_.back();
}

namespace {

/// The blocks of a row that is being made: they return to their placement unless it is complete.
class unfinished_row {
 public:
  explicit unfinished_row(any_placement& from) noexcept : from_(from) {}
  unfinished_row(const unfinished_row&) = delete;
  unfinished_row& operator=(const unfinished_row&) = delete;
  ~unfinished_row() {
    while (count_ != 0) {
      --count_;
      from_.deallocate(all_[count_].first, all_[count_].second);
    }
  }
  [[nodiscard]] void* add(const block& b) {
    void* const memory = from_.allocate(b, count_ == 0 ? nullptr : all_.front().first);
    all_[count_++] = {memory, b};
    return memory;
  }
  void complete() noexcept { count_ = 0; }

 private:
  any_placement& from_;
  std::array<std::pair<void*, block>, 5> all_;
  std::size_t count_ = 0;
};

}  // namespace

stored_row* table_base::create(const std::byte* data) {
  const row_blocks wanted(shared_.chosen, row_bytes_);
  unfinished_row blocks(shared_.rows);
  const auto filled = [&](void* contents) {
    std::memset(static_cast<std::byte*>(contents) + wanted.data.bytes - 8, 0, 8);
    std::memcpy(contents, data, row_bytes_);
    return static_cast<std::byte*>(contents);
  };
  void* const row = blocks.add(wanted.row);
  stored_row* made = nullptr;
  if (shared_.chosen.rows_as == row_form::plain) {
    auto* const lock = new (blocks.add(wanted.lock)) row_lock(shared_.chosen.by);
    made = new (row) stored_row(lock, filled(blocks.add(wanted.data)), this);
  } else {
    std::byte* const contents = filled(blocks.add(wanted.data));
    auto* const wrapper = new (blocks.add(*wanted.lock_wrapper)) dbx_row::lock_wrapper{nullptr};
    wrapper->lock = new (blocks.add(wanted.lock)) row_lock(shared_.chosen.by);
    auto* const value = new (blocks.add(*wanted.value)) dbx_row::value{nullptr};
    made = value->row = new (row) dbx_row(wrapper, contents, this, value);
  }
  blocks.complete();
  return made;
}

void table_base::destroy(stored_row* r) noexcept {
  static_assert(std::is_trivially_destructible_v<row_lock> && std::is_trivially_destructible_v<dbx_row>);
  any_placement& rows = shared_.rows;
  const row_blocks held(shared_.chosen, row_bytes_);
  rows.deallocate(r->data, held.data);
  rows.deallocate(&r->lock(), held.lock);
  if (r->is_dbx) {
    const auto* const whole = static_cast<const dbx_row*>(r);
    rows.deallocate(whole->wrapper, *held.lock_wrapper);
    rows.deallocate(whole->led_by, *held.value);
  }
  rows.deallocate(r, held.row);
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
