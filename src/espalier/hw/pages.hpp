#pragma once

// Pages straight from the kernel: alignment for huge pages, binding to a NUMA node, prefaulting; and what the kernel
// says of pages that exist.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace espalier::hw {

struct page_options {
  /// Align and round to huge_page_size() and advise the kernel to back the pages with huge ones. The kernel may
  /// ignore it: see page_run::is_huge_advised().
  bool huge = false;
  /// Operating-system index of the NUMA node for the pages.
  std::optional<unsigned> numa_node = std::nullopt;
  /// Back every page with memory before map_pages() returns, so that no later access faults.
  bool prefault = false;
  /// Most of the pages are never backed: the kernel does not count them as memory that it has to have. Where
  /// vm.overcommit_memory is 2 it counts them all the same.
  bool sparse = false;
};

/// Owner of one anonymous private mapping, zeroed by the kernel and unmapped by the destructor. A moved-from
/// or default-constructed run owns nothing: data() is null and size() is 0.
class page_run {
 public:
  page_run() noexcept = default;
  page_run(page_run&& other) noexcept;
  page_run& operator=(page_run&& other) noexcept;
  ~page_run();

  std::byte* data() const noexcept { return data_; }
  /// Bytes mapped: those asked for, rounded up to whole pages.
  std::size_t size() const noexcept { return size_; }
  /// True if huge pages were asked for and the kernel accepted the advice.
  bool is_huge_advised() const noexcept { return huge_advised_; }
  /// The kernel is to back the pages with ordinary ones from now on: it fills holes that are discarded up to huge ones
  /// otherwise. Pages that are huge stay so. `from`: only from this byte on, a multiple of page_size().
  void refuse_huge(std::size_t from = 0) noexcept;
  /// The NUMA node to which the kernel bound the pages; nullopt if none was asked for or if the system
  /// forbids binding, as containers often do.
  std::optional<unsigned> bound_numa_node() const noexcept { return bound_numa_node_; }

 private:
  friend page_run map_pages(std::size_t bytes, const page_options& options);

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool huge_advised_ = false;
  std::optional<unsigned> bound_numa_node_;
};

/// Maps at least `bytes` bytes of zeroed memory. Throws std::bad_alloc if the kernel refuses the memory, and
/// std::invalid_argument for 0 bytes or for a NUMA node without memory for this process. With prefault the
/// time is linear in the size; otherwise constant.
page_run map_pages(std::size_t bytes, const page_options& options = {});

/// Bytes of an ordinary page.
std::size_t page_size() noexcept;
/// Bytes rounded up to whole ordinary pages; 0 if there is no such number.
inline std::size_t whole_pages(std::size_t bytes) noexcept {
  const std::size_t page = page_size();  // a power of two
  return (bytes + page - 1) & ~(page - 1);
}

/// About what glibc's malloc takes from its pages for a block: with its header, and with what an alignment costs where such
/// blocks lie in a row.
constexpr std::size_t heap_bytes(std::size_t bytes, std::size_t align) noexcept {
  constexpr std::size_t unit = 16;
  return align <= unit ? (bytes + unit / 2 + unit - 1) / unit * unit
                       : (bytes + unit + align - 1) / align * align;
}
template <class T>
constexpr std::size_t heap_bytes() noexcept {
  return heap_bytes(sizeof(T), alignof(T));
}

/// Returns whole pages of a private anonymous mapping to the OS; they stay mapped, and read as zero. False if it does not
/// take them.
bool discard_pages(std::byte* begin, std::size_t bytes) noexcept;

/// Has the kernel find memory for pages at once, which takes less of it than a fault for each; where it cannot, each is found
/// when it is touched.
void request_pages(std::byte* begin, std::size_t bytes) noexcept;

/// Bytes of a transparent huge page: the kernel's figure, or 2 MiB if it gives none.
std::size_t huge_page_size();

/// The kernel's mode now: "always", "madvise", "never", or "unavailable" if it has no such pages.
std::string_view transparent_huge_pages();

// The 64-bit words in which the kernel describes pages (Documentation/admin-guide/mm/pagemap.rst): one for each
// page in /proc/PID/pagemap, one for each frame in /proc/kpageflags. Inline: libraries that are preloaded into other
// programs use them too.

/// For a word of pagemap.
[[nodiscard]] constexpr bool is_in_memory(std::uint64_t pagemap_word) noexcept {
  return (pagemap_word >> 63U & 1U) != 0;
}

/// For a word of pagemap, of a page in memory. The kernel shows 0 to processes without the privilege; it never hands
/// out frame 0 itself.
[[nodiscard]] constexpr std::uint64_t frame_of(std::uint64_t pagemap_word) noexcept {
  return pagemap_word & ((std::uint64_t{1} << 55U) - 1);
}

/// Whether a page in this frame, which has these flags, belongs to a huge one of 2 MiB. Transparent pages of
/// other sizes have the flag too; those of 2 MiB are aligned both in virtual and in physical memory.
[[nodiscard]] constexpr bool is_huge(std::uint64_t flags, std::uint64_t frame, std::uint64_t page) noexcept {
  constexpr std::uint64_t hugetlb = std::uint64_t{1} << 17U;
  constexpr std::uint64_t transparent = std::uint64_t{1} << 22U;
  constexpr std::uint64_t pages_of_huge = 512;
  return (flags & hugetlb) != 0 ||
         ((flags & transparent) != 0 && frame % pages_of_huge == page % pages_of_huge);
}

}  // namespace espalier::hw
