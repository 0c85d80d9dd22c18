#include "espalier/oltp/outcome.hpp"

namespace espalier::oltp {

std::string_view to_string(abort_reason r) noexcept {
  static constexpr std::array<std::string_view, abort_reasons> names{
      "conflict", "row changed", "range changed", "key in transit", "rolled back"};
  return names[static_cast<std::size_t>(r)];
}

transaction_counts& transaction_counts::operator+=(const transaction_counts& other) noexcept {
  commits += other.commits;
  for (std::size_t i = 0; i < abort_reasons; ++i) aborts[i] += other.aborts[i];
  waits += other.waits;
  index_operations += other.index_operations;
  sampled += other.sampled;
  sampled_ticks += other.sampled_ticks;
  sampled_index_ticks += other.sampled_index_ticks;
  return *this;
}

transaction_counts& transaction_counts::operator-=(const transaction_counts& earlier) noexcept {
  commits -= earlier.commits;
  for (std::size_t i = 0; i < abort_reasons; ++i) aborts[i] -= earlier.aborts[i];
  waits -= earlier.waits;
  index_operations -= earlier.index_operations;
  sampled -= earlier.sampled;
  sampled_ticks -= earlier.sampled_ticks;
  sampled_index_ticks -= earlier.sampled_index_ticks;
  return *this;
}

std::uint64_t transaction_counts::attempts() const noexcept {
  std::uint64_t sum = commits;
  for (const std::uint64_t n : aborts) sum += n;
  return sum;
}

}  // namespace espalier::oltp
