// Orders in the in-memory database, with a second index by customer and status. An update that changes the status moves
// the order in that index. The indexes are a map that the program chooses by its name.
//
// Prints:
//   open orders of customer 7: 100 102
//   open orders of customer 7: 100
//   shipped: id 102, customer 7, status 1, item 'lamp'

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <espalier/oltp/database.hpp>
#include <vector>

namespace {

namespace oltp = espalier::oltp;

enum status : std::uint32_t { open, shipped };

struct order {
  std::uint32_t id = 0;
  std::uint32_t customer = 0;
  std::uint32_t status = open;
  oltp::text<16> item;
};

std::uint64_t key_of(std::uint32_t customer, std::uint32_t status) {
  return oltp::packed({{customer, 32}, {status, 32}});
}

}  // namespace

int main() {
  oltp::database shop({.map = "ticket"});
  auto& orders = shop.create_table<&order::id>("orders", oltp::schema<order>()
                                                             .with("id", &order::id)
                                                             .with("customer", &order::customer)
                                                             .with("status", &order::status)
                                                             .with("item", &order::item));
  auto& by_customer = orders.create_index("by customer and status", oltp::uniqueness::many,
                                          [](const order& o) { return key_of(o.customer, o.status); });
  shop.transact([&](oltp::transaction& t) {
    t.insert(orders, {100, 7, open, "chair"});
    t.insert(orders, {101, 8, open, "desk"});
    t.insert(orders, {102, 7, open, "lamp"});
  });

  // Rows of one key come in no particular order. What a transaction has found is printed after it, for its function may be
  // called several times.
  const auto show_open = [&] {
    const auto found = shop.transact([&](oltp::transaction& t) {
      std::vector<std::uint32_t> ids;
      t.scan(by_customer, key_of(7, open), key_of(7, open), [&](const order& o) { ids.push_back(o.id); });
      std::sort(ids.begin(), ids.end());
      return ids;
    });
    std::printf("open orders of customer 7:");
    for (const std::uint32_t id : *found) std::printf(" %u", id);
    std::printf("\n");
  };
  show_open();
  shop.transact([&](oltp::transaction& t) { t.update(orders, 102, [](order& o) { o.status = shipped; }); });
  show_open();
  const auto sent = shop.transact(
      [&](oltp::transaction& t) { return *t.first(by_customer, key_of(7, shipped), key_of(7, shipped)); });
  std::printf("shipped: %s\n", orders.to_string(*sent).c_str());
}
