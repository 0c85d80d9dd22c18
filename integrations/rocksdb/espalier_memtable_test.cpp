#include "espalier_memtable.hpp"

#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/options.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/utilities/options_util.h>
#include <rocksdb/utilities/write_batch_with_index.h>
#include <rocksdb/version.h>
#include <rocksdb/write_batch.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "versions.hpp"

// The memtable inside a database, against std::map, with RocksDB's skip list as the control that shows what the model
// expects; its versions of a key by themselves; and the memtable without a database, for what RocksDB hides.

namespace {

namespace rdb = rocksdb;

/// Shorter keys first: an order that is not that of the bytes.
class by_length final : public rdb::Comparator {
 public:
  [[nodiscard]] const char* Name() const override { return "by_length"; }
  [[nodiscard]] int Compare(const rdb::Slice& a, const rdb::Slice& b) const override {
    return a.size() != b.size() ? (a.size() < b.size() ? -1 : 1) : a.compare(b);
  }
  void FindShortestSeparator(std::string*, const rdb::Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

const rdb::Comparator* order_by_length() {
  static const by_length order;
  return &order;
}

struct variant {
  const char* name;
  const rdb::Comparator* order;
  bool is_skip_list = false;
};
void PrintTo(const variant& v, std::ostream* to) { *to << v.name; }

const variant variants[] = {{"skip_list", rdb::BytewiseComparator(), true},
                            {"bytes", rdb::BytewiseComparator()},
                            {"bytes_reversed", rdb::ReverseBytewiseComparator()},
                            {"by_length", order_by_length()}};

class append final : public rdb::AssociativeMergeOperator {
 public:
  [[nodiscard]] const char* Name() const override { return "append"; }
  bool Merge(const rdb::Slice&, const rdb::Slice* before, const rdb::Slice& more, std::string* merged,
             rdb::Logger*) const override {
    *merged = (before != nullptr ? before->ToString() : "") + more.ToString();
    return true;
  }
};

/// A database in memory.
class database {
 public:
  explicit database(const variant& v) : env_(rdb::NewMemEnv(rdb::Env::Default())) {
    options.create_if_missing = true;
    options.env = env_.get();
    options.comparator = v.order;
    options.allow_concurrent_memtable_write = true;
    options.merge_operator = std::make_shared<append>();
    if (v.is_skip_list)
      options.memtable_factory = std::make_shared<rdb::SkipListFactory>();
    else
      options.memtable_factory = std::make_shared<espalier::memtable_factory>(v.order);
    open();
  }
  void open() {
    db_.reset();
    rdb::DB* opened = nullptr;
    const rdb::Status status = rdb::DB::Open(options, "/db", &opened);
    ASSERT_TRUE(status.ok()) << status.ToString();
    db_.reset(opened);
  }
  rdb::DB* operator->() { return db_.get(); }

  rdb::Options options;

 private:
  std::unique_ptr<rdb::Env> env_;
  std::unique_ptr<rdb::DB> db_;
};

struct order_of {
  const rdb::Comparator* order;
  bool operator()(const std::string& a, const std::string& b) const { return order->Compare(a, b) < 0; }
};
using model = std::map<std::string, std::string, order_of>;

/// Keys that share beginnings, some of them beginnings of others, with zeros in them.
std::string key_of(std::mt19937_64& random, unsigned most) {
  const std::uint64_t n = random() % most;
  std::string key = n % 3 == 0   ? ""
                    : n % 3 == 1 ? "a long beginning that keys share/"
                                 : std::string("\0\0", 2);
  if (n % 10 == 0) key.append(150, 'l');
  for (std::uint64_t rest = n; rest != 0; rest /= 7) key.push_back("\0ab\xffz0\x80"[rest % 7]);
  return key;
}

class memtable : public testing::TestWithParam<variant> {
 protected:
  void expect_same(database& db, const model& expected, const rdb::Snapshot* at = nullptr) {
    rdb::ReadOptions reading;
    reading.snapshot = at;
    const std::unique_ptr<rdb::Iterator> i(db->NewIterator(reading));
    i->SeekToFirst();
    for (const auto& [key, value] : expected) {
      ASSERT_TRUE(i->Valid()) << "forward, at " << testing::PrintToString(key);
      ASSERT_EQ(i->key().ToString(), key);
      ASSERT_EQ(i->value().ToString(), value);
      i->Next();
    }
    ASSERT_FALSE(i->Valid());
    i->SeekToLast();
    for (auto e = expected.rbegin(); e != expected.rend(); ++e) {
      ASSERT_TRUE(i->Valid()) << "backward, at " << testing::PrintToString(e->first);
      ASSERT_EQ(i->key().ToString(), e->first);
      ASSERT_EQ(i->value().ToString(), e->second);
      i->Prev();
    }
    ASSERT_FALSE(i->Valid());
    ASSERT_TRUE(i->status().ok());
  }

  /// Seeks, and walks that turn.
  void expect_same_walks(database& db, const model& expected, std::mt19937_64& random, unsigned keys,
                         const rdb::Snapshot* at = nullptr) {
    rdb::ReadOptions reading;
    reading.snapshot = at;
    const std::unique_ptr<rdb::Iterator> i(db->NewIterator(reading));
    for (unsigned n = 0; n < 20; ++n) {
      const std::string from = key_of(random, keys);
      auto e = expected.lower_bound(from);
      if (random() % 2 == 0) {
        i->Seek(from);
      } else {
        i->SeekForPrev(from);
        if (e == expected.end() || e->first != from)
          e = e == expected.begin() ? expected.end() : std::prev(e);
      }
      for (unsigned step = 0; step < 100; ++step) {
        ASSERT_EQ(i->Valid(), e != expected.end());
        if (!i->Valid()) break;
        ASSERT_EQ(i->key().ToString(), e->first);
        ASSERT_EQ(i->value().ToString(), e->second);
        if (random() % 4 != 0) {
          i->Next();
          ++e;
        } else {
          i->Prev();
          e = e == expected.begin() ? expected.end() : std::prev(e);
        }
      }
      std::string value;
      const rdb::Status found = db->Get(reading, from, &value);
      const auto there = expected.find(from);
      ASSERT_EQ(found.ok(), there != expected.end());
      if (found.ok()) {
        ASSERT_EQ(value, there->second);
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(of, memtable, testing::ValuesIn(variants),
                         [](const auto& v) { return std::string(v.param.name); });

TEST_P(memtable, does_what_a_map_does) {
  for (const unsigned keys : {40U, 3000U}) {
    database db(GetParam());
    std::mt19937_64 random(keys);
    model now(order_of{GetParam().order});
    std::vector<std::pair<const rdb::Snapshot*, model>> snapshots;
    for (unsigned n = 0; n < 4000; ++n) {
      const std::string key = key_of(random, keys);
      switch (random() % 16) {
        default: {
          const std::string value = std::to_string(n) + std::string(random() % 50, 'v');
          ASSERT_TRUE(db->Put({}, key, value).ok());
          now[key] = value;
          break;
        }
        case 1:
        case 2:
          ASSERT_TRUE(db->Delete({}, key).ok());
          now.erase(key);
          break;
        case 3: {
          // Of one batch the last one counts; a range counts from its place on.
          rdb::WriteBatch batch;
          ASSERT_TRUE(batch.Put(key, "first").ok());
          ASSERT_TRUE(batch.Delete(key).ok());
          ASSERT_TRUE(batch.Put(key, "last").ok());
          ASSERT_TRUE(db->Write({}, &batch).ok());
          now[key] = "last";
          break;
        }
        case 6:
          ASSERT_TRUE(db->Merge({}, key, "+" + std::to_string(n % 10)).ok());
          now[key] += "+" + std::to_string(n % 10);
          break;
        case 4:
          if (random() % 100 == 0) {
            if (snapshots.size() == 3) {
              expect_same(db, snapshots.front().second, snapshots.front().first);
              db->ReleaseSnapshot(snapshots.front().first);
              snapshots.erase(snapshots.begin());
            }
            snapshots.emplace_back(db->GetSnapshot(), now);
          }
          break;
        case 5:
          if (random() % 40 == 0) expect_same_walks(db, now, random, keys);
          if (!snapshots.empty() && random() % 40 == 0)
            expect_same_walks(db, snapshots[0].second, random, keys, snapshots[0].first);
          break;
      }
      if (HasFatalFailure()) return;
      if (n == 1300 || n == 2700) {
        ASSERT_TRUE(db->Flush({}).ok());
      }
    }
    expect_same(db, now);
    for (const auto& [at, then] : snapshots) {
      expect_same(db, then, at);
      db->ReleaseSnapshot(at);
    }
    db.open();  // from the log
    expect_same(db, now);
  }
}

TEST_P(memtable, has_what_concurrent_threads_have_written) {
  constexpr unsigned threads = 4;
  constexpr unsigned each = 3000;
  database db(GetParam());
  std::atomic<unsigned> written{0};
  std::vector<std::thread> team;
  for (unsigned t = 0; t < threads; ++t) {
    team.emplace_back([&, t] {
      for (unsigned n = 0; n < each; ++n) {
        rdb::WriteBatch batch;
        EXPECT_TRUE(batch.Put("own/" + std::to_string(n * threads + t), std::to_string(n)).ok());
        EXPECT_TRUE(batch.Put("common", std::to_string(t) + '/' + std::to_string(n)).ok());
        EXPECT_TRUE(db->Write({}, &batch).ok());
        written.fetch_add(1);
      }
    });
  }
  // A snapshot does not change while they write, and each thread's keys come in their order.
  do {
    const rdb::Snapshot* const at = db->GetSnapshot();
    rdb::ReadOptions reading;
    reading.snapshot = at;
    const std::unique_ptr<rdb::Iterator> i(db->NewIterator(reading));
    std::vector<std::string> forward;
    std::vector<std::string> backward;
    for (i->SeekToFirst(); i->Valid(); i->Next())
      forward.push_back(i->key().ToString() + i->value().ToString());
    for (i->SeekToLast(); i->Valid(); i->Prev())
      backward.push_back(i->key().ToString() + i->value().ToString());
    std::reverse(backward.begin(), backward.end());
    EXPECT_EQ(forward, backward);
    db->ReleaseSnapshot(at);
  } while (written.load() < threads * each);
  for (std::thread& t : team) t.join();
  std::string value;
  for (unsigned n = 0; n < threads * each; ++n) {
    ASSERT_TRUE(db->Get({}, "own/" + std::to_string(n), &value).ok());
    ASSERT_EQ(value, std::to_string(n / threads));
  }
  ASSERT_TRUE(db->Get({}, "common", &value).ok());
  EXPECT_EQ(value.substr(2), std::to_string(each - 1));  // of the last write
  std::uint64_t entries = 0;
  ASSERT_TRUE(db->GetIntProperty("rocksdb.num-entries-active-mem-table", &entries));
  EXPECT_EQ(entries, 2 * threads * each);
}

TEST_P(memtable, is_flushed_when_it_is_full) {
  database db(GetParam());
  db.options.write_buffer_size = 256 << 10;
  db.options.disable_auto_compactions = true;
  db.open();
  const std::string value(100, 'v');
  for (unsigned n = 0; n < 20'000; ++n) ASSERT_TRUE(db->Put({}, "key/" + std::to_string(n), value).ok());
  std::uint64_t counted = 0;
  ASSERT_TRUE(db->GetIntProperty("rocksdb.cur-size-active-mem-table", &counted));
  EXPECT_LT(counted, 512U << 10U);
}

TEST_P(memtable, keeps_what_many_versions_of_a_key_were) {
  database db(GetParam());
  std::vector<const rdb::Snapshot*> snapshots;
  for (unsigned n = 0; n < 2000; ++n) {
    ASSERT_TRUE(db->Put({}, "key", std::to_string(n)).ok());
    snapshots.push_back(db->GetSnapshot());
  }
  for (unsigned n = 0; n < 2000; ++n) {
    rdb::ReadOptions reading;
    reading.snapshot = snapshots[n];
    std::string value;
    ASSERT_TRUE(db->Get(reading, "key", &value).ok());
    ASSERT_EQ(value, std::to_string(n));
    db->ReleaseSnapshot(snapshots[n]);
  }
}

TEST_P(memtable, tells_how_many_entries_a_range_has) {
  database db(GetParam());
  for (unsigned n = 1000; n < 2000; ++n) ASSERT_TRUE(db->Put({}, std::to_string(n), "value").ok());
  std::string from = "1100";
  std::string to = "1300";
  if (GetParam().order == rdb::ReverseBytewiseComparator()) std::swap(from, to);
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  db->GetApproximateMemTableStats({from, to}, &count, &bytes);
  if (GetParam().is_skip_list)
    EXPECT_GT(count, 0U);
  else
    EXPECT_EQ(count, 200U);
}

// What a std::map does not have, beside the skip list.

/// Before 9.2, by a memtable's table of entries and that of its range deletions.
constexpr bool hints_are_shared = ROCKSDB_MAJOR < 9 || (ROCKSDB_MAJOR == 9 && ROCKSDB_MINOR < 2);

struct way_of_writing {
  const char* name;
  void (*choose)(rdb::Options&);
};
void PrintTo(const way_of_writing& w, std::ostream* to) { *to << w.name; }

const way_of_writing ways_of_writing[] = {
    {"as_usual", [](rdb::Options&) {}},
    {"unordered", [](rdb::Options& o) { o.unordered_write = true; }},
    {"pipelined", [](rdb::Options& o) { o.enable_pipelined_write = true; }},
    {"two_queues", [](rdb::Options& o) { o.two_write_queues = true; }},
    {"successive_merges", [](rdb::Options& o) { o.max_successive_merges = 4; }},
    {"of_prefixes",
     [](rdb::Options& o) {
       o.prefix_extractor.reset(rdb::NewCappedPrefixTransform(2));
       o.memtable_prefix_bloom_size_ratio = 0.1;
       o.memtable_whole_key_filtering = true;
     }},
    {"with_hints",
     [](rdb::Options& o) {
       o.allow_concurrent_memtable_write = false;
       // Else RocksDB's skip lists of entries and of range deletions take each other's hints.
       if (!hints_are_shared || !o.memtable_factory->IsInstanceOf(rdb::SkipListFactory::kClassName()))
         o.memtable_insert_with_hint_prefix_extractor.reset(rdb::NewCappedPrefixTransform(2));
     }},
    {"small_memtables",
     [](rdb::Options& o) {
       o.write_buffer_size = 64 << 10;
       o.max_write_buffer_number = 5;
       o.min_write_buffer_number_to_merge = 3;
     }},
};

class memtable_beside_the_skip_list : public testing::TestWithParam<way_of_writing> {
 protected:
  /// The keys and values of a part, in both directions.
  static std::string shown(rdb::DB& db, rdb::ReadOptions reading, const std::string& from,
                           const std::string& to) {
    const rdb::Slice low = from;
    const rdb::Slice high = to;
    reading.iterate_lower_bound = from.empty() ? nullptr : &low;
    reading.iterate_upper_bound = to.empty() ? nullptr : &high;
    reading.total_order_seek = true;
    const std::unique_ptr<rdb::Iterator> i(db.NewIterator(reading));
    std::string all;
    for (i->SeekToFirst(); i->Valid(); i->Next())
      all += i->key().ToString() + '=' + i->value().ToString() + ' ';
    for (i->SeekToLast(); i->Valid(); i->Prev())
      all += i->key().ToString() + '=' + i->value().ToString() + ' ';
    return all + i->status().ToString();
  }
  /// The changes of a batch over those of the database.
  static std::string with_changes(rdb::DB& db, rdb::WriteBatchWithIndex& batch, const std::string& key) {
    std::string value;
    const rdb::Status found = batch.GetFromBatchAndDB(&db, {}, key, &value);
    rdb::ReadOptions reading;
    reading.total_order_seek = true;
    const std::unique_ptr<rdb::Iterator> i(batch.NewIteratorWithBase(db.NewIterator(reading)));
    i->Seek(key);
    for (unsigned n = 0; i->Valid() && n < 5; ++n, i->Next())
      value += i->key().ToString() + i->value().ToString();
    return found.ToString() + value;
  }
  static std::string many(rdb::DB& db, const std::vector<std::string>& keys) {
    std::vector<std::string> values;
    const std::vector<rdb::Slice> asked(keys.begin(), keys.end());
    std::string all;
    const auto found = db.MultiGet({}, asked, &values);
    for (std::size_t n = 0; n < keys.size(); ++n) all += found[n].ToString() + values[n];
    return all;
  }
};
INSTANTIATE_TEST_SUITE_P(of, memtable_beside_the_skip_list, testing::ValuesIn(ways_of_writing),
                         [](const auto& w) { return std::string(w.param.name); });

TEST_P(memtable_beside_the_skip_list, has_the_same_contents) {
  std::array<std::unique_ptr<database>, 2> both;
  for (std::size_t n = 0; n < 2; ++n) {
    both[n] = std::make_unique<database>(variants[n]);
    GetParam().choose(both[n]->options);
    both[n]->open();
  }
  std::mt19937_64 random(1);
  std::array<const rdb::Snapshot*, 2> at{};
  // Of the walks at the snapshot, which go on while there are writes.
  std::array<std::unique_ptr<rdb::Iterator>, 2> walks;
  for (unsigned n = 0; n < 3000; ++n) {
    std::string key = key_of(random, 400);
    std::string other = key_of(random, 400);
    if (other < key) std::swap(key, other);
    const auto what = static_cast<unsigned>(random() % 24);
    const auto rare = static_cast<unsigned>(random() % 40);
    std::array<std::string, 2> seen;
    for (std::size_t b = 0; b < 2; ++b) {
      rdb::DB& db = *both[b]->operator->();
      rdb::Status done;
      if (what < 8) {
        done = db.Put({}, key, rare == 0 ? std::string(100'000, 'B') : std::to_string(n));
      } else if (what < 10) {
        done = db.Delete({}, key);
      } else if (what < 13) {
        done = db.Merge({}, key, "+" + std::to_string(n % 10));
      } else if (what == 13) {
        done = db.DeleteRange({}, db.DefaultColumnFamily(), key, rare < 20 ? key + "9" : other);
      } else if (what == 14) {
        rdb::WriteBatchWithIndex batch(rdb::BytewiseComparator(), 0, true);
        static_cast<void>(batch.Put(key, "batch"));
        static_cast<void>(batch.Merge(key, "+m"));
        static_cast<void>(batch.Delete(other));
        seen[b] = with_changes(db, batch, key) + with_changes(db, batch, other);
        done = db.Write({}, batch.GetWriteBatch());
      } else if (what == 15) {
        seen[b] = many(db, {key, other, "absent", key + "a"});
      } else if (what == 16) {
        seen[b] = shown(db, {}, key, other);
      } else if (what == 17 && rare == 0) {
        done = db.Flush({});
      } else if (what == 18 && rare < 5) {
        walks[b].reset();
        if (at[b] != nullptr) {
          rdb::ReadOptions reading;
          reading.snapshot = at[b];
          seen[b] = shown(db, reading, "", "");
          db.ReleaseSnapshot(at[b]);
        }
        at[b] = db.GetSnapshot();
      } else if (what == 19 && at[b] != nullptr) {
        rdb::ReadOptions reading;
        reading.snapshot = at[b];
        reading.total_order_seek = true;
        walks[b].reset(db.NewIterator(reading));
        walks[b]->Seek(key);
      } else if (what >= 20 && walks[b]) {
        for (unsigned step = 0; step < rare && walks[b]->Valid(); ++step) {
          (step * rare) % 5 < 3 ? walks[b]->Next() : walks[b]->Prev();
          if (walks[b]->Valid()) seen[b] += walks[b]->key().ToString() + walks[b]->value().ToString();
        }
        if (!walks[b]->Valid()) walks[b]->SeekForPrev(other);
      }
      ASSERT_TRUE(done.ok()) << done.ToString();
    }
    ASSERT_EQ(seen[0], seen[1]) << what;
  }
  for (std::size_t b = 0; b < 2; ++b) {
    walks[b].reset();
    if (at[b] != nullptr) (*both[b])->ReleaseSnapshot(at[b]);
  }
  for (unsigned opened = 0; opened < 2; ++opened) {
    EXPECT_EQ(shown(*both[0]->operator->(), {}, "", ""), shown(*both[1]->operator->(), {}, "", ""));
    for (const auto& db : both) db->open();  // from the log
  }
}

std::int64_t resident_bytes() {
  std::ifstream from("/proc/self/statm");
  std::int64_t all = 0;
  std::int64_t resident = 0;
  from >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// RocksDB flushes a memtable by this count.
TEST_P(memtable, counts_the_memory_that_it_has) {
  constexpr unsigned keys = 60'000;
  database db(GetParam());
  rdb::WriteOptions without_log;
  without_log.disableWAL = true;
  const std::int64_t before = resident_bytes();
  for (unsigned n = 0; n < keys; ++n)
    ASSERT_TRUE(db->Put(without_log, "key/" + std::to_string(n * 7919ULL % 1'000'003), "value").ok());
  const std::int64_t resident = resident_bytes() - before;
  std::uint64_t counted = 0;
  ASSERT_TRUE(db->GetIntProperty("rocksdb.cur-size-active-mem-table", &counted));
  EXPECT_LT(counted, std::uint64_t{keys} * 130);
  // The heap may have had some of it before.
  EXPECT_GT(static_cast<std::int64_t>(counted), resident * 3 / 4) << resident;
}

// An arena's block has 1 MiB: that of each of many column families would count.
TEST_P(memtable, of_few_entries_takes_no_block_of_its_arena) {
  database db(GetParam());
  for (unsigned n = 0; n < 20; ++n) ASSERT_TRUE(db->Put({}, "key/" + std::to_string(n), "value").ok());
  std::uint64_t counted = 0;
  ASSERT_TRUE(db->GetIntProperty("rocksdb.cur-size-active-mem-table", &counted));
  EXPECT_LE(counted, 6U << 10U);
  if (!GetParam().is_skip_list) {
    EXPECT_GE(counted, 5U << 10U);  // with the room that does not lie in it
  }
}

TEST(memtable_factory, is_made_by_its_name) {
  std::unique_ptr<rdb::MemTableRepFactory> made;
  const rdb::Status status = rdb::MemTableRepFactory::CreateFromString({}, "espalier", &made);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_STREQ(made->Name(), espalier::memtable_factory::kClassName());
}

TEST_P(memtable, has_its_order_in_the_options_of_a_database) {
  if (GetParam().is_skip_list) return;
  database db(GetParam());
  ASSERT_TRUE(db->Put({}, "a", "1").ok());
  rdb::ConfigOptions reading;
  reading.env = db.options.env;
  reading.ignore_unsupported_options = true;  // a comparator that is not registered
  rdb::DBOptions ignored;
  std::vector<rdb::ColumnFamilyDescriptor> families;
  const rdb::Status status = rdb::LoadLatestOptions(reading, "/db", &ignored, &families);
  ASSERT_TRUE(status.ok()) << status.ToString();
  const auto& loaded = families.at(0).options.memtable_factory;
  EXPECT_EQ(loaded->GetId(), db.options.memtable_factory->GetId());
  db.options.memtable_factory = loaded;
  db.open();
  model expected(order_of{GetParam().order});
  for (const char* key : {"a", "b", "aa"}) {
    ASSERT_TRUE(db->Put({}, key, "value").ok());
    expected[key] = "value";
  }
  expect_same(db, expected);
}

TEST(memtable_factory, is_not_made_for_an_order_without_a_name) {
  std::unique_ptr<rdb::MemTableRepFactory> made;
  EXPECT_TRUE(rdb::MemTableRepFactory::CreateFromString({}, "espalier:by_comparator", &made).ok());
  EXPECT_FALSE(rdb::MemTableRepFactory::CreateFromString({}, "espalier:by_size", &made).ok());
}

TEST(memtable_factory_death, refuses_another_order_than_its_own) {
  const auto write = [] {
    database db({"wrong", order_by_length()});
    db.options.memtable_factory = std::make_shared<espalier::memtable_factory>();
    db.open();
    for (const char* key : {"b", "aa", "c"}) static_cast<void>(db->Put({}, key, "value"));
  };
  EXPECT_DEATH(write(), "another comparator");
}

// Entries of different keys have the same order with timestamps as without. Those of one key come too late to be compared.
TEST(memtable_factory_death, refuses_timestamps_at_the_first_entry) {
  const rdb::Comparator* order = nullptr;
  ASSERT_TRUE(rdb::Comparator::CreateFromString({}, "leveldb.BytewiseComparator.u64ts", &order).ok());
  const auto write = [order] {
    database db({"wrong", order});
    db.options.memtable_factory = std::make_shared<espalier::memtable_factory>();
    db.options.merge_operator = nullptr;
    db.open();
    static_cast<void>(db->Put({}, "key", std::string(8, '\1'), "value"));
  };
  EXPECT_DEATH(write(), "another comparator");
}

// Without a database.

class order_of_entries final : public rdb::MemTableRep::KeyComparator {
 public:
  explicit order_of_entries(const rdb::Comparator* order = rdb::BytewiseComparator()) : order_(order) {}
  int operator()(const char* a, const char* b) const override { return (*this)(a, decode_key(b)); }
  int operator()(const char* a, const rdb::Slice& b) const override {
    const auto left = espalier::memtable::place::of_entry(a);
    const auto right = espalier::memtable::place::of_internal_key({b.data(), b.size()});
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

}  // namespace

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

namespace {

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
    espalier::memtable_factory factory(GetParam().order);
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
  espalier::memtable_factory factory(GetParam().order);
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
  espalier::memtable_factory factory;
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

using espalier::memtable::key_word;
using espalier::memtable::version;

struct versions_of_a_key {
  bool add(std::uint64_t stamp) {
    entries.push_back(entry_of("key", stamp));
    const char* const entry = entries.back().data();
    if (!word) {
      word = key_word::of(entry);
      return true;
    }
    espalier::memtable::adding step(entry, stamp, [this] { return &made.emplace_back(); });
    static_cast<void>(step.word_after(*word));  // an attempt that fails
    word = step.word_after(*word);
    return step.finish(*word);
  }
  std::optional<key_word> word;
  std::deque<std::string> entries;
  std::deque<version> made;
};

std::uint64_t stamp_of(espalier::memtable::position p) {
  return p ? espalier::memtable::place::of_entry(p.entry).stamp : ~std::uint64_t{0};
}

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
      at = at->skip != nullptr && at->skip->stamp > stamp ? at->skip : espalier::memtable::next_of(*at);
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
        espalier::memtable::adding step(own[t].entries.back().data(), stamp,
                                        [&] { return &own[t].made.emplace_back(); });
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
