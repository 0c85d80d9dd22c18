#include "espalier/hw/pages.hpp"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace espalier::hw {
namespace {

constexpr const char* thp_folder = "/sys/kernel/mm/transparent_hugepage/";
constexpr const char* numa_folder = "/sys/devices/system/node/";

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  if (bytes > std::numeric_limits<std::size_t>::max() - (unit - 1)) throw std::bad_alloc();
  return (bytes + unit - 1) & ~(unit - 1);
}

std::byte* map_anonymous(std::size_t bytes, bool sparse) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (sparse ? MAP_NORESERVE : 0);
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(mapped);
}

/// mmap aligns to ordinary pages only, so map one unit more and return the ends to the OS.
std::byte* map_aligned(std::size_t bytes, std::size_t alignment, bool sparse) {
  if (bytes > std::numeric_limits<std::size_t>::max() - alignment) throw std::bad_alloc();
  std::byte* mapped = map_anonymous(bytes + alignment, sparse);
  const auto address = std::bit_cast<std::uintptr_t>(mapped);
  const std::size_t head = (alignment - address % alignment) % alignment;
  const std::size_t tail = alignment - head;
  if (head != 0) munmap(mapped, head);
  munmap(mapped + head + bytes, tail);
  return mapped + head;
}

[[noreturn]] void refuse_node(unsigned numa_node) {
  throw std::invalid_argument("NUMA node " + std::to_string(numa_node) +
                              " does not exist or offers this process no memory; name one listed in " +
                              numa_folder + "has_memory");
}

/// Kernels built without NUMA do not have this folder; their one node is node 0.
bool node_exists(unsigned numa_node) {
  std::error_code ignored;
  if (!std::filesystem::exists(numa_folder, ignored)) return numa_node == 0;
  return std::filesystem::exists(numa_folder + ("node" + std::to_string(numa_node)), ignored);
}

/// True where the kernel bound the pages, false where it does not let this process bind any.
bool bind_pages(std::byte* data, std::size_t size, unsigned numa_node) {
  if (!node_exists(numa_node)) refuse_node(numa_node);
  constexpr unsigned word_bits = std::numeric_limits<unsigned long>::digits;
  std::vector<unsigned long> nodes(numa_node / word_bits + 1);
  nodes[numa_node / word_bits] = 1UL << (numa_node % word_bits);
  // The kernel reads one bit less than this number.
  const std::size_t bits = nodes.size() * word_bits + 1;
  if (syscall(SYS_mbind, data, size, MPOL_BIND, nodes.data(), bits, 0U) == 0) return true;
  if (errno == EINVAL) refuse_node(numa_node);
  if (errno == ENOMEM) throw std::bad_alloc();
  return false;
}

void prefault_pages(std::byte* data, std::size_t size) {
#if defined(MADV_POPULATE_WRITE)
  int outcome = 0;
  do {
    outcome = madvise(data, size, MADV_POPULATE_WRITE);
  } while (outcome != 0 && errno == EINTR);
  if (outcome == 0) return;
  // Kernels before 5.14 do not know the advice; every other error means that there is no memory.
  if (errno != EINVAL) throw std::bad_alloc();
#endif
  const std::size_t step = page_size();
  for (std::size_t offset = 0; offset < size; offset += step) {
    *static_cast<volatile std::byte*>(data + offset) = std::byte{0};
  }
}

}  // namespace

page_run::page_run(page_run&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      huge_advised_(std::exchange(other.huge_advised_, false)),
      bound_numa_node_(std::exchange(other.bound_numa_node_, std::nullopt)) {}

page_run& page_run::operator=(page_run&& other) noexcept {
  // The temporary takes the old pages with it, and a run moved onto itself keeps its own.
  page_run taken(std::move(other));
  std::swap(data_, taken.data_);
  std::swap(size_, taken.size_);
  std::swap(huge_advised_, taken.huge_advised_);
  std::swap(bound_numa_node_, taken.bound_numa_node_);
  return *this;
}

page_run::~page_run() {
  if (data_ != nullptr) munmap(data_, size_);
}

page_run map_pages(std::size_t bytes, const page_options& options) {
  if (bytes == 0) throw std::invalid_argument("map_pages: 0 bytes asked for; ask for at least 1");
  page_run run;
  if (options.huge) {
    const std::size_t unit = huge_page_size();
    const std::size_t size = rounded_up(bytes, unit);
    run.data_ = map_aligned(size, unit, options.sparse);
    run.size_ = size;
    const auto mode = transparent_huge_pages();
    // "never" accepts the advice and ignores it.
    run.huge_advised_ =
        mode != "never" && mode != "unavailable" && madvise(run.data_, size, MADV_HUGEPAGE) == 0;
  } else {
    const std::size_t size = rounded_up(bytes, page_size());
    run.data_ = map_anonymous(size, options.sparse);
    run.size_ = size;
  }
  // Before the first touch: binding does not move pages that exist.
  if (options.numa_node && bind_pages(run.data_, run.size_, *options.numa_node)) {
    run.bound_numa_node_ = options.numa_node;
  }
  if (options.prefault) prefault_pages(run.data_, run.size_);
  return run;
}

std::size_t page_size() noexcept {
  // Not a static with a guard: a child of fork() would wait for it if another thread was initialising it.
  // relaxed: the number is all, and every thread finds the same one.
  static constinit std::atomic<std::size_t> known{0};
  std::size_t bytes = known.load(std::memory_order_relaxed);
  if (bytes == 0)
    known.store(bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), std::memory_order_relaxed);
  return bytes;
}

void page_run::refuse_huge(std::size_t from) noexcept {
  madvise(data_ + from, size_ - from, MADV_NOHUGEPAGE);
  if (from == 0) huge_advised_ = false;
}

void request_pages([[maybe_unused]] std::byte* begin, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(MADV_POPULATE_WRITE)
  static_cast<void>(madvise(begin, bytes, MADV_POPULATE_WRITE));
#endif
}

bool discard_pages(std::byte* begin, std::size_t bytes) noexcept {
  return madvise(begin, bytes, MADV_DONTNEED) == 0;
}

std::size_t huge_page_size() {
  static constinit std::atomic<std::size_t> known{0};  // as above; relaxed: likewise
  std::size_t bytes = known.load(std::memory_order_relaxed);
  if (bytes != 0) return bytes;
  std::ifstream(thp_folder + std::string("hpage_pmd_size")) >> bytes;
  constexpr std::size_t usual = std::size_t{2} << 20;
  if (!std::has_single_bit(bytes) || bytes < page_size()) bytes = usual;
  known.store(bytes, std::memory_order_relaxed);  // relaxed: as in page_size()
  return bytes;
}

std::string_view transparent_huge_pages() {
  std::string modes;
  std::getline(std::ifstream(thp_folder + std::string("enabled")), modes);
  for (const std::string_view mode : {"always", "madvise", "never"}) {
    if (modes.find("[" + std::string(mode) + "]") != std::string::npos) return mode;
  }
  return "unavailable";
}

}  // namespace espalier::hw
