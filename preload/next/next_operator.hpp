#pragma once

#include <cstddef>

namespace espalier::preload {

/// The next definition of an operator new or delete, by its mangled name: after the caller's library in the dynamic
/// linker's order, or in a C++ library that a plug-in brought. Without one the process ends with a line that says so:
/// a program without a C++ library calls no operators. May allocate.
[[nodiscard]] void* next_operator_named(const char* name) noexcept;

}  // namespace espalier::preload

// Every operator new and delete: NEW(label, parameters, arguments) and DELETE(label, parameters, arguments). The labels
// are the mangled names: declarations with the compiler's own operators would need the C++ library. The parameters have
// the ABI's forms: std::align_val_t is a number, std::nothrow_t const& an address.
#define ESPALIER_OPERATORS(NEW, DELETE)                                                             \
  NEW(_Znwm, (std::size_t n), (n))                                                                  \
  NEW(_Znam, (std::size_t n), (n))                                                                  \
  NEW(_ZnwmRKSt9nothrow_t, (std::size_t n, const void* t), (n, t))                                  \
  NEW(_ZnamRKSt9nothrow_t, (std::size_t n, const void* t), (n, t))                                  \
  NEW(_ZnwmSt11align_val_t, (std::size_t n, std::size_t a), (n, a))                                 \
  NEW(_ZnamSt11align_val_t, (std::size_t n, std::size_t a), (n, a))                                 \
  NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, (std::size_t n, std::size_t a, const void* t), (n, a, t)) \
  NEW(_ZnamSt11align_val_tRKSt9nothrow_t, (std::size_t n, std::size_t a, const void* t), (n, a, t)) \
  DELETE(_ZdlPv, (void* p), (p))                                                                    \
  DELETE(_ZdaPv, (void* p), (p))                                                                    \
  DELETE(_ZdlPvm, (void* p, std::size_t n), (p, n))                                                 \
  DELETE(_ZdaPvm, (void* p, std::size_t n), (p, n))                                                 \
  DELETE(_ZdlPvRKSt9nothrow_t, (void* p, const void* t), (p, t))                                    \
  DELETE(_ZdaPvRKSt9nothrow_t, (void* p, const void* t), (p, t))                                    \
  DELETE(_ZdlPvSt11align_val_t, (void* p, std::size_t a), (p, a))                                   \
  DELETE(_ZdaPvSt11align_val_t, (void* p, std::size_t a), (p, a))                                   \
  DELETE(_ZdlPvmSt11align_val_t, (void* p, std::size_t n, std::size_t a), (p, n, a))                \
  DELETE(_ZdaPvmSt11align_val_t, (void* p, std::size_t n, std::size_t a), (p, n, a))                \
  DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void* p, std::size_t a, const void* t), (p, a, t))   \
  DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void* p, std::size_t a, const void* t), (p, a, t))
