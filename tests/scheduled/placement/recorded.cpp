// A recorded placement knows exactly its blocks in use.

#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "espalier/memory/recorded.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "scheduled/scenes.hpp"

namespace espalier::sim {
namespace {

constexpr block request_of(std::size_t thread) { return {24, 8, static_cast<memory_role>(thread)}; }

/// The heap, but the next allocation gets the block that was freed last.
class eager_heap {
 public:
  static constexpr std::string_view name = "eager";
  static constexpr bool releases_on_destruction = false;

  ~eager_heap() {
    if (void* const memory = given_.load()) heap_.deallocate(memory, request_of(0));
  }
  [[nodiscard]] void* allocate(const block& b, const void* near = nullptr) {
    void* const memory = given_.exchange(nullptr);
    return memory != nullptr ? memory : heap_.allocate(b, near);
  }
  void deallocate(void* memory, const block& b) noexcept {
    if (void* const before = given_.exchange(memory)) heap_.deallocate(before, b);
  }
  [[nodiscard]] memory_usage usage() const noexcept { return heap_.usage(); }

 private:
  shared_heap heap_;
  std::atomic<void*> given_{nullptr};
};

using source_type = recorded<eager_heap>;

struct kept_blocks {
  std::array<void*, 3> of{};
};

/// Each thread ends with one block in use. The records hold exactly those, each as its thread requested it.
ESPALIER_SCENE(recorded, give_and_take, 50) {
  auto& source = s.make<source_type>();
  auto& kept = s.make<kept_blocks>();
  for (std::size_t t = 0; t < kept.of.size(); ++t) {
    s.thread(std::string(1, static_cast<char>('a' + t)), [&, t] {
      for (int i = 0; i < 3; ++i) source.deallocate(source.allocate(request_of(t)), request_of(t));
      kept.of[t] = source.allocate(request_of(t));
    });
  }
  s.at_end([&] {
    std::map<void*, memory_role> live;
    source.for_each_live([&](const live_block& b) {
      require(live.emplace(b.memory, b.asked.role).second, "a block is recorded twice");
    });
    std::map<void*, memory_role> expected;
    for (std::size_t t = 0; t < kept.of.size(); ++t) expected[kept.of[t]] = request_of(t).role;
    require(live == expected, "the record is of the blocks in use");
    for (std::size_t t = 0; t < kept.of.size(); ++t) source.deallocate(kept.of[t], request_of(t));
  });
}

}  // namespace
}  // namespace espalier::sim
