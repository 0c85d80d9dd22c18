#pragma once

// On which PUs threads run: the order in which to hand PUs out, and pinning of the calling thread.

#include <optional>
#include <span>
#include <vector>

namespace espalier::hw {

class topology;

enum class pin_policy {
  cores,    ///< one PU of each core, package after package; then the SMT siblings in the same order
  scatter,  ///< as cores, but taking the packages in turn
  none      ///< threads are not pinned
};

/// Operating-system indices of the PUs on which the calling thread may run, ascending. Throws
/// std::system_error if the kernel does not report it.
std::vector<unsigned> allowed_pus();

/// Operating-system indices of PUs in the order in which a policy fills them; empty for pin_policy::none.
/// For this machine it lists only the PUs in allowed_pus(); for a machine known by its description only, all PUs.
/// Linear in the number of PUs, except for a sort.
std::vector<unsigned> pin_order(const topology& machine, pin_policy policy);

/// The same with the allowed PUs given. The first PU of a core is its first allowed one.
std::vector<unsigned> pin_order(const topology& machine, pin_policy policy,
                                std::span<const unsigned> allowed);

/// Binds the calling thread to one PU for the object's lifetime, then restores the former mask. Create and destroy
/// it on the same thread; destroy nested ones in reverse order.
class [[nodiscard]] scoped_pin {
 public:
  /// Throws std::system_error, which names the PU, if the kernel refuses.
  explicit scoped_pin(unsigned pu);
  /// A failure to restore (the former PUs are gone) leaves the thread where the kernel puts it.
  ~scoped_pin();
  scoped_pin(const scoped_pin&) = delete;
  scoped_pin& operator=(const scoped_pin&) = delete;

 private:
  std::vector<unsigned long> former_mask_;
};

/// The PU on which the caller runs at this moment, or nullopt if the system does not report it.
std::optional<unsigned> current_cpu() noexcept;

}  // namespace espalier::hw
