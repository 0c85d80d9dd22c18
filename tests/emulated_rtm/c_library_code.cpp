#include "emulated_rtm/c_library_code.hpp"

#include <gnu/libc-version.h>
#include <link.h>

#include <cstddef>

namespace espalier::emulated_rtm {

void c_library_code::find() noexcept {
  const auto in_module = [](dl_phdr_info* module, std::size_t, void* result) noexcept {
    const auto wanted = reinterpret_cast<std::uintptr_t>(&gnu_get_libc_version);
    for (ElfW(Half) i = 0; i < module->dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = module->dlpi_phdr[i];
      const std::uintptr_t begin = module->dlpi_addr + part.p_vaddr;
      if (part.p_type != PT_LOAD || wanted < begin || wanted - begin >= part.p_memsz) continue;
      auto& found = *static_cast<c_library_code*>(result);
      found.begin_ = begin;
      found.end_ = begin + part.p_memsz;
      return 1;
    }
    return 0;
  };
  dl_iterate_phdr(in_module, this);
}

}  // namespace espalier::emulated_rtm
