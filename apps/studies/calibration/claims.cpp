#include "apps/studies/calibration/claims.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

namespace espalier::app::calibration {
namespace {

// What a number has to be of a published one, and what "comparable" is taken for.
constexpr double near = 1.5;
// Of libslock's atomic_bench, by default: cycles between two operations.
constexpr std::uint64_t libslock_pause = 100;
// Of its stress_test, by default: lines that a section writes.
constexpr std::uint64_t libslock_lines = 4;
constexpr std::uint64_t many_locks = 512;
constexpr std::uint64_t few_buckets = 12;

constexpr const char* unavailable_figures =
    "The numbers of the paper's figures are unavailable: only what its text says of them is judged.";

constexpr const char* caption = "By the number of threads, one on each core before any core has two.";

std::string megas(double speed) { return fmt::format("{:.3g}", speed / 1e6); }

const exercise_reading* find_at(const results& measured, exercise e, unsigned threads) {
  e.threads = threads;
  return measured.find(e);
}

/// A sentence that grows by parts, all of which have to hold.
class judging {
 public:
  void say(const std::string& part, bool holds) {
    sentence_ += (sentence_.empty() ? "" : " ") + part;
    holds_ = holds_ && holds;
    ++parts_;
  }
  /// False, and nothing is judged any more, where the reading is missing or too short.
  bool needs(const exercise_reading* r, const std::string& what) {
    if (r != nullptr && r->too_short.empty()) return true;
    if (!why_) {
      if (r == nullptr)
        why_ = {fmt::format("Not measured: {}.", what), agreement::not_measurable};
      else
        why_ = {fmt::format("{} ({}).", r->too_short, what), agreement::too_short};
    }
    return false;
  }
  [[nodiscard]] judgement verdict() const {
    if (why_) return *why_;
    if (parts_ == 0) return {"Nothing here shows it.", agreement::not_measurable};
    return {sentence_, holds_ ? agreement::agrees : agreement::differs};
  }

 private:
  std::string sentence_;
  std::optional<judgement> why_;
  bool holds_ = true;
  unsigned parts_ = 0;
};

/// A published number, which is agreed with within a factor.
judgement beside(const exercise_reading* r, double ours, double published, const std::string& unit) {
  judging all;
  if (all.needs(r, "it")) {
    const double ratio = ours / published;
    all.say(fmt::format("{:.3g} {}, published {:.3g}: {:.2f} times as much.", ours, unit, published, ratio),
            ratio <= near && ratio >= 1 / near);
  }
  return all.verdict();
}

// Latencies -------------------------------------------------------------------------------------------------------------

struct published_latency {
  const char* machine;
  operation op;
  held lines_are;
  bool far;
  double cycles;  ///< or, if it is 0, `ns`
  double ns;
  const char* source;
};

constexpr const char* table_2 = "SOSP 2013, table 2";
constexpr const char* mlc = "Intel, memory latencies of the E5-4600 and E7-4800 families, 2014";
constexpr const char* icpp = "Molka and others, ICPP 2015";

constexpr published_latency published[] = {
    {"e7_4850", operation::load, held::modified, false, 109, 0, table_2},
    {"e7_4850", operation::load, held::modified, true, 289, 0, table_2},
    {"e7_4850", operation::load, held::shared, false, 44, 0, table_2},
    {"e7_4850", operation::load, held::shared, true, 223, 0, table_2},
    {"e7_4850", operation::store, held::shared, false, 116, 0, table_2},
    {"e7_4850", operation::store, held::shared, true, 318, 0, table_2},
    {"e7_4850", operation::load, held::in_memory, false, 0, 135, mlc},
    {"e7_4850", operation::load, held::in_memory, true, 0, 198, mlc},
    {"abu_dhabi", operation::load, held::modified, false, 81, 0, table_2},
    {"abu_dhabi", operation::load, held::modified, true, 205, 0, "SOSP 2013, table 2, mean of 161 to 252"},
    {"abu_dhabi", operation::load, held::shared, true, 208, 0, "SOSP 2013, table 2, mean of 169 to 254"},
    {"abu_dhabi", operation::store, held::shared, false, 246, 0, table_2},
    {"abu_dhabi", operation::store, held::shared, true, 284, 0, "SOSP 2013, table 2, mean"},
    {"abu_dhabi", operation::load, held::in_memory, false, 136, 0, table_2},
    {"abu_dhabi", operation::load, held::in_memory, true, 280, 0, "SOSP 2013, table 2, mean of 237 to 327"},
    {"e5_2650_htm", operation::load, held::modified, false, 0, 53, icpp},
    {"e5_2650_htm", operation::load, held::modified, true, 0, 113, icpp},
    {"e5_2650_htm", operation::load, held::shared, true, 0, 104, icpp},
    {"e5_2650_htm", operation::load, held::in_memory, false, 0, 96.4, icpp},
    {"e5_2650_htm", operation::load, held::in_memory, true, 0, 146, icpp},
    {"haswell", operation::load, held::modified, false, 0, 53, icpp},
    {"haswell", operation::load, held::modified, true, 0, 113, icpp},
    {"haswell", operation::load, held::in_memory, false, 0, 96.4, icpp},
    {"haswell", operation::load, held::in_memory, true, 0, 146, icpp},
    {"i7_4770", operation::load, held::modified, false, 0, 21, "core-to-core-latency of N. Viennot, i5-4590"},
};

constexpr unsigned latency_threads = 4;

exercise latency_of(operation op, held lines_are, bool far) {
  return {.what = work::latency, .op = op, .lines_are = lines_are, .far = far, .threads = latency_threads};
}

std::vector<exercise> latencies(const setting& where) {
  std::vector<exercise> all;
  if (where.sockets * where.socket_cores < latency_threads) return all;
  for (const bool far : {false, true}) {
    if (far && where.sockets == 1) break;
    for (const held lines_are : {held::modified, held::shared})
      for (const operation op : operations) all.push_back(latency_of(op, lines_are, far));
    all.push_back(latency_of(operation::load, held::in_memory, far));
  }
  return all;
}

judged_claim as_published(const published_latency& row, const setting& where, const results& measured) {
  const exercise e = latency_of(row.op, row.lines_are, row.far);
  const exercise_reading* const r = measured.find(e);
  const double cycles = row.cycles != 0 ? row.cycles : row.ns * where.ghz;
  return {
      fmt::format("{}: {} ({})", e.name(),
                  row.cycles != 0 ? fmt::format("{:g} cycles", row.cycles) : fmt::format("{:g} ns", row.ns),
                  row.source),
      beside(r, r == nullptr ? 0 : r->cycles, cycles, "cycles")};
}

judgement farther_costs_more(const results& measured) {
  judging all;
  for (const held lines_are : {held::modified, held::shared}) {
    for (const operation op : operations) {
      const exercise far = latency_of(op, lines_are, true);
      const exercise_reading* const a = measured.find(latency_of(op, lines_are, false));
      const exercise_reading* const b = measured.find(far);
      if (!all.needs(a, far.name()) || !all.needs(b, far.name())) continue;
      all.say(fmt::format("{}: {:.0f} and {:.0f} cycles, {:.1f} times.", far.name(), a->cycles, b->cycles,
                          b->cycles / a->cycles),
              b->cycles / a->cycles >= 2 && b->cycles / a->cycles <= 7.5);
    }
  }
  return all.verdict();
}

/// Somewhere: with lines that are in another core.
judgement as_dear_as_atomics(const results& measured) {
  judging all;
  for (const operation op : {operation::load, operation::store}) {
    const exercise_reading* const a = measured.find(latency_of(op, held::modified, false));
    const exercise_reading* const b =
        measured.find(latency_of(operation::fetch_and_add, held::modified, false));
    if (!all.needs(a, "latencies") || !all.needs(b, "latencies")) continue;
    all.say(fmt::format(
                "A {} of a line that another core has modified takes {:.0f} cycles, a fetch-and-add {:.0f}.",
                to_string(op), a->cycles, b->cycles),
            a->cycles * 1.25 >= b->cycles);
  }
  return all.verdict();
}

void show_latencies(const setting& where, const results& measured, charted_figure& figure) {
  chart& bars = figure.charts.emplace_back(
      chart{.title = "One operation at a time",
            .caption = "Other threads have used the lines before. Shorter is less.",
            .y = "cycles"});
  bars.of = "Operation";
  for (const exercise& e : latencies(where))
    if (const exercise_reading* const r = measured.find(e))
      bars.bars.push_back({.name = e.name(), .value = r->cycles});
  for (const published_latency& row : published)
    if (where.machine.starts_with(row.machine)) figure.findings.push_back(as_published(row, where, measured));
  if (where.sockets > 1)
    figure.findings.push_back(
        {"Without contention an operation across sockets costs 2 to 7.5 times one within a "
         "socket (SOSP 2013, introduction)",
         farther_costs_more(measured)});
  figure.findings.push_back(
      {"Loads and stores can be as expensive as atomic operations (SOSP 2013, introduction)",
       as_dear_as_atomics(measured)});
}

// Throughput by threads --------------------------------------------------------------------------------------------------

double mega(const exercise_reading& r) { return r.speed / 1e6; }

/// Curves over the numbers of threads that were measured.
chart chart_of(const std::string& chart_title, const std::string& y, const std::vector<exercise>& curves,
               const std::vector<unsigned>& threads, const results& measured,
               const std::function<double(const exercise_reading&)>& value) {
  chart made{.title = chart_title, .caption = caption, .y = y, .x = "Threads"};
  for (const exercise& e : curves) {
    chart_curve drawn{e.name(), {}};
    for (const unsigned n : threads)
      if (const exercise_reading* const r = find_at(measured, e, n)) drawn.points.emplace_back(n, value(*r));
    if (!drawn.points.empty()) made.curves.push_back(std::move(drawn));
  }
  return made;
}

std::vector<exercise> with_threads(const std::vector<exercise>& curves,
                                   const std::vector<unsigned>& threads) {
  std::vector<exercise> all;
  for (exercise e : curves)
    for (const unsigned n : threads) {
      e.threads = n;
      all.push_back(e);
    }
  return all;
}

std::vector<exercise> on_one_line(std::uint64_t pause) {
  std::vector<exercise> all;
  for (const operation op : operations) all.push_back({.op = op, .pause = pause});
  return all;
}
std::vector<exercise> sections(std::uint64_t places, std::uint64_t lines) {
  std::vector<exercise> all;
  for (const lock_kind lock : locks)
    all.push_back(
        {.what = work::section, .lock = lock, .places = places, .lines = lines, .pause = libslock_pause});
  return all;
}
std::vector<exercise> tables(std::uint64_t buckets) {
  std::vector<exercise> all;
  for (const lock_kind lock : locks)
    all.push_back({.what = work::table, .lock = lock, .places = buckets, .pause = libslock_pause});
  return all;
}

/// From one thread to several.
judgement falls(const results& measured, const std::vector<exercise>& curves, unsigned to, double least) {
  judging all;
  for (const exercise& e : curves) {
    const exercise_reading* const one = find_at(measured, e, 1);
    const exercise_reading* const many = find_at(measured, e, to);
    if (!all.needs(one, "1 thread") || !all.needs(many, fmt::format("{} threads", to))) continue;
    all.say(fmt::format("{}: {} Mop/s with 1 thread, {} with {}.", e.name(), megas(one->speed),
                        megas(many->speed), to),
            one->speed >= least * many->speed);
  }
  return all.verdict();
}

std::vector<exercise> atomics(std::uint64_t pause) {
  std::vector<exercise> all = on_one_line(pause);
  all.erase(all.begin(), all.begin() + 2);  // loads and stores
  return all;
}

judgement alike_atomics(const setting& where, const results& measured) {
  judging all;
  for (const unsigned n : where.threads) {
    std::vector<double> speeds;
    for (const exercise& e : with_threads(atomics(0), {n})) {
      const exercise_reading* const r = measured.find(e);
      if (all.needs(r, e.name())) speeds.push_back(r->speed);
    }
    if (speeds.size() < 2) continue;
    const auto [least, most] = std::ranges::minmax(speeds);
    all.say(fmt::format("{} threads: from {} to {} Mop/s.", n, megas(least), megas(most)),
            most / least <= near);
  }
  return all.verdict();
}

/// The ticket lock is the best, or not much worse than that, with most numbers of threads.
judgement ticket_is_best(const results& measured, const std::vector<std::vector<exercise>>& charts,
                         const std::vector<unsigned>& threads) {
  judging all;
  unsigned points = 0;
  unsigned comparable = 0;
  std::string others;
  for (const std::vector<exercise>& one : charts) {
    for (const unsigned n : threads) {
      std::vector<std::pair<double, exercise>> speeds;
      for (const exercise& e : with_threads(one, {n})) {
        const exercise_reading* const r = measured.find(e);
        if (all.needs(r, e.name())) speeds.emplace_back(r->speed, e);
      }
      if (speeds.size() != one.size()) continue;
      const auto& [ticket, what] = speeds.front();
      const auto& [most, best] = *std::ranges::max_element(speeds, {}, [](const auto& s) { return s.first; });
      ++points;
      if (ticket * near >= most)
        ++comparable;
      else
        others += fmt::format(" {}, {} threads: {} Mop/s, and {} with {}.", what.name(), n, megas(ticket),
                              megas(most), to_string(best.lock));
    }
  }
  if (points != 0)
    all.say(fmt::format("It has at least 1/{} of the throughput of the best at {} of {} points.{}", near,
                        comparable, points, others),
            2 * comparable > points);
  return all.verdict();
}

/// What a thread does is more within a socket than over all of them.
judgement scales_in_a_socket(const setting& where, const results& measured,
                             const std::vector<exercise>& curves, unsigned all_cores) {
  judging all;
  for (const exercise& e : curves) {
    const exercise_reading* const here = find_at(measured, e, where.socket_cores);
    const exercise_reading* const there = find_at(measured, e, all_cores);
    if (!all.needs(here, "a socket") || !all.needs(there, "all sockets")) continue;
    all.say(fmt::format("{}: {} Mop/s with {} threads, {} with {}.", e.name(), megas(here->speed),
                        where.socket_cores, megas(there->speed), all_cores),
            here->speed / where.socket_cores >= near * there->speed / all_cores);
  }
  return all.verdict();
}

/// Throughput over that of one thread.
struct published_point {
  unsigned threads;
  double mega;
};
// "AMD Opteron (2 NUMA nodes, total of 32 cores)".
constexpr published_point opteron_ticket[] = {{1, 17.28}, {2, 9.08},  {4, 7.38},
                                              {8, 7.34},  {16, 4.92}, {32, 3.93}};

judgement falls_as_published(const results& measured, const exercise& e) {
  judging all;
  const exercise_reading* const alone = find_at(measured, e, 1);
  for (const published_point& p : opteron_ticket) {
    const exercise_reading* const r = find_at(measured, e, p.threads);
    if (p.threads == 1 || !all.needs(alone, "1 thread") || r == nullptr || !all.needs(r, "it")) continue;
    const double ours = alone->speed / r->speed;
    const double theirs = opteron_ticket[0].mega / p.mega;
    all.say(fmt::format("With {} threads {:.2f} times less than with 1, published {:.2f}.", p.threads, ours,
                        theirs),
            ours / theirs <= near && theirs / ours <= near);
  }
  return all.verdict();
}

void show_one_line(const setting& where, unsigned all_cores, const results& measured,
                   charted_figure& figure) {
  figure.charts.push_back(
      chart_of("Back to back", "simulated Mop/s", on_one_line(0), where.threads, measured, mega));
  figure.charts.push_back(chart_of(fmt::format("{} cycles apart", libslock_pause), "simulated Mop/s",
                                   on_one_line(libslock_pause), where.threads, measured, mega));
  if (where.sockets > 1) {
    const std::string steeply =
        "On multi-socket machines throughput on one line falls steeply when more than one core uses it (SOSP "
        "2013, "
        "introduction): to half or less with two, ";
    figure.findings.push_back({steeply + "back to back", falls(measured, atomics(0), 2, 2)});
    figure.findings.push_back(
        {fmt::format("{}{} cycles apart, as libslock's atomic_bench has it", steeply, libslock_pause),
         falls(measured, atomics(libslock_pause), 2, 2)});
    figure.findings.push_back(
        {"The same with all cores, back to back", falls(measured, atomics(0), all_cores, 2)});
  }
  figure.findings.push_back(
      {"Compare-and-swap, fetch-and-add and swap have comparable bandwidth (Schweizer, Besta and "
       "Hoefler, PACT 2015)",
       alike_atomics(where, measured)});
}

void show_locks(const setting& where, unsigned all_cores, const results& measured, charted_figure& figure) {
  const std::vector<std::pair<std::string, std::vector<exercise>>> charts{
      {"One lock, empty sections", sections(1, 0)},
      {fmt::format("One lock, sections of {} lines", libslock_lines), sections(1, libslock_lines)},
      {fmt::format("{} locks, sections of {} lines", many_locks, libslock_lines),
       sections(many_locks, libslock_lines)}};
  for (const auto& [name, curves] : charts)
    figure.charts.push_back(chart_of(name, "simulated Mop/s", curves, where.threads, measured, mega));
  std::vector<unsigned> in_socket = where.threads;
  std::erase_if(in_socket, [&](unsigned n) { return n > where.socket_cores; });
  figure.findings.push_back(
      {fmt::format(
           "Under low contention a ticket lock is the best or comparable in most workloads (SOSP 2013, "
           "introduction): {} locks",
           many_locks),
       ticket_is_best(measured, {charts[2].second}, where.threads)});
  figure.findings.push_back(
      {"Within a socket it is comparable even at high contention (SOSP 2013, introduction): one lock",
       ticket_is_best(measured, {charts[0].second, charts[1].second}, in_socket)});
  if (where.sockets > 1)
    figure.findings.push_back(
        {"With one lock, throughput degrades sharply with more threads on multi-socket machines "
         "(IIT Bombay, CS 744, lecture 19, of SOSP 2013, figure 5): to half or less with all cores",
         falls(measured, charts[1].second, all_cores, 2)});
  if (where.machine.starts_with("abu_dhabi"))
    figure.findings.push_back(
        {"A ticket lock on an Opteron of 32 cores: 17.3, 9.1, 7.4, 7.3, 4.9 and 3.9 Mop/s with 1 to "
         "32 threads (concurrencyfreaks.blogspot.com, January 2015; another Opteron, and what its "
         "sections do is not said)",
         falls_as_published(measured, charts[0].second.front())});
}

void show_tables(const setting& where, unsigned all_cores, const results& measured, charted_figure& figure) {
  for (const std::uint64_t buckets : {few_buckets, many_locks})
    figure.charts.push_back(chart_of(fmt::format("{} buckets", buckets), "simulated Mop/s", tables(buckets),
                                     where.threads, measured, mega));
  figure.findings.push_back(
      {fmt::format(
           "Under low contention a ticket lock is the best or comparable in most workloads (SOSP 2013, "
           "introduction): {} buckets",
           many_locks),
       ticket_is_best(measured, {tables(many_locks)}, where.threads)});
  if (where.sockets > 1)
    for (const std::uint64_t buckets : {few_buckets, many_locks})
      figure.findings.push_back(
          {fmt::format(
               "Synchronization scales much better within a socket, irrespective of contention (SOSP 2013, "
               "introduction): a thread does {} times as much there, {} buckets",
               near, buckets),
           scales_in_a_socket(where, measured, tables(buckets), all_cores)});
}

// Bandwidth, and transactions ----------------------------------------------------------------------------------------------

constexpr double line_bytes = 64;
// 25.6 GB/s of a link at 6.4 GT/s, in both directions together.
constexpr double qpi_gigas = 12.8;

std::vector<unsigned> of_a_socket(const setting& where) {
  std::vector<unsigned> all = where.threads;
  std::erase_if(all, [&](unsigned n) { return n > where.socket_cores; });
  return all;
}
std::vector<exercise> streams(const setting& where) {
  std::vector<exercise> all{{.what = work::stream}};
  if (where.sockets > 1) all.push_back({.what = work::stream, .far = true});
  return all;
}
double gigas(const exercise_reading& r) { return r.speed * line_bytes / 1e9; }

void show_streams(const setting& where, const results& measured, charted_figure& figure) {
  const std::vector<unsigned> threads = of_a_socket(where);
  figure.charts.push_back(
      chart_of("Lines from memory", "simulated GB/s", streams(where), threads, measured, gigas));
  if (!where.machine.starts_with("e7_4850") || threads.empty()) return;
  figure.charts.back().limit = {qpi_gigas, "GB/s of a link in one direction"};
  const auto with = [&](bool far, unsigned n) {
    return measured.find({.what = work::stream, .far = far, .threads = n});
  };
  if (const exercise_reading* const r = with(false, 1))
    figure.findings.push_back(
        {"A thread streams 5 GB/s from local memory (AnandTech 3648, Xeon X7560: the same memory, one "
         "generation before)",
         beside(r, gigas(*r), 5, "GB/s")});
  if (const exercise_reading* const r = with(true, threads.back()))
    figure.findings.push_back(
        {fmt::format("A QPI link moves {} GB/s in a direction (HP, Intel microarchitecture Nehalem), "
                     "which {} cores that stream from another socket reach",
                     qpi_gigas, threads.back()),
         beside(r, gigas(*r), qpi_gigas, "GB/s")});
}

exercise increments(bool shared, unsigned threads) {
  return {.what = work::transaction, .places = shared ? 1U : threads, .threads = threads};
}
/// Curves by threads whose number of words depends on that.
std::vector<exercise> increments(const setting& where) {
  std::vector<exercise> all;
  for (const bool shared : {true, false})
    for (const unsigned n : where.threads)
      if (shared || n > 1) all.push_back(increments(shared, n));
  return all;
}

void show_transactions(const setting& where, const results& measured, charted_figure& figure) {
  const auto drawn = [&](const std::string& name, const std::string& y, auto value) {
    chart made{.title = name, .caption = caption, .y = y, .x = "Threads"};
    for (const bool shared : {true, false}) {
      chart_curve c{shared ? "one word" : "a word for each thread", {}};
      for (const unsigned n : where.threads)
        if (const exercise_reading* const r = measured.find(increments(shared, n)))
          c.points.emplace_back(n, value(*r));
      made.curves.push_back(std::move(c));
    }
    figure.charts.push_back(std::move(made));
  };
  drawn("Increments", "simulated Mop/s", mega);
  drawn("Aborts", "aborts an operation", [](const exercise_reading& r) { return r.aborts; });
  drawn("Operations that took an atomic instruction in the end", "share",
        [](const exercise_reading& r) { return r.given_up; });
  if (const exercise_reading* const r = measured.find(increments(true, 1)))
    figure.findings.push_back(
        {"An increment in a transaction, without contention: 96 cycles (gist of P. Khuong, "
         "tsx_per_core, Xeon E5-2650L v4)",
         beside(r, r->cycles, 96, "cycles")});
}

}  // namespace

const char* to_string(operation op) noexcept {
  switch (op) {
    case operation::load:
      return "load";
    case operation::store:
      return "store";
    case operation::compare_and_swap:
      return "compare-and-swap";
    case operation::fetch_and_add:
      return "fetch-and-add";
    case operation::swap:
      return "swap";
  }
  return "";
}

const char* to_string(lock_kind lock) noexcept {
  return lock == lock_kind::ticket ? "ticket" : lock == lock_kind::mcs ? "MCS" : "test and test-and-set";
}

std::string exercise::name() const {
  const std::string apart = pause == 0 ? "" : fmt::format(", {} cycles apart", pause);
  switch (what) {
    case work::one_line:
      return to_string(op) + apart;
    case work::latency:
      return fmt::format("{}, {}{}", to_string(op),
                         lines_are == held::modified ? "modified"
                         : lines_are == held::shared ? "shared"
                                                     : "memory",
                         far ? ", another socket" : ", this socket");
    case work::section:
      return fmt::format("{}, {} x {} lines{}", to_string(lock), places, lines, apart);
    case work::table:
      return fmt::format("{}, {} buckets{}", to_string(lock), places, apart);
    case work::stream:
      return far ? "memory of another socket" : "memory of this socket";
    case work::transaction:
      return fmt::format("transactions, {} word{}", places, places == 1 ? "" : "s");
  }
  return "";
}

std::vector<page> pages_of(const setting& where) {
  const unsigned all_cores = where.sockets * where.socket_cores;
  const auto all_of = [&](std::initializer_list<std::vector<exercise>> groups) {
    std::vector<exercise> all;
    for (const std::vector<exercise>& one : groups)
      std::ranges::copy(with_threads(one, where.threads), std::back_inserter(all));
    return all;
  };
  std::vector<page> pages{
      {"latencies", "Latencies",
       "One operation at a time, on lines that another core of this or of another socket has modified, or "
       "shares with "
       "this one, and that are in memory. A store is followed by a fence.",
       latencies(where), [where](const results& r, charted_figure& f) { show_latencies(where, r, f); }},
      {"one-line", "One line", fmt::format("All threads operate on one word. {}", unavailable_figures),
       all_of({on_one_line(0), on_one_line(libslock_pause)}),
       [=](const results& r, charted_figure& f) { show_one_line(where, all_cores, r, f); }},
      {"locks", "Locks",
       fmt::format("The locks of this library, {} cycles apart, where libslock's stress_test has 10,000. {}",
                   libslock_pause, unavailable_figures),
       all_of({sections(1, 0), sections(1, libslock_lines), sections(many_locks, libslock_lines)}),
       [=](const results& r, charted_figure& f) { show_locks(where, all_cores, r, f); }},
      {"hash-table", "A hash table",
       fmt::format("A lock and about twelve keys for each bucket; of ten operations eight search, one "
                   "inserts and one "
                   "erases. {}",
                   unavailable_figures),
       all_of({tables(few_buckets), tables(many_locks)}),
       [=](const results& r, charted_figure& f) { show_tables(where, all_cores, r, f); }},
      {"bandwidth", "Bandwidth",
       "Threads of one socket read lines of their own, one after the other, from memory of this socket or of "
       "another.",
       with_threads(streams(where), of_a_socket(where)),
       [where](const results& r, charted_figure& f) { show_streams(where, r, f); }}};
  if (where.transactions)
    pages.push_back({"transactions", "Transactions of one line",
                     "A transaction increments a word; after 16 attempts an atomic instruction does. "
                     "Published numbers of "
                     "contended ones: unavailable.",
                     increments(where),
                     [where](const results& r, charted_figure& f) { show_transactions(where, r, f); }});
  return pages;
}

}  // namespace espalier::app::calibration
