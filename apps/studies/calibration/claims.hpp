#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/studies/study_claims.hpp"
#include "apps/studies/study_output.hpp"

// The study that compares the simulated machine with what was published of such machines, by programs of a few lines: what
// they do, and what is published. No other study's verdicts are looked at.

namespace espalier::app::calibration {

inline constexpr const char* study_name = "calibration";
inline constexpr const char* title = "The simulated machine beside published measurements";
inline constexpr const char* paper =
    "David, Guerraoui and Trigonakis, Everything You Always Wanted to Know About Synchronization but Were "
    "Afraid to Ask, SOSP 2013; and the sources that the findings name";

enum class work : std::uint8_t {
  one_line,    ///< all threads operate on one word
  latency,     ///< a thread operates on lines that it has not used last
  section,     ///< a lock is taken, and lines are written under it
  table,       ///< a hash table with a lock for each bucket
  stream,      ///< a thread reads lines of its own from memory, one after the other
  transaction  ///< a transaction increments a word
};
enum class operation : std::uint8_t { load, store, compare_and_swap, fetch_and_add, swap };
enum class lock_kind : std::uint8_t { ticket, mcs, ttas };
/// What lines are before an operation of `latency`.
enum class held : std::uint8_t { modified, shared, in_memory };

inline constexpr operation operations[] = {operation::load, operation::store, operation::compare_and_swap,
                                           operation::fetch_and_add, operation::swap};
inline constexpr lock_kind locks[] = {lock_kind::ticket, lock_kind::mcs, lock_kind::ttas};

[[nodiscard]] const char* to_string(operation op) noexcept;
[[nodiscard]] const char* to_string(lock_kind lock) noexcept;

struct exercise {
  work what = work::one_line;
  operation op = operation::load;
  lock_kind lock = lock_kind::ticket;
  held lines_are = held::modified;
  /// Locks, buckets, or words of transactions.
  std::uint64_t places = 1;
  /// Written in a section.
  std::uint64_t lines = 0;
  /// Cycles between two operations of a thread.
  std::uint64_t pause = 0;
  /// Whether the lines were used in another socket, or the memory is there.
  bool far = false;
  unsigned threads = 1;

  [[nodiscard]] std::string name() const;
  friend auto operator<=>(const exercise&, const exercise&) = default;
};

struct exercise_reading {
  double speed = 0;   ///< operations a second
  double cycles = 0;  ///< of an operation, on its thread
  /// Of transactions, for each operation: aborts, and the share that an atomic instruction did in the end.
  double aborts = 0;
  double given_up = 0;
  /// Why it supports no verdict; empty where it does.
  std::string too_short{};
};

using results = readings_at<exercise_reading, exercise>;

/// Where the study runs.
struct setting {
  std::string machine;
  double ghz = 1;
  unsigned sockets = 1;
  unsigned socket_cores = 1;
  bool transactions = false;
  /// Ascending.
  std::vector<unsigned> threads;
};

struct page {
  std::string id;
  std::string title;
  std::string summary;
  std::vector<exercise> exercises;
  /// Adds charts and findings.
  std::function<void(const results&, charted_figure&)> show;
};

[[nodiscard]] std::vector<page> pages_of(const setting& where);

}  // namespace espalier::app::calibration
