#include "preload/recording/site_table.hpp"

#include <algorithm>

namespace espalier::preload {
namespace {

constexpr std::uint16_t no_module = 0xffff;
static_assert(module_list::most < no_module);

std::uint64_t hash_of(const std::uintptr_t* frames, unsigned depth) noexcept {
  std::uint64_t hash = depth;
  for (unsigned i = 0; i < depth; ++i) {
    hash = (hash ^ frames[i]) * 0x9e37'79b9'7f4a'7c15U;
    hash ^= hash >> 29U;
  }
  return hash;
}

}  // namespace

std::uint32_t site_table::find(index* in, std::uint64_t hash, const std::uintptr_t* frames,
                               unsigned depth) const noexcept {
  if (in == nullptr) return unknown;
  for (std::size_t at = hash;; ++at) {
    // order: find (acquire) <- enter (release)
    const std::uint32_t site = in->numbers()[at & (in->capacity - 1)].load(std::memory_order_acquire);
    if (site == unknown) return unknown;
    const stored_site& known = stored(site);
    if (known.hash == hash && known.depth == depth &&
        std::equal(frames, frames + depth, known.frames.begin()))
      return site;
  }
}

void site_table::enter(index* in, std::uint32_t site) noexcept {
  std::size_t at = stored(site).hash;
  while (in->numbers()[at & (in->capacity - 1)].load(std::memory_order_relaxed) != unknown) ++at;
  // order: enter (release) -> find (acquire)
  in->numbers()[at & (in->capacity - 1)].store(site, std::memory_order_release);
}

bool site_table::make_room() noexcept {
  index* const old = index_.load(std::memory_order_relaxed);
  if (old != nullptr && 2 * (std::size_t{indexed_} + 1) <= old->capacity) return true;
  const std::size_t capacity = old == nullptr ? first_capacity : 2 * old->capacity;
  auto* const larger =
      static_cast<index*>(budget_.map(sizeof(index) + capacity * sizeof(std::atomic<std::uint32_t>)));
  if (larger == nullptr) return false;
  larger->capacity = capacity;
  for (std::size_t i = 0; old != nullptr && i < old->capacity; ++i) {
    const std::uint32_t site = old->numbers()[i].load(std::memory_order_relaxed);
    if (site != unknown) enter(larger, site);
  }
  // The smaller table stays mapped: other threads may be reading it. All of them together are no larger than the new
  // one.
  index_.store(larger, std::memory_order_release);
  return true;
}

std::uint32_t site_table::add(std::uint64_t hash, const std::uintptr_t* frames, unsigned depth) noexcept {
  const std::uint32_t site = count_.load(std::memory_order_relaxed) + 1;
  if (site > most || !make_room()) return unknown;
  std::atomic<stored_site*>& part = parts_[site / sites_a_part];
  if (part.load(std::memory_order_relaxed) == nullptr) {
    auto* const mapped = budget_.map_array<stored_site>(sites_a_part);
    if (mapped == nullptr) return unknown;
    part.store(mapped, std::memory_order_release);
  }
  stored_site& added = part.load(std::memory_order_relaxed)[site % sites_a_part];
  added.hash = hash;
  added.depth = depth;
  for (unsigned i = 0; i < depth; ++i) {
    const std::uint32_t module = modules_.find(frames[i]);
    added.frames[i] = frames[i];
    added.modules[i] = module == module_list::none ? no_module : static_cast<std::uint16_t>(module);
  }
  enter(index_.load(std::memory_order_relaxed), site);
  ++indexed_;
  count_.store(site, std::memory_order_release);
  return site;
}

std::uint32_t site_table::intern(const std::uintptr_t* frames, unsigned depth) noexcept {
  if (depth == 0 || depth > most_frames) return unknown;
  const std::uint64_t hash = hash_of(frames, depth);
  // order: intern (acquire) <- make_room (release)
  if (const std::uint32_t site = find(index_.load(std::memory_order_acquire), hash, frames, depth);
      site != unknown)
    return site;
  const futex_guard guard(lock_);
  // Another thread may have added it meanwhile.
  const std::uint32_t site = find(index_.load(std::memory_order_relaxed), hash, frames, depth);
  return site != unknown ? site : add(hash, frames, depth);
}

unsigned site_table::depth(std::uint32_t site) const noexcept { return stored(site).depth; }

site_frame site_table::frame(std::uint32_t site, unsigned i) const noexcept {
  const stored_site& known = stored(site);
  if (known.modules[i] == no_module) return {module_list::none, known.frames[i]};
  return {known.modules[i], known.frames[i] - modules_[known.modules[i]].bias};
}

bool site_table::modules_changed() noexcept {
  const futex_guard guard(lock_);
  if (!modules_.refresh()) return false;
  index* const in = index_.load(std::memory_order_relaxed);
  // A concurrent search finds a stack or not; if not, it searches again under the lock.
  for (std::size_t i = 0; in != nullptr && i < in->capacity; ++i)
    in->numbers()[i].store(unknown, std::memory_order_relaxed);
  indexed_ = 0;
  return true;
}

}  // namespace espalier::preload
