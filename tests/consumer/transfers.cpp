// Two threads transfer money, and a ledger notes what each transfer left to the payer. Taken back from the last one on, the
// transfers lead from the balances at the end to those at the beginning: the history is one of a single thread.

#include <array>
#include <cstdint>
#include <espalier/oltp/database.hpp>
#include <thread>

namespace oltp = espalier::oltp;

struct account {
  std::uint64_t id;
  std::int64_t balance;
};
struct transfer {
  std::uint64_t number, from, to;
  std::int64_t amount, left;
};

int main() {
  oltp::database bank;
  auto& accounts = bank.create_table<account>("accounts", [](const account& a) { return a.id; });
  auto& ledger =
      bank.create_table<transfer>("ledger", [](const transfer& t) { return ~t.number; });  // the last first
  bank.transact([&](auto& t) {
    for (std::uint64_t id = 0; id < 5; ++id) t.insert(accounts, {id, 100});
    t.insert(ledger, {0, 0, 0, 0, 100});
  });
  const auto teller = [&](std::uint64_t distance) {
    for (std::uint64_t n = 0; n < 2'000; ++n) {
      bank.transact([&](auto& t) {
        const auto payer = t.find(accounts, n % 5, oltp::intent::write);
        const std::int64_t amount = payer->balance / 3;
        t.update(payer, [&](account& a) { a.balance -= amount; });
        t.update(accounts, (n + distance) % 5, [&](account& a) { a.balance += amount; });
        const auto last = t.first(ledger.primary_index(), 0, t.last_key, oltp::intent::write);
        t.insert(ledger, {last->number + 1, n % 5, (n + distance) % 5, amount, payer->balance});
      });
    }
  };
  std::thread other(teller, 1);
  teller(2);
  other.join();

  std::array<std::int64_t, 5> balances{};
  std::int64_t sum = 0, transfers = -1, wrong = 0;
  bank.transact([&](auto& t) {
    t.scan(accounts, 0, t.last_key, [&](const account& a) { sum += balances[a.id] = a.balance; });
    t.scan(ledger, 0, t.last_key, [&](const transfer& one) {
      ++transfers;
      wrong += balances[one.from] == one.left ? 0 : 1;
      balances[one.from] += one.amount;
      balances[one.to] -= one.amount;
    });
  });
  for (const std::int64_t balance : balances) wrong += balance == 100 ? 0 : 1;
  return sum == 500 && transfers == 4'000 && wrong == 0 ? 0 : 1;
}
