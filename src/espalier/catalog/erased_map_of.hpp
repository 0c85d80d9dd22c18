#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "espalier/catalog/erased_map.hpp"
#include "espalier/catalog/step.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/elision.hpp"

namespace espalier::catalog {

/// Interface: erased_map, or one that derives from it, with more functions for a class that derives from this one.
template <concurrent_ordered_map Map, codec Codec = number_codec<>, class Interface = erased_map>
class erased_map_of : public Interface {
 public:
  template <class... Arguments>
  explicit erased_map_of(const Arguments&... arguments) : Interface(Map::properties), map_(arguments...) {}

  std::uint64_t apply_all(std::span<const step> steps) override {
    std::uint64_t sum = 0;
    for (const step& s : steps) sum += apply<Codec>(map_, s);
    return sum;
  }

  /// For a map from a library that must be notified of each thread: each thread holds an object of this type.
  [[nodiscard]] std::shared_ptr<void> thread_scope() const override {
    if constexpr (requires { typename Map::thread_scope; })
      return std::make_shared<typename Map::thread_scope>();
    return nullptr;
  }

  [[nodiscard]] std::optional<memory_usage> usage() const override {
    if constexpr (requires { map_.usage(); }) return map_.usage();
    return std::nullopt;
  }

  [[nodiscard]] std::optional<std::uint64_t> leaked_bytes() override {
    if constexpr (requires {
                    map_.usage();
                    map_.visit_nodes([](const void*, std::size_t, memory_role) {});
                  }) {
      if constexpr (requires { map_.domain().collect(); }) {
        while (map_.domain().collect() != 0) {
        }
      }
      std::uint64_t blocks = 0;
      std::uint64_t bytes = 0;
      map_.visit_nodes([&](const void* memory, std::size_t block_bytes, memory_role role) {
        ++blocks;
        bytes += espalier::bytes_held(map_.placement(), memory, block{block_bytes, alignof(void*), role});
      });
      const memory_usage used = map_.usage();
      if (used.blocks == blocks) return 0;
      return used.bytes_in_use > bytes ? used.bytes_in_use - bytes : 0;
    } else {
      return std::nullopt;
    }
  }

  [[nodiscard]] std::vector<elision_counts> transactions() const override {
    std::vector<elision_counts> counts;
    if constexpr (counts_transactions<Map>) {
      for (std::size_t region = 0; region < Map::transaction_regions.size(); ++region)
        counts.push_back(map_.transactions(region));
    }
    return counts;
  }

  [[nodiscard]] const any_placement* recording_placement() const override {
    if constexpr (requires { map_.placement().for_each_live([](const live_block&) {}); })
      return &map_.placement();
    return nullptr;
  }

  bool visit_nodes(erased_map::node_function visit, void* visitor) const override {
    if constexpr (requires { map_.visit_nodes([](const void*, std::size_t, memory_role) {}); }) {
      map_.visit_nodes([=](const void* memory, std::size_t bytes, memory_role role) {
        visit(visitor, memory, bytes, role);
      });
      return true;
    } else {
      return false;
    }
  }

 protected:
  Map map_;
};

}  // namespace espalier::catalog
