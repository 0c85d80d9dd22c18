#include "apps/studies/malloc_tsx/program.hpp"

#include <new>
#include <type_traits>
#include <vector>

#include "apps/studies/malloc_tsx/allocation_models.hpp"
#include "apps/studies/malloc_tsx/key_tree.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/htm.hpp"
#include "espalier/hw/pause.hpp"
#include "espalier/hw/record.hpp"
#include "espalier/memory/baselines/disturbed.hpp"
#include "espalier/memory/index_aware.hpp"
#include "espalier/sync/elided_lock.hpp"
#include "espalier/sync/elision.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/per_thread.hpp"
#include "espalier/sync/ttas_lock.hpp"
#include "sim/transactions/simulated_htm.hpp"

namespace espalier::simulate {
namespace {

/// Lock elision as papers measure it: every section is attempted anew, with the library's budgets, regardless of
/// earlier outcomes, and a held lock is waited for without a bound. The library learns and skips attempts, but a study
/// of aborts needs all of them. Returns whether the section ran under the lock. Instrumented.
template <elidable Lock, class Section>
bool elide_plainly(Lock& lock, Section&& section) {
  struct {
    [[nodiscard]] elision_history history() const noexcept { return {}; }
    void learn(elision_history) noexcept {}
    void count(elision_event) noexcept {}
  } forgetful;
  const auto look = [&]() noexcept {
    while (lock.is_locked()) hw::cpu_relax();
    return lock_look::free;
  };
  const auto attempt = [&]() noexcept {
    return attempt_section<sim::simulated_htm, hw::abort_code::lock_held>(lock, section);
  };
  if (attempt_elision(forgetful, {}, most_elision_looks, look, attempt)) return false;
  const lock_guard hold(lock);
  section();
  return true;
}

/// The single lock of a program.
class section_lock {
 public:
  explicit section_lock(section_policy policy) : policy_(policy) {
    hw::annotate_metadata(lock_.value);
    hw::annotate_metadata(learning_);
  }

  template <elidable_section Section>
  std::invoke_result_t<Section&> run(Section&& section) {
    if (policy_ == section_policy::tle_learnt) return learning_.elide(section);
    if (policy_ == section_policy::tle) return attempt(section);
    const lock_guard hold(lock_.value);
    return section();
  }

  [[nodiscard]] section_counts counts() const {
    const elision_counts learnt = learning_.counts();
    section_counts sum{learnt.of(elision_event::fallback) + learnt.of(elision_event::skipped),
                       learnt.of(elision_event::skipped)};
    under_lock_.for_each([&](std::uint32_t, std::uint64_t n) { sum.under_lock += n; });
    return sum;
  }

 private:
  template <class Section>
  std::invoke_result_t<Section&> attempt(Section& section) {
    if constexpr (std::is_void_v<std::invoke_result_t<Section&>>) {
      if (elide_plainly(lock_.value, section)) ++under_lock_.local();
    } else {
      std::invoke_result_t<Section&> result{};
      if (elide_plainly(lock_.value, [&]() noexcept { result = section(); })) ++under_lock_.local();
      return result;
    }
  }

  const section_policy policy_;
  hw::padded<ttas_lock> lock_;
  elided<ttas_lock, sim::simulated_htm> learning_;
  per_thread<std::uint64_t> under_lock_;
};

/// Nodes of one size from one placement.
template <placement Placement, class Node>
class nodes {
 public:
  explicit nodes(std::size_t bytes) : block_{bytes, alignof(Node), memory_role::node} {}

  [[nodiscard]] Node* make() {
    auto* const fresh = ::new (placement_.allocate(block_)) Node;
    hw::annotate_record(*fresh);
    return fresh;
  }
  void free(Node* gone) noexcept { placement_.deallocate(gone, block_); }

 private:
  Placement placement_;
  block block_;
};

struct ring_node {
  ring_node* next = nullptr;
  std::uint32_t value = 0;
};
static_assert(sizeof(ring_node) <= least_node_bytes);

template <placement Placement>
class ring final : public ring_program {
 public:
  ring(section_policy policy, std::size_t node_bytes, std::span<const std::uint32_t> order)
      : lock_(policy), from_(node_bytes) {
    for (std::size_t i = 0; i < order.size(); ++i) all_.push_back(from_.make());
    for (std::size_t i = 0; i < order.size(); ++i) {
      all_[order[i]]->next = all_[order[(i + 1) % order.size()]];
      all_[i]->value = fresh;
    }
    at_ = all_.front();
  }

  void traverse() override {
    ring_node* const from = at_;
    lock_.run([from]() noexcept {
      ring_node* w = from;
      do {
        w = w->next;
        w->value = 0;
      } while (w != from);
    });
  }

  [[nodiscard]] section_counts sections() const override { return lock_.counts(); }

  void visit(const address_visitor& visitor) const override {
    for (const ring_node* n : all_) visitor(reinterpret_cast<std::uintptr_t>(&n->value));
  }

  std::size_t written() override {
    std::size_t count = 0;
    for (ring_node* n : all_) {
      count += n->value == 0 ? 1 : 0;
      n->value = fresh;
    }
    return count;
  }

 private:
  static constexpr std::uint32_t fresh = 1;

  section_lock lock_;
  nodes<Placement, ring_node> from_;
  std::vector<ring_node*> all_;
  ring_node* at_ = nullptr;
};

static_assert(sizeof(tree_node) <= least_node_bytes);

template <placement Placement>
class tree final : public tree_program {
 public:
  tree(section_policy policy, std::size_t node_bytes, node_made when)
      : lock_(policy), when_(when), from_(node_bytes) {
    hw::annotate_metadata(tree_);
  }

  void add(std::uint32_t key) override { insert(key, key); }

  void reserve(std::size_t count) override {
    std::vector<tree_node*> taken;
    for (std::size_t i = 0; i < count; ++i) taken.push_back(from_.make());
    for (tree_node* n : taken) from_.free(n);
  }

  int operate(std::uint64_t random, std::uint32_t range) override {
    const auto key = static_cast<std::uint32_t>((random >> 32U) % range);
    const std::uint64_t choice = (random & 0xffff'ffffU) % 10;
    const auto value = static_cast<std::uint32_t>(random);
    return lock_.run([this, key, choice, value]() noexcept {
      if (choice < 3) return insert(key, value);
      if (choice < 6) return erase(key);
      static_cast<void>(tree_.find(key));
      return 0;
    });
  }

  [[nodiscard]] section_counts sections() const override { return lock_.counts(); }
  void visit(const address_visitor& visitor) const override {
    for (const tree_node& n : tree_.nodes()) visitor(reinterpret_cast<std::uintptr_t>(&n));
  }
  [[nodiscard]] std::size_t size() const override { return tree_.size(); }
  [[nodiscard]] const char* check_invariants() const override { return tree_.check_invariants(); }

 private:
  int insert(std::uint32_t key, std::uint32_t value) {
    tree_node* made = when_ == node_made::before_search ? make(key) : nullptr;
    const auto [node, fresh] = tree_.insert_or_find(key, [&] { return made != nullptr ? made : make(key); });
    node->value = value;
    if (!fresh && made != nullptr) from_.free(made);
    return fresh ? 1 : 0;
  }
  tree_node* make(std::uint32_t key) {
    tree_node* const made = from_.make();
    made->key = key;
    return made;
  }
  int erase(std::uint32_t key) noexcept {
    tree_node* const gone = tree_.erase(key);
    if (gone == nullptr) return 0;
    from_.free(gone);
    return -1;
  }

  section_lock lock_;
  const node_made when_;
  nodes<Placement, tree_node> from_;
  key_tree tree_;
};

/// A program of this kind with that allocation.
template <template <class> class Program, class Interface, class... Arguments>
std::unique_ptr<Interface> over(allocation from, Arguments... arguments) {
  switch (from) {
    case allocation::glibc:
      return std::make_unique<Program<glibc_model>>(arguments...);
    case allocation::random:
      return std::make_unique<Program<random_padding<glibc_model>>>(arguments...);
    case allocation::size_classes:
      return std::make_unique<Program<size_class_model>>(arguments...);
    case allocation::index_aware:
      break;
  }
  return std::make_unique<Program<index_aware>>(arguments...);
}

}  // namespace

std::unique_ptr<ring_program> make_ring(allocation from, section_policy policy, std::size_t node_bytes,
                                        std::span<const std::uint32_t> order) {
  return over<ring, ring_program>(from, policy, node_bytes, order);
}

std::unique_ptr<tree_program> make_tree(allocation from, section_policy policy, std::size_t node_bytes,
                                        node_made when) {
  return over<tree, tree_program>(from, policy, node_bytes, when);
}

}  // namespace espalier::simulate
