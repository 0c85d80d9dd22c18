#pragma once

// A long run of any malloc: blocks of one byte to many MiB, mostly small, in threads that come and go. Some are given
// back by whoever allocated them, some by others, some by a thread that does nothing else. Every block is full of what
// follows from its address and its number, and is looked at when it goes: two that overlap are found, as are contents
// that realloc() loses, memory of calloc() that is not zero, and bytes that cannot be had.

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "espalier/hw/process.hpp"
#include "espalier/measure/random.hpp"

namespace espalier::test {

struct soak_options {
  std::uint64_t operations = 1'000'000;  ///< calls that give a block, take one back or change one
  std::uint64_t seed = 1;
  std::size_t lines = 3;                  ///< threads at a time that do everything
  std::uint64_t of_one_thread = 200'000;  ///< operations, then the next one takes over its blocks
  std::size_t places = 5000;              ///< blocks that each of them holds
  bool passes_on = true;                  ///< some of them are given back by another thread
  std::size_t largest = std::size_t{20} << 20U;
  std::uint64_t huge_every = 0;  ///< of so many blocks one has 33 to 64 MiB; none where it is 0
  bool may_be_refused = false;   ///< now and then there is no memory, and everything stays as it was
};

struct soak_figures {
  std::uint64_t operations = 0;
  std::uint64_t threads = 0;
  std::uint64_t live_bytes = 0;  ///< that blocks may use, now
  std::uint64_t most_live_bytes = 0;
  std::uint64_t refused = 0;         ///< operations for which there was no memory
  std::uint64_t resident_bytes = 0;  ///< of the process, now
};

struct soak_outcome {
  std::string wrong;  ///< empty, or the first thing that was
  soak_figures figures;
};

/// A malloc, as the thread that made the object calls it: `Malloc` has
///   void* allocate(bytes), allocate_zeroed(bytes), allocate_aligned(bytes, align), resize(block, bytes)
///   void deallocate(block)
///   std::size_t usable(block)
/// `make()` is called in each thread, and what it gives is destroyed there.
template <class Make>
class malloc_soak {
  using malloc_type = decltype(std::declval<Make&>()());

 public:
  malloc_soak(Make make, const soak_options& options)
      : make_(std::move(make)), options_(options), lines_(options.lines) {
    for (std::vector<block>& line : lines_) line.resize(options.places);
  }

  /// Runs to its end, or to the first thing that is wrong. `look` is called now and then, and at last when every block
  /// is given back and no thread is left; it says what is wrong with the figures, or nothing.
  soak_outcome run(const std::function<std::string(const soak_figures&)>& look) {
    std::vector<std::thread> all;
    running_ = options_.lines + 2;
    // Of what is passed on as soon as it is made there is a quarter of all.
    const std::uint64_t passed_on = options_.passes_on ? options_.operations / 8 : 0;
    const std::uint64_t of_line = (options_.operations - 2 * passed_on) / options_.lines;
    all.emplace_back([this, passed_on] { produce(passed_on); });
    all.emplace_back([this] { consume(); });
    for (std::size_t l = 0; l < options_.lines; ++l)
      all.emplace_back([this, l, of_line] { run_line(l, of_line); });
    while (running_ != 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      note(look(measure()));
    }
    for (std::thread& t : all) t.join();
    {
      malloc_type own = make_();
      worker last(*this, own, 0);
      for (mailbox& box : boxes_) last.drop(box.held);
    }
    note(look(measure()));
    return {wrong_, figures_};
  }

 private:
  struct block {
    unsigned char* at = nullptr;
    std::size_t bytes = 0;  // that are filled
    std::size_t usable = 0;
    std::uint64_t pattern = 0;
    bool whole = true;      // all of them, not some
    std::size_t step = 61;  // words from one to the next, of some
  };
  struct alignas(64) mailbox {
    std::atomic<bool> taken{false};
    block held;
  };
  struct alignas(64) thread_sums {
    std::atomic<std::uint64_t> operations{0};
    std::atomic<std::uint64_t> live{0};  // may wrap: others give back what one allocated
  };

  /// Of one thread's life.
  class worker {
   public:
    worker(malloc_soak& of, malloc_type& own, std::uint64_t number)
        : soak_(of),
          malloc_(own),
          sums_(of.sums_[number % of.sums_.size()]),
          random_(of.options_.seed, number) {
      of.threads_.fetch_add(1, std::memory_order_relaxed);
    }
    ~worker() { sums_.operations.fetch_add(done_, std::memory_order_relaxed); }
    worker(const worker&) = delete;
    worker& operator=(const worker&) = delete;

    [[nodiscard]] std::uint64_t draw() { return random_.next(); }
    [[nodiscard]] bool goes_on() {
      if (++turns_ % 1024 == 0)
        sums_.operations.fetch_add(std::exchange(done_, 0), std::memory_order_relaxed);
      return !soak_.failed_.load(std::memory_order_relaxed);
    }
    block make() {
      const std::uint64_t r = random_.next();
      const std::size_t bytes = some_bytes(random_.next());
      block b;
      std::size_t align = 16;
      ++done_;
      switch (r % 8) {
        case 0: {
          b.at = static_cast<unsigned char*>(malloc_.allocate_zeroed(bytes));
          if (b.at != nullptr && !is_zero(b.at, bytes, r >> 8U))
            soak_.note("memory that was to be zero is not");
          break;
        }
        case 1:
          align = std::size_t{16} << (r >> 8U) % ((r >> 16U) % 256 == 0 ? 14 : 6);
          b.at = static_cast<unsigned char*>(malloc_.allocate_aligned(bytes, align));
          break;
        default:
          b.at = static_cast<unsigned char*>(malloc_.allocate(bytes));
      }
      if (b.at == nullptr) {
        refused("no memory for " + std::to_string(bytes) + " bytes");
        return b;
      }
      if (reinterpret_cast<std::uintptr_t>(b.at) % align != 0)
        soak_.note("a block is not aligned as asked for");
      enter(b, bytes, r >> 24U);
      return b;
    }

    void resize(block& b) {
      const std::uint64_t r = random_.next();
      // Mostly near what it was: in place, or to the next class.
      const std::size_t bytes = r % 4 == 0
                                    ? some_bytes(random_.next())
                                    : std::max<std::size_t>(1, b.bytes / 2 + (r >> 8U) % (b.bytes + 1));
      const block before = b;
      ++done_;
      auto* const moved = static_cast<unsigned char*>(malloc_.resize(b.at, bytes));
      if (moved == nullptr) return refused("no memory to resize a block");
      b.at = moved;
      // It holds what the old one held, by the old address.
      if (!holds(before, moved, std::min(bytes, before.bytes)))
        soak_.note("a block has lost contents by resizing");
      sums_.live.fetch_sub(before.usable, std::memory_order_relaxed);
      enter(b, bytes, r >> 24U);
    }

    void drop(block& b) {
      if (b.at == nullptr) return;
      // A block whose contents have changed may have another owner, too: it is not freed a second time.
      if (!holds(b, b.at, b.bytes)) return soak_.note("a block has lost its contents");
      ++done_;
      sums_.live.fetch_sub(b.usable, std::memory_order_relaxed);
      malloc_.deallocate(b.at);
      b.at = nullptr;
    }

   private:
    void refused(const std::string& what) {
      soak_.refused_.fetch_add(1, std::memory_order_relaxed);
      if (!soak_.options_.may_be_refused) soak_.note(what);
    }

    [[nodiscard]] std::size_t some_bytes(std::uint64_t r) const {
      constexpr std::size_t huge = std::size_t{33} << 20U;
      if (soak_.options_.huge_every != 0 && (r >> 24U) % soak_.options_.huge_every == 0)
        return huge + (r >> 32U) % (huge - 1);
      // How many bits the size has: seldom many.
      const int zeros = std::countr_zero(r | std::uint64_t{1} << 22U);
      static constexpr std::array<std::uint8_t, 23> bits{7,  8,  9,  10, 11, 12, 13, 14, 16, 17, 18, 18,
                                                         19, 20, 21, 21, 22, 22, 22, 23, 23, 24, 25};
      const std::size_t most = std::size_t{1} << bits[static_cast<std::size_t>(zeros)];
      return std::min(1 + (r >> 32U) % most, soak_.options_.largest);
    }

    void enter(block& b, std::size_t bytes, std::uint64_t r) {
      b.usable = malloc_.usable(b.at);
      if (b.usable < bytes) soak_.note("less may be used than was asked for");
      b.bytes = r % 4 == 0 ? b.usable : bytes;
      b.whole = b.bytes <= 2048 || (b.bytes <= 65536 ? r % 16 == 1 : r % 256 == 1 && !is_sparse(b.bytes));
      b.step = is_sparse(b.bytes) ? 50'021 : 61;
      b.pattern = measure::mix64(reinterpret_cast<std::uintptr_t>(b.at) + (++number_ << 48U) + r);
      visit(b, b.at, b.bytes, [](unsigned char* at, std::uint64_t word, std::size_t n) {
        std::memcpy(at, &word, n);
        return true;
      });
      sums_.live.fetch_add(b.usable, std::memory_order_relaxed);
    }

    /// The first bytes of what a block holds, which may lie elsewhere by now.
    static bool holds(const block& b, unsigned char* at, std::size_t bytes) {
      return visit(b, at, bytes, [](unsigned char* from, std::uint64_t word, std::size_t n) {
        return std::memcmp(from, &word, n) == 0;
      });
    }

    /// All words, or the first and last ones and some between.
    template <class Word>
    static bool visit(const block& b, unsigned char* at, std::size_t bytes, Word&& word) {
      constexpr std::size_t size = sizeof(std::uint64_t);
      const auto of = [&](std::size_t i) { return b.pattern + i * 0x9e3779b97f4a7c15U; };
      const std::size_t words = bytes / size;
      const std::size_t ends = b.whole ? words : std::min<std::size_t>(words, 8);
      for (std::size_t i = 0; i < ends; ++i) {
        if (!word(at + i * size, of(i), size)) return false;
      }
      if (!b.whole) {
        for (std::size_t i = ends + b.pattern % b.step; i < words; i += b.step) {
          if (!word(at + i * size, of(i), size)) return false;
        }
        // What has shrunk ends elsewhere, where nothing was written.
        if (bytes == b.bytes) {
          for (std::size_t i = words - ends; i < words; ++i) {
            if (!word(at + i * size, of(i), size)) return false;
          }
        }
      }
      return bytes % size == 0 || (!b.whole && bytes != b.bytes) ||
             word(at + words * size, of(words), bytes % size);
    }

    /// Of huge blocks, where there are many of them, few pages are touched.
    [[nodiscard]] bool is_sparse(std::size_t bytes) const {
      return soak_.options_.huge_every != 0 && bytes > (std::size_t{1} << 20U);
    }

    [[nodiscard]] bool is_zero(const unsigned char* at, std::size_t bytes, std::uint64_t r) const {
      const std::size_t step = is_sparse(bytes) ? 40'009 : bytes <= 65536 || r % 64 == 0 ? 1 : 509;
      if (step == 1) return bytes == 0 || (at[0] == 0 && std::memcmp(at, at + 1, bytes - 1) == 0);
      for (std::size_t i = 0; i < bytes; i += step) {
        if (at[i] != 0) return false;
      }
      return at[bytes - 1] == 0;
    }

    malloc_soak& soak_;
    malloc_type& malloc_;
    thread_sums& sums_;
    measure::random_generator random_;
    std::uint64_t done_ = 0;
    std::uint64_t turns_ = 0;
    std::uint64_t number_ = 0;
  };

  void run_line(std::size_t l, std::uint64_t operations) {
    for (std::uint64_t done = 0, life = 0; done < operations && !failed_; ++life) {
      const std::uint64_t steps = std::min(options_.of_one_thread, operations - done);
      done += steps;
      std::thread([this, l, life, steps, last = done == operations] {
        malloc_type own = make_();
        worker w(*this, own, 2 + l + options_.lines * life);
        for (std::uint64_t i = 0; i < steps; i += live(w, lines_[l])) {
          if (!w.goes_on()) return;
        }
        if (!last) return;
        for (block& b : lines_[l]) w.drop(b);
      }).join();
    }
    running_.fetch_sub(1);
  }

  /// A turn of a thread that does everything; how many operations it was.
  std::uint64_t live(worker& w, std::vector<block>& blocks) {
    const std::uint64_t r = w.draw();
    block& b = blocks[(r >> 32U) % blocks.size()];
    if (b.at == nullptr) {
      b = w.make();
      return 1;
    }
    switch (r % 16) {
      case 0:
      case 1:
      case 2:
        w.resize(b);
        return 1;
      case 3:
      case 4: {
        // Somebody else gives it back, or uses it.
        if (!options_.passes_on) return 0;
        mailbox& box = boxes_[(r >> 8U) % boxes_.size()];
        if (box.taken.exchange(true, std::memory_order_acquire)) return 0;
        std::swap(b, box.held);
        box.taken.store(false, std::memory_order_release);
        return 0;
      }
      default:
        w.drop(b);
        b = w.make();
        return 2;
    }
  }

  void produce(std::uint64_t blocks) {
    {
      malloc_type own = make_();
      worker w(*this, own, 0);
      for (std::uint64_t i = 0; i < blocks && w.goes_on(); ++i) {
        while (i - ring_taken_.load(std::memory_order_acquire) == ring_.size()) {
          if (failed_) break;
          sched_yield();
        }
        if (failed_) break;
        ring_[i % ring_.size()] = w.make();
        ring_put_.store(i + 1, std::memory_order_release);
      }
    }
    ring_ends_.store(true, std::memory_order_release);
    running_.fetch_sub(1);
  }

  void consume() {
    {
      malloc_type own = make_();
      worker w(*this, own, 1);
      for (std::uint64_t i = 0; w.goes_on(); ++i) {
        while (ring_put_.load(std::memory_order_acquire) == i) {
          if (ring_ends_.load(std::memory_order_acquire) && ring_put_.load(std::memory_order_acquire) == i)
            break;
          sched_yield();
        }
        if (ring_put_.load(std::memory_order_acquire) == i) break;
        w.drop(ring_[i % ring_.size()]);
        ring_taken_.store(i + 1, std::memory_order_release);
      }
    }
    running_.fetch_sub(1);
  }

  soak_figures measure() {
    std::uint64_t operations = 0;
    std::uint64_t live = 0;
    for (const thread_sums& s : sums_) {
      operations += s.operations.load(std::memory_order_relaxed);
      live += s.live.load(std::memory_order_relaxed);
    }
    figures_.operations = operations;
    figures_.threads = threads_.load(std::memory_order_relaxed);
    figures_.refused = refused_.load(std::memory_order_relaxed);
    // Read one after the other, while blocks go from thread to thread.
    figures_.live_bytes = live > ~std::uint64_t{0} / 2 ? 0 : live;
    figures_.most_live_bytes = std::max(figures_.most_live_bytes, figures_.live_bytes);
    figures_.resident_bytes = hw::resident_bytes().value_or(0);
    return figures_;
  }

  /// The first is kept, and ends the run.
  void note(const std::string& wrong) {
    if (wrong.empty()) return;
    const std::lock_guard guard(wrong_lock_);
    if (wrong_.empty()) wrong_ = wrong;
    failed_ = true;
  }

  Make make_;
  soak_options options_;
  std::vector<std::vector<block>> lines_;
  std::array<mailbox, 64> boxes_;
  std::array<block, 512> ring_;
  std::array<thread_sums, 16> sums_;
  alignas(64) std::atomic<std::uint64_t> ring_put_{0};
  alignas(64) std::atomic<std::uint64_t> ring_taken_{0};
  std::atomic<bool> ring_ends_{false};
  alignas(64) std::atomic<bool> failed_{false};
  std::atomic<std::size_t> running_{0};
  std::atomic<std::uint64_t> threads_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::mutex wrong_lock_;
  std::string wrong_;
  soak_figures figures_;
};

}  // namespace espalier::test
