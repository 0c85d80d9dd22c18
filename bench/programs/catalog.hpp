#pragma once

#include "arguments.hpp"
#include "measured_work.hpp"

// The available kinds of work. Each is one file, which documents its arguments, and is constructed once in a process.

namespace espalier::bench {

[[nodiscard]] measured_work& make_fresh(const arguments& given);
[[nodiscard]] measured_work& make_ring(const arguments& given);
[[nodiscard]] measured_work& make_locked_tree(const arguments& given);
[[nodiscard]] measured_work& make_larson(const arguments& given);
[[nodiscard]] measured_work& make_xmalloc(const arguments& given);
[[nodiscard]] measured_work& make_cache_scratch(const arguments& given);
[[nodiscard]] measured_work& make_large(const arguments& given);

}  // namespace espalier::bench
