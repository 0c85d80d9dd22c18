# Compiler settings shared by every target of this project. Consumers of the installed library inherit
# only the language level and the include path; warnings and sanitizers stay private to this build.

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(ESPALIER_CCACHE ccache)
if(PROJECT_IS_TOP_LEVEL AND ESPALIER_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${ESPALIER_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${ESPALIER_CCACHE}")
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(espalier_private INTERFACE)
target_compile_features(espalier_private INTERFACE cxx_std_20)
target_compile_options(espalier_private INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  $<$<BOOL:${ESPALIER_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 finds overlapping copies inside its own std::string at -O2 and above.
  target_compile_options(espalier_private INTERFACE -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # With g++'s library std::stable_sort() counts as deprecated; and clang doubts offsetof where a value is no standard
  # layout, though it has one.
  target_compile_options(espalier_private INTERFACE -Wno-deprecated-declarations -Wno-invalid-offsetof)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ collects garbage from 128 MiB on, and most of these units need three times that. This saves a tenth of the
  # compilation.
  target_compile_options(espalier_private INTERFACE "SHELL:--param ggc-min-heapsize=524288")
endif()
if(ESPALIER_NATIVE)
  target_compile_options(espalier_private INTERFACE -march=native)
endif()
if(ESPALIER_SANITIZE)
  target_compile_options(espalier_private INTERFACE
    -fsanitize=${ESPALIER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(espalier_private INTERFACE -fsanitize=${ESPALIER_SANITIZE})
  if(ESPALIER_SANITIZE MATCHES "address,undefined")
    # AddressSanitizer detects null pointers and accesses beyond an object too, and the suite layout checks alignments.
    # This saves a third of the compilation.
    target_compile_options(espalier_private INTERFACE -fno-sanitize=null,alignment,object-size)
  endif()
  if(ESPALIER_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ cannot model fences and warns at each; the orderings that a test relies on are carried by atomics.
    target_compile_options(espalier_private INTERFACE -Wno-tsan)
  endif()
endif()

# Most of a test build takes longer to compile than to run, and -Og takes a fifth less of that than -O1. This is for
# code that runs longer:
set(espalier_optimised "")
if(CMAKE_CXX_FLAGS_DEBUG MATCHES "-Og")
  set(espalier_optimised $<$<CONFIG:Debug>:-O1>)
endif()

# For code that runs inside transactions, or inside programs that were not compiled with it. Code that used 256-bit
# registers must clear their upper halves (vzeroupper), which aborts a transaction; otherwise it slows down the
# program's SSE instructions. Link it after espalier_private, because -march=native would undo it.
add_library(espalier_no_avx INTERFACE)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  target_compile_options(espalier_no_avx INTERFACE -mno-avx)
endif()
