// From one cache to the next: entries leave in the order in which they would be evicted, with what decides on that, and so the
// next cache evicts them in the same order. No memory is shared, so that the next one may have another limit.

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>

#include "espalier/cache/state.hpp"
#include "espalier/hw/pages.hpp"

namespace espalier {
namespace {

using caching::entry;
using caching::entry_log;
using caching::extents;
using caching::hash_of;
using caching::location;
using caching::queue;
using caching::table;

kept_entry kept(const entry& e, const table::found& f, queue in, std::uint32_t second) noexcept {
  return {e.key(), e.seen(second), e.version(), table::frequency_in(f.word), in == queue::proven};
}

}  // namespace

bool byte_cache::state::visit_segment(std::uint32_t index, void* context,
                                      bool (*visit)(void*, const kept_entry&)) {
  const std::uint32_t second = now();
  const std::uint32_t end = log[index].end;
  const queue in = log[index].in.load(std::memory_order_relaxed);  // relaxed: no other thread uses the cache
  for (std::uint32_t at = 0; at < end;) {
    const location where = log.begin_of(index) + at / caching::location_unit;
    const entry& e = log.entry_at(where);
    at += static_cast<std::uint32_t>(e.bytes());
    if ((e.marks() & caching::is_filler) != 0 || is_gone(e, second)) continue;
    const table::found f = entries.find_location(hash_of(e.key()), where);
    if (f.at != nullptr && !visit(context, kept(e, f, in, second))) return false;
  }
  hw::discard_pages(log.at(log.begin_of(index)), log.segment_bytes());
  return true;
}

bool byte_cache::state::visit_large(std::uint32_t extent, queue in, void* context,
                                    bool (*visit)(void*, const kept_entry&)) {
  const std::uint32_t second = now();
  const entry& e = entry_in(extent);
  const location where = log.location_of(reinterpret_cast<const std::byte*>(&e));
  const table::found f = is_gone(e, second) ? table::found{} : entries.find_location(hash_of(e.key()), where);
  const bool goes_on = f.at == nullptr || visit(context, kept(e, f, in, second));
  // Its neighbours have their part of the pages at its ends.
  const std::size_t page = hw::page_size();
  const std::size_t begin = std::size_t{extent} * extents::unit_bytes;
  const std::size_t first = hw::whole_pages(begin);
  const std::size_t last = (begin + large.bytes_of(extent)) / page * page;
  if (first < last) hw::discard_pages(large.at(extent) + (first - begin), last - first);
  return goes_on;
}

void byte_cache::drain_to(void* context, bool (*visit)(void*, const kept_entry&)) {
  state& s = *state_;
  const std::lock_guard held(s.mutex);
  s.log.seal_open();
  while (true) {
    struct {
      std::uint32_t segment = entry_log::none;
      std::uint32_t extent = extents::none;
      std::uint64_t age = ~std::uint64_t{0};
      queue in = queue::fresh;
    } next;
    for (const queue q : {queue::fresh, queue::proven}) {
      const std::uint32_t segment = s.log.oldest(q);
      if (segment != entry_log::none && s.log[segment].age < next.age)
        next = {segment, extents::none, s.log[segment].age, q};
      if (const extents::candidate c = s.large.oldest(q); c.index != extents::none && c.age < next.age)
        next = {entry_log::none, c.index, c.age, q};
    }
    if (next.segment != entry_log::none) {
      if (!s.visit_segment(next.segment, context, visit)) return;
      s.log.unlist(next.segment);
    } else if (next.extent != extents::none) {
      s.large.unlist(next.extent);  // first: its links lie in its memory
      if (!s.visit_large(next.extent, next.in, context, visit)) return;
    } else {
      return;
    }
  }
}

bool byte_cache::put_back(const kept_entry& kept) {
  state& s = *state_;
  const cache_entry& seen = kept.seen;
  if (kept.key.size() > largest_key || kept.key.size() + seen.value.size() > s.options.largest_entry)
    return false;
  cache_change change{cache_change::kind::store, seen.value.size(), seen.flags, seen.expires};
  caching::entry_shape shape{kept.key.size(), seen.value.size(), 0};
  const auto mark_if = [&shape](bool has, caching::mark which) {
    if (has) shape.marks |= which;
  };
  const bool has_own_version = seen.version != kept.order;
  if (has_own_version) change.version = seen.version;
  mark_if(seen.fetched, caching::is_fetched);
  mark_if(seen.stale, caching::is_stale);
  mark_if(seen.claimed, caching::is_claimed);
  mark_if(seen.flags != 0, caching::has_flags);
  mark_if(seen.expires != cache_entry::never, caching::has_end);
  mark_if(has_own_version, caching::has_own_version);
  const queue in = kept.is_proven ? queue::proven : queue::fresh;
  const std::uint64_t hash = hash_of(kept.key);
  const bool is_large_one = entry::bytes_of(shape) > s.log.largest_inside();
  location where = 0;
  try {
    const std::lock_guard held(s.mutex);
    if (is_large_one) {
      mark_if(true, caching::is_large);
      mark_if(true, caching::has_end);
      const std::uint32_t extent =
          s.allocate_large(entry::longest_head + kept.key.size() + seen.value.size());
      if (extent == extents::none) return false;
      const std::size_t from = extents::header_bytes + entry::longest_head - entry::head_bytes(shape.marks);
      s.large[extent].entry_at = static_cast<std::uint16_t>(from);
      where = s.log.location_of(s.large.at(extent) + from);
    } else {
      where = s.allocate(entry::bytes_of(shape), in, caching::lifetime_of(seen.expires, s.now()));
      if (where == 0) return false;
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  entry& made = entry::make(s.log.at(where), shape, kept.key, change, kept.order, seen.accessed);
  if (!seen.value.empty()) std::memcpy(made.value(), seen.value.data(), seen.value.size());
  if (is_large_one)
    s.large.list(s.large.index_of(&made), in, s.next_age());
  else
    s.log.complete(where, entry::bytes_of(shape), seen.expires);
  {
    const std::lock_guard held(s.entries.lock_of(hash));
    s.entries.insert(hash, table::word_of(hash, where, std::min(kept.frequency, table::frequency_limit)));
    s.entries.count(1);
  }
  s.entries.grow(s.hash_at());
  if (s.versions_begin == 0 || caching::version_source::is_after(kept.order, s.versions_begin))
    s.versions.begin_after(s.versions_begin = kept.order);
  return true;
}

}  // namespace espalier
