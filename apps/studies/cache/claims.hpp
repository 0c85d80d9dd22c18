#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/studies/cache/engines.hpp"
#include "apps/studies/dps/claims.hpp"

// The study of memcached in section 5.3 of "Scalable Data-structures with Hierarchical, Distributed Delegation" as data: what
// figure 13 runs, and its claims. The other sections are the study `dps`, whose forms these are; an engine is a technique.

namespace espalier::app::caches {

inline constexpr const char* study_name = "cache";
inline constexpr const char* title = "Five caches, from memcached to delegation";
/// Of the native part, which has no figure of the paper.
inline constexpr const char* native_title = "Five caches on two processors of this machine";
inline constexpr const char* paper =
    "Ren and Parmer, Scalable Data-structures with Hierarchical, Distributed Delegation, Middleware 2019, "
    "section "
    "5.3";
inline constexpr const char* papers_machine = "e7_4850";
/// YCSB's own; the paper names none.
inline constexpr double zipf_exponent = 0.99;

inline constexpr std::array all_engines{engine::stock, engine::ffwd,       engine::parsec,
                                        engine::dps,   engine::dps_parsec, engine::dps_parsec_fenced};
[[nodiscard]] std::string name_of(engine e);
[[nodiscard]] engine engine_of(const std::string& name);

using dps::load;
using dps::load_reading;
using dps::page;
using dps::results;

/// The load of figure 13a.
[[nodiscard]] load few_sets_of(unsigned threads);

/// Throws std::logic_error if an engine returned `wrong` values, or `lost` keys have not their last value.
void check_contents(engine e, const load& l, std::uint64_t wrong, std::uint64_t lost);

// Beyond the paper. How many gets find a value, over all engines; and how often a get of DPS ParSec does not see what its own
// thread has set.
[[nodiscard]] judged_claim equal_hits(const results& measured, const std::vector<load>& loads);
[[nodiscard]] judged_claim misses_of_own_sets(const results& measured, const load& at);

/// In the paper's order. `threads` ascend.
[[nodiscard]] std::vector<page> pages_of(const std::vector<unsigned>& threads);

}  // namespace espalier::app::caches
