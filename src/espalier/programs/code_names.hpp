#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace espalier::programs {

/// An executable or shared library that contains frames.
struct code_module {
  std::string path;
  std::string build_id;  ///< its bytes; empty where it has none

  bool operator==(const code_module&) const = default;
};

struct code_frame {
  std::optional<std::uint32_t> module;  ///< index in the modules; nullopt for code generated at run time
  std::uint64_t address = 0;            ///< return address in the module's file, or in the process

  bool operator==(const code_frame&) const = default;
};

/// The origin of a name, best first.
enum class name_source : std::uint8_t {
  debug_info,    ///< DWARF: function, file and line
  symbol_table,  ///< .symtab or .dynsym: the function
  unwind_table,  ///< stripped: only where the function begins
  module_only,
};

/// A place in a program's code. An inlined call has several, innermost first.
struct code_place {
  std::string function;  ///< demangled, without parameters; "module+0x..." if there is no name
  std::string module;    ///< file name; empty for code generated at run time
  std::string file;      ///< name of the source file; empty if not known
  int line = 0;
  name_source source = name_source::module_only;
};

/// Names places in modules from their files, and from their separate debug information where it is installed. A file is
/// not used if its build id shows that it is not the one that ran. Files are opened when a frame in them is first
/// requested; without libdw none are. Not thread-safe.
class code_names {
 public:
  /// Refers to the modules, which must outlive this object.
  explicit code_names(std::span<const code_module> modules);
  ~code_names();

  /// The places of the call that returns to a frame; at least one.
  [[nodiscard]] std::vector<code_place> places_of(const code_frame& frame);

  /// False if Espalier was built without libdw.
  [[nodiscard]] static bool available() noexcept;

 private:
  class files;
  std::unique_ptr<files> files_;
};

/// A demangled function name without its parameters, without "(anonymous namespace)::" and without the suffix that
/// compilers append to copies of functions: "f(int) [clone .isra.0]" becomes "f". Template arguments that make it
/// longer than 80 characters become "<>".
[[nodiscard]] std::string short_function_name(std::string name);

/// "file+0x1234", used where there are no names.
[[nodiscard]] code_place unnamed_place(std::span<const code_module> modules, const code_frame& frame);

}  // namespace espalier::programs
