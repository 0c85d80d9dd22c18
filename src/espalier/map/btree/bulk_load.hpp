#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

// What the loads of B+trees have in common: how many nodes they make, and threads that make the leaves.

namespace espalier::btree {

/// How full a load leaves its nodes: inserts then do not split each of them at once.
[[nodiscard]] constexpr std::size_t loaded(unsigned capacity) noexcept {
  return std::max(1U, capacity * 85 / 100);
}
/// So many nodes have room for that many entries.
[[nodiscard]] constexpr std::size_t nodes_for(std::size_t entries, std::size_t of_each) noexcept {
  return (entries + of_each - 1) / of_each;
}
/// Where the part of one of them begins.
[[nodiscard]] constexpr std::size_t begin_of(std::size_t part, std::size_t parts, std::size_t all) noexcept {
  return all / parts * part + all % parts * part / parts;
}

/// Calls make(i) for each i below `count`. Each thread makes some in a row, and ends with its first error. Throws the first
/// error in their order, and std::system_error if there are no more threads.
template <class Make>
void make_all(std::size_t count, unsigned threads, const Make& make) {
  struct joined_threads {
    std::vector<std::thread> all;
    joined_threads() = default;
    joined_threads(const joined_threads&) = delete;
    joined_threads& operator=(const joined_threads&) = delete;
    ~joined_threads() {
      for (std::thread& t : all) t.join();
    }
  };
  const std::size_t parts = std::clamp<std::size_t>(threads, 1, count);
  std::vector<std::exception_ptr> errors(parts);
  const auto make_part = [&](std::size_t part) {
    try {
      for (std::size_t i = begin_of(part, parts, count); i < begin_of(part + 1, parts, count); ++i) make(i);
    } catch (...) {
      errors[part] = std::current_exception();
    }
  };
  {
    joined_threads others;
    others.all.reserve(parts);
    for (std::size_t part = 1; part < parts; ++part) others.all.emplace_back(make_part, part);
    make_part(0);
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace espalier::btree
