#pragma once

#include "arguments.hpp"
#include "measured_work.hpp"

// The kinds of work there are. Each is one file, says what its arguments are, and is made once in a process.

namespace espalier::bench {

[[nodiscard]] measured_work& make_fresh(const arguments& given);
[[nodiscard]] measured_work& make_ring(const arguments& given);
[[nodiscard]] measured_work& make_locked_tree(const arguments& given);
[[nodiscard]] measured_work& make_larson(const arguments& given);
[[nodiscard]] measured_work& make_xmalloc(const arguments& given);
[[nodiscard]] measured_work& make_cache_scratch(const arguments& given);
[[nodiscard]] measured_work& make_large(const arguments& given);

}  // namespace espalier::bench
