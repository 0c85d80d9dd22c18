#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Checks a history of transactions for serializability, by its direct serialization graph (Adya, "Weak Consistency", 1999).
// The registers hold lists to which transactions append values that no other transaction appends (as in Elle; Kingsbury and
// Alvaro, VLDB 2020). So a list that was read shows the order of all writes before it, and the engine need not be trusted. A
// register that is absent is an empty list: so a range that was read is a read of all its registers. The check is linear.

namespace espalier::test {

struct committed {
  struct read {
    std::uint64_t of;
    std::vector<std::uint64_t> list;
  };
  struct append {
    std::uint64_t to;
    std::uint64_t value;
  };
  unsigned thread = 0;
  std::vector<read> reads;  ///< before the transaction's own appends to the register
  std::vector<append> appends;
  std::uint64_t epoch = 0;  ///< Silo's
};

/// What is wrong with the history, or nothing. The transactions of each thread are in its order. The last entry is a
/// transaction that has begun after the others and has read all lists.
class serialization_graph {
 public:
  explicit serialization_graph(const std::vector<committed>& all) : all_(all), next_(all.size()) {}

  [[nodiscard]] std::optional<std::string> fault() {
    if (auto wrong = order_writes()) return wrong;
    if (auto wrong = add_reads()) return wrong;
    std::map<unsigned, std::size_t> last;
    for (std::size_t t = 0; t < all_.size(); ++t) {
      if (const auto before = last.find(all_[t].thread); before != last.end())
        add(before->second, t, "is before, in its thread,");
      last[all_[t].thread] = t;
    }
    for (const auto& [thread, t] : last) add(t, all_.size() - 1, "ends before");
    for (std::size_t t = 0; t < all_.size(); ++t) {
      for (const edge& e : next_[t]) {
        if (all_[t].epoch > all_[e.to].epoch)
          return name(t) + ' ' + e.why + ' ' + name(e.to) + ", whose epoch " +
                 std::to_string(all_[e.to].epoch) + " is before " + std::to_string(all_[t].epoch);
      }
    }
    return cycle();
  }

 private:
  struct edge {
    std::size_t to;
    const char* why;
  };

  static std::string name(std::size_t t) { return "T" + std::to_string(t); }
  void add(std::size_t from, std::size_t to, const char* why) {
    if (from != to) next_[from].push_back({to, why});
  }

  /// The longest list of each register, and who has appended what.
  std::optional<std::string> order_writes() {
    for (std::size_t t = 0; t < all_.size(); ++t) {
      for (const committed::append& a : all_[t].appends) writer_[a.value] = t;
      for (const committed::read& r : all_[t].reads) {
        std::vector<std::uint64_t>& longest = lists_[r.of];
        if (r.list.size() > longest.size()) longest = r.list;
      }
    }
    for (std::size_t t = 0; t < all_.size(); ++t) {
      for (const committed::read& r : all_[t].reads) {
        const auto& longest = lists_[r.of];
        if (!std::equal(r.list.begin(), r.list.end(), longest.begin()))
          return name(t) + " has read " + text(r.list) + " of register " + std::to_string(r.of) +
                 ", which is no beginning of " + text(longest);
      }
      for (const committed::append& a : all_[t].appends) {
        const auto& longest = lists_[a.to];
        if (std::find(longest.begin(), longest.end(), a.value) == longest.end())
          return name(t) + " has appended " + std::to_string(a.value) + " to register " +
                 std::to_string(a.to) + ", and it is lost: " + text(longest);
      }
    }
    for (const auto& [of, list] : lists_) {
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (!writer_.contains(list[i]))
          return "register " + std::to_string(of) + " has " + std::to_string(list[i]) +
                 ", of a transaction that did not commit";
        if (i != 0) add(writer_[list[i - 1]], writer_[list[i]], "is overwritten by");
      }
    }
    return std::nullopt;
  }

  std::optional<std::string> add_reads() {
    for (std::size_t t = 0; t < all_.size(); ++t) {
      for (const committed::read& r : all_[t].reads) {
        const auto& longest = lists_[r.of];
        if (!r.list.empty()) add(writer_[r.list.back()], t, "is read by");
        if (r.list.size() < longest.size())
          add(t, writer_[longest[r.list.size()]], "has read before the write of");
      }
    }
    return std::nullopt;
  }

  /// Depth first, without recursion.
  std::optional<std::string> cycle() const {
    enum : std::uint8_t { fresh, open, closed };
    std::vector<std::uint8_t> state(all_.size(), fresh);
    for (std::size_t root = 0; root < all_.size(); ++root) {
      if (state[root] != fresh) continue;
      std::vector<std::pair<std::size_t, std::size_t>> path{
          {root, 0}};  // a transaction, and how many edges were followed
      state[root] = open;
      while (!path.empty()) {
        auto& [t, followed] = path.back();
        if (followed == next_[t].size()) {
          state[t] = closed;
          path.pop_back();
          continue;
        }
        const std::size_t to = next_[t][followed++].to;
        if (state[to] == fresh) {
          state[to] = open;
          path.emplace_back(to, 0);
        } else if (state[to] == open) {
          std::string text = "a cycle:";
          auto at = path.begin();
          while (at->first != to) ++at;
          for (; at != path.end(); ++at) {
            const edge& e = next_[at->first][at->second - 1];
            text += ' ' + name(at->first) + ' ' + e.why;
          }
          return text + ' ' + name(to);
        }
      }
    }
    return std::nullopt;
  }

  static std::string text(const std::vector<std::uint64_t>& list) {
    std::string all = "[";
    for (const std::uint64_t v : list) all += (all.size() > 1 ? " " : "") + std::to_string(v);
    return all + "]";
  }

  const std::vector<committed>& all_;
  std::vector<std::vector<edge>> next_;
  std::map<std::uint64_t, std::vector<std::uint64_t>> lists_;
  std::map<std::uint64_t, std::size_t> writer_;
};

}  // namespace espalier::test
