#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/delegation/completion.hpp"
#include "espalier/delegation/message.hpp"
#include "espalier/delegation/runtime.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pages.hpp"

// A structure in partitions, each in the memory of a locality, whose threads operate on it (Ren and Parmer, Middleware 2019,
// sections 3.1, 4.1 and 4.4):
//
//     using namespace espalier::delegation;
//     runtime threads(localities::numa_nodes());
//     partitions<counters> all(threads, 8);                              // eight counters, over the localities in turn
//     int now = all.call(key, [key](counters& c) { return ++c[key]; });  // where the key's partition lies
//
// Several threads of a locality operate on one partition at the same time, and so may any other thread (runtime.hpp): the
// structure is a concurrent one, or its operations take a lock in it. An operation may submit further ones, and wait for
// them. It may not hold a lock of a partition then; partition_lock checks that.

namespace espalier::delegation {

/// The partition of a key, and the number that stands for the key in fences. A route has two members, number(key) and
/// partition(key, count), which is less than the count; neither throws.
struct by_hash {
  template <class Key>
  [[nodiscard]] std::uint64_t number(const Key& key) const noexcept {
    // The finaliser of MurmurHash3 (Appleby): std::hash of an integer is often the integer.
    auto x = static_cast<std::uint64_t>(std::hash<Key>{}(key));
    x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCDU;
    x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53U;
    return x ^ (x >> 33);
  }
  template <class Key>
  [[nodiscard]] unsigned partition(const Key& key, unsigned count) const noexcept {
    return static_cast<unsigned>((number(key) >> 32) * count >> 32);
  }
};

/// Whether keys that a comparator does not distinguish are equal, so that they have one hash.
template <class Compare, class Key>
inline constexpr bool orders_equal_keys =
    std::is_same_v<Compare, std::less<Key>> || std::is_same_v<Compare, std::greater<Key>> ||
    std::is_same_v<Compare, std::less<>> || std::is_same_v<Compare, std::greater<>>;

/// Partitions are ranges of keys: the first has those less than bounds[0], and so on.
template <class Key, class Compare = std::less<Key>>
struct by_range {
  std::vector<Key> bounds;
  Compare less{};

  [[nodiscard]] unsigned partition(const Key& key, unsigned count) const noexcept {
    const auto at = std::upper_bound(bounds.begin(), bounds.end(), key, less);
    const auto index = static_cast<unsigned>(at - bounds.begin());
    return index < count ? index : count - 1;
  }
  [[nodiscard]] std::uint64_t number(const Key& key) const noexcept {
    if constexpr (orders_equal_keys<Compare, Key> && requires { std::hash<Key>{}(key); })
      return std::hash<Key>{}(key);
    else
      return 0;  // of all keys: a fence waits for those of the locality
  }
};

/// What every partition begins with.
struct partition_header {
  unsigned index;
  unsigned locality;
};
namespace detail {
[[noreturn, gnu::cold]] inline void refuse_partition(unsigned index, unsigned count) {
  throw std::out_of_range("delegation: there is no partition " + std::to_string(index) + " of " +
                          std::to_string(count));
}
}  // namespace detail

/// Where a partition lies: for the constructor of its structure.
struct partition_place {
  unsigned index;
  unsigned locality;
  std::optional<unsigned> numa_node;
};

template <class Structure>
struct partition : partition_header {
  using structure_type = Structure;
  /// Apart from the header, which the senders of other localities read.
  alignas(hw::false_sharing_bytes) Structure structure;
};

template <class Structure, class Route = by_hash>
class partitions {
  using one = partition<Structure>;
  template <class Operation>
  using result_of = std::invoke_result_t<Operation&, Structure&>;
  /// Partitions that a broadcast asks at the same time.
  static constexpr unsigned together = 16;

 public:
  /// Constructs `count` structures, the one with index i in the memory of locality i modulo their number; each from its
  /// partition_place and the arguments, or from the arguments. Throws std::invalid_argument for 0 partitions, std::bad_alloc,
  /// and what the constructors throw.
  template <class... Arguments>
  partitions(runtime& of, unsigned count, Route route = {}, const Arguments&... arguments)
      : runtime_(of), route_(std::move(route)), count_(count) {
    if (count == 0) throw std::invalid_argument("delegation: there must be at least one partition");
    owned_.reserve(count);
    for (unsigned i = 0; i < count; ++i) {
      const unsigned locality = i % of.locality_count();
      owned_.emplace_back(partition_place{i, locality, of.shape_of(locality).numa_node}, arguments...);
    }
  }
  partitions(const partitions&) = delete;
  partitions& operator=(const partitions&) = delete;
  /// Runs what is still on its way to the partitions, and waits for what other threads run of it. No thread may use them any
  /// more. Operations that submit others without waiting must have come to an end where other threads use the runtime.
  ~partitions() { runtime_.drain_at_rest(); }

  [[nodiscard]] unsigned count() const noexcept { return count_; }
  [[nodiscard]] runtime& threads() const noexcept { return runtime_; }
  [[nodiscard]] const Route& route() const noexcept { return route_; }
  template <class Key>
  [[nodiscard]] unsigned index_of(const Key& key) const noexcept {
    return route_.partition(key, count());
  }
  [[nodiscard]] unsigned locality_of(unsigned index) const noexcept { return at(index).locality; }
  /// The structure itself. Any thread may use it as the structure permits.
  [[nodiscard]] Structure& operator[](unsigned index) const noexcept { return at(index).structure; }

  /// Runs operation(structure) on the partition of the key, by a thread of its locality, and returns its result: a call if
  /// that is the calling thread's. Throws what the operation throws, and nesting_error.
  template <class Key, class Operation>
  auto call(const Key& key, Operation&& operation) {
    return call_on(at(index_of(key)), std::forward<Operation>(operation), route_.number(key));
  }
  /// Throws std::out_of_range too.
  template <class Operation>
  auto call_at(unsigned index, Operation&& operation, std::uint64_t key = 0) {
    return call_on(checked(index), std::forward<Operation>(operation), key);
  }

  /// The same without waiting. Operations of one thread on one partition run in this order. Waits while the ring is full, and
  /// serves meanwhile. An operation that does not fit a message lies in memory of its own. One that the thread would run itself
  /// inside options::nesting others runs when one of these has ended, or when the thread waits for it. Throws std::bad_alloc
  /// and what a copy of the operation throws, with nothing submitted.
  template <class Key, class Operation>
  auto execute(const Key& key, Operation&& operation) {
    return execute_on(at(index_of(key)), std::forward<Operation>(operation), route_.number(key));
  }
  /// Throws std::out_of_range too.
  template <class Operation>
  auto execute_at(unsigned index, Operation&& operation, std::uint64_t key = 0) {
    return execute_on(checked(index), std::forward<Operation>(operation), key);
  }

  /// Runs the operation in the calling thread, wherever the partition lies: for reads that cost less than a message. What this
  /// thread has submitted for the key runs before. Throws what the operation throws, and nesting_error as barrier() does.
  template <class Key, class Operation>
  auto run_here(const Key& key, Operation&& operation) {
    one& there = at(index_of(key));
    detail::member& me = runtime_.local();
    runtime_.await_postponed(me);
    if (!me.is_home(there.locality)) runtime_.fence(there.locality, route_.number(key));
    return run(me, there, operation).get();
  }

  /// Runs the operation on every partition, those of other localities at the same time, and returns
  /// aggregate(... aggregate(aggregate(initial, r0), r1) ...) with the results in the order of the partitions. It is not
  /// atomic: other operations may take effect between two partitions. Throws what the operation on the first partition that
  /// throws does, or the aggregate, once all have run. Throws nesting_error before one has, and
  /// std::bad_alloc when some have, of which none then runs any more.
  template <class Value, class Operation, class Aggregate>
  Value broadcast(Value initial, const Operation& operation, Aggregate&& aggregate) {
    std::exception_ptr thrown;
    awaited_together<result_of<const Operation>, together> answers(runtime_);
    const unsigned here = runtime_.here();
    for (unsigned first = 0; first < count(); first += together) {
      const unsigned n = std::min(count() - first, together);
      // First those that other threads run.
      for (const bool local : {false, true}) {
        for (unsigned i = 0; i < n; ++i) {
          one& there = at(first + i);
          if ((there.locality == here) == local) answers.add(i, execute_on(there, operation, 0));
        }
      }
      answers.take(thrown, [&](auto result) { initial = aggregate(std::move(initial), std::move(result)); });
    }
    if (thrown) std::rethrow_exception(thrown);
    return initial;
  }

 private:
  /// A partition in pages of its own.
  class owner {
   public:
    template <class... Arguments>
    owner(const partition_place& place, const Arguments&... arguments)
        : pages_(hw::map_pages(sizeof(one), {.numa_node = place.numa_node})) {
      static_assert(alignof(one) <= 4096);
      const partition_header header{place.index, place.locality};
      if constexpr (std::is_constructible_v<Structure, const partition_place&, const Arguments&...>)
        new (pages_.data()) one{header, Structure(place, arguments...)};
      else
        new (pages_.data()) one{header, Structure(arguments...)};
    }
    owner(owner&& other) noexcept = default;
    owner& operator=(owner&&) = delete;
    ~owner() {
      if (pages_.data() != nullptr) std::destroy_at(get());
    }
    [[nodiscard]] one* get() const noexcept { return std::launder(reinterpret_cast<one*>(pages_.data())); }

   private:
    hw::page_run pages_;
  };

  [[nodiscard]] one& at(unsigned index) const noexcept { return *owned_[index].get(); }
  [[nodiscard]] one& checked(unsigned index) const {
    if (index >= count()) [[unlikely]]
      detail::refuse_partition(index, count());
    return at(index);
  }

  template <class Operation>
  auto call_on(one& there, Operation&& operation, std::uint64_t key) {
    using operation_type = std::decay_t<Operation>;
    using result = result_of<operation_type>;
    detail::member& me = runtime_.local();
    runtime_.check_nesting(me);
    if (me.is_home(there.locality)) {
      runtime_.look_for_work(me);
      return run(me, there, operation).get();
    }
    using message_call = delegation::call<one, operation_type>;
    if constexpr (message_call::in_line) {
      completion<result> answer(runtime_, message_call::take);
      if (runtime_.post<message_call>(me, there.locality, &there, key, std::forward<Operation>(operation),
                                      answer))
        return answer.await_here(me);
    } else {
      // The operation and its result stay with this thread, which waits.
      std::optional<outcome<result>> result_here;
      const auto by_reference = [&operation, &result_here](Structure& structure) noexcept {
        result_here.emplace(run_on(structure, operation));
      };
      using reference_call = delegation::call<one, std::remove_const_t<decltype(by_reference)>>;
      completion<void> answer(runtime_, reference_call::take);
      if (runtime_.post<reference_call>(me, there.locality, &there, key, by_reference, answer)) {
        answer.await_here(me);
        return result_here->get();
      }
    }
    return run(me, there, operation).get();
  }

  template <class Operation>
  auto execute_on(one& there, Operation&& operation, std::uint64_t key) {
    using operation_type = std::decay_t<Operation>;
    using message_call = delegation::call<one, operation_type>;
    detail::member& me = runtime_.local();
    completion<result_of<operation_type>> answer(runtime_, message_call::take);
    if (!runtime_.has_room(me)) [[unlikely]] {
      auto* const later =
          new postponed_call<operation_type>(*this, there, std::forward<Operation>(operation));
      answer.comes_from(*later);
      runtime::postpone(me, *later, me.depth);
      return answer;
    }
    if (me.is_home(there.locality))
      runtime_.look_for_work(me);
    else if (runtime_.post<message_call>(me, there.locality, &there, key, std::forward<Operation>(operation),
                                         answer))
      return answer;
    const runtime::on_stack inside(runtime_, me);
    answer.has_come(run(me, there, operation));
    return answer;
  }

  template <class Operation>
  class postponed_call final : public detail::postponed {
   public:
    template <class Source>
    postponed_call(partitions& of, one& there, Source&& operation)
        : of_(of), there_(there), operation_(std::forward<Source>(operation)) {}
    void run(detail::member& me) noexcept override {
      const std::unique_ptr<postponed_call> ends(this);
      auto done = of_.run(me, there_, operation_);
      if (to != nullptr)
        static_cast<detail::reply_of<result_of<Operation>>*>(to)->arrive(me, std::move(done));
    }

   private:
    partitions& of_;
    one& there_;
    Operation operation_;
  };

  template <class Operation>
  auto run(detail::member& me, one& there, Operation& operation) noexcept {
    struct scope {
      detail::member& me;
      const partition_header* outer;
      ~scope() {
        --me.depth;
        me.partition = outer;
      }
    };
    me.did.local.add();
    const scope inside{me, std::exchange(me.partition, &there)};
    ++me.depth;
    return delegation::run_on(there.structure, operation);
  }

  runtime& runtime_;
  Route route_;
  const unsigned count_;
  std::vector<owner> owned_;
};

/// A variable that each partition has for itself, in lines of its own, for code that knows no structure: a global variable of
/// a program that was divided. It lies on the NUMA node whose threads touch it first.
template <class T>
class partition_variable {
 public:
  /// One T for each of `count` partitions, from the arguments.
  template <class... Arguments>
  explicit partition_variable(runtime& of, unsigned count, const Arguments&... arguments) : runtime_(of) {
    for (unsigned i = 0; i < count; ++i)
      each_.push_back(std::make_unique<hw::padded<T>>(hw::padded<T>{T(arguments...)}));
  }
  [[nodiscard]] T& operator[](unsigned partition) const noexcept { return each_[partition]->value; }
  /// Of the partition on which the calling thread runs an operation.
  [[nodiscard]] T& here() const noexcept {
    const partition_header* const on = runtime_.local().partition;
    assert(on != nullptr && "only an operation on a partition has a partition");
    return (*this)[on->index];
  }

 private:
  runtime& runtime_;
  std::vector<std::unique_ptr<hw::padded<T>>> each_;
};

/// A lock in a partition under which no operation may be awaited: a thread that waits may run another operation of the
/// partition, which would wait for the lock. Builds with assertions check it.
template <class Lock = ttas_lock>
class partition_lock {
 public:
  explicit partition_lock(runtime& of) noexcept : runtime_(of) {}
  void lock() {
    lock_.lock();
    ++runtime_.local().partition_locks;
  }
  [[nodiscard]] bool try_lock() {
    if (!lock_.try_lock()) return false;
    ++runtime_.local().partition_locks;
    return true;
  }
  void unlock() {
    --runtime_.local().partition_locks;
    lock_.unlock();
  }

 private:
  runtime& runtime_;
  Lock lock_;
};

}  // namespace espalier::delegation
