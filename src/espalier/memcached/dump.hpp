#pragma once

#include <cstddef>
#include <cstdint>

#include "espalier/memcached/service.hpp"

namespace espalier::memcached {

/// The rows of `stats cachedump`: at most `most` keys, or all for 0, as far as two megabytes hold them.
void show_keys(service& of, output& out, std::uint64_t most);

enum class dump_format : std::uint8_t { properties, commands };  ///< lines of metadump, or of mgdump

/// The next entries of a dump, not many: what a client does not read does not pile up. `place` is 0 at first. False: the
/// dump has ended, and the line that says so was written.
bool show_entries(service& of, output& out, dump_format as, std::size_t& place);

}  // namespace espalier::memcached
