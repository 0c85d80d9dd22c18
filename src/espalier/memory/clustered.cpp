#include "espalier/memory/clustered.hpp"

namespace espalier {

memory_usage clustered::usage() const noexcept {
  memory_usage sum = rest_.usage();
  for (const made_once<cluster_slab>& s : slabs_) {
    if (const cluster_slab* const one = s.get()) sum += one->usage();
  }
  return sum;
}

}  // namespace espalier
