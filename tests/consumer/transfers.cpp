// Two threads transfer money from the accounts of one table to those of another one. None is lost.
#include <espalier/oltp/database.hpp>
#include <thread>

struct account {
  std::uint64_t id;
  std::int64_t balance;
};

int main() {
  espalier::oltp::database bank;
  auto& checking = bank.create_table<&account::id>("checking");
  auto& savings = bank.create_table<&account::id>("savings");
  const auto save = [&](std::uint64_t distance) {
    for (std::uint64_t n = 0; n < 2'000; ++n)
      bank.transact([&](auto& t) {
        t.update(checking, n % 5, [](account& a) { --a.balance; });
        t.update(savings, (n + distance) % 5, [](account& a) { ++a.balance; });
      });
  };
  for (std::uint64_t id = 0; id < 5; ++id)
    bank.transact([&](auto& t) { return t.insert(checking, {id, 1'000}) && t.insert(savings, {id, 0}); });
  std::thread other(save, 1);
  save(2);
  other.join();
  int wrong = 0;
  checking.for_each_at_rest([&](const account& a) { wrong += a.balance == 200 ? 0 : 1; });
  savings.for_each_at_rest([&](const account& a) { wrong += a.balance == 800 ? 0 : 1; });
  return wrong == 0 ? 0 : 1;
}
