#include "preload/recording/block_table.hpp"

#include <algorithm>

namespace espalier::preload {
namespace {

constexpr unsigned address_bits = 48;
constexpr unsigned asked_bits = 40;
// Blocks that lie together, which are often allocated together, have neighbouring entries: the blocks of 256 bytes
// have their homes among 128. With scattered homes a recorded program took 1.5 times as long. With neighbouring homes
// for a kibibyte, small blocks form long runs of entries, which each removal must search to the end; python3 took 1.2
// times as long.
constexpr unsigned region_bits = 8;
constexpr unsigned least_block_bits = 5;
constexpr std::uint64_t blocks_a_region = 1U << (region_bits - least_block_bits);

constexpr std::uint64_t slack_unit = 4096;

// Slack of exact_slack and more is stored in units. Slack beyond the largest code is far more than any allocator
// rounds.
constexpr std::uint64_t slack_code(std::uint64_t slack) noexcept {
  if (slack < block_table::exact_slack) return slack;
  const std::uint64_t units = (slack + slack_unit - 1) / slack_unit;
  return std::min<std::uint64_t>(block_table::exact_slack + units, 0xffff);
}
constexpr std::uint64_t slack_of(std::uint64_t code) noexcept {
  return code < block_table::exact_slack ? code : (code - block_table::exact_slack) * slack_unit;
}

constexpr std::uint64_t address_of(std::uint64_t key) noexcept {
  return key & (block_table::address_limit - 1);
}

}  // namespace

block_table::entry block_table::packed(const block_record& block) noexcept {
  const std::uint64_t slack = block.held > block.asked ? block.held - block.asked : 0;
  return {block.address | slack_code(slack) << address_bits,
          std::min(block.asked, asked_limit) | std::uint64_t{block.site} << asked_bits};
}

block_record block_table::unpacked(const entry& packed) noexcept {
  const std::uint64_t asked = packed.value & asked_limit;
  return {address_of(packed.key), asked, asked + slack_of(packed.key >> address_bits),
          static_cast<std::uint32_t>(packed.value >> asked_bits)};
}

std::uint64_t block_table::hash_of(std::uint64_t key) noexcept {
  // Fibonacci hashing of 256-byte regions.
  return (address_of(key) >> region_bits) * 0x9e37'79b9'7f4a'7c15U;
}

std::size_t block_table::home_of(const entry& of, std::size_t mask) noexcept {
  // The topmost bits select the shard.
  return ((hash_of(of.key) << shard_bits >> 24U) + (of.key >> least_block_bits) % blocks_a_region) & mask;
}

block_table::shard& block_table::shard_of(std::uintptr_t address) noexcept {
  return shards_[hash_of(address) >> (64U - shard_bits)];
}

bool block_table::grow(shard& part) noexcept {
  const std::size_t capacity = part.capacity == 0 ? first_capacity : 2 * part.capacity;
  auto* const entries = budget_.map_array<entry>(capacity);
  if (entries == nullptr) return false;
  for (std::size_t i = 0; i < part.capacity; ++i) {
    if (part.entries[i].key == 0) continue;
    std::size_t at = home_of(part.entries[i], capacity - 1);
    while (entries[at].key != 0) at = (at + 1) & (capacity - 1);
    entries[at] = part.entries[i];
  }
  budget_.unmap_array(part.entries, part.capacity);
  part.entries = entries;
  part.capacity = capacity;
  return true;
}

bool block_table::insert(const block_record& block, std::uint64_t* replaced) noexcept {
  if (block.address == 0 || block.address >= address_limit || block.site > site_limit) return false;
  const entry added = packed(block);
  shard& part = shard_of(block.address);
  const futex_guard guard(part.lock);
  if (8 * (part.used + 1) > 5 * part.capacity && !grow(part)) return false;
  const std::size_t mask = part.capacity - 1;
  std::size_t at = home_of(added, mask);
  for (; part.entries[at].key != 0; at = (at + 1) & mask) {
    if (address_of(part.entries[at].key) == block.address) {
      if (replaced != nullptr) *replaced += unpacked(part.entries[at]).asked;
      part.entries[at] = added;
      ++part.inserted;
      return true;
    }
  }
  part.entries[at] = added;
  ++part.used;
  ++part.inserted;
  return true;
}

bool block_table::erase(std::uintptr_t address, block_record* removed) noexcept {
  if (address == 0 || address >= address_limit) return false;
  shard& part = shard_of(address);
  const futex_guard guard(part.lock);
  if (part.used == 0) return false;
  const std::size_t mask = part.capacity - 1;
  std::size_t hole = home_of({address, 0}, mask);
  while (address_of(part.entries[hole].key) != address) {
    if (part.entries[hole].key == 0) return false;
    hole = (hole + 1) & mask;
  }
  if (removed != nullptr) *removed = unpacked(part.entries[hole]);
  // Entries after the hole move up, unless they would then lie before their home.
  for (std::size_t next = (hole + 1) & mask; part.entries[next].key != 0; next = (next + 1) & mask) {
    const std::size_t home = home_of(part.entries[next], mask);
    if (((next - home) & mask) >= ((next - hole) & mask)) {
      part.entries[hole] = part.entries[next];
      hole = next;
    }
  }
  part.entries[hole] = {0, 0};
  --part.used;
  return true;
}

bool block_table::put_back(const block_record& block) noexcept {
  if (!insert(block)) return false;
  shard& part = shard_of(block.address);
  const futex_guard guard(part.lock);
  --part.inserted;
  return true;
}

block_table::counts block_table::counted() noexcept {
  counts sum;
  for (shard& part : shards_) {
    const futex_guard guard(part.lock);
    sum.used += part.used;
    sum.inserted += part.inserted;
  }
  return sum;
}

void block_table::lock_all() noexcept {
  for (shard& part : shards_) part.lock.lock();
}

void block_table::unlock_all() noexcept {
  for (shard& part : shards_) part.lock.unlock();
}

std::size_t block_table::size() const noexcept {
  std::size_t sum = 0;
  for (const shard& part : shards_) sum += part.used;
  return sum;
}

std::uint64_t block_table::inserted() const noexcept {
  std::uint64_t sum = 0;
  for (const shard& part : shards_) sum += part.inserted;
  return sum;
}

void block_table::clear() noexcept {
  for (shard& part : shards_) {
    budget_.unmap_array(part.entries, part.capacity);
    part.entries = nullptr;
    part.capacity = part.used = 0;
  }
}

}  // namespace espalier::preload
