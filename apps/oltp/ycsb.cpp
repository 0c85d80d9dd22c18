#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <queue>
#include <stdexcept>
#include <vector>

#include "apps/oltp/benchmark.hpp"
#include "espalier/measure/distribution.hpp"
#include "espalier/measure/random.hpp"

// YCSB (Cooper et al., SoCC 2010): workloads A to F on one table of rows with ten fields, an operation a transaction; and the
// mix of the ATC 2018 study, with several accesses a transaction. Each read checks that the fields are those of one committed
// write.

namespace espalier::app::db {
namespace {

using namespace espalier::oltp;
using measure::random_generator;

constexpr std::size_t fields = 10;

/// A field is words that follow from the key, the field and its version: so a read knows whether it saw a whole write.
template <std::size_t FieldBytes>
struct record {
  static constexpr std::size_t words = FieldBytes / 8;
  std::uint64_t key;
  std::array<std::uint32_t, fields> version;
  std::array<std::array<std::uint64_t, words>, fields> field;

  void write(std::size_t f, std::uint32_t v) noexcept {
    version[f] = v;
    for (std::size_t w = 0; w < words; ++w) field[f][w] = word(f, w);
  }
  [[nodiscard]] std::uint64_t word(std::size_t f, std::size_t w) const noexcept {
    return measure::mix64(key ^ measure::mix64(version[f] * fields + f) ^ w);
  }
  [[nodiscard]] bool is_whole() const noexcept {
    for (std::size_t f = 0; f < fields; ++f) {
      if (field[f].front() != word(f, 0) || field[f].back() != word(f, words - 1)) return false;
    }
    return true;
  }
};

constexpr std::array<std::string_view, 6> operations{"read", "update", "insert", "scan", "read-modify-write",
                                                     "mixed"};

/// In percent: read, update, insert, scan, read-modify-write, several accesses.
std::array<unsigned, operations.size()> mix_of(char letter) {
  switch (letter) {
    case 'a':
      return {50, 50, 0, 0, 0, 0};
    case 'b':
      return {95, 5, 0, 0, 0, 0};
    case 'c':
      return {100, 0, 0, 0, 0, 0};
    case 'd':
      return {95, 0, 5, 0, 0, 0};
    case 'e':
      return {0, 0, 5, 95, 0, 0};
    case 'f':
      return {50, 0, 0, 0, 50, 0};
    default:
      return {0, 0, 0, 0, 0, 100};
  }
}

constexpr std::uint64_t most_scanned = 100;

/// Numbers rows in the order of inserts, and knows up to which number all of them have committed.
class insert_order {
 public:
  explicit insert_order(std::uint64_t loaded) : next_(loaded), committed_(loaded) {}

  [[nodiscard]] std::uint64_t take() noexcept { return next_.fetch_add(1, std::memory_order_relaxed); }
  /// The insert of row `n` has committed.
  void commit(std::uint64_t n) {
    const std::lock_guard alone(lock_);
    early_.push(n);
    std::uint64_t all = committed_.load(std::memory_order_relaxed);
    for (; !early_.empty() && early_.top() == all; early_.pop()) ++all;
    committed_.store(all, std::memory_order_release);
  }
  /// All rows below this number are there.
  [[nodiscard]] std::uint64_t committed() const noexcept {
    return committed_.load(std::memory_order_acquire);
  }

 private:
  std::atomic<std::uint64_t> next_;
  std::atomic<std::uint64_t> committed_;
  std::mutex lock_;
  /// Above a number whose insert still runs; the least on top.
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> early_;
};

template <std::size_t FieldBytes>
class ycsb final : public benchmark {
  using row_type = record<FieldBytes>;

 public:
  ycsb(const database_options& o, const ycsb_options& y)
      : benchmark(o),
        chosen_(y),
        draws_({y.letter == 'd' ? measure::distribution_kind::latest
                : y.theta == 0  ? measure::distribution_kind::uniform
                                : measure::distribution_kind::scrambled_zipfian,
                {y.theta == 0 ? 0 : y.theta, 0}},
               y.rows, 42),
        rows_(database_.create_table<row_type>("usertable", [](const row_type& r) { return r.key; })),
        order_(y.rows) {}

  [[nodiscard]] std::vector<std::string_view> kinds() const override {
    return {operations.begin(), operations.end()};
  }
  [[nodiscard]] std::size_t load_parts() const override {
    return (chosen_.rows + rows_a_part - 1) / rows_a_part;
  }
  void load(std::size_t part) override {
    constexpr std::uint64_t at_once = 64;
    const std::uint64_t end = std::min<std::uint64_t>(chosen_.rows, (part + 1) * rows_a_part);
    for (std::uint64_t first = part * rows_a_part; first < end; first += at_once) {
      database_.transact([&](transaction& t) {
        for (std::uint64_t i = first; i < std::min(end, first + at_once); ++i) insert(t, i);
      });
    }
  }
  [[nodiscard]] std::vector<rows> expected_rows() const override {
    return {{chosen_.rows, sizeof(row_type), 1}};
  }
  [[nodiscard]] std::unique_ptr<client> connect(unsigned thread, unsigned threads,
                                                std::uint64_t seed) override;
  [[nodiscard]] std::vector<condition> check() override {
    std::uint64_t seen = 0;
    std::uint64_t broken = 0;
    rows_.for_each_at_rest([&](const row_type& r) {
      ++seen;
      broken += r.is_whole() ? 0 : 1;
    });
    const std::uint64_t expected = order_.committed();
    const std::uint64_t missed = missed_.load(std::memory_order_relaxed);
    return {
        {"each row is one that was written", broken == 0, fmt::format("{} of {} are not", broken, seen)},
        {"each row that was inserted is there", seen == expected, fmt::format("{} of {}", seen, expected)},
        {"each transaction found its rows", missed == 0, fmt::format("{} did not", missed)}};
  }

 private:
  class session;
  static constexpr std::uint64_t rows_a_part = 10'000;

  /// Numbers in the order of inserts, scattered over the keys as YCSB does.
  static std::uint64_t key_of(std::uint64_t n) noexcept { return measure::mix64(n); }
  void insert(transaction& t, std::uint64_t n) {
    row_type r{};
    r.key = key_of(n);
    for (std::size_t f = 0; f < fields; ++f) r.write(f, 0);
    if (!t.insert(rows_, r)) throw std::logic_error("ycsb: a row is there twice");
  }

  ycsb_options chosen_;
  measure::distribution draws_;
  table<row_type>& rows_;
  insert_order order_;
  std::atomic<std::uint64_t> missed_{0};  ///< transactions whose row was not there; no row is ever erased
};

template <std::size_t FieldBytes>
class ycsb<FieldBytes>::session final : public client {
 public:
  session(ycsb& of, unsigned thread, unsigned threads, std::uint64_t seed)
      : all_(of),
        random_(seed, thread + 1000),
        draws_(of.draws_, seed, thread, threads),
        mix_(mix_of(of.chosen_.letter)) {
    accesses_.resize(of.chosen_.accesses);
  }

  [[nodiscard]] std::size_t draw() override {
    std::uint64_t at = random_.below(100);
    kind_ = 0;
    while (at >= mix_[kind_]) at -= mix_[kind_++];
    at_ = draws_.next(all_.order_.committed());
    field_ = random_.below(fields);
    if (kind_ == 3) length_ = 1 + random_.below(most_scanned);
    if (kind_ == 5) draw_accesses();
    return kind_;
  }
  bool run() override {
    if (kind_ == 2) return insert_next();
    const bool committed = all_.database_.transact([this](transaction& t) {
      found_ = true;
      switch (kind_) {
        case 0:
          return look(t.find(all_.rows_, key_of(at_)));
        case 1:
        case 4:
          return change(t, key_of(at_), field_, kind_ == 4);
        case 3: {
          std::uint64_t left = length_;
          t.scan(all_.rows_, key_of(at_), transaction::last_key, [&](const row_type& r) {
            expect_whole(r);
            return --left != 0;
          });
          return;
        }
        default:
          return all_.chosen_.batches ? in_batches(t) : one_by_one(t);
      }
    });
    if (!found_) all_.missed_.fetch_add(1, std::memory_order_relaxed);
    return committed;
  }

 private:
  struct access {
    std::uint64_t row, key;
    std::size_t field;
    bool writes;
  };

  bool insert_next() {
    const std::uint64_t n = all_.order_.take();
    const bool committed = all_.database_.transact([&](transaction& t) { all_.insert(t, n); });
    all_.order_.commit(n);
    return committed;
  }
  static void expect_whole(const row_type& r) {
    if (!r.is_whole()) throw std::logic_error("ycsb: a read saw a row that was never written");
  }
  void look(const found_row<row_type>& r) {
    found_ = static_cast<bool>(r);
    if (found_) expect_whole(*r);
  }
  void change(transaction& t, std::uint64_t key, std::size_t f, bool reads) {
    const auto r = t.find(all_.rows_, key, intent::write);
    found_ = static_cast<bool>(r);
    if (!found_) return;
    if (reads) expect_whole(*r);
    t.update(r, [f](row_type& row) { row.write(f, row.version[f] + 1); });
  }
  /// Of different rows, as far as there are so many: for one that was drawn already comes the next.
  void draw_accesses() {
    for (auto a = accesses_.begin(); a != accesses_.end(); ++a) {
      std::uint64_t n = draws_.next();
      const auto is_drawn = [&] {
        return std::any_of(accesses_.begin(), a, [&](const access& b) { return b.row == n; });
      };
      for (std::uint64_t steps = 0; steps < all_.chosen_.rows && is_drawn(); ++steps)
        n = (n + 1) % all_.chosen_.rows;
      *a = {n, key_of(n), random_.below(fields), random_.below(100) >= all_.chosen_.reads};
    }
  }
  void use(transaction& t, const access& a, const found_row<row_type>& r) {
    if (!r) throw std::logic_error("ycsb: a row is missing");
    if (a.writes)
      t.update(r, [&](row_type& row) { row.write(a.field, row.version[a.field] + 1); });
    else
      sum_ += r->field[a.field].front();
  }
  /// One after the other, as in the study.
  void one_by_one(transaction& t) {
    for (const access& a : accesses_)
      use(t, a, t.find(all_.rows_, a.key, a.writes ? intent::write : intent::read));
  }
  void in_batches(transaction& t) {
    constexpr std::size_t most = together_most;
    std::array<std::uint64_t, most> keys{};
    std::array<found_row<row_type>, most> found;
    for (const bool writes : {false, true}) {
      std::size_t n = 0;
      for (const access& a : accesses_) {
        if (a.writes == writes && n < most) keys[n++] = a.key;
      }
      t.find_batch<row_type>(all_.rows_, std::span(keys).first(n), found,
                             writes ? intent::write : intent::read);
      n = 0;
      for (const access& a : accesses_) {
        if (a.writes == writes && n < most) use(t, a, found[n++]);
      }
    }
  }

  ycsb& all_;
  random_generator random_;
  measure::sampler draws_;
  std::array<unsigned, operations.size()> mix_;
  std::size_t kind_ = 0;
  std::uint64_t at_ = 0, length_ = 1, sum_ = 0;
  std::size_t field_ = 0;
  bool found_ = true;  ///< by the last attempt
  std::vector<access> accesses_;
};

template <std::size_t FieldBytes>
std::unique_ptr<client> ycsb<FieldBytes>::connect(unsigned thread, unsigned threads, std::uint64_t seed) {
  return std::make_unique<session>(*this, thread, threads, seed);
}

}  // namespace

std::unique_ptr<benchmark> make_ycsb(const espalier::oltp::database_options& o, const ycsb_options& y) {
  if (y.row_bytes == 100) return std::make_unique<ycsb<8>>(o, y);
  return std::make_unique<ycsb<96>>(o, y);
}

}  // namespace espalier::app::db
