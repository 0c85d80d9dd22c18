#include <cstdint>
#include <cstdio>

extern "C" std::uint64_t count_of(std::uint64_t n);

int main() {
  const bool right = count_of(1000) == 1000;
  std::puts(right ? "plugin: right" : "plugin: wrong");
  return right ? 0 : 1;
}
