// The target of libFuzzer; conversation.hpp says what its bytes mean. The preset `fuzz` builds it:
//
//   cmake --preset fuzz && cmake --build --preset fuzz
//   build/fuzz/tests/memcached_fuzzer -max_len=4000 found/ tests/memcached/corpus
//   build/fuzz/tests/memcached_fuzzer -merge=1 tests/memcached/corpus found/

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "memcached/conversation.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string wrong = espalier::memcached::play({reinterpret_cast<const char*>(bytes), size});
  if (!wrong.empty()) {
    std::fprintf(stderr, "%s\n", wrong.c_str());
    std::abort();
  }
  return 0;
}
