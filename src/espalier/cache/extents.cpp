#include "espalier/cache/extents.hpp"

#include <algorithm>
#include <bit>
#include <mutex>

namespace espalier::caching {
namespace {

constexpr std::size_t bits = 64;
/// Free extents of one list that are looked at for one that is large enough: the next list has none that is too small.
constexpr unsigned looks = 8;
/// Pages that one call of the kernel discards, at most: no more than are needed lose their memory.
constexpr std::uint32_t at_once = 64;

}  // namespace

extents::extents(memory_budget& budget, std::byte* begin, std::size_t bytes)
    : budget_(budget),
      begin_(begin),
      page_(hw::page_size()),
      count_(static_cast<std::uint32_t>(bytes / page_)),
      ends_pages_(hw::map_pages(count_ * sizeof(free_end))),
      backed_pages_(hw::map_pages((count_ + bits - 1) / bits * sizeof(std::uint64_t))),
      ends_(reinterpret_cast<free_end*>(ends_pages_.data())),
      backed_(reinterpret_cast<std::uint64_t*>(backed_pages_.data())) {
  free_.fill(none);
  add_free(0, count_);
}

unsigned extents::list_of(std::uint32_t pages) noexcept {
  if (pages < steps) return pages;
  const auto doubling = static_cast<unsigned>(std::bit_width(pages)) - 1;
  return (doubling - 2) * steps + ((pages >> (doubling - 3)) & (steps - 1));
}

std::uint32_t extents::find(std::uint32_t pages) const noexcept {
  const unsigned own = list_of(pages);
  std::uint32_t at = free_[own];
  for (unsigned i = 0; i < looks && at != none; ++i, at = ends_[at].behind) {
    if (ends_[at].pages >= pages) return at;
  }
  for (std::size_t i = own + 1; i < lists; i = (i / bits + 1) * bits) {
    const std::uint64_t there = has_free_[i / bits] >> (i % bits);
    if (there != 0) return free_[i + static_cast<unsigned>(std::countr_zero(there))];
  }
  return none;
}

std::uint32_t extents::allocate(std::size_t bytes) noexcept {
  const auto pages = static_cast<std::uint32_t>(bytes_for(bytes) / page_);
  const std::lock_guard held(lock_);
  const std::uint32_t first = find(pages);
  if (first == none) return none;
  const std::uint32_t backed = backed_in(first, pages);
  if (!budget_.try_take((pages - backed) * page_)) return none;
  const std::uint32_t whole = ends_[first].pages;
  remove_free(first);
  free_backed_.fetch_sub(backed, std::memory_order_relaxed);  // relaxed: a count
  if (backed != pages) set_backed(first, pages, true);
  if (whole != pages) add_free(first + pages, whole - pages);
  header& h = *new (at(first)) header;
  h.pages = pages;
  h.holds.store(1, std::memory_order_relaxed);  // relaxed: no other thread knows it
  return first;
}

void extents::drop(std::uint32_t index) noexcept {
  header& h = (*this)[index];
  // order (1): drop, acq_rel
  if (h.holds.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::lock_guard held(lock_);
  free(index, h.pages);
}

void extents::free(std::uint32_t first, std::uint32_t pages) noexcept {
  free_backed_.fetch_add(pages, std::memory_order_relaxed);  // relaxed: a count
  if (const std::uint32_t end = first + pages; end < count_ && ends_[end].pages != 0) {
    pages += ends_[end].pages;
    remove_free(end);
  }
  if (first != 0 && ends_[first - 1].pages != 0) {
    const std::uint32_t before = ends_[first - 1].pages;
    first -= before;
    pages += before;
    remove_free(first);
  }
  add_free(first, pages);
}

void extents::add_free(std::uint32_t first, std::uint32_t pages) noexcept {
  const unsigned list = list_of(pages);
  ends_[first] = {pages, none, free_[list]};
  if (pages != 1) ends_[first + pages - 1] = {pages, none, none};
  if (free_[list] != none) ends_[free_[list]].before = first;
  free_[list] = first;
  has_free_[list / bits] |= std::uint64_t{1} << list % bits;
}

void extents::remove_free(std::uint32_t first) noexcept {
  const free_end gone = ends_[first];
  const unsigned list = list_of(gone.pages);
  (gone.before == none ? free_[list] : ends_[gone.before].behind) = gone.behind;
  if (gone.behind != none) ends_[gone.behind].before = gone.before;
  if (free_[list] == none) has_free_[list / bits] &= ~(std::uint64_t{1} << list % bits);
  ends_[first].pages = 0;
  ends_[first + gone.pages - 1].pages = 0;
}

std::uint32_t extents::backed_in(std::uint32_t first, std::uint32_t pages) const noexcept {
  std::uint32_t sum = 0;
  for (std::size_t at = first; at < first + pages;) {
    const std::size_t here = std::min<std::size_t>(bits - at % bits, first + pages - at);
    const std::uint64_t mask = here == bits ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1;
    sum += static_cast<std::uint32_t>(std::popcount(backed_[at / bits] >> at % bits & mask));
    at += here;
  }
  return sum;
}

void extents::set_backed(std::uint32_t first, std::uint32_t pages, bool is) noexcept {
  for (std::size_t at = first; at < first + pages;) {
    const std::size_t here = std::min<std::size_t>(bits - at % bits, first + pages - at);
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
      for (std::uint32_t end = at + ends_[at].pages; end != at && budget_.used() + bytes > budget_.limit();) {
        const std::uint32_t pages = std::min(end - at, at_once);
        end -= pages;
        const std::uint32_t backed = backed_in(end, pages);
        if (backed == 0 || !hw::discard_pages(this->at(end), pages * page_)) continue;
        set_backed(end, pages, false);
        free_backed_.fetch_sub(backed, std::memory_order_relaxed);  // relaxed: a count
        budget_.give(backed * page_);
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
  o.pages.fetch_add(h.pages, std::memory_order_relaxed);  // relaxed: a count
}

void extents::unlist(std::uint32_t index) noexcept {
  const std::lock_guard held(lock_);
  header& h = (*this)[index];
  order& o = orders_[static_cast<std::size_t>(h.in)];
  (h.older == none ? o.oldest : (*this)[h.older].newer) = h.newer;
  (h.newer == none ? o.newest : (*this)[h.newer].older) = h.older;
  o.pages.fetch_sub(h.pages, std::memory_order_relaxed);  // relaxed: a count
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
