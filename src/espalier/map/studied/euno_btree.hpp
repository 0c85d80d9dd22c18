#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/htm.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/studied/elided_access.hpp"
#include "espalier/map/studied/euno_leaf.hpp"
#include "espalier/map/tree/tree.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/elided_lock.hpp"
#include "espalier/sync/elision.hpp"
#include "espalier/sync/optimistic_lock.hpp"
#include "espalier/sync/per_thread.hpp"

// euno_btree: a B+tree for hardware transactions under contention.
// Wang, Zhang, Wang, Wei, Chen and Zhao, "Eunomia: Scaling Concurrent Search Trees under Contention Using HTM",
// PPoPP 2017: the Euno-B+Tree of section 4.
//
// Essence. An operation is two transactions. The upper region goes from the root to the leaf, and reads the leaf's
// version. The lower region begins with that version, and reads or changes the leaf. What aborts the lower region does
// not repeat the way down. A leaf at which threads conflict becomes a contended one (euno_leaf.hpp): its entries are
// scattered, operations with the same key take a lock before the lower region, and a filter knows absent keys. The map
// goes further: what only reads needs no transaction, and an update is one small region at its leaf.
//
// Protocol. The version of a leaf's lock is the paper's sequence number. It changes with splits and merges, and with the
// leaf's form, all with the lock held. Both regions read the locks of the nodes that they come to, and do not commit
// beside a holder. So the lock excludes all regions of the leaf, and regions exclude one another by the transactional
// memory.
//
//   upper region   falls back to a search by optimistic lock coupling (tree.hpp)
//   lower region   falls back to the leaf's lock, also where it only reads: regions change leaves without a new version
//   split, merge   always with the locks of the nodes
//
// Reads by version. Without transactions, and where the design is optimistic, searches, finds and scans validate versions
// instead. A region that moves entries then renews the version of the leaf. It keeps the version where it changes one
// entry in its place: a reader that has begun sees either state. So the version vouches for where a search has found an
// entry, and the region that changes it touches nothing else. In a calm leaf inserts and erases move entries. In a
// contended one only an insert does whose key had no entry before, so its threads do not conflict about the version.
// Without transactions all changes take the lock of the leaf. There is no global lock.
//
// Marks. A mark is set before the region that inserts the key, and cleared only with the leaf's lock held, and a new
// version behind it. A find that sees the mark clear, and then the version of its search, answers "absent": the key
// became visible after the mark was read, or not at all. What reads by version needs no marks.
//
// Deviations from the paper and its public code:
//  1. The leaf is locked for a split, merge or change of form, not for each insert into a leaf that is almost full. The
//     lock is also the fallback of the lower region. The paper's is a global one.
//  2. The scattered form lies in a block of its own, and each of its values in a line of its own. Calm leaves are sorted
//     arrays, as in htm_btree. The paper's leaves all have segments.
//  3. Instead of moving entries to reserved keys, a full leaf is split, and a scan sorts a copy.
//  4. A clear mark counts only while the version is still the same. The paper's text, and the code, answer without it,
//     and miss keys that a split has moved.
//  5. An erase leaves the mark: other keys may have it. The paper clears it.
//  6. Each thread releases exactly the locks that it has taken. Algorithm 2 releases the leaf's lock if any thread holds
//     it.
//  7. The contention detector is of each thread: a leaf at which it loses some conflicts in a few thousand updates
//     becomes contended. A contended leaf that operations seldom wait in becomes calm.
//  8. Reads by version. The paper has two regions for each operation, as have the rungs of figure 13 here but the last. A
//     transaction costs some atomic exchanges, and lets no later load begin; most of an operation is its search.
//  9. A key of a contended leaf keeps its place when it is erased. The paper moves the last entry of the segment there.
//
// Invariants: (B1) to (B3) of tree.hpp, and
//   (E1) The mark of each key of a contended leaf is set.
//
// Progress. All operations may wait for the lock of a leaf, and for the holder of a key's lock. A thread waits for at most
// one lock while it holds a key's lock, and a thread that holds a leaf's lock waits for none.
//
// Linearization points: the commit of the lower region; with the lock, and of what reads by version, those of olc_btree;
// of a find by a clear mark, the read of that mark.
//
// Orderings: those of sync/optimistic_lock.hpp, sync/ttas_lock.hpp and euno_leaf.hpp.

namespace espalier {

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>,
          class Fanout = btree::fanout<30, 31>, btree::euno_design Design = btree::adaptive>
class euno_btree;

namespace btree {
template <class Key, class Compare, unsigned Capacity, euno_design Design>
struct euno {
  template <class Word>
  using leaf = euno_leaf<Key, Word, Capacity, Compare, Design>;
};
}  // namespace btree

template <class Key, class Value, class Traits, class Compare, class Fanout, btree::euno_design Design>
class euno_btree : public btree::tree<euno_btree<Key, Value, Traits, Compare, Fanout, Design>, Key, Value,
                                      completed_traits<Traits, btree_traits::with_htm<hw::rtm>>, Compare,
                                      btree::euno<Key, Compare, Fanout::leaf, Design>::template leaf,
                                      Fanout::inner, btree::optimistic_access> {
  static_assert(word_value<Key>,
                "searches of contended leaves compare keys while others write them: a key must fit an atomic "
                "machine word");
  using traits = completed_traits<Traits, btree_traits::with_htm<hw::rtm>>;
  using base = btree::tree<euno_btree, Key, Value, traits, Compare,
                           btree::euno<Key, Compare, Fanout::leaf, Design>::template leaf, Fanout::inner,
                           btree::optimistic_access>;
  friend base;
  using typename base::operations;
  friend operations;
  using typename base::contract;
  friend contract;
  using base::store_;
  using typename base::change;
  using typename base::content;
  using typename base::effect;
  using typename base::holder;
  using typename base::leaf;
  using typename base::outcome;
  using typename base::position;
  using typename base::section;
  using typename base::store;
  using typename base::word;
  using htm = typename traits::htm_type;
  using contended = typename leaf::contended;
  using node_base = btree::node_base;

 public:
  using typename base::guard_type;

  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = euno_btree<K, V, T, C, Fanout, Design>;
  /// The same map with nodes of another size.
  template <unsigned Leaf, unsigned Inner = btree::fanout<Leaf>::inner>
  using with_fanout = euno_btree<Key, Value, Traits, Compare, btree::fanout<Leaf, Inner>, Design>;

  /// For tests: the same map, whose leaves change their form at each occasion.
  using with_restless_leaves =
      euno_btree<Key, Value, Traits, Compare, Fanout,
                 Design.calm_after == btree::euno_design::never
                     ? Design
                     : btree::euno_design{1, 4, Design.lock_bits, Design.mark_bits, Design.optimistic}>;

  static constexpr map_properties properties = btree::properties_of(
      "euno_btree",
      "Wang et al., Eunomia: Scaling Concurrent Search Trees under Contention Using HTM, PPoPP 2017");

  /// Entries in a leaf, at most.
  static constexpr unsigned node_entries = Fanout::leaf;

  using base::base;

  static constexpr std::array<std::string_view, 2> transaction_regions{"upper", "lower"};
  /// What became of the transactions of a region; exact when no operation runs.
  [[nodiscard]] elision_counts transactions(std::size_t region) const noexcept {
    elision_counts sums;
    threads_.for_each([&](std::uint32_t, const thread_state& of) {
      sums += region == 0 ? of.upper.counts() : of.lower.counts();
    });
    return sums;
  }

  /// For usage().
  [[nodiscard]] std::size_t bytes_of_threads() const noexcept { return threads_.bytes(); }

 private:
  using record = elision_counts_by_thread::record;

  /// The contention detector: the leaves at which one thread has lost conflicts lately. No thread writes what another one
  /// reads. A leaf is contended that costs the thread some conflicts in a few thousand updates.
  class contended_leaves {
   public:
    /// The thread has lost conflicts at a calm leaf, in the update with that number. Whether the leaf is contended.
    bool add(const void* leaf, unsigned conflicts, unsigned update) noexcept {
      entry& of_it =
          entries_[reinterpret_cast<std::uintptr_t>(leaf) / sizeof(typename base::leaf) % entries_.size()];
      if (update - of_it.first > window) of_it = {};
      if (of_it.leaf != leaf) {
        if (of_it.conflicts > 1) {
          --of_it.conflicts;
          return false;
        }
        of_it = {leaf, 0, update};
      }
      of_it.conflicts += conflicts;
      if (of_it.conflicts < Design.contended_after) return false;
      of_it = {};
      return true;
    }

   private:
    static constexpr unsigned window = 1U << 15;
    struct entry {
      const void* leaf = nullptr;
      unsigned conflicts = 0;
      unsigned first = 0;  ///< the number of an update
    };
    std::array<entry, 16> entries_{};
  };

  /// What one thread needs.
  struct thread_state {
    record upper;
    record lower;
    unsigned updates = 0;
    contended_leaves lost;
  };

  /// How regions read locks.
  struct subscribing {
    using section = optimistic_lock::subscription;
    [[nodiscard]] static section read(optimistic_lock& lock) noexcept { return lock.subscribe(); }
  };

  /// Whether an operation found that its leaf should change its form.
  enum class advice : std::uint8_t { none, contended, calm };

  // An upper region seldom aborts twice for one reason, and its fallback takes no lock.
  static constexpr elision_budgets upper_budgets{
      .conflict = 4, .capacity = 1, .lock_held = 0, .other = 1, .pauses = false};
  static constexpr elision_budgets lower_budgets = btree::dbx_budgets;

  /// Counts the lower regions of one operation and the conflicts that it loses. From the first one on it holds the lock of
  /// its key, if there is one.
  class lost_attempts {
   public:
    lost_attempts(record& of_thread, ttas_lock* of_key, unsigned& conflicts) noexcept
        : of_thread_(of_thread), of_key_(of_key), conflicts_(conflicts) {}
    lost_attempts(const lost_attempts&) = delete;
    lost_attempts& operator=(const lost_attempts&) = delete;
    ~lost_attempts() {
      if (conflicts_ != 0 && of_key_ != nullptr) of_key_->unlock();
    }

    [[nodiscard]] elision_history history() const noexcept { return of_thread_.history(); }
    void learn(elision_history history) noexcept { of_thread_.learn(history); }
    void count(elision_event e) noexcept {
      of_thread_.count(e);
      if (e != elision_event::conflict) return;
      if (conflicts_++ == 0 && of_key_ != nullptr) of_key_->lock();
    }

   private:
    record& of_thread_;
    ttas_lock* of_key_;
    unsigned& conflicts_;
  };

  /// What the upper region passes to the lower one.
  struct reached {
    node_base* node;  ///< null while the map is empty
    section here;

    [[nodiscard]] leaf& as_leaf() const noexcept { return *static_cast<leaf*>(node); }
  };

  /// The leaf of a key, by the upper region. Nothing if a writer came between.
  [[nodiscard]] std::optional<reached> seek_leaf(const Key& key) const {
    if (!reads_by_version()) {
      record& of_thread = threads_.local().upper;
      std::optional<reached> found;
      const auto region = [&]() noexcept {
        const auto at = base::template try_seek<subscribing>(key);
        found =
            at && at->here.validate() ? std::optional(reached{at->node, at->here.committed()}) : std::nullopt;
      };
      const auto attempt = [&]() noexcept { return htm::run(region); };
      const auto look = []() noexcept { return lock_look::free; };
      if (attempt_elision(of_thread, upper_budgets, 0, look, attempt)) {
        record_commit(of_thread);
        return found;
      }
    }
    const auto at = base::try_seek(key);
    return at ? std::optional(reached{at->node, at->here}) : std::nullopt;
  }

  /// Whether what only reads validates versions, and has no region. What moves entries then renews the version of the leaf.
  [[nodiscard]] static bool reads_by_version() noexcept { return Design.optimistic || !htm::available(); }

  /// What a step has done at its leaf.
  enum class changed : std::uint8_t {
    nothing,
    in_place,  ///< one entry, which readers by version see as it was or as it is
    moved,     ///< entries have other places
  };

  /// What an operation does at a leaf, whose version it has from the seek.
  struct visit {
    node_base& at;
    section seen;
    ttas_lock* of_key;  ///< null if there is none
    unsigned conflicts = 0;
    bool same = false;  ///< a region found the version unchanged
  };

  /// Runs a step at a leaf: as the lower region, or with the leaf's lock. False if the leaf is not what it was in the
  /// upper region, or a writer came between.
  template <class Step>
  [[nodiscard]] bool in_leaf(thread_state& thread, visit& v, Step step) const {
    if (htm::available()) {
      // By value: only what regions change then has to be in memory.
      const auto region = [&v, step]() noexcept {
        v.same = v.seen.validate();
        if (!v.same && v.at.lock.is_locked())
          return hw::transaction_verdict::abort(hw::abort_code::lock_held);
        if (v.same && step() == changed::moved) v.at.lock.renew();
        return hw::transaction_verdict::commit();
      };
      const hw::transaction_outcome first = htm::run(region);
      if (first.committed) {
        record_commit(thread.lower);
        return v.same;
      }
      if (attempt_again(thread, v, first.status, region)) return v.same;
    }
    auto held = v.seen.upgrade();
    if (!held) return false;
    if (step() != changed::moved) held.release_unchanged();
    return true;
  }

  /// After a first abort: whether another attempt has committed. Not inlined: most operations need none.
  template <class Region>
  [[nodiscard, gnu::noinline]] static bool attempt_again(thread_state& thread, visit& v,
                                                         hw::abort_status first, Region region) noexcept {
    const auto attempt = [&]() noexcept { return htm::run(region); };
    const auto look = [&v]() noexcept { return v.at.lock.is_locked() ? lock_look::held : lock_look::free; };
    lost_attempts lost(thread.lower, v.of_key, v.conflicts);
    lost.count(event_of(first));
    elision_attempts budget(lower_budgets);
    if (!continue_elision(lost, budget, budget.after(first), most_elision_looks, look, attempt)) return false;
    record_commit(lost);
    return true;
  }

  /// The lock of a key in a contended leaf, if its tree has such locks.
  [[nodiscard]] static ttas_lock* lock_of([[maybe_unused]] contended* form,
                                          [[maybe_unused]] const Key& key) noexcept {
    if constexpr (contended::locks) {
      if (form != nullptr) return &form->control.lock_of(btree::hash_of<Compare>(key));
    }
    return nullptr;
  }

  // What the tree asks for.

  [[nodiscard]] std::optional<word> find_word(const Key& key) const {
    std::optional<word> found;
    for (backoff pause; !try_find(key, found);) pause.wait();
    return found;
  }

  /// False if a writer came between.
  [[nodiscard]] bool try_find(const Key& key, std::optional<word>& found) const {
    found.reset();
    const auto at = seek_leaf(key);
    if (!at || at->node == nullptr) return at.has_value();
    const leaf& of_key = at->as_leaf();
    if (reads_by_version()) {
      found = of_key.find(at->here, base::key_comp(), key);
      return at->here.validate();
    }
    contended* const form = of_key.form.get(at->here);
    if (form != nullptr && !form->may_have(btree::hash_of<Compare>(key))) return at->here.validate();
    visit v{*at->node, at->here, lock_of(form, key)};
    return in_leaf(threads_.local(), v, [&]() noexcept {
      found = of_key.find(exclusive_access{}, base::key_comp(), key);
      return changed::nothing;
    });
  }

  /// An update in progress.
  struct update_state {
    const Key& key;
    const change& wanted;
    unsigned number = 0;        ///< of this attempt, among all of the thread
    contended* form = nullptr;  ///< of the leaf
    typename leaf::spot where{};
    outcome done{};
    advice for_leaf = advice::none;
  };

  [[nodiscard]] outcome apply(guard_type& guard, const Key& key, const change& wanted) {
    thread_state& thread = threads_.local();
    for (backoff pause;;) {
      update_state u{key, wanted};
      if (!try_apply(guard, thread, u)) {
        pause.wait();
        continue;
      }
      if (u.done.what == effect::full) {
        base::make_room(guard, key);
        continue;
      }
      if (u.for_leaf != advice::none) try_change_form(guard, key, u.for_leaf);
      if (u.done.what == effect::erased) base::tidy(guard, key, u.done);
      return u.done;
    }
  }

  /// False if a writer came between.
  [[nodiscard]] bool try_apply(guard_type& guard, thread_state& thread, update_state& u) {
    u.number = ++thread.updates;
    const auto at = seek_leaf(u.key);
    if (!at) return false;
    if (at->node == nullptr) {
      if (u.wanted.insert_where_absent) u.done.what = effect::full;
      return true;
    }
    leaf& of_key = at->as_leaf();
    u.form = of_key.form.get(at->here);
    if (Design.contended_after == 0 && u.form == nullptr) {
      change_form(guard, u.key, advice::contended);
      return false;
    }
    if (u.form != nullptr && !u.form->may_have(btree::hash_of<Compare>(u.key))) {
      if (!u.wanted.insert_where_absent) return at->here.validate();
      if constexpr (contended::marks) u.form->control.set_mark(btree::hash_of<Compare>(u.key));
    }
    if (reads_by_version()) {
      u.where = of_key.seek(at->here, base::key_comp(), u.key);
      if (leaf::is_present(at->here, u.where) ? u.wanted.present == change::where_present::keep
                                              : !u.wanted.insert_where_absent)
        return at->here.validate();
    }
    visit v{of_key, at->here, lock_of(u.form, u.key)};
    const bool overwrites = u.form == nullptr && u.where.found && u.wanted.overwrites();
    const bool valid =
        overwrites ? overwrite(thread, v, of_key.word_at(u.where), u)
                   : in_leaf(thread, v, [this, &u, &of_key]() noexcept { return apply_in(of_key, u); });
    // A hint, as no lock is held. tidy() looks again.
    if (valid && u.form != nullptr && u.done.what == effect::erased)
      u.done.left = u.form->entries.is_segment_empty(at->here, u.where.index) ? 0 : leaf::capacity;
    if (u.form != nullptr)
      advise(u, v.conflicts);
    else if (v.conflicts != 0 && thread.lost.add(&of_key, v.conflicts, thread.updates))
      u.for_leaf = advice::contended;
    return valid;
  }

  /// Exchanges the word of an entry of a calm leaf that the seek has found: a region of two words, the lock and this one.
  [[nodiscard]] bool overwrite(thread_state& thread, visit& v, optimistic_field<word>& of_entry,
                               update_state& u) const {
    u.done.what = effect::stored;
    return in_leaf(thread, v, [&of_entry, &u]() noexcept {
      u.done.before = of_entry.get(exclusive_access{});
      of_entry.set(exclusive_access{}, u.wanted.word);
      return changed::in_place;
    });
  }

  /// In a region, or with the leaf's lock held.
  changed apply_in(leaf& of_key, update_state& u) const noexcept {
    // The version vouches for what a seek by version has found.
    if (!reads_by_version()) u.where = of_key.seek(exclusive_access{}, base::key_comp(), u.key);
    u.where.start = u.number;  // the random write scheduler: another segment each time
    u.done = of_key.apply(exclusive_access{}, u.where, u.key, u.wanted);
    if (u.done.what == effect::none || u.done.what == effect::full) return changed::nothing;
    const bool in_place = u.form == nullptr ? u.done.what == effect::stored : u.where.found;
    return in_place || !reads_by_version() ? changed::in_place : changed::moved;
  }

  /// After an update of a contended leaf.
  static void advise([[maybe_unused]] update_state& u, [[maybe_unused]] unsigned conflicts) noexcept {
    if constexpr (Design.calm_after != btree::euno_design::never) {
      // A sample: the threads of a contended leaf share the counts.
      constexpr unsigned sample = Design.calm_after < 64 ? 1 : 64;
      const bool counted = u.number % sample == 0;
      if ((counted || conflicts != 0) &&
          u.form->control.count(counted ? sample : 0, conflicts, Design.calm_after))
        u.for_leaf = advice::calm;
    }
  }

  template <class Bound>
  [[nodiscard]] bool try_collect(const Bound& from, std::optional<position>& at, content& found) const {
    if (!at) at = base::try_seek_bound(from);
    if (!at) return false;
    if (at->leaf.node == nullptr || reads_by_version()) return base::try_collect(from, at, found);
    visit v{*at->leaf.node, at->leaf.here, nullptr};
    return in_leaf(threads_.local(), v, [&]() noexcept {
      found.count = 0;
      at->leaf.as_leaf().copy_to(exclusive_access{}, base::key_comp(), found);
      return changed::nothing;
    });
  }

  /// Makes the leaf of a key a contended one, or a calm one. Does nothing if it is that already, or a writer came between.
  /// Throws std::bad_alloc, with the map unchanged.
  void change_form(guard_type& guard, const Key& key, advice to) {
    const auto at = base::try_seek(key);
    if (!at || at->node == nullptr) return;
    leaf& of_key = at->as_leaf();
    if ((of_key.form.get(at->here) != nullptr) == (to == advice::contended)) return;
    unpublished<store, contended> fresh(store_, memory_role::descriptor);
    if (to == advice::contended)
      fresh.emplace(&of_key);
    else  // one more than the operation itself may still need
      guard.reserve(1 + holder::retirements);
    auto held = at->here.upgrade();
    if (!held) return;
    if (!of_key.fits(held, fresh.get())) return held.release_unchanged();
    contended* const former = of_key.change_form(held, base::key_comp(), fresh.release());
    held.release();
    if (former != nullptr) store_.template retire<contended, memory_role::descriptor>(guard, former);
  }
  /// For a map that does not need it: where memory is short, a later operation does it.
  void try_change_form(guard_type& guard, const Key& key, advice to) noexcept {
    try {
      change_form(guard, key, to);
    } catch (const std::bad_alloc&) {
    }
  }

  mutable per_thread<thread_state> threads_;
};

}  // namespace espalier
