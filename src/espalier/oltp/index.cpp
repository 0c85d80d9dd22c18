#include "espalier/oltp/index.hpp"

#include <algorithm>
#include <cassert>
#include <memory>
#include <new>

#include "espalier/reclaim/reclaimer_concept.hpp"

namespace espalier::oltp {

namespace {

/// Of the lists and their entries.
constexpr memory_role list_role = memory_role::other;

}  // namespace

template <class T>
T* index_base::create(memory_role role) {
  return new (from_.placement.allocate({sizeof(T), alignof(T), role})) T{};
}

template <class T>
void index_base::destroy(T* one, memory_role role) noexcept {
  std::destroy_at(one);
  from_.placement.deallocate(one, {sizeof(T), alignof(T), role});
}

template <class T>
void index_base::retire(epoch_domain::guard& pinned, T* one) noexcept {
  pinned.retire({one, nullptr, this, [](const retired& r) noexcept {
                   static_cast<index_base*>(r.owner)->destroy(static_cast<T*>(r.object), list_role);
                 }});
}

index_base::~index_base() {
  // What was retired refers to this index.
  from_.domain->purge(this);
  if (is_unique()) return;
  map_.scan([this](std::uint64_t, std::uint64_t word) {
    list* const all = to_list(word);
    // relaxed: no other thread uses the index.
    for (entry* e = all->first.load(std::memory_order_relaxed); e != nullptr;) {
      entry* const next = e->next.load(std::memory_order_relaxed);
      destroy(e, list_role);
      e = next;
    }
    destroy(all, list_role);
  });
}

void index_base::find_batch(std::span<const std::uint64_t> keys, std::span<row*> results) const {
  assert(is_unique() && keys.size() <= together_most && keys.size() <= results.size());
  std::array<std::optional<std::uint64_t>, together_most> words;
  static_cast<void>(map_.find_batch(keys, std::span(words).first(keys.size())));
  for (std::size_t i = 0; i < keys.size(); ++i) results[i] = words[i] ? to_row(*words[i]) : nullptr;
}

bool index_base::insert(std::uint64_t key, row* r) {
  if (is_unique()) return map_.insert(key, to_word(r));
  const lock_guard hold(lock_of(key));
  const auto word = map_.find(key);  // may throw
  entry* const fresh = create<entry>(list_role);
  fresh->to = r;
  if (word) {
    std::atomic<entry*>& first = to_list(*word)->first;
    // relaxed: the lock guards writes.
    fresh->next.store(first.load(std::memory_order_relaxed), std::memory_order_relaxed);
    first.store(fresh, std::memory_order_release);  // order (1): link, release
    return true;
  }
  list* head = nullptr;
  try {
    head = create<list>(list_role);
    head->first.store(fresh, std::memory_order_relaxed);  // relaxed: the map publishes it
    static_cast<void>(map_.insert(key, to_word(head)));
  } catch (...) {
    if (head != nullptr) destroy(head, list_role);
    destroy(fresh, list_role);
    throw;
  }
  return true;
}

void index_base::remove(epoch_domain::guard& pinned, std::uint64_t key, row* r) {
  if (is_unique()) {
    // Another row under the key has this one's successor in its place.
    if (map_.find(key) == to_word(r)) map_.erase(key);
    return;
  }
  const lock_guard hold(lock_of(key));
  const auto word = map_.find(key);
  if (!word) return;
  list* const all = to_list(*word);
  // relaxed: the lock guards writes.
  std::atomic<entry*>* at = &all->first;
  entry* e = at->load(std::memory_order_relaxed);
  while (e != nullptr && e->to != r) {
    at = &e->next;
    e = at->load(std::memory_order_relaxed);
  }
  if (e == nullptr) return;
  entry* const next = e->next.load(std::memory_order_relaxed);
  const bool last = at == &all->first && next == nullptr;
  // Two of this index, and those of an erase in the map, which is in the same domain.
  pinned.reserve(16);
  if (last) map_.erase(key);
  at->store(next, std::memory_order_release);  // order (1): link, release
  retire(pinned, e);
  if (last) retire(pinned, all);
}

}  // namespace espalier::oltp
