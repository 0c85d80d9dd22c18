#include "espalier/memory/clustered.hpp"

#include <memory>

namespace espalier {

clustered::~clustered() {
  for (const std::atomic<cluster_slab*>& s : slabs_) delete s.load(std::memory_order_relaxed);
}

cluster_slab& clustered::add_slab(std::size_t held) {
  auto fresh = std::make_unique<cluster_slab>(held, static_cast<unsigned>(hw::cache_line_bytes / held));
  cluster_slab* present = nullptr;
  if (slot(held).compare_exchange_strong(present, fresh.get(), std::memory_order_acq_rel,
                                         std::memory_order_acquire))
    return *fresh.release();
  return *present;
}

memory_usage clustered::usage() const noexcept {
  memory_usage sum = rest_.usage();
  for (const std::atomic<cluster_slab*>& s : slabs_) {
    const cluster_slab* const one = s.load(std::memory_order_acquire);
    if (one != nullptr) sum += one->usage();
  }
  return sum;
}

}  // namespace espalier
