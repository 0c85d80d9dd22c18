#include "emulated_rtm/pages.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include "emulated_rtm/raw_calls.hpp"
#include "preload/kernel/pages.hpp"

namespace espalier::emulated_rtm {
namespace {

using preload::page_bytes;

// An entry's bits, see the kernel's admin-guide/mm/pagemap.
constexpr std::uint64_t present = std::uint64_t{1} << 63U;
constexpr std::uint64_t file_or_shared = std::uint64_t{1} << 61U;
constexpr std::uint64_t of_this_process_alone = std::uint64_t{1} << 56U;

constexpr unsigned char breakpoint_instruction = 0xcc;

volatile unsigned char& code_at(std::uintptr_t address) noexcept {
  return *reinterpret_cast<volatile unsigned char*>(address);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

bool resident_pages::hold(std::uintptr_t address, std::size_t bytes, bool writes) noexcept {
  for (std::uintptr_t page = address / page_bytes; page <= (address + bytes - 1) / page_bytes; ++page)
    if (!holds(page, writes)) return false;
  return true;
}

bool resident_pages::holds(std::uintptr_t page, bool writes) noexcept {
  known_page& memo = known_[page % known_.size()];
  if (memo.transaction == transaction_ && memo.page == page && (memo.writes || !writes)) return true;
  if (!ask(page, writes)) return false;
  memo = {transaction_, page, writes};
  return true;
}

void resident_pages::forget() noexcept {
  ++transaction_;
  // Opened anew for each: after a fork it would still tell of the parent.
  if (map_ >= 0) raw_call(SYS_close, map_);
  map_ = -1;
}

bool resident_pages::ask(std::uintptr_t page, bool writes) noexcept {
  if (map_ < 0)
    map_ = static_cast<int>(
        raw_call(SYS_openat, AT_FDCWD, as_argument("/proc/self/pagemap"), O_RDONLY | O_CLOEXEC));
  std::uint64_t entry = 0;
  const auto offset = static_cast<long>(page * sizeof entry);
  if (map_ < 0 || raw_call(SYS_pread64, map_, as_argument(&entry), sizeof entry, offset) != sizeof entry)
    return true;
  if ((entry & present) == 0) return false;
  return !writes || (entry & (file_or_shared | of_this_process_alone)) != 0;
}

bool breakpoints::make_writable(std::uintptr_t address) noexcept {
  const std::uintptr_t page = address / page_bytes;
  known_page& memo = writable_[page % writable_.size()];
  if (memo.page == page && memo.transaction == transaction_) return true;
  const auto start = static_cast<long>(page * page_bytes);
  if (raw_call(SYS_mprotect, start, page_bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return false;
  memo = {page, transaction_};
  return true;
}

bool breakpoints::place(const std::uintptr_t* addresses, std::size_t count) noexcept {
  count_ = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (!make_writable(addresses[i])) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (i == 1 && addresses[1] == addresses[0]) break;
    all_[count_++] = {addresses[i], code_at(addresses[i])};
    code_at(addresses[i]) = breakpoint_instruction;
  }
  are_there_ = true;
  return true;
}

void breakpoints::remove() noexcept {
  if (!are_there_) return;
  for (std::size_t i = 0; i < count_; ++i) code_at(all_[i].address) = all_[i].before;
  are_there_ = false;
}

bool breakpoints::had(std::uintptr_t address) const noexcept {
  for (std::size_t i = 0; i < count_; ++i)
    if (all_[i].address == address) return true;
  return false;
}

}  // namespace espalier::emulated_rtm
