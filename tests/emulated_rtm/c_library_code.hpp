#pragma once

#include <cstdint>

namespace espalier::emulated_rtm {

/// Where the C library's own instructions are. It copies, compares and searches by other instructions where the
/// processor has transactions than where it has none; those of this processor are forgiven what the others avoid.
class c_library_code {
 public:
  void find() noexcept;
  [[nodiscard]] bool has(std::uintptr_t address) const noexcept {
    return begin_ <= address && address < end_;
  }

 private:
  std::uintptr_t begin_ = 0;
  std::uintptr_t end_ = 0;
};

}  // namespace espalier::emulated_rtm
