#pragma once

#include <unistd.h>

#include <atomic>

#include "preload/recording/recorder.hpp"

namespace espalier::preload {

/// The recorder of this process. There is one, as there is one malloc.
extern constinit recorder process_recorder;

/// Reads the settings and begins to record. Only the first call has an effect.
void begin_recording(char** environment) noexcept;
extern constinit std::atomic<bool> recording_begun;

/// True where a block is recorded. The process's first block that finds an environment starts the recording: the
/// constructors of other libraries allocate before this library's runs.
inline bool recorder_listens() noexcept {
  // relaxed: begin_recording() decides which thread is first.
  if (!recording_begun.load(std::memory_order_relaxed) && environ != nullptr) begin_recording(environ);
  return process_recorder.listens();
}

}  // namespace espalier::preload
