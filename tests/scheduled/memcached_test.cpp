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

/// A command of the binary protocol: numbers are below 256, and the first of them that are 0 may be left out.
std::string binary(char opcode, const std::string& extras, const std::string& key, const std::string& value,
                   char version = 0) {
  const std::size_t body = extras.size() + key.size() + value.size();
  std::string header(24, '\0');
  header[0] = '\x80';
  header[1] = opcode;
  header[3] = static_cast<char>(key.size());
  header[4] = static_cast<char>(extras.size());
  header[10] = static_cast<char>(body >> 8U);
  header[11] = static_cast<char>(body);
  header[23] = version;
  return header + extras + key + value;
}
/// The status of a reply, and what comes after its header.
std::string answer(conversation& with, const std::string& input) {
  const std::string reply = with.ask(input);
  return reply.size() < 24 ? reply
                           : std::to_string(static_cast<unsigned char>(reply[7])) + ' ' + reply.substr(24);
}

ESPALIER_SCENE(memcached, binary_commands, alone()) {
  auto& c = s.make<conversation>(small());
  s.thread("client", [&c] {
    const std::string no_flags(8, '\0');
    require(answer(c, binary(1, no_flags, "k", "a")) == "0 ", "a value is stored");
    require(answer(c, binary(1, no_flags, "k", "b", 99)) == "2 Data exists for key.",
            "a set of another version is refused");
    require(answer(c, binary(1, no_flags, "k", std::string(3000, 'x'))) == "3 Too large.",
            "a value is too large");
    require(answer(c, binary(0, "", "k", "")) == "1 Not found",
            "a value that is too large leaves an older one behind");
    require(answer(c, binary(5, std::string(7, '\0') + '\1' + std::string(8, '\0') + std::string(4, '\xFF'),
                             "n", "")) == "1 Not found",
            "a number without an end for a new one is not made");
    require(answer(c, binary(0, "x", "k", "")) == "4 Invalid arguments" && c.closed,
            "extras that a get does not have are refused");
  });
}

ESPALIER_SCENE(memcached, users, alone()) {
  auto& c = s.make<conversation>(small());
  auto& d = s.make<conversation>(small());
  s.thread("client", [&c, &d] {
    c.shared.set_users(memcached::users("ann:one\n"));
    expect(c, "get k\r\n", "CLIENT_ERROR unauthenticated\r\n", "a command comes before its user");
    expect(c, "set a 0 0 7\r\nann two\r\n", "CLIENT_ERROR authentication failure\r\n",
           "a password is another one");
    expect(c, "set a 0 0 7\r\nann one\r\nget a\r\n", "STORED\r\nEND\r\n",
           "a user logs in, and nothing is stored for it");
    d.shared.set_users(memcached::users("ann:one\n"));
    require(answer(d, binary(0, "", "k", "")) == "32 Auth failure." && d.closed,
            "a binary command comes before its user");
  });
}

ESPALIER_SCENE(memcached, limits, alone()) {
  choice growing;
  growing.memory.memory_limit = std::size_t{16} << 20U;
  growing.memory.largest_limit = std::size_t{32} << 20U;
  auto& c = s.make<conversation>(growing);
  s.thread("client", [&c] {
    expect(c, "cache_memlimit 7\r\n", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n",
           "a limit is too small");
    expect(c, "cache_memlimit 8\r\n", "OK\r\n", "a limit changes");
    require(c.shared.cache().memory_limit() == std::size_t{8} << 20U, "megabytes are of 2^20 bytes");
    expect(c, "cache_memlimit 33\r\n",
           "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust: it is from 8 to 32\r\n",
           "a limit has no addresses");
  });
}

ESPALIER_SCENE(memcached, watchers, alone()) {
  choice few;
  few.chosen.watcher_bytes = 200;
  auto& c = s.make<conversation>(few);
  s.thread("client", [&c] {
    memcached::batch batch(c.shared);
    memcached::output out;
    {
      memcached::session watching(c.shared, 1);
      watching.consume("watch mutations deletions\r\n", out, batch);
      require(memcached::all_of(out) == "OK\r\n" && watching.watches(), "a session watches");
      memcached::session of_fetches(c.shared, 2);
      of_fetches.consume("watch fetchers\r\n", out, batch);
      out.clear();
      c.say("get k\r\nset k 0 0 1\r\nx\r\nmd k I\r\n");
      watching.collect(out);
      const std::string seen = memcached::all_of(out);
      require(seen.find("type=item_store key=k status=stored cmd=set") != std::string::npos,
              "a store is seen");
      require(seen.find("item_get") == std::string::npos, "another kind of event is seen");
      require(seen.find("deleted") == std::string::npos, "what was made stale is no deletion");
      for (int i = 0; i < 9; ++i) c.say("set k 0 0 1\r\nx\r\n");
      watching.collect(out);
      const std::string some = memcached::all_of(out);
      require(some.size() < 220 && some.find("skipped=") != std::string::npos, "lines have a limit");
      watching.collect(out);
      require(out.empty(), "lines are shown once");
    }
    require(c.shared.watched().wanted().empty(), "a watcher that has left wants nothing");
  });
}

}  // namespace
}  // namespace espalier::sim
