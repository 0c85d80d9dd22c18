#include <sqlite3ext.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "espalier/map/ordered/ordered_map.hpp"

// A virtual table of SQLite that is an espalier::ordered_map, as a loadable extension:
//
//     .load libespalier_sqlite
//     CREATE VIRTUAL TABLE t USING espalier(key INTEGER, value);          -- or key TEXT, in the order of its bytes
//     CREATE VIRTUAL TABLE t USING espalier(key INTEGER, value, shared=NAME);
//
// The entries are in memory. Those of a table without a name are the connection's. Those with one are common to all tables
// of the process with this name, until the last of them is closed. Values are of any type.
//
// What the map does for a query: key = ?, <, <=, >, >=, BETWEEN and IN as ranges, and ORDER BY key in both directions.
//
// Transactions. Each connection has a log of the values that it replaced, so ROLLBACK, ROLLBACK TO and a statement that
// fails restore what they were. There is no isolation: other connections see a change at once, and a rollback overwrites
// what they have since written to the same keys. One row is changed in one atomic step.

SQLITE_EXTENSION_INIT1

namespace espalier::sqlite {
namespace {

struct text {
  std::string bytes;
};
struct blob {
  std::string bytes;
};
using value = std::variant<std::nullptr_t, std::int64_t, double, text, blob>;

[[nodiscard]] std::string_view bytes_of(sqlite3_value* from) {
  const void* const bytes = sqlite3_value_blob(from);
  return {static_cast<const char*>(bytes), static_cast<std::size_t>(sqlite3_value_bytes(from))};
}
[[nodiscard]] std::string text_of(sqlite3_value* from) {
  const auto* const bytes = reinterpret_cast<const char*>(sqlite3_value_text(from));
  if (bytes == nullptr) throw std::bad_alloc();
  return {bytes, static_cast<std::size_t>(sqlite3_value_bytes(from))};
}
[[nodiscard]] value value_of(sqlite3_value* from) {
  switch (sqlite3_value_type(from)) {
    case SQLITE_INTEGER:
      return std::int64_t{sqlite3_value_int64(from)};
    case SQLITE_FLOAT:
      return sqlite3_value_double(from);
    case SQLITE_TEXT:
      return text{text_of(from)};
    case SQLITE_BLOB:
      return blob{std::string(bytes_of(from))};
    default:
      return nullptr;
  }
}

void give(sqlite3_context* to, std::nullptr_t) { sqlite3_result_null(to); }
void give(sqlite3_context* to, std::int64_t n) { sqlite3_result_int64(to, n); }
void give(sqlite3_context* to, double n) { sqlite3_result_double(to, n); }
void give(sqlite3_context* to, const std::string& s) {
  sqlite3_result_text64(to, s.data(), s.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}
void give(sqlite3_context* to, const text& t) { give(to, t.bytes); }
void give(sqlite3_context* to, const blob& b) {
  sqlite3_result_blob64(to, b.bytes.data(), b.bytes.size(), SQLITE_TRANSIENT);
}

/// A request that the table cannot do.
struct refusal {
  int code;
  std::string message;
};

/// The key that a row is to have.
template <class Key>
[[nodiscard]] Key key_of(sqlite3_value* from) {
  if (sqlite3_value_type(from) == SQLITE_NULL)
    throw refusal{SQLITE_CONSTRAINT_NOTNULL, "a key may not be NULL"};
  if constexpr (std::is_same_v<Key, std::string>) {
    if (sqlite3_value_type(from) == SQLITE_BLOB)
      throw refusal{SQLITE_MISMATCH, "a key of this table is a text"};
    return text_of(from);
  } else {
    const int type = sqlite3_value_numeric_type(from);
    const double real = sqlite3_value_double(from);
    const bool is_whole = type == SQLITE_FLOAT && real >= -0x1p63 && real < 0x1p63 &&
                          static_cast<double>(static_cast<std::int64_t>(real)) == real;
    if (type != SQLITE_INTEGER && !is_whole)
      throw refusal{SQLITE_MISMATCH, "a key of this table is an integer"};
    return sqlite3_value_int64(from);
  }
}

/// What a query asks of the keys. xBestIndex states it in idxNum as a sum of these; xFilter gets the values in this order.
enum query : int { from_key = 1, behind_key = 2, to_key = 4, before_key = 8, one_key = 16, downwards = 32 };

/// Maps in use, by what tables call them.
template <class Map>
[[nodiscard]] std::shared_ptr<Map> map_named(const std::string& name) {
  static std::mutex lock;
  static std::map<std::string, std::weak_ptr<Map>> all;
  const std::lock_guard held(lock);
  std::weak_ptr<Map>& known = all[name];
  std::shared_ptr<Map> map = known.lock();
  if (!map) known = map = std::make_shared<Map>();
  return map;
}

template <class Key>
using map_of = ordered_map<Key, value>;

class cursor : public sqlite3_vtab_cursor {
 public:
  cursor() : sqlite3_vtab_cursor() {}
  cursor(const cursor&) = delete;
  cursor& operator=(const cursor&) = delete;
  virtual ~cursor() = default;
  virtual void filter(int asked, sqlite3_value** bounds) = 0;
  virtual void next() = 0;
  [[nodiscard]] virtual bool at_end() const = 0;
  virtual void column(sqlite3_context* to, int column) const = 0;
};

class table : public sqlite3_vtab {
 public:
  explicit table(sqlite3* of) : sqlite3_vtab(), connection(of) {}
  table(const table&) = delete;
  table& operator=(const table&) = delete;
  virtual ~table() = default;
  [[nodiscard]] virtual cursor* open() = 0;
  virtual void update(int count, sqlite3_value** values) = 0;
  virtual void undo_to(std::size_t changes) noexcept = 0;
  [[nodiscard]] virtual std::size_t changes() const = 0;
  virtual void forget_changes() noexcept = 0;

  sqlite3* const connection;
  std::vector<std::size_t> savepoints;  ///< how long the log was at each
};

template <class Key>
class cursor_of final : public cursor {
 public:
  explicit cursor_of(const map_of<Key>& map) : at_(map) {}

  void filter(int asked, sqlite3_value** bounds) override {
    is_down_ = (asked & downwards) != 0;
    excludes_from_ = (asked & behind_key) != 0;
    excludes_to_ = (asked & before_key) != 0;
    from_.reset();
    to_.reset();
    is_empty_ = false;
    if ((asked & one_key) != 0) {
      bound(from_, excludes_from_, *bounds);
      to_ = from_;
    } else {
      if ((asked & (from_key | behind_key)) != 0) bound(from_, excludes_from_, *bounds++);
      if ((asked & (to_key | before_key)) != 0) bound(to_, excludes_to_, *bounds);
    }
    if (is_empty_) return;
    if (is_down_)
      seek_last();
    else if (from_)
      at_.seek(*from_);
    else
      at_.seek_first();
    while (at_.valid() && (is_down_ ? is_after() : is_before())) step();
  }
  void next() override { step(); }
  [[nodiscard]] bool at_end() const override {
    return is_empty_ || !at_.valid() || (is_down_ ? is_before() : is_after());
  }
  void column(sqlite3_context* to, int column) const override {
    if (column == 0) return give(to, at_.key());
    std::visit([to](const auto& v) { give(to, v); }, at_.value());
  }

 private:
  /// A bound of another type than the keys is left out: SQLite compares each row once more.
  void bound(std::optional<Key>& to, bool& excludes, sqlite3_value* from) {
    constexpr int own = std::is_same_v<Key, std::string> ? SQLITE_TEXT : SQLITE_INTEGER;
    const int type = sqlite3_value_type(from);
    if (type == SQLITE_NULL) is_empty_ = true;  // compares with nothing
    if (type != own) {
      excludes = false;
      return;
    }
    to = key_of<Key>(from);
  }
  void seek_last() {
    if (!to_) return at_.seek_last();
    at_.seek(*to_);
    if (!at_.valid())
      at_.seek_last();
    else if (is_after())
      at_.previous();
  }
  void step() { is_down_ ? at_.previous() : at_.next(); }
  [[nodiscard]] bool is_before() const {
    return from_ && (excludes_from_ ? !(*from_ < at_.key()) : at_.key() < *from_);
  }
  [[nodiscard]] bool is_after() const {
    return to_ && (excludes_to_ ? !(at_.key() < *to_) : *to_ < at_.key());
  }

  typename map_of<Key>::cursor at_;
  std::optional<Key> from_;
  std::optional<Key> to_;
  bool excludes_from_ = false;
  bool excludes_to_ = false;
  bool is_down_ = false;
  bool is_empty_ = true;
};

template <class Key>
class table_of final : public table {
 public:
  table_of(sqlite3* of, std::shared_ptr<map_of<Key>> map) : table(of), map_(std::move(map)) {}

  [[nodiscard]] cursor* open() override { return new cursor_of<Key>(*map_); }

  /// As xUpdate has it: the former key, or NULL; the new key, which is in a column too; the columns.
  void update(int count, sqlite3_value** values) override {
    const bool has_former = sqlite3_value_type(values[0]) != SQLITE_NULL;
    if (count == 1) return erase(key_of<Key>(values[0]));
    const Key key = key_of<Key>(values[2]);
    value fresh = value_of(values[3]);
    if (!has_former || key_of<Key>(values[0]) != key) {
      // Before any change: SQLite does what the statement says of conflicts.
      const bool replaces = sqlite3_vtab_on_conflict(connection) == SQLITE_REPLACE;
      if (!replaces) {
        if (!logged(key, [&](auto&) { return map_->insert(key, fresh); }))
          throw refusal{SQLITE_CONSTRAINT_PRIMARYKEY, "the table has this key"};
        if (has_former) erase(key_of<Key>(values[0]));
        return;
      }
      if (has_former) erase(key_of<Key>(values[0]));
    }
    logged(key, [&](auto& before) {
      before = map_->exchange(key, std::move(fresh));
      return true;
    });
  }

  void undo_to(std::size_t changes) noexcept override {
    for (; log_.size() > changes; log_.pop_back()) {
      auto& [key, before] = log_.back();
      if (before)
        map_->insert_or_assign(key, std::move(*before));
      else
        map_->erase(key);
    }
  }
  [[nodiscard]] std::size_t changes() const override { return log_.size(); }
  void forget_changes() noexcept override { log_.clear(); }

 private:
  /// A change of a key's entry, which stores what was there before. False, from it too, if it has changed nothing.
  template <class Change>
  bool logged(const Key& key, const Change& change) {
    auto& [of, before] = log_.emplace_back(key, std::nullopt);
    bool changed = false;
    try {
      changed = change(before);
    } catch (...) {
      log_.pop_back();
      throw;
    }
    if (!changed) log_.pop_back();
    return changed;
  }
  void erase(const Key& key) {
    // Another connection may have been first.
    logged(key, [&](auto& before) {
      before = map_->extract(key);
      return before.has_value();
    });
  }

  std::shared_ptr<map_of<Key>> map_;
  std::vector<std::pair<Key, std::optional<value>>>
      log_;  ///< what changed keys had, since the transaction began
};

// What SQLite calls ---------------------------------------------------------------------------------------------------

/// Calls f, of which no exception reaches SQLite.
template <class F>
[[nodiscard]] int guarded(char** message, const F& f) noexcept {
  try {
    f();
    return SQLITE_OK;
  } catch (const refusal& r) {
    sqlite3_free(*message);
    *message = sqlite3_mprintf("espalier: %s", r.message.c_str());
    return r.code;
  } catch (const std::bad_alloc&) {
    return SQLITE_NOMEM;
  } catch (const std::exception& e) {
    sqlite3_free(*message);
    *message = sqlite3_mprintf("espalier: %s", e.what());
    return SQLITE_ERROR;
  }
}
[[nodiscard]] table& table_at(sqlite3_vtab* t) { return *static_cast<table*>(t); }
[[nodiscard]] cursor& cursor_at(sqlite3_vtab_cursor* c) { return *static_cast<cursor*>(c); }

[[nodiscard]] std::string trimmed(std::string_view s) {
  constexpr std::string_view space = " \t\r\n";
  const std::size_t first = s.find_first_not_of(space);
  if (first == std::string_view::npos) return {};
  return std::string(s.substr(first, s.find_last_not_of(space) - first + 1));
}

template <class Key>
[[nodiscard]] table* make_table(sqlite3* connection, const std::string& shared) {
  return new table_of<Key>(connection,
                           shared.empty() ? std::make_shared<map_of<Key>>() : map_named<map_of<Key>>(shared));
}

int connect(sqlite3* connection, void*, int count, const char* const* arguments, sqlite3_vtab** made,
            char** message) {
  return guarded(message, [&] {
    constexpr int given = 3;  // after the names of the module, the database and the table
    const refusal usage{
        SQLITE_ERROR,
        "the arguments are: key INTEGER or key TEXT, the name of a value, and perhaps shared=NAME"};
    if (count != given + 2 && count != given + 3) throw usage;
    std::string key = trimmed(arguments[given]);
    constexpr std::string_view said_anyway = " primary key";
    if (key.size() > said_anyway.size() &&
        sqlite3_stricmp(&key[key.size() - said_anyway.size()], said_anyway.data()) == 0)
      key = trimmed(std::string_view(key).substr(0, key.size() - said_anyway.size()));
    const std::size_t end = key.find_last_of(" \t\r\n");
    if (end == std::string::npos) throw usage;
    const std::string type = key.substr(end + 1);
    const bool is_text = sqlite3_stricmp(type.c_str(), "TEXT") == 0;
    if (!is_text && sqlite3_stricmp(type.c_str(), "INTEGER") != 0) throw usage;
    const std::string value_name = trimmed(arguments[given + 1]);
    std::string shared;
    if (count == given + 3) {
      constexpr std::string_view option = "shared=";
      const std::string last = trimmed(arguments[given + 2]);
      if (!last.starts_with(option)) throw usage;
      shared = last.substr(option.size());
      if (shared.empty()) throw usage;
    }
    const std::string columns =
        "CREATE TABLE t(" + key + " NOT NULL PRIMARY KEY, " + value_name + ") WITHOUT ROWID";
    if (const int code = sqlite3_declare_vtab(connection, columns.c_str()); code != SQLITE_OK)
      throw refusal{code, sqlite3_errmsg(connection)};
    sqlite3_vtab_config(connection, SQLITE_VTAB_CONSTRAINT_SUPPORT, 1);
    *made =
        is_text ? make_table<std::string>(connection, shared) : make_table<std::int64_t>(connection, shared);
  });
}

int disconnect(sqlite3_vtab* t) {
  delete &table_at(t);
  return SQLITE_OK;
}

int best_index(sqlite3_vtab*, sqlite3_index_info* info) {
  int equal = -1;
  int low = -1;
  int high = -1;
  int asked = 0;
  for (int i = 0; i < info->nConstraint; ++i) {
    const auto& c = info->aConstraint[i];
    if (c.usable == 0 || c.iColumn != 0) continue;
    if (sqlite3_stricmp(sqlite3_vtab_collation(info, i), "BINARY") != 0) continue;
    switch (c.op) {
      case SQLITE_INDEX_CONSTRAINT_EQ:
        equal = i;
        break;
      case SQLITE_INDEX_CONSTRAINT_GT:
      case SQLITE_INDEX_CONSTRAINT_GE:
        if (low >= 0) break;  // SQLite compares each row once more
        low = i;
        asked |= c.op == SQLITE_INDEX_CONSTRAINT_GT ? behind_key : from_key;
        break;
      case SQLITE_INDEX_CONSTRAINT_LT:
      case SQLITE_INDEX_CONSTRAINT_LE:
        if (high >= 0) break;
        high = i;
        asked |= c.op == SQLITE_INDEX_CONSTRAINT_LT ? before_key : to_key;
        break;
      default:
        break;
    }
  }
  int place = 0;
  const auto use = [&](int i) {
    if (i >= 0) info->aConstraintUsage[i].argvIndex = ++place;
  };
  if (equal >= 0) {
    asked = one_key;
    use(equal);
    info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
    info->estimatedRows = 1;
    info->estimatedCost = 1;
  } else {
    use(low);
    use(high);
    constexpr sqlite3_int64 all = 1'000'000;  // the planner needs some number
    info->estimatedRows = all >> (2 * place);
    info->estimatedCost = static_cast<double>(info->estimatedRows);
  }
  if (info->nOrderBy == 1 && info->aOrderBy[0].iColumn == 0) {
    info->orderByConsumed = 1;
    if (info->aOrderBy[0].desc != 0) asked |= downwards;
  }
  info->idxNum = asked;
  return SQLITE_OK;
}

int open(sqlite3_vtab* t, sqlite3_vtab_cursor** made) {
  return guarded(&t->zErrMsg, [&] { *made = table_at(t).open(); });
}
int close(sqlite3_vtab_cursor* c) {
  delete &cursor_at(c);
  return SQLITE_OK;
}
int filter(sqlite3_vtab_cursor* c, int asked, const char*, int, sqlite3_value** bounds) {
  return guarded(&c->pVtab->zErrMsg, [&] { cursor_at(c).filter(asked, bounds); });
}
int next(sqlite3_vtab_cursor* c) {
  return guarded(&c->pVtab->zErrMsg, [&] { cursor_at(c).next(); });
}
int at_end(sqlite3_vtab_cursor* c) { return cursor_at(c).at_end() ? 1 : 0; }
int column(sqlite3_vtab_cursor* c, sqlite3_context* to, int n) {
  return guarded(&c->pVtab->zErrMsg, [&] { cursor_at(c).column(to, n); });
}
/// Of tables with rowids, which these are not.
int rowid(sqlite3_vtab_cursor*, sqlite3_int64*) { return SQLITE_ERROR; }

int update(sqlite3_vtab* t, int count, sqlite3_value** values, sqlite3_int64*) {
  return guarded(&t->zErrMsg, [&] { table_at(t).update(count, values); });
}

int begin(sqlite3_vtab*) { return SQLITE_OK; }
int commit(sqlite3_vtab* t) {
  table_at(t).savepoints.clear();
  table_at(t).forget_changes();
  return SQLITE_OK;
}
int rollback(sqlite3_vtab* t) {
  table_at(t).savepoints.clear();
  table_at(t).undo_to(0);
  return SQLITE_OK;
}
int savepoint(sqlite3_vtab* t, int n) {
  return guarded(&t->zErrMsg, [&] {
    auto& all = table_at(t).savepoints;
    all.resize(std::min(all.size(), static_cast<std::size_t>(n)));
    // Those that are left out were made before the table was used.
    all.resize(static_cast<std::size_t>(n) + 1, table_at(t).changes());
  });
}
/// How many savepoints are left behind number n. Number -1 is the savepoint that began the transaction.
std::size_t savepoints_before(const table& t, int n) {
  return std::min(t.savepoints.size(), static_cast<std::size_t>(std::max(n, 0)));
}
int release(sqlite3_vtab* t, int n) {
  table& of = table_at(t);
  of.savepoints.erase(of.savepoints.begin() + static_cast<std::ptrdiff_t>(savepoints_before(of, n)),
                      of.savepoints.end());
  return SQLITE_OK;
}
int rollback_to(sqlite3_vtab* t, int n) {
  table& of = table_at(t);
  if (n < 0) of.undo_to(0);
  const std::size_t at = savepoints_before(of, n);
  if (n >= 0 && at < of.savepoints.size()) of.undo_to(of.savepoints[at]);
  // The savepoint itself stays.
  const std::size_t kept = n < 0 ? 0 : std::min(of.savepoints.size(), at + 1);
  of.savepoints.erase(of.savepoints.begin() + static_cast<std::ptrdiff_t>(kept), of.savepoints.end());
  return SQLITE_OK;
}

constexpr sqlite3_module make_module() {
  sqlite3_module m{};
  m.iVersion = 2;
  m.xCreate = connect;
  m.xConnect = connect;
  m.xBestIndex = best_index;
  m.xDisconnect = disconnect;
  m.xDestroy = disconnect;
  m.xOpen = open;
  m.xClose = close;
  m.xFilter = filter;
  m.xNext = next;
  m.xEof = at_end;
  m.xColumn = column;
  m.xRowid = rowid;
  m.xUpdate = update;
  m.xBegin = begin;
  m.xCommit = commit;
  m.xRollback = rollback;
  m.xSavepoint = savepoint;
  m.xRelease = release;
  m.xRollbackTo = rollback_to;
  return m;
}

}  // namespace
}  // namespace espalier::sqlite

/// SQLite looks for this name in libespalier_sqlite.so.
extern "C" __attribute__((visibility("default"))) int sqlite3_espaliersqlite_init(
    sqlite3* connection, char**, const sqlite3_api_routines* api) {
  SQLITE_EXTENSION_INIT2(api);
  static const sqlite3_module module = espalier::sqlite::make_module();
  return sqlite3_create_module_v2(connection, "espalier", &module, nullptr, nullptr);
}
