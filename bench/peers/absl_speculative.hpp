#pragma once

#include <oneapi/tbb/spin_mutex.h>
#include <oneapi/tbb/version.h>

#include <string>
#include <type_traits>

#include "bench/peers/support/locked_btree.hpp"
#include "espalier/catalog/entry_list.hpp"

namespace espalier::peers {

/// Elided by hardware transactions if the processor has them, otherwise a spin lock. One lock for readers and writers:
/// transactions that only read do not conflict anyway.
struct absl_speculative_description {
  using mutex = ::tbb::speculative_spin_mutex;
  using reader = mutex::scoped_lock;
  using writer = mutex::scoped_lock;

  // Without the compiler's RTM intrinsics the library's lock never speculates.
#if defined(__x86_64__)
  static_assert(!std::is_same_v<mutex, ::tbb::spin_mutex>, "compile this file with -mrtm");
#endif

  static constexpr map_properties properties{
      "absl_speculative",
      progress::blocking,
      progress::blocking,
      balance::strict,
      false,
      ESPALIER_PEERS_ABSEIL ", btree_map under speculative_spin_mutex of oneTBB " TBB_VERSION_STRING};
};

using absl_speculative = locked_btree<absl_speculative_description>;
static_assert(concurrent_ordered_map<absl_speculative> && absl_speculative::supports_erase &&
              absl_speculative::supports_scan);

}  // namespace espalier::peers

namespace espalier::catalog {

using absl_speculative = entry_list<entry_with_strings<
    espalier::peers::absl_speculative,
    espalier::peers::locked_btree<espalier::peers::absl_speculative_description, std::string>>>;

}  // namespace espalier::catalog
