#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "apps/common/map_choice.hpp"
#include "apps/espalier/commands.hpp"
#include "apps/studies/mallocs.hpp"
#include "espalier/hw/cache_geometry.hpp"
#include "espalier/inspect/model.hpp"
#include "espalier/memory/any_placement.hpp"

namespace espalier::app {
namespace {

std::vector<std::string> option_names(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// Whether the value is a file or a folder, by the word that stands for it in the help.
bool is_of_files(const CLI::Option* option) {
  const std::string type = option->get_type_name();
  return type == "FILE" || type == "PROGRAM" || type == "FOLDER" || type == "SNAPSHOT" ||
         type == "RESULTS.json";
}

template <class Named>
std::string names_of(const Named& all) {
  std::vector<std::string> names;
  for (const auto& one : all) names.emplace_back(one.name);
  return fmt::format("{}", fmt::join(names, " "));
}

// Generated from the parser itself, so that it is always up to date.
std::string bash_script(const CLI::App& parser) {
  std::vector<std::string> verbs;
  std::string options;
  std::set<std::string> of_files;
  for (const CLI::App* verb : parser.get_subcommands([](const CLI::App*) { return true; })) {
    verbs.push_back(verb->get_name());
    bool files = false;
    for (const CLI::Option* option : verb->get_options(is_of_files)) {
      files |= option->get_positional();
      for (const std::string& name : option->get_snames()) of_files.insert("-" + name);
      for (const std::string& name : option->get_lnames()) of_files.insert("--" + name);
    }
    options += fmt::format("    {}) words='{}'{} ;;\n", verb->get_name(), fmt::join(option_names(*verb), " "),
                           files ? "; [[ $current == -* ]] || { _espalier_files; return; }" : "");
  }
  std::vector<std::string> maps;
  for (const auto& r : choose_maps(workload::registry(), workload::subject_kind::espalier))
    maps.push_back(r.facts.name);
  return fmt::format(R"(# bash completion for espalier; load it with: source <(espalier completion)
_espalier_files() {{
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$current")
}}
_espalier() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} words=''
  local i before=''
  # bash makes --json=FILE three words.
  [[ $current == = ]] && current=''
  [[ $previous == = ]] && previous=${{COMP_WORDS[COMP_CWORD-2]}}
  for ((i = 2; i < COMP_CWORD; ++i)); do
    [[ ${{COMP_WORDS[i]}} == -- ]] || continue
    if ((i == COMP_CWORD - 1)); then COMPREPLY=($(compgen -c -- "$current")); else
    _espalier_files; fi
    return
  done
  case $previous in
    --maps) words='{maps} all every all-bst' ;;
    --index) words='{maps} all' ;;
    --cc) words='no_wait wait_die silo all' ;;
    --transactions) words='new-order payment order-status delivery stock-level' ;;
    --placement)
      words='{placements}'
      [[ ${{COMP_WORDS[1]}} == oltp ]] || words+=' all' ;;
    --workload) words='tpcc ycsb-a ycsb-b ycsb-c ycsb-d ycsb-e ycsb-f ycsb-atc' ;;
    --cardinalities) words='whole small' ;;
    --tpcc-as) words='standard dbx' ;;
    --rows-as) words='plain dbx' ;;
    --row-locks) words='48 192' ;;
    --row-bytes) words='100 1000' ;;
    --look-ups) words='single batch' ;;
    --inspect) words='this {geometries}' ;;
    --mix) words='100/0/0 90/5/5 50/25/25 hits load ycsb-a ycsb-b ycsb-c ycsb-d ycsb-e ycsb-f' ;;
    --distribution) words='uniform zipfian scrambled-zipfian latest hotspot normal self-similar poisson sequential' ;;
    --pin)
      words='cores scatter none'
      [[ ${{COMP_WORDS[1]}} == simulate ]] && words='cores compact scatter' ;;
    --machine)
      if [[ ${{COMP_WORDS[1]}} == inspect ]]; then words='this {geometries}'; else
      words=$("${{COMP_WORDS[0]}}" simulate --machines 2>/dev/null | grep -o '^[a-z0-9_]*'); fi ;;
    --map) words='{maps}' ;;
    --model) words='all {models}' ;;
    --index-placement|--row-placement) words='{placements}' ;;
    --at) words='peak end' ;;
    --malloc) words='index-aware random system' ;;
    --mallocs) words='{mallocs}' ;;
    --locks) words='tts tle system' ;;
    --order) words='scrambled sequential' ;;
    --key-type) words='integer string' ;;
    --study)
      words='atc18 cache dps eunomia malloc-speed malloc-tsx oltp'
      [[ ${{COMP_WORDS[1]}} == simulate ]] && words='atc18 cache calibration dps eunomia malloc-tsx oltp' ;;
    --figure)
      local study=''
      for ((i = 2; i < COMP_CWORD - 1; ++i)); do
        [[ ${{COMP_WORDS[i]}} == --study ]] && study=${{COMP_WORDS[i+1]}}
      done
      [[ -n $study ]] && words=$("${{COMP_WORDS[0]}}" simulate --study "$study" --figure '?' 2>&1 |
        sed -n 's/.*which has //; s/,//gp') ;;
    {of_files})
      _espalier_files
      return ;;
  esac
  if [[ -z $words ]]; then
    if ((COMP_CWORD == 1)); then words='{verbs} --help --version'; else
    case ${{COMP_WORDS[1]}} in
{options}    esac
    fi
  fi
  [[ $current == *,* ]] && before=${{current%,*}},  # of a list
  COMPREPLY=($(compgen -P "$before" -W "$words" -- "${{current##*,}}"))
  if [[ ${{#COMPREPLY[@]}} == 0 ]]; then _espalier_files; fi
}}
complete -F _espalier espalier
)",
                     fmt::arg("maps", fmt::format("{}", fmt::join(maps, " "))),
                     fmt::arg("geometries", names_of(hw::cache_geometries())),
                     fmt::arg("mallocs", fmt::format("{}", fmt::join(malloc_names(), " "))),
                     fmt::arg("models", names_of(inspect::allocation_patterns())),
                     fmt::arg("placements", fmt::format("{}", fmt::join(placement_names(), " "))),
                     fmt::arg("of_files", fmt::format("{}", fmt::join(of_files, "|"))),
                     fmt::arg("verbs", fmt::format("{}", fmt::join(verbs, " "))),
                     fmt::arg("options", options));
}

}  // namespace

void add_completion_command(CLI::App& parser) {
  CLI::App* const verb = parser.add_subcommand("completion", "Print a script for tab completion in bash");
  verb->callback([&parser] { std::fputs(bash_script(parser).c_str(), stdout); });
}

}  // namespace espalier::app
