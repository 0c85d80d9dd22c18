#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "espalier/programs/call_sites.hpp"

namespace espalier::programs {

/// Where a name comes from, best first.
enum class name_source : std::uint8_t {
  debug_info,    ///< DWARF: function, file and line
  symbol_table,  ///< .symtab or .dynsym: the function
  unwind_table,  ///< stripped: only where the function begins
  module_only,
};

/// A place in a program's code. Of a call that was inlined there are several, the innermost first.
struct code_place {
  std::string function;  ///< demangled, without parameters; "module+0x..." where there is no name
  std::string module;    ///< file name, empty for code made at run time
  std::string file;      ///< name of the source file, empty where it is not known
  int line = 0;
  name_source source = name_source::module_only;
};

/// Names places in modules from their files, and from their separate debug information where it is installed.
/// A file that is not the one that ran, by its build id, is not asked. Files are opened when a frame in them is
/// first asked for; without libdw none are. Not thread-safe.
class code_names {
 public:
  /// Refers to the modules: they must outlive it.
  explicit code_names(std::span<const code_module> modules);
  ~code_names();
  code_names(code_names&&) noexcept;
  code_names& operator=(code_names&&) noexcept;

  /// The places of the call that returns to a frame; at least one.
  [[nodiscard]] std::vector<code_place> places_of(const code_frame& frame);

  /// False where Espalier was built without libdw.
  [[nodiscard]] static bool available() noexcept;

 private:
  class files;
  std::unique_ptr<files> files_;
};

/// A demangled function without its parameters, without "(anonymous namespace)::" and without what compilers append
/// to copies of functions: "f(int) [clone .isra.0]" is "f". Template arguments that make it longer than 80
/// characters become "<>".
[[nodiscard]] std::string short_function_name(std::string name);

/// "file+0x1234": what is left where there are no names.
[[nodiscard]] code_place unnamed_place(std::span<const code_module> modules, const code_frame& frame);

}  // namespace espalier::programs
