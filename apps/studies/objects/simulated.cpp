#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "apps/common/exit_status.hpp"
#include "apps/common/options.hpp"
#include "apps/common/terminal.hpp"
#include "apps/simulate/output.hpp"
#include "apps/simulate/study.hpp"
#include "apps/studies/objects/program.hpp"
#include "espalier/io/output_file.hpp"
#include "espalier/workload/random.hpp"
#include "sim/machine/counts.hpp"
#include "sim/simulation/simulation.hpp"

// Read-write objects under locks and by message (DPS, Middleware 2019, section 5.1 and figure 7).

namespace espalier::simulate {
namespace {

// One measurement -----------------------------------------------------------------------------------------------------

/// State shared by the feeds of all threads.
struct operations_left {
  std::uint64_t left;
  unsigned ended = 0;
};

class drawn_objects final : public object_feed {
 public:
  drawn_objects(const objects_shape& shape, std::uint64_t seed, unsigned thread, operations_left& shared)
      : shape_(shape), random_(seed, thread), shared_(shared) {}

  bool next(std::uint64_t& object) override {
    const sim::own_code scope;
    if (shared_.left == 0) return false;
    --shared_.left;
    object = random_.below(shape_.objects);
    return true;
  }
  void ended() override {
    const sim::own_code scope;
    ++shared_.ended;
  }
  bool all_ended() override {
    const sim::own_code scope;
    return shared_.ended == shape_.threads;
  }

 private:
  const objects_shape& shape_;
  workload::random_generator random_;
  operations_left& shared_;
};

/// Each socket with threads is a locality. A fifth as many operations warm up before those that are counted. Throws
/// std::logic_error if an operation was lost.
counted_phase measure_objects(const study_options& o, objects_shape shape) {
  sim::simulation simulated(o.places.front().machine, shape.threads, o.pinning);
  // Localities are numbered without gaps.
  std::vector<unsigned> locality(shape.threads);
  std::vector<unsigned> sockets;
  for (unsigned t = 0; t < shape.threads; ++t) {
    const unsigned socket = simulated.socket_of(t);
    const auto known = std::find(sockets.begin(), sockets.end(), socket);
    locality[t] = static_cast<unsigned>(known - sockets.begin());
    if (known == sockets.end()) sockets.push_back(socket);
  }
  shape.localities = static_cast<unsigned>(sockets.size());
  std::unique_ptr<objects_program> program;
  simulated.outside_time(
      [&] { program = shape.in_flight != 0 ? make_delegated_objects(shape) : make_locked_objects(shape); });
  simulated.without_time([&](unsigned thread) { program->settle(thread, locality[thread]); });

  const auto phase = [&](std::uint64_t operations, std::uint64_t seed) {
    operations_left shared{operations};
    return simulated.run([&](unsigned thread) {
      drawn_objects feed(shape, seed, thread, shared);
      program->operate(thread, locality[thread], feed);
    });
  };
  const std::uint64_t warm_up = o.operations / 5 + 1;
  static_cast<void>(phase(warm_up, o.seed));
  const sim::phase_result measured = phase(o.operations, o.seed + 1);
  std::uint64_t writes = 0;
  simulated.outside_time([&] {
    writes = program->writes();
    program.reset();
  });
  if (writes != (o.operations + warm_up) * shape.lines)
    throw std::logic_error("the simulated objects have lost operations");
  return counted(measured, o.operations, o.places.front().machine.ghz);
}

// The study -----------------------------------------------------------------------------------------------------------

struct shape {
  std::uint64_t objects;
  std::uint64_t lines;
};
/// The four panels of the figure.
constexpr std::array shapes{shape{64, 4}, shape{64, 64}, shape{512, 64}, shape{512, 4}};

struct program {
  std::string_view name;
  unsigned in_flight;
};
constexpr std::array programs{program{"locks", 0}, program{"by message", 1},
                              program{"by message, 2 in flight", 2}};

struct row {
  unsigned threads;
  shape objects;
  std::string_view program;
  counted_phase measured;
  double speed_up;  // relative to locks
};

std::vector<row> measure_all(const study_options& o) {
  std::vector<row> rows;
  for (const unsigned threads : o.places.front().threads) {
    for (const shape& s : shapes) {
      if (app::interruption::requested()) return rows;
      double locked_cycles = 0;
      for (const program& p : programs) {
        const counted_phase m = measure_objects(o, {.objects = s.objects,
                                                    .lines = s.lines,
                                                    .threads = threads,
                                                    .localities = 0,
                                                    .in_flight = p.in_flight});
        const auto cycles = static_cast<double>(m.cycles);
        if (p.in_flight == 0) locked_cycles = cycles;
        rows.push_back({threads, s, p.name, m, locked_cycles / cycles});
      }
    }
  }
  return rows;
}

void print(const study_options& o, const std::vector<row>& rows) {
  using app::table;
  const bool colour = app::wants_colour(STDOUT_FILENO);
  std::printf("%s\n",
              app::bold(fmt::format("SIMULATED on {}: objects of cache lines, each operation reads and "
                                    "writes all lines of one",
                                    o.places.front().machine.name),
                        colour)
                  .c_str());
  table t({"threads", "objects x lines", "done", "remote\ntransfers", "local\ntransfers", "stall\ncycles",
           "simulated\nM/s", "against\nlocks"},
          {2});
  for (const row& r : rows) {
    const sim::counts& c = r.measured.total;
    t.add({fmt::format("{}", r.threads), fmt::format("{} x {}", r.objects.objects, r.objects.lines),
           std::string(r.program), fmt::format("{:.2f}", r.measured.per_operation(c.remote_transfers)),
           fmt::format("{:.2f}", r.measured.per_operation(c.local_transfers)),
           fmt::format("{:.0f}", r.measured.per_operation(c.stall_cycles)),
           fmt::format("{:.3f}", r.measured.operations_per_second() / 1e6),
           fmt::format("{:.2f} x", r.speed_up)});
  }
  std::printf(
      "%s\nTransfers and cycles are per operation. Each socket is a locality of the objects that are "
      "reached by message.\n",
      t.text(colour).c_str());
}

std::string json_of(const study_options& o, const std::vector<row>& rows) {
  nlohmann::ordered_json all = study_document(o, o.places.front().machine, "objects");
  for (const row& r : rows) {
    nlohmann::ordered_json one = study_entry(
        fmt::format("objects/{}x{}/{}/threads:{}", r.objects.objects, r.objects.lines, r.program, r.threads),
        r.threads, r.measured);
    one["speed_up"] = r.speed_up;
    one["counts"] = counts_json(r.measured);
    all["benchmarks"].push_back(std::move(one));
  }
  return all.dump(1) + "\n";
}

std::string csv_of(const std::vector<row>& rows) {
  std::string text = "simulated,threads,objects,lines,program,operations,cycles,speed_up";
  text += counts_csv_head("") + '\n';
  for (const row& r : rows) {
    text += fmt::format("yes,{},{},{},\"{}\",{},{},{}", r.threads, r.objects.objects, r.objects.lines,
                        r.program, r.measured.operations, r.measured.cycles, r.speed_up);
    text += counts_csv(r.measured) + '\n';
  }
  return text;
}

int run_objects(const study_options& o) {
  std::optional<io::output_file> json = app::open_output(o.json);
  std::optional<io::output_file> csv = app::open_output(o.csv);
  const std::vector<row> rows = measure_all(o);
  print(o, rows);
  if (json) json->commit(json_of(o, rows));
  if (csv) csv->commit(csv_of(rows));
  return 0;
}

const registered_study objects{
    {"objects",
     "read-write objects under MCS locks, and by message to their socket (Middleware 2019, figure 7)",
     {"--machine", "--threads", "--pin", "--operations", "--seed", "--json", "--csv"},
     {},
     run_objects}};

}  // namespace
}  // namespace espalier::simulate
