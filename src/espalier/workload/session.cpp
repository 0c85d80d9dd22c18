#include "espalier/workload/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

#include "espalier/hw/process.hpp"
#include "espalier/hw/topology.hpp"
#include "espalier/measure/statistics.hpp"

namespace espalier::workload {
namespace {

// No map needs more.
constexpr double most_bytes_per_key = 256;

constexpr std::uint64_t sample_keys = 20'000;

/// The bytes that a key is expected to cost in a map: the cost in a small map, plus a margin for what grows in steps.
double forecast_bytes_per_key(const registration& r, const workload_plan& sample) {
  constexpr double margin = 1.15;
  const std::unique_ptr<subject> map = r.make_for(sample);
  map->prefill(sample, 1, {});
  return map->bytes_per_key().value_or(most_bytes_per_key / margin) * margin;
}

void check_parts(const session_request& request) {
  if (request.maps.empty()) throw std::invalid_argument("no map is left to run");
  if (request.plans.empty()) throw std::invalid_argument("no workload is left to run");
  if (request.threads.empty()) throw std::invalid_argument("no number of threads is given");
  if (request.runs == 0) throw std::invalid_argument("--runs 0 measures nothing; at least 1 is needed");
}

void check_memory(const session_request& request) {
  const auto available = hw::available_memory_bytes();
  if (!available) return;
  for (const auto& plan : request.plans) {
    const auto needed = [&](auto bytes_per_key) {
      double sum = 0;
      for (const registration& r : request.maps) {
        if (r.facts.cannot_run(*plan).empty()) sum += bytes_per_key(r);
      }
      return static_cast<double>(plan->loaded) * sum;
    };
    const auto room = static_cast<double>(*available);
    const bool integers = plan->keys.type() == key_type::integer;
    if (integers && needed([](const registration&) { return most_bytes_per_key; }) <= room) continue;
    workload_plan sample = *plan;
    sample.loaded = std::min(sample.loaded, sample_keys);
    const double forecast = needed([&](const registration& r) { return forecast_bytes_per_key(r, sample); });
    if (forecast > room)
      throw std::invalid_argument(
          fmt::format("{} maps of {} keys at once may take {:.1f} GiB and {:.1f} GiB are free; name fewer "
                      "with --maps, or fewer --keys",
                      request.maps.size(), plan->loaded, forecast / 0x1p30, room / 0x1p30));
  }
}

/// One plan with all its maps.
class plan_session {
 public:
  plan_session(const session_request& request, std::shared_ptr<const workload_plan> plan,
               session_observer& observer, std::size_t& done, std::size_t total)
      : request_(request), plan_(std::move(plan)), observer_(observer), done_(done), total_(total) {
    if (hw::topology::system().is_this_machine())
      pus_ = hw::pin_order(hw::topology::system(), request.pinning);
  }

  std::vector<measurement> run() {
    build();
    std::vector<measurement> all;
    if (subjects_.empty()) return all;
    for (const unsigned threads : request_.threads) {
      std::vector<measurement> group = measure(threads);
      std::erase_if(group, [](const measurement& m) { return m.runs.empty(); });
      if (group.empty()) break;
      if (threads == request_.threads.back() && !request_.is_interrupted()) settle(group);
      observer_.finished(group);
      std::move(group.begin(), group.end(), std::back_inserter(all));
    }
    return all;
  }

 private:
  void step(const std::string& what) { observer_.step(done_++, total_, what); }

  void build() {
    const unsigned most = *std::max_element(request_.threads.begin(), request_.threads.end());
    for (const registration& r : request_.maps) {
      if (request_.is_interrupted()) return;
      step(fmt::format("{}: fill {}", plan_->name, r.facts.name));
      if (const std::string why = r.facts.cannot_run(*plan_); !why.empty()) {
        observer_.skipped(r.facts, *plan_, why);
        continue;
      }
      maps_.push_back(&r);
      subjects_.push_back(r.make_for(*plan_));
      if (!plan_->mix.into_empty) subjects_.back()->prefill(*plan_, most, pus_);
    }
  }

  [[nodiscard]] run_request base(unsigned threads, std::uint64_t salt) const {
    return {.plan = *plan_,
            .threads = threads,
            .pus = pus_,
            .time = request_.time,
            .operations = request_.operations,
            .seed = request_.seed + salt,
            .latency_every = 0,
            .recorder = nullptr,
            .interrupted = request_.interrupted};
  }

  run_outcome outcome_of(std::size_t i, const run_request& run) {
    if (plan_->mix.into_empty) {
      subjects_[i].reset();
      subjects_[i] = maps_[i]->make_for(*plan_);
    }
    return subjects_[i]->run(run);
  }

  std::vector<measurement> measure(unsigned threads) {
    std::vector<measurement> group;
    for (const auto& s : subjects_) {
      measurement m;
      m.facts = s->facts();
      m.plan = plan_;
      m.threads = threads;
      group.push_back(std::move(m));
    }
    if (plan_->trace.empty() && !plan_->mix.into_empty) warm_up(threads);
    for (unsigned r = 0; r < request_.runs; ++r) {
      for (std::size_t i = 0; i < subjects_.size(); ++i) {
        if (request_.is_interrupted()) return group;
        step(fmt::format("{}: run {} of {}, {}, {} threads", plan_->name, r + 1, request_.runs,
                         group[i].facts.name, threads));
        run_request run = base(threads, r + 1);
        if (r == 0 && i == 0) run.recorder = request_.recorder;
        run_outcome outcome = outcome_of(i, run);
        // The interrupt cut off a timed run.
        if (request_.is_interrupted() && !run.operations && plan_->trace.empty()) return group;
        group[i].runs.push_back(std::move(outcome));
        group[i].bytes_per_key = subjects_[i]->bytes_per_key();
      }
    }
    if (request_.latency_every != 0 && plan_->trace.empty()) {
      for (std::size_t i = 0; i < subjects_.size(); ++i) {
        if (request_.is_interrupted()) return group;
        step(fmt::format("{}: latency, {}, {} threads", plan_->name, group[i].facts.name, threads));
        run_request run = base(threads, request_.runs + 1);
        run.latency_every = request_.latency_every;
        group[i].latency = outcome_of(i, run).latency;
      }
    }
    return group;
  }

  // Warms caches, page tables and branch predictors; a fifth of a run suffices.
  void warm_up(unsigned threads) {
    for (const auto& s : subjects_) {
      step(fmt::format("{}: warm up {}", plan_->name, s->facts().name));
      run_request run = base(threads, 0);
      run.time /= 5;
      if (run.operations) run.operations = *run.operations / 5 + 1;
      static_cast<void>(s->run(run));
    }
  }

  void settle(std::vector<measurement>& group) {
    if (request_.at_end) {
      for (const auto& s : subjects_) request_.at_end(*s);
    }
    if (!request_.check_leaks) return;
    for (std::size_t i = 0; i < subjects_.size(); ++i) {
      step(fmt::format("{}: count what {} holds", plan_->name, group[i].facts.name));
      group[i].leaked_bytes = subjects_[i]->leaked_bytes();
    }
  }

  const session_request& request_;
  std::shared_ptr<const workload_plan> plan_;
  session_observer& observer_;
  std::size_t& done_;
  std::size_t total_;
  std::vector<unsigned> pus_;
  std::vector<const registration*> maps_;
  std::vector<std::unique_ptr<subject>> subjects_;  // of these
};

std::size_t steps_of(const session_request& request) {
  std::size_t total = 0;
  for (const auto& plan : request.plans) {
    const std::size_t drawn = plan->trace.empty() ? 1 : 0;
    const std::size_t warm_ups = plan->mix.into_empty ? 0 : drawn;
    const std::size_t per_count = request.runs + warm_ups + (request.latency_every != 0 ? drawn : 0);
    total += 1 + per_count * request.threads.size() + (request.check_leaks ? 1 : 0);
  }
  return total * request.maps.size();
}

}  // namespace

std::vector<double> measurement::throughput() const {
  std::vector<double> values;
  values.reserve(runs.size());
  for (const run_outcome& r : runs) values.push_back(r.operations_per_second());
  return values;
}

std::vector<double> measurement::cpu_ns_per_operation() const {
  std::vector<double> values;
  values.reserve(runs.size());
  for (const run_outcome& r : runs)
    if (r.operations > 0) values.push_back(r.cpu_ns_per_operation());
  return values;
}

double measurement::median_throughput() const { return measure::median(throughput()).value_or(0); }

void check_room(std::uint64_t keys, double bytes_per_key) {
  const auto available = hw::available_memory_bytes();
  const double needed = static_cast<double>(keys) * bytes_per_key;
  if (!available || needed <= static_cast<double>(*available)) return;
  throw std::invalid_argument(
      fmt::format("{} keys may take {:.1f} GiB and {:.1f} GiB are free; name fewer --keys", keys,
                  needed / 0x1p30, static_cast<double>(*available) / 0x1p30));
}

void check_session(const session_request& request) {
  check_parts(request);
  check_memory(request);
}

std::vector<measurement> run_session(const session_request& request, session_observer& observer) {
  check_session(request);
  std::vector<measurement> all;
  std::size_t done = 0;
  const std::size_t total = steps_of(request);
  for (const auto& plan : request.plans) {
    if (request.is_interrupted()) break;
    std::vector<measurement> group = plan_session(request, plan, observer, done, total).run();
    std::move(group.begin(), group.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace espalier::workload
