#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "measured_work.hpp"

namespace espalier::bench {

/// The cost of a round for the whole process.
struct round_cost {
  std::uint64_t wall_ns;
  std::uint64_t cpu_ns;
};

/// Threads that live as long as the process and work on request. They wait without mutexes, so that the only mutexes of
/// a program are those of its work. The process always has several threads, like any program with locks worth eliding.
class round_team {
 public:
  /// One thread on each given processor, in rotation; unpinned if there are none. The constructor prepares them. The
  /// work must outlive the team.
  round_team(measured_work& work, std::span<const unsigned> processors);
  round_team(const round_team&) = delete;
  round_team& operator=(const round_team&) = delete;
  ~round_team();

  /// Makes each thread do this many operations, and waits for the last.
  round_cost round(std::uint64_t operations);

 private:
  void live(unsigned thread, int processor);

  measured_work& work_;
  std::uint64_t operations_ = 0;
  std::atomic<std::uint32_t> round_{0};
  std::atomic<std::uint32_t> working_{0};
  std::atomic<std::uint32_t> prepared_{0};
  std::atomic<bool> ending_{false};
  std::vector<std::jthread> threads_;
};

}  // namespace espalier::bench
