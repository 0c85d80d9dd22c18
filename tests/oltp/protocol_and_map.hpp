#pragma once

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "espalier/oltp/database.hpp"

// The protocols and maps for which a suite of the database is instantiated.

namespace espalier::oltp {

/// A protocol, and the map of the indexes.
using protocol_and_map = std::tuple<protocol, std::string>;

inline database_options options_of(const protocol_and_map& e, unsigned commits_per_epoch) {
  // Each form of rows with some map.
  return {.map = std::get<1>(e),
          .by = std::get<0>(e),
          .rows_as = std::get<1>(e) == "ticket" ? row_form::dbx : row_form::plain,
          .commits_per_epoch = commits_per_epoch};
}

inline std::string name_of(const testing::TestParamInfo<protocol_and_map>& info) {
  return std::string(to_string(std::get<0>(info.param))) + "_" + std::get<1>(info.param);
}

}  // namespace espalier::oltp
