#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/memory/any_placement.hpp"
#include "espalier/oltp/index.hpp"
#include "espalier/oltp/schema.hpp"
#include "espalier/oltp/table.hpp"
#include "espalier/oltp/transaction.hpp"
#include "espalier/sync/backoff.hpp"
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
// Forks. In a child of fork() the database is as it was at the fork, also inside a transaction of the thread that forked. Where
// a transaction of another thread ran at that moment, its rows stay locked in the child, and may have half of what it changed:
// there no transaction runs any more. So fork while no other thread runs one, or use the database in the parent alone.

namespace espalier::oltp {

struct database_options {
  /// The map of all indexes: one of any_map_names().
  std::string_view map = "ordered_map";
  protocol by = protocol::no_wait;
  /// Placements by name. All indexes share one, and all rows another one.
  std::string_view index_placement = "segregated";
  std::string_view row_placement = "segregated";
  /// One placement for both, the rows'.
  bool one_placement = false;
  any_placement::recording recording = any_placement::recording::off;
  /// Bytes of a row's lock: 48, or more to pad it.
  std::size_t lock_bytes = sizeof(row_lock);
  /// Of so many transactions one is timed; 0: none.
  unsigned sample_every = 0;
  /// Under Silo: of so many commits of a thread one begins an epoch. Not 0.
  unsigned commits_per_epoch = 256;
  /// After so many attempts in vain a transaction takes precedence over all others: transaction.hpp, Progress.
  unsigned precedence_after = 100;
};

/// A row that a transaction has found, or none. Its contents stay as they are until the transaction changes them or ends. Where
/// there is none, * and -> end a program that was built with assertions.
template <class Row>
class found_row {
 public:
  found_row() = default;
  explicit operator bool() const noexcept { return static_cast<bool>(found_); }
  const Row& operator*() const noexcept { return *get(); }
  const Row* operator->() const noexcept { return get(); }

 private:
  friend class transaction;
  explicit found_row(transaction_core::found f) noexcept : found_(f) {}
  const Row* get() const noexcept {
    assert(found_ && "oltp: there is no row; look whether find() has found one");
    return reinterpret_cast<const Row*>(found_.data);
  }
  transaction_core::found found_;
};
template <class T>
inline constexpr bool is_found_row = false;
template <class Row>
inline constexpr bool is_found_row<found_row<Row>> = true;

/// A member of a row as its key.
template <auto Member>
struct member_key {
  template <class Row, class Column>
  static Row row_of(Column Row::*);
  using row = decltype(row_of(Member));
  [[nodiscard]] auto operator()(const row& r) const noexcept { return r.*Member; }
};

/// An index of a table with rows of this type.
template <class Row>
class table_index : public index_base {
 public:
  using index_base::index_base;
};

template <class Row>
class table : public table_base {
  static_assert(std::is_trivially_copyable_v<Row>,
                "a row is copied as bytes: it must be trivially copyable; use oltp::text<N> for characters");
  static_assert(alignof(Row) <= 8, "rows are aligned to 8 bytes");

 public:
  table(std::string name, std::size_t lock_bytes, any_placement rows, shared_state& shared,
        std::string_view map, index_resources for_indexes, std::vector<column> columns)
      : table_base(std::move(name), sizeof(Row), lock_bytes, std::move(rows), shared.domain),
        map_(map),
        for_indexes_(std::move(for_indexes)),
        columns_(std::move(columns)) {}

  /// Another index, of a table that is empty. The key of a row is key(row): a function without state whose result depends on
  /// the row alone. Throws std::logic_error if there are rows, std::invalid_argument if there is an index of this name (that of
  /// the primary one is "primary"), std::bad_alloc.
  template <class Key>
  table_index<Row>& create_index(std::string name, uniqueness kind, Key /*key*/) {
    if (!indexes().empty() && primary().first_from(0).of != nullptr)
      throw std::logic_error("oltp: the table " + this->name() + " has rows; create the index " + name +
                             " before");
    return add<Key>(std::move(name), kind);
  }
  /// The key is a member of the row: create_index<&order::customer>("by customer", uniqueness::many).
  template <auto Member>
  table_index<Row>& create_index(std::string name, uniqueness kind) {
    return create_index(std::move(name), kind, member_key<Member>());
  }
  /// Calls visitor(row) for each row, in order. While no transaction runs.
  template <class Visitor>
  void for_each_at_rest(Visitor&& visitor) const {
    primary().scan(0, [&](std::uint64_t, stored_row* r) {
      if (is_there_at_rest(*r)) visitor(*reinterpret_cast<const Row*>(r->data));
      return true;
    });
  }
  [[nodiscard]] table_index<Row>& primary_index() const noexcept {
    return static_cast<table_index<Row>&>(primary());
  }
  /// A row as text, by the schema that the table was created with.
  [[nodiscard]] std::string to_string(const Row& r) const {
    return oltp::to_string(columns_, reinterpret_cast<const std::byte*>(&r));
  }

 private:
  friend class database;
  template <class Key>
  table_index<Row>& add(std::string name, uniqueness kind) {
    static_assert(std::is_empty_v<Key> && std::is_default_constructible_v<Key>,
                  "the key of a row depends on the row alone: a lambda without captures");
    static_assert(std::is_invocable_v<Key, const Row&>, "a key is computed from a const Row& of this table");
    using key_type = std::invoke_result_t<Key, const Row&>;
    static_assert(
        std::is_convertible_v<key_type, std::uint64_t> && !std::is_floating_point_v<key_type> &&
            sizeof(key_type) <= 8,
        "a key is a number of 64 bits; oltp::packed, hash_key and prefix_key make one of other columns");
    const key_function of = [](const std::byte* data) -> std::uint64_t {
      return static_cast<std::uint64_t>(Key{}(*reinterpret_cast<const Row*>(data)));
    };
    auto fresh = std::make_unique<table_index<Row>>(map_, std::move(name), kind, of, for_indexes_);
    return static_cast<table_index<Row>&>(add_index(std::move(fresh)));
  }

  std::string map_;
  index_resources for_indexes_;
  std::vector<column> columns_;
};

/// What the function of database::transact() is given. Keys of tables are those of their first index. Every operation may
/// end the attempt by an exception that the database catches (transaction.hpp, restart), and may throw std::bad_alloc. What
/// insert, update and erase throw undoes the transaction, even if the function catches it: transact() throws it again.
class transaction {
 public:
  static constexpr std::uint64_t last_key = std::numeric_limits<std::uint64_t>::max();

  // Reading. Say intent::write where the row will be changed, or inserted if it is absent: then two transactions do not both
  // read it first. In a range it is said of all rows and of the gaps between them.

  template <class Row>
  [[nodiscard]] found_row<Row> find(const table<Row>& in, std::uint64_t key, intent i = intent::read) {
    return found_row<Row>(core_.find(in.primary(), key, i));
  }
  /// By an index that is unique. Throws std::logic_error for another one.
  template <class Row>
  [[nodiscard]] found_row<Row> find(table_index<Row>& in, std::uint64_t key, intent i = intent::read) {
    if (!in.is_unique())
      throw std::logic_error("oltp: the index " + in.name() +
                             " may have several rows of a key; scan it from the key to the key");
    return found_row<Row>(core_.find(in, key, i));
  }
  /// Several at once, whose cache misses overlap: results[i] is that of find(in, keys[i]). Throws std::logic_error if there
  /// are more keys than results.
  template <class Row>
  void find_batch(const table<Row>& in, std::span<const std::uint64_t> keys,
                  std::span<found_row<std::type_identity_t<Row>>> results, intent i = intent::read) {
    if (results.size() < keys.size())
      throw std::logic_error("oltp: find_batch() has " + std::to_string(keys.size()) + " keys and room for " +
                             std::to_string(results.size()) + " results");
    std::array<transaction_core::found, together_most> found;
    while (!keys.empty()) {
      const std::size_t n = std::min(keys.size(), together_most);
      core_.find_batch(in.primary(), keys.first(n), found, i);
      for (std::size_t k = 0; k < n; ++k) results[k] = found_row<Row>(found[k]);
      keys = keys.subspan(n);
      results = results.subspan(n);
    }
  }
  /// Calls visitor(row) for the rows whose key is from `from` to `to`, both included, in order. It takes a const Row& or a
  /// found_row<Row> (as `const auto&` does), and may return a bool: whether to go on.
  template <class Row, class Visitor>
  void scan(table_index<Row>& in, std::uint64_t from, std::uint64_t to, Visitor&& visitor,
            intent i = intent::read) {
    core_.scan(in, from, to, i, rows_at_once,
               [&](const transaction_core::found& one) { return visit(visitor, found_row<Row>(one)); });
  }
  template <class Row, class Visitor>
  void scan(const table<Row>& in, std::uint64_t from, std::uint64_t to, Visitor&& visitor,
            intent i = intent::read) {
    scan(in.primary_index(), from, to, std::forward<Visitor>(visitor), i);
  }
  /// The first row of a range: no other one is locked, but for those of the same key.
  template <class Row>
  [[nodiscard]] found_row<Row> first(table_index<Row>& in, std::uint64_t from, std::uint64_t to,
                                     intent i = intent::read) {
    found_row<Row> result;
    core_.scan(in, from, to, i, 1, [&](const transaction_core::found& one) {
      result = found_row<Row>(one);
      return false;
    });
    return result;
  }

  template <class Row>
  [[nodiscard]] found_row<Row> first(const table<Row>& in, std::uint64_t from, std::uint64_t to,
                                     intent i = intent::read) {
    return first(in.primary_index(), from, to, i);
  }

  // Writing.

  /// False if there is a row with one of its unique keys.
  template <class Row>
  bool insert(table<Row>& into, const std::type_identity_t<Row>& r) {
    return core_.insert(into, reinterpret_cast<const std::byte*>(&r));
  }
  /// Calls change(row) with the row to write to. Throws std::logic_error if it changes the primary key, and duplicate_key if
  /// another row has its new key in a unique index.
  template <class Row, class Change>
  void update(const found_row<Row>& one, Change&& change) {
    core_.update(one.found_, [&](std::byte* data) { change(*reinterpret_cast<Row*>(data)); });
  }
  /// False if there is no row with the key.
  template <class Row, class Change>
  bool update(table<Row>& in, std::uint64_t key, Change&& change) {
    const found_row<Row> one = find_to_change(in, key);
    if (one) update(one, change);
    return static_cast<bool>(one);
  }
  template <class Row>
  void erase(const found_row<Row>& one) {
    core_.erase(one.found_);
  }
  template <class Row>
  bool erase(table<Row>& in, std::uint64_t key) {
    const found_row<Row> one = find_to_change(in, key);
    if (one) erase(one);
    return static_cast<bool>(one);
  }

  /// Undoes the transaction for good: transact() returns false.
  [[noreturn]] void roll_back() { core_.ask_for_roll_back(); }

 private:
  friend class database;
  static constexpr std::size_t rows_at_once = 16;
  explicit transaction(transaction_core& core) noexcept : core_(core) {}

  /// Where there is none, none is inserted.
  template <class Row>
  [[nodiscard]] found_row<Row> find_to_change(const table<Row>& in, std::uint64_t key) {
    return found_row<Row>(core_.find(in.primary(), key, intent::write, intent::read));
  }
  template <class Visitor, class Row>
  static bool visit(Visitor& visitor, const found_row<Row>& one) {
    const auto call = [&] {
      if constexpr (std::is_invocable_v<Visitor&, const found_row<Row>&>)
        return visitor(one);
      else
        return visitor(*one);
    };
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      return true;
    } else {
      return static_cast<bool>(call());
    }
  }

  transaction_core& core_;
};

class database {
 public:
  /// Throws std::invalid_argument, which lists the names, for an unknown map or placement, and for locks of less than 48 bytes
  /// or a number that is no multiple of 8.
  explicit database(const database_options& o = {});
  database(const database&) = delete;
  database& operator=(const database&) = delete;
  /// No thread may use it any more.
  ~database();

  [[nodiscard]] const database_options& chosen() const noexcept { return options_; }

  /// A table whose primary key is key(row): a lambda without captures, of a number of 64 bits. The schema is for messages.
  /// Throws std::invalid_argument if there is a table of this name, std::bad_alloc.
  template <class Row, class Key>
  table<Row>& create_table(std::string name, Key /*key*/, const schema<Row>& columns = {}) {
    require_new(name);
    auto fresh =
        std::make_unique<owned<Row>>(std::move(name), options_.lock_bytes, rows_, *shared_, options_.map,
                                     index_resources{indexes_, &shared_->domain}, columns.columns());
    fresh->it.template add<Key>("primary", uniqueness::unique);
    table<Row>& made = fresh->it;
    tables_.push_back(std::move(fresh));
    return made;
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
  /// Under Silo: the number of the calling thread's last commit, which has the epoch from bit shared_state::epoch_bit on.
  [[nodiscard]] std::uint64_t last_number() const;

  [[nodiscard]] memory_usage row_usage() const { return rows_.usage(); }
  /// With that of maps that take no placement. With one placement for all: of such maps alone, since row_usage() has the rest.
  [[nodiscard]] memory_usage index_usage() const;
  [[nodiscard]] const any_placement& row_placement() const noexcept { return rows_; }
  [[nodiscard]] const any_placement& index_placement() const noexcept { return indexes_; }
  /// Frees what erased rows have held, as far as running transactions permit. Not inside one.
  void collect() noexcept;

 private:
  struct session {
    own_counts counts;
    std::unique_ptr<transaction_core> core;  ///< of its thread alone; the counts are for others, too
    std::uint64_t age = 0;
    std::uint64_t transactions = 0;

    void recover_in_child(bool lost) noexcept {
      if (lost && core != nullptr) core->forget_thread();
    }
  };
  struct any_table {
    any_table() = default;
    any_table(const any_table&) = delete;
    any_table& operator=(const any_table&) = delete;
    virtual ~any_table() = default;
    [[nodiscard]] virtual table_base& base() noexcept = 0;
  };
  template <class Row>
  struct owned final : any_table {
    template <class... Arguments>
    explicit owned(Arguments&&... arguments) : it(std::forward<Arguments>(arguments)...) {}
    [[nodiscard]] table_base& base() noexcept override { return it; }
    table<Row> it;
  };

  /// Whether an attempt has committed.
  template <class Function>
  bool commits(Function&& function) {
    session& me = sessions_.local();
    begin(me);
    struct last_attempt {
      transaction_core& of;
      ~last_attempt() { of.leave_precedence(); }
    };
    const last_attempt ends{*me.core};
    unsigned attempts = 0;
    for (backoff pause;; pause.wait()) {
      start(me, attempts++);
      try {
        transaction t(*me.core);
        function(t);
        me.core->commit();
        return true;
      } catch (const restart& r) {
        if (r.of != me.core.get()) {
          me.core->roll_back(abort_reason::rolled_back);
          throw;
        }
        if (r.why == abort_reason::rolled_back) {
          if (end_for_good(me)) return false;
        } else {
          me.core->roll_back(r.why);
        }
      } catch (...) {
        if (end_for_good(me)) throw;
      }
    }
  }
  void require_new(const std::string& table_name) const;
  void begin(session& me);
  void start(session& me, unsigned attempts_before);
  /// Rolls the attempt back that the program has ended. False if it may have seen what no transaction can, as under Silo: then
  /// that was not the program's fault. Throws std::bad_alloc, when it is rolled back.
  bool end_for_good(session& me);

  database_options options_;
  any_placement rows_;
  any_placement indexes_;
  std::unique_ptr<shared_state> shared_;
  std::vector<std::unique_ptr<any_table>> tables_;
  mutable per_thread<session> sessions_;
};

}  // namespace espalier::oltp
