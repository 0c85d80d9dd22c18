// Without libdw: modules and addresses.

#include "espalier/programs/code_names.hpp"

namespace espalier::programs {

class code_names::files {
 public:
  std::span<const code_module> modules;
};

code_names::code_names(std::span<const code_module> modules) : files_(new files{modules}) {}
code_names::~code_names() = default;

bool code_names::available() noexcept { return false; }

std::vector<code_place> code_names::places_of(const code_frame& frame) {
  return {unnamed_place(files_->modules, frame)};
}

}  // namespace espalier::programs
