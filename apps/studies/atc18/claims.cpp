#include "apps/studies/atc18/claims.hpp"

#include <fmt/format.h>

#include "apps/common/map_choice.hpp"

namespace espalier::app::atc18 {
namespace {

constexpr std::uint64_t million = 1'000'000;
constexpr std::uint64_t ten_million = 10'000'000;

const std::string abu_dhabi = "abu_dhabi";
const std::string haswell = "haswell";

// Variants of one tree each, in the shared heap.
const std::string collocated = "edge_ext_lf/shared_heap";
const std::string shifted = "edge_ext_lf/shifted";
const std::string descriptors_beside = "int_lf/studied";
const std::string with_allocations = "int_lf/studied_disturbed";
const std::string small_nodes = "int_lf/shared_heap";

std::string published_of(const studied_tree& t) { return t.published != nullptr ? t.published : t.compact; }

std::vector<subject> published_trees() {
  std::vector<subject> all;
  for (const studied_tree& t : studied_trees()) all.push_back({published_of(t)});
  return all;
}

std::vector<subject> compact_trees() {
  std::vector<subject> all;
  for (const studied_tree& t : studied_trees()) all.push_back({t.compact});
  return all;
}

const studied_tree& tree_of(const std::string& name) {
  for (const studied_tree& t : studied_trees()) {
    if (t.name == name) return t;
  }
  return studied_trees().front();
}

/// Trees in groups of two and three, so that not all of them are in memory at once.
std::vector<std::vector<subject>> both_nodes() {
  std::vector<std::vector<subject>> groups;
  for (const auto& names : std::vector<std::vector<std::string>>{{"occ_avl", "occ_avl_2"},
                                                                 {"edge_int_lf", "log_int", "citrus"},
                                                                 {"int_lf", "edge_ext_lf_2"},
                                                                 {"ticket", "ext_lf"}}) {
    auto& group = groups.emplace_back();
    for (const std::string& name : names) {
      const studied_tree& t = tree_of(name);
      group.insert(group.end(), {{t.published}, {t.compact}});
    }
  }
  return groups;
}

std::vector<map_pair> compact_over_published() {
  std::vector<map_pair> pairs;
  for (const studied_tree& t : studied_trees()) {
    if (t.published != nullptr) pairs.push_back({t.compact, t.published});
  }
  return pairs;
}

std::vector<map_pair> published_over_compact(const std::vector<std::string>& names) {
  std::vector<map_pair> pairs;
  for (const std::string& name : names) pairs.push_back({tree_of(name).published, tree_of(name).compact});
  return pairs;
}

std::vector<std::string> compact_of(const std::vector<std::string>& names) {
  std::vector<std::string> maps;
  for (const std::string& name : names) maps.emplace_back(tree_of(name).compact);
  return maps;
}

const std::vector<std::string> balanced{"occ_avl", "occ_avl_2"};
const std::vector<std::string> internal{"edge_int_lf", "log_int", "citrus", "int_lf"};
const std::vector<std::string> external{"edge_ext_lf", "edge_ext_lf_2", "ticket", "ext_lf"};
const std::vector<std::string> unbalanced = [] {
  std::vector<std::string> all = internal;
  all.insert(all.end(), external.begin(), external.end());
  return all;
}();

figure figure_1() {
  return {"figure-1",
          "Trees that should perform alike, as published",
          "Read-only throughput of the implementations as they were published, on a million keys: trees of "
          "one structure, and even two implementations of one algorithm, differ (figure 1a).",
          {published_trees()},
          {million},
          {{"edge_int_lf outperforms log_int, an internal tree of the same structure (figure 1a, section 1)",
            {million},
            faster(tree_of("edge_int_lf").published, tree_of("log_int").published)},
           {"edge_int_lf outperforms citrus, an internal tree of the same structure (figure 1a, section 1)",
            {million},
            faster(tree_of("edge_int_lf").published, tree_of("citrus").published)},
           {"occ_avl_2 outperforms occ_avl, which implements the same algorithm (figure 1a, section 3.1.1)",
            {million},
            faster(tree_of("occ_avl_2").published, tree_of("occ_avl").published)}}};
}

figure table_1() {
  std::vector<map_pair> avl_over_others;
  for (const std::string& other : unbalanced) {
    for (const std::string& avl : balanced)
      avl_over_others.push_back({tree_of(avl).compact, tree_of(other).compact});
  }
  return {
      "table-1",
      "The order to be expected",
      "All else being equal, a balanced tree should be faster than an unbalanced one, and an internal tree "
      "faster than an external one (table 1). Here all have compact nodes.",
      {compact_trees()},
      {million, ten_million},
      {{"Balanced trees are expected first, then internal ones, then external ones (table 1)",
        {},
        ordered({{"balanced", compact_of(balanced)},
                 {"internal", compact_of(internal)},
                 {"external", compact_of(external)}})},
       {"On abu_dhabi the AVL tree outperforms the others by 40 % in the geometric mean, on both sizes "
        "(section 3.3)",
        {million, ten_million},
        mean_ratio(avl_over_others, 1.40),
        abu_dhabi},
       {"On haswell the AVL tree is not the best of a million keys (section 3.3)",
        {million},
        none_is_best(compact_of(balanced), compact_of(unbalanced)),
        haswell,
        false},
       {"On haswell, with ten million keys, there are four classes: the AVL trees; the internal trees with "
        "both edge_ext_lf; ticket; ext_lf (section 4.2)",
        {ten_million},
        ordered({{"the AVL trees", compact_of(balanced)},
                 {"the internal trees with both edge_ext_lf",
                  compact_of({"edge_int_lf", "log_int", "citrus", "int_lf", "edge_ext_lf", "edge_ext_lf_2"})},
                 {"ticket", compact_of({"ticket"})},
                 {"ext_lf", compact_of({"ext_lf"})}}),
        haswell}}};
}

figure figure_2() {
  return {"figure-2",
          "What compact nodes gain",
          "Each implementation as published, and with its node made compact: small locks in place of "
          "mutexes, no padding, fields of the search first, no bookkeeping in lookups (figure 2, table 3). "
          "edge_ext_lf is compact as published.",
          both_nodes(),
          {million, ten_million},
          {{"With a million keys the fixes gain 11 % on abu_dhabi in the geometric mean, up to 86 % (section "
            "3.1.1)",
            {million},
            mean_ratio(compact_over_published(), 1.11),
            abu_dhabi},
           {"With a million keys the fixes gain 23 % on haswell in the geometric mean, up to 43 % (section "
            "3.1.1)",
            {million},
            mean_ratio(compact_over_published(), 1.23),
            haswell},
           {"With a compact node occ_avl is as fast as occ_avl_2 (section 3.1.1)",
            {million},
            alike(tree_of("occ_avl").compact, tree_of("occ_avl_2").compact)},
           {"With ten million keys int_lf, ticket and ext_lf are slower on abu_dhabi with smaller nodes, by "
            "17 % in the geometric mean: those nodes straddle two cache lines (section 3.2.2)",
            {ten_million},
            crossing_cost(published_over_compact({"int_lf", "ticket", "ext_lf"}), 1 / 0.83),
            abu_dhabi,
            false},
           {"On haswell nothing is lost by that: adjacent lines are fetched in pairs (section 3.2.2)",
            {ten_million},
            no_crossing_cost(published_over_compact({"int_lf", "ticket", "ext_lf"})),
            haswell,
            false}}};
}

figure figure_3() {
  return {"figure-3",
          "Children in the line of their parent",
          "Two nodes of 32 bytes that one insert of edge_ext_lf allocates often share a line, a parent and "
          "its leaf. One further block at the start of each thread moves them apart (figure 3).",
          {{{collocated}, {shifted}}},
          {million},
          {{"Shifted, edge_ext_lf is 14 % slower on abu_dhabi (section 3.2.4)",
            {million},
            faster(collocated, shifted, 1 / 0.86),
            abu_dhabi},
           {"Shifted, edge_ext_lf is 11 % slower on haswell (section 3.2.4)",
            {million},
            faster(collocated, shifted, 1 / 0.89),
            haswell}}};
}

figure table_4() {
  const subject without_prefetching{with_allocations, false};
  return {"table-4",
          "Half of the cache, unused",
          "Nodes of int_lf and its descriptors, 64 bytes each, alternate in the heap: nodes use every second "
          "set of the cache. Extra allocations of random sizes break that, smaller nodes avoid it (table 4).",
          {{{descriptors_beside}, {with_allocations}, without_prefetching, {small_nodes}}},
          {million},
          {{"On haswell nodes of 40 bytes, which share no size class with the descriptors, are 1.41 times as "
            "fast as nodes of 64 (table 4)",
            {million},
            faster(small_nodes, descriptors_beside, 60.0 / 42.5),
            haswell},
           {"On haswell extra allocations alone gain nothing: the useless lines are prefetched (table 4)",
            {million},
            alike(with_allocations, descriptors_beside),
            haswell,
            false},
           {"With extra allocations, switching prefetching off on haswell gains 1.41 times (table 4)",
            {million},
            faster(without_prefetching.name(), with_allocations, 60.0 / 42.5),
            haswell,
            false},
           {"On an AMD machine, taken to be abu_dhabi, extra allocations alone gain 41 % (the talk)",
            {million},
            faster(with_allocations, descriptors_beside, 1.41),
            abu_dhabi,
            false}}};
}

figure figure_4() {
  const std::string plain = tree_of("occ_avl_2").published;
  const std::string ret = "occ_avl_2/ret";
  const std::string unsafe = "occ_avl_2/unsafe";
  return {"figure-4",
          "What validation costs the AVL tree",
          "occ_avl_2 as published; restarting at the root where a validation fails, so that nothing need be "
          "remembered (ret); and without reading versions, right only while no thread writes (unsafe) "
          "(figure 4).",
          {{{plain}, {ret}, {unsafe}}},
          {million, ten_million},
          {{"With a million keys ret is 17 % faster than occ_avl_2 on haswell (section 3.3)",
            {million},
            faster(ret, plain, 1.17),
            haswell},
           {"With a million keys unsafe is a further 12 % faster on haswell (section 3.3)",
            {million},
            faster(unsafe, ret, 1.12),
            haswell},
           {"With ten million keys unsafe is 21 % faster than occ_avl_2 on haswell (section 3.3)",
            {ten_million},
            faster(unsafe, plain, 1.21),
            haswell}}};
}

figure baselines() {
  return {"baselines",
          "Searches that lock",
          "Searches of 100,000 keys under one lock, under a lock for each node, and without locks: only the "
          "last scale (the talk).",
          {{{"global_lock_bst"}, {"hand_over_hand_bst"}, {"ticket"}, {"edge_ext_lf"}}},
          {100'000},
          {{"A tree whose searches take no lock is far faster than one under a global lock (the talk)",
            {100'000},
            far_faster("ticket", "global_lock_bst")},
           {"A tree whose searches take no lock is far faster than one that locks hand over hand (the talk)",
            {100'000},
            far_faster("ticket", "hand_over_hand_bst")}}};
}

}  // namespace

std::string figure::workload(std::uint64_t at, const std::string& machine) const {
  return fmt::format("{}, {} keys{}{}", id, grouped(at), machine.empty() ? "" : ", ", machine);
}

const std::vector<figure>& figures() {
  static const std::vector<figure> all{figure_1(), table_1(),  figure_2(), figure_3(),
                                       table_4(),  figure_4(), baselines()};
  return all;
}

}  // namespace espalier::app::atc18
