// tell_recording [callers | facts] FILE...: what tests of the recorder ask of its snapshots, a fact a line. Ends with 77 where functions
// have no names. "tell_recording rtm" succeeds where the processor has transactions.

#include <cstdint>
#include <cstring>
#include <exception>
#include <iostream>
#include <map>
#include <string>
#include <utility>

#include "espalier/hw/htm.hpp"
#include "espalier/inspect/snapshot_file.hpp"
#include "espalier/programs/code_names.hpp"
#include "espalier/programs/site_names.hpp"

namespace {

using namespace espalier;

void tell_facts(const std::string& file, const inspect::snapshot& s) {
  std::cout << "file: " << file << "\nsubject: " << s.subject << "\nlinks unknown: " << s.links_unknown
            << '\n';
  for (const inspect::fact& fact : s.facts) std::cout << fact.name << ": " << fact.value << '\n';
  std::cout << "blocks: " << s.blocks.size() << '\n';
}
void tell_facts(const std::string& file) { tell_facts(file, inspect::read_snapshot(file)); }

void tell(const std::string& file) {
  inspect::snapshot s = inspect::read_snapshot(file);
  const programs::call_sites sites = programs::read_call_sites(file);
  programs::code_names names(sites.modules);
  const programs::naming named = programs::name_types(s, sites, names);
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> functions, types;
  std::map<std::uint64_t, std::uint64_t> regions;
  std::map<std::pair<std::string, std::string>, std::uint64_t> links;
  std::uint64_t bytes = 0;
  std::uint64_t misplaced = 0;
  const auto function_of = [&](const inspect::live_block& block) {
    const std::string& name = s.types[block.type].name;
    return name.substr(0, name.rfind(" ("));
  };
  for (const inspect::live_block& block : s.blocks) {
    for (auto* const of : {&functions[function_of(block)], &types[s.types[block.type].name]}) {
      ++of->first;
      of->second += block.bytes;
    }
    bytes += block.bytes;
    ++regions[block.address >> 16U];
    misplaced += block.held() < block.bytes || block.address % 16 != 0 ? 1 : 0;
  }
  for (const inspect::link& link : s.links)
    ++links[{function_of(s.blocks[link.from]), function_of(s.blocks[link.to])}];
  tell_facts(file, s);
  std::cout << "all: " << s.blocks.size() << " blocks, " << bytes << " bytes, " << misplaced << " misplaced\n"
            << "functions: " << functions.size() << '\n'
            << "named: " << named.by_debug_info << " by debug information, " << named.by_symbol_table
            << " by symbol, " << named.by_caller << " by caller, " << named.by_unwind_table << " by table\n";
  for (const auto& [name, of] : functions) std::cout << name << ' ' << of.first << ' ' << of.second << '\n';
  for (const auto& [name, of] : types)
    std::cout << "type: " << of.first << ' ' << of.second << ' ' << name << '\n';
  for (const auto& [region, blocks] : regions) std::cout << "region: " << blocks << " blocks\n";
  for (const auto& [ends, count] : links)
    std::cout << "links: " << ends.first << " > " << ends.second << ": " << count << '\n';
}

/// The function behind the one that allocates, for blocks of each size.
void tell_callers(const std::string& file) {
  const inspect::snapshot s = inspect::read_snapshot(file);
  const programs::call_sites sites = programs::read_call_sites(file);
  programs::code_names names(sites.modules);
  std::map<std::pair<std::uint64_t, std::string>, int> callers;
  for (const inspect::live_block& block : s.blocks)
    ++callers[{block.bytes, names.places_of(sites.sites[block.type].at(1)).front().function}];
  for (const auto& [of, blocks] : callers)
    std::cout << of.first << " bytes by " << of.second << ": " << blocks << '\n';
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1 && std::strcmp(arguments[1], "rtm") == 0) return hw::rtm::available() ? 0 : 1;
  if (!programs::code_names::available()) return 77;
  const bool callers = count > 1 && std::strcmp(arguments[1], "callers") == 0;
  const bool facts = count > 1 && std::strcmp(arguments[1], "facts") == 0;
  const auto tell_what = callers ? tell_callers
                         : facts ? static_cast<void (*)(const std::string&)>(tell_facts)
                                 : tell;
  try {
    for (int i = callers || facts ? 2 : 1; i < count; ++i) tell_what(arguments[i]);
  } catch (const std::exception& e) {
    std::cout << e.what() << '\n';
    return 1;
  }
  return 0;
}
