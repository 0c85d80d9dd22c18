#include "sim/transactions/transaction_counts.hpp"

namespace espalier::sim {

std::string_view to_string(abort_reason reason) noexcept {
  switch (reason) {
    case abort_reason::true_conflict:
      return "true conflict";
    case abort_reason::false_conflict:
      return "false conflict";
    case abort_reason::metadata:
      return "metadata";
    case abort_reason::capacity:
      return "capacity";
    case abort_reason::explicit_abort:
      return "explicit";
    case abort_reason::other:
      return "other";
  }
  return "unknown";
}

transaction_counts& transaction_counts::operator+=(const transaction_counts& more) noexcept {
  begun += more.begun;
  committed += more.committed;
  for (std::size_t i = 0; i < by_reason.size(); ++i) by_reason[i] += more.by_reason[i];
  for (std::size_t i = 0; i < by_cause.size(); ++i) by_cause[i] += more.by_cause[i];
  return *this;
}

}  // namespace espalier::sim
