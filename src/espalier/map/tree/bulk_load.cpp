#include "espalier/map/tree/bulk_load.hpp"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

namespace espalier::btree {

void make_all(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& make) {
  struct joined_threads {
    std::vector<std::thread> all;
    joined_threads() = default;
    joined_threads(const joined_threads&) = delete;
    joined_threads& operator=(const joined_threads&) = delete;
    ~joined_threads() {
      for (std::thread& t : all) t.join();
    }
  };
  const std::size_t parts = std::clamp<std::size_t>(threads, 1, count);
  std::vector<std::exception_ptr> errors(parts);
  const auto make_part = [&](std::size_t part) {
    try {
      for (std::size_t i = begin_of(part, parts, count); i < begin_of(part + 1, parts, count); ++i) make(i);
    } catch (...) {
      errors[part] = std::current_exception();
    }
  };
  {
    joined_threads others;
    others.all.reserve(parts);
    for (std::size_t part = 1; part < parts; ++part) others.all.emplace_back(make_part, part);
    make_part(0);
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace espalier::btree
