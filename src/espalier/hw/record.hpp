#pragma once

// Tells a simulator which bytes belong together. When two threads access one cache line, it can then say whether
// they accessed the same record (a true conflict) or only neighbours (a false one). A simulator sees accesses by
// ThreadSanitizer's instrumentation. Without it the annotation compiles to nothing; with it, and no simulator in the
// program, to a test of one address.
//
// An annotation holds until its bytes are annotated again or their block is freed.
// The header lies here and not in sim/, because programs without the simulator include it too, and macros choose its
// code.

#include <cstddef>
#include <memory>
#include <type_traits>

#include "espalier/hw/instrumentation.hpp"

namespace espalier::hw {

/// The kind of the bytes; the numbers are the `kind` of espalier_annotate_record.
enum class record_kind : int {
  record = 0,    ///< an entry of the data structure: key, value and what belongs to them
  metadata = 1,  ///< counts, versions, locks: what operations on different entries share
};

}  // namespace espalier::hw

#if defined(ESPALIER_THREAD_SANITIZER)
/// A simulator defines it. Weak, so that a program without a simulator links, and calls nothing.
extern "C" __attribute__((weak)) void espalier_annotate_record(const void* first, std::size_t bytes,
                                                               int kind);
#endif

namespace espalier::hw {

// A program may contain both instrumented and plain files. Each kind has functions of its own names, so that the
// linker does not merge them.
#if defined(ESPALIER_THREAD_SANITIZER)
inline namespace observed {
#else
inline namespace unobserved {
#endif

namespace record_detail {
constexpr void annotate([[maybe_unused]] const void* first, [[maybe_unused]] std::size_t bytes,
                        [[maybe_unused]] record_kind kind) noexcept {
#if defined(ESPALIER_THREAD_SANITIZER)
  if (std::is_constant_evaluated()) return;
  if (espalier_annotate_record != nullptr) espalier_annotate_record(first, bytes, static_cast<int>(kind));
#endif
}
}  // namespace record_detail

/// These bytes are one record.
constexpr void annotate_record(const void* first, std::size_t bytes) noexcept {
  record_detail::annotate(first, bytes, record_kind::record);
}

/// This object is one record. Not for pointers: a caller might expect that it annotates the target.
template <class T>
  requires(!std::is_pointer_v<T>)
constexpr void annotate_record(const T& object) noexcept {
  annotate_record(std::addressof(object), sizeof(T));
}

/// These bytes are one piece of metadata.
constexpr void annotate_metadata(const void* first, std::size_t bytes) noexcept {
  record_detail::annotate(first, bytes, record_kind::metadata);
}

/// This object is one piece of metadata; pointers excluded likewise.
template <class T>
  requires(!std::is_pointer_v<T>)
constexpr void annotate_metadata(const T& object) noexcept {
  annotate_metadata(std::addressof(object), sizeof(T));
}

}  // inline namespace observed or unobserved
}  // namespace espalier::hw
