#include "espalier/oltp/engine/accesses.hpp"

#include <algorithm>
#include <memory>

namespace espalier::oltp::engine {

std::byte* arena::take(std::size_t bytes) {
  bytes = 8 * words_of(std::max<std::size_t>(bytes, 1));
  for (; block_ < blocks_.size(); ++block_, used_ = 0) {
    if (blocks_[block_].bytes - used_ >= bytes) {
      std::byte* const at = blocks_[block_].memory.get() + used_;
      used_ += bytes;
      return at;
    }
  }
  const std::size_t size = std::max(bytes, block_bytes);
  blocks_.push_back({std::make_unique<std::byte[]>(size), size});
  bytes_ += size;
  used_ = bytes;
  return blocks_.back().memory.get();
}

std::uint32_t access_list::add(stored_row* r) {
  if (2 * (all_.size() + 1) > table_.size()) fill_table(2 * table_.size());
  all_.push_back({.of = r, .contents = r->data});
  std::size_t slot = slot_of(r, table_.size());
  while (table_[slot] != 0) slot = (slot + 1) & (table_.size() - 1);
  const auto at = static_cast<std::uint32_t>(all_.size());
  table_[slot] = at;
  return at - 1;
}

void access_list::fill_table(std::size_t slots) {
  std::vector<std::uint32_t> fresh(slots, 0);
  for (std::uint32_t i = 0; i < all_.size(); ++i) {
    std::size_t slot = slot_of(all_[i].of, slots);
    while (fresh[slot] != 0) slot = (slot + 1) & (slots - 1);
    fresh[slot] = i + 1;
  }
  table_.swap(fresh);
}

void access_list::clear() noexcept {
  if (table_.size() * sizeof(table_[0]) > kept_bytes) {
    empty(table_);
  } else {
    for (const access& a : all_) {
      for (std::size_t slot = slot_of(a.of, table_.size()); table_[slot] != 0;
           slot = (slot + 1) & (table_.size() - 1))
        table_[slot] = 0;
    }
  }
  empty(all_);
}

}  // namespace espalier::oltp::engine
