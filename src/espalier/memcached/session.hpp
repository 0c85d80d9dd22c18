#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/memcached/execute.hpp"
#include "espalier/memcached/output.hpp"
#include "espalier/memcached/service.hpp"

// memcached's protocols, the text one with its classic and its meta commands, and the binary one, over a cache and without sockets: for programs that have a
// transport of their own. One service for the program, one batch a thread, one session and one output a connection:
//
//   memcached::service shared({}, {.memory_limit = 64 << 20});
//   memcached::batch thread(shared);
//   memcached::session client(shared);
//   memcached::output replies;
//   std::size_t used = client.consume("set k 0 0 1\r\nx\r\nget k\r\n", replies, thread);
//
// examples/embedded_memcached.cpp is a program with it. Call service::tick() once a second. Programs include this header alone,
// and link espalier::cache.

namespace espalier::memcached {

/// What the sessions of one thread share: its counters, and the commands that are being executed. It may not outlive the
/// service.
class batch {
 public:
  static constexpr std::size_t most_commands = executor::group;

  /// Throws std::bad_alloc.
  explicit batch(service& of)
      : counters_(of.stats().add_thread()), commands_(std::make_unique<command[]>(most_commands)) {}
  batch(const batch&) = delete;
  batch& operator=(const batch&) = delete;

 private:
  friend class session;

  void forget_keys();

  counters& counters_;
  std::unique_ptr<command[]> commands_;
  std::vector<std::string_view> keys_;  // of the commands with several
};

/// One connection. The caller collects what is received, and passes all of it that was not used before. One thread uses it at
/// a time, and passes its own batch.
class session {
 public:
  using step = memcached::step;

  /// `number` is what the log shows. The session may not outlive the service.
  explicit session(service& of, int number = -1) noexcept : service_(of), turn_(number) {}

  /// Executes commands at the beginning of the input, at most `most`, and appends their replies in order. Returns the
  /// number of bytes that it has used. The replies do not depend on how the input is cut. A command takes amortised constant
  /// time and that of its bytes. Throws std::bad_alloc; the session is then of no more use.
  std::size_t consume(std::string_view input, output& out, batch& with, unsigned most = batch::most_commands);
  /// What the caller does after consume().
  [[nodiscard]] step next() const noexcept { return turn_.next; }
  /// consume() ignores input that is shorter than this.
  [[nodiscard]] std::size_t wanted() const noexcept { return wanted_; }

  /// Whether its client watches: the caller calls collect() from time to time, whose lines come without input.
  [[nodiscard]] bool watches() const noexcept { return turn_.watcher != nullptr; }
  /// Appends the lines that have come since the last call.
  void collect(output& out) {
    if (watches()) turn_.watcher->collect(out);
  }

  /// Where the next bytes of a large value belong: in the cache, without a copy. They may be passed to consume() too. Empty: all
  /// input is for consume().
  [[nodiscard]] std::span<char> room() const noexcept {
    if (!turn_.value) return {};
    return {turn_.value.value() + value_received_, turn_.value.size() - value_received_};
  }
  /// The number of bytes that were written to the room. When it is full consume() comes next, also if there is no input.
  void received(std::size_t bytes) noexcept { value_received_ += bytes; }

 private:
  [[nodiscard]] parse_context context() const noexcept;
  void choose_protocol(std::string_view input) noexcept;
  std::size_t log_in(std::string_view input, output& out, counters& by);
  const command& parse_store(std::string_view line, executor& run, batch& with, incomplete_command whole);
  std::size_t begin_value(std::string_view input, const incomplete_command& first, executor& run,
                          batch& with);
  std::size_t go_on_with_value(std::string_view input, executor& run, batch& with);

  service& service_;
  turn turn_;
  std::size_t wanted_ = 1;
  std::size_t scanned_ = 0;  // bytes of the input that have no end of line
  std::size_t skipped_ = 0;  // bytes to come of a value that was refused
  std::size_t value_received_ = 0;
  std::string line_;  // of the store whose value is being received
};

}  // namespace espalier::memcached
