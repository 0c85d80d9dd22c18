// One guard for many operations. An operation without a guard argument pins for itself. A batch that passes a guard
// from pin() pays for one pin. Maps that share a reclamation domain share their guards too.
//
// Prints:
//   4000 orders, 38000 paid
//   all memory of erased orders is reclaimed

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <espalier/ordered_map.hpp>
#include <espalier/reclaim/epoch.hpp>

namespace {

using number = std::uint64_t;
using map = espalier::ordered_map<number, number>;

constexpr number orders = 4000;
constexpr number customers = 100;
/// A guard stops reclamation while it is held, so a batch must be short.
constexpr number batch = 256;

}  // namespace

int main() {
  espalier::epoch_domain domain;  // outlives the maps
  map customer_of(&domain);
  map price_for(&domain);
  for (number customer = 0; customer < customers; ++customer) price_for.insert(customer, 5 + customer % 10);
  for (number order = 0; order < orders; ++order) customer_of.insert(order, order % customers);

  number paid = 0;
  for (number first = 0; first < orders; first += batch) {
    auto guard = customer_of.pin();  // protects price_for too
    for (number order = first; order < std::min(first + batch, orders); ++order) {
      const auto customer = customer_of.find(guard, order);
      if (!customer) continue;
      paid += price_for.find(guard, *customer).value_or(0);
      customer_of.erase(guard, order);
    }
  }
  std::printf("%llu orders, %llu paid\n", static_cast<unsigned long long>(orders),
              static_cast<unsigned long long>(paid));

  // Reclamation proceeds by itself. collect() reclaims all that it can now. An emptied map keeps its last leaf.
  while (domain.collect() != 0) {
  }
  if (customer_of.usage().blocks <= 1) std::puts("all memory of erased orders is reclaimed");
}
