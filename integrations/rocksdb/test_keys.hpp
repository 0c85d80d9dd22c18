#pragma once

#include <rocksdb/comparator.h>
#include <rocksdb/slice.h>

#include <cstdint>
#include <ostream>
#include <random>
#include <string>

// The orders of keys for which there are memtables, and keys, for the tests.

namespace espalier::memtable {

/// Shorter keys first: an order that is not that of the bytes.
class by_length final : public rocksdb::Comparator {
 public:
  [[nodiscard]] const char* Name() const override { return "by_length"; }
  [[nodiscard]] int Compare(const rocksdb::Slice& a, const rocksdb::Slice& b) const override {
    return a.size() != b.size() ? (a.size() < b.size() ? -1 : 1) : a.compare(b);
  }
  void FindShortestSeparator(std::string*, const rocksdb::Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

inline const rocksdb::Comparator* order_by_length() {
  static const by_length order;
  return &order;
}

struct variant {
  const char* name;
  const rocksdb::Comparator* order;
  bool is_skip_list = false;
};
inline void PrintTo(const variant& v, std::ostream* to) { *to << v.name; }

inline const variant variants[] = {{"skip_list", rocksdb::BytewiseComparator(), true},
                                   {"bytes", rocksdb::BytewiseComparator()},
                                   {"bytes_reversed", rocksdb::ReverseBytewiseComparator()},
                                   {"by_length", order_by_length()}};

/// Keys that share beginnings, some of them beginnings of others, with zeros in them.
inline std::string key_of(std::mt19937_64& random, unsigned most) {
  const std::uint64_t n = random() % most;
  std::string key = n % 3 == 0   ? ""
                    : n % 3 == 1 ? "a long beginning that keys share/"
                                 : std::string("\0\0", 2);
  if (n % 10 == 0) key.append(150, 'l');
  for (std::uint64_t rest = n; rest != 0; rest /= 7) key.push_back("\0ab\xffz0\x80"[rest % 7]);
  return key;
}

}  // namespace espalier::memtable
