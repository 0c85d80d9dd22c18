#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace espalier::app {

/// What `espalier bench` was told, as text and numbers not yet checked.
struct bench_options {
  bool quick = false;
  std::vector<std::string> maps;
  std::vector<std::string> placements;
  bool peers = false;
  std::vector<std::string> mixes;
  std::string distribution;
  std::string order = "scrambled";
  std::uint64_t keys = 1'000'000;
  std::string keys_from;
  std::string trace;
  std::string record;
  std::vector<std::int64_t> threads;
  std::int64_t runs = 5;
  double seconds = 1;
  std::int64_t operations = 0;
  std::string pin = "cores";
  std::uint64_t seed = 42;
  std::int64_t latency_every = 16;
  bool no_leak_check = false;
  std::string out;
  std::string json;
  std::string csv;
  std::string report;
  std::string hgrm;
};

void declare(CLI::App& verb, bench_options& options);

}  // namespace espalier::app
