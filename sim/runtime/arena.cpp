#include "sim/runtime/arena.hpp"

#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace espalier::sim::arena {
namespace {

struct range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

/// The program's range in memory. The linker's symbols for it would be this library's own, or are not visible from here
/// if the program is position-independent.
range find_program() noexcept {
  range found;
  // The program itself comes first.
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        auto& program = *static_cast<range*>(out);
        for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD) continue;
          const std::uintptr_t first = info->dlpi_addr + segment.p_vaddr;
          program.begin = program.end == 0 ? first : std::min(program.begin, first);
          program.end = std::max(program.end, first + segment.p_memsz);
        }
        return 1;
      },
      &found);
  return found;
}

const range program = find_program();

}  // namespace

void reserve() {
  static const bool done = [] {
    void* const wanted = reinterpret_cast<void*>(base);
    void* const got = mmap(wanted, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED)
      throw std::runtime_error(std::string("the simulated machine needs 64 GiB of address space: ") +
                               std::strerror(errno) + "; is there a limit (ulimit -v)?");
    if (got != wanted) {
      munmap(got, bytes);
      throw std::runtime_error("the address range of the simulated machine is taken");
    }
    return true;
  }();
  static_cast<void>(done);
}

std::optional<std::uint64_t> simulated(std::uintptr_t address) noexcept {
  if (contains(address)) return address - base;
  const std::uintptr_t offset = address - program.begin;
  if (offset < program.end - program.begin && offset < image_bytes) return bytes + offset;
  return std::nullopt;
}

}  // namespace espalier::sim::arena
