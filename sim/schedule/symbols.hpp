#pragma once

#include <string>
#include <vector>

namespace espalier::sim {

/// The places of return addresses of this program: "file:line in function", one for each. Runs addr2line once for all;
/// without it returns the names of symbols, or the bare addresses.
[[nodiscard]] std::vector<std::string> describe(const std::vector<const void*>& return_addresses);

}  // namespace espalier::sim
