#include "sim/transactions/transactions.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "espalier/measure/random.hpp"
#include "sim/machine/machine_spec.hpp"
#include "sim/runtime/arena.hpp"
#include "sim/runtime/fibers.hpp"

namespace espalier::sim {
namespace {

using hw::abort_status;

constexpr std::uint64_t latest_spurious = 8;

/// Accesses to a fiber's own stack are not logged. Frames come and go there while a doomed fiber is switched out, so
/// that nothing may be restored; and no frame that survives the abort reads them afterwards.
bool on_stack_of(unsigned fiber, std::uintptr_t address) noexcept {
  return address - (arena::stacks + fiber * fibers::stack_bytes) < fibers::stack_bytes;
}

/// The program's own memory at its simulated addresses. Memory that other code shares with it, such as globals of a
/// library, lies above all of those.
std::uint64_t position(std::uintptr_t address) noexcept {
  return arena::simulated(address).value_or(address);
}

/// Calls part(line, mask, address, bytes) for the piece of a range in each line.
template <class Part>
void for_each_line(std::uintptr_t address, std::size_t bytes, Part&& part) {
  while (bytes != 0) {
    const std::uint64_t simulated = position(address);
    const std::uint64_t offset = simulated % line_bytes;
    const std::size_t here_bytes = std::min<std::size_t>(bytes, line_bytes - offset);
    if (!part(simulated / line_bytes, byte_mask(offset, here_bytes), address, here_bytes)) return;
    address += here_bytes;
    bytes -= here_bytes;
  }
}

}  // namespace

void records::forget(std::uint64_t begin, std::uint64_t end) {
  if (intervals_.empty() || begin >= end) return;
  auto at = intervals_.upper_bound(begin);
  if (at != intervals_.begin()) --at;
  while (at != intervals_.end() && at->first < end) {
    const auto [old_begin, old] = *at;
    if (old.end <= begin) {
      ++at;
      continue;
    }
    at = intervals_.erase(at);
    if (old_begin < begin) intervals_.emplace(old_begin, interval{begin, old.kind});
    if (old.end > end) {
      intervals_.emplace(end, interval{old.end, old.kind});
      return;
    }
  }
}

void records::annotate(std::uint64_t begin, std::uint64_t end, hw::record_kind kind) {
  if (begin >= end) return;
  forget(begin, end);
  intervals_.emplace(begin, interval{end, kind});
}

abort_reason records::meeting(std::uint64_t line, std::uint64_t one, std::uint64_t other) const {
  const std::uint64_t first = line * line_bytes;
  std::uint64_t unannotated = ~std::uint64_t{0};
  bool metadata_is_shared = false;
  auto at = intervals_.upper_bound(first);
  if (at != intervals_.begin()) --at;
  for (; at != intervals_.end() && at->first < first + line_bytes; ++at) {
    if (at->second.end <= first) continue;
    const std::uint64_t begin = std::max(at->first, first);
    const std::uint64_t end = std::min(at->second.end, first + line_bytes);
    const std::uint64_t mask = byte_mask(begin - first, end - begin);
    unannotated &= ~mask;
    if ((one & mask) == 0 || (other & mask) == 0) continue;
    if (at->second.kind == hw::record_kind::record) return abort_reason::true_conflict;
    metadata_is_shared = true;
  }
  if ((one & other & unannotated) != 0) return abort_reason::true_conflict;
  return metadata_is_shared ? abort_reason::metadata : abort_reason::false_conflict;
}

void transactions::reset(const transactional_spec& limits, std::uint64_t spurious_seed) {
  if (limits.write_sets == 0 || limits.write_ways == 0 || limits.read_set_lines == 0)
    throw std::invalid_argument("transactions need at least 1 set, 1 way and 1 line to read");
  limits_ = limits;
  spurious_seed_ = spurious_seed;
  records_.clear();
  restart();
}

void transactions::restart() noexcept {
  open_ = 0;
  states_.clear();
  lines_.clear();
  counts_ = {};
}

void transactions::annotate(std::uintptr_t address, std::size_t bytes, hw::record_kind kind) {
  const std::uint64_t begin = position(address);
  records_.annotate(begin, begin + bytes, kind);
}

void transactions::forget(std::uintptr_t address, std::size_t bytes) {
  const std::uint64_t begin = position(address);
  records_.forget(begin, begin + bytes);
}

void transactions::begin(unsigned fiber, std::jmp_buf& exit) {
  if (states_.size() <= fiber) states_.resize(fiber + 1);
  state& mine = states_[fiber];
  mine.now = phase::running;
  mine.depth = 1;
  mine.exit = &exit;
  mine.written_in_set.assign(limits_.write_sets, 0);
  mine.spurious_in = 0;
  if (spurious_seed_ != 0) {
    // By fiber, so that one fiber's transactions do not change the random choices of the others while a schedule is
    // shrunk.
    const std::uint64_t drawn = measure::mix64(measure::mix64(spurious_seed_ + fiber) + mine.begun);
    if (drawn % spurious_one_in == 0) mine.spurious_in = 1 + drawn / spurious_one_in % latest_spurious;
  }
  ++mine.begun;
  ++counts_.begun;
  ++open_;
}

void transactions::observe(unsigned fiber, const access& a) {
  if (open_ == 0) return;
  meet(fiber, a);
  if (!active(fiber)) return;
  if (std::uint64_t& left = states_[fiber].spurious_in; left != 0) {
    --left;
    if (left == 0) return doom(fiber, abort_status{}, abort_reason::other);
  }
  const bool reads = !is_write(a.kind) || a.kind == access_kind::modify;
  for_each_line(a.address, a.bytes,
                [&](std::uint64_t line, std::uint64_t mask, std::uintptr_t address, std::size_t bytes) {
                  if (touch(fiber, line, mask, reads, is_write(a.kind), address, bytes)) return true;
                  doom(fiber, abort_status{abort_status::capacity_bit}, abort_reason::capacity);
                  return false;
                });
}

void transactions::meet(unsigned fiber, std::uintptr_t address, std::size_t bytes, bool write) {
  for_each_line(address, bytes, [&](std::uint64_t line, std::uint64_t mask, std::uintptr_t, std::size_t) {
    const auto wanted = [&](const line_use& u) { return write ? u.read | u.written : u.written; };
    while (true) {
      const auto found = lines_.find(line);
      if (found == lines_.end()) break;
      const auto victim = std::find_if(found->second.begin(), found->second.end(),
                                       [&](const line_use& u) { return u.fiber != fiber && wanted(u) != 0; });
      if (victim == found->second.end()) break;
      doom(victim->fiber, abort_status{abort_status::conflict_bit | abort_status::retry_bit},
           records_.meeting(line, mask, wanted(*victim)));
    }
    return true;
  });
}

bool transactions::conflicts(unsigned fiber, const access& a) const {
  if (open_ == 0 || doomed(fiber)) return false;
  bool found = false;
  for_each_line(a.address, a.bytes, [&](std::uint64_t line, std::uint64_t, std::uintptr_t, std::size_t) {
    if (const auto uses = lines_.find(line); uses != lines_.end())
      found = std::ranges::any_of(uses->second, [&](const line_use& u) {
        return u.fiber != fiber && (u.written != 0 || (is_write(a.kind) && u.read != 0));
      });
    return !found;
  });
  return found;
}

bool transactions::touch(unsigned fiber, std::uint64_t line, std::uint64_t mask, bool reads, bool writes,
                         std::uintptr_t address, std::size_t bytes) {
  state& mine = states_[fiber];
  std::vector<line_use>& uses = lines_[line];
  auto use = std::find_if(uses.begin(), uses.end(), [&](const line_use& u) { return u.fiber == fiber; });
  if (use == uses.end()) {
    mine.lines.push_back(line);
    use = uses.insert(use, {fiber, 0, 0});
  }
  if (reads) {
    if (use->read == 0 && mine.read_lines++ == limits_.read_set_lines) return false;
    use->read |= mask;
  }
  if (!writes) return true;
  if (use->written == 0 && mine.written_in_set[line % limits_.write_sets]++ == limits_.write_ways)
    return false;
  if ((mask & ~use->written) != 0 && !on_stack_of(fiber, address)) {
    const auto* const now = reinterpret_cast<const std::byte*>(address);
    mine.log.push_back({address, mine.old.size(), bytes});
    mine.old.insert(mine.old.end(), now, now + bytes);
  }
  use->written |= mask;
  return true;
}

void transactions::on_displaced(std::uint64_t line) {
  if (open_ == 0 || limits_.keeps_written) return;
  const auto found = lines_.find(line);
  if (found == lines_.end()) return;
  // A fiber that has written a line is the only one in a transaction that has touched it.
  const line_use& use = found->second.front();
  if (use.written != 0) doom(use.fiber, abort_status{abort_status::capacity_bit}, abort_reason::capacity);
}

void transactions::doom(unsigned fiber, hw::abort_status status, abort_reason reason) {
  state& mine = states_[fiber];
  if (mine.depth > 1) status = abort_status{status.word() | abort_status::nested_bit};
  ++counts_.by_reason[static_cast<std::size_t>(reason)];
  ++counts_.by_cause[static_cast<std::size_t>(status.cause())];
  mine.status = status;
  mine.now = phase::doomed;
  for (auto entry = mine.log.rbegin(); entry != mine.log.rend(); ++entry)
    std::memcpy(reinterpret_cast<void*>(entry->address), mine.old.data() + entry->offset, entry->bytes);
  // In reverse order, so that the next attempt finds the same blocks at the same places.
  block_event by = owner_.event();
  by.fiber = fiber;
  by.callers = {};  // they would be those of the fiber that aborts it
  for (auto memory = mine.allocated.rbegin(); memory != mine.allocated.rend(); ++memory)
    owner_.deallocate(*memory, by);
  release(fiber);
}

void transactions::release(unsigned fiber) {
  state& mine = states_[fiber];
  for (const std::uint64_t line : mine.lines) {
    const auto found = lines_.find(line);
    std::erase_if(found->second, [&](const line_use& u) { return u.fiber == fiber; });
    if (found->second.empty()) lines_.erase(found);
  }
  mine.lines.clear();
  mine.read_lines = 0;
  mine.log.clear();
  mine.old.clear();
  mine.allocated.clear();
}

void transactions::refuse(unsigned fiber) {
  if (!active(fiber)) return;
  if (!doomed(fiber)) doom(fiber, abort_status{}, abort_reason::other);
  leave_if_doomed(fiber);
}

void transactions::abort(unsigned fiber, hw::abort_code code) {
  if (!doomed(fiber)) doom(fiber, abort_status::asked_for(code), abort_reason::explicit_abort);
}

void transactions::on_commit(unsigned fiber, std::function<void()> action) {
  states_[fiber].after_commit.push_back(std::move(action));
}

void transactions::on_abort(unsigned fiber, std::function<void()> action) {
  states_[fiber].after_abort.push_back(std::move(action));
}

bool transactions::try_commit(unsigned fiber) {
  state& mine = states_[fiber];
  if (mine.now == phase::running && mine.spurious_in != 0) doom(fiber, abort_status{}, abort_reason::other);
  if (mine.now == phase::doomed) return false;
  release(fiber);
  mine.now = phase::none;
  --open_;
  ++counts_.committed;
  return true;
}

transactions::actions transactions::committed(unsigned fiber) {
  state& mine = states_[fiber];
  for (const deferred_free& f : std::exchange(mine.freed, {})) owner_.deallocate(f.memory, f.by);
  mine.after_abort.clear();
  return std::exchange(mine.after_commit, {});
}

transactions::abandoned transactions::taken_back(unsigned fiber) {
  state& mine = states_[fiber];
  mine.now = phase::none;
  --open_;
  mine.freed.clear();
  mine.after_commit.clear();
  std::reverse(mine.after_abort.begin(), mine.after_abort.end());
  return {mine.status, std::exchange(mine.after_abort, {})};
}

std::string_view to_string(abort_reason reason) noexcept {
  constexpr std::array<std::string_view, abort_reasons.size()> names{
      "true conflict", "false conflict", "metadata", "capacity", "explicit", "other"};
  return names[static_cast<std::size_t>(reason)];
}

transaction_counts& transaction_counts::operator+=(const transaction_counts& more) noexcept {
  begun += more.begun;
  committed += more.committed;
  for (std::size_t i = 0; i < by_reason.size(); ++i) by_reason[i] += more.by_reason[i];
  for (std::size_t i = 0; i < by_cause.size(); ++i) by_cause[i] += more.by_cause[i];
  return *this;
}

}  // namespace espalier::sim
