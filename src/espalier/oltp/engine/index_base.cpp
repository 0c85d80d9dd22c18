#include "espalier/oltp/engine/index_base.hpp"

#include <new>
#include <vector>

#include "espalier/memory/placement_allocator.hpp"
#include "espalier/reclaim/reclaimer_concept.hpp"

namespace espalier::oltp::engine {

namespace {

/// Of the lists and their entries.
constexpr memory_role list_role = memory_role::other;

}  // namespace

/// The links of a list, by the rows to which they lead: an open-addressing set, at most half full. A row may be there twice.
class index_base::link_set {
 public:
  link_set(any_placement& from, list& all) : slots_(least_slots, nullptr, allocator(from)) {
    // relaxed: the lock guards writes.
    for (link* l = &all.first; l->load(std::memory_order_relaxed) != nullptr;
         l = &l->load(std::memory_order_relaxed)->next) {
      make_room();
      add(l);
    }
  }

  [[nodiscard]] link* find(const stored_row* r) const noexcept {
    std::size_t at = home(r);
    while (slots_[at] != nullptr && row_of(slots_[at]) != r) at = after(at);
    return slots_[at];
  }
  /// For one more. Throws std::bad_alloc.
  void make_room() {
    if (2 * (used_ + 1) > slots_.size()) resize(2 * slots_.size());
  }
  void add(link* l) noexcept {
    std::size_t at = home(row_of(l));
    while (slots_[at] != nullptr) at = after(at);
    slots_[at] = l;
    ++used_;
  }
  void replace(const link* l, link* by) noexcept { slots_[slot_of(l)] = by; }
  void erase(const link* l) noexcept {
    std::size_t hole = slot_of(l);
    for (std::size_t at = after(hole); slots_[at] != nullptr; at = after(at)) {
      if (distance(home(row_of(slots_[at])), at) < distance(hole, at)) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole] = nullptr;
    --used_;
    if (slots_.size() > least_slots && 8 * used_ < slots_.size()) shrink();
  }

 private:
  static constexpr std::size_t least_slots = 4 * long_walk;
  using allocator = placement_allocator<link*, any_placement, list_role>;

  static const stored_row* row_of(const link* l) noexcept {
    return l->load(std::memory_order_relaxed)->to;  // relaxed: the lock guards writes
  }
  [[nodiscard]] std::size_t home(const stored_row* r) const noexcept {
    return (reinterpret_cast<std::uintptr_t>(r) * 0x9E3779B97F4A7C15U >> 20) & (slots_.size() - 1);
  }
  [[nodiscard]] std::size_t after(std::size_t at) const noexcept { return (at + 1) & (slots_.size() - 1); }
  [[nodiscard]] std::size_t distance(std::size_t from, std::size_t to) const noexcept {
    return (to - from) & (slots_.size() - 1);
  }
  [[nodiscard]] std::size_t slot_of(const link* l) const noexcept {
    std::size_t at = home(row_of(l));
    while (slots_[at] != l) at = after(at);
    return at;
  }
  void resize(std::size_t slots) {
    std::vector<link*, allocator> former(slots, nullptr, slots_.get_allocator());
    former.swap(slots_);
    used_ = 0;
    for (link* const l : former) {
      if (l != nullptr) add(l);
    }
  }
  void shrink() noexcept {
    try {
      resize(slots_.size() / 2);
    } catch (const std::bad_alloc&) {
      // It stays as large as it is.
    }
  }

  std::vector<link*, allocator> slots_;
  std::size_t used_ = 0;
};

template <class T>
T* index_base::create(memory_role role) {
  return new (shared_.indexes.allocate({sizeof(T), alignof(T), role})) T{};
}

template <class T>
void index_base::destroy(T* one, memory_role role) noexcept {
  std::destroy_at(one);
  shared_.indexes.deallocate(one, {sizeof(T), alignof(T), role});
}

template <class T>
void index_base::retire(epoch_domain::guard& pinned, T* one) noexcept {
  pinned.retire({one, nullptr, this, [](const retired& r) noexcept {
                   static_cast<index_base*>(r.owner)->destroy(static_cast<T*>(r.object), list_role);
                 }});
}

index_base::~index_base() {
  // What was retired refers to this index.
  shared_.domain.purge(this);
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

void index_base::find_batch(std::span<const std::uint64_t> keys, std::span<stored_row*> results) const {
  assert(is_unique() && keys.size() <= together_most && keys.size() <= results.size());
  std::array<std::optional<std::uint64_t>, together_most> words;
  static_cast<void>(map_.find_batch(keys, std::span(words).first(keys.size())));
  for (std::size_t i = 0; i < keys.size(); ++i) results[i] = words[i] ? to_row(*words[i]) : nullptr;
}

bool index_base::insert(std::uint64_t key, stored_row* r) {
  if (is_unique()) return map_.insert(key, to_row_word(r));
  const lock_guard hold(lock_of(key));
  const auto word = map_.find(key);  // may throw
  entry* const fresh = create<entry>(list_role);
  fresh->to = r;
  if (word) {
    list& all = *to_list(*word);
    // relaxed: the lock guards writes.
    fresh->next.store(all.first.load(std::memory_order_relaxed), std::memory_order_relaxed);
    if (all.known != nullptr) {
      try {
        all.known->make_room();
        all.known->replace(&all.first, &fresh->next);
      } catch (const std::bad_alloc&) {
        all.known.reset();  // a removal may make another one
      }
    }
    all.first.store(fresh, std::memory_order_release);  // order (1): link, release
    if (all.known != nullptr) all.known->add(&all.first);
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

/// The link that leads to the row; null: there is none. Rows that leave a long list would walk along it again and again.
index_base::link* index_base::link_to(list& all, const stored_row* r) {
  std::size_t steps = 0;
  for (link* l = &all.first; all.known == nullptr;) {
    entry* const e = l->load(std::memory_order_relaxed);  // relaxed: the lock guards writes
    if (e == nullptr) return nullptr;
    if (e->to == r) return l;
    l = &e->next;
    if (++steps == long_walk) {
      try {
        all.known = std::make_unique<link_set>(shared_.indexes, all);
      } catch (const std::bad_alloc&) {
        // It walks on.
      }
    }
  }
  return all.known->find(r);
}

void index_base::remove(epoch_domain::guard& pinned, std::uint64_t key, stored_row* r) {
  if (is_unique()) {
    // Another row under the key has this one's successor in its place.
    if (map_.find(key) == to_row_word(r)) map_.erase(key);
    return;
  }
  const lock_guard hold(lock_of(key));
  const auto word = map_.find(key);
  if (!word) return;
  list* const all = to_list(*word);
  link* const at = link_to(*all, r);
  if (at == nullptr) return;
  // relaxed, both: the lock guards writes.
  entry* const e = at->load(std::memory_order_relaxed);
  entry* const next = e->next.load(std::memory_order_relaxed);
  const bool last = at == &all->first && next == nullptr;
  // Two of this index, and those of an erase in the map, which is in the same domain.
  pinned.reserve(16);
  if (last) map_.erase(key);
  if (all->known != nullptr) {
    all->known->erase(at);
    if (next != nullptr) all->known->replace(&e->next, at);
  }
  at->store(next, std::memory_order_release);  // order (1): link, release
  retire(pinned, e);
  if (last) retire(pinned, all);
}

}  // namespace espalier::oltp::engine
