#include "espalier_memtable.hpp"

#include <rocksdb/slice.h>
#include <rocksdb/utilities/object_registry.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/ordered/ordered_map.hpp"
#include "espalier/memory/parts/size_class.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/reclaim/epoch.hpp"
#include "hints.hpp"
#include "versions.hpp"

namespace espalier {

namespace memtable {
namespace {

[[nodiscard]] void* from_arena(rocksdb::MemTableRep& of, std::size_t bytes, std::size_t align) {
  char* memory = nullptr;
  of.Allocate(bytes + align - 1, &memory);
  return memory + (align - reinterpret_cast<std::uintptr_t>(memory) % align) % align;
}

/// Memory of the memtable's arena, which RocksDB counts and frees. A map frees only nodes that others replaced: they
/// wait here for the next ones of their size.
///
/// The first nodes lie outside: an arena begins with 2 KiB and goes on with a block, of 1 MiB by default, that all column
/// families of a few entries would need.
class in_arena {
 public:
  static constexpr bool releases_on_destruction = true;
  static constexpr std::string_view name = "in_arena";

  explicit in_arena(rocksdb::MemTableRep& memtable) noexcept : memtable_(memtable) {}

  [[nodiscard]] void* allocate(const block& b, const void* = nullptr) {
    const std::size_t bytes = bytes_of(b);
    const std::lock_guard held(lock_);
    void* memory = nullptr;
    if (free_block*& first = free_[bytes]; first != nullptr) {
      memory = std::exchange(first, first->next);
    } else {
      memory = first_.take(bytes);
      if (memory == nullptr) memory = from_arena(memtable_, bytes, align);
      usage_.bytes_reserved += bytes;
    }
    usage_.blocks += 1;
    usage_.bytes_in_use += bytes;
    return memory;
  }
  void deallocate(void* memory, const block& b) noexcept {
    const std::size_t bytes = bytes_of(b);
    const std::lock_guard held(lock_);
    usage_.blocks -= 1;
    usage_.bytes_in_use -= bytes;
    free_block*& first = free_.find(bytes)->second;  // allocate() has made it
    first = ::new (memory) free_block{first};
  }
  [[nodiscard]] memory_usage usage() const noexcept {
    const std::lock_guard held(lock_);
    return usage_;
  }
  [[nodiscard]] std::size_t bytes_outside() const noexcept { return first_.bytes(); }

 private:
  struct free_block {
    free_block* next;
  };
  static constexpr std::size_t align = hw::cache_line_bytes;

  class first_nodes {
   public:
    /// Null where no room is left.
    [[nodiscard]] void* take(std::size_t bytes) {
      if (!room_) {
        room_ = std::make_unique<room>();
        // relaxed: a count.
        bytes_.store(sizeof(room), std::memory_order_relaxed);
      }
      if (bytes > sizeof(room) - used_) return nullptr;
      return room_->memory.data() + std::exchange(used_, size_class::round_up(used_ + bytes, align));
    }
    [[nodiscard]] std::size_t bytes() const noexcept {
      return bytes_.load(std::memory_order_relaxed);  // relaxed: as above
    }

   private:
    /// For the first leaf of strings and the records of about 30 keys.
    struct alignas(align) room {
      std::array<std::byte, 3648> memory;
    };
    std::unique_ptr<room> room_;
    std::size_t used_ = 0;
    std::atomic<std::size_t> bytes_{0};
  };

  [[nodiscard]] static std::size_t bytes_of(const block& b) noexcept {
    return size_class::has(b.bytes, b.align) ? size_class::bytes_for(b.bytes, b.align) : b.bytes;
  }

  rocksdb::MemTableRep& memtable_;
  mutable std::mutex lock_;
  first_nodes first_;
  std::map<std::size_t, free_block*> free_;  ///< by size
  memory_usage usage_;
};
using policies = map_traits::with_placement<in_arena>;

/// RocksDB's order of entries.
struct by_comparator {
  const rocksdb::MemTableRep::KeyComparator* compare;
  [[nodiscard]] bool operator()(const char* a, const char* b) const { return (*compare)(a, b) < 0; }
};

}  // namespace
}  // namespace memtable

/// Entries lie in the memtable's arena, which is destroyed after the map.
template <>
inline constexpr bool keys_outlive_map<memtable::by_comparator> = true;

/// Of all memtables of a factory: a thread registers once.
struct memtable_factory::shared_state {
  epoch_domain domain;
};

namespace memtable {
namespace {

using rocksdb::Slice;

/// Where an iterator is to go: to the internal key, which is also encoded as in an entry.
class target {
 public:
  target(const Slice& internal_key, const char* encoded) : internal_key_(internal_key), encoded_(encoded) {}

  [[nodiscard]] place where() const noexcept {
    return place::of_internal_key({internal_key_.data(), internal_key_.size()});
  }
  /// RocksDB may not have encoded it.
  [[nodiscard]] const char* encoded() {
    if (encoded_ == nullptr) {
      for (std::size_t rest = internal_key_.size(); true; rest >>= 7U) {
        own_.push_back(static_cast<char>(rest >= 0x80 ? (rest & 0x7fU) | 0x80U : rest));
        if (rest < 0x80) break;
      }
      own_.append(internal_key_.data(), internal_key_.size());
      encoded_ = own_.data();
    }
    return encoded_;
  }

 private:
  Slice internal_key_;
  const char* encoded_;
  std::string own_;
};

/// Words of a table in one direction, as many as a scan has read ahead.
class read_ahead {
 public:
  void begin(unsigned words) noexcept {
    count_ = at_ = 0;
    most_ = words;
  }
  /// False if it is full.
  bool add(key_word w) noexcept {
    words_[count_++] = w;
    return count_ != most_;
  }
  [[nodiscard]] bool empty() const noexcept { return at_ == count_; }
  [[nodiscard]] key_word word() const noexcept { return words_[at_]; }
  void advance() noexcept { ++at_; }
  [[nodiscard]] bool is_last() const noexcept { return at_ + 1 == count_; }
  /// Whether the table may have more.
  [[nodiscard]] bool was_filled() const noexcept { return count_ == most_; }
  [[nodiscard]] unsigned size() const noexcept { return count_; }

  static constexpr unsigned most = 64;

 private:
  unsigned count_ = 0;
  unsigned at_ = 0;
  unsigned most_ = most;
  std::array<key_word, most> words_;
};

// The tables: what a memtable is made of. Each has
//   add(entry, make, is_known)     false if it is there; make() makes a version; is_known: the user key has an entry
//   contains(entry)
//   collect<Reverse>(words, from)  words from the key of a target on, or of all if there is none
//   collect_behind<Reverse>(words, w)  words behind w
//   bytes_outside_arena()
//   has_key(w, target), first_from(w, target), last_up_to(w, target)   searches in a word

/// User keys with their versions, in the order of bytes.
template <class Order>
class table_of_strings {
 public:
  static constexpr bool has_versions = true;

  table_of_strings(const rocksdb::MemTableRep::KeyComparator& compare, epoch_domain& domain,
                   rocksdb::MemTableRep& memtable)
      : compare_(compare), map_(Order(), &domain, memtable) {}

  template <class Make>
  bool add(const char* entry, const Make& make, bool is_known) {
    const place at = place::of_entry(entry);
    // relaxed: how many are compared need not be exact.
    if (to_compare_.load(std::memory_order_relaxed) > 0) [[unlikely]]
      expect_order(entry, at.user_key);
    if (!is_known && map_.insert(at.user_key, key_word::of(entry))) return true;
    adding<Make> step(entry, at.stamp, make);
    const auto done =
        map_.update(at.user_key, [&](const std::optional<key_word>& now) -> std::optional<key_word> {
          return step.word_after(*now);  // no key is erased
        });
    return step.finish(*done.after);
  }
  /// The first entry of the user key from there on.
  [[nodiscard, gnu::always_inline]] position find(place from) const {
    const auto word = map_.find(from.user_key);
    return word ? memtable::first_from(*word, from.stamp) : position{};
  }
  [[nodiscard]] bool contains(const char* entry) const {
    const place at = place::of_entry(entry);
    const position found = find({at.user_key, at.stamp | any_kind});
    return found && same_sequence(place::of_entry(found.entry).stamp, at.stamp);
  }

  template <bool Reverse>
  void collect(read_ahead& words, target* from) const {
    const auto visit = [&words](std::string_view, key_word w) { return words.add(w); };
    if (from == nullptr)
      Reverse ? map_.reverse_scan(visit) : map_.scan(visit);
    else
      scan<Reverse>(from->where().user_key, visit);
  }
  template <bool Reverse>
  void collect_behind(read_ahead& words, key_word w) const {
    const std::string_view last = place::of_entry(w.any_entry()).user_key;
    bool is_first = true;
    scan<Reverse>(last, [&](std::string_view key, key_word next) {
      return (std::exchange(is_first, false) && key == last) || words.add(next);
    });
  }
  [[nodiscard]] std::size_t bytes_outside_arena() const noexcept { return map_.placement().bytes_outside(); }
  [[nodiscard]] static bool has_key(key_word w, target& t) noexcept {
    return place::of_entry(w.any_entry()).user_key == t.where().user_key;
  }
  [[nodiscard]] static position first_from(key_word w, target& t) noexcept {
    return memtable::first_from(w, t.where().stamp | any_kind);
  }
  [[nodiscard]] static position last_up_to(key_word w, target& t) noexcept {
    return memtable::last_up_to(w, t.where().stamp & ~any_kind);
  }

 private:
  template <bool Reverse, class Visit>
  void scan(std::string_view from, const Visit& visit) const {
    if constexpr (Reverse)
      map_.reverse_scan(from, visit);
    else
      map_.scan(from, visit);
  }

  /// Ends the program where the column family has another order than the factory was made for: its reads would be wrong.
  void expect_order(const char* entry, std::string_view key) {
    // relaxed: as above.
    const auto left = static_cast<unsigned>(to_compare_.fetch_sub(1, std::memory_order_relaxed));
    const char* const other =
        compared_.exchange(entry, std::memory_order_acq_rel);  // order (2): an entry, acq_rel
    if (other != nullptr) expect_order(entry, key, other);
    if (key.empty()) return;
    // Keys that come may well be in both orders. So each is compared with one that differs in a bit of one byte, and first of
    // the last one: there numbers and timestamps have their highest byte.
    std::string near(entry, key.data() + key.size() + sizeof(std::uint64_t));
    const std::size_t back = (compared_entries - left) % key.size() + 1;
    near[static_cast<std::size_t>(key.data() - entry) + key.size() - back] ^= 1;
    expect_order(entry, key, near.data());
  }
  void expect_order(const char* entry, std::string_view key, const char* other) const {
    const std::string_view other_key = place::of_entry(other).user_key;
    if (key == other_key || (compare_(entry, other) < 0) == Order()(key, other_key)) return;
    std::fputs(
        "espalier::memtable_factory: the column family has another comparator than the factory was made "
        "with\n",
        stderr);
    std::abort();
  }
  /// So many entries of a memtable, about, are compared with one before them.
  static constexpr int compared_entries = 64;

  const rocksdb::MemTableRep::KeyComparator& compare_;
  std::atomic<int> to_compare_{compared_entries};
  std::atomic<const char*> compared_{nullptr};
  ordered_map<std::string, key_word, policies, Order> map_;
};

/// Entries in the order of a comparator. A word is an entry.
class table_of_entries {
 public:
  static constexpr bool has_versions = false;

  table_of_entries(const rocksdb::MemTableRep::KeyComparator& compare, epoch_domain& domain,
                   rocksdb::MemTableRep& memtable)
      : map_(by_comparator{&compare}, &domain, memtable) {}

  template <class Make>
  bool add(const char* entry, const Make&, bool) {
    return map_.insert(entry, std::byte{});
  }
  [[nodiscard]] bool contains(const char* entry) const { return map_.contains(entry); }
  template <bool Reverse>
  void collect(read_ahead& words, target* from) const {
    const auto visit = [&words](const char* entry, std::byte) { return words.add(key_word::of(entry)); };
    if (from == nullptr)
      Reverse ? map_.reverse_scan(visit) : map_.scan(visit);
    else
      Reverse ? map_.reverse_scan(from->encoded(), visit) : map_.scan(from->encoded(), visit);
  }
  template <bool Reverse>
  void collect_behind(read_ahead& words, key_word w) const {
    const char* const last = w.only_entry();
    const auto visit = [&](const char* entry, std::byte) {
      return entry == last || words.add(key_word::of(entry));
    };
    Reverse ? map_.reverse_scan(last, visit) : map_.scan(last, visit);
  }
  [[nodiscard]] std::size_t bytes_outside_arena() const noexcept { return map_.placement().bytes_outside(); }
  // A scan begins at the first entry that is not before the target.
  [[nodiscard]] static bool has_key(key_word, target&) noexcept { return true; }
  [[nodiscard]] static position first_from(key_word w, target&) noexcept { return newest(w); }
  [[nodiscard]] static position last_up_to(key_word w, target&) noexcept { return newest(w); }

 private:
  ordered_map<const char*, std::byte, policies, by_comparator> map_;
};

/// Memory for iterators. RocksDB destroys an iterator that was made with an arena without deleting it, and there is no
/// public way to use the arena. So the destructor of each returns its memory.
class iterator_memory {
 public:
  explicit iterator_memory(std::size_t bytes) noexcept : bytes_(bytes) {}
  iterator_memory(const iterator_memory&) = delete;
  iterator_memory& operator=(const iterator_memory&) = delete;
  ~iterator_memory() {
    for (void* const memory : free_) ::operator delete(memory);
  }
  [[nodiscard]] void* take() {
    {
      const std::lock_guard held(lock_);
      if (!free_.empty()) {
        void* const memory = free_.back();
        free_.pop_back();
        return memory;
      }
      free_.reserve(++made_);  // so that put() needs none
    }
    return ::operator new(bytes_);
  }
  void put(void* memory) noexcept {
    const std::lock_guard held(lock_);
    free_.push_back(memory);
  }

 private:
  const std::size_t bytes_;
  std::mutex lock_;
  std::size_t made_ = 0;
  std::vector<void*> free_;
};

/// The first base of an iterator, so it is destroyed last.
class in_memory_of {
 protected:
  in_memory_of(iterator_memory* from, void* memory) noexcept : from_(from), memory_(memory) {}
  ~in_memory_of() {
    if (from_ != nullptr) from_->put(memory_);
  }

 private:
  iterator_memory* from_;
  void* memory_;
};

template <class Table>
class iterator final : in_memory_of, public rocksdb::MemTableRep::Iterator {
 public:
  explicit iterator(const Table& table, iterator_memory* from = nullptr, void* memory = nullptr) noexcept
      : in_memory_of(from, memory), table_(table) {}
  static void operator delete(void*) noexcept {}  // the last base has returned it

  [[nodiscard]] bool Valid() const override { return static_cast<bool>(at_); }
  [[nodiscard]] const char* key() const override { return at_.entry; }

  void Next() override {
    if ((at_ = older(at_))) return;
    to_next_key<false>();
    at_ = words_.empty() ? position{} : newest(words_.word());
  }
  void Prev() override {
    if ((at_ = newer(words_.word(), at_))) return;
    to_next_key<true>();
    at_ = words_.empty() ? position{} : oldest(words_.word());
  }
  void Seek(const Slice& internal_key, const char* encoded) override {
    target to(internal_key, encoded);
    read<false>(&to);
    if (words_.empty()) return set_invalid();
    if (!Table::has_key(words_.word(), to)) {
      at_ = newest(words_.word());
    } else if (!(at_ = Table::first_from(words_.word(), to))) {
      to_next_key<false>();
      at_ = words_.empty() ? position{} : newest(words_.word());
    }
  }
  void SeekForPrev(const Slice& internal_key, const char* encoded) override {
    target to(internal_key, encoded);
    read<true>(&to);
    if (words_.empty()) return set_invalid();
    if (!Table::has_key(words_.word(), to)) {
      at_ = oldest(words_.word());
    } else if (!(at_ = Table::last_up_to(words_.word(), to))) {
      to_next_key<true>();
      at_ = words_.empty() ? position{} : oldest(words_.word());
    }
  }
  void SeekToFirst() override {
    read<false>(nullptr);
    at_ = words_.empty() ? position{} : newest(words_.word());
  }
  void SeekToLast() override {
    read<true>(nullptr);
    at_ = words_.empty() ? position{} : oldest(words_.word());
  }

 private:
  /// What a search reads ahead: little, because most are for one entry. A walk reads more each time.
  static constexpr unsigned first_few = 2;

  void set_invalid() noexcept { at_ = {}; }
  template <bool Reverse>
  void read(target* from) {
    words_.begin(first_few);
    reverse_ = Reverse;
    table_.template collect<Reverse>(words_, from);
  }
  template <bool Reverse>
  void to_next_key() {
    if (Reverse == reverse_ && (!words_.is_last() || !words_.was_filled())) return words_.advance();
    const key_word last = words_.word();
    words_.begin(Reverse == reverse_ ? std::min(words_.size() * 4, read_ahead::most) : first_few);
    reverse_ = Reverse;
    table_.template collect_behind<Reverse>(words_, last);
  }

  const Table& table_;
  position at_;
  bool reverse_ = false;
  read_ahead words_;
};

/// What MemTableRep::Get() has for an iterator over the versions of one user key.
class key_search final : public rocksdb::MemTableRep::Iterator {
 public:
  template <class Table>
  explicit key_search(const Table& table) noexcept
      : find_([](const void* of, place to) { return static_cast<const Table*>(of)->find(to); }),
        table_(&table) {}
  static void operator delete(void*) noexcept {}  // it lies on the stack

  [[nodiscard]] bool Valid() const override { return static_cast<bool>(at_); }
  [[nodiscard]] const char* key() const override { return at_.entry; }
  void Seek(const Slice& internal_key, const char*) override {
    at_ = find_(table_, place::of_internal_key({internal_key.data(), internal_key.size()}));
  }
  void Next() override { at_ = older(at_); }
  // RocksDB asks for none of these.
  void Prev() override { at_ = {}; }
  void SeekForPrev(const Slice&, const char*) override { at_ = {}; }
  void SeekToFirst() override { at_ = {}; }
  void SeekToLast() override { at_ = {}; }

 private:
  position (*find_)(const void*, place);
  const void* table_;
  position at_;
};

template <class Table>
class table_rep final : public rocksdb::MemTableRep {
 public:
  table_rep(const KeyComparator& compare, rocksdb::Allocator* allocator,
            std::shared_ptr<memtable_factory::shared_state> shared)
      : MemTableRep(allocator),
        shared_(std::move(shared)),
        compare_(compare),
        table_(compare, shared_->domain, *this) {}

  void Insert(rocksdb::KeyHandle handle) override { InsertKey(handle); }
  bool InsertKey(rocksdb::KeyHandle handle) override { return add(static_cast<const char*>(handle), false); }
  void InsertConcurrently(rocksdb::KeyHandle handle) override { InsertKey(handle); }
  bool InsertKeyConcurrently(rocksdb::KeyHandle handle) override { return InsertKey(handle); }
  void InsertWithHint(rocksdb::KeyHandle handle, void** of_prefix) override {
    InsertKeyWithHint(handle, of_prefix);
  }
  /// RocksDB keeps a hint for each prefix of keys, in which one thread writes at a time.
  bool InsertKeyWithHint(rocksdb::KeyHandle handle, void** of_prefix) override {
    last_of_prefix* const last = our(*of_prefix);
    if (last == nullptr) return InsertKey(handle);
    const char* const entry = static_cast<const char*>(handle);
    const bool is_known =
        last->entry != nullptr && place::of_entry(last->entry).user_key == place::of_entry(entry).user_key;
    const bool is_new = add(entry, is_known);
    last->entry = entry;
    return is_new;
  }
  /// A hint for one batch of writes, which seldom has a key twice.
  bool InsertKeyWithHintConcurrently(rocksdb::KeyHandle handle, void**) override { return InsertKey(handle); }

  [[nodiscard]] bool Contains(const char* entry) const override { return table_.contains(entry); }
  /// The type of the key is not public. What MemTableRep has for this function seeks it with an iterator that it asks for.
  void Get(const rocksdb::LookupKey& key, void* argument, bool (*callback)(void*, const char*)) override {
    using search = std::conditional_t<Table::has_versions, key_search, iterator<Table>>;
    alignas(search) std::byte memory[sizeof(search)];
    for_get_ = ::new (memory) search(table_);
    MemTableRep::Get(key, argument, callback);
    for_get_ = nullptr;  // should it not have asked
  }
  Iterator* GetDynamicPrefixIterator(rocksdb::Arena* arena) override {
    if (Iterator* const of_get = std::exchange(for_get_, nullptr); of_get != nullptr) return of_get;
    return GetIterator(arena);
  }
  Iterator* GetIterator(rocksdb::Arena*) override {
    void* const memory = iterators_.take();
    return ::new (memory) iterator<Table>(table_, &iterators_, memory);
  }
  /// Linear in the entries of the range.
  std::uint64_t ApproximateNumEntries(const Slice& from, const Slice& to) override {
    iterator<Table> at(table_);
    std::uint64_t entries = 0;
    for (at.Seek(from, nullptr); at.Valid() && compare_(at.key(), to) < 0; at.Next()) ++entries;
    return entries;
  }
  /// What is not in the arena.
  std::size_t ApproximateMemoryUsage() override { return table_.bytes_outside_arena(); }

 private:
  /// Null if the hint is not ours.
  [[nodiscard]] last_of_prefix* our(void*& of_prefix) {
    if constexpr (!Table::has_versions) return nullptr;
    if (of_prefix == nullptr) of_prefix = make<hint>();
    return static_cast<hint*>(of_prefix)->ours();
  }

  bool add(const char* entry, bool is_known) {
    return table_.add(entry, [this] { return make<version>(); }, is_known);
  }
  /// In the memtable's arena.
  template <class T>
  [[nodiscard]] T* make() {
    return ::new (from_arena(*this, sizeof(T), alignof(T))) T;
  }

  static thread_local Iterator* for_get_;

  const std::shared_ptr<memtable_factory::shared_state> shared_;
  const KeyComparator& compare_;
  Table table_;
  iterator_memory iterators_{sizeof(iterator<Table>)};
};
template <class Table>
thread_local rocksdb::MemTableRep::Iterator* table_rep<Table>::for_get_ = nullptr;

}  // namespace
}  // namespace memtable

namespace {

using key_order = memtable_factory::key_order;
/// What the ID of a factory ends with.
constexpr std::array<std::pair<key_order, std::string_view>, 3> ends_of_ids{
    {{key_order::bytes, ""},
     {key_order::bytes_reversed, ":bytes_reversed"},
     {key_order::by_comparator, ":by_comparator"}}};

}  // namespace

memtable_factory::memtable_factory(key_order order)
    : order_(order), shared_(std::make_shared<shared_state>()) {}
memtable_factory::memtable_factory(const rocksdb::Comparator* order)
    : memtable_factory(order == rocksdb::BytewiseComparator()          ? key_order::bytes
                       : order == rocksdb::ReverseBytewiseComparator() ? key_order::bytes_reversed
                                                                       : key_order::by_comparator) {}
memtable_factory::~memtable_factory() = default;

std::string memtable_factory::GetId() const {
  return Name() + std::string(ends_of_ids[static_cast<std::size_t>(order_)].second);
}

rocksdb::MemTableRep* memtable_factory::CreateMemTableRep(const rocksdb::MemTableRep::KeyComparator& compare,
                                                          rocksdb::Allocator* allocator,
                                                          const rocksdb::SliceTransform*, rocksdb::Logger*) {
  using namespace memtable;
  switch (order_) {
    case key_order::bytes:
      return new table_rep<table_of_strings<std::less<>>>(compare, allocator, shared_);
    case key_order::bytes_reversed:
      return new table_rep<table_of_strings<std::greater<>>>(compare, allocator, shared_);
    default:
      return new table_rep<table_of_entries>(compare, allocator, shared_);
  }
}

void register_memtable_factory() {
  using factory = rocksdb::MemTableRepFactory;
  rocksdb::ObjectLibrary::Default()->AddFactory<factory>(
      rocksdb::ObjectLibrary::PatternEntry(memtable_factory::kNickName())
          .AnotherName(memtable_factory::kClassName())
          .AddSeparator(":"),
      [](const std::string& id, std::unique_ptr<factory>* made, std::string* error) {
        const std::string_view order = std::string_view(id).substr(std::min(id.find(':'), id.size()));
        for (const auto& [known, name] : ends_of_ids)
          if (order == name) made->reset(new memtable_factory(known));
        if (*made == nullptr) *error = "the order is bytes_reversed or by_comparator";
        return made->get();
      });
}

namespace {
[[maybe_unused]] const bool is_registered = (register_memtable_factory(), true);
}  // namespace

}  // namespace espalier
