// Uses elfutils' libdw, which finds separate debug information by build id and by debug link.

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fmt/format.h>
#include <gelf.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "espalier/programs/code_names.hpp"

namespace espalier::programs {
namespace {

std::string demangled(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), &std::free);
  return short_function_name(status == 0 ? text.get() : symbol);
}

/// The name of a function's or an inlined call's entry.
std::string name_of(Dwarf_Die& entry) {
  Dwarf_Attribute attribute;
  for (const unsigned linkage : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    if (dwarf_attr_integrate(&entry, linkage, &attribute) == nullptr) continue;
    if (const char* const symbol = dwarf_formstring(&attribute)) return demangled(symbol);
  }
  const char* const name = dwarf_diename(&entry);
  return name == nullptr ? "" : name;
}

/// Sets the place from which an inlined call was made.
void read_call(Dwarf_Die& inlined, Dwarf_Die& unit, code_place& outer) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  Dwarf_Files* files = nullptr;
  std::size_t count = 0;
  if (dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_line, &attribute), &value) == 0)
    outer.line = static_cast<int>(value);
  if (dwarf_getsrcfiles(&unit, &files, &count) != 0) return;
  if (dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_file, &attribute), &value) != 0) return;
  if (const char* const path = dwarf_filesrc(files, value, nullptr, nullptr))
    outer.file = std::filesystem::path(path).filename().string();
}

/// The start addresses of the functions of a stripped file, ascending. They come from the search table of its unwind
/// information, in the form that linkers write (Linux Standard Base 5.0, section 10.6.2).
std::vector<GElf_Addr> function_begins(Dwfl_Module* module) {
  constexpr std::size_t table_offset = 12;
  std::vector<GElf_Addr> begins;
  GElf_Addr ignored = 0;
  Elf* const elf = dwfl_module_getelf(module, &ignored);
  std::size_t names = 0;
  if (elf == nullptr || elf_getshdrstrndx(elf, &names) != 0) return begins;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    const char* const name = elf_strptr(elf, names, header.sh_name);
    if (name == nullptr || std::string_view(name) != ".eh_frame_hdr") continue;
    const Elf_Data* const data = elf_rawdata(section, nullptr);
    if (data == nullptr || data->d_size < table_offset) return begins;
    const auto* const bytes = static_cast<const unsigned char*>(data->d_buf);
    if (bytes[0] != 1 || bytes[2] != DW_EH_PE_udata4 || bytes[3] != (DW_EH_PE_datarel | DW_EH_PE_sdata4))
      return begins;
    for (std::size_t at = table_offset; at + 8 <= data->d_size; at += 8) {
      std::int32_t distance = 0;
      std::memcpy(&distance, bytes + at, sizeof distance);
      begins.push_back(header.sh_addr + static_cast<GElf_Addr>(std::int64_t{distance}));
    }
  }
  return begins;
}

/// The functions of a file by address. libdwfl scans all symbols for each address, and a compiler's library has
/// hundreds of thousands of them.
class symbol_index {
 public:
  explicit symbol_index(Dwfl_Module* module) {
    const int count = dwfl_module_getsymtab(module);
    for (int i = 1; i < count; ++i) {
      GElf_Sym symbol;
      GElf_Addr begin = 0;
      GElf_Word section = 0;
      const char* const name =
          dwfl_module_getsym_info(module, i, &symbol, &begin, &section, nullptr, nullptr);
      const int type = GELF_ST_TYPE(symbol.st_info);
      if (name == nullptr || *name == '\0' || section == SHN_UNDEF || symbol.st_size == 0 ||
          (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE))
        continue;
      const int binding = GELF_ST_BIND(symbol.st_info);
      entries_.push_back({begin, begin + symbol.st_size, name,
                          binding == STB_GLOBAL ? 2
                          : binding == STB_WEAK ? 1
                                                : 0});
    }
    std::ranges::stable_sort(entries_, [](const entry& a, const entry& b) {
      return std::tie(a.begin, a.rank) < std::tie(b.begin, b.rank);
    });
    GElf_Addr reach = 0;
    for (const entry& e : entries_) reaches_.push_back(reach = std::max(reach, e.end));
  }

  /// The last symbol that begins before the address and extends beyond it; null if there is none.
  [[nodiscard]] const char* name_at(GElf_Addr address) const {
    const auto behind = std::ranges::upper_bound(entries_, address, {}, &entry::begin);
    for (auto i = static_cast<std::size_t>(behind - entries_.begin()); i != 0 && reaches_[i - 1] > address;
         --i) {
      if (entries_[i - 1].end > address) return entries_[i - 1].name;
    }
    return nullptr;
  }

 private:
  struct entry {
    GElf_Addr begin;
    GElf_Addr end;
    const char* name;
    int rank;
  };
  std::vector<entry> entries_;
  std::vector<GElf_Addr> reaches_;  // the highest end of the entries up to each one
};

/// The compilation units of a file by address, for files without a table of them: clang++ writes none.
class unit_index {
 public:
  struct found_unit {
    Dwarf_Die* unit = nullptr;
    Dwarf_Addr bias = 0;
  };

  explicit unit_index(Dwfl_Module* module) {
    found_unit one;
    while ((one.unit = dwfl_module_nextcu(module, one.unit, &one.bias)) != nullptr) {
      Dwarf_Addr base = 0;
      Dwarf_Addr begin = 0;
      Dwarf_Addr end = 0;
      for (std::ptrdiff_t at = 0; (at = dwarf_ranges(one.unit, at, &base, &begin, &end)) > 0;)
        ranges_.push_back({begin + one.bias, end + one.bias, one});
    }
    std::ranges::stable_sort(ranges_, {}, &range::begin);
  }

  [[nodiscard]] found_unit at(Dwarf_Addr address) const {
    const auto behind = std::ranges::upper_bound(ranges_, address, {}, &range::begin);
    if (behind == ranges_.begin() || behind[-1].end <= address) return {};
    return behind[-1].in;
  }

 private:
  struct range {
    Dwarf_Addr begin;
    Dwarf_Addr end;
    found_unit in;
  };
  std::vector<range> ranges_;
};

}  // namespace

class code_names::files {
 public:
  explicit files(std::span<const code_module> all) : modules(all), opened_(all.size()) {}

  /// Many sites share their outer frames.
  const std::vector<code_place>& known_places_of(const code_frame& frame) {
    const auto [known, added] = known_.try_emplace({frame.module, frame.address});
    if (added) known->second = places_of(frame);
    return known->second;
  }

  std::span<const code_module> modules;

 private:
  std::vector<code_place> places_of(const code_frame& frame) {
    std::vector<code_place> places{unnamed_place(modules, frame)};
    if (!frame.module) return places;
    file& in = opened(*frame.module);
    if (in.module == nullptr) return places;
    // The call precedes its return address.
    const Dwarf_Addr call = frame.address - 1 + in.bias;
    if (!name_by_debug_info(in, call, places) && !name_by_symbol(in, call, places.front()))
      name_by_unwind_table(in, call, places.front());
    return places;
  }

  struct end_session {
    void operator()(Dwfl* session) const noexcept { dwfl_end(session); }
  };
  struct file {
    bool tried = false;
    std::unique_ptr<Dwfl, end_session> session;
    Dwfl_Module* module = nullptr;
    Dwarf_Addr bias = 0;
    // Each is read on first use.
    std::optional<unit_index> units{};
    std::optional<symbol_index> symbols{};
    std::optional<std::vector<GElf_Addr>> begins{};
  };

  file& opened(std::uint32_t index) {
    file& one = opened_[index];
    if (std::exchange(one.tried, true)) return one;
    static char* no_path = nullptr;
    static const Dwfl_Callbacks callbacks{dwfl_build_id_find_elf, dwfl_standard_find_debuginfo,
                                          dwfl_offline_section_address, &no_path};
    const std::string& path = modules[index].path;
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) return one;
    one.session.reset(dwfl_begin(&callbacks));
    if (!one.session) return one;
    Dwfl_Module* const module = dwfl_report_offline(one.session.get(), path.c_str(), path.c_str(), -1);
    dwfl_report_end(one.session.get(), nullptr, nullptr);
    if (module == nullptr || dwfl_module_getelf(module, &one.bias) == nullptr) return one;
    const unsigned char* id = nullptr;
    GElf_Addr where = 0;
    const int size = dwfl_module_build_id(module, &id, &where);
    const std::string_view there(reinterpret_cast<const char*>(id),
                                 size > 0 ? static_cast<std::size_t>(size) : 0);
    // Another file has this path now; its names would be wrong.
    if (there != modules[index].build_id) return one;
    one.module = module;
    return one;
  }

  /// The compilation unit of an address.
  static Dwarf_Die* unit_of(file& in, Dwarf_Addr call, Dwarf_Addr& bias) {
    if (Dwarf_Die* const unit = dwfl_module_addrdie(in.module, call, &bias)) return unit;
    if (!in.units) in.units.emplace(in.module);
    const unit_index::found_unit found = in.units->at(call);
    bias = found.bias;
    return found.unit;
  }

  static bool name_by_debug_info(file& in, Dwarf_Addr call, std::vector<code_place>& places) {
    Dwarf_Addr bias = 0;
    Dwarf_Die* const unit = unit_of(in, call, bias);
    if (unit == nullptr) return false;
    Dwarf_Die* innermost = nullptr;
    if (dwarf_getscopes(unit, call - bias, &innermost) <= 0) return false;
    const std::unique_ptr<Dwarf_Die, decltype(&std::free)> innermost_owner(innermost, &std::free);
    // The scopes around an inlined call as they are in the code, not as they are in the source.
    Dwarf_Die* scopes = nullptr;
    const int count = dwarf_getscopes_die(innermost, &scopes);
    if (count <= 0) return false;
    const std::unique_ptr<Dwarf_Die, decltype(&std::free)> owner(scopes, &std::free);

    code_place place = places.front();
    place.source = name_source::debug_info;
    if (Dwarf_Line* const line = dwarf_getsrc_die(unit, call - bias)) {
      dwarf_lineno(line, &place.line);
      if (const char* const path = dwarf_linesrc(line, nullptr, nullptr))
        place.file = std::filesystem::path(path).filename().string();
    }
    std::vector<code_place> named;
    for (int i = 0; i < count; ++i) {
      const int tag = dwarf_tag(&scopes[i]);
      if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram) continue;
      place.function = name_of(scopes[i]);
      if (place.function.empty()) return false;
      named.push_back(place);
      if (tag == DW_TAG_subprogram) break;
      read_call(scopes[i], *unit, place);
    }
    if (named.empty()) return false;
    places = std::move(named);
    return true;
  }

  static bool name_by_symbol(file& in, Dwarf_Addr call, code_place& place) {
    if (!in.symbols) in.symbols.emplace(in.module);
    const char* const name = in.symbols->name_at(call);
    if (name == nullptr) return false;
    place.function = demangled(name);
    place.source = name_source::symbol_table;
    return true;
  }

  void name_by_unwind_table(file& in, Dwarf_Addr call, code_place& place) {
    if (!in.begins) in.begins = function_begins(in.module);
    const auto behind = std::ranges::upper_bound(*in.begins, call - in.bias);
    if (behind == in.begins->begin()) return;
    place.function = fmt::format("{}+{:#x}", place.module, behind[-1]);
    place.source = name_source::unwind_table;
  }

  std::vector<file> opened_;
  std::map<std::pair<std::optional<std::uint32_t>, std::uint64_t>, std::vector<code_place>> known_;
};

code_names::code_names(std::span<const code_module> modules) : files_(std::make_unique<files>(modules)) {}
code_names::~code_names() = default;

bool code_names::available() noexcept { return true; }

std::vector<code_place> code_names::places_of(const code_frame& frame) {
  return files_->known_places_of(frame);
}

}  // namespace espalier::programs
