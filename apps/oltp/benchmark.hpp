#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/oltp/database.hpp"

// What the benchmarks of the database have in common: rows to load, transactions of some kinds to run, and conditions that
// hold afterwards.

namespace espalier::app::db {

/// A condition that the database must meet after a run.
struct condition {
  std::string name;
  bool holds;
  std::string detail;  ///< what is wrong, or how much was looked at
};

enum class share_verdict : std::uint8_t {
  met,
  too_few,  ///< outside of the range, by at most three standard deviations of the value
  missed
};

/// A share that the benchmark prescribes.
struct share {
  std::string name;
  double value;  ///< in percent, or a mean
  double least;
  double most;
  std::uint64_t of;  ///< how many events it is a share of
  double deviation;  ///< standard deviation of one event, in the unit of `value`

  [[nodiscard]] share_verdict verdict() const noexcept {
    const double outside = std::max(least - value, value - most);
    if (outside <= 0) return share_verdict::met;
    const double by_chance = 3 * deviation / std::sqrt(static_cast<double>(of));
    return outside <= by_chance ? share_verdict::too_few : share_verdict::missed;
  }
};

/// In percent: `n` of `of` events, each of which is drawn with the probability in the middle of the range. Where they are
/// drawn from a deck the value deviates less than this says.
[[nodiscard]] inline share share_of(std::string name, std::uint64_t n, std::uint64_t of, double least,
                                    double most) {
  const double drawn = (least + most) / 2;
  return {std::move(name),
          100.0 * static_cast<double>(n) / static_cast<double>(of),
          least,
          most,
          of,
          std::sqrt(drawn * (100 - drawn))};
}

/// Draws and runs transactions. Of one thread.
class client {
 public:
  client() = default;
  client(const client&) = delete;
  client& operator=(const client&) = delete;
  virtual ~client() = default;
  /// Draws the next transaction; returns its kind.
  [[nodiscard]] virtual std::size_t draw() = 0;
  /// Runs the one that was drawn. False if it was rolled back, as the benchmark prescribes.
  virtual bool run() = 0;
  /// What it has drawn, for shares: added up over clients.
  [[nodiscard]] virtual std::vector<std::uint64_t> tallies() const { return {}; }
};

class benchmark {
 public:
  explicit benchmark(const espalier::oltp::database_options& o) : database_(o) {}
  benchmark(const benchmark&) = delete;
  benchmark& operator=(const benchmark&) = delete;
  virtual ~benchmark() = default;

  [[nodiscard]] espalier::oltp::database& database() noexcept { return database_; }
  [[nodiscard]] virtual std::vector<std::string_view> kinds() const = 0;

  /// Parts that threads load independently, in any order.
  [[nodiscard]] virtual std::size_t load_parts() const = 0;
  virtual void load(std::size_t part) = 0;
  /// Of one kind of row: how many there will be, and their bytes.
  struct rows {
    std::uint64_t count;
    std::size_t bytes;
    unsigned indexes;
  };
  [[nodiscard]] virtual std::vector<rows> expected_rows() const = 0;

  [[nodiscard]] virtual std::unique_ptr<client> connect(unsigned thread, unsigned threads,
                                                        std::uint64_t seed) = 0;

  // While no client runs.
  [[nodiscard]] virtual std::vector<condition> check() = 0;
  [[nodiscard]] virtual std::vector<share> shares(const std::vector<std::uint64_t>& /*tallies*/) const {
    return {};
  }

 protected:
  espalier::oltp::database database_;
};

struct tpcc_options {
  unsigned warehouses = 1;
  /// Customers of a district, and items: 3,000 and 100,000 by clause 4.3; fewer for tests.
  unsigned customers = 3000;
  unsigned items = 100'000;
  /// As in DBx1000: only new-order and payment. The rows that they insert, and those of these tables at the start, enter no index.
  /// Rows are looked up one after the other.
  bool as_dbx = false;
  /// Weights of the five transactions, in the order of tpcc_kinds.
  std::vector<unsigned> weights = {45, 43, 4, 4, 4};
};
inline constexpr std::array<std::string_view, 5> tpcc_kinds{"new-order", "payment", "order-status",
                                                            "delivery", "stock-level"};
/// Those that DBx1000 has are the first ones.
inline constexpr std::ptrdiff_t kinds_of_dbx = 2;
[[nodiscard]] std::unique_ptr<benchmark> make_tpcc(const espalier::oltp::database_options& o,
                                                   const tpcc_options& t);

struct ycsb_options {
  char letter = 'a';  ///< a to f; t: the mix of the ATC 2018 study
  std::uint64_t rows = 1'000'000;
  double theta = 0.99;
  unsigned accesses = 1;         ///< of a transaction
  unsigned reads = 50;           ///< percent, for t
  bool batches = false;          ///< t looks up all rows that it reads at once, and then all that it writes
  std::size_t row_bytes = 1000;  ///< 100 or 1000
};
[[nodiscard]] std::unique_ptr<benchmark> make_ycsb(const espalier::oltp::database_options& o,
                                                   const ycsb_options& y);

}  // namespace espalier::app::db
