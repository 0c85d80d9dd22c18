#include "espalier/programs/call_sites.hpp"

#include <string_view>
#include <utility>

#include "espalier/inspect/snapshot_file.hpp"
#include "espalier/inspect/snapshot_format.hpp"
#include "espalier/inspect/snapshot_input.hpp"

namespace espalier::programs {

namespace format = inspect::format;

call_sites read_call_sites(const std::filesystem::path& from) {
  call_sites found;
  const inspect::snapshot_input file(from);
  const std::vector<char> modules = inspect::read_section(from, format::modules_tag);
  if (!modules.empty()) {
    inspect::section_reader in(file, {modules.data(), modules.size()});
    for (std::uint32_t left = in.number(); left > 0; --left) {
      std::string path = in.text();
      found.modules.push_back({std::move(path), in.text()});
    }
    in.end();
  }
  const std::vector<char> sites = inspect::read_section(from, format::sites_tag);
  if (sites.empty()) return found;
  inspect::section_reader in(file, {sites.data(), sites.size()});
  for (std::uint32_t left = in.number(); left > 0; --left) {
    std::vector<code_frame>& frames = found.sites.emplace_back();
    for (std::uint32_t frame = in.number(); frame > 0; --frame) {
      const std::uint32_t module = in.number();
      if (module != format::no_module && module >= found.modules.size())
        file.refuse_damage("a call site names a module that there is not");
      frames.push_back(
          {module == format::no_module ? std::nullopt : std::optional(module), in.wide_number()});
    }
  }
  in.end();
  return found;
}

}  // namespace espalier::programs
