#include "espalier/memory/segregated.hpp"

#include <memory>

namespace espalier {

segregated::~segregated() {
  for (const role_slabs& of_role : slabs_) {
    for (const std::atomic<slab*>& s : of_role) delete s.load(std::memory_order_relaxed);
  }
}

slab& segregated::add_slab(memory_role role, std::size_t held) {
  auto fresh = std::make_unique<slab>(held);
  slab* present = nullptr;
  if (slot(role, held)
          .compare_exchange_strong(present, fresh.get(), std::memory_order_acq_rel,
                                   std::memory_order_acquire))
    return *fresh.release();
  return *present;
}

memory_usage segregated::usage() const noexcept {
  memory_usage sum = large_.usage();
  for (const role_slabs& of_role : slabs_) {
    for (const std::atomic<slab*>& s : of_role) {
      const slab* const one = s.load(std::memory_order_acquire);
      if (one != nullptr) sum += one->usage();
    }
  }
  return sum;
}

}  // namespace espalier
