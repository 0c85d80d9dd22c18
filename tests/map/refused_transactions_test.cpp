// B+trees whose operations are transactions, where some of these abort: every one, every third one, or a single one, by
// each cause. Contents are compared with std::map, and attempts with what DBX makes.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <type_traits>
#include <vector>

#include "espalier/catalog/entries/euno_btree.hpp"
#include "espalier/catalog/entries/htm_btree.hpp"
#include "espalier/catalog/entries/htm_masstree.hpp"
#include "espalier/catalog/entry_list.hpp"
#include "espalier/hw/htm.hpp"
#include "espalier/sync/elision.hpp"
#include "support/abort_statuses.hpp"
#include "support/every_entry.hpp"
#include "support/model.hpp"
#include "support/on_threads.hpp"
#include "support/sanitizers.hpp"
#include "support/subject_of.hpp"
#include "support/watchdog.hpp"

namespace espalier::test {

/// For GoogleTest.
static void PrintTo(const subject_type& type, std::ostream* out) { *out << type.name; }

namespace {

using hw::abort_status;
using hw::scripted;
using namespace abort_statuses;

constexpr abort_status hopeless = abort_status::asked_for(not_elidable);

/// hw::scripted. Beside other threads, a step that does not abort is a transaction of hw::rtm, where there is that: what
/// scripted lets commit has no isolation.
class scripted_htm {
 public:
  static inline bool is_there = true;
  static inline bool among_threads = false;

  [[nodiscard]] static bool available() noexcept { return is_there; }
  [[nodiscard]] static bool active() noexcept { return scripted::active() || hw::rtm::active(); }

  template <hw::transaction_body Body>
  [[nodiscard]] static hw::transaction_outcome run(Body&& body) noexcept {
    if (!among_threads) return scripted::run(body);
    const hw::transaction_outcome step = scripted::run([]() noexcept {});
    return step.committed ? hw::rtm::run(body) : step;
  }
};

template <class Map>
struct restless {
  using type = Map;
};
template <class Map>
  requires requires { typename Map::with_restless_leaves; }
struct restless<Map> {
  using type = typename Map::with_restless_leaves;
};
/// With these transactions, and with nodes so small that few keys make a deep tree.
template <class Map>
using narrow_map = typename restless<Map>::type::template with_fanout<3>::template rebind<
    key, value, std::less<key>, typename Map::traits_type::template with_htm<scripted_htm>>;

/// The entries of three catalogues that differ in more than their policies; in the short form the default of each.
std::vector<subject_type> eliding_maps() {
  std::vector<subject_type> all;
  const auto add = [&all]<class Entry>() {
    using shipped = typename Entry::map_type::traits_type;
    if constexpr (std::is_same_v<typename shipped::htm_type, hw::rtm> &&
                  (every_entry || Entry::variant.empty()))
      all.push_back(describe<Entry, plain_codec, narrow_map<typename Entry::map_type>,
                             typename shipped::placement_type, call_forms::guarded>(Entry::name()));
  };
  catalog::htm_btree::for_each(add);
  catalog::euno_btree::for_each(add);
  catalog::htm_masstree::for_each(add);
  return all;
}

std::vector<subject_type> with_mirrors(std::vector<subject_type> all) {
  const std::size_t n = all.size();
  for (std::size_t i = 0; i < n; ++i) all.push_back(mirrored(all[i]));
  return all;
}

/// The steps of a cue.
struct plan {
  std::string name;
  std::vector<scripted::step> steps;
  scripted::step then = scripted::commit;
  bool available = true;
};

constexpr std::array causes{conflict, capacity, held, no_reason, hopeless};

plan all_abort(abort_status status) { return {"all abort: " + to_string(status), {}, status}; }
plan every_third_aborts(abort_status status) {
  constexpr std::size_t most = 30'000;  // a thread of these tests takes fewer
  plan p{"every third one aborts: " + to_string(status), std::vector<scripted::step>(most)};
  for (std::size_t i = 2; i < p.steps.size(); i += 3) p.steps[i] = status;
  return p;
}
plan one_aborts(std::size_t n, abort_status status) {
  plan p{"number " + std::to_string(n) + " aborts: " + to_string(status), std::vector<scripted::step>(n + 1)};
  p.steps[n] = status;
  return p;
}
plan none() { return {"none aborts", {}}; }
plan unavailable() { return {"there are none", {}, scripted::commit, false}; }

/// For the time of a test.
class provision {
 public:
  explicit provision(const plan& p, bool among_threads = false) {
    scripted_htm::is_there = p.available;
    scripted_htm::among_threads = among_threads;
  }
  provision(const provision&) = delete;
  provision& operator=(const provision&) = delete;
  ~provision() { scripted_htm::is_there = true, scripted_htm::among_threads = false; }
};

/// Performs operations, and returns how many transactions they took.
std::size_t expect_like_model(const subject_type& type, const plan& p, key keys, std::size_t steps) {
  SCOPED_TRACE(p.name);
  const provision provided(p);
  const scripted::cue cue(p.steps, p.then);
  const auto map = make(type);
  model expected;
  random_source random(17);
  const auto all = key_range(0, keys);
  run_against_model(map->plain(), expected, random, all, {}, steps);
  const std::size_t taken = cue.transactions();
  expect_equal(map->plain(), expected, all);
  expect_sound_at_rest(*map, type);
  return taken;
}

struct refused_transactions : ::testing::TestWithParam<subject_type> {};

TEST_P(refused_transactions, leave_what_the_operations_do) {
  std::vector<plan> plans{none(), unavailable()};
  for (const abort_status cause : causes) {
    plans.push_back(all_abort(cause));
    plans.push_back(every_third_aborts(cause));
  }
  for (const plan& p : plans) expect_like_model(GetParam(), p, 30, 500);
}

TEST_P(refused_transactions, may_be_any_single_one) {
  constexpr key keys = 12;
  constexpr std::size_t steps = 50;
  const std::size_t all = expect_like_model(GetParam(), none(), keys, steps);
  EXPECT_GE(all, steps / 2);  // some maps read without transactions
  for (const abort_status cause : {conflict, hopeless}) {
    for (std::size_t n = 0; n < all && !HasFailure(); ++n)
      expect_like_model(GetParam(), one_aborts(n, cause), keys, steps);
  }
}

TEST_P(refused_transactions, are_attempted_as_often_as_by_their_authors) {
  // The upper region of the rungs of euno_btree seldom aborts twice for one reason: the budgets of its own are small. The
  // map itself searches without a region.
  constexpr std::array<std::size_t, causes.size()> whole{129, 17, 129, 4, 1};
  constexpr std::array<std::size_t, causes.size()> upper{5, 2, 1, 2, 1};
  const bool two_regions = GetParam().algorithm == "euno_btree" && !GetParam().variant.empty();
  const auto map = make(GetParam());
  map->plain().insert(1, 10);
  for (std::size_t i = 0; i < causes.size(); ++i) {
    const scripted::cue cue({}, causes[i]);
    EXPECT_FALSE(map->plain().insert_or_assign(1, 10));
    EXPECT_EQ(cue.transactions(), whole[i] + (two_regions ? upper[i] : 0)) << to_string(causes[i]);
  }
}

TEST_P(refused_transactions, exclude_those_of_other_threads) {
  // Each thread has keys of its own, neighbours of the others' in the tree, and adds to a key that all share.
  constexpr std::size_t count = 4;
  constexpr std::size_t steps = address_sanitizer || thread_sanitizer ? 300 : 1500;
  constexpr key shared = 4 * 12;
  for (const plan& p : {none(), unavailable(), all_abort(conflict), all_abort(hopeless),
                        every_third_aborts(hopeless), every_third_aborts(conflict)}) {
    SCOPED_TRACE(p.name);
    const provision provided(p, true);
    const auto map = make(GetParam());
    std::vector<model> expected(count);
    std::array<std::string, count> wrong;
    {
      watchdog dog(GetParam(), *map);
      on_threads(count, [&](int number) {
        const auto t = static_cast<std::size_t>(number);
        const scripted::cue cue(p.steps, p.then);
        random_source random(18, t);
        operations& with = map->plain();
        for (std::size_t i = 0; i < steps && wrong[t].empty(); ++i) {
          map_operation what = map_operation::scan;
          while (is_scan(what)) what = map_operations[random.below(map_operations.size())];
          const step a{what, random.below(12) * count + t, random.next()};
          dog.begin(t, what, a.key);
          if (act(with, a) != act(expected[t], a))
            wrong[t].append(to_string(what)).append(" of the own key ").append(std::to_string(a.key));
          with.update(shared, [](std::optional<value> now) { return now.value_or(0) + 1; });
        }
        dog.done(t);
      });
    }
    model all{{shared, count * steps}};
    for (std::size_t t = 0; t < count; ++t) {
      EXPECT_EQ(wrong[t], "");
      all.merge(expected[t]);
    }
    expect_equal(map->plain(), all, key_range(0, shared));
    expect_sound_at_rest(*map, GetParam());
  }
}

std::string name_of(const ::testing::TestParamInfo<subject_type>& type) {
  std::string name = type.param.name;
  for (char& c : name) {
    if (c == '/' || c == '+') c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(all, refused_transactions, ::testing::ValuesIn(with_mirrors(eliding_maps())),
                         name_of);

}  // namespace
}  // namespace espalier::test
