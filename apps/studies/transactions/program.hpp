#pragma once

#include <cstdint>
#include <memory>

#include "apps/common/interface.hpp"
#include "espalier/hw/htm.hpp"

// Small transactional programs in which transactions subscribe to a fallback lock. Instrumented.

namespace espalier::simulate {

class transactional_program : public app::interface {
 public:
  /// One operation of a thread, chosen by `random`. True if it took the fallback lock.
  virtual bool operate(std::uint64_t random) = 0;
  /// The result that all operations together must have, and the result that they have.
  [[nodiscard]] virtual std::uint64_t expected() const = 0;
  [[nodiscard]] virtual std::uint64_t found() const = 0;
};

/// All threads add to one number.
[[nodiscard]] std::unique_ptr<transactional_program> make_transactional_counter();

/// A sorted list of up to `keys` nodes, half of them initially; inserts, erases and lookups. Each node is a record; two
/// lie in a line.
[[nodiscard]] std::unique_ptr<transactional_program> make_transactional_list(std::uint64_t keys);

/// One transaction that writes, or reads, `count` lines at a distance of `stride` lines. Memory is restored to zero
/// after a commit.
class transactional_lines : public app::interface {
 public:
  virtual hw::transaction_outcome write(std::uint64_t lines, std::uint64_t stride) = 0;
  virtual hw::transaction_outcome read(std::uint64_t lines) = 0;
  /// Whether every byte is zero, as before.
  [[nodiscard]] virtual bool is_untouched() const = 0;
};
[[nodiscard]] std::unique_ptr<transactional_lines> make_transactional_lines(std::uint64_t most_lines);

}  // namespace espalier::simulate
