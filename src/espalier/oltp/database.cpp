#include "espalier/oltp/database.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/hw/clock.hpp"
#include "espalier/hw/thread_slot.hpp"

namespace espalier::oltp {

namespace {

const database_options& checked(const database_options& o) {
  if (o.lock_bytes < sizeof(row_lock) || o.lock_bytes % alignof(row_lock) != 0)
    throw std::invalid_argument("oltp: the lock of a row has at least 48 bytes, a multiple of 8, and not " +
                                std::to_string(o.lock_bytes));
  if (o.commits_per_epoch == 0) throw std::invalid_argument("oltp: an epoch has at least one commit");
  return o;
}

}  // namespace

database::database(const database_options& o)
    : options_(checked(o)),
      rows_(o.row_placement, o.recording),
      indexes_(o.one_placement ? rows_ : any_placement(o.index_placement, o.recording)),
      shared_(std::make_unique<shared_state>(o.by, o.commits_per_epoch)) {
  static_cast<void>(any_map(
      o.map, options_for(o.map, {indexes_, &shared_->domain})));  // throws for a name that there is not
  // The caller's names may end before the database.
  const std::vector<std::string_view> names = any_map_names();
  options_.map = *std::find(names.begin(), names.end(), o.map);
  options_.row_placement = rows_.chosen_name();
  options_.index_placement = indexes_.chosen_name();
}

database::~database() {
  for (const auto& t : tables_) t->base().destroy_rows();
  // relaxed: no other thread uses the database.
  for (stored_row* r = shared_->left_over.load(std::memory_order_relaxed); r != nullptr;) {
    stored_row* const next = r->next_left_over;
    r->of->destroy(r);
    r = next;
  }
}

void database::require_new(const std::string& table_name) const {
  for (const auto& t : tables_) {
    if (t->base().name() == table_name)
      throw std::invalid_argument("oltp: there is a table " + table_name + " already");
  }
}

void database::begin(session& me) {
  if (me.core == nullptr) me.core = std::make_unique<attempt>(*shared_, me.counts);
  if (shared_->torn)
    throw std::logic_error(
        "oltp: a transaction of another thread ran when this process was forked; use the database in the "
        "parent");
  if (me.core->is_running())
    throw std::logic_error("oltp: a transaction may not run inside another one of its thread");
  me.age = age_at(hw::tsc_now(), hw::thread_slot(), me.age);
  ++me.transactions;
}

void database::start(session& me, unsigned attempts_before) {
  me.core->begin(me.age, options_.sample_every != 0 && me.transactions % options_.sample_every == 0,
                 attempts_before >= options_.precedence_after);
}

bool database::end_for_good(session& me) {
  bool sound = true;
  try {
    sound = me.core->is_sound();
  } catch (...) {
    me.core->roll_back(abort_reason::rolled_back);
    throw;
  }
  me.core->roll_back(sound ? abort_reason::rolled_back : abort_reason::row_changed);
  return sound;
}

transaction_counts database::counts() const {
  transaction_counts sum;
  sessions_.for_each([&sum](std::uint32_t, const session& one) { sum += one.counts.read(); });
  return sum;
}

std::uint64_t database::last_number() const {
  const session& me = sessions_.local();
  return me.core != nullptr ? me.core->number() : 0;
}

memory_usage database::index_usage() const {
  memory_usage sum = options_.one_placement ? memory_usage{} : indexes_.usage();
  if (any_map_takes_placement(options_.map)) return sum;
  for (const auto& t : tables_) {
    for (const auto& one : t->base().indexes()) sum += one->map().usage();
  }
  return sum;
}

void database::collect() noexcept { static_cast<void>(shared_->domain.collect()); }

}  // namespace espalier::oltp
