#include "espalier/programs/site_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "espalier/inspect/snapshot_file.hpp"
#include "espalier/inspect/snapshot_format.hpp"

namespace espalier::programs {
namespace {

/// A function with at least this many sizes and callers counts as an allocator.
constexpr std::size_t sizes_of_an_allocator = 4;
constexpr std::size_t callers_of_an_allocator = 4;

std::string displayed(const code_place& place) {
  switch (place.source) {
    case name_source::debug_info:
      if (place.file.empty()) break;
      return fmt::format("{} ({}:{})", place.function, place.file, place.line);
    case name_source::symbol_table:
      break;
    case name_source::unwind_table:
    case name_source::module_only:
      return place.function;
  }
  return fmt::format("{} ({})", place.function, place.module);
}

/// The places of a site that are not allocators by name, innermost first. If all are, the outermost one.
std::vector<code_place> places_beyond_allocators(const std::vector<code_frame>& frames, code_names& names) {
  std::vector<code_place> beyond;
  code_place outermost;
  for (const code_frame& frame : frames) {
    for (code_place& place : names.places_of(frame)) {
      if (!is_allocator_name(place.function)) {
        beyond.push_back(std::move(place));
      } else if (beyond.empty()) {
        outermost = std::move(place);
      }
    }
  }
  if (beyond.empty()) beyond.push_back(std::move(outermost));
  return beyond;
}

/// False for frames without a name, and for those at the base of every program's and every thread's stack.
bool is_informative(const code_place& place) {
  constexpr auto uninformative = std::to_array<std::string_view>(
      {"main", "_start", "__libc_start_main", "__libc_start_main_impl", "__libc_start_call_main",
       "start_thread", "__clone3", "call_init", "_dl_init"});
  const bool named = place.source == name_source::debug_info || place.source == name_source::symbol_table;
  return named && std::ranges::find(uninformative, place.function) == uninformative.end();
}

struct function_use {
  std::set<std::uint64_t> sizes;
  std::set<std::string> callers;

  [[nodiscard]] bool allocates_for_others() const {
    return sizes.size() >= sizes_of_an_allocator && callers.size() >= callers_of_an_allocator;
  }
};

/// A function of a module. Two modules may have functions of the same name.
std::string identity(const code_place& place) { return place.module + '\n' + place.function; }

struct site_name {
  std::string text;
  std::uint64_t naming::* share;
};

class site_namer {
 public:
  site_namer(std::span<inspect::snapshot* const> snapshots, const call_sites& sites, code_names& names,
             const naming_progress& progress)
      : sizes_(sites.sites.size()) {
    for (const inspect::snapshot* s : snapshots) {
      for (const inspect::live_block& b : s->blocks) {
        // Further sizes add no information.
        if (sizes_[b.type].size() < sizes_of_an_allocator) sizes_[b.type].insert(b.bytes);
      }
    }
    for (const auto& frames : sites.sites) {
      if (progress) progress(places_.size(), sites.sites.size());
      places_.push_back(places_beyond_allocators(frames, names));
    }
    std::vector<std::size_t> chosen(places_.size());
    // An allocator may call another: xcalloc xmalloc. Each round looks one place further out.
    constexpr int rounds = 3;
    for (int round = 0; round < rounds && move_outwards(chosen); ++round) {
    }
    chosen_ = std::move(chosen);
  }

  [[nodiscard]] site_name name_of(std::size_t site) const {
    const auto& places = places_[site];
    const code_place& place = places[chosen_[site]];
    switch (place.source) {
      case name_source::debug_info:
        return {displayed(place), &naming::by_debug_info};
      case name_source::symbol_table:
        return {displayed(place), &naming::by_symbol_table};
      case name_source::unwind_table:
      case name_source::module_only:
        break;
    }
    const auto outwards = places.begin() + static_cast<std::ptrdiff_t>(chosen_[site]);
    const auto caller = std::find_if(outwards, places.end(), is_informative);
    if (caller != places.end())
      return {fmt::format("{} > {}", displayed(*caller), place.function), &naming::by_caller};
    return {place.function,
            place.source == name_source::unwind_table ? &naming::by_unwind_table : &naming::unnamed};
  }

 private:
  bool move_outwards(std::vector<std::size_t>& chosen) const {
    std::unordered_map<std::string, function_use> uses;
    for (std::size_t site = 0; site < places_.size(); ++site) {
      const auto& places = places_[site];
      function_use& use = uses[identity(places[chosen[site]])];
      use.sizes.insert(sizes_[site].begin(), sizes_[site].end());
      if (chosen[site] + 1 < places.size()) use.callers.insert(identity(places[chosen[site] + 1]));
    }
    bool moved = false;
    for (std::size_t site = 0; site < places_.size(); ++site) {
      const auto& places = places_[site];
      if (chosen[site] + 1 == places.size() || !uses[identity(places[chosen[site]])].allocates_for_others())
        continue;
      ++chosen[site];
      moved = true;
    }
    return moved;
  }

  std::vector<std::set<std::uint64_t>> sizes_;
  std::vector<std::vector<code_place>> places_;
  std::vector<std::size_t> chosen_;
};

naming rename_types(inspect::snapshot& s, const site_namer& namer) {
  std::map<std::string, inspect::type_index> indices;
  std::vector<inspect::block_type> types;
  // Sites without live blocks are not types.
  struct numbered {
    inspect::type_index type;
    std::uint64_t naming::* share;
  };
  std::vector<std::optional<numbered>> renumbered(s.types.size());
  naming shares;
  for (inspect::live_block& b : s.blocks) {
    auto& number = renumbered[b.type];
    if (!number) {
      site_name name = namer.name_of(b.type);
      const auto [at, added] = indices.try_emplace(name.text, static_cast<inspect::type_index>(types.size()));
      if (added) types.push_back({std::move(name.text), s.types[b.type].written, {}, {}});
      number = {at->second, name.share};
    }
    shares.*(number->share) += b.bytes;
    b.type = number->type;
  }
  s.types = std::move(types);
  return shares;
}

}  // namespace

call_sites read_call_sites(const std::filesystem::path& from) {
  call_sites found;
  const inspect::snapshot_input file(from);
  const std::vector<char> modules = inspect::read_section(from, inspect::format::modules_tag);
  if (!modules.empty()) {
    inspect::section_reader in(file, {modules.data(), modules.size()});
    for (std::uint32_t left = in.number(); left > 0; --left) {
      std::string path = in.text();
      found.modules.push_back({std::move(path), in.text()});
    }
    in.end();
  }
  const std::vector<char> sites = inspect::read_section(from, inspect::format::sites_tag);
  if (sites.empty()) return found;
  inspect::section_reader in(file, {sites.data(), sites.size()});
  for (std::uint32_t left = in.number(); left > 0; --left) {
    std::vector<code_frame>& frames = found.sites.emplace_back();
    for (std::uint32_t frame = in.number(); frame > 0; --frame) {
      const std::uint32_t module = in.number();
      if (module != inspect::format::no_module && module >= found.modules.size())
        file.refuse_damage("a call site names a module that there is not");
      frames.push_back(
          {module == inspect::format::no_module ? std::nullopt : std::optional(module), in.wide_number()});
    }
  }
  in.end();
  return found;
}

bool is_allocator_name(std::string_view function) {
  // Names stay mangled if the compiler is newer than the library that demangles.
  constexpr std::array<std::string_view, 7> of_the_standard_library{
      "std::", "__gnu_cxx::", "boost::container::", "_ZSt", "_ZNSt", "_ZNKSt", "_ZN9__gnu_cxx"};
  if (std::ranges::any_of(of_the_standard_library, [&](auto name) { return function.starts_with(name); }))
    return true;
  if (function.find("operator new") != std::string_view::npos) return true;
  std::string plain;
  for (const char c : function) {
    if (c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  constexpr std::array<std::string_view, 8> parts{"malloc",   "calloc", "realloc", "zalloc",
                                                  "memalign", "strdup", "strndup", "memdup"};
  if (std::ranges::any_of(parts, [&](auto part) { return plain.find(part) != std::string::npos; }))
    return true;
  return plain.ends_with("alloc") || plain == "valloc" || plain.ends_with("asprintf");
}

std::vector<naming> name_types(std::span<inspect::snapshot* const> snapshots, const call_sites& sites,
                               code_names& names, const naming_progress& progress) {
  for (const inspect::snapshot* s : snapshots) {
    const bool last = s == snapshots.back();
    if (s->types.size() > sites.sites.size() || (last && s->types.size() != sites.sites.size()))
      throw std::invalid_argument(
          fmt::format("a snapshot of {} types does not go with {} call sites; read both from one file",
                      s->types.size(), sites.sites.size()));
  }
  const site_namer namer(snapshots, sites, names, progress);
  std::vector<naming> shares;
  shares.reserve(snapshots.size());
  for (inspect::snapshot* s : snapshots) shares.push_back(rename_types(*s, namer));
  return shares;
}

naming name_types(inspect::snapshot& s, const call_sites& sites, code_names& names) {
  inspect::snapshot* const one = &s;
  return name_types({&one, 1}, sites, names).front();
}

}  // namespace espalier::programs
