#include "sim/simulation/simulation.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "sim/runtime/arena.hpp"

namespace espalier::sim {
namespace {

// The computation of a thread between two accesses, in cycles: a comparison, a branch, an addition.
constexpr std::uint64_t work_per_access = 2;
// A pause instruction of contemporary machines, and a system call that finds no other thread to run.
constexpr std::uint64_t short_wait_cycles = 10;
constexpr std::uint64_t long_wait_cycles = 800;
// From a wake-up until the sleeper runs: some 4 us, as of a core that does not sleep deeply. Estimate.
constexpr std::uint64_t wake_cycles = 10'000;
// Beginning and committing a transaction together cost somewhat more than an atomic; rolling back costs more
// (measured on processors from Haswell on).
constexpr std::uint64_t begin_cycles = 20;
constexpr std::uint64_t commit_cycles = 15;
constexpr std::uint64_t abort_cycles = 150;
constexpr std::uint64_t accesses_per_turn = 4096;
// A copy of more bytes is several accesses, between which other threads run.
constexpr std::uint32_t most_bytes_at_once = 8 * line_bytes;

touch touch_of(access_kind kind) noexcept {
  if (kind == access_kind::modify) return touch::atomic;
  return is_write(kind) ? touch::write : touch::read;
}

/// The value that a read returns, if it may be the address of an object of the program.
std::uint64_t value_of(const access& a) noexcept {
  std::uint64_t value = load_window::no_address;
  if (a.bytes != sizeof value || is_write(a.kind)) return value;
  std::memcpy(&value, reinterpret_cast<const void*>(a.address), sizeof value);
  return arena::simulated(value).value_or(load_window::no_address);
}

std::vector<unsigned> chosen_threads(const machine_spec& spec, unsigned threads, pinning order) {
  if (threads == 0 || threads > spec.hardware_threads())
    throw std::invalid_argument("the machine " + spec.name + " runs 1 to " +
                                std::to_string(spec.hardware_threads()) + " threads, not " +
                                std::to_string(threads));
  std::vector<unsigned> all = thread_order(spec, order);
  all.resize(threads);
  return all;
}

}  // namespace

counts phase_result::total() const noexcept {
  counts sum;
  for (const counts& c : by_thread) sum += c;
  return sum;
}

simulation::simulation(const machine_spec& spec, unsigned threads, pinning order)
    : machine_(spec, arena::address_space_bytes),
      hardware_thread_(chosen_threads(spec, threads, order)),
      queue_(threads),
      clock_(threads, 0),
      spins_(threads),
      parts_(threads) {
  memory = &heap_;
  heap_.reset(heap::policy::plain);
  if (spec.transactions) {
    transactional = &transactions_;
    transactions_.reset(*spec.transactions);
  }
  fibers_.when_finished([this](unsigned id) { return finished(id); });
  page_touched_.resize(arena::address_space_bytes / page_bytes);
  for (const unsigned hardware : hardware_thread_) machine_.set_running(hardware, true);
}

simulation::~simulation() = default;

std::uint32_t simulation::slot() const noexcept {
  return fibers_.current() == fibers::none ? 0 : fibers_.current() + 1;
}

block_event simulation::event() const noexcept {
  block_event e;  // only the fiber: no records are kept here
  e.fiber = fibers_.current();
  return e;
}

void simulation::outside_time(const std::function<void()>& code) {
  const program_code scope(*this, false);
  code();
}

void simulation::run_fibers(const std::function<void(unsigned)>& code, unsigned first) {
  fibers_.clear();
  ended_.assign(threads(), false);
  blocked_.clear();
  failure_.clear();
  for (unsigned i = 0; i < threads(); ++i) {
    fibers_.add([this, i, &code] {
      try {
        const program_code scope(*this, true);
        code(i);
      } catch (const std::exception& e) {
        failure_ = std::string("an exception left a thread of the simulated program: ") + e.what();
      }
      if (!failure_.empty()) fibers_.leave();
    });
  }
  fibers_.run(first);
  if (!failure_.empty()) throw std::runtime_error(failure_);
}

void simulation::without_time(const std::function<void(unsigned)>& code) {
  timed_ = false;
  turn_left_ = accesses_per_turn;
  run_fibers(code, 0);
}

void simulation::warm(const std::function<void(unsigned)>& code) {
  warms_ = true;
  without_time(code);
  warms_ = false;
}

phase_result simulation::run(const std::function<void(unsigned)>& code) {
  const std::uint64_t start = *std::max_element(clock_.begin(), clock_.end());
  std::vector<counts> before_phase;
  for (unsigned i = 0; i < threads(); ++i) {
    before_phase.push_back(machine_.of(hardware_thread_[i]));
    parts_[i] = {0, before_phase.back()};
    clock_[i] = start;
    spins_[i] = {};
    queue_.set(i, clock_queue::rank_of(start, i));
  }
  by_part_ = {};
  timed_ = true;
  transactions_.restart();
  run_fibers(code, take_next());
  timed_ = false;
  phase_result result;
  result.transactions = transactions_.counts();
  for (unsigned i = 0; i < threads(); ++i) {
    result.by_thread.push_back(machine_.of(hardware_thread_[i]) - before_phase[i]);
    by_part_[parts_[i].number] += machine_.of(hardware_thread_[i]) - parts_[i].before;
    result.cycles = std::max(result.cycles, clock_[i] - start);
  }
  result.by_part = by_part_;
  return result;
}

unsigned simulation::finished(unsigned id) {
  ended_[id] = true;
  if (timed_) {
    clock_[id] += machine_.wait_for_loads(hardware_thread_[id], clock_[id]);
    machine_.waits(hardware_thread_[id], machine::without_end);
    queue_.remove(id);
    return take_next();
  }
  turn_left_ = accesses_per_turn;
  for (unsigned i = 1; i <= threads(); ++i) {
    const unsigned next = (id + i) % threads();
    if (!ended_[next]) return next;
  }
  return fibers::none;
}

/// Continues the thread with the lowest clock, if that is another one.
void simulation::yield_to_others() {
  const unsigned me = fibers_.current();
  const clock_queue::rank mine = clock_queue::rank_of(clock_[me], me);
  if (mine <= others_) return;
  queue_.set(me, mine);
  const unsigned next = take_next();
  if (next != me) fibers_.switch_to(next);
}

unsigned simulation::take_next() {
  if (queue_.lowest() == clock_queue::never) {
    const std::uint64_t now = *std::max_element(clock_.begin(), clock_.end());
    while (!sleepers_.empty()) wake(sleepers_.back(), now);
  }
  const clock_queue::rank next = queue_.lowest();
  if (next == clock_queue::never) {
    if (!blocked_.empty())
      failure_ = "all threads of the simulated program sleep, and none is left to wake them";
    return fibers::none;
  }
  queue_.remove(clock_queue::thread_of(next));
  others_ = queue_.lowest();
  return clock_queue::thread_of(next);
}

void simulation::spin::note(std::uint64_t line) noexcept {
  for (std::size_t i = 0; i < line_count; ++i)
    if (lines[i] == line) return;
  if (line_count == most_lines)
    reads_only = false;
  else
    lines[line_count++] = line;
}

bool simulation::goes_round(spin& turn, std::uint64_t now) noexcept {
  const std::uint64_t period = now - turn.since;
  const bool round = turn.reads_only && turn.line_count != 0 && period == turn.period;
  turn.period = turn.reads_only ? period : 0;
  return round;
}

void simulation::sleep() {
  const unsigned me = fibers_.current();
  sleepers_.push_back(me);
  machine_.waits(hardware_thread_[me], machine::without_end);
  const unsigned next = take_next();
  if (next != me) fibers_.switch_to(next);
}

void simulation::wake(unsigned thread, std::uint64_t when) {
  const spin& turn = spins_[thread];
  std::erase(sleepers_, thread);
  std::uint64_t& clock = clock_[thread];
  const std::uint64_t turns = when < clock ? 0 : (when - clock) / turn.period + 1;
  clock += turns * turn.period;
  const clock_queue::rank rank = clock_queue::rank_of(clock, thread);
  queue_.set(thread, rank);
  others_ = std::min(others_, rank);
}

void simulation::wake_readers_of(std::uint64_t line, std::uint64_t when) {
  for (std::size_t i = sleepers_.size(); i-- > 0;) {
    const spin& turn = spins_[sleepers_[i]];
    for (std::size_t l = 0; l < turn.line_count; ++l) {
      if (turn.lines[l] != line) continue;
      wake(sleepers_[i], when);
      break;
    }
  }
}

void simulation::go_on_in_turn() {
  const unsigned me = fibers_.current();
  turn_left_ = accesses_per_turn;
  for (unsigned i = 1; i < threads(); ++i) {
    const unsigned next = (me + i) % threads();
    if (ended_[next]) continue;
    fibers_.switch_to(next);
    return;
  }
}

void simulation::touch_page(std::uint64_t where) {
  if (page_touched_[where / page_bytes]) return;
  page_touched_[where / page_bytes] = true;
  machine_.first_touch(where, socket_of(fibers_.current()));
}

void simulation::before(const access& a) {
  const std::optional<std::uint64_t> where = arena::simulated(a.address);
  if (!where) return;
  if (!timed_) {
    if (--turn_left_ == 0) go_on_in_turn();
    if (transactional != nullptr) transactions_.on_access(fibers_.current(), a);
    touch_page(*where);
    if (warms_) {
      machine_.warm(hardware_thread_[fibers_.current()], *where, a.bytes, is_write(a.kind));
      if (observer_) observer_(fibers_.current(), a, counts{});
    }
    return;
  }
  if (a.bytes <= most_bytes_at_once) return timed(a, *where);
  access part = a;
  for (std::uint32_t done = 0; done != a.bytes; done += part.bytes) {
    part.address = a.address + done;
    part.bytes =
        std::min(a.bytes - done, most_bytes_at_once - static_cast<std::uint32_t>(part.address % line_bytes));
    timed(part, *where + done);
  }
  // The program does all of it now: transactions that have begun meanwhile meet it too.
  if (transactional != nullptr) transactions_.on_access(fibers_.current(), a);
}

void simulation::timed(const access& a, std::uint64_t where) {
  yield_to_others();
  const unsigned me = fibers_.current();
  const unsigned hardware = hardware_thread_[me];
  std::uint64_t& clock = clock_[me];
  std::uint64_t travelled = 0;
  if (transactional != nullptr) {
    if (spec().transactions->requests_travel && transactions_.conflicts(me, a)) {
      travelled = machine_.until_asked(hardware, clock, where);
      clock += travelled;
      yield_to_others();
      // A request cannot be called back.
      if (transactions_.doomed(me)) {
        transactions_.meet(me, a);
        machine_.access(hardware, clock - travelled, where, a.bytes, touch_of(a.kind));
        abort_displaced();
      }
    }
    transactions_.on_access(me, a);
  }
  const std::uint64_t line = where / line_bytes;
  const std::uint64_t last_line = (where + a.bytes - 1) / line_bytes;
  if (is_write(a.kind)) {
    spins_[me].reads_only = false;
    for (std::uint64_t l = line; l <= last_line && !sleepers_.empty(); ++l) wake_readers_of(l, clock);
  } else {
    for (std::uint64_t l = line; l <= last_line; ++l) spins_[me].note(l);
  }
  const counts earlier = observer_ ? machine_.of(hardware) : counts{};
  const std::uint64_t asked = clock - travelled + machine_.work(hardware, clock - travelled, work_per_access);
  clock =
      std::max(clock, asked + machine_.access(hardware, asked, where, a.bytes, touch_of(a.kind),
                                              spec().overlaps_loads ? value_of(a) : load_window::no_address));
  if (observer_) observer_(me, a, machine_.of(hardware) - earlier);
  if (transactional != nullptr && !machine_.displaced().empty()) abort_displaced();
}

void simulation::abort_displaced() {
  for (const displaced_line& d : machine_.displaced()) transactions_.on_displaced(d.line);
  transactions_.leave_if_doomed(fibers_.current());
}

void simulation::fence(std::memory_order order) {
  // Total store order, which the machines have, performs no reordering that weaker fences forbid.
  if (!timed_ || order != std::memory_order_seq_cst) return;
  yield_to_others();
  const unsigned me = fibers_.current();
  spins_[me].reads_only = false;
  clock_[me] += machine_.fence(hardware_thread_[me], clock_[me]);
}

void simulation::step(transaction_step what, const void*) {
  if (!timed_) return;
  if (what != transaction_step::abort) yield_to_others();
  const unsigned me = fibers_.current();
  if (what == transaction_step::commit && spec().transactions->commit_waits) {
    clock_[me] += machine_.drain(hardware_thread_[me], clock_[me]);
    yield_to_others();
  }
  const std::uint64_t cycles = what == transaction_step::begin    ? begin_cycles
                               : what == transaction_step::commit ? commit_cycles
                                                                  : abort_cycles;
  clock_[me] += machine_.work(hardware_thread_[me], clock_[me], cycles);
}

void simulation::wait(bool long_wait) {
  if (!timed_) return go_on_in_turn();
  const unsigned me = fibers_.current();
  clock_[me] += machine_.wait_for_loads(hardware_thread_[me], clock_[me]);
  clock_[me] += long_wait ? long_wait_cycles : short_wait_cycles;
  machine_.waits(hardware_thread_[me], clock_[me]);
  if (goes_round(spins_[me], clock_[me]))
    sleep();
  else
    yield_to_others();
  spins_[me].line_count = 0;
  spins_[me].reads_only = true;
  spins_[me].since = clock_[me];
}

void simulation::spend(std::uint64_t cycles) {
  if (timed_) clock_[fibers_.current()] += cycles;
}

unsigned simulation::count_in(unsigned part) {
  const unsigned me = fibers_.current();
  part_of_program& now = parts_[me];
  const unsigned former = now.number;
  now.number = part;
  if (!timed_) return former;
  const counts& all = machine_.of(hardware_thread_[me]);
  by_part_[former] += all - now.before;
  now.before = all;
  return former;
}

void simulation::sleep_on(const void* word) {
  if (!timed_) return go_on_in_turn();
  const unsigned me = fibers_.current();
  clock_[me] += long_wait_cycles;
  spins_[me] = {};
  blocked_.push_back({me, word});
  machine_.waits(hardware_thread_[me], machine::without_end);
  const unsigned next = take_next();
  if (next == fibers::none) fibers_.leave();
  fibers_.switch_to(next);
}

void simulation::wake_sleepers(const void* word, bool all) {
  if (!timed_) return;
  const std::uint64_t now = clock_[fibers_.current()] += long_wait_cycles;
  while (true) {
    const auto found = std::ranges::find(blocked_, word, &blocked::word);
    if (found == blocked_.end()) return;
    const unsigned thread = found->thread;
    blocked_.erase(found);
    clock_[thread] = std::max(clock_[thread], now) + wake_cycles;
    spins_[thread].since = clock_[thread];
    const clock_queue::rank rank = clock_queue::rank_of(clock_[thread], thread);
    queue_.set(thread, rank);
    others_ = std::min(others_, rank);
    if (!all) return;
  }
}

void simulation::fault(const char* what, const block_record*) {
  failure_ = std::string("the simulated program: ") + what;
  if (fibers_.current() != fibers::none) fibers_.leave();
}

void simulation::mapped(std::uintptr_t address, std::size_t bytes, bool huge, const unsigned* numa_node) {
  page_attributes attributes;
  attributes.huge = huge && huge_pages_;
  if (numa_node != nullptr) attributes.numa_node = *numa_node;
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): pages come from the arena
  const std::uint64_t where = arena::simulated(address).value();
  machine_.set_page(where, bytes, attributes);
  // These addresses may have had other pages before; they have no home yet.
  std::fill_n(page_touched_.begin() + static_cast<std::ptrdiff_t>(where / page_bytes),
              (bytes + page_bytes - 1) / page_bytes, false);
}

}  // namespace espalier::sim
