// Reads the dynamic linker's data of the objects with which the program started: they stay unchanged until it ends.

#include "preload/next/later_definition.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdint>

namespace espalier::preload {
namespace {

/// strcmp() would cost each program a symbol search at its start.
bool same(const char* a, const char* b) noexcept {
  for (; *a == *b; ++a, ++b) {
    if (*a == 0) return true;
  }
  return false;
}

/// The functions that an object exports.
class shown_functions {
 public:
  explicit shown_functions(const link_map& object) noexcept : base_(object.l_addr) {
    for (const ElfW(Dyn)* entry = object.l_ld; entry->d_tag != DT_NULL; ++entry) {
      switch (entry->d_tag) {
        case DT_SYMTAB:
          set(symbols_, *entry);
          break;
        case DT_STRTAB:
          set(names_, *entry);
          break;
        case DT_VERSYM:
          set(versions_, *entry);
          break;
        case DT_GNU_HASH:
          set(by_gnu_hash_, *entry);
          break;
        case DT_HASH:
          set(by_hash_, *entry);
          break;
        default:
          break;
      }
    }
  }

  [[nodiscard]] void* find(const char* name) const noexcept {
    if (by_gnu_hash_ != nullptr) return find_by_gnu_hash(name);
    if (by_hash_ == nullptr) return nullptr;
    // A DT_HASH table contains the number of symbols. Such tables are rare, so a linear search suffices.
    for (std::uint32_t i = 0; i < by_hash_[1]; ++i) {
      if (is(i, name)) return address(i);
    }
    return nullptr;
  }

 private:
  /// glibc adds the base in place, except where the section is read-only.
  template <class Entry>
  void set(const Entry*& to, const ElfW(Dyn) & entry) noexcept {
    const ElfW(Addr) at = entry.d_un.d_ptr;
    to = reinterpret_cast<const Entry*>(at < base_ ? base_ + at : at);  // NOLINT(performance-no-int-to-ptr)
  }

  [[nodiscard]] void* find_by_gnu_hash(const char* name) const noexcept {
    std::uint32_t hash = 5381;
    for (const char* at = name; *at != 0; ++at) hash = 33 * hash + static_cast<unsigned char>(*at);
    const std::uint32_t buckets = by_gnu_hash_[0];
    const std::uint32_t first_hashed = by_gnu_hash_[1];
    const std::uint32_t filter_words = by_gnu_hash_[2];
    const std::uint32_t* const bucket = by_gnu_hash_ + 4 + filter_words * (sizeof(ElfW(Addr)) / sizeof hash);
    const std::uint32_t* const hashes = bucket + buckets;
    if (buckets == 0) return nullptr;
    std::uint32_t i = bucket[hash % buckets];
    if (i < first_hashed) return nullptr;
    // The lowest bit marks the last symbol of a bucket.
    for (;; ++i) {
      const std::uint32_t of_symbol = hashes[i - first_hashed];
      if ((of_symbol | 1U) == (hash | 1U) && is(i, name)) return address(i);
      if ((of_symbol & 1U) != 0) return nullptr;
    }
  }

  [[nodiscard]] bool is(std::uint32_t i, const char* name) const noexcept {
    constexpr ElfW(Half) hidden = 0x8000;
    const ElfW(Sym)& symbol = symbols_[i];
    return symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
           ELF64_ST_BIND(symbol.st_info) != STB_LOCAL && same(names_ + symbol.st_name, name) &&
           (versions_ == nullptr || (versions_[i] & hidden) == 0);
  }
  [[nodiscard]] void* address(std::uint32_t i) const noexcept {
    return reinterpret_cast<void*>(base_ + symbols_[i].st_value);  // NOLINT(performance-no-int-to-ptr)
  }

  ElfW(Addr) base_;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* names_ = nullptr;
  const ElfW(Half) * versions_ = nullptr;
  const std::uint32_t* by_gnu_hash_ = nullptr;
  const std::uint32_t* by_hash_ = nullptr;
};

}  // namespace

void* later_definition(const char* name) noexcept {
  dl_find_object own{};
  if (_dl_find_object(reinterpret_cast<void*>(&later_definition), &own) != 0) return nullptr;
  for (const link_map* object = own.dlfo_link_map->l_next; object != nullptr; object = object->l_next) {
    if (void* const found = shown_functions(*object).find(name)) return found;
  }
  return nullptr;
}

}  // namespace espalier::preload
