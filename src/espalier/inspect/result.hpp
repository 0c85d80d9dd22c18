#pragma once

#include <string>
#include <vector>

#include "espalier/inspect/analysis.hpp"
#include "espalier/inspect/assertion.hpp"
#include "espalier/inspect/findings.hpp"

namespace espalier::inspect {

/// One object, in one line:
///
///   schema            "espalier-inspect/1"
///   subject, facts    what was examined; facts are a list of {name, value}
///   geometry          {name, description, adjacent_line_prefetch, l1, l2, llc, tlb}: caches are {sets, ways,
///                     slices}, sets of one slice; tlb is {l1_small, l1_huge, l2: entries each, l2_holds_huge}
///   unknown           {frames, huge_pages, pointers}: why it is not known, or null if it is
///   blind_spots       sentences
///   blocks, bytes_asked, bytes_held, pages   of all types together
///   page_map          {pages_per_cell, first_page, pages, mixed_pages, bytes, types, most}: all but the first are
///                     lists by cell; most is a list of [place in `types`, bytes]
///   types             list of
///     name, written, searched   searched: it says what searches read
///     blocks, bytes_asked, bytes_held
///     size_classes, strides     frequencies of bytes
///     straddling                blocks
///     searched_straddling       blocks; null unless searched, as are the next two
///     crossing, lines_per_visit share of visits; lines
///     caches                    {l1, l2, llc}: each {virtual, physical}, physical null if frames are not known:
///                               {sets, lines, unused, unused_share, overloaded, overloaded_share, most_loaded,
///                               heat}, heat null or {sets_per_cell, lines, unused, most}, three lists by cell
///     neighbours                list of {type, in_line, in_pair, in_page}: blocks
///     mixed                     {in_line, in_pair, in_page}: blocks with neighbours of other types
///     children                  list of {type, parents, in_line, in_pair, in_adjacent_line, in_page}: parents; null
///                               if pointers are not known
///     pages                     {pages, fewest_pages, mixed_pages, scatter, small, huge, tlb_entries,
///                               l1_tlb_load, tlb_load, runs, longest_run, run_lengths, run_distances}; from small
///                               to tlb_load null if page sizes are not known
///   false_sharing     list of {written, other, blocks}
///   findings          list of {kind, type, other, figure, advice, text}; other null if no type causes it
///   assertions        list of {text, result, figure, type}, result is holds, fails or unavailable
///
/// Frequencies are {distinct, total, most: list of {value, count}}. Types are given by name, except in page_map.
/// Shares are fractions; a share of nothing is null. Bytes of names that are not UTF-8 are replaced.
[[nodiscard]] std::string to_json(const analysis& a, const std::vector<finding>& findings,
                                  const std::vector<assertion_outcome>& assertions = {});

}  // namespace espalier::inspect
