#pragma once

#include <atomic>
#include <cstdint>

// What a thread does while it waits. All are ordinary functions, defined once in the library. A program
// with its own scheduler (a fiber runtime, a test that explores interleavings) links its own versions.

namespace espalier::hw {

/// One step of a spin loop: tells the processor, and a scheduler, that progress depends on other threads.
void cpu_relax() noexcept;

/// A longer wait inside a spin loop: yields the processor to another runnable thread.
void park() noexcept;

/// Sleeps while the word is `seen`. Returns at once if it is not, when another thread wakes this one, or spuriously: the
/// caller reads the word again. No wake-up is lost: a thread that stores to the word and then wakes its sleepers either
/// wakes this thread, or this thread sees the store and does not sleep. On Linux a futex of the process; one system call.
void wait_on(const std::atomic<std::uint32_t>& word, std::uint32_t seen) noexcept;

/// Wakes one of the threads that sleep on the word, if there are any; or all. One system call, which a caller that knows
/// that no thread sleeps can save.
void wake_one(const std::atomic<std::uint32_t>& word) noexcept;
void wake_all(const std::atomic<std::uint32_t>& word) noexcept;

}  // namespace espalier::hw
