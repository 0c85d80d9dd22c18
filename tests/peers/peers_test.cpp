#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>
#include <string_view>

#include "espalier/map/map_facade.hpp"
#include "espalier/peers_config.hpp"
#include "peers/checks.hpp"

// The checks themselves: they pass a correct map and catch maps that are wrong on purpose.

namespace espalier::peers {
namespace {

enum class fault {
  none,
  insert_overwrites,
  erase_always_true,
  lost_value,
  half_scan,
  scan_repeats_bound,
  counts_too_many,
  lacks_erase_silently,
  lacks_size_silently
};

struct plain_guard {};
struct plain_scope {
  plain_scope() noexcept {}
};

template <fault Fault>
class locked_map : public map_facade<locked_map<Fault>, std::uint64_t, std::uint64_t, std::less<>,
                                     plain_guard, uncounted_size> {
  using facade =
      map_facade<locked_map, std::uint64_t, std::uint64_t, std::less<>, plain_guard, uncounted_size>;
  friend facade;

 public:
  using typename facade::key_type;
  using typename facade::mapped_type;
  using thread_scope = plain_scope;

  static constexpr map_properties properties{.name = "locked_map",
                                             .find_progress = progress::blocking,
                                             .update_progress = progress::blocking,
                                             .shape = balance::strict,
                                             .scan = scan_guarantee::snapshot,
                                             .region_protection = false,
                                             .paper = "std::map",
                                             .reads_beside_writers = true,
                                             .updates_await_reads = false,
                                             .exchanges = false};
  static constexpr bool supports_erase = Fault != fault::lacks_erase_silently;
  static constexpr bool supports_scan = true;
  static constexpr bool supports_size = Fault != fault::lacks_size_silently;

  locked_map() = default;

  plain_guard pin() const { return {}; }

 private:
  std::optional<mapped_type> do_find(plain_guard&, key_type k) const {
    const std::scoped_lock lock(mutex_);
    const auto at = map_.find(k);
    if (at == map_.end()) return std::nullopt;
    return Fault == fault::lost_value ? 0 : at->second;
  }
  bool do_contains(plain_guard&, key_type k) const {
    const std::scoped_lock lock(mutex_);
    return map_.contains(k);
  }
  bool do_insert(plain_guard&, key_type k, mapped_type v) {
    const std::scoped_lock lock(mutex_);
    if (Fault == fault::insert_overwrites) return map_.insert_or_assign(k, v).second;
    return map_.emplace(k, v).second;
  }
  bool do_assign(plain_guard&, key_type k, mapped_type v) {
    const std::scoped_lock lock(mutex_);
    return map_.insert_or_assign(k, v).second;
  }
  bool do_erase(plain_guard&, key_type k) {
    const std::scoped_lock lock(mutex_);
    return map_.erase(k) != 0 || Fault == fault::erase_always_true;
  }
  template <class Visit>
  void do_scan(plain_guard&, const scan_bound<key_type, std::less<>>& bound, Visit&& visit) const {
    const std::scoped_lock lock(mutex_);
    auto at = bound.key() == nullptr ? map_.begin() : map_.lower_bound(*bound.key());
    if (Fault != fault::scan_repeats_bound && at != map_.end() && !bound.admits(at->first)) ++at;
    for (; at != map_.end(); ++at) {
      if (Fault == fault::half_scan && at->first % 4 == 0) continue;
      if (!visit(at->first, at->second)) break;
    }
  }
  std::size_t do_size() const {
    const std::scoped_lock lock(mutex_);
    return map_.size() + (Fault == fault::counts_too_many ? 1 : 0);
  }

  mutable std::mutex mutex_;
  std::map<key_type, mapped_type> map_;
};

TEST(peer_checks, pass_a_correct_map) {
  using map = locked_map<fault::none>;
  EXPECT_EQ(checks::agrees_with_model<map>(8000, 1), "");
  EXPECT_EQ(checks::refuses_what_it_lacks<map>(), "");
  EXPECT_EQ(checks::conserves_keys<map>(20000, 1), "");
  EXPECT_EQ(checks::scans_beside_updates<map>(200), "");
}

TEST(peer_checks, catch_wrong_maps) {
  EXPECT_NE(checks::agrees_with_model<locked_map<fault::insert_overwrites>>(8000, 1), "");
  EXPECT_NE(checks::agrees_with_model<locked_map<fault::lost_value>>(8000, 1), "");
  EXPECT_NE(checks::agrees_with_model<locked_map<fault::half_scan>>(8000, 1), "");
  EXPECT_NE(checks::conserves_keys<locked_map<fault::erase_always_true>>(2000, 1), "");
  EXPECT_NE(checks::conserves_keys<locked_map<fault::lost_value>>(2000, 1), "");
  EXPECT_NE(checks::agrees_with_model<locked_map<fault::counts_too_many>>(8000, 1), "");
  EXPECT_NE(checks::scans_beside_updates<locked_map<fault::half_scan>>(200), "");
  EXPECT_NE(checks::scans_beside_updates<locked_map<fault::scan_repeats_bound>>(200), "");
  EXPECT_NE(checks::refuses_what_it_lacks<locked_map<fault::lacks_erase_silently>>(), "");
  EXPECT_NE(checks::refuses_what_it_lacks<locked_map<fault::lacks_size_silently>>(), "");
}

TEST(peers_config, lists_each_peer_once) {
  std::set<std::string_view> names(built.begin(), built.end());
  EXPECT_EQ(names.size(), built.size());
  for (const missing_peer& peer : missing) {
    EXPECT_TRUE(names.insert(peer.name).second) << peer.name;
    EXPECT_NE(peer.packages.find("-dev"), std::string_view::npos) << peer.name;
  }
  const std::set<std::string_view> all{"absl_shared_mutex", "absl_speculative", "cds_bronson",
                                       "cds_ellen",         "cds_skip_list",    "tbb_concurrent_map"};
  EXPECT_EQ(names, enabled ? all : std::set<std::string_view>{});
}

}  // namespace
}  // namespace espalier::peers
