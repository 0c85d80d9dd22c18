// Accounts in the in-memory database, and a ledger of the transfers between them. Four threads transfer money. Each
// transfer changes two accounts and adds a line to the ledger, all of it or nothing.
//
// Prints:
//   refused: account 3 has 100, not 1000
//   400 transfers, 1000 in all accounts

#include <cstdint>
#include <cstdio>
#include <espalier/oltp/database.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace oltp = espalier::oltp;

constexpr std::uint64_t accounts_opened = 10;

struct account {
  std::uint64_t id;
  std::int64_t balance;
};

struct transfer {
  std::uint64_t id;
  std::uint64_t from, to;
  std::int64_t amount;
};

struct bank {
  oltp::database data;
  oltp::table<account>& accounts = data.create_table<&account::id>("accounts");
  oltp::table<transfer>& ledger = data.create_table<&transfer::id>("ledger");

  void execute(const transfer& wanted) {
    data.transact([&](oltp::transaction& t) {
      const auto payer = t.find(accounts, wanted.from, oltp::intent::write);
      if (payer->balance < wanted.amount)
        throw std::range_error("account " + std::to_string(wanted.from) + " has " +
                               std::to_string(payer->balance) + ", not " + std::to_string(wanted.amount));
      t.update(payer, [&](account& a) { a.balance -= wanted.amount; });
      t.update(accounts, wanted.to, [&](account& a) { a.balance += wanted.amount; });
      t.insert(ledger, wanted);
    });
  }
};

}  // namespace

int main() {
  bank all;
  all.data.transact([&](oltp::transaction& t) {
    for (std::uint64_t id = 0; id < accounts_opened; ++id) t.insert(all.accounts, {id, 100});
  });
  try {
    all.execute({0, 3, 4, 1000});
  } catch (const std::range_error& thrown) {
    std::printf("refused: %s\n", thrown.what());
  }

  std::vector<std::thread> tellers;
  for (std::uint64_t teller = 0; teller < 4; ++teller) {
    tellers.emplace_back([&all, teller] {
      for (std::uint64_t n = 0; n < 100; ++n) {
        const std::uint64_t id = 100 * teller + n;
        all.execute({id, id % accounts_opened, (id + 1) % accounts_opened, 1});
      }
    });
  }
  for (std::thread& t : tellers) t.join();

  long sum = 0;
  int transfers = 0;
  all.data.transact([&](oltp::transaction& t) {
    sum = 0;
    transfers = 0;
    t.scan(all.accounts, 0, t.last_key, [&](const account& a) { sum += a.balance; });
    t.scan(all.ledger, 0, t.last_key, [&](const transfer&) { ++transfers; });
  });
  std::printf("%d transfers, %ld in all accounts\n", transfers, sum);
}
