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

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "catalog.hpp"
#include "conversation.hpp"
#include "round_team.hpp"

namespace espalier::bench {
namespace {

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
              static_cast<unsigned long long>(operations * work.threads()),
              static_cast<unsigned long long>(cost.wall_ns), static_cast<unsigned long long>(cost.cpu_ns))
          .send();
    } else {
      refuse("unknown is the request", request);
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
  if (kind == kinds.end()) refuse("there is no work", name);
  const arguments given(count - 2, words + 2);
  return serve(given, kind->make(given));
}

}  // namespace
}  // namespace espalier::bench

int main(int argc, char** argv) { return espalier::bench::run(argc, argv); }
