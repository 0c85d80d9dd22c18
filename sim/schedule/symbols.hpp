#pragma once

#include <string>
#include <vector>

namespace espalier::sim {

/// Where return addresses of this program lie: "file:line in function", one for each. Asks addr2line once
/// for all; without it the names of symbols, or the bare addresses.
[[nodiscard]] std::vector<std::string> describe(const std::vector<const void*>& return_addresses);

}  // namespace espalier::sim
