#include "preload/elision/section_counts.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "preload/environment/output.hpp"
#include "preload/kernel/pages.hpp"
#include "preload/kernel/saved_errno.hpp"
#include "preload/recording/modules.hpp"

namespace espalier::preload {

bool section_counts::start() noexcept {
  table_ = budget_.map_array<table>(1);
  if (table_ == nullptr) return false;
  table_->begun.store(true, std::memory_order_relaxed);
  return true;
}

void section_counts::wipe_in_children() noexcept {
#if defined(MADV_WIPEONFORK)
  const saved_errno keep;
  // Where the kernel does not support it, clear() resets the table.
  if (counting()) static_cast<void>(madvise(table_, sizeof *table_, MADV_WIPEONFORK));
#endif
}

section_counts::index section_counts::find(std::uint64_t key, std::uintptr_t mutex,
                                           std::uintptr_t site) noexcept {
  if (!counting()) return nowhere;
  for (unsigned probe = 0; probe < most_probes; ++probe) {
    const auto at = static_cast<index>((key / 2 + probe) % most_sections);
    name& named = table_->names[at];
    std::uint64_t present = named.key.load(std::memory_order_relaxed);
    if (present == 0 && named.key.compare_exchange_strong(present, key, std::memory_order_relaxed)) {
      named.mutex.store(mutex, std::memory_order_relaxed);
      named.site.store(site, std::memory_order_relaxed);
      return at;
    }
    if (present == key) return at;
  }
  return most_sections;
}

/// The first count of an event: marks the stripe as used, and adds the place to the list if it is not in it.
void section_counts::enlist(index at, std::size_t stripe) noexcept {
  name& named = table_->names[at];
  if (named.stripes.fetch_or(1U << stripe, std::memory_order_relaxed) != 0) return;
  std::uint32_t before = table_->latest.load(std::memory_order_relaxed);
  do {
    named.after = before;
    // order: enlist (release) -> first (acquire)
  } while (!table_->latest.compare_exchange_weak(before, at + 1, std::memory_order_release,
                                                 std::memory_order_relaxed));
}

template <class Visitor>
void section_counts::for_each_stripe_of(index at, Visitor&& visit) const noexcept {
  const std::uint32_t used = table_->names[at].stripes.load(std::memory_order_relaxed);
  for (std::size_t s = 0; s < stripes; ++s) {
    if ((used >> s & 1U) != 0) visit(table_->of_stripe[s][at].sums);
  }
}

counted_section section_counts::sum(index at) const noexcept {
  counted_section sums{};
  if (at < most_sections) {
    sums.mutex = table_->names[at].mutex.load(std::memory_order_relaxed);
    sums.site = table_->names[at].site.load(std::memory_order_relaxed);
  }
  for_each_stripe_of(at, [&](const auto& of) {
    for (std::size_t e = 0; e < elision_events; ++e)
      sums.elided.of_event[e] += of[e].load(std::memory_order_relaxed);
    sums.taken += of[taken].load(std::memory_order_relaxed);
    sums.waited += of[waited].load(std::memory_order_relaxed);
  });
  return sums;
}

void section_counts::clear() noexcept {
  if (!counting() || !table_->begun.exchange(true, std::memory_order_relaxed)) return;
  for (index at = first(); at != end_of_list;) {
    for_each_stripe_of(at, [](auto& of) {
      for (auto& event : of) event.store(0, std::memory_order_relaxed);
    });
    name& named = table_->names[at];
    at = named.after - 1;
    named.after = 0;
    named.stripes.store(0, std::memory_order_relaxed);
  }
  table_->latest.store(0, std::memory_order_relaxed);
}

namespace {

constexpr std::array columns{elision_event::commit,    elision_event::conflict, elision_event::capacity,
                             elision_event::lock_held, elision_event::other,    elision_event::fallback,
                             elision_event::healed,    elision_event::skipped};
constexpr const char header[] =
    "mutex site commits conflict capacity lock-held other fallbacks healed skipped taken waited\n";

/// Appends "path+offset" with the return address's offset in the file; an address where the code belongs to no file.
void put_site(text& line, module_list& modules, std::uintptr_t site) noexcept {
  const std::uint32_t found = modules.find(site);
  if (found == module_list::none) {
    line.hexadecimal(site);
  } else {
    (line << modules[found].path.data() << "+").hexadecimal(site - modules[found].bias);
  }
}

void add(counted_section& sum, const counted_section& of) noexcept {
  for (std::size_t e = 0; e < elision_events; ++e) sum.elided.of_event[e] += of.elided.of_event[e];
  sum.taken += of.taken;
  sum.waited += of.waited;
}

std::uint64_t times_run(const counted_section& of) noexcept {
  return of.elided.of(elision_event::commit) + of.taken;
}

/// The sections that ran most often, in descending order, and the sum of all others.
class busiest_sections {
 public:
  explicit busiest_sections(const section_counts& counts) noexcept {
    counts.for_each([this](const counted_section& of) { enter(of); });
  }

  template <class Visitor>
  void for_each(Visitor&& visit) const {
    for (std::size_t i = 0; i < size_; ++i) visit(first_[i]);
    if (others_ != 0) visit(sum_of_others_);
  }

 private:
  void enter(counted_section of) noexcept {
    std::size_t at = of.mutex == 0 ? size_ : 0;
    while (at < size_ && times_run(first_[at]) >= times_run(of)) ++at;
    for (; at < size_; ++at) std::swap(first_[at], of);
    if (of.mutex != 0 && size_ < first_.size()) {
      first_[size_++] = of;
    } else {
      add(sum_of_others_, of);
      ++others_;
    }
  }

  std::array<counted_section, 20> first_{};
  std::size_t size_ = 0;
  counted_section sum_of_others_{};
  std::size_t others_ = 0;
};

class report_lines {
 public:
  explicit report_lines(int descriptor) noexcept : descriptor_(descriptor) {}

  /// `shown` are the sections that get a line of their own.
  template <class Sections>
  bool put(const section_counts& counts, const Sections& shown, const char* how) noexcept {
    counted_section all{};
    std::uint64_t sections = 0;
    counts.for_each([&](const counted_section& of) {
      ++sections;
      add(all, of);
    });
    std::array<char, 512> room{};
    text line(room.data(), room.size());
    line << "espalier elide: process " << static_cast<std::uint64_t>(getpid()) << ": " << how << ": "
         << sections << " mutexes and sites, " << all.elided.of(elision_event::commit) << " sections elided, "
         << all.taken << " taken, of which " << all.waited << " waited\n";
    bool good = write_whole(descriptor_, line.c_str(), line.size());
    if (sections == 0) return good;
    good = good && write_whole(descriptor_, header, sizeof header - 1);
    shown.for_each([&](const counted_section& of) { good = good && put(of); });
    return good;
  }

 private:
  bool put(const counted_section& of) noexcept {
    std::array<char, 1024> room{};
    text line(room.data(), room.size());
    if (of.mutex == 0) {
      line << "others others";
    } else {
      line.hexadecimal(of.mutex) << " ";
      put_site(line, modules_, of.site);
    }
    for (const elision_event e : columns) line << " " << of.elided.of(e);
    line << " " << of.taken << " " << of.waited << "\n";
    return write_whole(descriptor_, line.c_str(), line.size());
  }

  int descriptor_;
  memory_budget budget_;
  module_list modules_{budget_};
};

bool report_to_stream(const char* name, const section_counts& counts, const char* how) noexcept {
  const int descriptor = open(name, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (descriptor < 0) return false;
  const bool good = report_lines(descriptor).put(counts, counts, how);
  close(descriptor);
  return good;
}

bool report_to_file(const char* name, const section_counts& counts, const char* how) noexcept {
  std::array<char, 4096 + 32> part{};
  text temporary(part.data(), part.size());
  temporary << name << "." << static_cast<std::uint64_t>(getpid()) << ".part";
  const int descriptor =
      temporary.whole() ? open(part.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666) : -1;
  if (descriptor < 0) return false;
  const bool good = report_lines(descriptor).put(counts, counts, how);
  close(descriptor);
  if (good && rename(part.data(), name) == 0) return true;
  unlink(part.data());
  return false;
}

}  // namespace

bool report_counts(const elision_settings& settings, const section_counts& counts, const char* how,
                   int standard_error) noexcept {
  const saved_errno keep;
  std::array<char, 4096> name{};
  bool good = counts_file_name(settings, getpid(), name.data(), name.size());
  if (good) {
    if (std::strcmp(name.data(), "stderr") != 0)
      good = is_replaceable(name.data()) ? report_to_file(name.data(), counts, how)
                                         : report_to_stream(name.data(), counts, how);
    else if (standard_error >= 0)
      report_lines(standard_error).put(counts, busiest_sections(counts), how);
  }
  return good;
}

}  // namespace espalier::preload
