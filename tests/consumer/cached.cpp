// A program with the cache.

#include <espalier/cache/cache.hpp>

#include <string>

int main() {
  espalier::cache<std::string, int> squares;
  squares.set("7", 49);
  return squares.get("7") == 49 && !squares.get("8") ? 0 : 1;
}
