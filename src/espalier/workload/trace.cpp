#include "espalier/workload/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>

#include "espalier/io/text.hpp"

namespace espalier::workload {

namespace {

struct form {
  map_operation operation;
  std::string_view word;
  std::string_view usage;
  std::size_t numbers;
};

constexpr std::array<form, 8> forms{{
    {map_operation::find, "lookup", "lookup KEY", 1},
    {map_operation::insert, "insert", "insert KEY VALUE", 2},
    {map_operation::insert_or_assign, "assign", "assign KEY VALUE", 2},
    {map_operation::erase, "erase", "erase KEY", 1},
    {map_operation::exchange, "exchange", "exchange KEY VALUE", 2},
    {map_operation::extract, "extract", "extract KEY", 1},
    {map_operation::update, "add", "add KEY AMOUNT", 2},
    {map_operation::scan, "scan", "scan KEY COUNT", 2},
}};

constexpr std::string_view all_forms =
    "lookup KEY, insert KEY VALUE, assign KEY VALUE, erase KEY, exchange KEY VALUE, extract KEY, add KEY "
    "AMOUNT or scan KEY COUNT";
constexpr std::string_view blanks = " \t\r";

// Removes the first word of `rest` and returns it; empty at the end of the line.
std::string_view take_word(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(blanks), rest.size()));
  const auto word = rest.substr(0, rest.find_first_of(blanks));
  rest.remove_prefix(word.size());
  return word;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  if (hexadecimal) text.remove_prefix(2);
  return io::parse_whole<std::uint64_t>(text, hexadecimal ? 16 : 10);
}

const form& form_of(map_operation op) {
  const auto* const found =
      std::find_if(forms.begin(), forms.end(), [&](const form& f) { return f.operation == op; });
  if (found == forms.end())
    throw std::invalid_argument(fmt::format("a trace has no form of the operation {}", to_string(op)));
  return *found;
}

class line_parser {
 public:
  line_parser(std::string_view name, std::uint64_t line) : name_(name), line_(line) {}

  std::optional<step> parse(std::string_view text) const {
    auto rest = text.substr(0, text.find('#'));
    const auto word = take_word(rest);
    if (word.empty()) return std::nullopt;
    const auto* const found =
        std::find_if(forms.begin(), forms.end(), [&](auto& f) { return f.word == word; });
    if (found == forms.end()) refuse(fmt::format("unknown operation {}", io::quoted(word)), all_forms);

    std::array<std::uint64_t, 2> numbers{};
    std::size_t count = 0;
    for (auto next = take_word(rest); !next.empty(); next = take_word(rest), ++count) {
      if (count == found->numbers)
        refuse(fmt::format("{} after the end of the operation", io::quoted(next)), found->usage);
      const auto number = parse_number(next);
      if (!number) refuse(io::quoted(next), "an unsigned 64-bit number, decimal or 0x hexadecimal");
      numbers[count] = *number;
    }
    if (count < found->numbers) {
      refuse(fmt::format("'{}' with {} of {} numbers", word, count, found->numbers), found->usage);
    }
    return step{found->operation, numbers[0], numbers[1]};
  }

 private:
  [[noreturn]] void refuse(std::string_view what, std::string_view expected) const {
    throw std::invalid_argument(fmt::format("{}:{}: found {}; expected {}", name_, line_, what, expected));
  }

  std::string_view name_;
  std::uint64_t line_;
};

[[noreturn]] void fail(int error, std::string_view verb, const std::filesystem::path& file) {
  throw std::system_error(error != 0 ? error : EIO, std::generic_category(),
                          fmt::format("cannot {} trace '{}'", verb, file.string()));
}

}  // namespace

std::vector<step> read_trace(std::istream& in, std::string_view name) {
  std::vector<step> steps;
  std::string line;
  for (std::uint64_t number = 1; std::getline(in, line); ++number) {
    if (const auto found = line_parser(name, number).parse(line)) steps.push_back(*found);
  }
  if (in.bad()) fail(errno, "read", name);
  return steps;
}

std::vector<step> read_trace(const std::filesystem::path& file) {
  if (std::filesystem::is_directory(file))
    fail(EISDIR, "open", file);  // a stream would open it and read no bytes
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) fail(errno, "open", file);
  return read_trace(in, file.string());
}

void write_trace(io::output_file& file, std::span<const step> steps) {
  constexpr std::size_t piece = std::size_t{1} << 16U;
  std::string text;
  for (const step& s : steps) {
    const form& line = form_of(s.op);
    text += fmt::format("{} {}", line.word, s.key);
    if (line.numbers == 2) text += fmt::format(" {}", s.argument);
    text += '\n';
    if (text.size() < piece) continue;
    file.write(text);
    text.clear();
  }
  file.commit(text);
}

void trace_recorder::lane::record(const step& performed) {
  // relaxed suffices: increments of one atomic are totally ordered and agree with happens-before, and the entries
  // themselves are read only after the threads have ended.
  entries_.push_back({next_->fetch_add(1, std::memory_order_relaxed), performed});
}

trace_recorder::trace_recorder(unsigned threads, std::size_t expected) {
  if (threads == 0) throw std::invalid_argument("a trace recorder for 0 threads; at least 1 is needed");
  lanes_.reserve(threads);
  for (unsigned thread = 0; thread < threads; ++thread) {
    lanes_.push_back(lane(next_));
    lanes_.back().entries_.reserve(expected);
  }
}

std::vector<step> trace_recorder::steps() const {
  std::vector<lane::entry> all;
  for (const auto& each : lanes_) all.insert(all.end(), each.entries_.begin(), each.entries_.end());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  std::vector<step> steps;
  steps.reserve(all.size());
  for (const auto& entry : all) steps.push_back(entry.performed);
  return steps;
}

}  // namespace espalier::workload
