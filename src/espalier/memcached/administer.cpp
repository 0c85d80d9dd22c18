// Commands about the server: stats, flush_all, verbosity, lru_crawler and others.

#include <algorithm>
#include <array>
#include <utility>

#include "espalier/memcached/execute.hpp"

namespace espalier::memcached {
namespace {

struct refused_command {
  std::string_view name;
  std::string_view reply;
};
constexpr std::array<refused_command, 5> refused_commands{{
    {"slabs", "CLIENT_ERROR slabs is not supported: memory is not divided by sizes"},
    {"lru", "CLIENT_ERROR lru is not supported: there is no LRU to tune"},
    {"extstore", "CLIENT_ERROR extstore is not supported: all entries are in memory"},
    {"misbehave", "CLIENT_ERROR misbehave is not supported: it tests memcached's sandbox"},
    {"debugitem", "CLIENT_ERROR debugitem is not supported: it tests memcached's reference counts"},
}};

struct class_list {
  bool are_valid = false;
  bool have_entries = false;  ///< the first one has all
};
/// all, hash, or numbers of classes.
class_list classes_in(std::string_view list, bool takes_hash) noexcept {
  if (list == "all" || (takes_hash && list == "hash")) return {true, true};
  class_list found{true, false};
  while (found.are_valid && !list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    std::uint32_t one = 0;
    constexpr std::uint32_t largest = 63;
    found.are_valid = read_number(list.substr(0, end), one) && one >= 1 && one <= largest;
    found.have_entries |= one == 1;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return found;
}

/// One command: its words, and what it acts on. A function returns the reply's line; it is empty if it was written already,
/// or if there is none.
struct administration {
  const command& given;
  service& server;
  counters& counts;
  output& out;
  turn& at;
  std::array<std::string_view, 8> word{};
  std::size_t words_given = 0;
  bool quiet = false;

  std::string_view run() {
    std::string_view last;
    words line(given.line);
    for (std::string_view next = line.next(); !next.empty(); next = line.next()) {
      if (words_given < word.size()) word[words_given] = next;
      ++words_given;
      last = next;
    }
    const std::string_view name = given.line.substr(0, given.line.find(' '));
    constexpr std::size_t shortest = 4;  // with its end
    if (given.size < shortest) return bad_format;
    if (name == "quit") return close();
    if (name == "version") return write("VERSION ", spoken_version, "\r\n");
    if (name == "stats") return statistics();
    // memcached lets blanks precede these.
    const std::string_view first = word[0];
    if (first == "watch") return watch();
    quiet = last == "noreply";
    if (first == "flush_all") return flush();
    if (first == "verbosity") {
      std::uint32_t level = 0;
      if (words_given < 2 || !read_number(word[1], level)) return bad_format;
      constexpr std::uint32_t highest = 2;
      server.set_verbosity(std::min(level, highest));
      return "OK";
    }
    if (first == "cache_memlimit") return limit_memory();
    if (first == "refresh_certs") return reload();
    if (first == "shutdown") return shut_down();
    if (first == "debugtime" && server.chosen().test_clock) return set_clock();
    if (first == "lru_crawler") return crawl();
    if (first == "slabs" && words_given > 2 && word[1] == "automove" &&
        !io::parse_whole<std::uint32_t>(word[2]))
      return bad_format;
    const auto* const refused = std::ranges::find(refused_commands, first, &refused_command::name);
    if (refused != refused_commands.end()) return refused->reply;
    return words_given > 1 && last.starts_with("HTTP/") ? close() : "ERROR";
  }

  template <class... Parts>
  std::string_view write(const Parts&... parts) {
    if (!quiet) (out << ... << parts);
    return {};
  }
  std::string_view close() {
    at.next = step::close;
    return {};
  }

  std::string_view flush() {
    counts.add(counted::flush_commands);
    if (!server.chosen().flushes) return "CLIENT_ERROR flush_all not allowed";
    std::int32_t delay = 0;
    if (words_given - 1 > (quiet ? 1 : 0) && !read_number(word[1], delay)) return bad_end;
    server.flush(delay);
    return "OK";
  }

  std::string_view set_clock() {
    std::uint32_t seconds = 0;
    if (words_given > 1 && word[1] == "p")
      server.clock().stand();
    else if (words_given > 1 && read_number(word[1], seconds))
      server.clock().move(seconds);
    else
      return "ERROR";
    server.tick();
    return "OK";
  }

  /// There is no crawler that looks for what has ended, so only the dumps have an effect.
  std::string_view crawl() {
    const std::string_view what = word[1];
    if (words_given == 2 && (what == "enable" || what == "disable")) return "OK";
    if (words_given != 3) return "ERROR";
    if (what == "sleep" || what == "tocrawl") {
      constexpr std::uint32_t longest_sleep = 1'000'000;
      std::uint32_t number = 0;
      if (!read_number(word[2], number)) return bad_format;
      const bool is_long = what == "sleep" && number > longest_sleep;
      return is_long ? "CLIENT_ERROR sleep must be one second or less" : "OK";
    }
    const bool dumps = what == "metadump" || what == "mgdump";
    if (!dumps && what != "crawl") return "ERROR";
    const auto [are_valid, has_entries] = classes_in(word[2], dumps);
    if (!are_valid) return "BADCLASS invalid class id";
    out << "OK\r\n";
    if (!dumps) return {};
    const bool as_commands = what == "mgdump";
    if (!has_entries) return write(as_commands ? "EN\r\n" : "END\r\n");
    at.unfinished = turn::rest::dump;
    at.resume_at = given.size - 1;
    at.dumps_as = as_commands ? dump_format::commands : dump_format::properties;
    at.dump_place = 0;
    return {};
  }

  std::string_view watch() {
    if (!server.chosen().watches) return "CLIENT_ERROR watch commands not allowed";
    event_kinds kinds;
    words line(given.line);
    line.next();
    for (std::string_view name = line.next(); !name.empty(); name = line.next()) {
      constexpr std::array<std::pair<std::string_view, event>, 4> known{{{"fetchers", event::fetch},
                                                                         {"mutations", event::mutation},
                                                                         {"deletions", event::deletion},
                                                                         {"evictions", event::eviction}}};
      const auto* const found = std::ranges::find(known, name, [](const auto& one) { return one.first; });
      if (found == known.end()) return write("ERROR there are no ", name, " to watch\r\n");
      kinds.add(found->second);
    }
    at.watcher = server.watched().add(kinds.empty() ? event_kinds(event::fetch) : kinds);
    if (at.watcher == nullptr) return "WATCHER_TOO_MANY log watcher limit reached";
    at.unfinished = turn::rest::watch;
    at.resume_at = given.size;
    return "OK";
  }

  std::string_view limit_memory() {
    std::uint32_t megabytes = 0;
    if (words_given < 2 || !read_number(word[1], megabytes)) return "ERROR";
    constexpr std::uint32_t least = 8;
    constexpr std::uint32_t most = 1'000'000'000;
    if (megabytes < least) return "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m";
    if (megabytes > most) return "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes";
    constexpr unsigned of_megabyte = 20;
    if (server.limit_memory(std::size_t{megabytes} << of_megabyte)) return "OK";
    const byte_cache::limit_range range = server.cache().possible_limits();
    constexpr std::size_t rounds_up = (std::size_t{1} << of_megabyte) - 1;
    const std::size_t smallest = std::max<std::size_t>(least, (range.least + rounds_up) >> of_megabyte);
    return write("MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust: it is from ", smallest, " to ",
                 range.most >> of_megabyte, "\r\n");
  }

  std::string_view reload() {
    if (!server.chosen().transport.tls.is_on)
      return "CLIENT_ERROR refresh_certs: the server has no certificates";
    try {
      if (server.reload) server.reload();
      return "OK";
    } catch (const std::exception& wrong) {
      return write("SERVER_ERROR ", std::string_view(wrong.what()), "\r\n");
    }
  }

  std::string_view shut_down() {
    if (!server.chosen().shuts_down) return "SERVER_ERROR: shutdown not enabled";
    if (words_given > 2 || (words_given == 2 && word[1] != "graceful"))
      return "CLIENT_ERROR invalid shutdown mode";
    if (words_given == 2 && server.stop_and_keep)
      server.stop_and_keep();
    else if (server.stop)
      server.stop();
    return close();
  }

  std::string_view statistics() {
    const std::string_view which = word[1];
    if (words_given == 1)
      show_general(server, out);
    else if (which == "settings")
      show_settings(server, out);
    else if (which == "items")
      show_items(server, out);
    else if (which == "slabs")
      show_slabs(server, out);
    else if (which == "sizes")
      out << "STAT sizes_status disabled\r\nEND\r\n";
    else if (which == "conns") {
      if (server.list_connections) server.list_connections(out);
      out << "END\r\n";
    } else if (which == "reset") {
      server.stats().reset();
      return "RESET";
    } else if (which == "detail") {
      if (word[2] == "dump") return server.stats().show_prefixes(out), std::string_view();
      if (word[2] != "on" && word[2] != "off") return "CLIENT_ERROR usage: stats detail on|off|dump";
      server.set_detail(word[2] == "on");
      return "OK";
    } else if (which == "cachedump") {
      return dump_keys();
    } else {
      return "ERROR";
    }
    return {};
  }

  std::string_view dump_keys() {
    std::uint32_t size_class = 0;
    std::uint32_t most = 0;
    if (words_given < 4) return "CLIENT_ERROR bad command line";
    if (!read_number(word[2], size_class) || !read_number(word[3], most)) return bad_format;
    constexpr std::uint32_t classes = 64;
    if (size_class >= classes) return "CLIENT_ERROR Illegal slab id";
    if (size_class != 1) return write("END\r\n");
    show_keys(server, out, most);
    return {};
  }
};

}  // namespace

void executor::administer(const command& c) {
  administration one{c, service_, counters_, out_, turn_};
  const std::string_view line = one.run();
  if (!line.empty() && !one.quiet) out_ << line << "\r\n";
}

}  // namespace espalier::memcached
