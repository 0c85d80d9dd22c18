// The replies of the cache server, on one connection.

#include <string>

#include "memcached/conversation.hpp"
#include "scheduled/scenes.hpp"

namespace espalier::sim {
namespace {

using memcached::choice;
using memcached::conversation;

void expect(conversation& with, const std::string& input, const std::string& replies, const char* what) {
  require(with.ask(input) == replies, what);
}

choice small() {
  choice c;
  c.memory.memory_limit = byte_cache::smallest_limit;
  c.memory.largest_entry = 2048;
  return c;
}

ESPALIER_SCENE(memcached, refused_values, alone()) {
  auto& c = s.make<conversation>(small());
  s.thread("client", [&c] {
    const std::string value = std::string(3000, 'x') + "\r\n";
    expect(c, "set k 0 0 1\r\na\r\nset k 0 0 3000 noreply\r\n" + value + "get k\r\n", "STORED\r\nEND\r\n",
           "a value that is too large leaves an older one behind");
    expect(c, "set k 0 0 1\r\na\r\nset k 0 4294967295 1 noreply\r\nb\r\nget k\r\n", "STORED\r\nEND\r\n",
           "an end of 2^32 - 1 leaves an older value behind");
  });
}

ESPALIER_SCENE(memcached, ends, alone()) {
  auto& c = s.make<conversation>(small());
  s.thread("client", [&c] {
    expect(c, "set k 0 2592000 1\r\na\r\nmg k t\r\n", "STORED\r\nHD t2592000\r\n", "30 days are from now");
    expect(c, "set k 0 2592001 1\r\na\r\nmg k t\r\n", "STORED\r\nEN\r\n",
           "a second more is a time of the calendar");
  });
}

ESPALIER_SCENE(memcached, wins, alone()) {
  auto& c = s.make<conversation>(small());
  s.thread("client", [&c] {
    expect(c, "ms k 1 T30\r\na\r\nmg k R30\r\nmg k R31\r\n", "HD\r\nHD\r\nHD W\r\n",
           "a look-up wins where less is left than R");
    expect(c, "ms k 1 T30\r\na\r\nmg k R31 h\r\nmg k h\r\n", "HD\r\nHD h0 W\r\nHD h1 Z\r\n",
           "a look-up that wins shows no access of its own");
  });
}

}  // namespace
}  // namespace espalier::sim
