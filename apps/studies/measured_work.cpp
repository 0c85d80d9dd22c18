#include "apps/studies/measured_work.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

// espalier-measured-work WORK [NAME=NUMBER ...]
//
// The program that `espalier bench` measures with a malloc or mutexes of its choice preloaded. It answers requests, one
// per line, on standard output, as JSON. So several of these processes, each with another malloc, take turns in one
// session.
//
//   (nothing)  at the start: which malloc the program uses
//   round N    each thread does N operations; answers with their cost
//   facts      where the blocks begin, by index of a cache; the memory of the process
//
// It ends with its input: status 0, or 1 and a message if the work's result was wrong. Besides the arguments of the
// work: sets=N, the indices of that cache; processors=N with processor0=N and so on, to which threads are pinned.

namespace espalier::bench {

void refuse(const char* what, std::string_view which) noexcept {
  std::fprintf(stderr, "espalier-measured-work: %s '%.*s'; espalier bench starts this program\n", what,
               static_cast<int>(which.size()), which.data());
  std::exit(2);
}

const char* arguments::find(std::string_view name) const noexcept {
  for (int i = 0; i < count_; ++i) {
    const std::string_view word(words_[i]);
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=')
      return words_[i] + name.size() + 1;
  }
  return nullptr;
}

std::uint64_t arguments::number(std::string_view name, std::uint64_t least, std::uint64_t most) const {
  const char* const text = find(name);
  if (text == nullptr) refuse("missing argument", name);
  const char* const end = text + std::strlen(text);
  std::uint64_t value = 0;
  const auto [read, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || read != end || value < least || value > most) refuse("invalid value of", name);
  return value;
}

std::uint64_t arguments::number_or(std::string_view name, std::uint64_t least, std::uint64_t most,
                                   std::uint64_t without) const {
  return find(name) == nullptr ? without : number(name, least, most);
}

namespace {

// Lines from standard input and to standard output, without malloc.

/// Text beyond its capacity is dropped.
class answer {
 public:
  template <class... Values>
  answer& put(const char* format, Values... values) noexcept {
    const int wanted = std::snprintf(text_.data() + size_, text_.size() - size_, format, values...);
    if (wanted > 0) size_ = std::min(size_ + static_cast<std::size_t>(wanted), text_.size() - 1);
    return *this;
  }
  answer& put(const char* text) noexcept { return put("%s", text); }
  /// Ends the program if there is no reader.
  void send() noexcept {
    put("\n");
    for (std::size_t sent = 0; sent < size_;) {
      const ssize_t n = write(STDOUT_FILENO, text_.data() + sent, size_ - sent);
      if (n <= 0) std::exit(1);
      sent += static_cast<std::size_t>(n);
    }
    size_ = 0;
  }

 private:
  std::array<char, std::size_t{1} << 16> text_{};
  std::size_t size_ = 0;
};

/// Reads requests one by one from standard input.
class requests {
 public:
  /// Empty at the end, and if a line is longer than any request.
  std::string_view next() noexcept {
    std::memmove(text_.data(), text_.data() + used_, filled_ - used_);
    filled_ -= used_;
    used_ = 0;
    while (true) {
      const std::string_view all(text_.data(), filled_);
      if (const std::size_t end = all.find('\n'); end != std::string_view::npos) {
        used_ = end + 1;
        return all.substr(0, end);
      }
      const ssize_t n =
          filled_ == text_.size() ? 0 : read(STDIN_FILENO, text_.data() + filled_, text_.size() - filled_);
      if (n <= 0) return {};
      filled_ += static_cast<std::size_t>(n);
    }
  }

 private:
  std::array<char, 256> text_{};
  std::size_t filled_ = 0;
  std::size_t used_ = 0;
};

/// The cost of a round for the whole process.
struct round_cost {
  std::uint64_t wall_ns;
  std::uint64_t cpu_ns;
};

/// Threads that live as long as the process and work on request. They wait without mutexes, so that the only mutexes of
/// a program are those of its work. The process always has several threads, like any program with locks worth eliding.
class round_team {
 public:
  /// One thread on each given processor, in rotation; unpinned if there are none. The constructor prepares them. The
  /// work must outlive the team.
  round_team(measured_work& work, std::span<const unsigned> processors);
  round_team(const round_team&) = delete;
  round_team& operator=(const round_team&) = delete;
  ~round_team();

  /// Makes each thread do this many operations, and waits for the last.
  round_cost round(std::uint64_t operations);

 private:
  void live(unsigned thread, int processor);

  measured_work& work_;
  std::uint64_t operations_ = 0;
  std::atomic<std::uint32_t> round_{0};
  std::atomic<std::uint32_t> working_{0};
  std::atomic<std::uint32_t> prepared_{0};
  std::atomic<bool> ending_{false};
  std::vector<std::jthread> threads_;
};

std::uint64_t nanoseconds(clockid_t clock) noexcept {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

round_team::round_team(measured_work& work, std::span<const unsigned> processors) : work_(work) {
  threads_.reserve(work.threads());
  for (unsigned t = 0; t < work.threads(); ++t) {
    const int processor = processors.empty() ? -1 : static_cast<int>(processors[t % processors.size()]);
    threads_.emplace_back([this, t, processor] { live(t, processor); });
    prepared_.wait(t);
  }
}

round_team::~round_team() {
  ending_ = true;
  ++round_;
  round_.notify_all();
}

round_cost round_team::round(std::uint64_t operations) {
  operations_ = operations;
  working_ = static_cast<std::uint32_t>(threads_.size());
  const std::uint64_t wall = nanoseconds(CLOCK_MONOTONIC);
  const std::uint64_t cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
  ++round_;
  round_.notify_all();
  for (std::uint32_t left = working_; left != 0; left = working_) working_.wait(left);
  return {nanoseconds(CLOCK_MONOTONIC) - wall, nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu};
}

void round_team::live(unsigned thread, int processor) {
  if (processor >= 0) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    // If the processor is not available the thread stays unpinned.
    static_cast<void>(pthread_setaffinity_np(pthread_self(), sizeof one, &one));
  }
  work_.prepare(thread);
  ++prepared_;
  prepared_.notify_one();
  for (std::uint32_t seen = 0;; ++seen) {
    round_.wait(seen);
    if (ending_) return;
    work_.work(thread, operations_);
    if (--working_ == 0) working_.notify_one();
  }
}

constexpr std::uint64_t most_sets = 4096;
constexpr std::uint64_t most_processors = 64;

struct kind_of_work {
  std::string_view name;
  measured_work& (*make)(const arguments&);
};
constexpr std::array kinds{
    kind_of_work{"ring", make_ring},       kind_of_work{"tree", make_locked_tree},
    kind_of_work{"fresh", make_fresh},     kind_of_work{"larson", make_larson},
    kind_of_work{"xmalloc", make_xmalloc}, kind_of_work{"cache-scratch", make_cache_scratch},
    kind_of_work{"large", make_large}};

/// The KiB of a field in the kernel's status of this process; 0 if there is no such field.
std::uint64_t status_kib(std::string_view name) noexcept {
  std::array<char, 8192> text{};
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = read(file, text.data(), text.size() - 1);
  close(file);
  const std::string_view all(text.data(), size < 0 ? 0 : static_cast<std::size_t>(size));
  const std::size_t at = all.find(name);
  return at == std::string_view::npos ? 0 : std::strtoull(all.data() + at + name.size(), nullptr, 10);
}

const char* malloc_file() noexcept {
  Dl_info found{};
  return dladdr(reinterpret_cast<const void*>(&std::malloc), &found) != 0 && found.dli_fname != nullptr
             ? found.dli_fname
             : "";
}

int serve(const arguments& given, measured_work& work) {
  std::array<std::uint64_t, most_sets> loads{};
  const index_loads indices(loads.data(), given.number_or("sets", 1, most_sets, 64));
  std::array<unsigned, most_processors> processors{};
  const std::uint64_t pinned = given.number_or("processors", 0, most_processors, 0);
  for (std::uint64_t p = 0; p < pinned; ++p) {
    std::array<char, 32> name{};
    std::snprintf(name.data(), name.size(), "processor%u", static_cast<unsigned>(p));
    processors[p] = static_cast<unsigned>(given.number(name.data(), 0, 1 << 16));
  }

  static answer out;
  round_team team(work, {processors.data(), pinned});
  out.put(R"({"malloc":"%s","threads":%u})", malloc_file(), work.threads()).send();
  requests in;
  for (std::string_view request = in.next(); !request.empty(); request = in.next()) {
    constexpr std::string_view round = "round ";
    if (request == "facts") {
      std::ranges::fill(indices, 0);
      work.count_blocks(indices);
      out.put(R"({"resident_kib":%llu,"peak_kib":%llu,"live_bytes":%llu,"loads":[)",
              static_cast<unsigned long long>(status_kib("VmRSS:")),
              static_cast<unsigned long long>(status_kib("VmHWM:")),
              static_cast<unsigned long long>(work.live_bytes()));
      for (std::size_t i = 0; i < indices.size(); ++i)
        out.put(i == 0 ? "%llu" : ",%llu", static_cast<unsigned long long>(indices[i]));
      out.put("]}").send();
    } else if (std::uint64_t operations = 0;
               request.starts_with(round) &&
               std::from_chars(request.data() + round.size(), request.data() + request.size(), operations)
                       .ptr == request.data() + request.size() &&
               operations > 0) {
      const round_cost cost = team.round(operations);
      out.put(R"({"operations":%llu,"wall_ns":%llu,"cpu_ns":%llu})",
              static_cast<unsigned long long>(operations) * work.threads(),
              static_cast<unsigned long long>(cost.wall_ns), static_cast<unsigned long long>(cost.cpu_ns))
          .send();
    } else {
      refuse("unknown request", request);
    }
  }
  if (const char* const wrong = work.check()) {
    std::fprintf(stderr, "espalier-measured-work: %s\n", wrong);
    return 1;
  }
  return 0;
}

int run(int count, char** words) {
  const std::string_view name = count > 1 ? words[1] : "";
  const auto* const kind = std::ranges::find(kinds, name, &kind_of_work::name);
  if (kind == kinds.end()) refuse("unknown work", name);
  const arguments given(count - 2, words + 2);
  return serve(given, kind->make(given));
}

}  // namespace
}  // namespace espalier::bench

int main(int argc, char** argv) { return espalier::bench::run(argc, argv); }
