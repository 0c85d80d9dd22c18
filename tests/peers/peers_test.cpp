#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "espalier/peers_config.hpp"
#include "peers/checks.hpp"
#include "support/plain_map.hpp"

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

struct plain_scope {
  plain_scope() noexcept {}
};

template <fault Fault>
struct locked_map : test::plain_map<locked_map<Fault>> {
  using plain = test::plain_map<locked_map>;
  using typename plain::hold;
  using typename plain::key;
  using typename plain::value;
  using thread_scope = plain_scope;

  static constexpr map_properties properties = test::plain_properties("locked_map", false);
  static constexpr bool supports_erase = Fault != fault::lacks_erase_silently;
  static constexpr bool supports_scan = true;
  static constexpr bool supports_size = Fault != fault::lacks_size_silently;

  std::optional<value> do_find(no_guard& guard, key k) const {
    const std::optional<value> found = plain::do_find(guard, k);
    return found && Fault == fault::lost_value ? 0 : found;
  }
  bool do_insert(no_guard& guard, key k, value v) {
    return Fault == fault::insert_overwrites ? this->do_assign(guard, k, v) : plain::do_insert(guard, k, v);
  }
  bool do_erase(no_guard& guard, key k) {
    return plain::do_erase(guard, k) || Fault == fault::erase_always_true;
  }
  template <class Visit>
  void do_scan(no_guard&, const scan_bound<key, std::less<>>& bound, Visit&& visit) const {
    const hold lock(this->mutex_);
    auto at = bound.key() == nullptr ? this->map_.begin() : this->map_.lower_bound(*bound.key());
    if (Fault != fault::scan_repeats_bound && at != this->map_.end() && !bound.admits(at->first)) ++at;
    for (; at != this->map_.end(); ++at) {
      if (Fault == fault::half_scan && at->first % 4 == 0) continue;
      if (!visit(at->first, at->second)) break;
    }
  }
  std::size_t do_size() const { return plain::do_size() + (Fault == fault::counts_too_many ? 1 : 0); }
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
