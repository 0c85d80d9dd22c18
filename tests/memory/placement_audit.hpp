#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "espalier/memory/placement_concept.hpp"
#include "support/reexecute.hpp"
#include "support/sanitizers.hpp"

namespace espalier::test {

struct held_block {
  std::byte* memory;
  block asked;
  std::uint8_t pattern;
};

/// Two threads allocate blocks of many sizes, alignments and roles, fill them, and free each other's. Returns
/// the first broken promise, or nothing.
template <placement Placement>
std::string audit(Placement& source) {
  std::atomic<const char*> wrong{nullptr};
  std::vector<held_block> held[2];
  std::barrier step(2);
  const auto worker = [&](unsigned t) {
    std::mt19937 random(t + 1);
    for (int round = 0; round < 3; ++round) {
      std::vector<held_block>& mine = held[t];
      for (unsigned i = 0; i < 1500; ++i) {
        const std::size_t align = std::size_t{1} << (random() % 8);
        const std::size_t bytes = 1 + random() % (i % 50 == 0 ? 4000 : 130);
        const block b{bytes, align, static_cast<memory_role>(random() % memory_role_count)};
        const void* const near = mine.empty() || i % 2 == 0 ? nullptr : mine[random() % mine.size()].memory;
        auto* const memory = static_cast<std::byte*>(source.allocate(b, near));
        if (reinterpret_cast<std::uintptr_t>(memory) % align != 0) wrong = "a block is not aligned";
        const auto pattern = static_cast<std::uint8_t>(random());
        std::memset(memory, pattern, bytes);
        mine.push_back({memory, b, pattern});
      }
      step.arrive_and_wait();
      if (t == 0) {
        std::vector<held_block> all = held[0];
        all.insert(all.end(), held[1].begin(), held[1].end());
        std::uint64_t bytes = 0;
        for (const held_block& h : all) {
          bytes += h.asked.bytes;
          const bool intact = std::all_of(h.memory, h.memory + h.asked.bytes,
                                          [&](std::byte b) { return b == std::byte{h.pattern}; });
          if (!intact) wrong = "a block was overwritten";
        }
        std::sort(all.begin(), all.end(),
                  [](const held_block& a, const held_block& b) { return a.memory < b.memory; });
        for (std::size_t i = 1; i < all.size(); ++i) {
          if (all[i - 1].memory + all[i - 1].asked.bytes > all[i].memory) wrong = "blocks overlap";
        }
        const memory_usage usage = source.usage();
        if (usage.blocks != all.size()) wrong = "the number of blocks is wrong";
        if (usage.bytes_in_use < bytes) wrong = "fewer bytes in use than were asked for";
        if (usage.bytes_reserved < usage.bytes_in_use) wrong = "fewer bytes reserved than in use";
      }
      step.arrive_and_wait();
      std::vector<held_block>& theirs = held[1 - t];
      std::shuffle(theirs.begin(), theirs.end(), random);
      for (const held_block& h : theirs) source.deallocate(h.memory, h.asked);
      step.arrive_and_wait();
      mine.clear();
    }
  };
  std::thread other(worker, 1U);
  worker(0);
  other.join();
  if (wrong == nullptr && (source.usage().blocks != 0 || source.usage().bytes_in_use != 0))
    wrong = "what was freed still counts";
  return wrong == nullptr ? "" : wrong.load();
}

/// Blocks of every size to beyond 1 KiB, and of some up to 4 MiB. Returns the first broken promise, or
/// nothing.
template <placement Placement>
std::string every_size(Placement& source) {
  constexpr std::size_t largest = std::size_t{4} << 20U;
  constexpr std::size_t at_a_time = 256;
  std::vector<held_block> held;
  std::uint64_t bytes = 0;
  const char* wrong = "";
  for (std::size_t size = 1; size <= largest; size += size < 1100 ? 1 : size < 8192 ? 6 : size / 4) {
    const block b{size, std::size_t{1} << (size % 7), static_cast<memory_role>(size % memory_role_count)};
    auto* const memory = static_cast<std::byte*>(source.allocate(b));
    if (reinterpret_cast<std::uintptr_t>(memory) % b.align != 0) wrong = "a block is not aligned";
    std::memset(memory, static_cast<int>(size % 251), size);
    held.push_back({memory, b, static_cast<std::uint8_t>(size % 251)});
    bytes += size;
    if (held.size() < at_a_time && size < 8192) continue;
    if (source.usage().blocks != held.size()) wrong = "the number of blocks is wrong";
    if (source.usage().bytes_in_use < bytes) wrong = "fewer bytes in use than were asked for";
    for (const held_block& h : held) {
      const bool intact = std::all_of(h.memory, h.memory + h.asked.bytes,
                                      [&](std::byte one) { return one == std::byte{h.pattern}; });
      if (!intact) wrong = "a block was overwritten";
      source.deallocate(h.memory, h.asked);
    }
    held.clear();
    bytes = 0;
  }
  if (source.usage().blocks != 0 || source.usage().bytes_in_use != 0) wrong = "what was freed still counts";
  return wrong;
}

/// Refusals leave the counts as they were, and what is in use intact. Returns the first broken promise, or
/// nothing. In sanitized builds, which need the address space, always nothing.
template <class Make>
std::string refusals(Make&& make) {
  if (address_sanitizer || thread_sanitizer) return "";
  {
    auto source = make();
    const block kept{40, 8, memory_role::node};
    void* const memory = source.allocate(kept);
    const memory_usage before = source.usage();
    for (const std::size_t absurd :
         {std::numeric_limits<std::size_t>::max() / 4, std::numeric_limits<std::size_t>::max() - 4096}) {
      bool refused = false;
      try {
        (void)source.allocate({absurd, 8, memory_role::node});
      } catch (const std::bad_alloc&) {
        refused = true;
      }
      if (!refused) return "a block of absurd size was had";
    }
    if (source.usage().blocks != before.blocks || source.usage().bytes_in_use != before.bytes_in_use)
      return "a refusal counts";
    source.deallocate(memory, kept);
  }
  // In a child: the limit is for the whole process.
  constexpr const char* outcomes[] = {"",
                                      "no refusal",
                                      "a refusal counts",
                                      "a refusal damaged a block",
                                      "a block that was given back cannot be had again",
                                      "what was freed still counts"};
  const int outcome = in_forked_child([&]() -> int {
    auto source = make();
    std::vector<held_block> held;
    held.reserve(std::size_t{1} << 20U);
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    const rlimit before = limit;
    limit.rlim_cur = 1;  // nothing more is mapped
    setrlimit(RLIMIT_AS, &limit);
    constexpr std::size_t sizes[] = {16, 64, 200, 1500, 6000};
    bool refused = false;
    for (std::size_t i = 0; !refused && held.size() < held.capacity(); ++i) {
      const block b{sizes[i % std::size(sizes)], 8, static_cast<memory_role>(i % memory_role_count)};
      try {
        auto* const memory = static_cast<std::byte*>(source.allocate(b));
        std::memset(memory, static_cast<int>(i % 251), b.bytes);
        held.push_back({memory, b, static_cast<std::uint8_t>(i % 251)});
      } catch (const std::bad_alloc&) {
        refused = true;
      }
    }
    if (!refused) return 1;
    if (source.usage().blocks != held.size()) return 2;
    for (const held_block& h : held) {
      if (!std::all_of(h.memory, h.memory + h.asked.bytes,
                       [&](std::byte one) { return one == std::byte{h.pattern}; }))
        return 3;
    }
    setrlimit(RLIMIT_AS, &before);
    try {
      for (int i = 0; i < 100; ++i) {
        const block b{sizes[0], 8, memory_role::node};
        source.deallocate(source.allocate(b), b);
      }
    } catch (const std::bad_alloc&) {
      return 4;
    }
    for (const held_block& h : held) source.deallocate(h.memory, h.asked);
    return source.usage().blocks == 0 && source.usage().bytes_in_use == 0 ? 0 : 5;
  });
  return outcome < 0 ? "it crashed" : outcomes[outcome];
}

}  // namespace espalier::test
