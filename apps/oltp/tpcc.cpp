#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "apps/oltp/benchmark.hpp"
#include "espalier/measure/permutation.hpp"
#include "espalier/measure/random.hpp"

// TPC-C, revision 5.11: all five transactions (clause 2), the population (4.3), the consistency conditions (3.3.2). Money is
// whole cents, and rates are ten-thousandths. What it does not have is terminals with keying and think times: a thread
// begins the next transaction at once. Clause 5.2.4.2 lets a terminal draw its transactions from a deck of cards, so that
// the mix is exact in a short run; here the other shares that are prescribed (9.2.2.5) come from decks, too.

namespace espalier::app::db {
namespace {

using namespace espalier::oltp;
using measure::random_generator;

constexpr std::uint64_t districts = 10;
constexpr unsigned most_lines = 15;

// Rows ---------------------------------------------------------------------------------------------------------------

struct address {
  text<20> street_1, street_2, city;
  text<2> state;
  text<9> zip;
};

struct warehouse {
  std::uint32_t w_id;
  std::int32_t tax;
  std::int64_t ytd;
  text<10> name;
  address at;
};

struct district {
  std::uint32_t w_id, d_id;
  std::int32_t tax;
  std::uint32_t next_o_id;
  std::int64_t ytd;
  text<10> name;
  address at;
};

struct customer {
  std::uint32_t w_id, d_id, c_id;
  std::int32_t discount;
  std::int64_t credit_limit, balance, ytd_payment, since;
  std::uint32_t payment_count, delivery_count;
  text<16> first, last, phone;
  text<2> middle, credit;
  address at;
  text<500> data;
};

struct history {
  std::uint64_t id;
  std::uint32_t c_w_id, c_d_id, c_id, w_id, d_id;
  std::int64_t date, amount;
  text<24> data;
};

struct order {
  std::uint32_t w_id, d_id, o_id, c_id;
  std::uint32_t carrier;  ///< 0: not delivered
  std::uint32_t lines, all_local;
  std::int64_t entry;
};

struct new_order {
  std::uint32_t w_id, d_id, o_id;
};

struct order_line {
  std::uint32_t w_id, d_id, o_id, number, i_id, supply_w_id, quantity;
  std::int64_t delivery;  ///< 0: not delivered
  std::int64_t amount;
  text<24> dist_info;
};

struct item {
  std::uint32_t i_id, image;
  std::int64_t price;
  text<24> name;
  text<50> data;
};

struct stock {
  std::uint32_t w_id, i_id;
  std::int32_t quantity;
  std::uint32_t order_count, remote_count;
  std::int64_t ytd;
  std::array<text<24>, districts> dist;
  text<50> data;
};

// Keys ---------------------------------------------------------------------------------------------------------------

constexpr std::uint64_t key(std::uint64_t w, std::uint64_t d) { return packed({{w, 16}, {d, 4}}); }
constexpr std::uint64_t key(std::uint64_t w, std::uint64_t d, std::uint64_t n) {
  return packed({{w, 16}, {d, 4}, {n, 32}});
}
constexpr std::uint64_t line_key(std::uint64_t w, std::uint64_t d, std::uint64_t o, std::uint64_t line) {
  return packed({{w, 16}, {d, 4}, {o, 32}, {line, 4}});
}
constexpr std::uint64_t stock_key(std::uint64_t w, std::uint64_t i) { return packed({{w, 16}, {i, 32}}); }
constexpr std::uint32_t last_order = ~std::uint32_t{0};
/// The newest order of a customer is the first in the index.
constexpr std::uint64_t by_customer_key(std::uint64_t w, std::uint64_t d, std::uint64_t c, std::uint32_t o) {
  return packed({{w, 16}, {d, 4}, {c, 12}, {last_order - o, 32}});
}
std::uint64_t by_name_key(std::uint64_t w, std::uint64_t d, std::string_view last) {
  return packed({{w, 16}, {d, 4}, {hash_key(last) >> 20, 44}});
}

// What is drawn ------------------------------------------------------------------------------------------------------

/// The C of clause 2.1.6 are constants here: the difference that it asks of those of load and run is kept.
constexpr std::uint64_t c_of_names_at_load = 97, c_of_names = 172, c_of_customers = 511, c_of_items = 4095;

std::uint64_t between(random_generator& r, std::uint64_t least, std::uint64_t most) {
  return least + r.below(most - least + 1);
}

std::uint64_t nurand(random_generator& r, std::uint64_t a, std::uint64_t c, std::uint64_t least,
                     std::uint64_t most) {
  return (((between(r, 0, a) | between(r, least, most)) + c) % (most - least + 1)) + least;
}

std::string last_name(std::uint64_t number) {
  static constexpr std::array<std::string_view, 10> syllables{"BAR", "OUGHT", "ABLE",  "PRI",   "PRES",
                                                              "ESE", "ANTI",  "CALLY", "ATION", "EING"};
  return fmt::format("{}{}{}", syllables[number / 100], syllables[number / 10 % 10], syllables[number % 10]);
}

std::string letters(random_generator& r, std::uint64_t least, std::uint64_t most) {
  std::string s(between(r, least, most), ' ');
  for (char& c : s) c = static_cast<char>('a' + r.below(26));
  return s;
}
std::string digits(random_generator& r, std::size_t n) {
  std::string s(n, ' ');
  for (char& c : s) c = static_cast<char>('0' + r.below(10));
  return s;
}
/// Of a tenth, a part is "ORIGINAL".
std::string data_of(random_generator& r) {
  std::string s = letters(r, 26, 50);
  if (r.below(10) == 0) s.replace(r.below(s.size() - 8), 8, "ORIGINAL");
  return s;
}
address address_of(random_generator& r) {
  return {letters(r, 10, 20), letters(r, 10, 20), letters(r, 10, 20), letters(r, 2, 2),
          digits(r, 4) + "11111"};
}

// The tallies of a client.
enum tally : std::size_t {
  new_orders,
  rolled_back,
  lines_drawn,
  lines_remote,
  payments,
  payments_remote,
  customers_asked,
  customers_by_name,
  tallies_count
};

class tpcc final : public benchmark {
 public:
  tpcc(const database_options& o, const tpcc_options& t)
      : benchmark(o),
        chosen_(t),
        warehouses_(
            database_.create_table<warehouse>("warehouse", [](const warehouse& r) { return r.w_id; })),
        districts_(database_.create_table<district>("district",
                                                    [](const district& r) { return key(r.w_id, r.d_id); })),
        customers_(database_.create_table<customer>(
            "customer", [](const customer& r) { return key(r.w_id, r.d_id, r.c_id); })),
        customers_by_name_(customers_.create_index(
            "by last name", uniqueness::many,
            [](const customer& r) { return by_name_key(r.w_id, r.d_id, r.last.view()); })),
        histories_(database_.create_table<history>("history", [](const history& r) { return r.id; })),
        orders_(database_.create_table<order>("order",
                                              [](const order& r) { return key(r.w_id, r.d_id, r.o_id); })),
        orders_by_customer_(orders_.create_index(
            "by customer", uniqueness::unique,
            [](const order& r) { return by_customer_key(r.w_id, r.d_id, r.c_id, r.o_id); })),
        new_orders_(database_.create_table<new_order>(
            "new order", [](const new_order& r) { return key(r.w_id, r.d_id, r.o_id); })),
        lines_(database_.create_table<order_line>(
            "order line", [](const order_line& r) { return line_key(r.w_id, r.d_id, r.o_id, r.number); })),
        items_(database_.create_table<item>("item", [](const item& r) { return r.i_id; })),
        stocks_(database_.create_table<stock>("stock",
                                              [](const stock& r) { return stock_key(r.w_id, r.i_id); })) {}

  [[nodiscard]] std::vector<std::string_view> kinds() const override {
    return {tpcc_kinds.begin(), tpcc_kinds.end()};
  }

  // Population (4.3.3).

  /// One for the items and one for each district; the first of a warehouse has its stock as well.
  [[nodiscard]] std::size_t load_parts() const override { return 1 + chosen_.warehouses * districts; }
  void load(std::size_t part) override {
    random_generator r(4711, part);
    if (part == 0) return load_items(r);
    const auto w = static_cast<std::uint32_t>((part - 1) / districts + 1);
    const auto d = static_cast<std::uint32_t>((part - 1) % districts + 1);
    if (d == 1) load_warehouse(r, w);
    load_district(r, w, d);
  }
  [[nodiscard]] std::vector<rows> expected_rows() const override {
    const std::uint64_t w = chosen_.warehouses;
    const std::uint64_t c = w * districts * chosen_.customers;
    return {{w, sizeof(warehouse), 1},
            {w * districts, sizeof(district), 1},
            {c, sizeof(customer), 2},
            {c, sizeof(history), 1},
            {c, sizeof(order), 2},
            {c * 3 / 10, sizeof(new_order), 1},
            {c * 10, sizeof(order_line), 1},
            {chosen_.items, sizeof(item), 1},
            {w * chosen_.items, sizeof(stock), 1}};
  }

  [[nodiscard]] std::unique_ptr<client> connect(unsigned thread, unsigned threads,
                                                std::uint64_t seed) override;
  [[nodiscard]] std::vector<condition> check() override;
  [[nodiscard]] std::vector<share> shares(const std::vector<std::uint64_t>& t) const override {
    const bool goes_elsewhere = chosen_.warehouses > 1;
    std::vector<share> all;
    if (t[new_orders] != 0) {
      all.push_back(share_of("new-orders rolled back, %", t[rolled_back], t[new_orders], 0.9, 1.1));
      const double lines = static_cast<double>(t[lines_drawn]) / static_cast<double>(t[new_orders]);
      // From 5 to 15, each as likely.
      all.push_back({"lines of an order", lines, 9.5, 10.5, t[new_orders], std::sqrt((11 * 11 - 1) / 12.0)});
      if (goes_elsewhere)
        all.push_back(
            share_of("lines from another warehouse, %", t[lines_remote], t[lines_drawn], 0.95, 1.05));
    }
    if (t[payments] != 0 && goes_elsewhere)
      all.push_back(share_of("payments of another warehouse, %", t[payments_remote], t[payments], 14, 16));
    if (t[customers_asked] != 0)
      all.push_back(share_of("customers by last name, %", t[customers_by_name], t[customers_asked], 57, 63));
    return all;
  }

 private:
  class terminal;

  /// Inserts rows in transactions of some dozens, in random order: in the order of the keys an unbalanced tree becomes a list.
  template <class Row, class Make>
  void insert_all(table<Row>& into, std::uint64_t n, const Make& make) {
    add_all(n, make, [&](transaction& t, const Row& r) {
      if (!t.insert(into, r)) throw std::logic_error("tpcc: two rows of " + into.name() + " have one key");
    });
  }
  /// Of a table to which transactions only add rows, as far as DBx1000 has them.
  template <class Row, class Make>
  void add_to_log(table<Row>& to, std::uint64_t n, const Make& make) {
    if (!chosen_.as_dbx) return insert_all(to, n, make);
    add_all(n, make, [&](transaction& t, const Row& r) { t.append(to, r); });
  }
  template <class Row>
  void add(transaction& t, table<Row>& to, const std::type_identity_t<Row>& r) {
    if (chosen_.as_dbx)
      t.append(to, r);
    else
      t.insert(to, r);
  }
  template <class Make, class Add>
  void add_all(std::uint64_t n, const Make& make, const Add& add_one) {
    using row = decltype(make(0));
    constexpr std::uint64_t at_once = 32;
    const measure::permutation shuffled(std::max<std::uint64_t>(n, 1), 7);
    for (std::uint64_t first = 0; first < n; first += at_once) {
      std::vector<row> some;
      for (std::uint64_t i = first; i < std::min(n, first + at_once); ++i) some.push_back(make(shuffled(i)));
      database_.transact([&](transaction& t) {
        for (const row& r : some) add_one(t, r);
      });
    }
  }

  void load_items(random_generator& r) {
    insert_all(items_, chosen_.items, [&](std::uint64_t i) {
      item row{};
      row.i_id = static_cast<std::uint32_t>(i + 1);
      row.image = static_cast<std::uint32_t>(between(r, 1, 10'000));
      row.name = letters(r, 14, 24);
      row.price = static_cast<std::int64_t>(between(r, 100, 10'000));
      row.data = data_of(r);
      return row;
    });
  }
  void load_warehouse(random_generator& r, std::uint32_t w) {
    insert_all(warehouses_, 1, [&](std::uint64_t) {
      warehouse row{};
      row.w_id = w;
      row.name = letters(r, 6, 10);
      row.at = address_of(r);
      row.tax = static_cast<std::int32_t>(between(r, 0, 2000));
      row.ytd = static_cast<std::int64_t>(districts * chosen_.customers) * 1000;
      return row;
    });
    insert_all(stocks_, chosen_.items, [&](std::uint64_t i) {
      stock row{};
      row.w_id = w;
      row.i_id = static_cast<std::uint32_t>(i + 1);
      row.quantity = static_cast<std::int32_t>(between(r, 10, 100));
      for (auto& info : row.dist) info = letters(r, 24, 24);
      row.data = data_of(r);
      return row;
    });
  }
  void load_district(random_generator& r, std::uint32_t w, std::uint32_t d) {
    const std::uint32_t n = chosen_.customers;
    insert_all(districts_, 1, [&](std::uint64_t) {
      district row{};
      row.w_id = w;
      row.d_id = d;
      row.name = letters(r, 6, 10);
      row.at = address_of(r);
      row.tax = static_cast<std::int32_t>(between(r, 0, 2000));
      row.ytd = std::int64_t{n} * 1000;
      row.next_o_id = n + 1;
      return row;
    });
    insert_all(customers_, n, [&](std::uint64_t i) {
      customer row{};
      row.w_id = w;
      row.d_id = d;
      row.c_id = static_cast<std::uint32_t>(i + 1);
      row.last = last_name(i < 1000 ? i : nurand(r, 255, c_of_names_at_load, 0, 999));
      row.middle = "OE";
      row.first = letters(r, 8, 16);
      row.at = address_of(r);
      row.phone = digits(r, 16);
      row.since = 1;
      row.credit = r.below(10) == 0 ? "BC" : "GC";
      row.credit_limit = 5'000'000;
      row.discount = static_cast<std::int32_t>(between(r, 0, 5000));
      row.balance = -1000;
      row.ytd_payment = 1000;
      row.payment_count = 1;
      row.data = letters(r, 300, 500);
      return row;
    });
    add_to_log(histories_, n, [&](std::uint64_t i) {
      history row{};
      row.id = measure::mix64(packed({{0, 16}, {w, 16}, {d, 4}, {i, 28}}));
      row.c_w_id = row.w_id = w;
      row.c_d_id = row.d_id = d;
      row.c_id = static_cast<std::uint32_t>(i + 1);
      row.date = 1;
      row.amount = 1000;
      row.data = letters(r, 12, 24);
      return row;
    });
    const measure::permutation order_of(n, w * districts + d);
    const std::uint32_t delivered = n - n * 3 / 10;
    std::vector<std::uint32_t> lines(n);
    add_to_log(orders_, n, [&](std::uint64_t i) {
      order row{};
      row.w_id = w;
      row.d_id = d;
      row.o_id = static_cast<std::uint32_t>(i + 1);
      row.c_id = static_cast<std::uint32_t>(order_of(i) + 1);
      row.entry = 1;
      row.carrier = i < delivered ? static_cast<std::uint32_t>(between(r, 1, 10)) : 0;
      row.lines = lines[i] = static_cast<std::uint32_t>(between(r, 5, most_lines));
      row.all_local = 1;
      return row;
    });
    const measure::permutation shuffled(n, 8);
    for (std::uint32_t i = 0; i < n; ++i) {
      const auto o = static_cast<std::uint32_t>(shuffled(i));
      add_to_log(lines_, lines[o], [&](std::uint64_t line) {
        order_line row{};
        row.w_id = row.supply_w_id = w;
        row.d_id = d;
        row.o_id = o + 1;
        row.number = static_cast<std::uint32_t>(line + 1);
        row.i_id = static_cast<std::uint32_t>(between(r, 1, chosen_.items));
        row.delivery = o < delivered ? 1 : 0;
        row.quantity = 5;
        row.amount = o < delivered ? 0 : static_cast<std::int64_t>(between(r, 1, 999'999));
        row.dist_info = letters(r, 24, 24);
        return row;
      });
    }
    add_to_log(new_orders_, n - delivered, [&](std::uint64_t i) {
      return new_order{w, d, delivered + static_cast<std::uint32_t>(i) + 1};
    });
  }

  tpcc_options chosen_;
  table<warehouse>& warehouses_;
  table<district>& districts_;
  table<customer>& customers_;
  table_index<customer>& customers_by_name_;
  table<history>& histories_;
  table<order>& orders_;
  table_index<order>& orders_by_customer_;
  table<new_order>& new_orders_;
  table<order_line>& lines_;
  table<item>& items_;
  table<stock>& stocks_;
};

// Transactions -------------------------------------------------------------------------------------------------------

/// The numbers below `cards`, each once in random order, and then all of them again in another order.
class deck {
 public:
  explicit deck(unsigned cards) : cards_(cards) { std::iota(cards_.begin(), cards_.end(), 0U); }

  unsigned draw(random_generator& random) {
    std::swap(cards_[drawn_], cards_[drawn_ + random.below(cards_.size() - drawn_)]);
    const unsigned card = cards_[drawn_];
    drawn_ = (drawn_ + 1) % cards_.size();
    return card;
  }

 private:
  std::vector<unsigned> cards_;
  std::size_t drawn_ = 0;
};

class tpcc::terminal final : public client {
 public:
  terminal(tpcc& of, unsigned thread, std::uint64_t seed)
      : all_(of),
        random_(seed, thread),
        thread_(thread),
        w_(thread % of.chosen_.warehouses + 1),
        mix_(std::reduce(of.chosen_.weights.begin(), of.chosen_.weights.end())) {}

  [[nodiscard]] std::size_t draw() override {
    unsigned at = mix_.draw(random_);
    kind_ = 0;
    while (at >= all_.chosen_.weights[kind_]) at -= all_.chosen_.weights[kind_++];
    ++now_;
    d_ = static_cast<std::uint32_t>(between(random_, 1, districts));
    switch (kind_) {
      case 0:
        draw_new_order();
        break;
      case 1:
        draw_payment();
        break;
      case 2:
        draw_customer(w_, d_);
        break;
      case 3:
        carrier_ = static_cast<std::uint32_t>(between(random_, 1, 10));
        break;
      default:
        threshold_ = static_cast<std::int32_t>(between(random_, 10, 20));
        d_ = static_cast<std::uint32_t>(thread_ % districts + 1);
    }
    return kind_;
  }
  bool run() override {
    return all_.database_.transact([this](transaction& t) {
      switch (kind_) {
        case 0:
          return enter_order(t);
        case 1:
          return pay(t);
        case 2:
          return show_status(t);
        case 3:
          return deliver(t);
        default:
          return count_low_stock(t);
      }
    });
  }
  [[nodiscard]] std::vector<std::uint64_t> tallies() const override {
    return {tallies_.begin(), tallies_.end()};
  }

 private:
  struct line {
    std::uint32_t item, supply, quantity;
  };

  std::uint32_t other_warehouse() {
    const auto other = static_cast<std::uint32_t>(between(random_, 1, all_.chosen_.warehouses - 1));
    return other < w_ ? other : other + 1;
  }
  std::uint32_t draw_customer_number() {
    return static_cast<std::uint32_t>(nurand(random_, 1023, c_of_customers, 1, all_.chosen_.customers));
  }
  /// 60 % by last name (2.5.1.2, 2.6.1.2).
  void draw_customer(std::uint32_t w, std::uint32_t d) {
    c_w_ = w;
    c_d_ = d;
    ++tallies_[customers_asked];
    by_name_ = names_.draw(random_) < 60;
    if (by_name_) {
      ++tallies_[customers_by_name];
      last_ = last_name(nurand(random_, 255, c_of_names, 0, 999) %
                        std::min<std::uint64_t>(1000, all_.chosen_.customers));
    } else {
      c_ = draw_customer_number();
    }
  }
  void draw_new_order() {
    c_ = draw_customer_number();
    lines_.resize(between(random_, 5, most_lines));
    for (line& l : lines_) {
      l.item = static_cast<std::uint32_t>(nurand(random_, 8191, c_of_items, 1, all_.chosen_.items));
      l.supply = w_;
      if (all_.chosen_.warehouses > 1 && remote_lines_.draw(random_) == 0) {
        l.supply = other_warehouse();
        ++tallies_[lines_remote];
      }
      l.quantity = static_cast<std::uint32_t>(between(random_, 1, 10));
    }
    if (rollbacks_.draw(random_) == 0) {
      lines_.back().item = all_.chosen_.items + 1;  // there is none
      ++tallies_[rolled_back];
    }
    ++tallies_[new_orders];
    tallies_[lines_drawn] += lines_.size();
  }
  void draw_payment() {
    ++tallies_[payments];
    amount_ = static_cast<std::int64_t>(between(random_, 100, 500'000));
    if (all_.chosen_.warehouses > 1 && remote_payments_.draw(random_) < 15) {
      ++tallies_[payments_remote];
      const std::uint32_t other = other_warehouse();
      draw_customer(other, static_cast<std::uint32_t>(between(random_, 1, districts)));
    } else {
      draw_customer(w_, d_);
    }
  }

  /// By number, or the middle one of those with the last name, by first names.
  found_row<customer> customer_of(transaction& t, intent i) {
    if (!by_name_) return t.find(all_.customers_, key(c_w_, c_d_, c_), i);
    std::vector<std::pair<text<16>, std::uint64_t>> same;
    const std::uint64_t name = by_name_key(c_w_, c_d_, last_);
    t.scan(all_.customers_by_name_, name, name, [&](const customer& c) {
      if (c.last.view() == last_) same.emplace_back(c.first, key(c_w_, c_d_, c.c_id));
    });
    if (same.empty()) return {};
    const auto middle = same.begin() + static_cast<std::ptrdiff_t>((same.size() - 1) / 2);
    std::nth_element(same.begin(), middle, same.end());
    return t.find(all_.customers_, middle->second, i);
  }
  template <class Row>
  static const found_row<Row>& expect(const found_row<Row>& row) {
    if (!row) throw std::logic_error("tpcc: a row is missing");
    return row;
  }

  template <class Row>
  void find_all(transaction& t, const table<Row>& in, std::span<const std::uint64_t> keys,
                std::span<found_row<std::type_identity_t<Row>>> rows, intent i) {
    if (!all_.chosen_.as_dbx) return t.find_batch<Row>(in, keys, rows, i);
    for (std::size_t n = 0; n < keys.size(); ++n) rows[n] = t.find(in, keys[n], i);
  }

  /// New-Order (2.4).
  void enter_order(transaction& t) {
    std::array<found_row<item>, most_lines> items;
    std::array<found_row<stock>, most_lines> stocks;
    std::array<std::uint64_t, most_lines> keys{};
    const std::size_t n = lines_.size();
    const auto home = expect(t.find(all_.warehouses_, w_));
    const auto here = expect(t.find(all_.districts_, key(w_, d_), intent::write));
    const std::uint32_t o = here->next_o_id;
    t.update(here, [](district& row) { ++row.next_o_id; });
    const auto buyer = expect(t.find(all_.customers_, key(w_, d_, c_)));
    bool local = true;
    for (const line& l : lines_) local &= l.supply == w_;
    all_.add(t, all_.orders_, {w_, d_, o, c_, 0, static_cast<std::uint32_t>(n), local ? 1U : 0U, now_});
    all_.add(t, all_.new_orders_, {w_, d_, o});
    for (std::size_t i = 0; i < n; ++i) keys[i] = lines_[i].item;
    find_all<item>(t, all_.items_, std::span(keys).first(n), items, intent::read);
    if (!items[n - 1] && lines_.back().item > all_.chosen_.items) t.roll_back();
    for (std::size_t i = 0; i < n; ++i) keys[i] = stock_key(lines_[i].supply, lines_[i].item);
    find_all<stock>(t, all_.stocks_, std::span(keys).first(n), stocks, intent::write);
    std::int64_t total = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const line& l = lines_[i];
      expect(stocks[i]);
      t.update(stocks[i], [&](stock& s) {
        const auto wanted = static_cast<std::int32_t>(l.quantity);
        s.quantity = s.quantity >= wanted + 10 ? s.quantity - wanted : s.quantity - wanted + 91;
        s.ytd += wanted;
        ++s.order_count;
        if (l.supply != w_) ++s.remote_count;
      });
      order_line row{};
      row.w_id = w_;
      row.d_id = d_;
      row.o_id = o;
      row.number = static_cast<std::uint32_t>(i + 1);
      row.i_id = l.item;
      row.supply_w_id = l.supply;
      row.quantity = l.quantity;
      row.amount = l.quantity * expect(items[i])->price;
      row.dist_info = stocks[i]->dist[d_ - 1];
      total += row.amount;
      all_.add(t, all_.lines_, row);
    }
    total_ = total * (10'000 - buyer->discount) / 10'000 * (10'000 + home->tax + here->tax) / 10'000;
  }

  /// Payment (2.5).
  void pay(transaction& t) {
    text<10> w_name, d_name;
    t.update(all_.warehouses_, w_, [&](warehouse& row) {
      row.ytd += amount_;
      w_name = row.name;
    });
    t.update(all_.districts_, key(w_, d_), [&](district& row) {
      row.ytd += amount_;
      d_name = row.name;
    });
    const auto buyer = expect(customer_of(t, intent::write));
    t.update(buyer, [&](customer& c) {
      c.balance -= amount_;
      c.ytd_payment += amount_;
      ++c.payment_count;
      if (c.credit == text<2>("BC")) {
        const std::string data =
            fmt::format("{} {} {} {} {} {} | {}", c.c_id, c.d_id, c.w_id, d_, w_, amount_, c.data.view());
        c.data = std::string_view(data).substr(0, 500);
      }
    });
    history row{};
    row.id = measure::mix64(packed({{thread_ + 1, 16}, {static_cast<std::uint64_t>(now_), 48}}));
    row.c_w_id = buyer->w_id;
    row.c_d_id = buyer->d_id;
    row.c_id = buyer->c_id;
    row.w_id = w_;
    row.d_id = d_;
    row.date = now_;
    row.amount = amount_;
    std::string both(w_name.view());
    both.append("    ").append(d_name.view());
    row.data = both;
    all_.add(t, all_.histories_, row);
  }

  /// Order-Status (2.6).
  void show_status(transaction& t) {
    const auto buyer = expect(customer_of(t, intent::read));
    const auto last = t.first(all_.orders_by_customer_, by_customer_key(c_w_, c_d_, buyer->c_id, last_order),
                              by_customer_key(c_w_, c_d_, buyer->c_id, 0));
    const std::uint32_t newest = last ? last->o_id : 0;
    std::int64_t sum = 0;
    t.scan(all_.lines_, line_key(c_w_, c_d_, newest, 0), line_key(c_w_, c_d_, newest, most_lines),
           [&](const order_line& l) { sum += l.amount; });
    total_ = sum;
  }

  /// Delivery (2.7): the oldest new order of each district.
  void deliver(transaction& t) {
    std::array<std::uint64_t, districts> keys{};
    std::array<std::int64_t, districts> sums{};
    std::size_t n = 0;
    for (std::uint32_t d = 1; d <= districts; ++d) {
      const auto oldest =
          t.first(all_.new_orders_.primary_index(), key(w_, d, 0), key(w_, d, last_order), intent::write);
      if (!oldest) continue;
      keys[n++] = key(w_, d, oldest->o_id);
      t.erase(oldest);
    }
    std::array<found_row<order>, districts> orders;
    t.find_batch<order>(all_.orders_, std::span(keys).first(n), orders, intent::write);
    for (std::size_t i = 0; i < n; ++i) {
      const order& o = *expect(orders[i]);
      keys[i] = key(w_, o.d_id, o.c_id);
      t.scan(
          all_.lines_, line_key(w_, o.d_id, o.o_id, 0), line_key(w_, o.d_id, o.o_id, most_lines),
          [&](const found_row<order_line>& l) {
            sums[i] += l->amount;
            t.update(l, [&](order_line& row) { row.delivery = now_; });
          },
          intent::write);
      t.update(orders[i], [&](order& row) { row.carrier = carrier_; });
    }
    std::array<found_row<customer>, districts> buyers;
    t.find_batch<customer>(all_.customers_, std::span(keys).first(n), buyers, intent::write);
    for (std::size_t i = 0; i < n; ++i) {
      t.update(expect(buyers[i]), [&](customer& row) {
        row.balance += sums[i];
        ++row.delivery_count;
      });
    }
  }

  /// Stock-Level (2.8): the items of the last 20 orders.
  void count_low_stock(transaction& t) {
    const std::uint32_t next = expect(t.find(all_.districts_, key(w_, d_)))->next_o_id;
    std::vector<std::uint64_t> keys;
    t.scan(all_.lines_, line_key(w_, d_, next > 20 ? next - 20 : 1, 0),
           line_key(w_, d_, next - 1, most_lines),
           [&](const order_line& l) { keys.push_back(stock_key(w_, l.i_id)); });
    std::ranges::sort(keys);
    keys.erase(std::ranges::unique(keys).begin(), keys.end());
    std::vector<found_row<stock>> rows(keys.size());
    t.find_batch<stock>(all_.stocks_, keys, rows);
    std::int64_t low = 0;
    for (const auto& s : rows) low += expect(s)->quantity < threshold_ ? 1 : 0;
    total_ = low;
  }

  tpcc& all_;
  random_generator random_;
  unsigned thread_;
  std::uint32_t w_;
  deck mix_;
  deck rollbacks_{100}, remote_lines_{100}, remote_payments_{100}, names_{100};
  std::array<std::uint64_t, tallies_count> tallies_{};
  // Of the transaction that was drawn.
  std::size_t kind_ = 0;
  std::int64_t now_ = 1;
  std::uint32_t d_ = 1, c_ = 1, c_w_ = 1, c_d_ = 1, carrier_ = 1;
  bool by_name_ = false;
  std::string last_;
  std::int64_t amount_ = 0, total_ = 0;
  std::int32_t threshold_ = 10;
  std::vector<line> lines_;
};

std::unique_ptr<client> tpcc::connect(unsigned thread, unsigned /*threads*/, std::uint64_t seed) {
  return std::make_unique<terminal>(*this, thread, seed);
}

// Consistency (3.3.2) ------------------------------------------------------------------------------------------------

std::vector<condition> tpcc::check() {
  struct sums {
    std::int64_t ytd = 0, paid = 0, d_ytd = 0;
  };
  struct of_district {
    std::uint32_t next = 0, newest = 0, first_new = last_order, last_new = 0;
    std::uint64_t orders = 0, news = 0, lines_stated = 0, lines = 0, delivered_stated = 0;
    std::int64_t ytd = 0, paid = 0;
  };
  struct of_order {
    std::uint32_t carrier = 0, stated = 0, lines = 0, undelivered = 0, customer = 0;
    bool is_new = false;
    std::int64_t amount = 0;
  };
  struct of_customer {
    std::int64_t balance = 0, ytd = 0, paid = 0, delivered = 0;
  };
  std::map<std::uint32_t, sums> warehouses;
  std::map<std::uint64_t, of_district> by_district;
  std::map<std::uint64_t, of_order> orders;
  std::map<std::uint64_t, of_customer> customers;
  warehouses_.for_each_at_rest([&](const warehouse& r) { warehouses[r.w_id].ytd = r.ytd; });
  districts_.for_each_at_rest([&](const district& r) {
    of_district& d = by_district[key(r.w_id, r.d_id)];
    d.next = r.next_o_id;
    d.ytd = r.ytd;
    warehouses[r.w_id].d_ytd += r.ytd;
  });
  customers_.for_each_at_rest([&](const customer& r) {
    of_customer& c = customers[key(r.w_id, r.d_id, r.c_id)];
    c.balance = r.balance;
    c.ytd = r.ytd_payment;
    by_district[key(r.w_id, r.d_id)].delivered_stated += r.delivery_count;
  });
  histories_.for_each_at_rest([&](const history& r) {
    customers[key(r.c_w_id, r.c_d_id, r.c_id)].paid += r.amount;
    by_district[key(r.w_id, r.d_id)].paid += r.amount;
    warehouses[r.w_id].paid += r.amount;
  });
  orders_.for_each_at_rest([&](const order& r) {
    of_district& d = by_district[key(r.w_id, r.d_id)];
    ++d.orders;
    d.newest = std::max(d.newest, r.o_id);
    d.lines_stated += r.lines;
    of_order& o = orders[key(r.w_id, r.d_id, r.o_id)];
    o.carrier = r.carrier;
    o.stated = r.lines;
    o.customer = r.c_id;
  });
  new_orders_.for_each_at_rest([&](const new_order& r) {
    of_district& d = by_district[key(r.w_id, r.d_id)];
    ++d.news;
    d.first_new = std::min(d.first_new, r.o_id);
    d.last_new = std::max(d.last_new, r.o_id);
    orders[key(r.w_id, r.d_id, r.o_id)].is_new = true;
  });
  lines_.for_each_at_rest([&](const order_line& r) {
    ++by_district[key(r.w_id, r.d_id)].lines;
    of_order& o = orders[key(r.w_id, r.d_id, r.o_id)];
    ++o.lines;
    if (r.delivery == 0)
      ++o.undelivered;
    else
      o.amount += r.amount;
  });
  for (const auto& [k, o] : orders) customers[key(k >> 36, k >> 32 & 15, o.customer)].delivered += o.amount;

  std::vector<condition> all;
  const auto each = [&all](std::string name, const auto& of, const auto& wrong) {
    condition c{fmt::format("3.3.2.{}: {}", all.size() + 1, name), true,
                fmt::format("{} looked at", of.size())};
    for (const auto& [k, one] : of) {
      if (!wrong(one)) continue;
      if (c.holds) c.detail = fmt::format("wrong first at the key {}", k);
      c.holds = false;
    }
    all.push_back(std::move(c));
  };
  const std::uint64_t loaded = chosen_.customers - chosen_.customers * 3 / 10;
  each("a warehouse's ytd is the sum of its districts'", warehouses,
       [](const sums& w) { return w.ytd != w.d_ytd; });
  each(
      "a district's next order follows the newest order and the newest new order", by_district,
      [](const of_district& d) { return d.next != d.newest + 1 || (d.news != 0 && d.last_new != d.newest); });
  each("new orders of a district have no gaps", by_district,
       [](const of_district& d) { return d.news != 0 && d.last_new - d.first_new + 1 != d.news; });
  each("orders of a district state as many lines as there are", by_district,
       [](const of_district& d) { return d.lines_stated != d.lines; });
  each("an order has no carrier if it is new, and only then", orders,
       [](const of_order& o) { return (o.carrier == 0) != o.is_new; });
  each("an order states as many lines as it has", orders,
       [](const of_order& o) { return o.stated != o.lines; });
  each("lines have no delivery if the order has no carrier, and only then", orders,
       [](const of_order& o) { return o.undelivered != (o.carrier == 0 ? o.lines : 0); });
  each("a warehouse's ytd is the sum of its payments", warehouses,
       [](const sums& w) { return w.ytd != w.paid; });
  each("a district's ytd is the sum of its payments", by_district,
       [](const of_district& d) { return d.ytd != d.paid; });
  each("a customer's balance is what was delivered less what was paid", customers,
       [](const of_customer& c) { return c.balance != c.delivered - c.paid; });
  each("a district's orders are those that were delivered and those that are new", by_district,
       [&](const of_district& d) { return d.orders - d.news != loaded + d.delivered_stated; });
  each("a customer's balance and payments are what was delivered", customers,
       [](const of_customer& c) { return c.balance + c.ytd != c.delivered; });
  return all;
}

}  // namespace

std::unique_ptr<benchmark> make_tpcc(const espalier::oltp::database_options& o, const tpcc_options& t) {
  return std::make_unique<tpcc>(o, t);
}

}  // namespace espalier::app::db
