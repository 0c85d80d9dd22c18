#include "espalier/memcached/session.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace espalier::memcached {

void batch::forget_keys() {
  constexpr std::size_t many = 4096;
  if (keys_.capacity() > many) std::vector<std::string_view>().swap(keys_);
  keys_.clear();
}

/// The one command of a store whose value has a place of its own.
const command& session::parse_store(std::string_view line, executor& run, batch& with,
                                    incomplete_command whole) {
  command& c = with.commands_[0];
  static_cast<void>(parse_commands(line, {&c, 1}, context(), with.keys_, whole));
  c.hash = byte_cache::hashed(c.key).hash;
  if (!service_.watched().wanted().empty()) run.observe(c, with.keys_);
  return c;
}

std::size_t session::consume(std::string_view input, output& out, batch& with, unsigned most) {
  turn_.next = step::receive;
  std::size_t used = std::min(skipped_, input.size());
  skipped_ -= used;
  const std::size_t much_output = service_.chosen().replies_at_once;
  command* const commands = with.commands_.get();
  executor run(service_, with.counters_, out, turn_);
  if (turn_.unfinished != turn::rest::none) {
    with.forget_keys();
    if (turn_.unfinished == turn::rest::watch) return input.size();
    if (turn_.unfinished == turn::rest::protocol) {
      if (input.empty()) return used;
      choose_protocol(input);
    }
    if (turn_.unfinished == turn::rest::user)
      used = log_in(input, out, with.counters_);
    else if (turn_.unfinished != turn::rest::none)
      used = run.go_on(input, with.keys_);
    if (out.failed()) {
      turn_.unfinished = turn::rest::none;
      turn_.next = step::close;
      return input.size();
    }
    if (turn_.unfinished != turn::rest::none || turn_.next == step::close) return used;
  }
  if (turn_.value) {
    used += go_on_with_value(input.substr(used), run, with);
    if (turn_.value) return used;
  }
  if (input.size() - used < wanted_) return used;
  wanted_ = 1;

  while (turn_.next == step::receive && used < input.size()) {
    if (most == 0) {
      turn_.next = step::go_on;
      break;
    }
    if (out.size() >= much_output) {
      turn_.next = step::send;
      break;
    }
    with.forget_keys();
    incomplete_command first{.scanned = scanned_};
    const std::size_t count =
        parse_commands(input.substr(used), {commands, std::min<std::size_t>(most, batch::most_commands)},
                       context(), with.keys_, first);
    if (count == 0) {
      scanned_ = first.scanned;
      wanted_ = first.wanted;
      if (first.lacks_value && service_.cache().is_large(first.key_bytes, first.value_bytes))
        used += begin_value(input.substr(used), first, run, with);
      break;
    }
    scanned_ = 0;
    for (std::size_t i = 0; i < count; ++i) {
      command& c = commands[i];
      if (c.keys != 0 || c.key.empty()) continue;
      c.hash = byte_cache::hashed(c.key).hash;
      if (count > 1) service_.cache().request({c.key, c.hash}, 0);
    }
    for (std::size_t i = 0; count > 1 && i < count; ++i) {
      const command& c = commands[i];
      if (c.keys == 0 && !c.key.empty()) service_.cache().request({c.key, c.hash}, 1);
    }
    const bool is_observed = !service_.watched().wanted().empty();
    for (std::size_t i = 0; i < count; ++i) {
      const command& c = commands[i];
      if (is_observed) [[unlikely]]
        run.observe(c, with.keys_);
      run.run(c, with.keys_, input.substr(used));
      --most;
      if (turn_.unfinished != turn::rest::none) {
        turn_.next = step::send;
        return used + turn_.resume_at;
      }
      used += c.size;
      skipped_ = c.skipped;
      if (turn_.next != step::receive || out.size() >= much_output) break;
    }
  }
  if (out.failed()) turn_.next = step::close;
  return used;
}

parse_context session::context() const noexcept {
  return {service_.clock(), service_.cache().options().largest_entry, turn_.is_binary, turn_.asks_for_user};
}

/// The first byte of a connection shows its protocol.
void session::choose_protocol(std::string_view input) noexcept {
  const std::string_view spoken = service_.chosen().transport.protocol;
  turn_.is_binary = input.front() == '\x80' && spoken != "ascii";
  turn_.asks_for_user = turn_.is_binary && service_.asks_for_user();
  const bool is_refused = !turn_.is_binary && spoken == "binary";
  turn_.unfinished = turn_.is_binary || is_refused ? turn::rest::none : turn::rest::user;
  if (is_refused) turn_.next = step::close;
}

/// A value NAME PASSWORD, which a connection stores under any key before its first command. Other commands are refused.
std::size_t session::log_in(std::string_view input, output& out, counters& by) {
  constexpr std::size_t shortest_line = 6;
  constexpr std::size_t longest_value = 16'384;
  constexpr std::string_view line_end = "\r\n";
  std::size_t used = 0;
  while (service_.asks_for_user()) {
    const std::string_view rest = input.substr(used);
    if (rest.size() < wanted_) return used;
    wanted_ = 1;
    const std::size_t length = std::min(rest.find('\n'), rest.size());
    if (length == rest.size() && length <= longest_line) {
      wanted_ = length + 1;
      return used;
    }
    if (length == rest.size() || length < shortest_line) {
      turn_.next = step::close;
      return input.size();
    }
    std::string_view text = rest.substr(0, length);
    if (text.ends_with('\r')) text.remove_suffix(1);
    words line(text);
    const std::string_view name = line.next();
    for (unsigned word = 0; word < 3; ++word) line.next();
    std::uint32_t bytes = 0;
    const bool is_store = name.starts_with("set") && read_number(line.next(), bytes);
    if (!is_store || bytes > longest_value) {
      out << (is_store ? "CLIENT_ERROR auth token too long\r\n" : "CLIENT_ERROR unauthenticated\r\n");
      used += length + 1;
      continue;
    }
    const std::size_t whole = length + 1 + bytes + line_end.size();
    if (rest.size() < whole) {
      wanted_ = whole;
      return used;
    }
    const std::string_view value = rest.substr(length + 1, bytes);
    const std::size_t blank = value.find(' ');
    used += whole;
    if (rest.substr(whole - line_end.size(), line_end.size()) != line_end) {
      out << "CLIENT_ERROR bad command line termination\r\n";
    } else if (blank == std::string_view::npos) {
      out << "CLIENT_ERROR bad authentication token format\r\n";
    } else {
      by.add(counted::log_ins);
      if (service_.has_user(value.substr(0, blank), value.substr(blank + 1))) {
        out << "STORED\r\n";
        break;
      }
      by.add(counted::refused_log_ins);
      out << "CLIENT_ERROR authentication failure\r\n";
    }
  }
  turn_.unfinished = turn::rest::none;
  return used;
}

/// The line of a store with a large value, which is received where it will lie.
std::size_t session::begin_value(std::string_view input, const incomplete_command& first, executor& run,
                                 batch& with) {
  try {
    line_ = input.substr(0, first.line_bytes);
    turn_.value = service_.cache().receive(first.key_bytes, first.value_bytes);
  } catch (const std::bad_alloc&) {  // there is no room
  }
  scanned_ = 0;
  wanted_ = 1;
  if (turn_.value) {
    value_received_ = 0;
    return first.line_bytes + go_on_with_value(input.substr(first.line_bytes), run, with);
  }
  // The value is not read.
  run.refuse_value(parse_store(input.substr(0, first.line_bytes), run, with, {.value = input.data()}));
  skipped_ = first.wanted - input.size();
  return input.size();
}

/// The value, and its end of line. Then the command is executed.
std::size_t session::go_on_with_value(std::string_view input, executor& run, batch& with) {
  const std::string_view end = turn_.is_binary ? "" : "\r\n";
  const std::size_t more = std::min(input.size(), room().size());
  if (more != 0) std::memcpy(room().data(), input.data(), more);
  received(more);
  if (value_received_ < turn_.value.size() || input.size() - more < end.size()) return more;
  const bool ends_well = input.substr(more, end.size()) == end;
  run.run(parse_store(line_, run, with, {.value = turn_.value.value(), .value_ends_well = ends_well}),
          with.keys_, line_);
  turn_.value = {};
  std::string().swap(line_);
  return more + end.size();
}

}  // namespace espalier::memcached
