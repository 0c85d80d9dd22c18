#include "espalier/oltp/database.hpp"

namespace espalier::oltp {

database::database(const database_options& o) {
  if (o.lock_bytes < least_lock_bytes || o.lock_bytes % alignof(engine::row_lock) != 0)
    throw std::invalid_argument("oltp: the lock of a row has at least 48 bytes, a multiple of 8, and not " +
                                std::to_string(o.lock_bytes));
  if (o.commits_per_epoch == 0) throw std::invalid_argument("oltp: an epoch has at least one commit");
  shared_ = std::make_unique<engine::shared_state>(o);
  // Throws for an unknown name.
  static_cast<void>(any_map(o.map, engine::options_for(o.map, shared_->indexes, &shared_->domain)));
  // The caller's names may end before the database.
  std::vector<std::string_view> names = any_map_names();
  const std::vector<std::string_view> more = any_map_variant_names();
  names.insert(names.end(), more.begin(), more.end());
  shared_->chosen.map = *std::find(names.begin(), names.end(), o.map);
  shared_->chosen.row_placement = row_placement().chosen_name();
  shared_->chosen.index_placement = index_placement().chosen_name();
}

database::~database() {
  for (const auto& t : tables_) t->destroy_rows();
  const auto destroy_all = [](engine::stored_row* r) {
    while (r != nullptr) {
      engine::stored_row* const next = r->next_listed;
      r->of->destroy(r);
      r = next;
    }
  };
  destroy_all(
      shared_->left_over.load(std::memory_order_relaxed));  // relaxed: no other thread uses the database
  shared_->appended.for_each([&](std::uint32_t, const engine::row_list& one) { destroy_all(one.first); });
}

void database::require_new(const std::string& table_name) const {
  for (const auto& t : tables_) {
    if (t->name() == table_name)
      throw std::invalid_argument("oltp: there is a table " + table_name + " already");
  }
}

transaction_counts database::counts() const {
  transaction_counts sum;
  sessions_.for_each([&sum](std::uint32_t, const session& one) {
    // relaxed: a count needs no order.
    sum.with(one.counts,
             [](std::uint64_t& all, const auto& own) { all += own.load(std::memory_order_relaxed); });
  });
  return sum;
}

std::uint64_t database::last_number() const {
  const session& me = sessions_.local();
  return me.runs != nullptr ? me.runs->number() : 0;
}

memory_usage database::index_usage() const {
  memory_usage sum = chosen().one_placement ? memory_usage{} : index_placement().usage();
  if (any_map_takes_placement(chosen().map)) return sum;
  for (const auto& t : tables_) {
    for (const auto& one : t->indexes()) sum += one->map().usage();
  }
  return sum;
}

void database::collect() noexcept { static_cast<void>(shared_->domain.collect()); }

}  // namespace espalier::oltp
