#pragma once

#include <unistd.h>

#include <atomic>

#include "preload/recording/recorder.hpp"

namespace espalier::preload {

/// The recorder of this process. There is one, as there is one malloc.
extern constinit recorder process_recorder;

/// Reads the settings and begins to record. Does something once only.
void begin_recording(char** environment) noexcept;
extern constinit std::atomic<bool> recording_begun;

/// True where a block concerns the record. The first block of a process with an environment begins it: the
/// constructors of other libraries allocate before ours runs.
inline bool recorder_listens() noexcept {
  // relaxed: begin_recording() decides who is first.
  if (!recording_begun.load(std::memory_order_relaxed) && environ != nullptr) begin_recording(environ);
  return process_recorder.listens();
}

}  // namespace espalier::preload
