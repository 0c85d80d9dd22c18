#include "emulated_rtm/c_library_code.hpp"

#include <gnu/libc-version.h>
#include <link.h>

#include <cstddef>

namespace espalier::emulated_rtm {
namespace {

std::uintptr_t code_begin = 0;
std::uintptr_t code_end = 0;

int look_in(dl_phdr_info* module, std::size_t, void*) noexcept {
  const auto wanted = reinterpret_cast<std::uintptr_t>(&gnu_get_libc_version);
  for (ElfW(Half) i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module->dlpi_phdr[i];
    const std::uintptr_t begin = module->dlpi_addr + part.p_vaddr;
    if (part.p_type != PT_LOAD || wanted < begin || wanted - begin >= part.p_memsz) continue;
    code_begin = begin;
    code_end = begin + part.p_memsz;
    return 1;
  }
  return 0;
}

}  // namespace

void find_c_library() noexcept { dl_iterate_phdr(look_in, nullptr); }

bool is_of_c_library(std::uintptr_t address) noexcept { return code_begin <= address && address < code_end; }

}  // namespace espalier::emulated_rtm
