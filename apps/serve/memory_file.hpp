#pragma once

#include <string>

#include "espalier/memcached/service.hpp"

namespace espalier::app::serving {

using memcached::service;

/// A file in which a server leaves its entries for the next one. It is for one start: what it has is gone when it was read, so
/// that a server that is killed leaves nothing.
class memory_file {
 public:
  /// Throws usage_error if it cannot be opened, or if another server has it.
  explicit memory_file(const std::string& path);
  memory_file(const memory_file&) = delete;
  memory_file& operator=(const memory_file&) = delete;
  ~memory_file();

  /// Adds the entries to a cache that is empty, before anything else uses the service. Returns why it stays empty; nothing, if
  /// the entries are there, or if the file has none.
  [[nodiscard]] std::string load(service& into);
  /// Takes the entries out of a service that nothing else uses any more. Returns why the file has none; nothing, if it has.
  [[nodiscard]] std::string save(service& from);

 private:
  int descriptor_;
};

}  // namespace espalier::app::serving
