// A queue of jobs in the in-memory database: producers insert, consumers erase the first job and note its result, in one
// transaction. So no job is done twice or lost. intent::write locks the job at once: with intent::read two consumers would
// both read it, and then one of them would have to begin again.
//
// Prints:
//   200 jobs done, the results add up to 19900

#include <cstdint>
#include <cstdio>
#include <espalier/oltp/database.hpp>
#include <thread>
#include <vector>

namespace {

namespace oltp = espalier::oltp;

constexpr std::uint64_t jobs_in_all = 200;

struct job {
  std::uint64_t number;
};

struct result {
  std::uint64_t number;
  int value;
};

}  // namespace

int main() {
  oltp::database queue({.by = oltp::protocol::wait_die});
  auto& jobs = queue.create_table<&job::number>("jobs");
  auto& results = queue.create_table<&result::number>("results");

  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    for (std::uint64_t n = 0; n < jobs_in_all; ++n)
      queue.transact([&](oltp::transaction& t) { t.insert(jobs, {n}); });
  });
  for (int consumer = 0; consumer < 2; ++consumer) {
    threads.emplace_back([&] {
      for (bool done = false; !done;) {
        queue.transact([&](oltp::transaction& t) {
          const auto next = t.first(jobs.primary_index(), 0, t.last_key, oltp::intent::write);
          if (next) {
            t.insert(results, {next->number, static_cast<int>(next->number)});
            t.erase(next);
          }
          done = !next && t.find(results, jobs_in_all - 1);
        });
      }
    });
  }
  for (std::thread& t : threads) t.join();

  int done = 0;
  int sum = 0;
  queue.transact([&](oltp::transaction& t) {
    done = sum = 0;
    t.scan(results, 0, t.last_key, [&](const result& r) {
      ++done;
      sum += r.value;
    });
  });
  std::printf("%d jobs done, the results add up to %d\n", done, sum);
}
