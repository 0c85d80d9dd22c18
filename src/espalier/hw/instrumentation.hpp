#pragma once

// Which sanitizer instruments the file that includes this: defines ESPALIER_ADDRESS_SANITIZER or
// ESPALIER_THREAD_SANITIZER, for g++ and clang++ alike.

#if defined(__SANITIZE_ADDRESS__)
#define ESPALIER_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ESPALIER_ADDRESS_SANITIZER 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define ESPALIER_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ESPALIER_THREAD_SANITIZER 1
#endif
#endif
