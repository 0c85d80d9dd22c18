#include "preload/recording/snapshot_writer.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "espalier/hw/pages.hpp"
#include "espalier/inspect/snapshot.hpp"
#include "espalier/inspect/snapshot_format.hpp"
#include "preload/environment/output.hpp"
#include "preload/recording/recording.hpp"

namespace espalier::preload {

namespace format = inspect::format;
using format::section;
using inspect::live_block;

namespace {

bool write_whole(int descriptor, const void* bytes, std::size_t size, off_t at) noexcept {
  const auto* from = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = pwrite(descriptor, from, size, at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    from += written;
    at += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

}  // namespace

/// Writes the file of a snapshot section by section, with write(2) and a buffer of its own, so that a signal handler
/// may use it. One at a time in a process.
class snapshot_file {
 public:
  /// `sections` is the number of sections that the file will have.
  snapshot_file(const char* name, std::size_t sections) noexcept
      : name_(name),
        sections_(sections),
        offset_(sizeof(format::header) + sections * sizeof(format::section_entry)) {
    text temporary(temporary_name.data(), temporary_name.size());
    temporary << name << "." << static_cast<std::uint64_t>(getpid()) << ".part";
    if (temporary.whole() && sections <= most_sections && is_replaceable(name))
      descriptor_ = open(temporary_name.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    failed_ = descriptor_ < 0;
  }
  snapshot_file(const snapshot_file&) = delete;
  snapshot_file& operator=(const snapshot_file&) = delete;
  /// Removes a file that was not committed.
  ~snapshot_file() {
    if (descriptor_ < 0) return;
    close(descriptor_);
    unlink(temporary_name.data());
  }

  /// False after a failure; later output is discarded.
  [[nodiscard]] bool good() const noexcept { return !failed_; }

  void begin(std::uint32_t tag, std::uint32_t flags = 0) noexcept {
    if (begun_ == sections_) {
      failed_ = true;
      return;
    }
    entries[begun_++] = {tag, flags, offset_, 0, 0};
    sum_ = {};
  }
  void begin(section tag) noexcept { begin(static_cast<std::uint32_t>(tag)); }
  void end() noexcept {
    if (failed_) return;
    format::section_entry& entry = entries[begun_ - 1];
    entry.bytes = offset_ + buffered_ - entry.offset;
    const std::uint64_t zero = 0;
    put_bytes(&zero, format::padded(entry.bytes) - entry.bytes);
    flush();
    entry.check = sum_.sum();
  }

  void put_bytes(const void* bytes, std::size_t size) noexcept {
    const auto* from = static_cast<const char*>(bytes);
    while (size > 0 && !failed_) {
      const std::size_t part = std::min(size, buffer.size() - buffered_);
      std::memcpy(buffer.data() + buffered_, from, part);
      buffered_ += part;
      from += part;
      size -= part;
      if (buffered_ == buffer.size()) flush();
    }
  }
  void put_number(std::uint32_t number) noexcept { put_bytes(&number, sizeof number); }
  void put_text(const char* text) noexcept {
    const std::size_t size = std::strlen(text);
    put_number(static_cast<std::uint32_t>(size));
    put_bytes(text, size);
  }

  /// Moves the file to its name; false after a failure, which leaves the target unchanged.
  bool commit() noexcept {
    if (failed_ || begun_ != sections_) return false;
    format::header head;
    std::copy(format::magic.begin(), format::magic.end(), head.magic);
    head.version = format::version;
    head.sections = static_cast<std::uint32_t>(sections_);
    const std::size_t bytes = sections_ * sizeof(format::section_entry);
    format::checksum sum;
    sum.add(&head, offsetof(format::header, check));
    sum.add(entries.data(), bytes);
    head.check = sum.sum();
    if (!write_whole(descriptor_, &head, sizeof head, 0)) return false;
    if (!write_whole(descriptor_, entries.data(), bytes, sizeof head)) return false;
    if (rename(temporary_name.data(), name_) != 0) return false;
    close(descriptor_);
    descriptor_ = -1;
    return true;
  }

 private:
  static constexpr std::size_t most_sections = 16;
  static constexpr std::size_t buffer_bytes = std::size_t{1} << 16U;

  void flush() noexcept {
    sum_.add(buffer.data(), buffered_);
    failed_ |= !write_whole(descriptor_, buffer.data(), buffered_, static_cast<off_t>(offset_));
    offset_ += buffered_;
    buffered_ = 0;
  }

  const char* name_;
  int descriptor_ = -1;
  bool failed_ = false;
  std::size_t sections_;
  std::size_t begun_ = 0;
  std::uint64_t offset_;
  std::size_t buffered_ = 0;
  format::checksum sum_;

  static inline constinit std::array<char, 4096> temporary_name{};
  static inline constinit std::array<char, buffer_bytes> buffer{};
  static inline constinit std::array<format::section_entry, most_sections> entries{};
};

namespace {

/// What the kernel shows of this process's pages, if anything: /proc/self/pagemap and /proc/kpageflags. Pages are
/// queried in ascending order; many are read at once. Usable in a signal handler.
class page_states {
 public:
  page_states() noexcept {
    pagemap_.descriptor = open("/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC);
    flags_.descriptor = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
    if (pagemap_.descriptor < 0)
      frames_unknown_ = huge_unknown_ = "/proc/self/pagemap cannot be read";
    else if (flags_.descriptor < 0)
      huge_unknown_ = "/proc/kpageflags cannot be read: that takes root";
  }
  ~page_states() {
    if (pagemap_.descriptor >= 0) close(pagemap_.descriptor);
    if (flags_.descriptor >= 0) close(flags_.descriptor);
  }
  page_states(const page_states&) = delete;
  page_states& operator=(const page_states&) = delete;

  /// The state of a page in the form of inspect::page.
  [[nodiscard]] std::uint64_t of(std::uint64_t number) noexcept {
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

  /// Why a fact is unknown for one of the pages queried, or for all; empty where all is known.
  [[nodiscard]] const char* frames_unknown() const noexcept { return frames_unknown_; }
  [[nodiscard]] const char* huge_unknown() const noexcept { return huge_unknown_; }

 private:
  /// A window over a file of words, which holds those read last.
  struct window {
    /// Words to read at once: the neighbours of an address are queried next, those of a frame seldom.
    std::size_t most = 0;
    int descriptor = -1;
    std::uint64_t first = 0;
    std::size_t count = 0;
    std::array<std::uint64_t, 64> words{};

    /// False where the kernel provides no such word to this process.
    bool read(std::uint64_t index, std::uint64_t& word) noexcept {
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
  };

  window pagemap_{64};
  window flags_{8};
  const char* frames_unknown_ = "";
  const char* huge_unknown_ = "";
};

constexpr std::size_t most_blocks = std::numeric_limits<std::uint32_t>::max();

const char* name_of(sampling::kind how) noexcept {
  switch (how) {
    case sampling::kind::all:
      return "all";
    case sampling::kind::blocks:
      return "blocks:";
    case sampling::kind::bytes:
      return "bytes:";
    case sampling::kind::regions:
      return "regions:";
  }
  return "";
}

/// A fact is a name with a text or number. Facts are counted before they are written.
class fact_list {
 public:
  /// The caller appends the value.
  text add(const char* name) noexcept {
    fact& added = facts_[count_++];
    added.name = name;
    return {added.value.data(), added.value.size()};
  }
  void clear() noexcept { count_ = 0; }
  void put(snapshot_file& to) const noexcept {
    to.put_number(static_cast<std::uint32_t>(count_));
    for (std::size_t i = 0; i < count_; ++i) {
      to.put_text(facts_[i].name);
      to.put_text(facts_[i].value.data());
    }
  }

 private:
  struct fact {
    const char* name = nullptr;
    std::array<char, 80> value{};
  };
  std::array<fact, 20> facts_{};
  std::size_t count_ = 0;
};

}  // namespace

live_block* snapshot_writer::room_for(std::size_t blocks) noexcept {
  auto* const room = memory_.map_array<live_block>(blocks);
  // A page fault for every 170 blocks would take as long as the copy itself. A kernel without huge pages returns an
  // error, which does no harm.
  constexpr std::size_t many = 100'000;
  if (room != nullptr && blocks >= many) madvise(room, blocks * sizeof(live_block), MADV_HUGEPAGE);
  return room;
}

void snapshot_writer::copy_blocks() noexcept {
  recording_.hold_blocks();
  const std::size_t most = recording_.most_blocks();
  inserted_ = recording_.entered();
  blocks_ = most == 0 ? nullptr : room_for(most);
  refused_ = most > most_blocks || (most != 0 && blocks_ == nullptr);
  if (!refused_) {
    capacity_ = most;
    recording_.visit_blocks([this](const block_record& block) {
      const std::uint64_t slack = std::min<std::uint64_t>(block.held - block.asked, 0xffff'ffffU);
      blocks_[count_++] = {block.address, block.asked, static_cast<std::uint32_t>(slack), block.site - 1};
    });
  }
  if (!recording_.how().pointers) recording_.let_blocks_go();
  sites_ = recording_.sites().size();
  sort_blocks();
  leave_out_overlapping();
}

void snapshot_writer::sort_blocks() noexcept {
  live_block* const spare = count_ == 0 ? nullptr : room_for(count_);
  if (spare == nullptr) {
    std::sort(blocks_, blocks_ + count_,
              [](const live_block& a, const live_block& b) { return a.address < b.address; });
    return;
  }
  live_block* const sorted = in_address_order(blocks_, spare, count_);
  memory_.unmap_array(sorted == blocks_ ? spare : blocks_, sorted == blocks_ ? count_ : capacity_);
  if (sorted == blocks_) return;
  blocks_ = sorted;
  capacity_ = count_;
}

void snapshot_writer::leave_out_overlapping() noexcept {
  // Two blocks overlap where a free was not seen, such as one in a signal handler; which of them is live is unknown.
  std::size_t kept = 0;
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    const bool free_before = blocks_[i].address >= end;
    const bool free_behind = i + 1 == count_ || blocks_[i].last() < blocks_[i + 1].address;
    end = std::max(end, blocks_[i].last() + 1);
    if (!free_before || !free_behind) continue;
    bytes_ += blocks_[i].bytes;
    blocks_[kept++] = blocks_[i];
  }
  left_out_ = count_ - kept;
  count_ = kept;
}

void snapshot_writer::put_blocks(snapshot_file& to) const noexcept {
  to.begin(section::blocks);
  to.put_bytes(blocks_, count_ * sizeof(live_block));
  to.end();
}

void snapshot_writer::put_links(snapshot_file& to) noexcept {
  to.begin(section::links);
  if (recording_.how().pointers) {
    links_unknown_ = "";
    static constinit std::array<std::uint64_t, 512> words{};
    const std::span<const live_block> all(blocks_, count_);
    const std::uint64_t lowest = all.empty() ? 0 : all.front().address;
    const std::uint64_t highest = all.empty() ? 0 : all.back().last();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::uint64_t begin = format::padded(all[i].address);
      const std::uint64_t end = (all[i].address + all[i].bytes) / 8 * 8;
      for (std::uint64_t at = begin; at < end; at += sizeof words) {
        const std::size_t bytes = std::min<std::uint64_t>(sizeof words, end - at);
        const iovec ours{words.data(), bytes};
        const iovec theirs{reinterpret_cast<void*>(at), bytes};
        // Unlike a plain read, this fails where the block is not as it was.
        if (process_vm_readv(getpid(), &ours, 1, &theirs, 1, 0) != static_cast<ssize_t>(bytes)) {
          links_unknown_ = "some blocks could not be read";
          break;
        }
        for (std::size_t w = 0; w < bytes / 8; ++w) {
          const std::uint64_t target = inspect::without_tags(words[w]);
          if (target < lowest || target > highest) continue;
          const auto* const behind =
              std::upper_bound(blocks_, blocks_ + count_, target,
                               [](std::uint64_t a, const live_block& b) { return a < b.address; });
          if (behind == blocks_ || target > behind[-1].last()) continue;
          const auto to_block = static_cast<std::uint32_t>(behind - 1 - blocks_);
          if (to_block == i) continue;
          to.put_number(static_cast<std::uint32_t>(i));
          to.put_number(to_block);
        }
      }
    }
    recording_.let_blocks_go();
  }
  to.end();
}

void snapshot_writer::put_pages(snapshot_file& to) noexcept {
  to.begin(section::pages);
  page_states states;
  inspect::for_each_page_of({blocks_, count_}, [&](std::uint64_t number) {
    const inspect::page page{number, states.of(number)};
    to.put_bytes(&page, sizeof page);
  });
  frames_unknown_ = states.frames_unknown();
  huge_unknown_ = states.huge_unknown();
  to.end();
}

void snapshot_writer::put_about(snapshot_file& to) const noexcept {
  to.begin(section::about);
  static constinit std::array<char, 4200> subject{};
  text(subject.data(), subject.size())
      << "process " << static_cast<std::uint64_t>(getpid()) << ", " << recording_.program();
  to.put_text(subject.data());
  to.put_text(frames_unknown_);
  to.put_text(huge_unknown_);
  to.put_text(links_unknown_);
  to.end();
}

void snapshot_writer::put_facts(snapshot_file& to) const noexcept {
  const settings& how = recording_.how();
  const char* const stopped = recording_.stopped();
  static constinit fact_list facts;
  facts.clear();
  facts.add("taken at") << moment_;
  facts.add("snapshot") << std::uint64_t{number_};
  facts.add("recorded for") << recording_.recorded_ms() << " ms";
  text sample = facts.add("sampling");
  sample << name_of(how.sample.how);
  if (how.sample.how != sampling::kind::all) sample << how.sample.every;
  facts.add("frames of a call site") << std::uint64_t{how.frames};
  facts.add("allocations recorded") << inserted_;
  facts.add("allocations passed over") << recording_.passed_over();
  facts.add("calls not seen") << recording_.unseen();
  facts.add("blocks left out") << left_out_;
  facts.add("call sites") << std::uint64_t{sites_};
  facts.add("call instructions") << recording_.stacks().rules();
  facts.add("bytes of the recording") << recording_.budget().bytes();
  if (how.peak) facts.add("most bytes at once") << std::max(bytes_, recording_.most_bytes());
  if (*recording_.passed_by() != 0) facts.add("malloc of its own") << recording_.passed_by();
  if (stopped != nullptr) facts.add("recording stopped") << stopped;
  if (refused_) facts.add("blocks missing") << "the memory to copy them was refused";
  to.begin(section::facts);
  facts.put(to);
  to.end();
}

void snapshot_writer::put_types(snapshot_file& to) const noexcept {
  to.begin(section::types);
  to.put_number(sites_);
  for (std::uint32_t site = 1; site <= sites_; ++site) {
    std::array<char, 32> name{};
    text(name.data(), name.size()) << "call site " << site;
    to.put_text(name.data());
    // Whether several threads write them is unknown, and so is what searches read.
    for (unsigned nothing = 0; nothing < 3; ++nothing) to.put_number(0);
  }
  to.end();
}

void snapshot_writer::put_modules(snapshot_file& to) const noexcept {
  to.begin(format::modules_tag, format::may_be_skipped);
  const module_list& modules = recording_.modules();
  const futex_guard guard(recording_.sites().lock());
  to.put_number(static_cast<std::uint32_t>(modules.size()));
  for (std::size_t i = 0; i < modules.size(); ++i) {
    to.put_text(modules[i].path.data());
    to.put_number(modules[i].build_id_bytes);
    to.put_bytes(modules[i].build_id.data(), modules[i].build_id_bytes);
  }
  to.end();
}

void snapshot_writer::put_sites(snapshot_file& to) const noexcept {
  to.begin(format::sites_tag, format::may_be_skipped);
  to.put_number(sites_);
  const site_table& sites = recording_.sites();
  for (std::uint32_t site = 1; site <= sites_; ++site) {
    const unsigned depth = sites.depth(site);
    to.put_number(depth);
    for (unsigned i = 0; i < depth; ++i) {
      const site_frame frame = sites.frame(site, i);
      to.put_number(frame.module == module_list::none ? format::no_module : frame.module);
      to.put_bytes(&frame.address, sizeof frame.address);
    }
  }
  to.end();
}

bool snapshot_writer::write(const char* name) noexcept {
  snapshot_file to(name, 8);
  if (!to.good()) return false;
  copy_blocks();
  put_blocks(to);
  put_links(to);
  put_pages(to);
  put_about(to);
  put_facts(to);
  put_types(to);
  // The sites first: then the list contains every module that they name.
  put_sites(to);
  put_modules(to);
  memory_.unmap_array(blocks_, capacity_);
  return to.commit();
}

}  // namespace espalier::preload
