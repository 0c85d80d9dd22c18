#include "preload/heap/block_geometry.hpp"

#include <gtest/gtest.h>

#include <cstddef>

namespace espalier::preload {
namespace {

TEST(block_geometry, finds_the_class_of_every_size) {
  for (std::size_t bytes = 0; bytes <= index_class::largest_bytes + 1; ++bytes)
    ASSERT_EQ(class_of(bytes), index_class::of(bytes, least_align)) << bytes;
  EXPECT_EQ(class_of(~std::size_t{0}), index_class::none);
}

TEST(block_geometry, gives_every_size_a_stride_that_holds_it_and_keeps_it_aligned) {
  for (std::size_t bytes = 0; bytes <= index_class::largest_bytes; ++bytes) {
    const std::size_t stride = geometries[class_of(bytes)].stride;
    ASSERT_GE(stride, bytes);
    ASSERT_EQ(stride % least_align, 0U) << bytes;
  }
}

TEST(block_geometry, divides_as_the_processor_does) {
  for (const std::size_t divisor : {1U, 3U, 16U, 48U, 192U, 4160U, 32'832U, 262'143U, 262'144U}) {
    const reciprocal by = reciprocal::of(divisor);
    for (std::size_t n = 0; n <= region_bytes; ++n)
      ASSERT_EQ(by.divide(n), n / divisor) << n << "/" << divisor;
  }
}

TEST(block_geometry, finds_the_beginning_of_every_block_from_every_offset) {
  for (std::size_t c = 0; c < index_class::count; ++c) {
    const index_class::shape shape = index_class::shape_of(c);
    const block_geometry& quick = geometries[c];
    for (std::size_t offset = 0; offset < region_bytes; offset += offset < 32'768 ? 1 : 61)
      ASSERT_EQ(quick.start_of(offset), shape.offset(shape.block_at(offset))) << offset << " of class " << c;
    for (std::size_t i = 0; shape.offset(i) < region_bytes; ++i)
      ASSERT_EQ(quick.start_of(shape.offset(i)), shape.offset(i)) << "block " << i << " of class " << c;
  }
}

}  // namespace
}  // namespace espalier::preload
