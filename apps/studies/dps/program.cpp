#include "apps/studies/dps/program.hpp"

#include <optional>
#include <span>
#include <utility>

#include "apps/studies/dps/sequential_skip_list.hpp"
#include "apps/studies/dps/sequential_tree.hpp"
#include "apps/studies/dps/served_list.hpp"
#include "espalier/delegation/dedicated_servers.hpp"
#include "espalier/delegation/partitioned_queue.hpp"
#include "espalier/delegation/partitions.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/queue/shavit_lotan_queue.hpp"
#include "espalier/sync/mcs_lock.hpp"
#include "sim/runtime/spend.hpp"

namespace espalier::simulate {
namespace {

using catalog::step;

/// The partition of a key, which operations know as well.
struct by_remainder {
  [[nodiscard]] std::uint64_t number(std::uint64_t key) const noexcept { return key; }
  [[nodiscard]] unsigned partition(std::uint64_t key, unsigned count) const noexcept {
    return static_cast<unsigned>(key % count);
  }
};

// Structures of one partition. An operation is a function of the structure that fits a message. ------------------------

class computation {
 public:
  explicit computation(const program_shape& /*shape*/) {}

  void settle(const thread_role& /*role*/, step_feed& /*feed*/) {}
  [[nodiscard]] static auto operation(const program_shape& shape, const step& /*s*/) {
    return [cycles = shape.length](computation& /*here*/) noexcept {
      if (cycles != 0) sim::spend(cycles);
    };
  }
  [[nodiscard]] std::uint64_t writes() const { return 0; }
};

/// Objects one after the other. A page lies on the NUMA node that touches it first.
class objects {
 public:
  explicit objects(const program_shape& shape)
      : lines_(shape.lines),
        locked_(shape.how != technique::served),
        locks_((shape.objects + shape.partitions - 1) / shape.partitions),
        pages_(hw::map_pages(hw::whole_pages(locks_.size() * lines_ * hw::cache_line_bytes))) {}

  void settle(const thread_role& role, step_feed& /*feed*/) {
    for (std::size_t at = role.rank * hw::page_size(); at < pages_.size();
         at += role.members * hw::page_size())
      static_cast<void>(*reinterpret_cast<const volatile std::uint64_t*>(pages_.data() + at));
  }

  [[nodiscard]] static auto operation(const program_shape& shape, const step& s) {
    return [object = s.key / shape.partitions](objects& here) noexcept { here.operate(object); };
  }

  [[nodiscard]] std::uint64_t writes() const {
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < locks_.size() * lines_; ++i) sum += first_word(i);
    return sum;
  }

 private:
  [[nodiscard]] std::uint64_t& first_word(std::uint64_t line) const {
    return *reinterpret_cast<std::uint64_t*>(pages_.data() + line * hw::cache_line_bytes);
  }
  void write_all(std::uint64_t object) noexcept {
    constexpr std::size_t words = hw::cache_line_bytes / sizeof(std::uint64_t);
    std::uint64_t* const first = &first_word(object * lines_);
    const std::uint64_t* const end = first + lines_ * words;
    for (std::uint64_t* word = first; word != end; word += words) ++*word;
  }
  void operate(std::uint64_t object) noexcept {
    if (!locked_) return write_all(object);
    mcs_lock& lock = locks_[object].value;
    mcs_lock::queue_node mine;
    lock.lock(mine);
    write_all(object);
    lock.unlock(mine);
  }

  std::uint64_t lines_;
  bool locked_;
  std::vector<hw::padded<mcs_lock>> locks_;
  hw::page_run pages_;
};

/// Whatever simulated_map is in front of: every technique has the same two calls before an operation.
class any_map {
 public:
  explicit any_map(const program_shape& shape) : map_(shape.make()) {}

  void settle(const thread_role& /*role*/, step_feed& feed) { map_->do_all(feed); }
  [[nodiscard]] static auto operation(const program_shape& /*shape*/, const step& s) {
    return [s](any_map& here) noexcept { return here.apply(s); };
  }
  std::uint64_t apply(const step& s) { return map_->apply_all({&s, 1}); }
  [[nodiscard]] std::uint64_t writes() const { return 0; }

 private:
  std::unique_ptr<simulated_map> map_;
};

/// A list whose operations clients begin.
class begun_list {
 public:
  explicit begun_list(const program_shape& /*shape*/) : list_(std::make_unique<served_list>()) {}

  void settle(const thread_role& /*role*/, step_feed& feed) {
    for (step s{}; feed.next(s);) static_cast<void>(list_->insert(list_->place_of(s.key), s.key, s.argument));
  }
  /// What a client does before it asks the server.
  template <class Partitions>
  static void perform_alone(Partitions& parts, const step& s) {
    static_cast<void>(parts[0].list_->place_of(s.key));
  }
  template <class Partitions>
  static void perform(Partitions& parts, const step& s) {
    served_list& list = *parts[0].list_;
    if (s.op != map_operation::insert && s.op != map_operation::erase)
      return static_cast<void>(list.contains(s.key));
    parts.call(s.key, [key = s.key, place = list.place_of(s.key),
                       inserts = s.op == map_operation::insert](begun_list& here) noexcept {
      return inserts ? here.list_->insert(place, key, key) : here.list_->erase(place, key);
    });
  }
  [[nodiscard]] std::uint64_t writes() const { return 0; }

 private:
  std::unique_ptr<served_list> list_;
};

using priority_queue = shavit_lotan_queue<std::uint64_t, std::uint64_t>;

/// Not zero where there is an element.
template <class Queue>
std::uint64_t apply_to_queue(Queue& queue, const step& s) {
  if (s.op == map_operation::insert) {
    queue.push(s.key, s.argument);
    return 1;
  }
  return (s.op == map_operation::erase ? queue.try_pop_min() : queue.try_find_min()) ? 1 : 0;
}

/// What a simulated_map must have, of what no catalogue has.
constexpr map_properties uncatalogued{.name = "uncatalogued",
                                      .find_progress = progress::blocking,
                                      .update_progress = progress::blocking,
                                      .shape = balance::none,
                                      .region_protection = false,
                                      .paper = ""};

template <class Structure>
class uncatalogued_map : public simulated_map {
 public:
  uncatalogued_map() : simulated_map(uncatalogued) {}

  std::uint64_t apply_all(std::span<const step> steps) override {
    std::uint64_t sum = 0;
    for (const step& s : steps) sum += apply(structure_, s);
    return sum;
  }
  void do_all(step_feed& feed) override {
    for (step s{}; feed.next(s);) static_cast<void>(apply(structure_, s));
  }
  [[nodiscard]] std::shared_ptr<void> thread_scope() const override { return nullptr; }
  [[nodiscard]] std::optional<memory_usage> usage() const override { return std::nullopt; }
  [[nodiscard]] std::optional<std::uint64_t> leaked_bytes() override { return std::nullopt; }
  [[nodiscard]] std::vector<elision_counts> transactions() const override { return {}; }
  [[nodiscard]] const any_placement* recording_placement() const override { return nullptr; }

 private:
  template <class Map>
  static std::uint64_t apply(Map& map, const step& s) {
    if constexpr (concurrent_priority_queue<Map>) {
      return apply_to_queue(map, s);
    } else {
      if (s.op == map_operation::insert) return map.insert(s.key, s.argument) ? 1 : 0;
      if (s.op == map_operation::erase) return map.erase(s.key) ? 1 : 0;
      return map.contains(s.key) ? 1 : 0;
    }
  }

  Structure structure_;
};

/// A structure that says itself what goes to the partition of a key.
template <class Structure, class Partitions>
concept performs_itself = requires(Partitions& parts, const step& s) { Structure::perform(parts, s); };

// Techniques -----------------------------------------------------------------------------------------------------------

template <class Structure>
class shared_program final : public studied_program {
 public:
  explicit shared_program(const program_shape& shape) : shape_(shape), whole_(shape) {}

  void settle(unsigned thread, step_feed& feed) override {
    if (shape_.roles[thread].members != 0) whole_.settle(shape_.roles[thread], feed);
  }
  void operate(unsigned /*thread*/, study_feed& feed) override {
    for (step s{}; feed.next(s);) Structure::operation(shape_, s)(whole_);
    feed.ended();
  }
  void warm(unsigned /*thread*/, step_feed& feed) override {
    for (step s{}; feed.next(s);) Structure::operation(shape_, s)(whole_);
  }
  [[nodiscard]] unsigned partitions_warmed() const override { return 1; }
  [[nodiscard]] std::uint64_t writes() const override { return whole_.writes(); }

 private:
  program_shape shape_;
  Structure whole_;
};

/// Threads in localities. Program has perform(step), and begin(thread role, feed) for what a thread prepares.
template <class Program>
class program_in_localities : public studied_program {
 public:
  void settle(unsigned thread, step_feed& feed) override {
    const thread_role& role = shape_.roles[thread];
    runtime_.attach(role.home);
    auto& parts = self().parts();
    self().begin(role, feed);
    if (shape_.pause == 0) app::make_rings(parts);
  }
  void operate(unsigned thread, study_feed& feed) override {
    if (!shape_.roles[thread].serves) {
      for (step s{}; feed.next(s);) {
        self().perform(s);
        if (shape_.delay != 0) sim::spend(shape_.delay);
      }
      runtime_.barrier();
      feed.ended();
    }
    app::serve_until_all_end(feed, [this] {
      if (shape_.pause != 0) sim::spend(shape_.pause);
      return runtime_.poll();
    });
  }

  void warm(unsigned thread, step_feed& feed) override {
    auto& parts = self().parts();
    for (step s{}; feed.next(s);) {
      const unsigned its = parts.index_of(s.key);
      if (partitions_warmed() == 1 || its == shape_.roles[thread].home) Program::apply(parts[its], s, shape_);
    }
  }
  [[nodiscard]] unsigned partitions_warmed() const override {
    return shape_.how == technique::partitioned ? 1 : shape_.partitions;
  }

 protected:
  explicit program_in_localities(const program_shape& shape)
      : shape_(shape), runtime_(delegation::localities::in_turn(shape.partitions), options_for(shape)) {}

  program_shape shape_;
  delegation::runtime runtime_;

 private:
  Program& self() noexcept { return static_cast<Program&>(*this); }
  static delegation::options options_for(const program_shape& shape) {
    constexpr unsigned without_end = 1U << 30U;
    delegation::options o;
    // Without waiting, as many are in flight. Where threads wait, short rings are in the caches after few operations.
    o.ring_depth = 2;
    if (shape.pause != 0) o.patience = o.spins = without_end;
    return o;
  }
};

template <class Structure>
class delegated_program final : public program_in_localities<delegated_program<Structure>> {
  using threads = program_in_localities<delegated_program>;
  using threads::runtime_;
  using threads::shape_;

 public:
  explicit delegated_program(const program_shape& shape)
      : threads(shape), parts_(runtime_, shape.partitions, by_remainder{}, shape) {}

  auto& parts() noexcept { return parts_; }
  void begin(const thread_role& role, step_feed& feed) { parts_[role.home].settle(role, feed); }
  static void apply(Structure& part, const step& s, const program_shape& shape) {
    Structure::operation(shape, s)(part);
  }
  void perform(const step& s) {
    const auto operation = Structure::operation(shape_, s);
    if (shape_.how == technique::partitioned)
      parts_.run_here(s.key, operation);
    else if (shape_.how == technique::delegated)
      parts_.call(s.key, operation);
    else
      static_cast<void>(parts_.execute(s.key, operation));
  }
  [[nodiscard]] std::uint64_t writes() const override {
    std::uint64_t sum = 0;
    for (unsigned i = 0; i < parts_.count(); ++i) sum += parts_[i].writes();
    return sum;
  }

 private:
  delegation::partitions<Structure, by_remainder> parts_;
};

/// A pop asks all partitions, and goes to the best.
class delegated_queue final : public program_in_localities<delegated_queue> {
 public:
  explicit delegated_queue(const program_shape& shape)
      : program_in_localities(shape), queue_(runtime_, shape.partitions) {}

  auto& parts() noexcept { return queue_.parts(); }
  void begin(const thread_role& role, step_feed& feed) {
    for (step s{}; feed.next(s);) queue_.parts()[role.home].push(s.key, s.argument);
  }
  template <class Part>
  static void apply(Part& part, const step& s, const program_shape& /*shape*/) {
    static_cast<void>(apply_to_queue(part, s));
  }
  void perform(const step& s) { static_cast<void>(apply_to_queue(queue_, s)); }
  [[nodiscard]] std::uint64_t writes() const override { return 0; }

 private:
  partitioned_queue<priority_queue, by_remainder> queue_;
};

template <class Structure>
class served_program final : public studied_program {
 public:
  explicit served_program(const program_shape& shape)
      : shape_(shape),
        servers_(shape.partitions, false),
        parts_(servers_, shape.partitions, by_remainder{}, shape) {}

  void settle(unsigned thread, step_feed& feed) override {
    const thread_role& role = shape_.roles[thread];
    if (role.serves) parts_[role.home].settle(role, feed);
  }
  void operate(unsigned thread, study_feed& feed) override {
    if (shape_.roles[thread].serves) return serve(shape_.roles[thread].home, feed);
    for (step s{}; feed.next(s);) {
      if constexpr (performs_itself<Structure, decltype(parts_)>)
        Structure::perform(parts_, s);
      else
        parts_.call(s.key, Structure::operation(shape_, s));
      if (shape_.delay != 0) sim::spend(shape_.delay);
    }
    feed.ended();
  }
  void warm(unsigned thread, step_feed& feed) override {
    const thread_role& role = shape_.roles[thread];
    if constexpr (performs_itself<Structure, decltype(parts_)>) {
      if (role.serves) return;
      for (step s{}; feed.next(s);) Structure::perform_alone(parts_, s);
    } else if (role.serves) {
      for (step s{}; feed.next(s);)
        if (by_remainder{}.partition(s.key, shape_.partitions) == role.home)
          Structure::operation(shape_, s)(parts_[role.home]);
    }
  }
  [[nodiscard]] unsigned partitions_warmed() const override { return shape_.partitions; }
  [[nodiscard]] std::uint64_t writes() const override {
    std::uint64_t sum = 0;
    for (unsigned i = 0; i < parts_.count(); ++i) sum += parts_[i].writes();
    return sum;
  }

 private:
  void serve(unsigned which, study_feed& feed) {
    app::serve_until_all_end(feed, [this, which] {
      if (shape_.pause != 0) sim::spend(shape_.pause);
      return servers_.serve(which);
    });
  }

  program_shape shape_;
  delegation::dedicated_servers servers_;
  delegation::served_partitions<Structure, by_remainder> parts_;
};

template <class Structure>
std::unique_ptr<studied_program> made(const program_shape& shape) {
  if (shape.how == technique::served) return std::make_unique<served_program<Structure>>(shape);
  return std::make_unique<delegated_program<Structure>>(shape);
}
template <class Structure>
std::unique_ptr<studied_program> made_or_shared(const program_shape& shape) {
  if (shape.how == technique::shared) return std::make_unique<shared_program<Structure>>(shape);
  return made<Structure>(shape);
}

}  // namespace

std::unique_ptr<studied_program> make_computation(const program_shape& shape) {
  return made<computation>(shape);
}
std::unique_ptr<studied_program> make_objects(const program_shape& shape) {
  return made_or_shared<objects>(shape);
}
std::unique_ptr<studied_program> make_map(const program_shape& shape) {
  return made_or_shared<any_map>(shape);
}
std::unique_ptr<studied_program> make_queue(const program_shape& shape) {
  if (shape.how == technique::shared) return std::make_unique<shared_program<any_map>>(shape);
  return std::make_unique<delegated_queue>(shape);
}
std::unique_ptr<studied_program> make_served_list(const program_shape& shape) {
  return std::make_unique<served_program<begun_list>>(shape);
}

std::unique_ptr<simulated_map> make_shared_queue() {
  return std::make_unique<uncatalogued_map<priority_queue>>();
}
std::unique_ptr<simulated_map> make_sequential_tree() {
  return std::make_unique<uncatalogued_map<sequential_tree>>();
}
std::unique_ptr<simulated_map> make_sequential_skip_list() {
  return std::make_unique<uncatalogued_map<sequential_skip_list>>();
}

}  // namespace espalier::simulate
