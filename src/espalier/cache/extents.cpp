#include "espalier/cache/extents.hpp"

#include <algorithm>
#include <bit>
#include <mutex>

namespace espalier::caching {
namespace {

constexpr std::size_t bits = 64;
/// Free extents of one list that are looked at for one that is large enough: the next list has none that is too small.
constexpr unsigned looks = 8;
/// What one call of the kernel discards, at most, in units: no more than is needed loses its memory.
constexpr std::uint32_t at_once = 256;

}  // namespace

extents::extents(memory_budget& budget, std::byte* begin, std::size_t bytes)
    : budget_(budget),
      begin_(begin),
      count_(static_cast<std::uint32_t>(bytes / unit_bytes)),
      ends_pages_(hw::map_pages(count_ * sizeof(free_end), {.sparse = true})),
      backed_pages_(hw::map_pages((count_ + bits - 1) / bits * sizeof(std::uint64_t), {.sparse = true})),
      ends_(reinterpret_cast<free_end*>(ends_pages_.data())),
      backed_(reinterpret_cast<std::uint64_t*>(backed_pages_.data())) {
  free_.fill(none);
  add_free(0, count_);
}

unsigned extents::list_of(std::uint32_t units) noexcept {
  if (units < steps) return units;
  const auto doubling = static_cast<unsigned>(std::bit_width(units)) - 1;
  return (doubling - 2) * steps + ((units >> (doubling - 3)) & (steps - 1));
}

std::uint32_t extents::find(std::uint32_t units) const noexcept {
  const unsigned own = list_of(units);
  std::uint32_t at = free_[own];
  for (unsigned i = 0; i < looks && at != none; ++i, at = ends_[at].behind) {
    if (ends_[at].units >= units) return at;
  }
  for (std::size_t i = own + 1; i < lists; i = (i / bits + 1) * bits) {
    const std::uint64_t there = has_free_[i / bits] >> (i % bits);
    if (there != 0) return free_[i + static_cast<unsigned>(std::countr_zero(there))];
  }
  return none;
}

std::uint32_t extents::allocate(std::size_t bytes) noexcept {
  const auto units = static_cast<std::uint32_t>(bytes_for(bytes) / unit_bytes);
  const std::lock_guard held(lock_);
  const std::uint32_t first = find(units);
  if (first == none) return none;
  const std::uint32_t backed = backed_in(first, units);
  if (!budget_.try_take((units - backed) * unit_bytes)) return none;
  const std::uint32_t whole = ends_[first].units;
  remove_free(first);
  free_backed_.fetch_sub(backed, std::memory_order_relaxed);  // relaxed: a count
  if (backed != units) set_backed(first, units, true);
  if (whole != units) add_free(first + units, whole - units);
  header& h = *new (at(first)) header;
  h.units = units;
  h.holds.store(1, std::memory_order_relaxed);  // relaxed: no other thread knows it
  return first;
}

void extents::drop(std::uint32_t index) noexcept {
  header& h = (*this)[index];
  // order (1): drop, acq_rel
  if (h.holds.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::lock_guard held(lock_);
  free(index, h.units);
}

void extents::free(std::uint32_t first, std::uint32_t units) noexcept {
  free_backed_.fetch_add(units, std::memory_order_relaxed);  // relaxed: a count
  if (const std::uint32_t end = first + units; end < count_ && ends_[end].units != 0) {
    units += ends_[end].units;
    remove_free(end);
  }
  if (first != 0 && ends_[first - 1].units != 0) {
    const std::uint32_t before = ends_[first - 1].units;
    first -= before;
    units += before;
    remove_free(first);
  }
  add_free(first, units);
}

void extents::add_free(std::uint32_t first, std::uint32_t units) noexcept {
  const unsigned list = list_of(units);
  ends_[first] = {units, none, free_[list]};
  if (units != 1) ends_[first + units - 1] = {units, none, none};
  if (free_[list] != none) ends_[free_[list]].before = first;
  free_[list] = first;
  has_free_[list / bits] |= std::uint64_t{1} << list % bits;
}

void extents::remove_free(std::uint32_t first) noexcept {
  const free_end gone = ends_[first];
  const unsigned list = list_of(gone.units);
  (gone.before == none ? free_[list] : ends_[gone.before].behind) = gone.behind;
  if (gone.behind != none) ends_[gone.behind].before = gone.before;
  if (free_[list] == none) has_free_[list / bits] &= ~(std::uint64_t{1} << list % bits);
  ends_[first].units = 0;
  ends_[first + gone.units - 1].units = 0;
}

std::uint32_t extents::backed_in(std::uint32_t first, std::uint32_t units) const noexcept {
  std::uint32_t sum = 0;
  for (std::size_t at = first; at < first + units;) {
    const std::size_t here = std::min<std::size_t>(bits - at % bits, first + units - at);
    const std::uint64_t mask = here == bits ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1;
    sum += static_cast<std::uint32_t>(std::popcount(backed_[at / bits] >> at % bits & mask));
    at += here;
  }
  return sum;
}

void extents::set_backed(std::uint32_t first, std::uint32_t units, bool is) noexcept {
  for (std::size_t at = first; at < first + units;) {
    const std::size_t here = std::min<std::size_t>(bits - at % bits, first + units - at);
    const std::uint64_t mask = (here == bits ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1)
                               << at % bits;
    if (is)
      backed_[at / bits] |= mask;
    else
      backed_[at / bits] &= ~mask;
    at += here;
  }
}

bool extents::discard_for(std::size_t bytes) noexcept {
  const std::lock_guard held(lock_);
  // Large ones first: they cost the fewest calls of the kernel.
  for (unsigned list = lists; list-- > 0 && budget_.used() + bytes > budget_.limit();) {
    for (std::uint32_t at = free_[list]; at != none && budget_.used() + bytes > budget_.limit();
         at = ends_[at].behind) {
      // A page that the extent has only a part of is another one's too.
      const auto of_page = static_cast<std::uint32_t>(hw::page_size() / unit_bytes);
      const std::uint32_t first = (at + of_page - 1) / of_page * of_page;
      std::uint32_t end = (at + ends_[at].units) / of_page * of_page;
      while (end > first && budget_.used() + bytes > budget_.limit()) {
        const std::uint32_t units = std::min(end - first, at_once);
        end -= units;
        const std::uint32_t backed = backed_in(end, units);
        if (backed == 0 || !hw::discard_pages(this->at(end), units * unit_bytes)) continue;
        set_backed(end, units, false);
        free_backed_.fetch_sub(backed, std::memory_order_relaxed);  // relaxed: a count
        budget_.give(backed * unit_bytes);
      }
    }
  }
  return budget_.used() + bytes <= budget_.limit();
}

void extents::list(std::uint32_t index, queue in, std::uint64_t age) noexcept {
  const std::lock_guard held(lock_);
  order& o = orders_[static_cast<std::size_t>(in)];
  header& h = (*this)[index];
  h.older = o.newest;
  h.newer = none;
  h.age = age;
  h.in = in;
  h.is_listed = true;
  (o.newest == none ? o.oldest : (*this)[o.newest].newer) = index;
  o.newest = index;
  o.units.fetch_add(h.units, std::memory_order_relaxed);  // relaxed: a count
}

void extents::unlist(std::uint32_t index) noexcept {
  const std::lock_guard held(lock_);
  header& h = (*this)[index];
  order& o = orders_[static_cast<std::size_t>(h.in)];
  (h.older == none ? o.oldest : (*this)[h.older].newer) = h.newer;
  (h.newer == none ? o.newest : (*this)[h.newer].older) = h.older;
  o.units.fetch_sub(h.units, std::memory_order_relaxed);  // relaxed: a count
  h.is_listed = false;
}

extents::candidate extents::oldest(queue in) noexcept {
  const std::lock_guard held(lock_);
  const std::uint32_t i = orders_[static_cast<std::size_t>(in)].oldest;
  return i == none ? candidate{} : candidate{i, (*this)[i].age};
}

extents::candidate extents::newer(std::uint32_t index, queue in) noexcept {
  const std::lock_guard held(lock_);
  const header& h = (*this)[index];
  if (!h.is_listed || h.in != in || h.newer == none) return {};
  return {h.newer, (*this)[h.newer].age};
}

}  // namespace espalier::caching
