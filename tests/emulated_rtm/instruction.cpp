#include "emulated_rtm/instruction.hpp"

#include <Zydis/Zydis.h>
#include <gnu/libc-version.h>
#include <link.h>

// NOLINTBEGIN(performance-no-int-to-ptr): addresses are registers here

namespace espalier::emulated_rtm {
namespace {

constexpr std::size_t longest_instruction = 15;

/// In the order of the encoding.
constexpr std::array<int, 16> general_registers{REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                                REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                                REG_R12, REG_R13, REG_R14, REG_R15};

std::uintptr_t thread_pointer() noexcept {
  return reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
}

std::uintptr_t value_of(ZydisRegister name, const ucontext_t& at, std::size_t length) noexcept {
  const auto& all = at.uc_mcontext.gregs;
  if (name == ZYDIS_REGISTER_NONE) return 0;
  if (name == ZYDIS_REGISTER_RIP) return static_cast<std::uintptr_t>(all[REG_RIP]) + length;
  const auto id = static_cast<std::uint8_t>(ZydisRegisterGetId(name));
  const auto whole = static_cast<std::uintptr_t>(all[general_registers[id]]);
  return ZydisRegisterGetClass(name) == ZYDIS_REGCLASS_GPR32 ? whole & 0xffff'ffffU : whole;
}

std::uintptr_t address_of(const ZydisDecodedOperandMem& mem, const ucontext_t& at,
                          std::size_t length) noexcept {
  std::uintptr_t address = static_cast<std::uintptr_t>(mem.disp.value) + value_of(mem.base, at, length) +
                           value_of(mem.index, at, length) * mem.scale;
  // Code of 64 bits has a base other than 0 in these two alone, and Linux gives programs the first.
  if (mem.segment == ZYDIS_REGISTER_FS) address += thread_pointer();
  return address;
}

/// Aborts on the processor too, or does what is not followed here.
bool is_refused(const ZydisDecodedInstruction& decoded, std::uintptr_t address) noexcept {
  switch (decoded.meta.category) {
    case ZYDIS_CATEGORY_SYSCALL:
    case ZYDIS_CATEGORY_INTERRUPT:
    case ZYDIS_CATEGORY_IO:
    case ZYDIS_CATEGORY_IOSTRINGOP:
    case ZYDIS_CATEGORY_SYSTEM:
    case ZYDIS_CATEGORY_XSAVE:
    case ZYDIS_CATEGORY_XSAVEOPT:
    case ZYDIS_CATEGORY_SCATTER:
    case ZYDIS_CATEGORY_GATHER:
      return true;
    default:
      break;
  }
  switch (decoded.mnemonic) {
    case ZYDIS_MNEMONIC_CPUID:
    case ZYDIS_MNEMONIC_PAUSE:
    case ZYDIS_MNEMONIC_ENTER:
    case ZYDIS_MNEMONIC_FXSAVE:
    case ZYDIS_MNEMONIC_FXSAVE64:
    case ZYDIS_MNEMONIC_UMWAIT:
    case ZYDIS_MNEMONIC_TPAUSE:
    case ZYDIS_MNEMONIC_CLFLUSH:
    case ZYDIS_MNEMONIC_CLFLUSHOPT:
    case ZYDIS_MNEMONIC_CLWB:
    case ZYDIS_MNEMONIC_WRFSBASE:
    case ZYDIS_MNEMONIC_WRGSBASE:
      return true;
    case ZYDIS_MNEMONIC_VZEROUPPER:
    case ZYDIS_MNEMONIC_VZEROALL:
      return !is_of_c_library(address);
    default:
      return false;
  }
}

instruction_kind kind_of(const ZydisDecodedInstruction& decoded, std::uintptr_t address) noexcept {
  switch (decoded.mnemonic) {
    case ZYDIS_MNEMONIC_XBEGIN:
      return instruction_kind::begin;
    case ZYDIS_MNEMONIC_XEND:
      return instruction_kind::end;
    case ZYDIS_MNEMONIC_XTEST:
      return instruction_kind::test;
    case ZYDIS_MNEMONIC_XABORT:
      return instruction_kind::abort;
    default:
      return is_refused(decoded, address) ? instruction_kind::refused : instruction_kind::ordinary;
  }
}

using operands_of_one = std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT>;

bool decode(std::uintptr_t address, ZydisDecodedInstruction& decoded, operands_of_one& operands) noexcept {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, reinterpret_cast<const void*>(address),
                                             longest_instruction, &decoded, operands.data()));
}

bool is_memory(const ZydisDecodedOperand& operand) noexcept {
  return operand.type == ZYDIS_OPERAND_TYPE_MEMORY && operand.mem.type == ZYDIS_MEMOP_TYPE_MEM;
}

bool writes(const ZydisDecodedOperand& operand) noexcept {
  return is_memory(operand) && (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
}

bool is_transfer(const ZydisDecodedInstruction& decoded) noexcept {
  switch (decoded.meta.category) {
    case ZYDIS_CATEGORY_COND_BR:
    case ZYDIS_CATEGORY_UNCOND_BR:
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_RET:
      return true;
    default:
      return false;
  }
}

std::uintptr_t relative_target(std::uintptr_t address, const ZydisDecodedInstruction& decoded,
                               const ZydisDecodedOperand& operand) noexcept {
  return address + decoded.length + static_cast<std::uintptr_t>(operand.imm.value.s);
}

std::uintptr_t pointer_at(std::uintptr_t address) noexcept {
  return *reinterpret_cast<const std::uintptr_t*>(address);
}

std::uintptr_t target_of(const ucontext_t& at, const ZydisDecodedInstruction& decoded,
                         const ZydisDecodedOperand& operand) noexcept {
  const auto here = static_cast<std::uintptr_t>(at.uc_mcontext.gregs[REG_RIP]);
  if (decoded.meta.category == ZYDIS_CATEGORY_RET)
    return pointer_at(static_cast<std::uintptr_t>(at.uc_mcontext.gregs[REG_RSP]));
  if (operand.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) return relative_target(here, decoded, operand);
  if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER) return value_of(operand.reg.value, at, decoded.length);
  return pointer_at(address_of(operand.mem, at, decoded.length));
}

successors successors_of(const ucontext_t& at, const ZydisDecodedInstruction& decoded,
                         const ZydisDecodedOperand& first) noexcept {
  const std::uintptr_t behind = static_cast<std::uintptr_t>(at.uc_mcontext.gregs[REG_RIP]) + decoded.length;
  if (!is_transfer(decoded)) return {{behind}, 1};
  if (decoded.meta.category == ZYDIS_CATEGORY_COND_BR) return {{behind, target_of(at, decoded, first)}, 2};
  return {{target_of(at, decoded, first)}, 1};
}

constexpr greg_t direction_flag = 1 << 10;

}  // namespace

instruction::instruction(const ucontext_t& at) noexcept {
  ZydisDecodedInstruction decoded;
  operands_of_one operands;
  const auto here = static_cast<std::uintptr_t>(at.uc_mcontext.gregs[REG_RIP]);
  if (!decode(here, decoded, operands)) return;
  length_ = decoded.length;
  kind_ = kind_of(decoded, here);
  if (kind_ == instruction_kind::begin) constant_ = operands[0].imm.value.s;
  if (kind_ == instruction_kind::abort)
    constant_ = static_cast<std::int64_t>(operands[0].imm.value.u & 0xffU);
  if (kind_ != instruction_kind::ordinary) return;

  const bool pushes =
      decoded.meta.category == ZYDIS_CATEGORY_PUSH || decoded.meta.category == ZYDIS_CATEGORY_CALL;
  const bool repeats =
      (decoded.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE)) != 0;
  const auto rounds = repeats ? static_cast<std::size_t>(at.uc_mcontext.gregs[REG_RCX]) : 1;
  const bool backwards = repeats && (at.uc_mcontext.gregs[REG_EFL] & direction_flag) != 0;
  for (std::size_t i = 0; i < decoded.operand_count; ++i) {
    const ZydisDecodedOperand& operand = operands[i];
    if (!is_memory(operand)) continue;
    memory_access access{address_of(operand.mem, at, length_), operand.size / 8U, writes(operand)};
    // The stack pointer moves before it is written through.
    if (pushes && operand.visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN) access.address -= access.bytes;
    if (access.bytes == 0 || access.bytes > 64 || count_ == accesses_.size() || backwards) {
      kind_ = instruction_kind::refused;
      return;
    }
    access.bytes *= rounds;
    if (access.bytes != 0) accesses_[count_++] = access;
  }
  next_ = successors_of(at, decoded, operands[0]);
}

std::uintptr_t first_of_note(std::uintptr_t address) noexcept {
  // A loop of jumps alone would have no end.
  for (unsigned instructions = 0; instructions < 256; ++instructions) {
    ZydisDecodedInstruction decoded;
    operands_of_one operands;
    if (!decode(address, decoded, operands) || kind_of(decoded, address) != instruction_kind::ordinary) break;
    if (is_transfer(decoded)) {
      const bool is_direct = decoded.meta.category == ZYDIS_CATEGORY_UNCOND_BR &&
                             operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
      if (!is_direct) break;
      address = relative_target(address, decoded, operands[0]);
      continue;
    }
    bool any_writes = false;
    for (std::size_t i = 0; i < decoded.operand_count; ++i) any_writes = any_writes || writes(operands[i]);
    if (any_writes) break;
    address += decoded.length;
  }
  return address;
}

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

// NOLINTEND(performance-no-int-to-ptr)
