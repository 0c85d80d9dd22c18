// The target of libFuzzer; conversation.hpp says what its bytes mean. The preset `fuzz` builds it:
//
//   cmake --preset fuzz && cmake --build --preset fuzz
//   build/fuzz/tests/serve_protocol_fuzzer -max_len=4000 found/ tests/serve/corpus
//   build/fuzz/tests/serve_protocol_fuzzer -merge=1 tests/serve/corpus found/

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "serve/conversation.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string wrong = espalier::app::serving::play({reinterpret_cast<const char*>(bytes), size});
  if (!wrong.empty()) {
    std::fprintf(stderr, "%s\n", wrong.c_str());
    std::abort();
  }
  return 0;
}
