// A program with the cache, and with memcached's protocol.

#include <espalier/cache/cache.hpp>
#include <espalier/memcached/session.hpp>

#include <string>

int main() {
  espalier::cache<std::string, int> squares;
  squares.set("7", 49);
  espalier::memcached::service shared({}, {});
  espalier::memcached::batch thread(shared);
  espalier::memcached::session client(shared);
  espalier::memcached::output replies;
  client.consume("set k 0 0 1\r\nx\r\n", replies, thread);
  return squares.get("7") == 49 && !squares.get("8") && replies.size() == 8 ? 0 : 1;
}
