#pragma once

#include <string>

// The size of what is compared, for table 1 and section 4.5 of the paper.

namespace espalier::app::dps {

/// Lines with code, and not only with a comment, of a file of the source: `ticket` is that of its algorithm. Counted by the
/// build. 0 for a name that it does not count.
[[nodiscard]] unsigned lines_of_code(const std::string& name);

}  // namespace espalier::app::dps
