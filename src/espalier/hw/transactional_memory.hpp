#pragma once

// Whether restricted transactional memory (Intel RTM) can be relied upon. Many processors announce it while
// their microcode aborts every transaction, so the announcement alone decides nothing.

#include <string>

namespace espalier::hw {

struct rtm_status {
  bool available;
  /// One line that says why, for results and for messages.
  std::string reason;
};

/// Available where CPUID announces RTM and a trial transaction commits within a bounded number of attempts.
/// Microseconds; callers that ask often keep the answer.
rtm_status rtm_probe();

}  // namespace espalier::hw
