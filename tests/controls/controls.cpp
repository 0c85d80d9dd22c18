// The broken maps as subjects of all suites at once. tests/CMakeLists.txt runs, for each, the check that must
// find it; and all checks for the one with nothing wrong.

#include "espalier/map/bst/bst_traits.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "support/broken_maps.hpp"
#include "support/subject_of.hpp"

namespace espalier::test {
namespace {

/// Blocks eight bytes larger than asked for, end to end: nodes of 32 bytes then lie across lines.
class skewed {
 public:
  static constexpr std::string_view name = "skewed";
  static constexpr bool releases_on_destruction = false;
  [[nodiscard]] void* allocate(const block& b, const void* near = nullptr) {
    return below_.allocate(larger(b), near);
  }
  void deallocate(void* memory, const block& b) noexcept { below_.deallocate(memory, larger(b)); }
  [[nodiscard]] memory_usage usage() const noexcept { return below_.usage(); }

 private:
  static block larger(const block& b) noexcept { return {b.bytes + 8, b.align, b.role}; }
  segregated below_;
};

template <catalog::text Defect, class Placement = segregated>
void add() {
  using map = broken_map<key, value, plain_traits::with_placement<Placement>, std::less<key>, Defect>;
  add_subject_of<catalog::entry<map>, plain_codec>();
  add_subject(mirrored(subjects().back()));
}

template <catalog::text... Defects>
void add_each() {
  (add<Defects>(), ...);
}

bool add_all() {
  add_each<"none", "assign_keeps_old", "assign_reports_new", "erase_leaks", "reserves_zero",
           "compares_31_bits", "compares_by_difference", "scan_excludes_bound", "scan_repeats",
           "reverse_scan_excludes_bound", "reverse_scan_repeats", "scan_never_stops", "scan_by_position",
           "scan_holds_the_lock", "insert_not_atomic", "erase_takes_neighbour", "find_returns_older",
           "assign_in_two_steps", "livelocks", "scan_includes_end", "lowest_excludes_zero",
           "update_in_two_steps", "update_removes_first", "extract_returns_older", "size_ignores_exchanges",
           "erase_keeps_nodes">();
  add<"failure_leaks">();  // not from the heap, where a leak detector would be first
  add<"failure_drops_key", shared_heap>();
  add<"nodes_unaligned", skewed>();
  return true;
}

[[maybe_unused]] const bool added = add_all();

}  // namespace
}  // namespace espalier::test
