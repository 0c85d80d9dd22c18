#include "espalier/inspect/snapshot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

namespace espalier::inspect {
namespace {

constexpr std::uint64_t most_blocks = std::numeric_limits<std::uint32_t>::max();

void require_blocks(const snapshot& s) {
  if (s.blocks.size() > most_blocks)
    throw std::invalid_argument(
        fmt::format("a snapshot of {} blocks: at most {} can be told apart", s.blocks.size(), most_blocks));
  const live_block* before = nullptr;
  for (const live_block& b : s.blocks) {
    if (b.type >= s.types.size())
      throw std::invalid_argument(fmt::format("the block at {:#x} is of type {}, and there are {} types",
                                              b.address, b.type, s.types.size()));
    if (b.last() < b.address)
      throw std::invalid_argument(
          fmt::format("the block of {} bytes at {:#x} ends beyond the address space", b.bytes, b.address));
    if (before != nullptr && b.address <= before->last())
      throw std::invalid_argument(fmt::format(
          "the blocks at {:#x} ({}) and {:#x} ({}) overlap or are out of order: a byte is of one type",
          before->address, s.types[before->type].name, b.address, s.types[b.type].name));
    before = &b;
  }
}

void require_pages(const snapshot& s) {
  std::uint64_t least = 0;
  for (const page& p : s.pages) {
    if (p.number < least) throw std::invalid_argument(fmt::format("page {:#x} is out of order", p.number));
    least = p.number + 1;
  }
  std::size_t at = 0;
  const auto require_listed = [&](std::uint64_t number) {
    while (at < s.pages.size() && s.pages[at].number < number) ++at;
    if (at == s.pages.size() || s.pages[at].number != number)
      throw std::invalid_argument(fmt::format("page {:#x} has a block in it and is not listed", number));
  };
  for_each_page_of(s.blocks, require_listed);
}

void require_links(const snapshot& s) {
  std::uint32_t least = 0;
  for (const link& l : s.links) {
    if (l.from < least || l.from >= s.blocks.size() || l.to >= s.blocks.size())
      throw std::invalid_argument(
          fmt::format("the pointer from block {} to block {} of {} is none, or out of order", l.from, l.to,
                      s.blocks.size()));
    least = l.from;
  }
}

}  // namespace

snapshot make_snapshot(std::string subject, std::vector<block_type> types, std::vector<live_block> blocks) {
  snapshot s;
  s.subject = std::move(subject);
  s.types = std::move(types);
  s.blocks = std::move(blocks);
  const auto by_address = [](const live_block& a, const live_block& b) { return a.address < b.address; };
  if (!std::is_sorted(s.blocks.begin(), s.blocks.end(), by_address))
    std::sort(s.blocks.begin(), s.blocks.end(), by_address);
  require_blocks(s);
  // Two passes, because a vector that grows would hold up to three times what it needs.
  std::size_t count = 0;
  for_each_page_of(s.blocks, [&](std::uint64_t) { ++count; });
  s.pages.reserve(count);
  for_each_page_of(s.blocks, [&](std::uint64_t number) { s.pages.push_back({.number = number}); });
  return s;
}

void require_valid(const snapshot& s) {
  require_blocks(s);
  require_pages(s);
  require_links(s);
}

block_index::block_index(std::span<const live_block> blocks) : blocks_(blocks) {
  if (blocks_.empty()) return;
  lowest_ = blocks_.front().address;
  highest_ = blocks_.back().last();
  std::size_t pages = 0;
  for_each_page_of(blocks_, [&](std::uint64_t) { ++pages; });
  slots_.resize(std::bit_ceil(pages * 2));
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const std::uint64_t last = blocks_[i].last() / page_bytes;
    for (std::uint64_t number = blocks_[i].address / page_bytes; number <= last; ++number) {
      slot& at = slots_[place_of(number)];
      if (at.page_plus_one == 0) at = {number + 1, static_cast<std::uint32_t>(i), 0};
      ++at.count;
    }
  }
}

std::size_t block_index::place_of(std::uint64_t page) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  // Fibonacci hashing spreads the neighbouring pages of a run far apart.
  std::size_t at = (page * 0x9e3779b97f4a7c15U >> 20U) & mask;
  while (slots_[at].page_plus_one != 0 && slots_[at].page_plus_one != page + 1) at = (at + 1) & mask;
  return at;
}

std::optional<std::uint32_t> block_index::find(std::uint64_t address) const noexcept {
  if (blocks_.empty() || address < lowest_ || address > highest_) return std::nullopt;
  const slot& in_page = slots_[place_of(address / page_bytes)];
  if (in_page.page_plus_one == 0) return std::nullopt;
  const auto candidates = blocks_.subspan(in_page.first, in_page.count);
  auto behind = std::upper_bound(candidates.begin(), candidates.end(), address,
                                 [](std::uint64_t a, const live_block& b) { return a < b.address; });
  if (behind == candidates.begin()) return std::nullopt;
  --behind;
  if (address > behind->last()) return std::nullopt;
  return static_cast<std::uint32_t>(in_page.first + (behind - candidates.begin()));
}

void find_links(snapshot& s) {
  const block_index index(s.blocks);
  s.links.clear();
  for (std::uint32_t from = 0; from < s.blocks.size(); ++from) {
    const live_block& b = s.blocks[from];
    const std::uint64_t first = (b.address + 7) & ~std::uint64_t{7};
    for (std::uint64_t at = first; b.bytes >= 8 && at <= b.last() - 7; at += 8) {
      std::uint64_t word = 0;
      const auto* const place = reinterpret_cast<const void*>(at);  // NOLINT(performance-no-int-to-ptr)
      std::memcpy(&word, place, sizeof word);
      const auto to = index.find(without_tags(word));
      if (to && *to != from) s.links.push_back({from, *to});
    }
  }
  s.links_unknown.clear();
}

}  // namespace espalier::inspect
