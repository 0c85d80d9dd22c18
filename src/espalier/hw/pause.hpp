#pragma once

// What a thread does while it waits. Both are ordinary functions, defined once in the library: a program
// that brings its own scheduler (a fiber runtime, a test that explores interleavings) links its own.

namespace espalier::hw {

/// One step of a spin loop: tells the processor, and whoever schedules, that progress depends on others.
void cpu_relax() noexcept;

/// A longer wait inside a spin loop: gives the processor to another runnable thread.
void park() noexcept;

}  // namespace espalier::hw
