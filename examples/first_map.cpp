// The shortest program: a map that threads share.
//
// Prints:
//   3 is the cube root of 27

#include <cstdio>
#include <espalier/ordered_map.hpp>
#include <thread>

int main() {
  espalier::ordered_map<int, int> root_of;
  const auto insert = [&](int from, int to) {
    for (int i = from; i < to; ++i) root_of.insert(i * i * i, i);
  };
  std::thread helper(insert, 0, 100);
  insert(100, 200);
  helper.join();
  if (const auto root = root_of.find(27)) std::printf("%d is the cube root of 27\n", *root);
}
