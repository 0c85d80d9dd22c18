#include "preload/recording/frame_rule.hpp"

#include <dlfcn.h>

#include <array>
#include <cstring>

namespace espalier::preload {
namespace {

// Columns of x86-64.
constexpr std::uint64_t rbp = 6;
constexpr std::uint64_t rsp = 7;
constexpr std::uint64_t return_column = 16;

// Pointer encodings: the low half is the format, the high half the base of a relative pointer.
constexpr unsigned format_mask = 0x0f;
constexpr unsigned relative_mask = 0x70;
constexpr unsigned relative_to_itself = 0x10;
constexpr unsigned relative_to_data = 0x30;
constexpr unsigned signed_4_bytes = 0x0b;
constexpr unsigned omitted = 0xff;

/// Reads forward and never past the end: missing bytes read as 0, and the cursor fails.
class cursor {
 public:
  cursor(const std::byte* begin, const std::byte* end) noexcept : at_(begin), end_(end) {}

  [[nodiscard]] bool more() const noexcept { return !failed_ && at_ < end_; }
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  [[nodiscard]] const std::byte* position() const noexcept { return at_; }
  [[nodiscard]] const std::byte* end() const noexcept { return end_; }

  template <class T>
  T fixed() noexcept {
    T value{};
    if (static_cast<std::size_t>(end_ - at_) < sizeof(T)) {
      fail();
    } else {
      std::memcpy(&value, at_, sizeof(T));
      at_ += sizeof(T);
    }
    return value;
  }
  std::uint8_t byte() noexcept { return fixed<std::uint8_t>(); }

  std::uint64_t uleb() noexcept { return leb(nullptr); }
  std::int64_t sleb() noexcept {
    unsigned bits = 0;
    std::uint64_t value = leb(&bits);
    if (bits < 64 && bits > 0 && (value >> (bits - 1) & 1U) != 0) value |= ~std::uint64_t{0} << bits;
    return static_cast<std::int64_t>(value);
  }

  void skip(std::uint64_t bytes) noexcept {
    if (bytes > static_cast<std::uint64_t>(end_ - at_)) return fail();
    at_ += bytes;
  }

  /// The next `bytes` bytes, which this cursor skips.
  cursor part(std::uint64_t bytes) noexcept {
    const std::byte* const begin = at_;
    skip(bytes);
    return failed_ ? cursor(end_, end_) : cursor(begin, at_);
  }

  /// A pointer as .eh_frame encodes it; relative to data does not occur there.
  std::uintptr_t pointer(unsigned encoding, bool relative = true) noexcept {
    const auto self = reinterpret_cast<std::uintptr_t>(at_);
    std::uint64_t value = 0;
    switch (encoding & format_mask) {
      case 0x00:  // as wide as a pointer
      case 0x04:
      case 0x0c:
        value = fixed<std::uint64_t>();
        break;
      case 0x01:
        value = uleb();
        break;
      case 0x02:
        value = fixed<std::uint16_t>();
        break;
      case 0x03:
        value = fixed<std::uint32_t>();
        break;
      case 0x09:
        value = static_cast<std::uint64_t>(sleb());
        break;
      case 0x0a:
        value = static_cast<std::uint64_t>(std::int64_t{fixed<std::int16_t>()});
        break;
      case signed_4_bytes:
        value = static_cast<std::uint64_t>(std::int64_t{fixed<std::int32_t>()});
        break;
      default:
        fail();
        return 0;
    }
    if (!relative || (encoding & relative_mask) == 0) return value;
    if ((encoding & relative_mask) == relative_to_itself) return value + self;
    fail();
    return 0;
  }

 private:
  void fail() noexcept {
    failed_ = true;
    at_ = end_;
  }
  std::uint64_t leb(unsigned* bits) noexcept {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const std::uint8_t part = byte();
      if (shift < 64) value |= std::uint64_t{part & 0x7fU} << shift;
      if ((part & 0x80U) == 0 || failed_) {
        if (bits != nullptr) *bits = shift + 7;
        return value;
      }
    }
  }

  const std::byte* at_;
  const std::byte* end_;
  bool failed_ = false;
};

/// Where a register's value is, or how it is computed. Only expressions that a rule can hold are supported.
struct place {
  enum class kind : std::uint8_t { same, at_cfa, at_register, other };
  kind how = kind::same;
  std::uint64_t reg = 0;  // at_register: saved at this register + offset
  std::int64_t offset = 0;
};

struct row {
  enum class kind : std::uint8_t { register_and_offset, word_at_register, other };
  kind cfa_how = kind::other;
  std::uint64_t cfa_register = 0;
  std::int64_t cfa_offset = 0;
  place fp;
  place ra;

  place* column(std::uint64_t reg) noexcept {
    if (reg == rbp) return &fp;
    return reg == return_column ? &ra : nullptr;
  }
};

/// "register + offset", and whether it is dereferenced.
struct register_expression {
  bool known = false;
  bool dereferenced = false;
  std::uint64_t reg = 0;
  std::int64_t offset = 0;
};

register_expression expression(cursor in) noexcept {
  constexpr std::uint8_t breg0 = 0x70;
  constexpr std::uint8_t breg31 = 0x8f;
  constexpr std::uint8_t deref = 0x06;
  register_expression found;
  const std::uint8_t operation = in.byte();
  if (operation < breg0 || operation > breg31) return found;
  found.reg = operation - breg0;
  found.offset = in.sleb();
  found.dereferenced = in.more();
  if (found.dereferenced && in.byte() != deref) return found;
  found.known = !in.failed() && !in.more();
  return found;
}

struct common_entry {
  bool valid = false;
  bool augmented = false;
  bool of_signal = false;
  std::uint64_t code_factor = 1;
  std::int64_t data_factor = 1;
  unsigned pointer_encoding = 0;
  cursor instructions{nullptr, nullptr};
};

/// The contents of an entry after its length; empty for an entry of length 0 or with a 64-bit length.
cursor entry_at(const std::byte* at) noexcept {
  std::uint32_t bytes = 0;
  std::memcpy(&bytes, at, sizeof(bytes));
  if (bytes == 0xffff'ffffU) bytes = 0;
  return {at + sizeof(bytes), at + sizeof(bytes) + bytes};
}

common_entry read_common_entry(const std::byte* at) noexcept {
  common_entry common;
  cursor in = entry_at(at);
  if (in.fixed<std::uint32_t>() != 0) return common;
  const std::uint8_t version = in.byte();
  if (version != 1 && version != 3) return common;
  const auto* const letters = reinterpret_cast<const char*>(in.position());
  while (in.byte() != 0) {
  }
  common.code_factor = in.uleb();
  common.data_factor = in.sleb();
  const std::uint64_t column = version == 1 ? in.byte() : in.uleb();
  if (in.failed() || column != return_column) return common;
  if (letters[0] == 'z') {
    common.augmented = true;
    cursor data = in.part(in.uleb());
    for (const char* letter = letters + 1; *letter != 0; ++letter) {
      if (*letter == 'R') common.pointer_encoding = data.byte();
      if (*letter == 'L') data.byte();
      if (*letter == 'S') common.of_signal = true;
      if (*letter == 'P') {
        const unsigned encoding = data.byte();
        data.pointer(encoding, false);
      }
    }
    if (data.failed()) return common;
  } else if (letters[0] != 0) {
    return common;
  }
  common.instructions = in;
  common.valid = !in.failed();
  return common;
}

/// Executes call frame instructions up to the row that is valid at an address of the code.
class row_machine {
 public:
  row_machine(const common_entry& common, std::uintptr_t begin, std::uintptr_t wanted) noexcept
      : common_(common), location_(begin), wanted_(wanted) {}

  bool run(cursor in) noexcept {
    while (in.more() && !past_) {
      if (!step(in)) return false;
    }
    return !in.failed();
  }
  void keep_initial() noexcept { initial_ = row_; }
  [[nodiscard]] const row& result() const noexcept { return row_; }

 private:
  void advance(std::uint64_t units) noexcept {
    const std::uintptr_t next = location_ + units * common_.code_factor;
    past_ = next > wanted_;
    if (!past_) location_ = next;
  }
  void set(std::uint64_t reg, const place& where) noexcept {
    if (place* const column = row_.column(reg)) *column = where;
  }
  void restore(std::uint64_t reg) noexcept {
    if (place* const column = row_.column(reg)) *column = *initial_.column(reg);
  }
  void set_saved(std::uint64_t reg, std::int64_t factored) noexcept {
    set(reg, {place::kind::at_cfa, 0, scaled(factored)});
  }
  /// Wraps around and does not overflow: damaged numbers may have any size.
  [[nodiscard]] std::int64_t scaled(std::int64_t factored) const noexcept {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(factored) *
                                     static_cast<std::uint64_t>(common_.data_factor));
  }
  void set_cfa(std::uint64_t reg, std::int64_t offset) noexcept {
    row_.cfa_how = row::kind::register_and_offset;
    row_.cfa_register = reg;
    row_.cfa_offset = offset;
  }

  bool step(cursor& in) noexcept {
    const std::uint8_t instruction = in.byte();
    const std::uint64_t operand = instruction & 0x3fU;
    switch (instruction & 0xc0U) {
      case 0x40:
        advance(operand);
        return true;
      case 0x80:
        set_saved(operand, static_cast<std::int64_t>(in.uleb()));
        return true;
      case 0xc0:
        restore(operand);
        return true;
      default:
        return step_extended(instruction, in);
    }
  }

  bool step_extended(std::uint8_t instruction, cursor& in) noexcept {
    switch (instruction) {
      case 0x00:
        return true;  // DW_CFA_nop
      case 0x01: {    // DW_CFA_set_loc
        const std::uintptr_t next = in.pointer(common_.pointer_encoding);
        past_ = next > wanted_;
        if (!past_) location_ = next;
        return true;
      }
      case 0x02:
        advance(in.byte());
        return true;
      case 0x03:
        advance(in.fixed<std::uint16_t>());
        return true;
      case 0x04:
        advance(in.fixed<std::uint32_t>());
        return true;
      case 0x05: {  // DW_CFA_offset_extended
        const std::uint64_t reg = in.uleb();
        set_saved(reg, static_cast<std::int64_t>(in.uleb()));
        return true;
      }
      case 0x06:
        restore(in.uleb());
        return true;
      case 0x07:  // DW_CFA_undefined
        set(in.uleb(), {place::kind::other, 0, 0});
        return true;
      case 0x08:  // DW_CFA_same_value
        set(in.uleb(), {place::kind::same, 0, 0});
        return true;
      case 0x09: {  // DW_CFA_register
        const std::uint64_t reg = in.uleb();
        in.uleb();
        set(reg, {place::kind::other, 0, 0});
        return true;
      }
      case 0x0a:  // DW_CFA_remember_state
        if (depth_ == remembered_.size()) return false;
        remembered_[depth_++] = row_;
        return true;
      case 0x0b:  // DW_CFA_restore_state
        if (depth_ == 0) return false;
        row_ = remembered_[--depth_];
        return true;
      case 0x0c: {  // DW_CFA_def_cfa
        const std::uint64_t reg = in.uleb();
        set_cfa(reg, static_cast<std::int64_t>(in.uleb()));
        return true;
      }
      case 0x0d:  // DW_CFA_def_cfa_register
        row_.cfa_register = in.uleb();
        return true;
      case 0x0e:  // DW_CFA_def_cfa_offset
        row_.cfa_offset = static_cast<std::int64_t>(in.uleb());
        return true;
      case 0x0f: {  // DW_CFA_def_cfa_expression
        const register_expression found = expression(in.part(in.uleb()));
        row_.cfa_how = !found.known         ? row::kind::other
                       : found.dereferenced ? row::kind::word_at_register
                                            : row::kind::register_and_offset;
        row_.cfa_register = found.reg;
        row_.cfa_offset = found.offset;
        return true;
      }
      case 0x10: {  // DW_CFA_expression
        const std::uint64_t reg = in.uleb();
        const register_expression found = expression(in.part(in.uleb()));
        const bool plain = found.known && !found.dereferenced;
        set(reg, {plain ? place::kind::at_register : place::kind::other, found.reg, found.offset});
        return true;
      }
      case 0x11: {  // DW_CFA_offset_extended_sf
        const std::uint64_t reg = in.uleb();
        set_saved(reg, in.sleb());
        return true;
      }
      case 0x12: {  // DW_CFA_def_cfa_sf
        const std::uint64_t reg = in.uleb();
        set_cfa(reg, scaled(in.sleb()));
        return true;
      }
      case 0x13:  // DW_CFA_def_cfa_offset_sf
        row_.cfa_offset = scaled(in.sleb());
        return true;
      case 0x14:  // DW_CFA_val_offset, DW_CFA_val_offset_sf
      case 0x15: {
        const std::uint64_t reg = in.uleb();
        in.sleb();
        set(reg, {place::kind::other, 0, 0});
        return true;
      }
      case 0x16: {  // DW_CFA_val_expression
        const std::uint64_t reg = in.uleb();
        in.skip(in.uleb());
        set(reg, {place::kind::other, 0, 0});
        return true;
      }
      case 0x2e:  // DW_CFA_GNU_args_size
        in.uleb();
        return true;
      default:
        return false;
    }
  }

  const common_entry& common_;
  std::uintptr_t location_;
  std::uintptr_t wanted_;
  bool past_ = false;
  row row_;
  row initial_;
  std::array<row, 8> remembered_{};
  std::size_t depth_ = 0;
};

/// The entry of the last function in the table that begins at or before an address; null where there is none.
const std::byte* find_function(const std::byte* header, std::uintptr_t address) noexcept {
  const auto byte = [header](int i) { return std::to_integer<unsigned>(header[i]); };
  // All linkers write the table in this encoding; any other is not searched.
  if (byte(0) != 1 || byte(1) == omitted || byte(2) != 0x03 || byte(3) != (relative_to_data | signed_4_bytes))
    return nullptr;
  cursor in(header + 4, header + 4 + 16);
  in.pointer(byte(1), false);
  const std::uint32_t count = in.fixed<std::uint32_t>();
  const std::byte* const table = in.position();
  const auto base = reinterpret_cast<std::uintptr_t>(header);
  const auto value = [table](std::size_t i) {
    std::int32_t stored = 0;
    std::memcpy(&stored, table + 4 * i, sizeof(stored));
    return static_cast<std::uintptr_t>(std::intptr_t{stored});
  };
  std::size_t from = 0;
  std::size_t to = count;
  while (from < to) {
    const std::size_t middle = from + (to - from) / 2;
    if (base + value(2 * middle) <= address) {
      from = middle + 1;
    } else {
      to = middle;
    }
  }
  return from == 0 ? nullptr : header + static_cast<std::intptr_t>(value(2 * from - 1));
}

frame_rule rule_of(const row& found) noexcept {
  using cfa_from = frame_rule::cfa_from;
  using fp_from = frame_rule::fp_from;
  constexpr std::int64_t limit = std::int64_t{1} << 23U;
  const auto fits = [](std::int64_t offset) { return offset >= -limit && offset < limit; };
  frame_rule rule;
  // An outermost frame has no return address.
  if (found.ra.how != place::kind::at_cfa || found.ra.offset != -8) return rule;
  if (found.cfa_how == row::kind::other || !fits(found.cfa_offset)) return rule;
  const bool stored = found.cfa_how == row::kind::word_at_register;
  if (found.cfa_register == rsp) {
    rule.cfa = stored ? cfa_from::at_stack_pointer : cfa_from::stack_pointer;
  } else if (found.cfa_register == rbp) {
    rule.cfa = stored ? cfa_from::at_frame_pointer : cfa_from::frame_pointer;
  } else {
    return rule;
  }
  rule.cfa_offset = static_cast<std::int32_t>(found.cfa_offset);
  switch (found.fp.how) {
    case place::kind::same:
      rule.fp = fp_from::unchanged;
      break;
    case place::kind::at_cfa:
      rule.fp = fp_from::cfa;
      break;
    case place::kind::at_register:
      rule.fp = found.fp.reg == rbp ? fp_from::at_frame_pointer : fp_from::lost;
      break;
    case place::kind::other:
      break;
  }
  if (!fits(found.fp.offset)) rule.fp = fp_from::lost;
  const bool saved = rule.fp == fp_from::cfa || rule.fp == fp_from::at_frame_pointer;
  if (saved) rule.fp_offset = static_cast<std::int32_t>(found.fp.offset);
  return rule;
}

}  // namespace

frame_rule frame_rule_in(const std::byte* eh_frame_header, std::uintptr_t return_address) noexcept {
  // The call may be the last instruction of its function: the row of the call is wanted.
  const std::uintptr_t wanted = return_address - 1;
  const std::byte* const entry = find_function(eh_frame_header, wanted);
  if (entry == nullptr) return {};
  cursor in = entry_at(entry);
  const std::byte* const at = in.position();
  const std::uint32_t back = in.fixed<std::uint32_t>();
  if (in.failed() || back == 0) return {};
  const common_entry common = read_common_entry(at - back);
  if (!common.valid || common.of_signal) return {};
  const std::uintptr_t begin = in.pointer(common.pointer_encoding);
  const std::uintptr_t bytes = in.pointer(common.pointer_encoding, false);
  if (in.failed() || wanted - begin >= bytes) return {};
  if (common.augmented) in.skip(in.uleb());

  row_machine machine(common, begin, wanted);
  if (!machine.run(common.instructions)) return {};
  machine.keep_initial();
  return machine.run(in) ? rule_of(machine.result()) : frame_rule{};
}

frame_rule frame_rule_at(std::uintptr_t return_address) noexcept {
  dl_find_object found{};
  if (_dl_find_object(reinterpret_cast<void*>(return_address - 1), &found) != 0) return {};
  if (found.dlfo_eh_frame == nullptr) return {};
  return frame_rule_in(static_cast<const std::byte*>(found.dlfo_eh_frame), return_address);
}

std::uint64_t packed(const frame_rule& rule) noexcept {
  constexpr std::uint64_t mask = 0xff'ffff;
  constexpr std::uint64_t present = 1;
  return present | static_cast<std::uint64_t>(rule.cfa) << 1U | static_cast<std::uint64_t>(rule.fp) << 4U |
         (static_cast<std::uint64_t>(rule.cfa_offset) & mask) << 8U |
         (static_cast<std::uint64_t>(rule.fp_offset) & mask) << 32U;
}

frame_rule unpacked_frame_rule(std::uint64_t word) noexcept {
  // The shifts to the top and back extend the sign.
  const auto offset = [word](unsigned lowest) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(word >> lowest << 8U)) >> 8U;
  };
  return {static_cast<frame_rule::cfa_from>(word >> 1U & 7U),
          static_cast<frame_rule::fp_from>(word >> 4U & 3U), offset(8), offset(32)};
}

}  // namespace espalier::preload
