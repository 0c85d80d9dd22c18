#include "sim/machine/tlb.hpp"

namespace espalier::sim {
namespace {

std::optional<cache> array_of(const hw::cache_shape& spec) {
  return spec.ways == 0 ? std::nullopt : std::optional<cache>(spec);
}

}  // namespace

tlb::tlb(const hw::tlb_shape& spec)
    : small_(array_of(spec.l1_small)),
      huge_(array_of(spec.l1_huge)),
      l2_(array_of(spec.l2)),
      l2_holds_huge_(spec.l2_holds_huge) {}

tlb::outcome tlb::search(std::uint32_t page, bool huge) noexcept {
  std::optional<cache>& first = huge ? huge_ : small_;
  if (first) {
    if (first->use(page) != nullptr) {
      return outcome::l1_hit;
    }
    first->insert(page);
  } else {
    last_ = none;
  }
  if (!l2_ || (huge && !l2_holds_huge_)) {
    return outcome::walk;
  }
  if (l2_->use(page) != nullptr) {
    return outcome::l2_hit;
  }
  l2_->insert(page);
  return outcome::walk;
}

void tlb::flush() noexcept {
  for (std::optional<cache>* const array : {&small_, &huge_, &l2_}) {
    if (*array) {
      (*array)->clear();
    }
  }
  last_ = none;
}

}  // namespace espalier::sim
