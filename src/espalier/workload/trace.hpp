#pragma once

// Recorded operations as text, one per line:
//   lookup KEY | insert KEY VALUE | assign KEY VALUE | erase KEY | scan KEY COUNT
//   exchange KEY VALUE | extract KEY | add KEY AMOUNT
// "add" is an update that adds to the value, where an absent key counts as 0. Each word stands for one map_operation;
// contains and reverse_scan have none.
// Numbers are unsigned, of 64 bits, decimal or 0x hexadecimal. '#' begins a comment; blank lines are allowed.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/catalog/step.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/io/output_file.hpp"

namespace espalier::workload {

using catalog::step;

/// Throws std::invalid_argument ("name:line: what was found; what was expected"), or std::system_error if the input
/// cannot be read.
std::vector<step> read_trace(std::istream& in, std::string_view name);
std::vector<step> read_trace(const std::filesystem::path& file);

/// Writes the steps and commits the file. read_trace() reads them back. Throws as output_file does, and
/// std::invalid_argument for an operation that has no form.
void write_trace(io::output_file& file, std::span<const step> steps);

/// Collects the operations of several threads in the order in which they were recorded.
class trace_recorder {
 public:
  /// One thread's buffer; only its owner may call record().
  class alignas(hw::false_sharing_bytes) lane {
   public:
    /// Takes no lock; one atomic increment orders the record among all lanes. That is the order of these calls: record
    /// an operation directly before or after it, always on the same side. Amortized constant.
    void record(const step& performed);

   private:
    friend class trace_recorder;
    struct entry {
      std::uint64_t sequence;
      step performed;
    };
    explicit lane(std::atomic<std::uint64_t>& next) : next_(&next) {}

    std::atomic<std::uint64_t>* next_;
    std::vector<entry> entries_;
  };

  /// Throws std::invalid_argument if threads is 0. Reserves space for `expected` steps per lane.
  explicit trace_recorder(unsigned threads, std::size_t expected = 0);
  trace_recorder(const trace_recorder&) = delete;
  trace_recorder& operator=(const trace_recorder&) = delete;

  /// Throws std::out_of_range.
  lane& lane_of(unsigned thread) { return lanes_.at(thread); }

  /// All steps in sequence. Call these two only when no thread records any more.
  [[nodiscard]] std::vector<step> steps() const;
  void write(io::output_file& file) const { write_trace(file, steps()); }

 private:
  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> next_ = 0;
  alignas(hw::false_sharing_bytes) std::vector<lane> lanes_;
};

}  // namespace espalier::workload
