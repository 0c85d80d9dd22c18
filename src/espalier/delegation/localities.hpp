#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace espalier::delegation {

/// Cores that share a part of the memory hierarchy, and the NUMA node that is theirs.
struct locality_shape {
  /// Operating-system indices of hardware threads; empty if threads come to this locality in turn.
  std::vector<unsigned> pus;
  /// Where its memory lies; nullopt: where it is first touched.
  std::optional<unsigned> numa_node;
};

/// The localities of a machine. At least one.
class localities {
 public:
  /// Each NUMA node with hardware threads on which this process may run. Throws std::runtime_error if hwloc cannot
  /// describe the machine. Part of espalier::espalier, which links hwloc.
  [[nodiscard]] static localities numa_nodes();
  /// Groups of hardware threads. Throws std::invalid_argument if there is none, if one is empty, or if two share a
  /// hardware thread.
  [[nodiscard]] static localities groups(std::vector<std::vector<unsigned>> pus);
  /// N localities without cores of their own: a thread that attaches without a choice comes to each in turn. Throws
  /// std::invalid_argument for 0.
  [[nodiscard]] static localities in_turn(unsigned count);

  [[nodiscard]] unsigned count() const noexcept { return static_cast<unsigned>(shapes_.size()); }
  [[nodiscard]] const locality_shape& operator[](unsigned index) const noexcept { return shapes_[index]; }
  /// The locality of a hardware thread, if one has it.
  [[nodiscard]] std::optional<unsigned> of_pu(unsigned pu) const noexcept;

 private:
  explicit localities(std::vector<locality_shape> shapes) : shapes_(std::move(shapes)) {}
  std::vector<locality_shape> shapes_;
};

}  // namespace espalier::delegation
