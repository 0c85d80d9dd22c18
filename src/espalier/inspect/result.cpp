#include "espalier/inspect/result.hpp"

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace espalier::inspect {
namespace {

using nlohmann::ordered_json;

template <class T>
ordered_json or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json reason(const std::string& why) {
  return why.empty() ? ordered_json(nullptr) : ordered_json(why);
}

ordered_json shape_json(const hw::cache_shape& c) {
  return {{"sets", c.sets}, {"ways", c.ways}, {"slices", c.slices}};
}

ordered_json geometry_json(const hw::cache_geometry& g) {
  return {{"name", g.name},
          {"description", g.description},
          {"adjacent_line_prefetch", g.adjacent_line_prefetch},
          {"l1", shape_json(g.l1)},
          {"l2", shape_json(g.l2)},
          {"llc", shape_json(g.llc)},
          {"tlb",
           {{"l1_small", g.tlb.l1_small.lines()},
            {"l1_huge", g.tlb.l1_huge.lines()},
            {"l2", g.tlb.l2.lines()},
            {"l2_holds_huge", g.tlb.l2_holds_huge}}}};
}

ordered_json frequencies_json(const frequencies& f) {
  ordered_json most = ordered_json::array();
  for (const frequency& one : f.most) most.push_back({{"value", one.value}, {"count", one.count}});
  return {{"distinct", f.distinct}, {"total", f.total}, {"most", std::move(most)}};
}

ordered_json heat_json(const set_use& u) {
  if (u.cells.empty()) return nullptr;
  ordered_json lines = ordered_json::array();
  ordered_json unused = ordered_json::array();
  ordered_json most = ordered_json::array();
  for (const set_use::cell& c : u.cells) {
    lines.push_back(c.lines);
    unused.push_back(c.unused);
    most.push_back(c.most);
  }
  return {{"sets_per_cell", u.sets_per_cell},
          {"lines", std::move(lines)},
          {"unused", std::move(unused)},
          {"most", std::move(most)}};
}

ordered_json set_use_json(const set_use& u) {
  return {{"sets", u.sets},
          {"lines", u.lines},
          {"unused", u.unused},
          {"unused_share", u.unused_share()},
          {"overloaded", u.overloaded},
          {"overloaded_share", u.overloaded_share()},
          {"most_loaded", u.most_loaded},
          {"heat", heat_json(u)}};
}

ordered_json caches_json(const type_analysis& t) {
  ordered_json j = ordered_json::object();
  constexpr std::array names{"l1", "l2", "llc"};
  for (std::size_t level = 0; level < t.caches.size(); ++level) {
    const cache_use& c = t.caches[level];
    j[names[level]] = {{"virtual", set_use_json(c.by_virtual)},
                       {"physical", c.by_physical ? set_use_json(*c.by_physical) : ordered_json(nullptr)}};
  }
  return j;
}

ordered_json proximity_json(const proximity& p) {
  return {{"in_line", p.in_line}, {"in_pair", p.in_pair}, {"in_page", p.in_page}};
}

ordered_json pages_json(const page_use& p) {
  return {{"pages", p.pages},
          {"fewest_pages", p.fewest_pages},
          {"mixed_pages", p.mixed_pages},
          {"scatter", or_null(p.scatter())},
          {"small", or_null(p.small)},
          {"huge", or_null(p.huge)},
          {"tlb_entries", or_null(p.tlb_entries())},
          {"l1_tlb_load", or_null(p.l1_tlb_load)},
          {"tlb_load", or_null(p.tlb_load)},
          {"runs", p.runs},
          {"longest_run", p.longest_run},
          {"run_lengths", frequencies_json(p.run_lengths)},
          {"run_distances", frequencies_json(p.run_distances)}};
}

ordered_json page_map_json(const page_map& map) {
  ordered_json j{{"pages_per_cell", map.pages_per_cell}};
  for (const char* const column : {"first_page", "pages", "mixed_pages", "bytes", "types", "most"})
    j[column] = ordered_json::array();
  for (const page_map::cell& c : map.cells) {
    j["first_page"].push_back(c.first_page);
    j["pages"].push_back(c.pages);
    j["mixed_pages"].push_back(c.mixed_pages);
    j["bytes"].push_back(c.bytes);
    j["types"].push_back(c.types);
    ordered_json most = ordered_json::array();
    for (const page_map::part& p : c.most) most.push_back({p.type, p.bytes});
    j["most"].push_back(std::move(most));
  }
  return j;
}

ordered_json type_json(const analysis& a, type_index type) {
  const type_analysis& t = a.by_type[type];
  ordered_json neighbours = ordered_json::array();
  for (const neighbour& n : t.neighbours) {
    ordered_json one = ordered_json::object();
    one["type"] = a.types[n.other].name;
    one.update(proximity_json(n.blocks));
    neighbours.push_back(std::move(one));
  }
  ordered_json children = nullptr;
  if (a.links_unknown.empty()) {
    children = ordered_json::array();
    for (const child_use& c : t.children)
      children.push_back({{"type", a.types[c.child].name},
                          {"parents", c.parents},
                          {"in_line", c.in_line},
                          {"in_pair", c.in_pair},
                          {"in_adjacent_line", c.in_adjacent_line},
                          {"in_page", c.in_page}});
  }
  return {{"name", a.types[type].name},
          {"written", a.types[type].written},
          {"searched", a.types[type].is_searched()},
          {"blocks", t.blocks},
          {"bytes_asked", t.bytes_asked},
          {"bytes_held", t.bytes_held},
          {"size_classes", frequencies_json(t.size_classes)},
          {"strides", frequencies_json(t.strides)},
          {"straddling", t.straddling},
          {"searched_straddling", or_null(t.searched_straddling)},
          {"crossing", or_null(t.crossing)},
          {"lines_per_visit", or_null(t.lines_per_visit)},
          {"caches", caches_json(t)},
          {"neighbours", std::move(neighbours)},
          {"mixed", proximity_json(t.mixed)},
          {"children", std::move(children)},
          {"pages", pages_json(t.pages)}};
}

ordered_json name_or_null(const analysis& a, std::optional<type_index> type) {
  return type ? ordered_json(a.types[*type].name) : ordered_json(nullptr);
}

}  // namespace

std::string to_json(const analysis& a, const std::vector<finding>& findings,
                    const std::vector<assertion_outcome>& assertions) {
  ordered_json j;
  j["schema"] = "espalier-inspect/1";
  j["subject"] = a.subject;
  j["facts"] = ordered_json::array();
  for (const fact& f : a.facts) j["facts"].push_back({{"name", f.name}, {"value", f.value}});
  j["geometry"] = geometry_json(a.geometry);
  j["unknown"] = {{"frames", reason(a.frames_unknown)},
                  {"huge_pages", reason(a.huge_unknown)},
                  {"pointers", reason(a.links_unknown)}};
  j["blind_spots"] = blind_spots(a);
  j["blocks"] = a.blocks;
  j["bytes_asked"] = a.bytes_asked;
  j["bytes_held"] = a.bytes_held;
  j["pages"] = pages_json(a.pages);
  j["page_map"] = page_map_json(a.map);
  j["types"] = ordered_json::array();
  for (type_index type = 0; type < a.types.size(); ++type) j["types"].push_back(type_json(a, type));
  j["false_sharing"] = ordered_json::array();
  for (const false_sharing& s : a.shared_falsely)
    j["false_sharing"].push_back(
        {{"written", a.types[s.written].name}, {"other", a.types[s.other].name}, {"blocks", s.blocks}});
  j["findings"] = ordered_json::array();
  for (const finding& f : findings)
    j["findings"].push_back({{"kind", to_string(f.kind)},
                             {"type", a.types[f.type].name},
                             {"other", name_or_null(a, f.other)},
                             {"figure", f.figure},
                             {"advice", to_string(f.advice)},
                             {"text", f.text}});
  j["assertions"] = ordered_json::array();
  for (const assertion_outcome& o : assertions)
    j["assertions"].push_back({{"text", o.text},
                               {"result", to_string(o.result)},
                               {"figure", or_null(o.figure)},
                               {"type", name_or_null(a, o.type)}});
  // Names come from programs, which need not write UTF-8.
  return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace espalier::inspect
