#pragma once

#include <rocksdb/comparator.h>
#include <rocksdb/memtablerep.h>

#include <cstdint>
#include <memory>
#include <string>

// A memtable of RocksDB that is an espalier::ordered_map:
//
//     rocksdb::Options options;
//     options.memtable_factory = std::make_shared<espalier::memtable_factory>(options.comparator);
//
// Of keys in the order of their bytes, increasing or decreasing (rocksdb::BytewiseComparator(),
// ReverseBytewiseComparator()), it is a map of user keys, each with its versions: a Get is the find of one string. Of
// keys in any other order, as those with timestamps, it is a set of entries that calls the comparator. The comparator
// must be that of the column family: it decides which of the two, and RocksDB does not tell a factory.
//
// It does what RocksDB's skip list does: concurrent writes, snapshots, merges, iterators in both directions, refusal of a
// second entry with the same key and sequence number. What differs:
//   - An iterator reads some entries ahead, at most 64 keys. It sees every entry that was there when it sought, and
//     may miss what is written at these keys since. A database's iterator is at a snapshot and cannot tell; one that
//     tails sees the new entries after its next Seek.
//   - There is no random sample of entries: experimental_mempurge_threshold has no use.

namespace espalier {

class memtable_factory final : public rocksdb::MemTableRepFactory {
 public:
  /// That of the bytes, increasing or decreasing, or any other.
  enum class key_order : std::uint8_t { bytes, bytes_reversed, by_comparator };

  /// For column families with this comparator.
  explicit memtable_factory(const rocksdb::Comparator* order = rocksdb::BytewiseComparator());
  explicit memtable_factory(key_order order);
  ~memtable_factory() override;

  [[nodiscard]] static const char* kClassName() { return "EspalierMemTableFactory"; }
  [[nodiscard]] static const char* kNickName() { return "espalier"; }
  [[nodiscard]] const char* Name() const override { return kClassName(); }
  [[nodiscard]] const char* NickName() const override { return kNickName(); }
  /// Of an order other than that of the bytes, it ends with the order's name: RocksDB writes it into its files of options.
  [[nodiscard]] std::string GetId() const override;

  using MemTableRepFactory::CreateMemTableRep;
  /// The comparator and the allocator outlive the memtable, which may outlive the factory.
  rocksdb::MemTableRep* CreateMemTableRep(const rocksdb::MemTableRep::KeyComparator& compare,
                                          rocksdb::Allocator* allocator, const rocksdb::SliceTransform*,
                                          rocksdb::Logger*) override;
  [[nodiscard]] bool IsInsertConcurrentlySupported() const override { return true; }
  [[nodiscard]] bool CanHandleDuplicatedKey() const override { return true; }

  struct shared_state;

 private:
  const key_order order_;
  const std::shared_ptr<shared_state> shared_;
};

/// Makes RocksDB know the factory by its names, as in the options memtable_factory=espalier, for keys in the order of their
/// bytes, espalier:bytes_reversed, or espalier:by_comparator for all others. The library does so when it is loaded:
/// LD_PRELOAD=libespalier_rocksdb.so db_bench --memtablerep=espalier.
void register_memtable_factory();

}  // namespace espalier
