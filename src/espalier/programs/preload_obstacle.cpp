#include "espalier/programs/preload_obstacle.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <system_error>

namespace espalier::programs {
namespace {

namespace fs = std::filesystem;

/// Searches PATH as execvp() does; empty if the program is not found.
fs::path found_in_path(const fs::path& program) {
  if (program.string().find('/') != std::string::npos) return program;
  const char* const folders = std::getenv("PATH");
  std::string_view rest = folders == nullptr ? "/bin:/usr/bin" : folders;
  for (bool more = true; more;) {
    const auto colon = rest.find(':');
    const std::string_view folder = rest.substr(0, colon);
    more = colon != std::string_view::npos;
    if (more) rest.remove_prefix(colon + 1);
    fs::path candidate = fs::path(folder.empty() ? "." : folder) / program;
    std::error_code ignored;
    if (fs::is_regular_file(candidate, ignored) && access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

/// The program that runs a script: the first word after "#!".
std::optional<fs::path> interpreter_of(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line) || !line.starts_with("#!")) return std::nullopt;
  const auto begin = line.find_first_not_of(" \t", 2);
  if (begin == std::string::npos) return std::nullopt;
  return line.substr(begin, line.find_first_of(" \t", begin) - begin);
}

std::optional<std::string> rights_obstacle(const fs::path& file) {
  struct stat status{};
  if (stat(file.c_str(), &status) != 0) return std::nullopt;
  const bool other_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != geteuid();
  const bool other_group = (status.st_mode & S_ISGID) != 0 && status.st_gid != getegid();
  const bool capable = geteuid() != 0 && getxattr(file.c_str(), "security.capability", nullptr, 0) > 0;
  if (!other_user && !other_group && !capable) return std::nullopt;
  return fmt::format(
      "'{}' runs with more rights than its caller's (set-user-id, set-group-id or capabilities), and nothing "
      "is "
      "preloaded into such programs; run it as the user that it becomes, or a copy without these rights",
      file.string());
}

std::optional<std::string> format_obstacle(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  Elf64_Ehdr header{};
  in.read(reinterpret_cast<char*>(&header), sizeof header);
  if (in.gcount() < EI_NIDENT || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return fmt::format("'{}' is neither a program nor a script that names its interpreter; name a program",
                       file.string());
  if (!in || header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64)
    return fmt::format("'{}' is a program for another architecture; name one for x86-64", file.string());
  in.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (!in.read(reinterpret_cast<char*>(&segment), sizeof segment)) break;
    if (segment.p_type == PT_INTERP) return std::nullopt;
  }
  return fmt::format("'{}' is linked statically, so no library can be preloaded into it; link it dynamically",
                     file.string());
}

}  // namespace

std::optional<std::string> preload_obstacle(const fs::path& program) {
  fs::path file = found_in_path(program);
  std::error_code failed;
  if (file.empty() || !fs::exists(file, failed))
    return fmt::format("there is no program '{}'; name one in PATH, or by its path", program.string());
  // An interpreter may be a script itself, up to the kernel's limit.
  for (int depth = 0; depth < 4; ++depth) {
    if (!fs::is_regular_file(file, failed) || access(file.c_str(), X_OK) != 0)
      return fmt::format("'{}' is no file that may be executed; name a program", file.string());
    const auto interpreter = interpreter_of(file);
    if (!interpreter) break;
    file = *interpreter;
    if (!fs::exists(file, failed))
      return fmt::format("'{}' is run by '{}', which there is not; install it", program.string(),
                         file.string());
  }
  if (auto obstacle = rights_obstacle(file)) return obstacle;
  return format_obstacle(file);
}

}  // namespace espalier::programs
