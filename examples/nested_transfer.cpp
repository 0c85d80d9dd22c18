// Transfers between accounts in partitions. A transfer is an operation on the partition of the payer, which takes the
// money and calls the partition of the receiver. An exception of an operation arrives where the call was made.
//
// No lock is held while an operation waits for another one. A thread that waits runs operations of other threads, and
// one of them may need the lock: it would wait for the thread on whose stack it runs. partition_lock checks this in
// builds with assertions. So money is in neither account for a moment; where it was refused, the payer gets it back.
//
// Prints:
//   refused: account 3 has 100, not 1000
//   refused: there is no account 100
//   800 transfers, 10000 in all accounts

#include <cstdio>
#include <espalier/delegation/partitions.hpp>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace espalier::delegation;

constexpr int accounts = 100;

class branch {
 public:
  explicit branch(runtime* threads) : lock_(*threads) {}

  void add(int account, long amount) {
    const std::lock_guard hold(lock_);
    const auto at = balances_.find(account);
    if (at == balances_.end()) throw std::out_of_range("there is no account " + std::to_string(account));
    if (at->second + amount < 0)
      throw std::range_error("account " + std::to_string(account) + " has " + std::to_string(at->second) +
                             ", not " + std::to_string(-amount));
    at->second += amount;
  }
  void open(int account, long amount) {
    const std::lock_guard hold(lock_);
    balances_[account] = amount;
  }
  long total() {
    const std::lock_guard hold(lock_);
    long sum = 0;
    for (const auto& [account, balance] : balances_) sum += balance;
    return sum;
  }

 private:
  partition_lock<> lock_;
  std::map<int, long> balances_;
};

using bank = partitions<branch>;

void transfer(bank& all, int from, int to, long amount) {
  all.call(from, [&all, from, to, amount](branch& payer) {
    payer.add(from, -amount);
    try {
      all.call(to, [to, amount](branch& receiver) { receiver.add(to, amount); });
    } catch (...) {
      payer.add(from, amount);
      throw;
    }
  });
}

}  // namespace

int main() {
  runtime threads(localities::in_turn(2));
  bank all(threads, 4, by_hash(), &threads);
  for (int a = 0; a < accounts; ++a) all.call(a, [a](branch& b) { b.open(a, 100); });

  const auto refused = [&all](int from, int to, long amount) {
    try {
      transfer(all, from, to, amount);
    } catch (const std::exception& thrown) {
      std::printf("refused: %s\n", thrown.what());
    }
  };
  refused(3, 4, 1000);
  refused(3, accounts, 1);

  std::vector<std::thread> tellers;
  for (int t = 0; t < 4; ++t) {
    tellers.emplace_back([&all, t] {
      for (int i = 0; i < 200; ++i) transfer(all, (7 * i + t) % accounts, (7 * i + t + 1) % accounts, 1);
    });
  }
  for (std::thread& t : tellers) t.join();
  const long sum = all.broadcast(0L, [](branch& b) { return b.total(); }, std::plus<long>());
  std::printf("800 transfers, %ld in all accounts\n", sum);
}
