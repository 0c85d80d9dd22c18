#include "apps/studies/dps/program.hpp"

#include <new>
#include <utility>

#include "espalier/delegation/dedicated_servers.hpp"
#include "espalier/delegation/partitions.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/hw/pause.hpp"
#include "espalier/map/bst/ticket.hpp"
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

class tree {
  using map = ticket<std::uint64_t, std::uint64_t>;

 public:
  explicit tree(const program_shape& /*shape*/) : map_(std::make_unique<map>()) {}

  void settle(const thread_role& /*role*/, step_feed& feed) {
    for (step s{}; feed.next(s);) static_cast<void>(map_->insert(s.key, s.argument));
  }
  [[nodiscard]] static auto operation(const program_shape& /*shape*/, const step& s) {
    return [s](tree& here) noexcept { return here.apply(s); };
  }
  [[nodiscard]] std::uint64_t writes() const { return 0; }

 private:
  bool apply(const step& s) {
    if (s.op == map_operation::insert) return map_->insert(s.key, s.argument);
    if (s.op == map_operation::erase) return map_->erase(s.key);
    return map_->contains(s.key);
  }

  std::unique_ptr<map> map_;
};

// Techniques -----------------------------------------------------------------------------------------------------------

class shared_program final : public studied_program {
 public:
  explicit shared_program(const program_shape& shape) : shape_(shape), whole_(shape) {}

  void settle(unsigned thread, step_feed& feed) override {
    if (shape_.roles[thread].members != 0) whole_.settle(shape_.roles[thread], feed);
  }
  void operate(unsigned /*thread*/, study_feed& feed) override {
    for (step s{}; feed.next(s);) objects::operation(shape_, s)(whole_);
    feed.ended();
  }
  [[nodiscard]] std::uint64_t writes() const override { return whole_.writes(); }

 private:
  program_shape shape_;
  objects whole_;
};

template <class Structure>
class delegated_program final : public studied_program {
 public:
  explicit delegated_program(const program_shape& shape)
      : shape_(shape),
        runtime_(delegation::localities::in_turn(shape.partitions), options_for(shape)),
        parts_(runtime_, shape.partitions, by_remainder{}, shape) {}

  void settle(unsigned thread, step_feed& feed) override {
    const thread_role& role = shape_.roles[thread];
    runtime_.attach(role.home);
    parts_[role.home].settle(role, feed);
    if (shape_.pause != 0) return;
    // A thread's first message to a locality makes a ring.
    for (unsigned i = 0; i < parts_.count(); ++i) parts_.call_at(i, [](Structure& /*here*/) noexcept {});
  }
  void operate(unsigned thread, study_feed& feed) override {
    if (!shape_.roles[thread].serves) work(feed);
    // Other threads may still wait for this locality.
    while (!feed.all_ended()) {
      if (shape_.pause != 0) sim::spend(shape_.pause);
      if (runtime_.poll() == 0) hw::cpu_relax();
    }
  }
  [[nodiscard]] std::uint64_t writes() const override {
    std::uint64_t sum = 0;
    for (unsigned i = 0; i < parts_.count(); ++i) sum += parts_[i].writes();
    return sum;
  }

 private:
  void work(study_feed& feed) {
    for (step s{}; feed.next(s);) {
      const auto operation = Structure::operation(shape_, s);
      if (shape_.how == technique::partitioned)
        parts_.run_here(s.key, operation);
      else if (shape_.how == technique::delegated)
        parts_.call(s.key, operation);
      else
        static_cast<void>(parts_.execute(s.key, operation));
      if (shape_.delay != 0) sim::spend(shape_.delay);
    }
    runtime_.barrier();
    feed.ended();
  }
  static delegation::options options_for(const program_shape& shape) {
    constexpr unsigned without_end = 1U << 30U;
    delegation::options o;
    // Without waiting, as many are in flight. Where threads wait, short rings are in the caches after few operations.
    o.ring_depth = 2;
    if (shape.pause != 0) o.patience = o.spins = without_end;
    return o;
  }

  program_shape shape_;
  delegation::runtime runtime_;
  delegation::partitions<Structure, by_remainder> parts_;
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
      parts_.call(s.key, Structure::operation(shape_, s));
      if (shape_.delay != 0) sim::spend(shape_.delay);
    }
    feed.ended();
  }
  [[nodiscard]] std::uint64_t writes() const override {
    std::uint64_t sum = 0;
    for (unsigned i = 0; i < parts_.count(); ++i) sum += parts_[i].writes();
    return sum;
  }

 private:
  void serve(unsigned which, study_feed& feed) {
    while (!feed.all_ended()) {
      if (shape_.pause != 0) sim::spend(shape_.pause);
      if (servers_.serve(which) == 0) hw::cpu_relax();
    }
  }

  program_shape shape_;
  delegation::dedicated_servers servers_;
  delegation::served_partitions<Structure, by_remainder> parts_;
};

/// By messages.
template <class Structure>
std::unique_ptr<studied_program> made(const program_shape& shape) {
  if (shape.how == technique::served) return std::make_unique<served_program<Structure>>(shape);
  return std::make_unique<delegated_program<Structure>>(shape);
}

}  // namespace

std::unique_ptr<studied_program> make_computation(const program_shape& shape) {
  return made<computation>(shape);
}
std::unique_ptr<studied_program> make_objects(const program_shape& shape) {
  if (shape.how == technique::shared) return std::make_unique<shared_program>(shape);
  return made<objects>(shape);
}
std::unique_ptr<studied_program> make_tree(const program_shape& shape) { return made<tree>(shape); }

}  // namespace espalier::simulate
