#include "apps/studies/oltp/program.hpp"

#include <utility>

#include "apps/oltp/benchmark.hpp"
#include "sim/runtime/world.hpp"

namespace espalier::simulate {
namespace {

espalier::oltp::database_options options_of(const database_shape& shape) {
  espalier::oltp::database_options o;
  o.map = shape.index;
  o.rows_as = espalier::oltp::row_form::dbx;
  o.lock_bytes = shape.lock_bytes;
  o.row_placement = "chunked_heap";
  o.index_placement = "chunked_heaps";
  o.one_placement = !shape.segregated;
  o.recording = any_placement::recording::on;
  o.precedence_after = ~0U;  // it goes by a clock of the host
  return o;
}

std::unique_ptr<app::db::benchmark> benchmark_of(const database_shape& shape) {
  if (shape.warehouses != 0)
    return app::db::make_tpcc(options_of(shape), {.warehouses = shape.warehouses,
                                                  .customers = shape.customers,
                                                  .items = shape.items,
                                                  .as_dbx = true,
                                                  .weights = {45, 43, 0, 0, 0}});
  return app::db::make_ycsb(options_of(shape), {.letter = 't',
                                                .rows = shape.rows,
                                                .theta = shape.theta,
                                                .accesses = 16,
                                                .reads = 90,
                                                .row_bytes = 100});
}

class database final : public studied_database {
 public:
  explicit database(const database_shape& shape) : shape_(shape), runs_(benchmark_of(shape)) {
    for (unsigned i = 0; i < shape.threads; ++i)
      clients_.push_back(runs_->connect(i, shape.threads, shape.seed));
  }

  void load(unsigned thread) override {
    for (std::size_t part = thread; part < runs_->load_parts(); part += shape_.threads) runs_->load(part);
  }
  void operate(unsigned thread, transaction_feed& feed) override {
    app::db::client& mine = *clients_[thread];
    while (feed.next()) {
      {
        // Drawing a transaction takes no time.
        const sim::own_code scope;
        static_cast<void>(mine.draw());
      }
      mine.run();
    }
  }

  void for_each_block(void (*visit)(void*, std::uint64_t, std::size_t, memory_role),
                      void* context) const override {
    app::db::for_each_block(runs_->database(),
                            [&](std::uint64_t address, std::size_t bytes, memory_role role) {
                              visit(context, address, bytes, role);
                            });
  }
  [[nodiscard]] std::string_view name_of(memory_role role) const override {
    return app::db::name_of(role, runs_->database().chosen().rows_as);
  }
  [[nodiscard]] std::vector<app::db::kind_of_block> layout(const hw::cache_geometry& caches) const override {
    return app::db::layout_of(runs_->database(), caches, true);
  }
  [[nodiscard]] std::uint64_t commits() const override { return runs_->database().counts().commits; }
  [[nodiscard]] std::uint64_t attempts() const override { return runs_->database().counts().attempts(); }
  [[nodiscard]] std::string broken() override {
    for (const app::db::condition& c : runs_->check()) {
      if (!c.holds) return c.name + ": " + c.detail;
    }
    return {};
  }

 private:
  database_shape shape_;
  std::unique_ptr<app::db::benchmark> runs_;
  std::vector<std::unique_ptr<app::db::client>> clients_;
};

}  // namespace

std::unique_ptr<studied_database> make_studied_database(const database_shape& shape) {
  return std::make_unique<database>(shape);
}

}  // namespace espalier::simulate
