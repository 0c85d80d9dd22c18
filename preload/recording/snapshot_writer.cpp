#include "preload/recording/snapshot_writer.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <span>

#include "espalier/inspect/snapshot_format.hpp"
#include "preload/recording/address_order.hpp"
#include "preload/recording/page_states.hpp"
#include "preload/recording/recorder.hpp"
#include "preload/recording/text.hpp"

namespace espalier::preload {

namespace format = inspect::format;
using format::section;
using inspect::live_block;

namespace {

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
  void add(const char* name, const char* value) noexcept {
    facts_[count_].name = name;
    text(facts_[count_].value.data(), facts_[count_].value.size()) << value;
    ++count_;
  }
  void add(const char* name, const char* value, std::uint64_t number) noexcept {
    facts_[count_].name = name;
    text(facts_[count_].value.data(), facts_[count_].value.size()) << value << number;
    ++count_;
  }
  void add(const char* name, std::uint64_t number) noexcept { add(name, "", number); }
  void add_milliseconds(const char* name, std::uint64_t number) noexcept {
    add(name, number);
    std::array<char, 80>& value = facts_[count_ - 1].value;
    std::strcat(value.data(), " ms");  // room for a number of 20 digits and more
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
  recorder_.hold_blocks();
  const std::size_t most = recorder_.most_blocks();
  inserted_ = recorder_.entered();
  blocks_ = most == 0 ? nullptr : room_for(most);
  refused_ = most > most_blocks || (most != 0 && blocks_ == nullptr);
  if (!refused_) {
    capacity_ = most;
    recorder_.visit_blocks([this](const block_record& block) {
      const std::uint64_t slack = std::min<std::uint64_t>(block.held - block.asked, 0xffff'ffffU);
      blocks_[count_++] = {block.address, block.asked, static_cast<std::uint32_t>(slack), block.site - 1};
    });
  }
  if (!recorder_.how().pointers) recorder_.let_blocks_go();
  sites_ = recorder_.sites().size();
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
  if (recorder_.how().pointers) {
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
    recorder_.let_blocks_go();
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
  static constinit std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/thread-self/exe", path.data(), path.size() - 1);
  path[length > 0 ? static_cast<std::size_t>(length) : 0] = 0;
  text(subject.data(), subject.size())
      << "process " << static_cast<std::uint64_t>(getpid()) << ", " << path.data();
  to.put_text(subject.data());
  to.put_text(frames_unknown_);
  to.put_text(huge_unknown_);
  to.put_text(links_unknown_);
  to.end();
}

void snapshot_writer::put_facts(snapshot_file& to) const noexcept {
  const settings& how = recorder_.how();
  const char* const stopped = recorder_.stopped();
  static constinit fact_list facts;
  facts.clear();
  facts.add("taken at", moment_);
  facts.add("snapshot", number_);
  facts.add_milliseconds("recorded for", recorder_.recorded_ms());
  if (how.sample.how == sampling::kind::all) {
    facts.add("sampling", name_of(how.sample.how));
  } else {
    facts.add("sampling", name_of(how.sample.how), how.sample.every);
  }
  facts.add("frames of a call site", how.frames);
  facts.add("allocations recorded", inserted_);
  facts.add("allocations passed over", recorder_.passed_over());
  facts.add("calls not seen", recorder_.unseen());
  facts.add("blocks left out", left_out_);
  facts.add("call sites", sites_);
  facts.add("call instructions", recorder_.stacks().rules());
  facts.add("bytes of the recording", recorder_.budget().bytes());
  if (how.peak) facts.add("most bytes at once", std::max(bytes_, recorder_.most_bytes()));
  if (*recorder_.passed_by() != 0) facts.add("malloc of its own", recorder_.passed_by());
  if (stopped != nullptr) facts.add("recording stopped", stopped);
  if (refused_) facts.add("blocks missing", "the memory to copy them was refused");
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
  const module_list& modules = recorder_.modules();
  const futex_guard guard(recorder_.sites().lock());
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
  const site_table& sites = recorder_.sites();
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
