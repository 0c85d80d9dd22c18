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
#include <rocksdb/write_batch.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hints.hpp"
#include "test_keys.hpp"

// The memtable inside a database, against std::map, with RocksDB's skip list as the control that shows what the model
// expects.

namespace espalier::memtable {
namespace {

namespace rdb = rocksdb;

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
      options.memtable_factory = std::make_shared<memtable_factory>(v.order);
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
  EXPECT_STREQ(made->Name(), memtable_factory::kClassName());
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
    db.options.memtable_factory = std::make_shared<memtable_factory>();
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
    db.options.memtable_factory = std::make_shared<memtable_factory>();
    db.options.merge_operator = nullptr;
    db.open();
    static_cast<void>(db->Put({}, "key", std::string(8, '\1'), "value"));
  };
  EXPECT_DEATH(write(), "another comparator");
}

}  // namespace
}  // namespace espalier::memtable
