// Replies in the binary protocol. What commands do is in execute.cpp, store.cpp and administer.cpp.

#include <array>
#include <cstdint>

#include "espalier/memcached/execute.hpp"

namespace espalier::memcached {
namespace {

template <class Number>
char* put_number(char* at, Number n) noexcept {
  for (std::size_t i = sizeof(Number); i-- > 0;) *at++ = static_cast<char>(n >> (8 * i));
  return at;
}

template <class Number>
struct big_endian {
  explicit big_endian(Number n) noexcept { put_number(bytes.data(), n); }
  operator std::string_view() const noexcept { return {bytes.data(), bytes.size()}; }
  std::array<char, sizeof(Number)> bytes;
};

std::string_view text_of(binary_status status) noexcept {
  switch (status) {
    case binary_status::done:
      break;
    case binary_status::not_found:
      return "Not found";
    case binary_status::exists:
      return "Data exists for key.";
    case binary_status::too_large:
      return "Too large.";
    case binary_status::invalid:
      return "Invalid arguments";
    case binary_status::not_stored:
      return "Not stored.";
    case binary_status::not_a_number:
      return "Non-numeric server-side value for incr or decr";
    case binary_status::not_allowed:
      return "Auth failure.";
    case binary_status::unknown:
      return "Unknown command";
    case binary_status::no_memory:
      return "Out of memory";
  }
  return {};
}

bool touches(binary_verb what) noexcept {
  return what == binary_verb::touch || what == binary_verb::get_and_touch ||
         what == binary_verb::get_and_touch_with_key;
}

bool shows_key(binary_verb what) noexcept {
  return what == binary_verb::get_with_key || what == binary_verb::get_and_touch_with_key;
}

}  // namespace

void executor::run_binary(const command& c) {
  using enum binary_verb;
  switch (c.request) {
    case get:
    case get_with_key:
    case touch:
    case get_and_touch:
    case get_and_touch_with_key:
      return binary_look_up(c);
    case set:
    case add:
    case replace:
    case append:
    case prepend:
      return binary_store(c);
    case binary_verb::erase:
      return binary_erase(c);
    case increment:
    case decrement:
      return binary_calculate(c);
    case flush:
      return binary_flush(c);
    case stat:
      return binary_statistics(c);
    case list_mechanisms:
    case log_in:
    case log_in_step:
      return binary_log_in(c);
    case nothing:
      return reply_binary(c, binary_status::done);
    case binary_verb::version:
      return reply_text(c, {}, spoken_version);
    case quit:
      turn_.next = step::close;
      return reply_binary(c, binary_status::done);
    case refused:
      drop_refused(c);
      reply_binary(c, c.status);
      if (c.closes) turn_.next = step::close;
  }
}

/// Writes a reply up to its value, with room for so many bytes of that. Returns where they belong; null if there is no memory.
char* executor::put_binary(const command& c, const binary_reply& r, std::size_t room) noexcept {
  const std::size_t body = r.extras.size() + r.key.size() + r.value_bytes;
  char* at = out_.room(binary_header_bytes + r.extras.size() + r.key.size() + room);
  if (at == nullptr) return nullptr;
  *at++ = '\x81';
  *at++ = static_cast<char>(c.opcode);
  at = put_number(at, static_cast<std::uint16_t>(r.key.size()));
  *at++ = static_cast<char>(r.extras.size());
  *at++ = 0;
  at = put_number(at, static_cast<std::uint16_t>(r.status));
  at = put_number(at, static_cast<std::uint32_t>(body));
  at = put(at, c.opaque);
  at = put_number(at, version_of(r.version));
  return put(put(at, r.extras), r.key);
}

/// A status without a value, or the words for an error. A quiet command has a reply to errors alone.
void executor::reply_binary(const command& c, binary_status status, std::uint64_t version) {
  if (c.quiet && status == binary_status::done) return;
  const std::string_view text = text_of(status);
  char* const at =
      put_binary(c, {.status = status, .version = version, .value_bytes = text.size()}, text.size());
  if (at != nullptr) out_.wrote(put(at, text));
}

void executor::reply_text(const command& c, std::string_view key, std::string_view text) {
  char* const at = put_binary(c, {.key = key, .value_bytes = text.size()}, text.size());
  if (at != nullptr) out_.wrote(put(at, text));
}

void executor::binary_look_up(const command& c) {
  const std::string_view key = shows_key(c.request) ? c.key : std::string_view();
  const look_up_result r = look_up_by(key_of(c), touches(c.request), c.end, [&](const cache_entry& e) {
    const std::string_view value = c.request == binary_verb::touch ? std::string_view() : e.value;
    byte_cache::hold held = value.empty() ? byte_cache::hold() : cache_.hold_value(e);
    const big_endian flags(e.flags);
    char* const at =
        put_binary(c, {.version = e.version, .extras = flags, .key = key, .value_bytes = value.size()},
                   held ? 0 : value.size());
    if (at == nullptr) return;
    out_.wrote(held ? at : put(at, value));
    if (held) out_.refer(value, std::move(held));
  });
  if (!r.fits) return reply_binary(c, binary_status::no_memory);
  if (r.hit || c.quiet) return;
  if (key.empty()) return reply_binary(c, binary_status::not_found);
  if (char* const at = put_binary(c, {.status = binary_status::not_found, .key = key}, 0)) out_.wrote(at);
}

void executor::binary_store(const command& c) {
  const store_result r = store(c);
  switch (r.is) {
    case stored::done:
      return reply_binary(c, binary_status::done, r.version);
    case stored::exists:
      return reply_binary(c, binary_status::exists);
    case stored::not_found:
      return reply_binary(c, binary_status::not_found);
    case stored::not_stored:
      return reply_binary(c, c.mode == store_mode::add       ? binary_status::exists
                             : c.mode == store_mode::replace ? binary_status::not_found
                                                             : binary_status::not_stored);
    case stored::no_memory:
      return reply_binary(c, binary_status::no_memory);
  }
}

void executor::binary_calculate(const command& c) {
  using result = calculation::result;
  const calculation r = calculate_by(c);
  switch (r.is) {
    case result::done:
    case result::made: {
      if (c.quiet) return;
      const big_endian number(r.number);
      char* const at =
          put_binary(c, {.version = r.version, .value_bytes = sizeof(r.number)}, sizeof(r.number));
      if (at != nullptr) out_.wrote(put(at, number));
      return;
    }
    case result::missing:
      return reply_binary(c, binary_status::not_found);
    case result::not_a_number:
      return reply_binary(c, binary_status::not_a_number);
    case result::mismatch:
      return reply_binary(c, binary_status::exists);
    case result::no_memory:
      return reply_binary(c, binary_status::no_memory);
  }
}

void executor::binary_erase(const command& c) {
  switch (erase_by(c)) {
    case erased::done:
      return reply_binary(c, binary_status::done);
    case erased::not_found:
      return reply_binary(c, binary_status::not_found);
    case erased::exists:
      return reply_binary(c, binary_status::exists);
    case erased::no_memory:
      return reply_binary(c, binary_status::no_memory);
  }
}

void executor::binary_flush(const command& c) {
  counters_.add(counted::flush_commands);
  if (!service_.chosen().flushes) return reply_binary(c, binary_status::not_allowed);
  service_.flush(static_cast<std::int64_t>(c.delta));
  reply_binary(c, binary_status::done);
}

/// The rows of the text protocol, each as a reply, and an empty one at the end.
void executor::binary_statistics(const command& c) {
  const std::string line = "stats " + std::string(c.key);
  command text = c;
  text.line = line;
  text.size = line.size() + 2;
  output answer;
  executor(service_, counters_, answer, turn_).administer(text);
  std::string_view rows;
  iovec all{};
  if (answer.pending(&all, 1) != 0) rows = {static_cast<const char*>(all.iov_base), all.iov_len};
  const bool is_known = rows.starts_with("STAT ") || rows.starts_with("PREFIX ") || rows == "END\r\n" ||
                        rows == "OK\r\n" || rows == "RESET\r\n";
  if (!is_known) return reply_binary(c, binary_status::not_found);
  if (rows.starts_with("PREFIX ")) {
    reply_text(c, "detailed", rows);
    rows = {};
  }
  while (rows.starts_with("STAT ")) {
    const std::string_view row = rows.substr(5, rows.find("\r\n") - 5);
    const std::size_t blank = row.find(' ');
    reply_text(c, row.substr(0, blank), row.substr(blank + 1));
    rows.remove_prefix(5 + row.size() + 2);
  }
  reply_text(c, {}, {});
}

/// SASL, of which there is the mechanism PLAIN: a name that is ignored, the user and the password, with
/// zeros between.
void executor::binary_log_in(const command& c) {
  constexpr std::string_view mechanism = "PLAIN";
  if (!service_.asks_for_user()) return reply_binary(c, binary_status::unknown);
  if (c.request == binary_verb::list_mechanisms) return reply_text(c, {}, mechanism);
  counters_.add(counted::log_ins);
  const std::size_t user = c.value.find('\0') + 1;
  const std::size_t password = user == 0 ? 0 : c.value.find('\0', user) + 1;
  if (c.request == binary_verb::log_in && c.key == mechanism && password != 0 &&
      service_.has_user(c.value.substr(user, password - 1 - user), c.value.substr(password))) {
    turn_.asks_for_user = false;
    return reply_text(c, {}, "Authenticated");
  }
  turn_.asks_for_user = true;  // also of a user that had logged in
  counters_.add(counted::refused_log_ins);
  reply_binary(c, binary_status::not_allowed);
}

}  // namespace espalier::memcached
