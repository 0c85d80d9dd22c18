// A cache that speaks memcached's protocol over a transport of the program's own: here a string that stands for what a
// connection brings, in pieces that end anywhere.
//
// Prints:
//   STORED
//   VALUE greeting 0 5
//   hello
//   END
//   closed after 48 bytes

#include <sys/uio.h>

#include <array>
#include <cstdio>
#include <espalier/memcached/session.hpp>
#include <string_view>

namespace memcached = espalier::memcached;

int main() {
  memcached::service shared({}, {.memory_limit = 4 << 20});  // one for all threads
  memcached::batch thread(shared);
  memcached::session client(shared);
  memcached::output replies;

  std::string_view input = "set greeting 0 60 5\r\nhello\r\nget greeting\r\nquit\r\nnever read";
  std::size_t used = 0;
  for (std::size_t received = 0; client.next() != memcached::step::close; received += 10) {
    used += client.consume(input.substr(0, received).substr(used), replies, thread);
    while (!replies.empty()) {
      std::array<iovec, 4> parts{};  // as writev() takes them
      std::size_t sent = 0;
      for (std::size_t i = 0; i < replies.pending(parts.data(), parts.size()); ++i)
        sent += std::fwrite(parts[i].iov_base, 1, parts[i].iov_len, stdout);
      replies.sent(sent);
    }
  }
  std::printf("closed after %zu bytes\n", used);
}
