#include <gtest/gtest.h>
#include <rocksdb/memtablerep.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "espalier_memtable.hpp"
#include "hints.hpp"
#include "test_keys.hpp"
#include "versions.hpp"

// The memtable without a database, for what RocksDB hides, and its versions of a key by themselves.

namespace rocksdb {
/// RocksDB's class, whose header is not public.
class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual char* Allocate(std::size_t bytes) = 0;
  virtual char* AllocateAligned(std::size_t bytes, std::size_t huge_page_size = 0, Logger* = nullptr) = 0;
  [[nodiscard]] virtual std::size_t BlockSize() const = 0;
};
}  // namespace rocksdb

namespace espalier::memtable {
namespace {

namespace rdb = rocksdb;

class order_of_entries final : public rdb::MemTableRep::KeyComparator {
 public:
  explicit order_of_entries(const rdb::Comparator* order = rdb::BytewiseComparator()) : order_(order) {}
  int operator()(const char* a, const char* b) const override { return (*this)(a, decode_key(b)); }
  int operator()(const char* a, const rdb::Slice& b) const override {
    const auto left = place::of_entry(a);
    const auto right = place::of_internal_key({b.data(), b.size()});
    const int keys = order_->Compare({left.user_key.data(), left.user_key.size()},
                                     {right.user_key.data(), right.user_key.size()});
    if (keys != 0) return keys;
    // RocksDB leaves out the kinds of the entries.
    return left.stamp >> 8U == right.stamp >> 8U ? 0 : left.stamp > right.stamp ? -1 : 1;
  }

 private:
  const rdb::Comparator* order_;
};

std::string entry_of(std::string_view key, std::uint64_t stamp) {
  const std::size_t length = key.size() + sizeof(stamp);
  std::string entry;
  if (length >= 0x80) entry.push_back(static_cast<char>((length & 0x7fU) | 0x80U));
  entry.push_back(static_cast<char>(length >= 0x80 ? length >> 7U : length));
  entry += key;
  entry.append(reinterpret_cast<const char*>(&stamp), sizeof(stamp));
  return entry;
}
/// Of an entry with a sequence number and a kind.
std::uint64_t stamp_of(std::uint64_t sequence, std::uint64_t kind) { return sequence << 8U | kind; }
rdb::Slice internal_key(const std::string& entry) {
  const std::size_t head = static_cast<unsigned char>(entry[0]) >= 0x80 ? 2 : 1;
  return {entry.data() + head, entry.size() - head};
}

class blocks final : public rdb::Allocator {
 public:
  char* Allocate(std::size_t bytes) override { return all_.emplace_back(new char[bytes]).get(); }
  char* AllocateAligned(std::size_t bytes, std::size_t, rdb::Logger*) override { return Allocate(bytes); }
  [[nodiscard]] std::size_t BlockSize() const override { return 4096; }

 private:
  std::deque<std::unique_ptr<char[]>> all_;
};

/// Entries, and what a memtable made of them must show. Most searches are for what is not there.
class memtable_rep : public testing::TestWithParam<variant> {
 protected:
  struct before {
    const rdb::MemTableRep::KeyComparator* order;
    bool operator()(const std::string& a, const std::string& b) const {
      return (*order)(a.data(), b.data()) < 0;
    }
  };
  using entries = std::set<std::string, before>;

  static std::string some_entry(std::mt19937_64& random) {
    return entry_of(key_of(random, 120), stamp_of(random() % 40 * 2, random() % 3));
  }
  /// In one of three ways. There is a hint for keys of one length.
  bool insert(rdb::MemTableRep& rep, const std::string& entry, std::uint64_t way) {
    char* memory = nullptr;
    const rdb::KeyHandle handle = rep.Allocate(entry.size(), &memory);
    std::copy(entry.begin(), entry.end(), memory);
    if (way % 3 == 0) return rep.InsertKey(handle);
    return way % 3 == 1 ? rep.InsertKeyConcurrently(handle)
                        : rep.InsertKeyWithHint(handle, &hints_[entry.size()]);
  }
  static void expect_at(const rdb::MemTableRep::Iterator& i, const entries& all, entries::const_iterator at) {
    ASSERT_EQ(i.Valid(), at != all.end());
    if (i.Valid()) {
      ASSERT_EQ(std::string(i.key(), at->size()), *at);
    }
  }

  std::map<std::size_t, void*> hints_;
};
INSTANTIATE_TEST_SUITE_P(of, memtable_rep, testing::ValuesIn(variants + 1, std::end(variants)),
                         [](const auto& v) { return std::string(v.param.name); });

TEST_P(memtable_rep, does_what_a_set_of_entries_does) {
  const order_of_entries order(GetParam().order);
  for (unsigned seed = 0; seed < 4; ++seed) {
    std::mt19937_64 random(seed);
    blocks memory;
    memtable_factory factory(GetParam().order);
    const std::unique_ptr<rdb::MemTableRep> rep(factory.CreateMemTableRep(order, &memory, nullptr, nullptr));
    entries all(before{&order});
    hints_.clear();
    for (unsigned n = 0; n < 1500; ++n) {
      const std::string entry = some_entry(random);
      ASSERT_EQ(insert(*rep, entry, random()), all.insert(entry).second);
      ASSERT_TRUE(rep->Contains(entry.data()));
      const std::string other = some_entry(random);
      ASSERT_EQ(rep->Contains(other.data()), all.contains(other));
      if (n % 20 != 0) continue;
      const std::unique_ptr<rdb::MemTableRep::Iterator> i(rep->GetIterator());
      ASSERT_FALSE(i->Valid());
      auto at = all.end();
      for (unsigned step = 0; step < 150; ++step) {
        const std::string to =
            random() % 3 == 0 ? some_entry(random)
                              : entry_of(key_of(random, 200), stamp_of(random() % 90, random() % 2 * 0xff));
        const char* const encoded = random() % 2 == 0 ? to.data() : nullptr;
        switch (random() % 16) {
          case 0:
            i->SeekToFirst();
            at = all.begin();
            break;
          case 1:
            i->SeekToLast();
            at = std::prev(all.end());
            break;
          case 2:
          case 3:
            i->Seek(internal_key(to), encoded);
            at = all.lower_bound(to);
            break;
          case 4:
          case 5:
            i->SeekForPrev(internal_key(to), encoded);
            at = all.upper_bound(to);
            at = at == all.begin() ? all.end() : std::prev(at);
            break;
          default:
            if (at == all.end()) break;
            if (random() % 4 != 0) {
              i->Next();
              ++at;
            } else {
              i->Prev();
              at = at == all.begin() ? all.end() : std::prev(at);
            }
        }
        expect_at(*i, all, at);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// As the entries and the range deletions of a memtable do. Each of the two begins the hints of some prefixes, and the skip
// list grows in between.
TEST_P(memtable_rep, shares_its_hints_with_a_skip_list) {
  if (!hints_are_shared) GTEST_SKIP() << "this RocksDB has hints for range deletions of their own";
  const order_of_entries order(GetParam().order);
  std::mt19937_64 random(1);
  blocks memory;
  memtable_factory factory(GetParam().order);
  rdb::SkipListFactory skip_list_factory;
  struct table {
    std::unique_ptr<rdb::MemTableRep> rep;
    entries all;
  };
  std::array tables{
      table{std::unique_ptr<rdb::MemTableRep>(factory.CreateMemTableRep(order, &memory, nullptr, nullptr)),
            entries(before{&order})},
      table{std::unique_ptr<rdb::MemTableRep>(
                skip_list_factory.CreateMemTableRep(order, &memory, nullptr, nullptr)),
            entries(before{&order})}};
  for (unsigned n = 0; n < 20000; ++n) {
    const std::string entry = entry_of(key_of(random, 3000), stamp_of(random() % 40 * 2, random() % 3));
    table& t = tables[random() % 2];
    ASSERT_EQ(insert(*t.rep, entry, n % 8 == 0 ? 0 : 2), t.all.insert(entry).second);
  }
  for (const table& t : tables) {
    const std::unique_ptr<rdb::MemTableRep::Iterator> i(t.rep->GetIterator());
    i->SeekToFirst();
    for (auto at = t.all.begin(); at != t.all.end(); ++at, i->Next()) {
      expect_at(*i, t.all, at);
      if (HasFatalFailure()) return;
    }
    ASSERT_FALSE(i->Valid());
  }
}

// RocksDB destroys an iterator that it has given an arena, and does not delete it.
TEST(memtable_iterators, uses_the_memory_of_iterators_again) {
  const order_of_entries order;
  memtable_factory factory;
  const std::unique_ptr<rdb::MemTableRep> rep(factory.CreateMemTableRep(order, nullptr, nullptr, nullptr));
  rdb::MemTableRep::Iterator* const first = rep->GetIterator();
  rdb::MemTableRep::Iterator* const second = rep->GetIterator();
  EXPECT_NE(first, second);
  first->~Iterator();
  EXPECT_EQ(rep->GetIterator(), first);
  delete second;
  EXPECT_EQ(rep->GetIterator(), second);
  first->~Iterator();
  second->~Iterator();
}

// Versions.

constexpr std::uint64_t one = 0x100;  ///< between the stamps of two sequence numbers

struct versions_of_a_key {
  bool add(std::uint64_t stamp) {
    entries.push_back(entry_of("key", stamp));
    const char* const entry = entries.back().data();
    if (!word) {
      word = key_word::of(entry);
      return true;
    }
    adding step(entry, stamp, [this] { return &made.emplace_back(); });
    static_cast<void>(step.word_after(*word));  // an attempt that fails
    word = step.word_after(*word);
    return step.finish(*word);
  }
  std::optional<key_word> word;
  std::deque<std::string> entries;
  std::deque<version> made;
};

std::uint64_t stamp_of(position p) { return p ? place::of_entry(p.entry).stamp : ~std::uint64_t{0}; }

TEST(versions, are_in_order_however_they_come) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<std::uint64_t> stamps(1 + seed);
    std::iota(stamps.begin(), stamps.end(), 0);
    for (std::uint64_t& s : stamps) s *= 2 * one;
    std::vector<std::uint64_t> in_turn = stamps;
    if (seed % 3 == 1) std::shuffle(in_turn.begin(), in_turn.end(), random);
    if (seed % 3 == 2) std::reverse(in_turn.begin(), in_turn.end());
    versions_of_a_key all;
    for (const std::uint64_t s : in_turn) {
      ASSERT_TRUE(all.add(s));
      ASSERT_FALSE(all.add(s));
      ASSERT_FALSE(all.add(s + 1));  // of another kind
    }
    const std::uint64_t none = ~std::uint64_t{0};
    const std::uint64_t last = stamps.back();
    EXPECT_EQ(stamp_of(newest(*all.word)), last);
    EXPECT_EQ(stamp_of(oldest(*all.word)), 0U);
    for (std::uint64_t s = 0; s <= last + one; s += one) {
      ASSERT_EQ(stamp_of(first_from(*all.word, s)), s / (2 * one) * 2 * one);
      ASSERT_EQ(stamp_of(last_up_to(*all.word, s)), s > last ? none : (s + one) / (2 * one) * 2 * one);
    }
    for (const std::uint64_t s : stamps) {
      const auto at = first_from(*all.word, s);
      ASSERT_EQ(stamp_of(older(at)), s == 0 ? none : s - 2 * one);
      ASSERT_EQ(stamp_of(newer(*all.word, at)), s == last ? none : s + 2 * one);
    }
  }
}

TEST(versions, are_found_in_a_logarithmic_number_of_steps) {
  constexpr unsigned count = 100'000;
  versions_of_a_key all;
  for (unsigned n = 0; n < count; ++n) ASSERT_TRUE(all.add(n * one));
  for (std::uint64_t stamp = 0; stamp + one < count * one; stamp += 97 * one) {
    unsigned steps = 0;
    for (const version* at = all.word->versions(); at->stamp != stamp + one; ++steps) {
      ASSERT_LT(steps, 3U * std::bit_width(count));
      at = at->skip != nullptr && at->skip->stamp > stamp ? at->skip : next_of(*at);
    }
  }
}

TEST(versions, of_concurrent_threads_are_all_there) {
  constexpr unsigned threads = 4;
  constexpr unsigned each = 5000;
  versions_of_a_key all;
  ASSERT_TRUE(all.add(0));
  ASSERT_TRUE(all.add(one));
  std::atomic<key_word> word{*all.word};
  std::array<versions_of_a_key, threads> own;
  std::vector<std::thread> team;
  for (unsigned t = 0; t < threads; ++t) {
    team.emplace_back([&, t] {
      for (unsigned n = 0; n < each; ++n) {
        const std::uint64_t stamp = (2 + std::uint64_t{n} * threads + t) * one;
        own[t].entries.push_back(entry_of("key", stamp));
        adding step(own[t].entries.back().data(), stamp, [&] { return &own[t].made.emplace_back(); });
        key_word now = word.load();
        key_word next = step.word_after(now);
        while (!word.compare_exchange_weak(now, next)) next = step.word_after(now);
        EXPECT_TRUE(step.finish(next));
      }
    });
  }
  for (std::thread& t : team) t.join();
  std::uint64_t expected = 2 + threads * each;
  for (auto at = newest(word.load()); at; at = older(at)) ASSERT_EQ(stamp_of(at), --expected * one);
  EXPECT_EQ(expected, 0U);
}

}  // namespace
}  // namespace espalier::memtable
