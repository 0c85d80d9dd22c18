#include "espalier/oltp/database.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::oltp {

namespace {

const database_options& checked(const database_options& o) {
  if (o.lock_bytes < least_lock_bytes || o.lock_bytes % alignof(engine::row_lock) != 0)
    throw std::invalid_argument("oltp: the lock of a row has at least 48 bytes, a multiple of 8, and not " +
                                std::to_string(o.lock_bytes));
  if (o.commits_per_epoch == 0) throw std::invalid_argument("oltp: an epoch has at least one commit");
  return o;
}

}  // namespace

database::database(const database_options& o) : options_(checked(o)) {
  any_placement rows(o.row_placement, o.recording);
  any_placement indexes = o.one_placement ? rows : any_placement(o.index_placement, o.recording);
  // Throws for an unknown name.
  static_cast<void>(any_map(o.map, engine::options_for(o.map, indexes, nullptr)));
  // The caller's names may end before the database.
  const std::vector<std::string_view> names = any_map_names();
  options_.map = *std::find(names.begin(), names.end(), o.map);
  options_.row_placement = rows.chosen_name();
  options_.index_placement = indexes.chosen_name();
  shared_ = std::make_unique<engine::shared_state>(engine::settings{.by = o.by,
                                                                    .map = options_.map,
                                                                    .rows = rows,
                                                                    .indexes = indexes,
                                                                    .lock_bytes = o.lock_bytes,
                                                                    .sample_every = o.sample_every,
                                                                    .commits_per_epoch = o.commits_per_epoch,
                                                                    .precedence_after = o.precedence_after});
}

database::~database() {
  for (const auto& t : tables_) t->destroy_rows();
  // relaxed: no other thread uses the database.
  for (engine::stored_row* r = shared_->left_over.load(std::memory_order_relaxed); r != nullptr;) {
    engine::stored_row* const next = r->next_left_over;
    r->of->destroy(r);
    r = next;
  }
}

void database::require_new(const std::string& table_name) const {
  for (const auto& t : tables_) {
    if (t->name() == table_name)
      throw std::invalid_argument("oltp: there is a table " + table_name + " already");
  }
}

transaction_counts database::counts() const {
  transaction_counts sum;
  sessions_.for_each([&sum](std::uint32_t, const session& one) { sum += one.counts.read(); });
  return sum;
}

std::uint64_t database::last_number() const {
  const session& me = sessions_.local();
  return me.runs != nullptr ? me.runs->number() : 0;
}

memory_usage database::index_usage() const {
  memory_usage sum = options_.one_placement ? memory_usage{} : index_placement().usage();
  if (any_map_takes_placement(options_.map)) return sum;
  for (const auto& t : tables_) {
    for (const auto& one : t->indexes()) sum += one->map().usage();
  }
  return sum;
}

void database::collect() noexcept { static_cast<void>(shared_->domain.collect()); }

}  // namespace espalier::oltp
