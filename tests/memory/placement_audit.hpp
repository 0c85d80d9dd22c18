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
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "espalier/memory/placement_concept.hpp"
#include "support/reexecute.hpp"
#include "support/refusal.hpp"
#include "support/sanitizers.hpp"

namespace espalier::test {

/// A block that is filled with one byte.
struct held_block {
  std::byte* memory;
  block asked;
  std::byte pattern;

  template <class Placement>
  static held_block of(Placement& source, const block& asked, unsigned pattern, const void* near = nullptr) {
    auto* const memory = static_cast<std::byte*>(source.allocate(asked, near));
    std::memset(memory, static_cast<std::uint8_t>(pattern), asked.bytes);
    return {memory, asked, static_cast<std::byte>(pattern)};
  }
  [[nodiscard]] bool intact() const noexcept {
    return std::all_of(memory, memory + asked.bytes, [this](std::byte b) { return b == pattern; });
  }
  [[nodiscard]] bool aligned() const noexcept {
    return reinterpret_cast<std::uintptr_t>(memory) % asked.align == 0;
  }
};

/// While it lives, the process gets no more than so much address space.
class address_space_limit {
 public:
  explicit address_space_limit(rlim_t bytes) {
    getrlimit(RLIMIT_AS, &before_);
    rlimit tight = before_;
    tight.rlim_cur = bytes;
    setrlimit(RLIMIT_AS, &tight);
  }
  address_space_limit(const address_space_limit&) = delete;
  address_space_limit& operator=(const address_space_limit&) = delete;
  ~address_space_limit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

/// Whether a call has no memory.
template <class Call>
bool is_refused(Call&& call) {
  return refusal<std::bad_alloc>(call) != "accepted";
}

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
        mine.push_back(held_block::of(source, b, static_cast<unsigned>(random()), near));
        if (!mine.back().aligned()) wrong = "a block is not aligned";
      }
      step.arrive_and_wait();
      if (t == 0) {
        std::vector<held_block> all = held[0];
        all.insert(all.end(), held[1].begin(), held[1].end());
        std::uint64_t bytes = 0;
        for (const held_block& h : all) {
          bytes += h.asked.bytes;
          if (!h.intact()) wrong = "a block was overwritten";
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

/// Blocks of every size to beyond 1 KiB, and of some up to 4 MiB. Returns the first broken promise, or nothing.
template <placement Placement>
std::string every_size(Placement& source) {
  constexpr std::size_t largest = std::size_t{4} << 20U;
  constexpr std::size_t at_a_time = 256;
  std::vector<held_block> held;
  std::uint64_t bytes = 0;
  const char* wrong = "";
  for (std::size_t size = 1; size <= largest; size += size < 1100 ? 1 : size < 8192 ? 6 : size / 4) {
    const block b{size, std::size_t{1} << (size % 7), static_cast<memory_role>(size % memory_role_count)};
    held.push_back(held_block::of(source, b, static_cast<unsigned>(size % 251)));
    if (!held.back().aligned()) wrong = "a block is not aligned";
    bytes += size;
    if (held.size() < at_a_time && size < 8192) continue;
    if (source.usage().blocks != held.size()) wrong = "the number of blocks is wrong";
    if (source.usage().bytes_in_use < bytes) wrong = "fewer bytes in use than were asked for";
    for (const held_block& h : held) {
      if (!h.intact()) wrong = "a block was overwritten";
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
      if (!is_refused([&] { return source.allocate({absurd, 8, memory_role::node}); }))
        return "a block of absurd size was had";
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
    std::optional<address_space_limit> limit(std::in_place, rlim_t{1});  // nothing more is mapped
    constexpr std::size_t sizes[] = {16, 64, 200, 1500, 6000};
    const bool refused = is_refused([&] {
      for (std::size_t i = 0; held.size() < held.capacity(); ++i) {
        const block b{sizes[i % std::size(sizes)], 8, static_cast<memory_role>(i % memory_role_count)};
        held.push_back(held_block::of(source, b, static_cast<unsigned>(i % 251)));
      }
    });
    if (!refused) return 1;
    if (source.usage().blocks != held.size()) return 2;
    if (!std::ranges::all_of(held, &held_block::intact)) return 3;
    limit.reset();
    const bool refused_again = is_refused([&] {
      for (int i = 0; i < 100; ++i) {
        const block b{sizes[0], 8, memory_role::node};
        source.deallocate(source.allocate(b), b);
      }
    });
    if (refused_again) return 4;
    for (const held_block& h : held) source.deallocate(h.memory, h.asked);
    return source.usage().blocks == 0 && source.usage().bytes_in_use == 0 ? 0 : 5;
  });
  return outcome < 0 ? "it crashed" : outcomes[outcome];
}

}  // namespace espalier::test
