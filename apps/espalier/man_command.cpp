#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/common/option_group.hpp"
#include "apps/common/options.hpp"
#include "apps/espalier/commands.hpp"
#include "espalier/io/output_file.hpp"

// Manual pages, generated from the parser that prints --help, so that the two cannot differ. Each is in roff with the
// macros of man(7).

namespace espalier::app {
namespace {

namespace fs = std::filesystem;

std::vector<const CLI::App*> verbs_of(const CLI::App& parser) {
  return parser.get_subcommands([](const CLI::App*) { return true; });
}

/// Text escaped for roff: no character of it is a request or an escape.
std::string escaped(std::string_view text) {
  using escape = std::pair<char, std::string_view>;
  static constexpr std::array<escape, 7> escapes{{{'\\', "\\e"},
                                                  {'-', "\\-"},
                                                  {'\'', "\\(aq"},
                                                  {'"', "\\(dq"},
                                                  {'`', "\\(ga"},
                                                  {'^', "\\(ha"},
                                                  {'~', "\\(ti"}}};
  std::string out;
  for (const char c : text) {
    if (c == '.' && (out.empty() || out.back() == '\n')) out += "\\&";
    const auto* const found = std::ranges::find(escapes, c, &escape::first);
    if (found != escapes.end())
      out += found->second;
    else
      out += c;
  }
  return out;
}

std::string in_bold(std::string_view text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string in_italic(std::string_view text) { return "\\fI" + escaped(text) + "\\fR"; }

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Each line becomes a paragraph; a single line becomes a sentence.
std::string paragraphs(const std::string& text) {
  const std::vector<std::string> lines = split_lines(text);
  std::string out;
  for (const std::string& line : lines) {
    const bool lacks_stop = lines.size() == 1 && !line.ends_with('.');
    out += (out.empty() ? "" : ".PP\n") + escaped(line) + (lacks_stop ? ".\n" : "\n");
  }
  return out;
}

/// A description's first line in the form for the section NAME, which apropos searches.
std::string summary_of(const CLI::App& app) {
  std::string line = split_lines(app.get_description()).front();
  line.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(line.front())));
  if (line.ends_with('.')) line.pop_back();
  return line;
}

bool takes_many(const CLI::Option& option) { return option.get_expected_max() > 1; }

std::string synopsis(const CLI::App& app, const std::string& command) {
  std::string out = in_bold(command);
  if (!verbs_of(app).empty()) out += ' ' + in_italic("command");
  out += " [" + in_italic("options") + ']';
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    std::string word = in_italic(option->get_name(true)) + (takes_many(*option) ? " ..." : "");
    // The words of a program; those that begin with a dash are not options of this command.
    if (!option->get_required() && takes_many(*option)) word.insert(0, in_bold("--") + ' ');
    out += option->get_required() ? ' ' + word : " [" + word + ']';
  }
  return out + '\n';
}

std::string head_of(const CLI::Option& option) {
  if (option.get_positional()) return in_italic(option.get_name(true)) + (takes_many(option) ? " ..." : "");
  std::string names;
  const auto add = [&names](const std::string& name) {
    names += (names.empty() ? "" : ", ") + in_bold(name);
  };
  for (const std::string& name : option.get_snames()) add("-" + name);
  for (const std::string& name : option.get_lnames()) add("--" + name);
  if (option.get_type_size() == 0) return names;  // a flag
  return names + ' ' + in_italic(option.get_type_name()) + (takes_many(option) ? " ..." : "");
}

std::string options_of(const CLI::App& app) {
  std::string out;
  for (const std::string& group : app.get_groups()) {
    const auto options =
        app.get_options([&group](const CLI::Option* option) { return option->get_group() == group; });
    if (group.empty() || options.empty()) continue;
    if (app.get_groups().size() > 1) out += fmt::format(".SS {}\n", escaped(group));
    for (const CLI::Option* option : options) {
      out += fmt::format(".TP\n{}\n{}.\n", head_of(*option), escaped(option->get_description()));
      if (!option->get_default_str().empty())
        out += fmt::format("Default: {}.\n", escaped(option->get_default_str()));
    }
  }
  return out;
}

/// The examples of a help's footer, unchanged, and the sentences after them.
std::string examples_of(const CLI::App& app) {
  std::vector<std::string> lines = split_lines(app.get_footer());
  if (lines.empty() || !lines.front().starts_with("Examples")) return "";
  std::string shown;
  std::string remarks;
  for (const std::string& line : std::vector<std::string>(lines.begin() + 1, lines.end())) {
    if (line.starts_with("  "))
      shown += escaped(line.substr(2)) + '\n';
    else
      remarks += escaped(line) + '\n';
  }
  const std::string out = ".SH EXAMPLES\n.nf\n" + shown + ".fi\n";
  return remarks.empty() ? out : out + ".PP\n" + remarks;
}

std::string exit_status_of(const CLI::App& app) {
  std::string out = ".SH EXIT STATUS\n";
  for (const exit_meaning& e : exit_meanings)
    out += fmt::format(".TP\n.B {}\n{}.\n", e.status, escaped(e.meaning));
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() && !option->get_required() && takes_many(*option))
      out += fmt::format(".PP\nWith {}, the exit status is that of the program.\n",
                         in_italic(option->get_name(true)));
  }
  return out;
}

std::string page_name(const CLI::App& parser, const CLI::App& app) {
  return &app == &parser ? parser.get_name() : parser.get_name() + '-' + app.get_name();
}

/// The page of the parser, or of one of its verbs.
std::string page_of(const CLI::App& parser, const CLI::App& app) {
  const std::string name = page_name(parser, app);
  const std::string command = &app == &parser ? name : parser.get_name() + ' ' + app.get_name();
  std::string out =
      fmt::format(".\\\" Made by `espalier man`.\n.TH {} 1 \"\" \"espalier {}\" \"Espalier\"\n.nh\n.ad l\n",
                  escaped(name), ESPALIER_VERSION);
  out += fmt::format(".SH NAME\n{} \\- {}\n", escaped(name), escaped(summary_of(app)));
  out += ".SH SYNOPSIS\n" + synopsis(app, command);
  out += ".SH DESCRIPTION\n" + paragraphs(app.get_description());
  std::string others;
  if (&app != &parser) others = fmt::format(".BR {} (1)", escaped(parser.get_name()));
  if (&app == &parser) out += ".SH COMMANDS\n";
  for (const CLI::App* verb : verbs_of(parser)) {
    const std::string link = fmt::format(".BR {} (1)", escaped(page_name(parser, *verb)));
    if (&app == &parser) out += fmt::format(".TP\n{}\n{}.\n", link, escaped(verb->get_description()));
    if (verb != &app) others += (others.empty() ? "" : ",\n") + link;
  }
  out += ".SH OPTIONS\n" + options_of(app);
  out += exit_status_of(app) + examples_of(app);
  return out + ".SH SEE ALSO\n" + others + '\n';
}

}  // namespace

void add_man_command(CLI::App& parser) {
  struct options {
    std::string verb;
    std::string out;
  };
  const auto chosen = std::make_shared<options>();
  CLI::App* const verb = parser.add_subcommand("man", "Print the manual page of a command, in roff");
  std::vector<std::string> names;
  for (const CLI::App* one : verbs_of(parser)) names.push_back(one->get_name());
  verb->add_option("command", chosen->verb, "The command; by default the page of espalier itself")
      ->check(CLI::IsMember(names))
      ->type_name("COMMAND");
  option_group(*verb).add("--out", chosen->out, "FOLDER", "Write all pages to this folder instead");
  verb->footer(
      "Examples:\n"
      "  man -l <(espalier man bench)\n"
      "  espalier man --out man1");
  verb->callback([&parser, verb, chosen] {
    check_effects(*verb, {{{"command"}, {}, {"--out"}}});
    if (chosen->out.empty()) {
      const CLI::App& app = chosen->verb.empty() ? parser : *parser.get_subcommand(chosen->verb);
      std::fputs(page_of(parser, app).c_str(), stdout);
      return;
    }
    make_folder(chosen->out);
    std::vector<const CLI::App*> all = verbs_of(parser);
    all.push_back(&parser);
    for (const CLI::App* app : all)
      io::output_file(fs::path(chosen->out) / (page_name(parser, *app) + ".1")).commit(page_of(parser, *app));
  });
}

}  // namespace espalier::app
