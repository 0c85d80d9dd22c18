#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "espalier/hw/asymmetric_fence.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/per_thread.hpp"
#include "espalier/sync/ttas_lock.hpp"

// Read-log-update (Matveev, Shavit, Felber and Marlier, "Read-Log-Update: A Lightweight Synchronization Mechanism for Concurrent
// Programming", SOSP 2015), as an object: sections, logs and the grace period. It frees no memory and is no reclaimer. Where a
// writer has committed, no section can reach what it has unlinked: the writer may free that at once.
//
// Protocol. A writer does not change an object. It locks it by a pointer to a copy in its log, and changes the copy. Its commit
// takes the next time of the global clock as its own. It waits until every section has ended that began before that time,
// writes the copies back, and unlocks the objects. A section reads the copy of a locked object if the writer has committed at the
// section's time or before, else the object. So it sees all objects of a commit, or none.
//
// A writer that comes to an object that another one has locked gets null. It ends its section by abort(), which unlocks what it has
// locked and changes nothing, and begins again. No writer waits while it holds a lock, except for readers in its commit.
//
// Deviations from the paper and its code:
//  1. One object type in each domain, so that a log is an array of copies, of which a commit has a few.
//  2. A lock around the two stores that begin a commit. In the paper each writer reads the clock, announces the time after, and
//     increments the clock. Two that do so at a time may announce one time, and the clock reaches it while one of them has not
//     announced yet. A section that begins then reads its objects before the announcement and its copies after it, and the writer
//     does not wait for the section: it overwrites what that reads.
//  3. Reads do not nest; a section is an object.
//  4. No deferred write-back. A writer that has deferred holds its locks until another one asks it to commit. In a library it may
//     never be called again.
//
// Orderings
//   (1) begin (light) <-> synchronize (heavy): the commit sees the section and waits, or the section sees the time of the commit.
//   (2) end (release) -> await (acquire): what a section read comes before the copies are written back, and before what was
//       unlinked is freed.
//   (3) tick (release) -> begin (acquire): a section at the time of a commit sees its locks and its announcement.
//   (4) lock (release) -> read_copy (acquire): a section that finds a copy sees whose it is.
//   (5) announce (release) -> steal (acquire): a section that reads a copy sees what the writer has stored there.
//   (6) unlock (release) -> read_copy (acquire), lock (acquire): with an unlocked object come the fields that were written back.
//   (7) settle (release) -> steal (acquire): a section that finds the writer settled sees the fields that were written back.
//   (8) note (release) -> recover_in_child (fork): wherever the fork stops a thread, each copy to which an object leads is counted,
//       and at most one more. The fence binds the compiler only.

namespace espalier {

/// Payload: what writers change, trivially copyable.
template <class Payload>
class rlu_domain {
  struct record;
  struct copy_of;

 public:
  /// What a commit may lock, at most.
  static constexpr std::size_t copies_most = 4;

  /// An object that sections read and writers change. One that no thread can reach yet is filled by its constructor.
  class object {
   public:
    explicit object(const Payload& fields) noexcept : fields_(fields) {}
    object(const object&) = delete;
    object& operator=(const object&) = delete;
    /// Of an object that no other thread can reach, or at rest.
    [[nodiscard]] Payload& fields() noexcept { return fields_; }
    [[nodiscard]] const Payload& fields() const noexcept { return fields_; }
    // relaxed: at rest.
    [[nodiscard]] bool is_locked() const noexcept { return copy_.load(std::memory_order_relaxed) != nullptr; }

   private:
    friend rlu_domain;
    std::atomic<copy_of*> copy_{nullptr};
    Payload fields_;
  };

  /// What a thread reads from the constructor on is as it was at one moment, until the object is destroyed. Sections of one thread
  /// in one domain do not nest. Throws std::bad_alloc at a thread's first one, std::system_error beyond 4096 threads.
  class [[nodiscard]] section {
   public:
    explicit section(rlu_domain& domain) : domain_(domain), mine_(domain.records_.local()) {
      if (mine_.locked != 0) [[unlikely]]
        complete_lost();
      begin();
    }
    section(const section&) = delete;
    section& operator=(const section&) = delete;
    ~section() {
      unlock();
      end();
    }

    /// The fields of an object, or the caller's copy of them.
    [[nodiscard]] const Payload& read(const object& o) const noexcept {
      copy_of* const copy = o.copy_.load(std::memory_order_acquire);  // order (4), (6): read_copy, acquire
      if (copy == nullptr) [[likely]]
        return o.fields_;
      // order (5), (7): steal, acquire
      const bool is_mine = copy->writer == &mine_;
      if (is_mine || copy->writer->committed.load(std::memory_order_acquire) <= time_) return copy->fields;
      return o.fields_;
    }

    /// A copy of the object's fields, to change; null if another writer has locked it: then abort().
    [[nodiscard]] Payload* try_write(object& o) noexcept {
      copy_of* const present = o.copy_.load(std::memory_order_acquire);  // order (6): lock, acquire
      if (present != nullptr) return present->writer == &mine_ ? &present->fields : nullptr;
      assert(mine_.locked < copies_most);
      copy_of& copy = log()[mine_.locked++];
      copy.of = &o;
      std::atomic_signal_fence(std::memory_order_release);  // order (8): note, release
      copy_of* expected = nullptr;
      // order (4), (6): lock, acq_rel. relaxed at a failure: the caller begins again. No section reads the copy before the commit.
      if (!o.copy_.compare_exchange_strong(expected, &copy, std::memory_order_acq_rel,
                                           std::memory_order_relaxed)) {
        --mine_.locked;
        return nullptr;
      }
      copy.fields = o.fields_;
      return &copy.fields;
    }

    /// What was locked changes, for all sections at one moment. Waits for those that began before. The section goes on, at a later time.
    void commit() noexcept {
      domain_.take_time(mine_);
      end();
      complete();
      begin();
    }

    /// Nothing has changed. Calls wait() outside of the section, which then goes on, at a later time.
    template <class Wait>
    void abort(const Wait& wait) noexcept {
      unlock();
      end();
      wait();
      begin();
    }

   private:
    void begin() noexcept {
      // relaxed: only this thread writes it.
      const std::uint64_t before = mine_.crossings.load(std::memory_order_relaxed);
      assert(before % 2 == 0 && "sections do not nest");
      // order (2): end, release: the look that sees this may have missed the end before.
      mine_.crossings.store(before + 1, std::memory_order_release);
      hw::fence_light();                                       // order (1): begin, light
      time_ = domain_.clock_.load(std::memory_order_acquire);  // order (3): begin, acquire
      mine_.time.store(time_, std::memory_order_release);      // order (2): end, release
    }
    void end() noexcept {
      // order (2): end, release. relaxed: only this thread writes it.
      mine_.crossings.store(mine_.crossings.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    /// Of a commit that has its time.
    void complete() noexcept {
      domain_.synchronize(mine_);
      for (std::size_t i = 0; i < mine_.locked; ++i) log()[i].of->fields_ = log()[i].fields;
      unlock();
      // order (7): settle, release
      mine_.committed.store(never, std::memory_order_release);
      // Sections that have found a copy may read it still. The next commit waits for them, before the log is used again.
      mine_.current ^= 1U;
    }
    /// In a child of fork(), of the lost thread that had this record: what it has committed takes effect, what not is undone.
    [[gnu::noinline]] void complete_lost() noexcept {
      // relaxed: only this thread writes it.
      mine_.committed.load(std::memory_order_relaxed) != never ? complete() : unlock();
    }
    [[nodiscard]] copy_of* log() noexcept { return mine_.log[mine_.current].data(); }
    void unlock() noexcept {
      while (mine_.locked != 0) {
        log()[mine_.locked - 1].of->copy_.store(nullptr,
                                                std::memory_order_release);  // order (6): unlock, release
        std::atomic_signal_fence(std::memory_order_release);                 // order (8): note, release
        --mine_.locked;
      }
    }

    rlu_domain& domain_;
    record& mine_;
    std::uint64_t time_ = 0;
  };

  /// Of the records of threads.
  [[nodiscard]] std::size_t bytes() const noexcept { return records_.bytes(); }

 private:
  static constexpr std::uint64_t never = ~std::uint64_t{0};

  struct copy_of {
    record* writer = nullptr;  // fixed: the log's
    object* of = nullptr;
    Payload fields{};
  };
  struct record {
    std::atomic<std::uint64_t> crossings{0};      // odd: inside
    std::atomic<std::uint64_t> time{0};           // of the section
    std::atomic<std::uint64_t> committed{never};  // of the commit in progress
    // owner only
    std::uint32_t current = 0;
    std::uint32_t locked = 0;  // copies of the current log that objects lead to
    std::array<std::array<copy_of, copies_most>, 2> log;

    record() noexcept {
      for (auto& each : log) {
        for (copy_of& copy : each) copy.writer = this;
      }
    }
    record(const record&) = delete;
    record& operator=(const record&) = delete;
    ~record() = default;

    /// A lost thread has left its section. What it had locked stays so, until a thread gets its record.
    void recover_in_child(bool lost) noexcept {
      // A copy to which no object leads yet, or any more. order (8): recover_in_child, fork. relaxed: the child has one thread.
      if (lost && locked != 0) {
        const copy_of& last = log[current][locked - 1];
        if (last.of->copy_.load(std::memory_order_relaxed) != &last) --locked;
      }
      // relaxed: likewise.
      if (lost && locked == 0) committed.store(never, std::memory_order_relaxed);
      const std::uint64_t now = crossings.load(std::memory_order_relaxed);
      if (lost && now % 2 != 0) crossings.store(now + 1, std::memory_order_relaxed);
    }
  };

  /// The time of a commit, which begins with it.
  void take_time(record& mine) noexcept {
    const lock_guard hold(lock_);
    // relaxed: written with the lock held.
    const std::uint64_t next = clock_.load(std::memory_order_relaxed) + 1;
    mine.committed.store(next, std::memory_order_release);  // order (5): announce, release
    clock_.store(next, std::memory_order_release);          // order (3): tick, release
  }

  /// Waits for the sections that began before the commit's time.
  void synchronize(const record& mine) const noexcept {
    hw::fence_heavy();  // order (1): synchronize, heavy
    // relaxed: only this thread writes it.
    const std::uint64_t time = mine.committed.load(std::memory_order_relaxed);
    records_.for_each([&](std::uint32_t, const record& r) {
      const std::uint64_t seen = r.crossings.load(std::memory_order_acquire);  // order (2): await, acquire
      if (seen % 2 == 0) return;
      // order (2): await, acquire, both: the section has ended, or is a later one, or has the commit's time.
      for (backoff pause; r.crossings.load(std::memory_order_acquire) == seen &&
                          r.time.load(std::memory_order_acquire) < time;
           pause.wait()) {
      }
    });
  }

  // Every section reads clock_.
  alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> clock_{1};
  alignas(hw::false_sharing_bytes) ttas_lock lock_;
  per_thread<record> records_;
};

}  // namespace espalier
