#pragma once

#include "espalier/oltp/index.hpp"
#include "espalier/oltp/options.hpp"
#include "espalier/oltp/outcome.hpp"
#include "espalier/oltp/row.hpp"
#include "espalier/oltp/schema.hpp"
#include "espalier/oltp/table.hpp"
#include "espalier/oltp/transaction.hpp"
#include "espalier/sync/per_thread.hpp"

// An in-memory database with serializable transactions, for programs (link espalier::oltp):
//
//     struct account { std::uint64_t id; std::int64_t balance; };
//
//     espalier::oltp::database bank;
//     auto& accounts = bank.create_table<&account::id>("accounts");
//     bank.transact([&](auto& t) { t.insert(accounts, {1, 100}); t.insert(accounts, {2, 0}); });
//     bank.transact([&](auto& t) {
//       t.update(accounts, 1, [](account& a) { a.balance -= 10; });
//       t.update(accounts, 2, [](account& a) { a.balance += 10; });
//     });
//     const auto left = bank.transact([&](auto& t) { return t.find(accounts, 1)->balance; });  // an optional
//
// A transaction takes effect as a whole at one moment, or not at all. Its function may be called several times: until an
// attempt commits. So it may have no other effects than those on the database. What it throws undoes the attempt. Under Silo
// an attempt that will not commit may see rows of different moments; what it throws then is ignored.
//
// The database keeps everything in memory. It has no log, no SQL and no network.
//
// Threads. Any thread may run transactions, one at a time. Tables and indexes are created while no transaction runs. A
// transaction takes tables and rows of its own database, and rows that its own attempt has found.
//
// Forks. In a child of fork() the database is as it was at the fork, also inside a transaction of the thread that forked. If
// another thread ran a transaction at that moment, no transaction can run in the child: rows may be locked and half changed.

namespace espalier::oltp {

class database {
 public:
  /// Throws std::invalid_argument, which lists the names, for an unknown map or placement, and for locks of less than 48 bytes
  /// or a number that is no multiple of 8.
  explicit database(const database_options& o = {});
  database(const database&) = delete;
  database& operator=(const database&) = delete;
  /// No thread may use it any more.
  ~database();

  [[nodiscard]] const database_options& chosen() const noexcept { return shared_->chosen; }

  /// A table whose primary key is key(row): a lambda without captures, of a number of 64 bits. The schema is for messages.
  /// Throws std::invalid_argument if there is a table of this name, std::bad_alloc.
  template <class Row, class Key>
  table<Row>& create_table(std::string name, Key /*key*/, const schema<Row>& columns = {}) {
    require_new(name);
    std::unique_ptr<table<Row>> fresh(new table<Row>(std::move(name), *shared_, columns.columns()));
    fresh->template add<Key>("primary", uniqueness::unique);
    tables_.push_back(std::move(fresh));
    return static_cast<table<Row>&>(*tables_.back());
  }

  /// The primary key is a member of the row: create_table<&account::id>("accounts").
  template <auto Member, class Row = typename member_key<Member>::row>
  table<Row>& create_table(std::string name, const schema<Row>& columns = {}) {
    return create_table<Row>(std::move(name), member_key<Member>(), columns);
  }

  /// Runs function(transaction&) until an attempt commits, and returns the function's result as an std::optional, which is empty
  /// after transaction::roll_back(); of a function without a result, true or false. What the function throws is thrown, and
  /// undoes the attempt. Throws std::logic_error inside another transaction of the thread, and in a child of fork() where a
  /// transaction of another thread ran at the fork.
  template <class Function>
  auto transact(Function&& function) {
    using result = std::invoke_result_t<Function&, transaction&>;
    static_assert(!is_found_row<std::remove_cvref_t<result>> && !std::is_reference_v<result>,
                  "the contents of a row that was found are the transaction's: return a copy");
    if constexpr (std::is_void_v<result>) {
      return commits(function);
    } else {
      std::optional<result> of_attempt;
      if (!commits([&](transaction& t) { of_attempt.emplace(function(t)); })) of_attempt.reset();
      return of_attempt;
    }
  }

  /// Sums over threads. Any thread may call it at any time. It is exact while no transaction runs; else it has of each thread
  /// numbers of late, which need not be of one moment.
  [[nodiscard]] transaction_counts counts() const;
  /// Under Silo: the number of the calling thread's last commit, which has the epoch from bit engine::shared_state::epoch_bit on.
  [[nodiscard]] std::uint64_t last_number() const;

  [[nodiscard]] memory_usage row_usage() const { return row_placement().usage(); }
  /// With that of maps that take no placement. With one placement for all: of such maps alone, since row_usage() has the rest.
  [[nodiscard]] memory_usage index_usage() const;
  [[nodiscard]] const any_placement& row_placement() const noexcept { return shared_->rows; }
  [[nodiscard]] const any_placement& index_placement() const noexcept { return shared_->indexes; }
  /// Frees what erased rows have held, as far as running transactions permit. Not inside one.
  void collect() noexcept;

 private:
  struct session {
    engine::own_counts counts;
    std::unique_ptr<engine::attempt> runs;  ///< of its thread alone; the counts are for others, too

    void recover_in_child(bool lost) noexcept {
      if (lost && runs != nullptr) runs->forget_thread();
    }
  };

  /// Whether an attempt has committed.
  template <class Function>
  bool commits(Function&& function) {
    session& me = sessions_.local();
    if (me.runs == nullptr) me.runs = engine::make_attempt(*shared_, me.counts);
    engine::attempt& mine = *me.runs;
    mine.begin_transaction();
    struct last_attempt {
      engine::attempt& of;
      ~last_attempt() { of.leave_precedence(); }
    };
    const last_attempt ends{mine};
    unsigned attempts = 0;
    for (backoff pause;; pause.wait()) {
      mine.begin(attempts++);
      try {
        transaction t(mine);
        function(t);
        mine.commit();
        return true;
      } catch (const restart& r) {
        if (r.of != &mine) {
          mine.roll_back(abort_reason::rolled_back);
          throw;
        }
        if (r.why != abort_reason::rolled_back)
          mine.roll_back(r.why);
        else if (mine.end_for_good())
          return false;
      } catch (...) {
        if (mine.end_for_good()) throw;
      }
    }
  }
  void require_new(const std::string& table_name) const;

  std::unique_ptr<engine::shared_state> shared_;
  std::vector<std::unique_ptr<engine::table_base>> tables_;
  mutable per_thread<session> sessions_;
};

}  // namespace espalier::oltp
