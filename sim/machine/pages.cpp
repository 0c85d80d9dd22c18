#include "sim/machine/pages.hpp"

#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

namespace espalier::sim {

void pages::releaser::operator()(std::uint8_t* p) const noexcept { std::free(p); }

pages::pages(std::uint64_t address_space_bytes) : bytes_(address_space_bytes) {
  // Includes the rest of the last huge page, so that placing one never leaves the array.
  const std::uint64_t huge_pages = (address_space_bytes + huge_page_bytes - 1) / huge_page_bytes;
  const std::size_t size = static_cast<std::size_t>(huge_pages * (huge_page_bytes / page_bytes));
  attributes_.reset(static_cast<std::uint8_t*>(std::calloc(size == 0 ? 1 : size, 1)));
  if (attributes_ == nullptr) {
    throw std::bad_alloc();
  }
}

void pages::set(std::uint64_t address, std::uint64_t bytes, bool huge, std::optional<unsigned> numa_node) {
  if (address > bytes_ || bytes > bytes_ - address) {
    throw std::invalid_argument("pages: the range " + std::to_string(address) + " + " +
                                std::to_string(bytes) + " leaves the address space of " +
                                std::to_string(bytes_) + " bytes");
  }
  if (huge && (address % huge_page_bytes != 0 || bytes % huge_page_bytes != 0)) {
    throw std::invalid_argument("pages: huge pages take a range in multiples of 2 MiB, not " +
                                std::to_string(address) + " + " + std::to_string(bytes));
  }
  if (bytes == 0) {
    return;
  }
  const auto attribute = static_cast<std::uint8_t>((huge ? huge_bit : 0u) | (numa_node ? *numa_node + 1 : 0));
  const std::uint64_t first = address / page_bytes;
  const std::uint64_t last = (address + bytes - 1) / page_bytes;
  std::memset(attributes_.get() + first, attribute, static_cast<std::size_t>(last - first + 1));
}

void pages::place(std::uint64_t address, unsigned node) noexcept {
  const std::uint64_t page = address / page_bytes;
  const auto attribute = static_cast<std::uint8_t>(node + 1);
  if ((attributes_[page] & huge_bit) == 0) {
    attributes_[page] = attribute;
    return;
  }
  constexpr std::uint64_t together = huge_page_bytes / page_bytes;
  std::memset(attributes_.get() + page / together * together, attribute | huge_bit, together);
}

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
