#include <espalier/ordered_map.hpp>

int main() {
  espalier::ordered_map<int, double> scores;
  for (int key = 10; key > 0; --key) scores.insert(key, key / 2.0);
  double sum = 0;
  scores.scan(3, 5, [&](int, double value) { sum += value; });
  return scores.find(7) == 3.5 && sum == 3.5 ? 0 : 1;
}
