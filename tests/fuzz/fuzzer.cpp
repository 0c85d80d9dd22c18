// The target of libFuzzer; scripts.hpp says what its bytes mean. The preset `fuzz` builds it:
//
//   cmake --preset fuzz && cmake --build --preset fuzz
//   build/fuzz/tests/ordered_map_fuzzer -max_len=2000 found/ tests/fuzz/corpus
//   build/fuzz/tests/ordered_map_fuzzer -merge=1 tests/fuzz/corpus found/

#include <cstdio>
#include <cstdlib>

#include "fuzz/scripts.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (const auto done = espalier::fuzz::play_any({bytes, size}); !done.wrong.empty()) {
    std::fprintf(stderr, "%s\n", done.wrong.c_str());
    std::abort();
  }
  return 0;
}
