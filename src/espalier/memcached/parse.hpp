#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/io/text.hpp"
#include "espalier/memcached/clock.hpp"

// A command as a client has sent it, and what reads it from the input: parse.cpp the text protocol, parse_binary.cpp the binary
// one. Nothing here knows how entries are stored.

namespace espalier::memcached {

inline constexpr std::size_t longest_key = 250;
/// A command line without its end; one that looks up keys may be longer.
inline constexpr std::size_t longest_line = 2048;
inline constexpr std::string_view bad_format = "CLIENT_ERROR bad command line format";
inline constexpr std::string_view bad_end = "CLIENT_ERROR invalid exptime argument";

/// The words of a line, which are separated by blanks.
class words {
 public:
  explicit words(std::string_view line) noexcept : at_(line.data()), end_(line.data() + line.size()) {}

  /// Empty at the end.
  std::string_view next() noexcept {
    const char* begin = at_;
    while (begin != end_ && *begin == ' ') ++begin;
    const char* end = begin;
    while (end != end_ && *end != ' ') ++end;
    at_ = end;
    return {begin, static_cast<std::size_t>(end - begin)};
  }
  [[nodiscard]] std::string_view rest() const noexcept { return {at_, static_cast<std::size_t>(end_ - at_)}; }

 private:
  const char* at_;
  const char* end_;
};

template <class Number>
bool read_number(std::string_view text, Number& number) noexcept {
  const auto value = io::parse_whole<Number>(text);
  if (value) number = *value;
  return value.has_value();
}

enum class verb : std::uint8_t {
  look_up,  // get, gets, gat, gats
  store,
  calculate,
  touch,
  erase,
  meta_look_up,
  meta_store,
  meta_erase,
  meta_calculate,
  meta_nothing,
  meta_debug,
  other,
  refused,
  binary,
  hang_up,
};

/// The commands of the binary protocol, by their numbers. Those that are quiet have others.
enum class binary_verb : std::uint8_t {
  get = 0x00,
  set = 0x01,
  add = 0x02,
  replace = 0x03,
  erase = 0x04,
  increment = 0x05,
  decrement = 0x06,
  quit = 0x07,
  flush = 0x08,
  nothing = 0x0A,
  version = 0x0B,
  get_with_key = 0x0C,
  append = 0x0E,
  prepend = 0x0F,
  stat = 0x10,
  touch = 0x1C,
  get_and_touch = 0x1D,
  list_mechanisms = 0x20,
  log_in = 0x21,
  log_in_step = 0x22,
  get_and_touch_with_key = 0x23,
  refused = 0xFF,  ///< with the command's status
};

/// Of a command, and of a reply.
inline constexpr std::size_t binary_header_bytes = 24;

enum class binary_status : std::uint8_t {
  done = 0x00,
  not_found = 0x01,
  exists = 0x02,
  too_large = 0x03,
  invalid = 0x04,
  not_stored = 0x05,
  not_a_number = 0x06,
  not_allowed = 0x20,
  unknown = 0x81,
  no_memory = 0x82,
};

enum class store_mode : std::uint8_t { set, add, replace, append, prepend, compare };

struct command {
  verb what;
  bool quiet;
  bool is_last;        // nothing after it can be parsed before it is executed
  bool shows_version;  // look_up
  bool touches;        // look_up
  bool drops_old;      // refused: the key has no value any more
  bool counts_size;    // refused: the value was too large
  bool decreases;      // calculate
  store_mode mode;     // store
  binary_verb request;
  binary_status status;  // of a binary command that is refused
  bool closes;           // the connection, after the reply
  std::uint8_t opcode;   // as it was sent
  char given_mode;       // of a meta command
  std::uint8_t shown_flags;
  std::uint32_t flags;
  std::uint32_t end;
  std::uint32_t end_if_new;  // N
  std::uint32_t recache;     // R
  std::size_t size;          // of the command in the input
  std::size_t skipped;       // bytes of its value that are not in the input yet
  std::size_t first_key;     // look_up: several keys, in the batch
  std::size_t keys;
  std::string_view key;
  std::uint64_t hash;  // of the key, which the session computes
  std::string_view key_text;
  std::string_view line;
  std::string_view value;
  std::string_view reply;  // refused
  std::string_view opaque;
  std::uint64_t given;  // flags of a meta command
  std::uint64_t version;
  std::uint64_t new_version;
  std::uint64_t delta;
  std::uint64_t initial;
  std::array<char, 20> shown;  // flags that the reply has too, or that act in order
  std::array<char, 188> decoded;

  [[nodiscard]] static constexpr std::uint64_t bit(char flag) noexcept {
    return std::uint64_t{1} << static_cast<unsigned>(flag - 'A');
  }
  [[nodiscard]] static consteval std::uint64_t bits(std::string_view flags) noexcept {
    std::uint64_t all = 0;
    for (const char flag : flags) all |= bit(flag);
    return all;
  }
  [[nodiscard]] bool has(char flag) const noexcept { return (given & bit(flag)) != 0; }

  void refuse(std::string_view with) noexcept {
    what = verb::refused;
    reply = with;
  }
};

/// What earlier input has told of a command that is not complete.
struct incomplete_command {
  std::size_t scanned = 0;  // bytes that have no end of line
  std::size_t wanted = 1;   // bytes without which it is not complete
  // Of a store that lacks some of its value, and may have it elsewhere than in the input.
  bool lacks_value = false;
  std::size_t line_bytes = 0;
  std::size_t key_bytes = 0;
  std::size_t value_bytes = 0;
  // To pass, with the line alone as input, when the value has come.
  const char* value = nullptr;
  bool value_ends_well = true;  // with an end of line
};

/// What commands mean depends on it.
struct parse_context {
  const second_clock& clock;
  std::size_t largest_entry;  ///< bytes of a key and its value
  bool is_binary = false;
  bool asks_for_user = false;  ///< binary: what needs one is refused
};

/// Reads commands at the beginning of the input, as many as `to` has room for, up to one after which none can be read. The keys
/// of a command with several are appended to `keys`. Returns the number of complete commands. If it is 0, `first` says how much
/// of one there is. A command refers to the input.
std::size_t parse_commands(std::string_view input, std::span<command> to, const parse_context& context,
                           std::vector<std::string_view>& keys, incomplete_command& first);

/// One command of the binary protocol, for parse_commands(). Returns its size in the input; 0: it is not complete. `first` is null
/// while commands before this one have not been executed.
std::size_t parse_binary(std::string_view input, command& to, const parse_context& context,
                         incomplete_command* first);

}  // namespace espalier::memcached
