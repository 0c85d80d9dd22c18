#include "preload/recording/page_states.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "espalier/hw/page_words.hpp"
#include "espalier/inspect/snapshot.hpp"

namespace espalier::preload {

page_states::page_states() noexcept {
  pagemap_.descriptor = open("/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC);
  flags_.descriptor = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
  if (pagemap_.descriptor < 0)
    frames_unknown_ = huge_unknown_ = "/proc/self/pagemap cannot be read";
  else if (flags_.descriptor < 0)
    huge_unknown_ = "/proc/kpageflags cannot be read: that takes root";
}

page_states::~page_states() {
  if (pagemap_.descriptor >= 0) close(pagemap_.descriptor);
  if (flags_.descriptor >= 0) close(flags_.descriptor);
}

bool page_states::window::read(std::uint64_t index, std::uint64_t& word) noexcept {
  if (descriptor < 0) return false;
  if (index < first || index - first >= count) {
    const ssize_t got = pread(descriptor, words.data(), most * sizeof(std::uint64_t),
                              static_cast<off_t>(index * sizeof(std::uint64_t)));
    first = index;
    count = got > 0 ? static_cast<std::size_t>(got) / sizeof(std::uint64_t) : 0;
    if (count == 0) return false;
  }
  word = words[index - first];
  return true;
}

std::uint64_t page_states::of(std::uint64_t number) noexcept {
  inspect::page page{number, 0};
  std::uint64_t entry = 0;
  if (!pagemap_.read(number, entry)) {
    if (*frames_unknown_ == 0) frames_unknown_ = "/proc/self/pagemap does not tell of some of the pages";
    if (*huge_unknown_ == 0) huge_unknown_ = frames_unknown_;
    return page.state;
  }
  if (!hw::is_in_memory(entry)) {
    frames_unknown_ = huge_unknown_ = "some of the pages were never touched, or are swapped out";
    return page.state;
  }
  const std::uint64_t frame = hw::frame_of(entry);
  if (frame == 0) {
    frames_unknown_ = huge_unknown_ = "the kernel tells page frames only to root";
    return page.state;
  }
  page.set_frame(frame);
  std::uint64_t flags = 0;
  if (flags_.read(frame, flags)) {
    page.set_huge(hw::is_huge(flags, frame, number));
  } else if (*huge_unknown_ == 0) {
    huge_unknown_ = "/proc/kpageflags does not tell of some of the pages";
  }
  return page.state;
}

}  // namespace espalier::preload
