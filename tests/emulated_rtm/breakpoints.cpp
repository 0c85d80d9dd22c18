#include "emulated_rtm/breakpoints.hpp"

#include <sys/mman.h>

#include "emulated_rtm/raw_calls.hpp"
#include "preload/kernel/page_bytes.hpp"

namespace espalier::emulated_rtm {
namespace {

using preload::page_bytes;

constexpr unsigned char breakpoint_instruction = 0xcc;

volatile unsigned char& code_at(std::uintptr_t address) noexcept {
  return *reinterpret_cast<volatile unsigned char*>(address);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

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
