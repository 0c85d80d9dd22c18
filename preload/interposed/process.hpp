#pragma once

#include "preload/recording/recorder.hpp"

namespace espalier::preload {

/// The recorder of this process. There is one, as there is one malloc.
extern constinit recorder process_recorder;

}  // namespace espalier::preload
