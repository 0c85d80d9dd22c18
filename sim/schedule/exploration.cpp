#include "sim/schedule/exploration.hpp"

#include <sys/single_threaded.h>
#include <sys/time.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "sim/runtime/arena.hpp"

namespace espalier::sim {

struct scene::contents {
  std::vector<std::string> names;
  std::vector<std::function<void()>> bodies;
  std::vector<std::function<void()>> checks;
  std::vector<std::function<void()>> cleanups;
};

class exploration::open_scene : public scene {
 public:
  explicit open_scene(contents& c) { contents_ = &c; }
};

void scene::thread(std::string_view name, std::function<void()> body) {
  const own_code scope;
  contents_->names.emplace_back(name);
  contents_->bodies.push_back(std::move(body));
}

void scene::at_end(std::function<void()> check) {
  const own_code scope;
  contents_->checks.push_back(std::move(check));
}

void scene::add_cleanup(std::function<void()> cleanup) {
  const own_code scope;
  contents_->cleanups.push_back(std::move(cleanup));
}

namespace {

constexpr unsigned most_threads = 32;
// Times on a simple machine, for the strategy lowest_clock.
constexpr unsigned plain_time = 1;
constexpr unsigned atomic_time = 20;

/// The exploration that runs a program now: for signal handlers, and for calls from the program.
exploration* active = nullptr;

void on_signal(int number) {
  if (active != nullptr && active->in_program()) active->crashed(number);
  // The crash is in the simulator: proceed as if there were no handler.
  std::signal(number, SIG_DFL);
  std::raise(number);
}

/// During its lifetime, crashes of the program are findings.
class signal_guard {
 public:
  explicit signal_guard(exploration& e) : stack_(64U << 10U) {
    active = &e;
    stack_t alternative{};
    alternative.ss_sp = stack_.data();
    alternative.ss_size = stack_.size();
    sigaltstack(&alternative, &old_stack_);
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    for (std::size_t i = 0; i < std::size(numbers); ++i) sigaction(numbers[i], &action, &old_[i]);
  }
  signal_guard(const signal_guard&) = delete;
  signal_guard& operator=(const signal_guard&) = delete;
  ~signal_guard() {
    for (std::size_t i = 0; i < std::size(numbers); ++i) sigaction(numbers[i], &old_[i], nullptr);
    sigaltstack(&old_stack_, nullptr);
    active = nullptr;
  }

 private:
  static constexpr int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  std::vector<char> stack_;
  stack_t old_stack_{};
  struct sigaction old_[std::size(numbers)]{};
};

void on_no_end(int number) {
  if (active != nullptr) active->has_no_end();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

/// During its lifetime, a program without an end is a finding. Steps are counted; what has none is limited by processor time:
/// many times what a run takes.
class end_guard {
 public:
  end_guard() {
    struct sigaction action{};
    action.sa_handler = on_no_end;
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    sigaction(SIGPROF, &action, &old_);
    set(most_seconds);
  }
  end_guard(const end_guard&) = delete;
  end_guard& operator=(const end_guard&) = delete;
  ~end_guard() {
    set(0);
    sigaction(SIGPROF, &old_, nullptr);
  }

 private:
  static constexpr time_t most_seconds = 60;
  static void set(time_t seconds) {
    itimerval left{};
    left.it_value.tv_sec = seconds;
    setitimer(ITIMER_PROF, &left, nullptr);
  }

  struct sigaction old_{};
};

std::string describe_access(const access& a) {
  const char* const verb = is_write(a.kind) ? "writes" : "reads";
  return std::string(verb) + ' ' + std::to_string(a.bytes) + " bytes";
}

}  // namespace

exploration::exploration(const exploration_options& options, const std::function<void(scene&)>& build)
    : options_(options), build_(build), contents_(std::make_unique<scene::contents>()) {
  // While the C library sets this flag, libstdc++ counts the owners of a shared_ptr by plain accesses.
  __libc_single_threaded = 0;
  memory = &heap_;
  fibers_.when_finished([this](unsigned id) { return finished(id); });
  if (options.transactions) {
    stores_.when_visible([this](unsigned fiber, std::uintptr_t address, std::size_t bytes) {
      transactions_.on_visible(fiber, address, bytes);
    });
  }
}

exploration::~exploration() = default;

const std::vector<std::string>& exploration::thread_names() const noexcept { return contents_->names; }

std::uint32_t exploration::slot() const noexcept {
  return fibers_.current() == fibers::none ? 0 : fibers_.current() + 1;
}

block_event exploration::event() const noexcept { return block_event::now(fibers_.current(), steps_); }

std::optional<run_failure> exploration::run(strategy& choose_by, const run_conditions& conditions,
                                            std::uint64_t seed, std::uint64_t expected_steps) {
  // The remains of a failed run are in the arena, which is about to be reset: they are dropped, not destroyed.
  if (failure_) static_cast<void>(contents_.release());  // NOLINT(bugprone-unused-return-value)
  contents_ = std::make_unique<scene::contents>();
  failure_.reset();
  fibers_.clear();
  heap_.reset(conditions.reuse_memory ? heap::policy::reuse : heap::policy::quarantine);
  transactional = nullptr;
  if (options_.transactions) {
    transactions_.reset(*options_.transactions, conditions.spurious_aborts);
    if (conditions.model != memory_model::weak) transactional = &transactions_;
  }
  decisions_.clear();
  last_seen_.clear();
  steps_ = moments_ = 0;
  waiting_ = 0;
  sleepers_.clear();
  asleep_ = 0;
  sleeps_ = 0;

  const end_guard limit;
  open_scene s(*contents_);
  set_up(s);
  if (failure_) return failure_;
  const auto count = static_cast<unsigned>(contents_->bodies.size());
  if (count == 0 || count > most_threads)
    throw std::invalid_argument("a scene has 1 to 32 threads, not " + std::to_string(count));
  for (unsigned i = 0; i < count; ++i) {
    fibers_.add([this, i] {
      try {
        const program_code scope(*this, true);
        contents_->bodies[i]();
      } catch (const std::exception& e) {
        fail(failure_kind::exception, std::string("an exception left the thread: ") + e.what());
      } catch (...) {
        fail(failure_kind::exception, "an exception left the thread");
      }
    });
  }
  alive_ = (agent_set{1} << count) - 1;
  buffers = conditions.model == memory_model::buffered ? &stores_ : nullptr;
  weak = conditions.model == memory_model::weak ? &weak_memory_ : nullptr;
  stores_.reset(count);
  weak_memory_.reset(weak != nullptr ? count : 0, conditions.stale_loads);
  first_steps_.assign(count, 0);
  strategy_ = &choose_by;
  strategy_->begin(buffers != nullptr ? 2 * count : count, seed, expected_steps);
  {
    const signal_guard guard(*this);
    fibers_.run(choose());
  }
  buffers = nullptr;
  weak = nullptr;
  if (!failure_) take_down(s);
  return failure_;
}

void exploration::run_outside_threads(const char* part, const std::function<void()>& body) {
  active = this;
  if (setjmp(outside_) == 0) {
    try {
      const program_code scope(*this, false);
      body();
    } catch (const std::exception& e) {
      fail(failure_kind::exception, std::string("an exception left the scene's ") + part + ": " + e.what());
    }
  }
  active = nullptr;
}

void exploration::set_up(scene& s) {
  run_outside_threads("set-up", [&] { build_(s); });
}

void exploration::take_down(scene&) {
  run_outside_threads("end", [&] {
    for (const auto& check : contents_->checks) {
      check();
      if (failure_) break;
    }
    if (!failure_) {
      for (auto c = contents_->cleanups.rbegin(); c != contents_->cleanups.rend(); ++c) (*c)();
      // The functions themselves may hold memory of the program.
      contents_->bodies.clear();
      contents_->checks.clear();
      contents_->cleanups.clear();
    }
  });
  if (failure_ || !options_.leaks_fail) return;
  const auto left = heap_.live();
  if (!left.empty()) {
    fail(failure_kind::leak,
         std::to_string(left.size()) + (left.size() == 1 ? " block is" : " blocks are") +
             " never freed, the first of " + std::to_string(left.front()->bytes) + " bytes",
         left.front());
  }
}

unsigned exploration::finished(unsigned id) {
  alive_ &= ~(agent_set{1} << id);
  if (buffers != nullptr) stores_.drain(id);
  if (failure_ || alive_ == 0) return fibers::none;
  return choose();
}

unsigned exploration::choose() {
  const unsigned count = fibers_.count();
  const unsigned current = fibers_.current() == fibers::none ? 0 : fibers_.current();
  while (true) {
    const agent_set awake = alive_ & ~asleep_;
    agent_set ready = awake & ~waiting_;
    if (buffers != nullptr) {
      for (unsigned i = 0; i < count; ++i)
        if (!stores_.empty(i)) ready |= agent_set{1} << (count + i);
    }
    if (ready == 0) {
      waiting_ = 0;
      ready = awake;
    }
    if (ready == 0) {
      fail(failure_kind::livelock, "all threads sleep on words, and none is left to wake them");
      return fibers::none;
    }
    const unsigned agent = strategy_->choose({ready, ready | awake, current, steps_});
    const std::size_t segments = decisions_.segments().size();
    decisions_.append(agent);
    if (decisions_.segments().size() != segments) last_seen_.push_back(nullptr);
    if (agent < count) return agent;
    stores_.flush_oldest(agent - count);
    waiting_ = 0;
    ++steps_;
  }
}

void exploration::take_turn(const void* where, unsigned time) {
  if (++steps_ > options_.step_budget)
    fail(failure_kind::livelock, "no end after " + std::to_string(options_.step_budget) + " steps");
  const unsigned me = fibers_.current();
  const unsigned next = choose();
  if (next != me) fibers_.switch_to(next);
  waiting_ &= agent_set{1} << me;
  if (first_steps_[me] == 0) {
    first_steps_[me] = ++moments_;
    if (weak != nullptr) weak_memory_.operation_begins(me);
  }
  last_seen_.back() = where;
  strategy_->took(me, time);
}

void exploration::before(const access& a) {
  if (fibers_.on_own_stack(a.address)) return;
  take_turn(a.where, is_atomic(a.kind) ? atomic_time : plain_time);
  // The access happens from here on. Transactions see it first, and the fiber's own may be aborted by it. A store that
  // goes to the buffer affects transactions when it leaves the buffer.
  const unsigned me = fibers_.current();
  const bool is_delayed = buffers != nullptr && a.kind == access_kind::atomic_store && !in_transaction(*this);
  if (transactional != nullptr && !is_delayed) transactions_.on_access(me, a);
  check(a);
  if (weak != nullptr && !arena::in_stacks(a.address)) {
    if (const auto race = weak_memory_.check(me, a)) fail_by_race(describe_access(a), a.address, *race);
  }
  if (buffers == nullptr || is_atomic(a.kind)) return;
  if (is_write(a.kind) ? !stores_.empty(me) : stores_.overlaps(me, a.address, a.bytes)) stores_.drain(me);
}

void exploration::check(const access& a) {
  if (!arena::in_heap(a.address)) return;
  const block_record* const block = heap_.find(a.address);
  if (block == nullptr)
    return fail(failure_kind::use_after_free, "the thread " + describe_access(a) + " outside every block");
  const std::uintptr_t offset = a.address - block->address;
  if (block->state == block_state::freed)
    fail(failure_kind::use_after_free,
         "the thread " + describe_access(a) + " at offset " + std::to_string(offset) +
             " of a freed block of " + std::to_string(block->bytes) + " bytes",
         block);
  if (offset + a.bytes > block->bytes)
    fail(failure_kind::use_after_free,
         "the thread " + describe_access(a) + " at offset " + std::to_string(offset) +
             " of a block of only " + std::to_string(block->bytes) + " bytes",
         block);
}

void exploration::step(transaction_step what, const void* where) {
  if (what == transaction_step::abort) return;
  take_turn(where, atomic_time);
  if (what == transaction_step::begin) fence(std::memory_order_seq_cst);
}

void exploration::fence(std::memory_order order) {
  // The buffers perform no reordering that weaker fences forbid.
  if (buffers != nullptr && order == std::memory_order_seq_cst) stores_.drain(fibers_.current());
  if (weak != nullptr) weak_memory_.fence(fibers_.current(), order);
}

void exploration::fence_all() {
  if (buffers != nullptr) stores_.drain_all();
  if (weak != nullptr) weak_memory_.fence_all();
}

void exploration::operation_ends(bool changed) {
  if (buffers != nullptr && changed) stores_.drain(fibers_.current());
  if (weak != nullptr) weak_memory_.operation_ends(fibers_.current());
}

void exploration::wait(bool) {
  if (++steps_ > options_.step_budget)
    fail(failure_kind::livelock, "no end after " + std::to_string(options_.step_budget) + " steps");
  const unsigned me = fibers_.current();
  waiting_ |= agent_set{1} << me;
  strategy_->waits(me);
  strategy_->took(me, atomic_time);
  const unsigned next = choose();
  if (next != me) fibers_.switch_to(next);
}

void exploration::sleep_on(const void* word) {
  // The contract allows spurious returns, so every third sleep is one.
  if (++sleeps_ % 3 == 0) return wait(true);
  const unsigned me = fibers_.current();
  sleepers_.push_back({me, word});
  asleep_ |= agent_set{1} << me;
  wait(true);
}

void exploration::wake_sleepers(const void* word, bool all) {
  while (true) {
    const auto found = std::ranges::find(sleepers_, word, &sleeper::word);
    if (found == sleepers_.end()) return;
    asleep_ &= ~(agent_set{1} << found->fiber);
    sleepers_.erase(found);
    if (!all) return;
  }
}

void exploration::fail(failure_kind kind, std::string what, const block_record* block) {
  if (!failure_) {
    const block_event now = event();
    run_failure found{kind, std::move(what), fibers_.current(), steps_, {}, std::nullopt, std::nullopt};
    if (!last_seen_.empty() && last_seen_.back() != nullptr && in_program())
      found.callers.push_back(last_seen_.back());
    for (const void* caller : now.callers)
      if (caller != nullptr) found.callers.push_back(caller);
    if (block != nullptr) found.block = *block;
    if (kind == failure_kind::data_race) found.race = raced_with_;
    failure_ = std::move(found);
  }
  if (in_program()) fibers_.leave();
}

void exploration::before_free(const void* freed) {
  if (weak == nullptr) return;
  const auto address = reinterpret_cast<std::uintptr_t>(freed);
  const block_record* const block = heap_.find(address);
  if (block == nullptr || block->state == block_state::freed) return;
  const access all{address, static_cast<std::uint32_t>(block->bytes), access_kind::write, nullptr};
  if (const auto race = weak_memory_.check(fibers_.current(), all)) fail_by_race("frees", address, *race);
}

void exploration::fail_by_race(std::string_view verb, std::uintptr_t address, const weak_memory::race& with) {
  const block_record* const block = arena::in_heap(address) ? heap_.find(address) : nullptr;
  std::string what = "a data race: the thread " + std::string(verb);
  if (block != nullptr)
    what += " at offset " + std::to_string(address - block->address) + " of a block of " +
            std::to_string(block->bytes) + " bytes";
  what += ", which another " + std::string(with.wrote ? "wrote" : "read") + " without happening before it";
  raced_with_ = with;
  fail(failure_kind::data_race, std::move(what), block);
}

void exploration::fault(const char* what, const block_record* block) {
  fail(failure_kind::bad_free, what, block);
}

void exploration::retired(const void* detached) {
  const auto address = reinterpret_cast<std::uintptr_t>(detached);
  if (!arena::in_heap(address)) return;
  block_record* const block = heap_.find(address);
  if (block == nullptr) return fail(failure_kind::bad_retire, "what was never allocated is retired");
  if (block->state == block_state::freed)
    return fail(failure_kind::bad_retire, "a freed block is retired", block);
  if (block->state == block_state::retired)
    return fail(failure_kind::bad_retire, "a block is retired twice", block);
  block->state = block_state::retired;
  block->retired = event();
}

void exploration::crashed(int signal) {
  here = {};
  if (!failure_) {
    run_failure found{failure_kind::signal,
                      std::string("the thread crashed: ") + strsignal(signal),
                      fibers_.current(),
                      steps_,
                      {},
                      std::nullopt,
                      std::nullopt};
    if (!last_seen_.empty() && last_seen_.back() != nullptr) found.callers.push_back(last_seen_.back());
    for (const void* caller : event().callers)
      if (caller != nullptr) found.callers.push_back(caller);
    failure_ = std::move(found);
  }
  fibers_.leave_from_signal();
}

void exploration::has_no_end() {
  here = {};
  if (!failure_) {
    failure_ = run_failure{failure_kind::no_end,
                           in_program() ? "the thread does not end, and takes no step"
                                        : "the set-up or the end of the scene does not end",
                           fibers_.current(),
                           steps_,
                           {},
                           std::nullopt,
                           std::nullopt};
  }
  if (in_program()) fibers_.leave_from_signal();
  std::longjmp(outside_, 1);
}

// The program's side.

void require(bool condition, std::string_view what) {
  if (!condition) fail(what);
}

void fail(std::string_view what) {
  const own_code scope;
  if (active == nullptr) throw std::logic_error("sim::fail outside an exploration: " + std::string(what));
  active->fail(failure_kind::requirement, std::string(what));
  throw std::runtime_error(std::string(what));  // in set-up and checks, where there is no fiber to leave
}

std::uint64_t now() {
  const own_code scope;
  return scope.allocating() != nullptr ? scope.allocating()->moment() : 0;
}

void note_retired(const void* memory) {
  const own_code scope;
  if (active == nullptr) return;
  if (scope.running() != nullptr && in_transaction(*active))
    active->transactional->on_commit(active->slot() - 1, [memory] { note_retired(memory); });
  else
    active->retired(memory);
}

void wait_for_others() {
  const own_code scope;
  if (scope.running() == nullptr) return;
  leave_transaction(*scope.running());
  scope.running()->wait(false);
}

}  // namespace espalier::sim
