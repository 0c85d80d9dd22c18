#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "espalier/measure/random.hpp"
#include "espalier/memcached/session.hpp"

// Conversations with a session of the cache server, without sockets, and scripts of them: bytes that a fuzzer or a test
// writes. The first byte of a script says how the others are cut into pieces; they are what a client sends. The replies may
// not depend on the pieces, and a client can tell where each of them ends.

namespace espalier::memcached {

struct choice {
  settings chosen;
  cache_options memory;

  choice() {
    chosen.test_clock = true;
    memory.memory_limit = std::size_t{4} << 20U;
    memory.largest_entry = std::size_t{64} << 10U;
  }
};

/// What a socket would take, which is then out of the output.
inline std::string all_of(output& out) {
  std::string text;
  while (!out.empty()) {
    iovec part;
    static_cast<void>(out.pending(&part, 1));
    // In halves: what a socket takes ends anywhere.
    const std::size_t bytes = (part.iov_len + 1) / 2;
    text.append(static_cast<const char*>(part.iov_base), bytes);
    out.sent(bytes);
  }
  return text;
}

/// One connection to a server of its own, whose clock stands.
class conversation {
 public:
  explicit conversation(const choice& with = {})
      : shared(with.chosen, with.memory), commands_(shared), batch_(shared) {
    shared.clock().stand();
  }

  /// Passes more input, and returns all replies so far.
  const std::string& say(std::string_view input) {
    input_ += input;
    while (!closed && !input_.empty()) {
      // A copy of this size: AddressSanitizer sees a read behind its end.
      const auto passed = std::make_unique_for_overwrite<char[]>(input_.size());
      std::ranges::copy(input_, passed.get());
      const std::size_t used = commands_.consume({passed.get(), input_.size()}, out_, batch_, turn);
      if (used > input_.size()) throw std::logic_error("more input was used than there was");
      input_.erase(0, used);
      most_output = std::max(most_output, out_.size());
      send_all();
      closed = commands_.next() == session::step::close;
      if (commands_.next() == session::step::receive) break;
    }
    return replies;
  }
  /// Writes a part of a large value to its place, as a server does. Returns the rest, which belongs to say().
  std::string_view receive(std::string_view part) {
    const auto room = commands_.room();
    const std::size_t bytes = std::min(room.size(), part.size());
    std::copy_n(part.data(), bytes, room.data());
    commands_.received(bytes);
    return part.substr(bytes);
  }
  /// Executes without sending replies, which wait in the output.
  void execute(std::string_view input) {
    if (commands_.consume(input, out_, batch_, turn) != input.size())
      throw std::logic_error("input is left over");
  }
  /// The replies that wait.
  const std::string& sent() {
    send_all();
    return replies;
  }

  /// The replies to this alone.
  std::string ask(std::string_view input) {
    replies.clear();
    return say(input);
  }

  [[nodiscard]] const session& commands() const { return commands_; }
  [[nodiscard]] std::size_t unused() const { return input_.size(); }

  service shared;
  std::string replies;
  bool closed = false;
  std::size_t most_output = 0;
  unsigned turn = 20;

 private:
  void send_all() { replies += all_of(out_); }

  session commands_;
  batch batch_;
  output out_;
  std::string input_;
};

/// Where the first reply that a client cannot read begins; npos: there is none.
inline std::size_t unreadable(std::string_view replies) {
  constexpr std::array whole_lines{"STORED",  "NOT_STORED", "EXISTS", "NOT_FOUND", "END", "DELETED",
                                   "TOUCHED", "OK",         "ERROR",  "RESET",     "MN"};
  constexpr std::array beginnings{
      "HD",      "EN",       "NF",        "NS",  "EX",        "ME ",           "STAT ",       "ITEM ",
      "PREFIX ", "VERSION ", "BADCLASS ", "mg ", "MEMLIMIT_", "CLIENT_ERROR ", "SERVER_ERROR"};
  for (std::size_t at = 0; at < replies.size();) {
    std::string_view rest = replies.substr(at);
    if (rest.front() == '\x81') {
      constexpr std::size_t header = 24;
      std::size_t body = 0;
      for (std::size_t i = 8; i < 12 && rest.size() >= header; ++i)
        body = body << 8U | static_cast<unsigned char>(rest[i]);
      if (rest.size() < header + body) return at;
      at += header + body;
      continue;
    }
    if (rest.starts_with("key=")) {  // of a dump, whose lines are not those of other replies
      const std::size_t line_end = rest.find(" \n");
      if (line_end == std::string_view::npos) return at;
      at += line_end + 2;
      continue;
    }
    const std::size_t end = rest.find("\r\n");
    if (end == std::string_view::npos) return at;
    const std::string_view line = rest.substr(0, end);
    at += end + 2;
    std::string_view size;
    if (line.starts_with("VALUE ")) {
      size = line.substr(std::min(line.size(), line.find(' ', line.find(' ', 6) + 1) + 1));
    } else if (line.starts_with("VA ")) {
      size = line.substr(3);
    } else {
      const bool is_number =
          !line.empty() && std::ranges::all_of(line, [](char c) { return c >= '0' && c <= '9'; });
      if (is_number || std::ranges::find(whole_lines, line) != whole_lines.end() ||
          std::ranges::any_of(beginnings, [&](const char* begin) { return line.starts_with(begin); }))
        continue;
      return at - end - 2;
    }
    std::size_t bytes = 0;
    const auto [digits_end, error] = std::from_chars(size.data(), size.data() + size.size(), bytes);
    if (error != std::errc() || (digits_end != size.data() + size.size() && *digits_end != ' ') ||
        bytes > replies.size() || replies.substr(std::min(replies.size(), at + bytes), 2) != "\r\n")
      return at - end - 2;
    at += bytes + 2;
  }
  return std::string_view::npos;
}

/// Replies without what differs from one process, and one moment, to the other.
inline std::string comparable(std::string replies) {
  constexpr std::size_t header = 24;
  for (std::size_t at = 0; (at = replies.find("rusage_", at)) != std::string::npos;) {
    const std::size_t end = replies.find_first_not_of("rusage_tmy 0123456789.\r\n", at);
    if (at >= header && replies[at - header] == '\x81') at -= header;
    replies.erase(at, end == std::string::npos ? end : end - at);
  }
  return replies;
}

/// Plays a script. Returns what is wrong; empty: nothing is.
inline std::string play(std::string_view script) {
  if (script.empty()) return {};
  choice small;
  small.memory.memory_limit = byte_cache::smallest_limit;
  small.memory.largest_entry = 2048;
  small.chosen.replies_at_once = 200;
  const unsigned how = static_cast<unsigned char>(script.front());
  const std::string_view input = script.substr(1);
  conversation whole(small);
  conversation cut(small);
  // A second of the calendar has begun between them.
  if (whole.shared.clock().origin() != cut.shared.clock().origin()) return play(script);
  whole.say(input);
  measure::random_generator random(how);
  cut.turn = 1 + how % 20;
  for (std::size_t at = 0; at < input.size();) {
    const std::size_t piece = 1 + random.below(random.below(2) == 0 ? 3 : 1 + 2 * how);
    cut.say(input.substr(at, piece));
    at += piece;
  }
  if (whole.closed != cut.closed) return "a cut decides whether the connection closes";
  const std::string replies = comparable(whole.replies);
  if (const std::string others = comparable(cut.replies); replies != others)
    return "other replies to pieces:\n" + others + "\nthan to the whole:\n" + replies;
  if (const std::size_t at = unreadable(replies); at != std::string_view::npos)
    return "no reply at byte " + std::to_string(at) + " of:\n" + replies;
  return {};
}

}  // namespace espalier::memcached
