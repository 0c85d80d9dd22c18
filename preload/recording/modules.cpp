#include "preload/recording/modules.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "preload/kernel/saved_errno.hpp"

namespace espalier::preload {
namespace {

static_assert(sizeof(code_module) == 536);

/// Reads the build id from a loaded module's note, which the program headers locate.
void read_build_id(const link_map& map, const void* mapping, code_module& module) noexcept {
  const auto* const header = static_cast<const ElfW(Ehdr)*>(mapping);
  if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return;
  const auto* const base = static_cast<const std::byte*>(mapping);
  const auto* const segments = reinterpret_cast<const ElfW(Phdr)*>(base + header->e_phoff);
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    if (segments[i].p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const std::byte*>(map.l_addr + segments[i].p_vaddr);
    const std::byte* const end = at + segments[i].p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      const auto* const note = reinterpret_cast<const ElfW(Nhdr)*>(at);
      const std::byte* const name = at + sizeof(*note);
      const std::byte* const content = name + (std::size_t{note->n_namesz} + 3) / 4 * 4;
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0 &&
          note->n_descsz <= module.build_id.size()) {
        module.build_id_bytes = static_cast<std::uint8_t>(note->n_descsz);
        std::memcpy(module.build_id.data(), content, note->n_descsz);
        return;
      }
      at = content + (std::size_t{note->n_descsz} + 3) / 4 * 4;
    }
  }
}

void read_path(const link_map& map, code_module& module) noexcept {
  const std::size_t room = module.path.size() - 1;
  // The executable's own name is empty there. thread-self also works when the process's first thread has ended.
  if (map.l_name == nullptr || map.l_name[0] == 0) {
    const saved_errno keep;
    const ssize_t length = readlink("/proc/thread-self/exe", module.path.data(), room);
    module.path[length > 0 ? static_cast<std::size_t>(length) : 0] = 0;
    return;
  }
  const std::size_t length = std::min(std::strlen(map.l_name), room);
  std::memcpy(module.path.data(), map.l_name, length);
  module.path[length] = 0;
}

bool contains(const code_module& module, std::uintptr_t address) noexcept {
  return module.loaded && address - module.begin < module.end - module.begin;
}

}  // namespace

std::uint32_t module_list::find(std::uintptr_t return_address) noexcept {
  const std::uintptr_t call = return_address - 1;
  if (latest_ != none && contains(modules_[latest_], call)) return latest_;
  for (std::uint32_t i = 0; i < count_; ++i) {
    if (contains(modules_[i], call)) return latest_ = i;
  }
  dl_find_object found{};
  if (_dl_find_object(reinterpret_cast<void*>(call), &found) != 0) return none;
  if (modules_ == nullptr) modules_ = budget_.map_array<code_module>(most);
  if (modules_ == nullptr || count_ == most) return none;
  code_module& added = modules_[count_];
  added.begin = reinterpret_cast<std::uintptr_t>(found.dlfo_map_start);
  added.end = reinterpret_cast<std::uintptr_t>(found.dlfo_map_end);
  added.bias = found.dlfo_link_map->l_addr;
  added.loaded = true;
  read_path(*found.dlfo_link_map, added);
  read_build_id(*found.dlfo_link_map, found.dlfo_map_start, added);
  return latest_ = static_cast<std::uint32_t>(count_++);
}

bool module_list::refresh() noexcept {
  bool gone = false;
  for (std::size_t i = 0; i < count_; ++i) {
    code_module& module = modules_[i];
    if (!module.loaded) continue;
    dl_find_object found{};
    module.loaded = _dl_find_object(reinterpret_cast<void*>(module.begin), &found) == 0 &&
                    reinterpret_cast<std::uintptr_t>(found.dlfo_map_start) == module.begin;
    gone |= !module.loaded;
  }
  latest_ = none;
  return gone;
}

}  // namespace espalier::preload
