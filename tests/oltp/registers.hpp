#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "espalier/oltp/database.hpp"
#include "oltp/serializability.hpp"

// Random small transactions on registers that hold lists, and the history of those that have committed.
//
// A register lies in one of two rows, or in none while it is an empty list. A move erases the row and inserts the other one. So
// inserts, erases and looks for absent rows take part in each history. A second index, of several rows a key, has the
// registers by their colour, which an append may change.

namespace espalier::test {

struct register_row {
  static constexpr std::size_t most = 60;
  std::uint64_t key = 0;  ///< 2 * register + place
  std::uint64_t colour = 0;
  std::uint64_t count = 0;
  std::array<std::uint64_t, most> list{};

  [[nodiscard]] std::vector<std::uint64_t> values() const {
    return {list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count)};
  }
};

using steps_of_a_transaction = std::function<void(oltp::transaction&, committed&)>;
/// Called between the steps of a transaction, for a test that wants other threads to run there.
using between_steps = std::function<void()>;

class registers {
 public:
  static constexpr std::uint64_t colours = 3;

  /// So many registers in each of some groups.
  registers(const oltp::database_options& o, std::uint64_t in_group, std::uint64_t groups = 1)
      : in_group_(in_group),
        count_(in_group * groups),
        database_(o),
        rows_(database_.create_table<register_row>("registers", [](const register_row& r) { return r.key; })),
        by_colour_(rows_.create_index("by colour", oltp::uniqueness::many,
                                      [](const register_row& r) { return r.colour; })) {}

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] oltp::database& database() noexcept { return database_; }

  /// One transaction of one to three steps, on the registers and colours of a group alone. `random` returns numbers; `value`
  /// begins at a number that no other has.
  committed run(unsigned thread, const std::function<std::uint64_t()>& random, std::uint64_t value,
                const between_steps& between, std::uint64_t group = 0) {
    struct step {
      unsigned what;
      std::uint64_t at, to;
    };
    std::vector<step> steps;
    for (std::uint64_t n = 1 + random() % 3; n != 0; --n) {
      const std::uint64_t at = random() % in_group_;
      const std::uint64_t to = at + random() % (in_group_ - at);
      const std::uint64_t first = group * in_group_;
      steps.push_back({static_cast<unsigned>(random() % 12), first + at, first + to});
    }
    const std::uint64_t colour = group * colours + random() % colours;
    return commit(thread, [&](oltp::transaction& t, committed& did) {
      std::uint64_t next = value;
      for (const step& s : steps) {
        between();
        if (s.what < 3)
          read(t, s.at, did);
        else if (s.what < 6)
          append(t, s.at, next++, colour, did);
        else if (s.what < 9)
          move(t, s.at, next++, did);
        else if (s.what < 11)
          read_range(t, s.at, s.to, did);
        else
          read_colour(t, colour, did);
      }
      between();
    });
  }
  committed commit(unsigned thread, const steps_of_a_transaction& steps) {
    committed did;
    database_.transact([&](oltp::transaction& t) {
      did = {};
      did.thread = thread;
      steps(t, did);
    });
    did.epoch = database_.last_number() >> oltp::engine::shared_state::epoch_bit;
    return did;
  }
  /// What is wrong with the history of some threads, or nothing. To be asked at the end.
  std::optional<std::string> fault_of(std::span<const std::vector<committed>> by_thread) {
    std::vector<committed> history;
    for (const auto& one : by_thread) history.insert(history.end(), one.begin(), one.end());
    history.push_back(commit(static_cast<unsigned>(by_thread.size()),
                             [this](auto& t, committed& did) { read_range(t, 0, count_ - 1, did); }));
    history.back().epoch = ~std::uint64_t{0};
    return serialization_graph(history).fault();
  }

  // The steps, for scenes.

  oltp::found_row<register_row> find(oltp::transaction& t, std::uint64_t at,
                                     oltp::intent i = oltp::intent::read) {
    const auto first = t.find(rows_, 2 * at, i);
    return first ? first : t.find(rows_, 2 * at + 1, i);
  }
  void read(oltp::transaction& t, std::uint64_t at, committed& did) {
    const auto r = find(t, at);
    note(at, r ? r->values() : std::vector<std::uint64_t>(), did);
  }
  void append(oltp::transaction& t, std::uint64_t at, std::uint64_t value, std::uint64_t colour,
              committed& did) {
    const auto r = find(t, at);
    note(at, r ? r->values() : std::vector<std::uint64_t>(), did);
    if (r && r->count == register_row::most) return;
    if (r) {
      t.update(r, [&](register_row& row) {
        row.list[row.count++] = value;
        row.colour = colour;
      });
      did.appends.push_back({at, value});
    } else {
      put(t, at, value, colour, did);
    }
  }
  /// To a register that is absent, without a look for it.
  void put(oltp::transaction& t, std::uint64_t at, std::uint64_t value, std::uint64_t colour,
           committed& did) {
    register_row fresh;
    fresh.key = 2 * at;
    fresh.colour = colour;
    fresh.list[fresh.count++] = value;
    if (!t.insert(rows_, fresh)) throw std::logic_error("a register that was absent is there");
    did.appends.push_back({at, value});
  }
  void move(oltp::transaction& t, std::uint64_t at, std::uint64_t value, committed& did) {
    const auto r = find(t, at, oltp::intent::write);
    note(at, r ? r->values() : std::vector<std::uint64_t>(), did);
    if (!r || r->count == register_row::most) return;
    register_row moved = *r;
    moved.key ^= 1;
    moved.list[moved.count++] = value;
    t.erase(r);
    if (!t.insert(rows_, moved)) throw std::logic_error("a register is in both places");
    did.appends.push_back({at, value});
  }
  void read_range(oltp::transaction& t, std::uint64_t from, std::uint64_t to, committed& did) {
    std::vector<std::vector<std::uint64_t>> lists(to - from + 1);
    t.scan(rows_, 2 * from, 2 * to + 1, [&](const register_row& r) {
      auto& list = lists.at(r.key / 2 - from);
      if (!list.empty()) throw std::logic_error("a scan has seen a register twice");
      list = r.values();
    });
    for (std::uint64_t at = from; at <= to; ++at) note(at, std::move(lists[at - from]), did);
  }
  void read_colour(oltp::transaction& t, std::uint64_t colour, committed& did) {
    t.scan(by_colour_, colour, colour, [&](const register_row& r) {
      if (r.colour != colour) throw std::logic_error("a row under a key that is not its own");
      note(r.key / 2, r.values(), did);
    });
  }

 private:
  /// What the transaction itself has appended is no read of others.
  static void note(std::uint64_t at, std::vector<std::uint64_t> list, committed& did) {
    std::size_t own = 0;
    for (const auto& a : did.appends) own += a.to == at ? 1 : 0;
    if (own > list.size()) throw std::logic_error("a transaction does not see what it has appended");
    std::size_t seen = 0;
    for (const auto& a : did.appends) {
      if (a.to == at && list[list.size() - own + seen++] != a.value)
        throw std::logic_error("a transaction does not see what it has appended");
    }
    list.resize(list.size() - own);
    did.reads.push_back({at, std::move(list)});
  }

  std::uint64_t in_group_;
  std::uint64_t count_;
  oltp::database database_;
  oltp::table<register_row>& rows_;
  oltp::table_index<register_row>& by_colour_;
};

}  // namespace espalier::test
