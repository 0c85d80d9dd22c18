#include "sim/runtime/arena.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

// Defined by the linker: where the program lies in memory.
extern "C" {
extern const char __executable_start __attribute__((weak));
extern const char _end __attribute__((weak));
}

namespace espalier::sim::arena {

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
  const auto begin = reinterpret_cast<std::uintptr_t>(&__executable_start);
  const auto end = reinterpret_cast<std::uintptr_t>(&_end);
  if (begin != 0 && address - begin < end - begin && address - begin < image_bytes)
    return bytes + (address - begin);
  return std::nullopt;
}

}  // namespace espalier::sim::arena
