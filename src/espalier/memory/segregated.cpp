#include "espalier/memory/segregated.hpp"

namespace espalier {

memory_usage segregated::usage() const noexcept {
  memory_usage sum = large_.usage();
  for (const role_slabs& of_role : slabs_) {
    for (const made_once<slab>& s : of_role) {
      if (const slab* const one = s.get()) sum += one->usage();
    }
  }
  return sum;
}

}  // namespace espalier
