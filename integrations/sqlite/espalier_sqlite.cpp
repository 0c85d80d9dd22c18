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
#include <set>
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
// of the process with this name, until the last of their connections drops its table or is closed. Values are of any type.
//
// SQLite destroys a table's object and makes another one whenever it reads the schema again: after VACUUM, after a rollback
// of a CREATE, after another connection's CREATE. So entries and log belong to the connection, not to that object.
//
// What the map does for a query: key = ?, <, <=, >, >=, BETWEEN and IN as ranges, and ORDER BY key in both directions. A
// database of UTF-16 has texts in another order: there the map finds equal keys alone.
//
// Transactions. Each connection has for each map a log of the values that it replaced, so ROLLBACK, ROLLBACK TO and a statement that
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

/// The integer that a value equals, where it is compared with a column of integers.
[[nodiscard]] std::optional<std::int64_t> integer_in(sqlite3_value* from) {
  const int type = sqlite3_value_numeric_type(from);
  const double real = sqlite3_value_double(from);
  const bool is_whole = type == SQLITE_FLOAT && real >= -0x1p63 && real < 0x1p63 &&
                        static_cast<double>(static_cast<std::int64_t>(real)) == real;
  if (type != SQLITE_INTEGER && !is_whole) return std::nullopt;
  return sqlite3_value_int64(from);
}

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
    const std::optional<Key> whole = integer_in(from);
    if (!whole) throw refusal{SQLITE_MISMATCH, "a key of this table is an integer"};
    return *whole;
  }
}

/// What a query asks of the keys. xBestIndex states it in idxNum as a sum of these; xFilter gets the values in this order.
enum query : int {
  from_key = 1,
  behind_key = 2,
  to_key = 4,
  before_key = 8,
  one_key = 16,
  downwards = 32,
  any_key_of = 64
};

/// The one of a type that has this name, as long as it is in use.
template <class T, class Name>
[[nodiscard]] std::shared_ptr<T> known_as(const Name& name) {
  static std::mutex lock;
  static std::map<Name, std::weak_ptr<T>> all;
  const std::lock_guard held(lock);
  std::erase_if(all, [](const auto& of) { return of.second.expired(); });
  std::weak_ptr<T>& known = all[name];
  std::shared_ptr<T> one = known.lock();
  if (!one) known = one = std::make_shared<T>();
  return one;
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

/// The entries of a table, and what its connection may have to undo.
class contents {
 public:
  contents() = default;
  contents(const contents&) = delete;
  contents& operator=(const contents&) = delete;
  virtual ~contents() = default;
  [[nodiscard]] virtual cursor* open() = 0;
  virtual void update(sqlite3* connection, int count, sqlite3_value** values) = 0;
  /// False if there is no memory: then a part is undone.
  [[nodiscard]] virtual bool undo_to(std::size_t changes) noexcept = 0;
  [[nodiscard]] virtual std::size_t changes() const = 0;
  virtual void forget_changes() noexcept = 0;
  /// Leaves the map, whose tables are dropped. Statements that are prepared may still keep their objects.
  virtual void leave() noexcept = 0;

  std::vector<std::size_t> savepoints;  ///< how long the log was at each
  std::set<std::string> tables;         ///< of the connection, that have these contents
  bool is_undone_in_part = false;       ///< a transaction that has ended
};

/// Contents of a connection's tables, by what each table calls them.
using contents_of_connection = std::map<std::string, std::shared_ptr<contents>>;

/// SQLite's object.
struct table : sqlite3_vtab {
  std::shared_ptr<contents> of;
  std::string name;
  std::string contents_name;
  contents_of_connection* all = nullptr;
  sqlite3* connection = nullptr;
  bool is_unique = false;    ///< a comparison with a key finds no more than one
  bool is_in_order = false;  ///< the map has SQLite's order
  bool joins = false;        ///< a transaction, and was told of no savepoint
};

template <class Key>
class cursor_of final : public cursor {
 public:
  explicit cursor_of(std::shared_ptr<map_of<Key>> map) : map_(std::move(map)), at_(*map_) {}

  void filter(int asked, sqlite3_value** bounds) override {
    is_down_ = (asked & downwards) != 0;
    excludes_from_ = (asked & behind_key) != 0;
    excludes_to_ = (asked & before_key) != 0;
    from_.reset();
    to_.reset();
    is_empty_ = false;
    has_keys_ = (asked & any_key_of) != 0 && take_keys(*bounds);
    if (has_keys_) return seek_any();
    if ((asked & one_key) != 0) {
      if constexpr (std::is_same_v<Key, std::int64_t>) {
        from_ = integer_in(*bounds);
        is_empty_ = !from_;
      } else {
        bound(from_, excludes_from_, *bounds);
      }
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
  void next() override { has_keys_ ? seek_any() : step(); }
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
  /// Takes the keys of an IN. False if one has another type, and may equal any text: SQLite compares each row once more.
  [[nodiscard]] bool take_keys(sqlite3_value* all) {
    keys_.clear();
    sqlite3_value* one = nullptr;
    for (int code = sqlite3_vtab_in_first(all, &one); code != SQLITE_DONE;
         code = sqlite3_vtab_in_next(all, &one)) {
      if (code != SQLITE_OK) throw refusal{code, sqlite3_errstr(code)};
      if (sqlite3_value_type(one) == SQLITE_NULL) continue;
      if (sqlite3_value_type(one) != SQLITE_TEXT) return false;
      keys_.push_back(key_of<Key>(one));
    }
    std::sort(keys_.begin(), keys_.end());
    if (!is_down_) std::reverse(keys_.begin(), keys_.end());
    return true;
  }
  /// To the next key of them that the map has.
  void seek_any() {
    for (is_empty_ = true; is_empty_ && !keys_.empty(); keys_.pop_back()) {
      at_.seek(keys_.back());
      is_empty_ = !at_.valid() || at_.key() != keys_.back();
    }
  }
  void step() { is_down_ ? at_.previous() : at_.next(); }
  [[nodiscard]] bool is_before() const {
    return from_ && (excludes_from_ ? !(*from_ < at_.key()) : at_.key() < *from_);
  }
  [[nodiscard]] bool is_after() const {
    return to_ && (excludes_to_ ? !(at_.key() < *to_) : *to_ < at_.key());
  }

  const std::shared_ptr<map_of<Key>> map_;
  typename map_of<Key>::cursor at_;
  std::optional<Key> from_;
  std::optional<Key> to_;
  bool excludes_from_ = false;
  bool excludes_to_ = false;
  bool is_down_ = false;
  bool is_empty_ = true;
  bool has_keys_ = false;
  std::vector<Key> keys_;  ///< of an IN, the next one last
};

template <class Key>
class contents_of final : public contents {
 public:
  explicit contents_of(std::shared_ptr<map_of<Key>> map) : map_(std::move(map)) {}

  [[nodiscard]] cursor* open() override { return new cursor_of<Key>(map_); }

  /// As xUpdate has it: the former key, or NULL; the new key, which is in a column too; the columns.
  void update(sqlite3* connection, int count, sqlite3_value** values) override {
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

  [[nodiscard]] bool undo_to(std::size_t changes) noexcept override {
    try {
      for (; log_.size() > changes; log_.pop_back()) {
        auto& [key, before] = log_.back();
        if (before)
          map_->insert_or_assign(key, *before);  // a copy: what is moved may be lost where this throws
        else
          map_->erase(key);
      }
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }
  [[nodiscard]] std::size_t changes() const override { return log_.size(); }
  void forget_changes() noexcept override { log_.clear(); }
  void leave() noexcept override {
    savepoints.clear();
    log_.clear();
    map_.reset();
  }

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

/// Takes a name, which may be quoted, from the front of a declaration. What is left has no more than one space at a place.
[[nodiscard]] std::string take_name(std::string& declaration) {
  std::string all = trimmed(declaration);
  const char first = all.empty() ? ' ' : all[0];
  std::size_t end = all.find_first_of(" \t\r\n");
  if (first == '"' || first == '`' || first == '[') {
    const char last = first == '[' ? ']' : first;
    end = all.find(last, 1);
    // Twice it is the quotation mark itself.
    while (first != '[' && end != std::string::npos && end + 1 < all.size() && all[end + 1] == last)
      end = all.find(last, end + 2);
    if (end != std::string::npos) ++end;
  }
  declaration.clear();
  if (end == std::string::npos) return all;
  for (std::string rest = all.substr(end); !(rest = trimmed(rest)).empty();) {
    const std::size_t word = std::min(rest.find_first_of(" \t\r\n"), rest.size());
    declaration += (declaration.empty() ? "" : " ") + rest.substr(0, word);
    rest.erase(0, word);
  }
  return all.substr(0, end);
}

/// Whether a comparison of texts in the database is one of the map. False where the program's authorizer refuses the question.
[[nodiscard]] bool has_utf8(sqlite3* connection) {
  sqlite3_stmt* asks = nullptr;
  const int code = sqlite3_prepare_v2(connection, "PRAGMA encoding", -1, &asks, nullptr);
  if (code == SQLITE_AUTH) return false;
  if (code != SQLITE_OK) throw refusal{code, sqlite3_errmsg(connection)};
  const bool is_utf8 =
      sqlite3_step(asks) == SQLITE_ROW &&
      sqlite3_stricmp(reinterpret_cast<const char*>(sqlite3_column_text(asks, 0)), "UTF-8") == 0;
  sqlite3_finalize(asks);
  return is_utf8;
}

/// The contents that a table had before, or new ones.
template <class Key>
void find_contents(table& t, const std::string& shared, bool creates) {
  std::shared_ptr<contents>& known = (*t.all)[t.contents_name];
  if (dynamic_cast<contents_of<Key>*>(known.get()) == nullptr || (creates && shared.empty()))
    known = std::make_shared<contents_of<Key>>(shared.empty() ? std::make_shared<map_of<Key>>()
                                                              : known_as<map_of<Key>>(shared));
  known->tables.insert(t.name);
  t.of = known;
}

int make_table(bool creates, sqlite3* connection, void* contents, int count, const char* const* arguments,
               sqlite3_vtab** made, char** message) {
  return guarded(message, [&] {
    constexpr int given = 3;  // after the names of the module, the database and the table
    const refusal usage{
        SQLITE_ERROR,
        "the arguments are: key INTEGER or key TEXT, the name of a value, and perhaps shared=NAME"};
    if (count != given + 2 && count != given + 3) throw usage;
    std::string type = arguments[given];
    const std::string key = take_name(type);
    const auto is_said = [&type](const char* words) { return sqlite3_stricmp(type.c_str(), words) == 0; };
    const bool is_text = is_said("TEXT") || is_said("TEXT PRIMARY KEY");
    if (!is_text && !is_said("INTEGER") && !is_said("INTEGER PRIMARY KEY")) throw usage;
    std::string behind_value = arguments[given + 1];
    const std::string value_name = take_name(behind_value);
    if (value_name.empty() || !behind_value.empty()) throw usage;
    std::string shared;
    if (count == given + 3) {
      constexpr std::string_view option = "shared=";
      const std::string last = trimmed(arguments[given + 2]);
      if (!last.starts_with(option)) throw usage;
      shared = last.substr(option.size());
      if (shared.empty()) throw usage;
    }
    const std::string columns = "CREATE TABLE t(" + key + (is_text ? " TEXT" : " INTEGER") +
                                " NOT NULL PRIMARY KEY, " + value_name + ") WITHOUT ROWID";
    if (const int code = sqlite3_declare_vtab(connection, columns.c_str()); code != SQLITE_OK)
      throw refusal{code, sqlite3_errmsg(connection)};
    sqlite3_vtab_config(connection, SQLITE_VTAB_CONSTRAINT_SUPPORT, 1);

    auto t = std::make_unique<table>();
    t->connection = connection;
    t->all = static_cast<std::shared_ptr<contents_of_connection>*>(contents)->get();
    // A text may equal numbers in several ways: '7' and '7.0' are 7.
    t->is_unique = !is_text;
    t->is_in_order = !is_text || has_utf8(connection);
    const char* const file = sqlite3_db_filename(connection, arguments[1]);
    t->name = std::string(file != nullptr ? file : "") + '\n' + arguments[1] + '\n' + arguments[2];
    t->contents_name = shared.empty() ? t->name : (is_text ? "text " : "integer ") + shared;
    if (is_text)
      find_contents<std::string>(*t, shared, creates);
    else
      find_contents<std::int64_t>(*t, shared, creates);
    *made = t.release();
  });
}
int create(sqlite3* connection, void* contents, int count, const char* const* arguments, sqlite3_vtab** made,
           char** message) {
  return make_table(true, connection, contents, count, arguments, made, message);
}
int connect(sqlite3* connection, void* contents, int count, const char* const* arguments, sqlite3_vtab** made,
            char** message) {
  return make_table(false, connection, contents, count, arguments, made, message);
}

int disconnect(sqlite3_vtab* t) {
  delete &table_at(t);
  return SQLITE_OK;
}
int destroy(sqlite3_vtab* t) {
  table& of = table_at(t);
  of.of->tables.erase(of.name);
  if (of.of->tables.empty()) {
    of.of->leave();
    if (const auto known = of.all->find(of.contents_name); known != of.all->end() && known->second == of.of)
      of.all->erase(known);
  }
  return disconnect(t);
}
/// Its contents would still have the old name, also where the renaming is rolled back.
int rename(sqlite3_vtab* t, const char*) {
  return guarded(&t->zErrMsg, [] { throw refusal{SQLITE_ERROR, "a table keeps its name"}; });
}

int best_index(sqlite3_vtab* t, sqlite3_index_info* info) {
  const table& of = table_at(t);
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
        if (low >= 0 || !of.is_in_order) break;  // SQLite compares each row once more
        low = i;
        asked |= c.op == SQLITE_INDEX_CONSTRAINT_GT ? behind_key : from_key;
        break;
      case SQLITE_INDEX_CONSTRAINT_LT:
      case SQLITE_INDEX_CONSTRAINT_LE:
        if (high >= 0 || !of.is_in_order) break;
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
    if (of.is_unique) info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
    // One by one SQLite would compare all that a SELECT has as texts: '7' would equal a value 7.
    if (!of.is_unique && sqlite3_libversion_number() >= 3'038'000 && sqlite3_vtab_in(info, equal, 1) != 0)
      asked = any_key_of;
    info->estimatedRows = 1;
    info->estimatedCost = 1;
  } else {
    use(low);
    use(high);
    constexpr sqlite3_int64 all = 1'000'000;  // the planner needs some number
    info->estimatedRows = all >> (2 * place);
    info->estimatedCost = static_cast<double>(info->estimatedRows);
  }
  if (of.is_in_order && info->nOrderBy == 1 && info->aOrderBy[0].iColumn == 0) {
    info->orderByConsumed = 1;
    if (info->aOrderBy[0].desc != 0) asked |= downwards;
  }
  info->idxNum = asked;
  return SQLITE_OK;
}

/// SQLite takes no error of a rollback. What it has left is undone before anything sees it.
int complete_rollback(contents& of) {
  if (of.is_undone_in_part) of.is_undone_in_part = !of.undo_to(0);
  return of.is_undone_in_part ? SQLITE_NOMEM : SQLITE_OK;
}

int open(sqlite3_vtab* t, sqlite3_vtab_cursor** made) {
  if (const int code = complete_rollback(*table_at(t).of); code != SQLITE_OK) return code;
  return guarded(&t->zErrMsg, [&] { *made = table_at(t).of->open(); });
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
  return guarded(&t->zErrMsg, [&] { table_at(t).of->update(table_at(t).connection, count, values); });
}

int begin(sqlite3_vtab* t) {
  table_at(t).joins = true;
  return complete_rollback(*table_at(t).of);
}
int commit(sqlite3_vtab* t) {
  contents& of = *table_at(t).of;
  of.savepoints.clear();
  of.forget_changes();
  return SQLITE_OK;
}
int rollback(sqlite3_vtab* t) {
  contents& of = *table_at(t).of;
  of.savepoints.clear();
  of.is_undone_in_part = true;
  return complete_rollback(of);
}
int savepoint(sqlite3_vtab* t, int n) {
  return guarded(&t->zErrMsg, [&] {
    auto& all = table_at(t).of->savepoints;
    // Another table with these contents came before, and they have changed since.
    if (std::exchange(table_at(t).joins, false) && all.size() > static_cast<std::size_t>(n)) return;
    all.resize(std::min(all.size(), static_cast<std::size_t>(n)));
    // Those that are left out were made before the table was used.
    all.resize(static_cast<std::size_t>(n) + 1, table_at(t).of->changes());
  });
}
/// How many savepoints are left behind number n. Number -1 is the savepoint that began the transaction.
std::size_t savepoints_before(const contents& of, int n) {
  return std::min(of.savepoints.size(), static_cast<std::size_t>(std::max(n, 0)));
}
int release(sqlite3_vtab* t, int n) {
  contents& of = *table_at(t).of;
  of.savepoints.erase(of.savepoints.begin() + static_cast<std::ptrdiff_t>(savepoints_before(of, n)),
                      of.savepoints.end());
  return SQLITE_OK;
}
int rollback_to(sqlite3_vtab* t, int n) {
  contents& of = *table_at(t).of;
  const std::size_t at = savepoints_before(of, n);
  if (n < 0 ? !of.undo_to(0) : at < of.savepoints.size() && !of.undo_to(of.savepoints[at]))
    return SQLITE_NOMEM;
  // The savepoint itself stays.
  const std::size_t kept = n < 0 ? 0 : std::min(of.savepoints.size(), at + 1);
  of.savepoints.erase(of.savepoints.begin() + static_cast<std::ptrdiff_t>(kept), of.savepoints.end());
  return SQLITE_OK;
}

constexpr sqlite3_module make_module() {
  sqlite3_module m{};
  m.iVersion = 2;
  m.xCreate = create;
  m.xConnect = connect;
  m.xBestIndex = best_index;
  m.xDisconnect = disconnect;
  m.xDestroy = destroy;
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
  m.xRename = rename;
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
  using espalier::sqlite::contents_of_connection;
  static const sqlite3_module module = espalier::sqlite::make_module();
  using owned_contents = std::shared_ptr<contents_of_connection>;
  try {
    // A connection that loads the extension again has a second module, with the same contents. SQLite deletes what it is
    // given, also where this fails.
    return sqlite3_create_module_v2(
        connection, "espalier", &module,
        new owned_contents(espalier::sqlite::known_as<contents_of_connection>(connection)),
        [](void* owned) { delete static_cast<owned_contents*>(owned); });
  } catch (const std::bad_alloc&) {
    return SQLITE_NOMEM;
  }
}
