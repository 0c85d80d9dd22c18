#include "sim/memory/store_buffers.hpp"

#include <cstring>

namespace espalier::sim {

void store_buffers::reset(unsigned fibers) {
  waiting_.clear();
  waiting_.resize(fibers);
}

void store_buffers::store(unsigned fiber, void* address, unsigned bytes, std::uint64_t value) {
  waiting_[fiber].push_back({address, bytes, value});
}

const std::uint64_t* store_buffers::find(unsigned fiber, const void* address, unsigned bytes) const noexcept {
  const auto& queue = waiting_[fiber];
  for (auto e = queue.rbegin(); e != queue.rend(); ++e) {
    if (e->address == address && e->bytes == bytes) return &e->value;
  }
  return nullptr;
}

bool store_buffers::overlaps(unsigned fiber, std::uintptr_t address, std::size_t bytes) const noexcept {
  for (const entry& e : waiting_[fiber]) {
    const auto begin = reinterpret_cast<std::uintptr_t>(e.address);
    if (begin < address + bytes && address < begin + e.bytes) return true;
  }
  return false;
}

void store_buffers::flush_oldest(unsigned fiber) {
  const entry oldest = waiting_[fiber].front();
  waiting_[fiber].pop_front();
  if (visible_) visible_(fiber, reinterpret_cast<std::uintptr_t>(oldest.address), oldest.bytes);
  std::memcpy(oldest.address, &oldest.value, oldest.bytes);  // little-endian, like every machine here
}

void store_buffers::drain(unsigned fiber) {
  while (!empty(fiber)) flush_oldest(fiber);
}

void store_buffers::drain_all() {
  for (unsigned fiber = 0; fiber < waiting_.size(); ++fiber) drain(fiber);
}

}  // namespace espalier::sim
