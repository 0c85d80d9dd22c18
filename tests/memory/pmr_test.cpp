#include "espalier/memory/pmr.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <new>
#include <utility>

#include "espalier/map/bst/ticket.hpp"

namespace espalier {
namespace {

/// Passes on to the heap, remembers what is out and how it was asked for, and refuses on demand.
class counting_resource final : public std::pmr::memory_resource {
 public:
  std::map<void*, std::pair<std::size_t, std::size_t>> out;
  std::size_t allocations = 0;
  bool refuse = false;

 private:
  void* do_allocate(std::size_t bytes, std::size_t align) override {
    if (refuse) throw std::bad_alloc();
    ++allocations;
    void* const memory = std::pmr::new_delete_resource()->allocate(bytes, align);
    out[memory] = {bytes, align};
    return memory;
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t align) override {
    EXPECT_TRUE(out.contains(memory));
    EXPECT_EQ(out[memory], (std::pair{bytes, align})) << "must come back as it was asked for";
    out.erase(memory);
    std::pmr::new_delete_resource()->deallocate(memory, bytes, align);
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }
};

TEST(pmr, passes_size_and_alignment_on) {
  counting_resource resource;
  pmr_placement source(&resource);
  void* const small = source.allocate({40, 8, memory_role::node});
  void* const aligned = source.allocate({64, 64, memory_role::leaf});
  EXPECT_EQ(resource.out[small], (std::pair<std::size_t, std::size_t>{40, 8}));
  EXPECT_EQ(resource.out[aligned], (std::pair<std::size_t, std::size_t>{64, 64}));
  EXPECT_EQ(source.usage().blocks, 2U);
  EXPECT_EQ(source.usage().bytes_in_use, 104U);
  source.deallocate(small, {40, 8, memory_role::node});
  source.deallocate(aligned, {64, 64, memory_role::leaf});
  EXPECT_TRUE(resource.out.empty());
  EXPECT_EQ(source.usage().blocks, 0U);
  EXPECT_EQ(source.usage().bytes_in_use, 0U);
  EXPECT_FALSE(pmr_placement::releases_on_destruction);
}

TEST(pmr, a_refusal_is_not_counted) {
  counting_resource resource;
  pmr_placement source(&resource);
  resource.refuse = true;
  EXPECT_THROW((void)source.allocate({40, 8, memory_role::node}), std::bad_alloc);
  EXPECT_EQ(source.usage().blocks, 0U);
  resource.refuse = false;
  source.deallocate(source.allocate({40, 8, memory_role::node}), {40, 8, memory_role::node});
  EXPECT_EQ(resource.allocations, 1U);
}

TEST(pmr, uses_the_default_resource_unless_told) {
  counting_resource resource;
  std::pmr::memory_resource* const before = std::pmr::set_default_resource(&resource);
  pmr_placement source;
  std::pmr::set_default_resource(before);
  const block b{24, 8, memory_role::value};
  source.deallocate(source.allocate(b), b);
  EXPECT_EQ(resource.allocations, 1U);
}

TEST(pmr, a_map_takes_every_node_from_it_and_returns_every_one) {
  counting_resource resource;
  {
    ticket<std::uint64_t, std::uint64_t, map_traits::with_placement<pmr_placement>> map(nullptr, &resource);
    for (std::uint64_t k = 0; k < 500; ++k) map.insert(k * 2654435761U % 1009, k);
    for (std::uint64_t k = 0; k < 250; ++k) map.erase(k * 2654435761U % 1009);
    EXPECT_GE(resource.out.size(), 2U * 250 - 1) << "a leaf for each key, a router for each but one";
    EXPECT_EQ(map.usage().blocks, resource.out.size());
  }
  EXPECT_TRUE(resource.out.empty());
}

}  // namespace
}  // namespace espalier
