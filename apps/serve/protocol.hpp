#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/output.hpp"
#include "apps/serve/service.hpp"

// memcached's text protocol, its classic and its meta commands, on one connection and without sockets.

namespace espalier::app::serving {

struct command;
struct incomplete_command;

/// What the sessions of one thread share: its counters, and the commands that are being executed.
class batch {
 public:
  static constexpr std::size_t most_commands = 16;

  explicit batch(service& of);
  batch(const batch&) = delete;
  batch& operator=(const batch&) = delete;
  ~batch();

 private:
  friend class session;

  void forget_keys();

  service& service_;
  counters& counters_;
  std::unique_ptr<command[]> commands_;
  std::vector<std::string_view> keys_;  // of the commands with several
};

/// One connection. The caller collects what is received, and passes all of it that was not used before.
class session {
 public:
  /// What the caller does next.
  enum class step : std::uint8_t {
    receive,  ///< pass more input
    go_on,    ///< pass the rest again: it has taken its turn
    send,     ///< send the output first, for there is much of it, then pass the rest again
    close,    ///< send the output, then close
  };

  /// `descriptor` is what a log of the commands shows.
  explicit session(service& of, int descriptor = -1) noexcept : service_(of), descriptor_(descriptor) {}

  /// Executes commands at the beginning of the input, at most `most`, and appends their replies in order. Returns the
  /// bytes that it has used. The replies do not depend on how the input is cut.
  std::size_t consume(std::string_view input, output& out, batch& with, unsigned most = batch::most_commands);

  /// Where the next bytes of a large value belong: in the cache, without a copy. They may be passed to consume() too. Empty: all
  /// input is for consume().
  [[nodiscard]] std::span<char> room() const noexcept {
    if (!value_) return {};
    return {value_.value() + value_received_, value_.size() - value_received_};
  }
  /// So many bytes were written to the room.
  void received(std::size_t bytes) noexcept { value_received_ += bytes; }

  [[nodiscard]] step next() const noexcept { return next_; }
  /// Input shorter than this is not looked at.
  [[nodiscard]] std::size_t wanted() const noexcept { return wanted_; }

 private:
  class execution;

  std::size_t begin_value(std::string_view input, const incomplete_command& first, execution& run,
                          batch& with);
  std::size_t go_on_with_value(std::string_view input, execution& run, batch& with);
  std::size_t go_on_with_look_up(std::string_view input, output& out, batch& with);
  std::size_t go_on_with_dump(std::string_view input, output& out);

  service& service_;
  int descriptor_;
  step next_ = step::receive;
  std::size_t wanted_ = 1;
  std::size_t scanned_ = 0;     // bytes of the input that have no end of line
  std::size_t skipped_ = 0;     // bytes to come of a value that was refused
  byte_cache::incoming value_;  // of a store whose line is known
  std::size_t value_received_ = 0;
  std::string line_;
  std::size_t resume_at_ = 0;  // where the input has the rest of a look-up
  struct {
    bool runs = false;
    bool shows_version = false;
    bool touches = false;
    std::uint32_t end = 0;
  } look_up_;  // of many keys, of which the input has the rest
  struct {
    bool runs = false;
    service::dump as = service::dump::properties;
    std::size_t place = 0;
  } dump_;  // of all entries; the input has the end of its line
};

}  // namespace espalier::app::serving
