// The protocol of the cache server on one connection: conversations, each whole, in two pieces at every place, and byte
// by byte; what is malformed; limits; commands at random; and what a fuzzer has found.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <ostream>
#include <ranges>
#include <regex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "espalier/measure/random.hpp"
#include "memcached/conversation.hpp"

namespace espalier::memcached {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t kibibyte = 1024;
constexpr std::size_t mebibyte = kibibyte * kibibyte;

/// A text whose lines end as the protocol's do; \v is a bare newline.
std::string on_the_wire(std::string_view text) {
  std::string wire;
  for (const char c : text) {
    if (c == '\n') wire += '\r';
    wire += c == '\v' ? '\n' : c;
  }
  return wire;
}

struct exchange {
  const char* name;
  std::string input;
  std::string replies;
  bool closes = false;

  friend void PrintTo(const exchange& e, std::ostream* out) { *out << e.name; }
};

template <class Number>
std::string big_endian(Number n) {
  std::string bytes;
  for (std::size_t i = sizeof(n); i-- > 0;) bytes += static_cast<char>(n >> (8 * i));
  return bytes;
}

/// A frame of the binary protocol. `third` is a reply's status.
struct frame {
  std::uint8_t opcode = 0;
  std::string key = {};
  std::string value = {};
  std::string extras = {};
  std::uint64_t version = 0;
  std::uint16_t third = 0;
  char magic = '\x80';

  [[nodiscard]] std::string bytes() const {
    return std::string{magic, static_cast<char>(opcode)} +
           big_endian(static_cast<std::uint16_t>(key.size())) + static_cast<char>(extras.size()) + '\0' +
           big_endian(third) +
           big_endian(static_cast<std::uint32_t>(extras.size() + key.size() + value.size())) + "wxyz" +
           big_endian(version) + extras + key + value;
  }
};
std::string for_store(std::uint32_t flags, std::uint32_t end) { return big_endian(flags) + big_endian(end); }
std::string for_number(std::uint64_t by, std::uint64_t initial, std::uint32_t end) {
  return big_endian(by) + big_endian(initial) + big_endian(end);
}
std::string binary(std::initializer_list<frame> frames) {
  std::string all;
  for (const frame& one : frames) all += one.bytes();
  return all;
}
frame answer(std::uint8_t opcode, std::uint64_t version = 0, std::string value = {}, std::string extras = {},
             std::string key = {}) {
  return {opcode, std::move(key), std::move(value), std::move(extras), version, 0, '\x81'};
}
frame error(std::uint8_t opcode, std::uint16_t status, std::string text) {
  return {opcode, {}, std::move(text), {}, 0, status, '\x81'};
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> all;
  for (const auto part : std::views::split(list, '|')) all.emplace_back(part.begin(), part.end());
  return all;
}
std::string many(std::size_t n, char c) { return std::string(n, c); }
std::string times(unsigned n, const std::string& text) { return n == 0 ? "" : text + times(n - 1, text); }

// Versions are given by E where a reply shows them.
std::vector<exchange> text_exchanges() {
  std::vector<exchange> all{
      {"set_and_get", "set k 5 0 3\nabc\nget k\nget none\n", "STORED\nVALUE k 5 3\nabc\nEND\nEND\n"},
      {"empty_value", "set k 0 0 0\n\nget k\n", "STORED\nVALUE k 0 0\n\nEND\n"},
      {"bare_newlines", "set k 0 0 1\vx\nget k\vmn\v", "STORED\nVALUE k 0 1\nx\nEND\nMN\n"},
      {"value_with_line_ends", "set k 0 0 6\na\nb\n\nget k\n", "STORED\nVALUE k 0 6\na\nb\n\nEND\n"},
      {"several_keys", "set a 0 0 1\n1\nset c 0 0 1\n3\nget a b  c a\n",
       "STORED\nSTORED\nVALUE a 0 1\n1\nVALUE c 0 1\n3\nVALUE a 0 1\n1\nEND\n"},
      {"gets_shows_versions", "ms a 1 E70\nx\ngets a\n", "HD\nVALUE a 0 1 70\nx\nEND\n"},
      {"add_and_replace", "replace k 0 0 1\na\nadd k 0 0 1\nb\nadd k 0 0 1\nc\nreplace k 0 0 1\nd\nget k\n",
       "NOT_STORED\nSTORED\nNOT_STORED\nSTORED\nVALUE k 0 1\nd\nEND\n"},
      {"append_and_prepend",
       "append k 0 0 1\na\nprepend k 0 0 1\na\nset k 7 0 1\nb\nappend k 1 1 2\ncd\nprepend k 0 0 1\na\n"
       "get k\n",
       "NOT_STORED\nNOT_STORED\nSTORED\nSTORED\nSTORED\nVALUE k 7 4\nabcd\nEND\n"},
      {"cas", "cas k 0 0 1 5\na\nms k 1 E5\nb\ncas k 0 0 1 4\nc\ncas k 0 0 1 5\nd\ncas k 0 0 1 0\nc\nget k\n",
       "NOT_FOUND\nHD\nEXISTS\nSTORED\nEXISTS\nVALUE k 0 1\nd\nEND\n"},
      {"incr_and_decr",
       "incr n 1\nset n 3 0 2\n10\nincr n 5\ndecr n 6\ndecr n 20\nget n\nset n 0 0 20\n18446744073709551615\n"
       "incr n 2\n",
       "NOT_FOUND\nSTORED\n15\n9\n0\nVALUE n 3 1\n0\nEND\nSTORED\n1\n"},
      {"what_is_no_number",
       "set n 0 0 2\nab\nincr n 1\nset n 0 0 0\n\nincr n 1\nset n 0 0 2\n-1\ndecr n 1\nset n 0 0 21\n"
       "184467440737095516150\nincr n 1\nset n 0 0 3\n4  \nincr n 1\nincr n x\nincr n -1\nincr n\n",
       "STORED\nCLIENT_ERROR cannot increment or decrement non-numeric value\nSTORED\n"
       "CLIENT_ERROR cannot increment or decrement non-numeric value\nSTORED\n"
       "CLIENT_ERROR cannot increment or decrement non-numeric value\nSTORED\n"
       "CLIENT_ERROR cannot increment or decrement non-numeric value\nSTORED\n5\n"
       "CLIENT_ERROR invalid numeric delta argument\nCLIENT_ERROR invalid numeric delta argument\n"
       "CLIENT_ERROR bad command line format\n"},
      {"delete", "set k 0 0 1\na\ndelete k\ndelete k\nget k\ndelete k 0\ndelete\n",
       "STORED\nDELETED\nNOT_FOUND\nEND\nNOT_FOUND\nCLIENT_ERROR bad command line format\n"},
      {"delete_with_arguments",
       "set k 0 0 1\na\ndelete k 1\ndelete k 00\ndelete k 0 0\ndelete k noreply 0\ndelete k 0 noreply x\n"
       "delete a b c d e\ndelete k 1 noreply\ndelete k 0 0 noreply\ndelete k noreply noreply\nget k\n"
       "delete k 0 noreply \nget k\nset k 0 0 1\na\ndelete  k  0 \ndelete noreply\nmn\n",
       "STORED\n" + times(6, "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\n") +
           "VALUE k 0 1\na\nEND\nEND\nSTORED\nDELETED\nMN\n"},
      {"noreply",
       "set k 0 0 1 noreply\na\nadd k 0 0 1 noreply\nb\nappend k 0 0 1 noreply \nb\nincr k 1 noreply\n"
       "touch k 9 noreply\nget k\ndelete k noreply\nget k\nflush_all noreply\nflush_all 0 noreply\n"
       "verbosity 0 noreply\nmn\n",
       "VALUE k 0 2\nab\nEND\nEND\nMN\n"},
      {"times",
       "set a 0 10 1\n1\nset b 0 -1 1\n2\nset c 0 1000000000 1\n3\nset d 0 0 1\n4\nget a b c d\ndebugtime 9\n"
       "get a\ndebugtime 1\nget a d\n",
       "STORED\nSTORED\nSTORED\nSTORED\nVALUE a 0 1\n1\nVALUE d 0 1\n4\nEND\nOK\nVALUE a 0 1\n1\nEND\nOK\n"
       "VALUE d 0 1\n4\nEND\n"},
      // 2^32 - 1 is libmemcached's -1. After it: 4, 0, the largest and the smallest of 64 bits, and one more.
      {"ends_are_cut_to_32_bits",
       "set k 0 0 1\na\nset k 0 4294967295 1 noreply\nb\nget k\nadd k 0 2147483648 1\nc\nmg k\n"
       "set k 0 4294967300 1\nd\nmg k t v\nset k 0 +4294967296 1\ne\nmg k t v\n"
       "set k 0 9223372036854775807 1\nf\nmg k\nset k 0 -9223372036854775808 1\ng\nmg k t v\n"
       "set k 0 9223372036854775808 1\nh\nset k 0 +-1 1\nh\nset k 0 + 1\nh\nmg k v\n",
       "STORED\nEND\nSTORED\nEN\nSTORED\nVA 1 t4\nd\nSTORED\nVA 1 t-1\ne\nSTORED\nEN\nSTORED\nVA 1 t-1\ng\n" +
           times(3, "CLIENT_ERROR bad command line format\n") + "VA 1\ng\n"},
      {"flags_are_cut_to_32_bits",
       "set k 4294967301 0 1\na\nmg k f\nset k 18446744073709551615 0 1\na\nmg k f\nset k -1 0 1\na\n"
       "set k 18446744073709551616 0 1\na\n",
       "STORED\nHD f5\nSTORED\nHD f4294967295\n" + times(2, "CLIENT_ERROR bad command line format\n")},
      {"ends_of_other_commands_have_32_bits",
       "set k 0 0 1\na\ntouch k 2147483648\ngat 4294967295 k\nmg k T4294967295\nms k 1 T2147483648\nb\n"
       "flush_all 4294967295\nmg k t v\ntouch k -2147483648\nmg k\n",
       "STORED\n" + times(2, "CLIENT_ERROR invalid exptime argument\n") +
           times(2, "CLIENT_ERROR bad token in command line format\n") +
           "CLIENT_ERROR invalid exptime argument\nVA 1 t-1\na\nTOUCHED\nEN\n"},
      {"up_to_30_days_are_from_now",
       "set k 0 2592000 1\na\nmg k t\ntouch k 2592000\nmg k t\ntouch k 2592001\nmg k\nset k 0 2592001 1\na\n"
       "mg k\n",
       "STORED\nHD t2592000\nTOUCHED\nHD t2592000\nTOUCHED\nEN\nSTORED\nEN\n"},
      {"touch",
       "touch k 5\nset k 0 0 1\na\ntouch k 5\ndebugtime 4\ntouch k 50\ndebugtime 40\nget k\ntouch k -1\n"
       "get k\ntouch k x\ntouch k\n",
       "NOT_FOUND\nSTORED\nTOUCHED\nOK\nTOUCHED\nOK\nVALUE k 0 1\na\nEND\nTOUCHED\nEND\n"
       "CLIENT_ERROR invalid exptime argument\nCLIENT_ERROR bad command line format\n"},
      {"gat", "ms a 1 E9\n1\ngat 30 a b\nmg a t\ngats 0 a\nmg a t\ngat x a\ngat 1\n",
       "HD\nVALUE a 0 1\n1\nEND\nHD t30\nVALUE a 0 1 9\n1\nEND\nHD t-1\n"
       "CLIENT_ERROR invalid exptime argument\nCLIENT_ERROR bad command line format\n"},
      {"a_clock_that_stands",
       "debugtime p\nset k 0 5 1\na\ndebugtime 4\nget k\ndebugtime x\ndebugtime 1\nget k\n",
       "OK\nSTORED\nOK\nVALUE k 0 1\na\nEND\nERROR\nOK\nEND\n"},
      {"flush", "set k 0 0 1\na\nflush_all\nget k\nset k 0 0 1\nb\nget k\nflush_all x\n",
       "STORED\nOK\nEND\nSTORED\nVALUE k 0 1\nb\nEND\nCLIENT_ERROR invalid exptime argument\n"},
      {"flush_later",
       "set k 0 0 1\na\nflush_all 10\ndebugtime 8\nget k\ndebugtime 1\nget k\nset k 0 0 1\nb\ndebugtime 99\n"
       "get k\n",
       "STORED\nOK\nOK\nVALUE k 0 1\na\nEND\nOK\nEND\nSTORED\nOK\nVALUE k 0 1\nb\nEND\n"},
      {"a_later_flush_replaces_an_earlier_one",
       "flush_all 10\nflush_all 0\nset k 0 0 1\na\ndebugtime 20\nget k\n",
       "OK\nOK\nSTORED\nOK\nVALUE k 0 1\na\nEND\n"},
      {"flush_in_a_second_is_now", "set k 0 0 1\na\nflush_all 1\nget k\nset k 0 0 1\nb\ndebugtime 9\nget k\n",
       "STORED\nOK\nEND\nSTORED\nOK\nVALUE k 0 1\nb\nEND\n"},
      {"flush_in_the_past_is_now",
       "set k 0 0 1\na\nflush_all -1\nget k\nset k 0 0 1\na\nflush_all -2147483648 noreply\nget k\n"
       "flush_all -2147483649\n",
       "STORED\nOK\nEND\nSTORED\nEND\nCLIENT_ERROR invalid exptime argument\n"},
      {"flush_long_before_the_start_is_never",
       "set k 0 0 1\na\nflush_all 2\nflush_all 2592001\ndebugtime 9\nget k\nflush_all 2592000\n"
       "flush_all 2147483647\nget k\nflush_all 2147483648\n",
       "STORED\nOK\nOK\nOK\nVALUE k 0 1\na\nEND\nOK\nOK\nVALUE k 0 1\na\nEND\n"
       "CLIENT_ERROR invalid exptime argument\n"},
      {"bad_lines",
       "\nx\nget\nget  \nset k\nset k 0 0 -1\nset k 0 0 x\nset k 0 0 4294967295\nnonsense\nGET k\ngetx k\n"
       " get k\n",
       "CLIENT_ERROR bad command line format\nCLIENT_ERROR bad command line format\n"
       "CLIENT_ERROR bad command line format\nCLIENT_ERROR bad command line format\n"
       "CLIENT_ERROR bad command line format\nCLIENT_ERROR bad command line format\n"
       "CLIENT_ERROR bad command line format\nCLIENT_ERROR bad command line format\nERROR\nERROR\nERROR\n"
       "ERROR\n"},
      {"short_and_blank_lines",
       "xy\v  \v \nxy\n   \nnoreply\n    noreply\nnoreply noreply\nxy noreply x\n flush_all\n verbosity 0\n"
       "  flush_all noreply\n mn\n version\n",
       "CLIENT_ERROR bad command line format\nCLIENT_ERROR bad command line format\n"
       "CLIENT_ERROR bad command line format\nERROR\nERROR\nERROR\nOK\nOK\nERROR\nERROR\n"},
      {"the_value_of_a_bad_line_is_skipped",
       "set k x 0 7\nget k\n\nset k 0 x 3 noreply\nabc\ncas k 0 0 3 x\nabc\ncas k 0 0 3\nabc\nget k\n",
       "CLIENT_ERROR bad command line format\nCLIENT_ERROR bad command line format\n"
       "CLIENT_ERROR bad command line format\nEND\n"},
      {"bad_chunk", "set k 0 0 3\nabcdeget k\nset k 0 0 1 noreply\nabcms k 1 q\nabcmn\n",
       "CLIENT_ERROR bad data chunk\nEND\nCLIENT_ERROR bad data chunk\nMN\n"},
      {"long_keys",
       "set " + many(250, 'k') + " 0 0 1\na\nget " + many(250, 'k') + "\nget a " + many(251, 'k') + "\nset " +
           many(251, 'k') + " 0 0 1\na\ndelete " + many(251, 'k') + "\nmg " + many(251, 'k') + "\nms " +
           many(251, 'k') + " 1\na\nincr " + many(251, 'k') + " 1\nmn\n",
       "STORED\nVALUE " + many(250, 'k') +
           " 0 1\na\nEND\nCLIENT_ERROR bad command line format\nCLIENT_ERROR bad command line format\n"
           "CLIENT_ERROR bad command line format\nCLIENT_ERROR bad command line format\n"
           "CLIENT_ERROR bad command line format\nCLIENT_ERROR bad command line format\nMN\n"},
      {"quit_ends_it", "mn\nquit\nmn\n", "MN\n", true},
      {"http_ends_it", "GET / HTTP/1.0\nmn\n", "", true},
      {"a_long_line_ends_it", "mn\nset " + many(2050, 'k') + " 0 0 1\n", "MN\n", true},
      {"binary_is_for_its_first_byte", "mn\n\x80xyz\nmn\n", "MN\nERROR\nMN\n"},
      {"meta_get",
       "mg k v\nmg k q\nmg k k O1 v\nms k 3 F5 T90 E44\nabc\nmg k\nmg k v\nmg k s v t f c k Oopaque h\n"
       "mg k h v q\n",
       "EN\nEN kk O1\nHD\nHD\nVA 3\nabc\nVA 3 s3 t90 f5 c44 kk Oopaque h1\nabc\nVA 3 h1\nabc\n"},
      {"meta_get_without_access",
       "ms k 1\na\nmg k u h\nmg k h\nmg k h u\ndebugtime 100\nmg k l u\nmg k l\nmg k l u\n",
       "HD\nHD h0\nHD h0\nHD h1\nOK\nHD l100\nHD l100\nHD l0\n"},
      {"meta_get_by_version", "ms k 1 E4\na\nmg k C4 v c\nmg k C5 v c\n", "HD\nHD c4\nVA 1 c4\na\n"},
      {"meta_get_touches",
       "ms k 1 T10\na\nmg k t T50\nmg k T60 t v\nmg k T0 t\nmg none T5\nmg k t T-1\nmg k\n",
       "HD\nHD t10\nVA 1 t60\na\nHD t-1\nEN\nHD t-1\nEN\n"},
      {"vivify",
       "mg k N30 t c v E8\nmg k N30 v\nmg k\nms k 1 T30 E9\na\nmg k N30 v\nmg k R40 v\nmg k R40\nmg k R20\n",
       "VA 0 t30 c8 W\n\nVA 0 Z\n\nHD Z\nHD\nVA 1\na\nVA 1 W\na\nHD Z\nHD Z\n"},
      {"a_look_up_wins_below_R_and_not_at_it",
       "ms k 1 T30\na\nmg k R30\nmg k R31\nmg k R31\nms k 1 T30\na\nmg k R30 T29\nmg k T29 R30\nms k 1\na\n"
       "mg k R2592000\n",
       "HD\nHD\nHD W\nHD Z\nHD\nHD\nHD W\nHD\nHD\n"},
      {"a_win_shows_the_access_before_it",
       "ms k 1 T90\na\nms s 1 T90\na\nmd s I T80\ndebugtime 70\nmg k R30 h l\nmg k h l\nmg s h l\nmg s h l\n"
       "ms k 1 T90\na\ndebugtime 61\nmg k\ndebugtime 20\nmg k R30 h l u\nmg k T90 R30 h l\n",
       "HD\nHD\nHD\nOK\nHD h0 l70 W\nHD h1 l0 Z\nHD h0 l70 X W\nHD h1 l0 Z X\nHD\nOK\nHD\nOK\nHD h1 l20 W\n"
       "HD h1 l20 Z\n"},
      {"stale",
       "ms k 1 E50 T90\na\nmd k I T30 E60\nmg k v t c\nmg k v\nms k 1 C10 E70\nb\nms k 1 C10 I E70\nb\n"
       "mg k v t c\nms k 1 C70 E71\nc\nmg k v t c\n",
       "HD\nHD\nVA 1 t30 c60 X W\na\nVA 1 Z X\na\nEX\nHD\nVA 1 t30 c70 Z X\nb\nHD\nVA 1 t-1 c71\nc\n"},
      {"stale_again_can_be_won_again", "ms k 1\na\nmd k I\nmg k\nmd k I\nmg k\nmg k\n",
       "HD\nHD\nHD X W\nHD\nHD X W\nHD Z X\n"},
      {"meta_set",
       "ms k 2 k O9 s c E6 F1\nab\nms k 2 q\nab\nms k 1 ME\nc\nms k 1 MA s\nc\nms k 1 MP s\nx\nms no 1 MA\n"
       "c\nms no 1 MR k q\nc\nms no 1 C5 c\nc\nms no 1 MA N0 s\nc\nms no 2 MA N0 s\nde\nmg no v\nmg k v f\n",
       "HD kk O9 s2 c6\nNS\nHD s3\nHD s4\nNS\nNS kno\nNF c0\nHD s1\nHD s3\nVA 3\ncde\nVA 4 f0\nxabc\n"},
      {"meta_set_by_version",
       "ms k 1 E5\na\nms k 1 C4 c\nb\nms k 1 C5 MA E6\nb\nms k 1 C5 MA\nb\nms k 1 C0\nb\nms k 1 C6 MR\nc\n"
       "mg k v\n",
       "HD\nEX c0\nHD\nEX\nEX\nHD\nVA 1\nc\n"},
      {"meta_delete",
       "md k\nmd k q\nms k 1 E5\na\nmd k C4 k O2\nmd k C5 k O2 q\nmd k k\nms k 2 E7\nab\nmd k x\nmg k v c\n"
       "md k x I E8\nmg k v c\n",
       "NF\nNF\nHD\nEX kk O2\nNF kk\nHD\nHD\nVA 0 c7\n\nHD\nVA 0 c8 X W\n\n"},
      {"meta_arithmetic",
       "ma n\nma n N0 J7 v\nma n v D3\nma n MD D4 v t T60\nma n t v c E5 k O1\nma n C4\nma n C5 v M-\n"
       "ma n q\nma n M+ v\nma n MI\nma n MX\nma n D\nset n 0 0 1\nx\nma n q\nma new N30 t v\nmg new t\n",
       "NF\nVA 1\n7\nVA 2\n10\nVA 1 t-1\n6\nVA 1 t60 c5 kn O1\n7\nEX\nVA 1\n6\nVA 1\n8\nHD\n"
       "CLIENT_ERROR invalid mode for ma M token\nCLIENT_ERROR invalid or duplicate flag\nSTORED\n"
       "CLIENT_ERROR cannot increment or decrement non-numeric value\nVA 1 t30\n0\nHD t30\n"},
      {"meta_noop_ends_quiet_ones", "ms k 1 q\na\nmg k v q\nmg no v q\nmd k q\nmg k q\nmn\n",
       "VA 1\na\nMN\n"},
      {"meta_flags_refused",
       "mg k v v\nmg k m\nmg k 1\nmg k Tx\nmg k T\nmg k N\nmg k Rq\nmg k C-1\nmg\nmg k O" + many(32, 'o') +
           "\nmg k O" + many(31, 'o') +
           "\nmg k v s t f c k h l u q O1 P1 L1 b x I F1 C1 E1\nms k x\nms k\nms k -1\nms k 1 MZ\na\n"
           "ms k 1 M\na\nms k 1 Fx q\na\nms k 1 v v\na\nmn\n",
       "CLIENT_ERROR duplicate flag\nCLIENT_ERROR invalid flag\nCLIENT_ERROR invalid flag\n"
       "CLIENT_ERROR bad token in command line format\nCLIENT_ERROR bad token in command line format\n"
       "CLIENT_ERROR bad token in command line format\nCLIENT_ERROR bad token in command line format\n"
       "CLIENT_ERROR bad token in command line format\nCLIENT_ERROR bad command line format\n"
       "CLIENT_ERROR opaque token too long\nEN O" +
           many(31, 'o') +
           "\nCLIENT_ERROR options flags are too long\nCLIENT_ERROR bad command line format\n"
           "CLIENT_ERROR bad command line format\nCLIENT_ERROR bad command line format\n"
           "CLIENT_ERROR invalid mode for ms M token\nCLIENT_ERROR invalid mode for ms M token\n"
           "CLIENT_ERROR bad command line format\nCLIENT_ERROR duplicate flag\nMN\n"},
      {"wrong_in_several_ways",
       "mg k v v {\nmg k Tx {\nma k Tx\nma k MX {\nma " + many(251, 'k') + "\nma " + many(251, 'k') +
           " {\nms k 1 v v {\na\nms k -1 {\nmg k" + times(18, " v") + "\nmg k" + times(19, " v") + "\nmg k" +
           times(20, " v") + " {\nmg k" + times(21, " v") + " {\nms k 1" + times(18, " v") + "\na\nma k" +
           times(19, " v") + "\nma k" + times(20, " v") + " {\n",
       "CLIENT_ERROR bad command line format\nCLIENT_ERROR bad command line format\n"
       "CLIENT_ERROR invalid or duplicate flag\nCLIENT_ERROR bad command line format\n"
       "CLIENT_ERROR invalid or duplicate flag\nCLIENT_ERROR bad command line format\n"
       "CLIENT_ERROR bad command line format\nCLIENT_ERROR bad command line format\n"
       "CLIENT_ERROR duplicate flag\nCLIENT_ERROR options flags are too long\n"
       "CLIENT_ERROR bad command line format\nCLIENT_ERROR options flags are too long\n"
       "CLIENT_ERROR options flags are too long\nCLIENT_ERROR invalid or duplicate flag\n"
       "CLIENT_ERROR bad command line format\n"},
      {"opaques",
       "mg k O" + many(31, 'o') + "\nmg k q O" + many(32, 'o') + "\nmd k O" + many(32, 'o') + "\nme k O" +
           many(32, 'o') + "\nma n N0 O" + many(32, 'o') + "\nma n MX O" + many(32, 'o') + "\nma n Tx O" +
           many(32, 'o') + "\nms k 1 q O" + many(32, 'o') + "\na\nms k 1 MX O" + many(32, 'o') +
           "\na\nms k 1 O" + many(32, 'o') + " {\na\n",
       "EN O" + many(31, 'o') +
           "\nCLIENT_ERROR opaque token too long\nCLIENT_ERROR opaque token too long\nEN\n"
           "CLIENT_ERROR opaque token too long\nCLIENT_ERROR invalid mode for ma M token\n"
           "CLIENT_ERROR invalid or duplicate flag\nCLIENT_ERROR opaque token too long\n"
           "CLIENT_ERROR invalid mode for ms M token\nCLIENT_ERROR bad command line format\n"},
      {"base64_that_is_unusual",
       "ms Y*WJj 1 b k\nx\nget abc\nmg YR== b k\nmg YQ==YQ== k b\nmd =YQ= b k\nmg Y=== b\nmg ==== b\nmg * b\n"
       "ma Y*Q== b N0 k v\n",
       "HD kYWJj b\nVALUE abc 0 1\nx\nEND\nEN kYQ== b\nEN kYQ== b\nNF kAQ== b\n"
       "CLIENT_ERROR error decoding key\nCLIENT_ERROR error decoding key\nCLIENT_ERROR error decoding key\n"
       "VA 1 kYQ== b\n0\n"},
      {"base64_keys",
       "ms YQBiIA== 1 b k\nx\nmg YQBiIA== v b k\nmg YQBiIA== v\nmg YQBiIA b\nmg YQ*= b\nma Yg== b N0 k v\n"
       "get b\nmd Yg== b k\nme Yw== b\n",
       "HD kYQBiIA== b\nVA 1 kYQBiIA== b\nx\nEN\nCLIENT_ERROR error decoding key\n"
       "CLIENT_ERROR error decoding key\nVA 1 kYg== b\n0\nVALUE b 0 1\n0\nEND\nHD kYg== b\nEN\n"},
      {"meta_debug", "me k\nms k 3 T50 E5\nabc\ndebugtime 20\nme k\nme\n",
       "EN\nHD\nOK\nME k exp=30 la=20 cas=5 fetch=no cls=1 size=4\nCLIENT_ERROR bad command line format\n"},
      {"meta_debug_takes_any_flags",
       "ms YWJj 3 b E5\nxyz\nme abc Tx v v 7\nme Y*WJj b\nme YWJj v b\nme YWJ b\nme abc {\nme " +
           many(251, 'k') + "\nme k" + times(30, " v") + "\n",
       "HD\nME abc exp=-1 la=0 cas=5 fetch=no cls=1 size=6\nME YWJj exp=-1 la=0 cas=5 fetch=no cls=1 size=6\n"
       "ME YWJj exp=-1 la=0 cas=5 fetch=no cls=1 size=6\nCLIENT_ERROR bad command line format\n"
       "CLIENT_ERROR bad command line format\nCLIENT_ERROR bad command line format\nEN\n"},
      {"verbosity", "verbosity 1\nverbosity\nverbosity x\nverbosity 0 1 2\n",
       "OK\nCLIENT_ERROR bad command line format\nCLIENT_ERROR bad command line format\nOK\n"},
      {"version", "version\nversion noreply\n", "VERSION 1.6.45\nVERSION 1.6.45\n"},
      {"refused_by_name", "slabs automove x\nshutdown\n",
       "CLIENT_ERROR bad command line format\n"
       "SERVER_ERROR: shutdown not enabled\n"},
      {"the_crawler",
       "lru_crawler metadump all\nlru_crawler mgdump hash\nlru_crawler metadump 2,63\n"
       "lru_crawler metadump 0\nlru_crawler metadump 1,64\nlru_crawler mgdump 1,x\nlru_crawler metadump\n"
       "lru_crawler metadump all x\nlru_crawler metadump all noreply\nlru_crawler\nlru_crawler x\n"
       "lru_crawler crawl all\nlru_crawler crawl 1,2\nlru_crawler crawl hash\nlru_crawler tocrawl 5\n"
       "lru_crawler tocrawl x\nlru_crawler sleep 1000000\nlru_crawler sleep 1000001\nlru_crawler enable\n"
       "lru_crawler disable\n",
       "OK\nEND\nOK\nEN\nOK\nEND\n" + times(3, "BADCLASS invalid class id\n") + times(4, "ERROR\n") +
           "OK\nOK\nBADCLASS invalid class id\nOK\nCLIENT_ERROR bad command line format\nOK\n"
           "CLIENT_ERROR sleep must be one second or less\nOK\nOK\n"},
      {"names_are_whole", "replace" + many(256, 'x') + " k 0 0 1\nprependx k 0 0 1\nmgx k\nge k\nmn\n",
       times(4, "ERROR\n") + "MN\n"},
      {"dumps_of_commands",
       "set a%~b 0 0 1\nx\nlru_crawler mgdump all\ndelete a%~b\nms YWIgYwo= 1 b\nx\nset gone 0 -1 1\nx\n"
       "lru_crawler mgdump 1\nmn\n",
       "STORED\nOK\nmg a%~b\nEN\nDELETED\nHD\nSTORED\nOK\nmg YWIgYwo= b\nEN\nMN\n"},
      {"details",
       "stats detail dump\nset a:1 0 0 1\n1\nstats detail on\nset a:1 0 0 1\n1\nget a:1 a:2 b\ndelete a:3\n"
       "stats detail dump\nstats reset\nstats detail dump\nstats detail off\nget a:1\nstats detail dump\n"
       "stats detail x\n",
       "END\nSTORED\nOK\nSTORED\nVALUE a:1 0 1\n1\nEND\nNOT_FOUND\nPREFIX a get 2 hit 1 set 1 del 1\nEND\n"
       "RESET\nEND\nOK\nVALUE a:1 0 1\n1\nEND\nEND\nCLIENT_ERROR usage: stats detail on|off|dump\n"},
      {"dumps",
       "set a 0 0 3\nabc\nstats cachedump 1 0\nstats cachedump 2 0\nstats cachedump 64 0\nstats cachedump 1\n"
       "stats sizes\nstats nonsense\n",
       "STORED\nITEM a [3 b; 0 s]\nEND\nEND\nCLIENT_ERROR Illegal slab id\nCLIENT_ERROR bad command line\n"
       "STAT sizes_status disabled\nEND\nERROR\n"},
  };
  for (exchange& e : all) {
    e.input = on_the_wire(e.input);
    e.replies = on_the_wire(e.replies);
  }
  return all;
}

class conversations : public testing::TestWithParam<exchange> {};

TEST_P(conversations, however_they_are_cut) {
  const exchange& e = GetParam();
  conversation whole;
  EXPECT_EQ(whole.say(e.input), e.replies);
  EXPECT_EQ(whole.closed, e.closes);
  if (HasFailure()) return;
  conversation bytes;
  for (const char c : e.input) bytes.say({&c, 1});
  EXPECT_EQ(bytes.replies, e.replies);
  EXPECT_EQ(bytes.closed, e.closes);
  EXPECT_EQ(unreadable(e.replies), std::string::npos);
  for (std::size_t cut = 1; cut < e.input.size() && !HasFailure(); ++cut) {
    conversation two;
    two.say(std::string_view(e.input).substr(0, cut));
    two.say(std::string_view(e.input).substr(cut));
    EXPECT_EQ(two.replies, e.replies) << "cut at " << cut;
    EXPECT_EQ(two.closed, e.closes);
  }
}

std::string name_of(const testing::TestParamInfo<exchange>& of) { return of.param.name; }

INSTANTIATE_TEST_SUITE_P(text, conversations, testing::ValuesIn(text_exchanges()), name_of);

TEST(protocol, versions_are_new_with_each_change) {
  conversation c;
  const auto version = [&c] {
    const std::string reply = c.ask("mg k c\r\n");
    EXPECT_THAT(reply, StartsWith("HD c"));
    return reply;
  };
  std::vector<std::string> seen;
  for (const char* const change : {"set k 0 0 1\r\n1\r\n", "incr k 1\r\n", "append k 0 0 1\r\n2\r\n",
                                   "ms k 1\r\n1\r\n", "ma k\r\n", "md k I\r\n"}) {
    c.say(change);
    seen.push_back(version());
    EXPECT_EQ(std::ranges::count(seen, seen.back()), 1) << change;
  }
  c.say("touch k 100\r\n");
  EXPECT_EQ(version().substr(0, seen.back().find("X")), seen.back().substr(0, seen.back().find("X")));
  EXPECT_EQ(c.ask("cas k 0 0 1 " + seen.back().substr(4, seen.back().find(' ', 4) - 4) + "\r\n1\r\n"),
            "STORED\r\n");
}

TEST(protocol, without_versions) {
  choice without;
  without.chosen.versions = false;
  conversation c(without);
  EXPECT_EQ(c.ask("ms k 1 E5\r\na\r\ngets k\r\nmg k c\r\ncas k 0 0 1 5\r\nb\r\n"),
            "HD\r\nVALUE k 0 1 0\r\na\r\nEND\r\nHD c0\r\nEXISTS\r\n");
}

TEST(protocol, what_the_settings_refuse_and_allow) {
  choice with;
  with.chosen.flushes = false;
  with.chosen.test_clock = false;
  conversation c(with);
  EXPECT_EQ(c.ask("flush_all\r\ndebugtime 5\r\n"), "CLIENT_ERROR flush_all not allowed\r\nERROR\r\n");
  conversation in_frames(with);
  EXPECT_EQ(in_frames.ask(frame{0x08}.bytes() + frame{0x0A}.bytes()),
            error(0x08, 0x20, "Auth failure.").bytes() + answer(0x0A).bytes());
  with.chosen.shuts_down = true;
  conversation d(with);
  int stops = 0;
  d.shared.stop = [&stops] { ++stops; };
  EXPECT_EQ(d.ask("shutdown now\r\n"), "CLIENT_ERROR invalid shutdown mode\r\n");
  EXPECT_EQ(d.ask("shutdown graceful\r\nmn\r\n"), "");
  EXPECT_TRUE(d.closed);
  EXPECT_EQ(stops, 1);
}

TEST(protocol, a_connection_logs_in_before_its_first_command) {
  const std::string input =
      "get key\r\nstats\r\nset a 0 0 2000000000\r\nset a 0 0 2\r\nabcdget key\r\nset a 0 0 5\r\nme:pw\r\n"
      "set a 0 0 5\r\nme no\r\nset a 0 0 6\r\nme pw \r\nset a 0 0 4\r\n pw2\r\nset a 0 0 8 noreply\r\nyou "
      "me:p\r\n"
      "set a 0 0 5\r\nme pw\r\nget a\r\n";
  const std::string replies =
      "CLIENT_ERROR unauthenticated\r\nCLIENT_ERROR unauthenticated\r\nCLIENT_ERROR auth token too long\r\n"
      "CLIENT_ERROR bad command line termination\r\nCLIENT_ERROR unauthenticated\r\n"
      "CLIENT_ERROR bad authentication token format\r\nCLIENT_ERROR authentication failure\r\n"
      "CLIENT_ERROR authentication failure\r\nCLIENT_ERROR authentication failure\r\n"
      "CLIENT_ERROR authentication failure\r\nSTORED\r\nEND\r\n";
  for (std::size_t cut = 0; cut < input.size(); ++cut) {
    conversation c;
    c.shared.set_users(users("you:me:pw\r\nme:pw\nme:pw2"));
    c.say(std::string_view(input).substr(0, cut));
    ASSERT_EQ(c.say(std::string_view(input).substr(cut)), replies) << "cut at " << cut;
    // One that has logged in stays.
    c.shared.set_users(users("you:pw"));
    ASSERT_EQ(c.ask("get a\r\n"), "END\r\n");
    ASSERT_THAT(c.ask("stats\r\n"), testing::HasSubstr("STAT auth_cmds 5\r\nSTAT auth_errors 4\r\n"));
  }
  for (const std::string& junk : {many(2050, 'x'), std::string("set\r\n")}) {
    conversation c;
    c.shared.set_users(users("me:pw"));
    EXPECT_EQ(c.say(junk), "");
    EXPECT_TRUE(c.closed);
  }
}

TEST(protocol, users_are_lines_of_names_and_passwords) {
  const users some("a:1\nab:\nc:d:e\n");
  EXPECT_TRUE(some.have("a", "1") && some.have("ab", "") && some.have("c", "d:e"));
  EXPECT_FALSE(some.have("a", "") || some.have("a", "12") || some.have("ab", "1") || some.have("c", "d") ||
               some.have("", ""));
  const users of_windows("a:1\r\nb:2\r\n");
  EXPECT_TRUE(of_windows.have("a", "1") && of_windows.have("b", "2"));
  EXPECT_THROW(users(""), std::invalid_argument);
  EXPECT_THROW(users("a:1\n\nb:2\n"), std::invalid_argument);
  EXPECT_THROW(users("a:1\nb"), std::invalid_argument);
}

constexpr std::uint8_t unused_opcode = 0x1F;

std::vector<exchange> binary_exchanges() {
  const std::string five = big_endian(std::uint32_t{5});
  const std::string none = big_endian(std::uint32_t{0});
  const frame not_found = error(0, 1, "Not found");
  const frame missing_key{0x0C, "k", {}, {}, 0, 1, '\x81'};
  return {
      {"stores_and_gets",
       binary({{0x01, "k", "abc", for_store(5, 0)},
               {0x00, "k"},
               {0x0C, "k"},
               {0x02, "k", "x", for_store(0, 0)},
               {0x03, "k", "de", for_store(0, 0)},
               {0x0E, "k", "!"},
               {0x0F, "k", "?"},
               {0x00, "k"},
               {0x04, "k"},
               {0x00, "k"},
               {0x0C, "k"},
               {0x03, "k", "x", for_store(0, 0)},
               {0x0E, "k", "x"},
               {0x04, "k"}}),
       binary({answer(0x01, 1), answer(0x00, 1, "abc", five), answer(0x0C, 1, "abc", five, "k"),
               error(0x02, 2, "Data exists for key."), answer(0x03, 2), answer(0x0E, 3), answer(0x0F, 4),
               answer(0x00, 4, "?de!", none), answer(0x04), not_found, missing_key,
               error(0x03, 1, "Not found"), error(0x0E, 5, "Not stored."), error(0x04, 1, "Not found")})},
      {"quiet_ones_reply_to_errors",
       binary({{0x11, "k", "1", for_store(0, 0)},
               {0x12, "k", "x", for_store(0, 0)},
               {0x13, "no", "x", for_store(0, 0)},
               {0x19, "k", "2"},
               {0x1A, "k", "3"},
               {0x09, "k"},
               {0x09, "no"},
               {0x0D, "k"},
               {0x0D, "no"},
               {0x15, "k", {}, for_number(1, 0, 0)},
               {0x16, "k", {}, for_number(2, 0, 0)},
               {0x14, "k"},
               {0x14, "k"},
               {0x18},
               {0x0A},
               {0x17},
               {0x0A}}),
       binary({error(0x12, 2, "Data exists for key."), error(0x13, 1, "Not found"),
               answer(0x09, 3, "312", none), answer(0x0D, 3, "312", none, "k"), error(0x14, 1, "Not found"),
               answer(0x0A)}),
       true},
      {"versions",
       binary({{0x01, "k", "a", for_store(0, 0), 7},
               {0x01, "k", "a", for_store(0, 0)},
               {0x01, "k", "b", for_store(0, 0), 9},
               {0x01, "k", "b", for_store(0, 0), 1},
               {0x02, "k", "c", for_store(0, 0), 1},
               {0x0E, "k", "c", {}, 1},
               {0x0E, "k", "c", {}, 2},
               {0x04, "k", {}, {}, 2},
               {0x04, "k", {}, {}, 3}}),
       binary({error(0x01, 1, "Not found"), answer(0x01, 1), error(0x01, 2, "Data exists for key."),
               answer(0x01, 2), error(0x02, 2, "Data exists for key."),
               error(0x0E, 2, "Data exists for key."), answer(0x0E, 3),
               error(0x04, 2, "Data exists for key."), answer(0x04)})},
      {"numbers",
       binary({{0x05, "n", {}, for_number(1, 7, 0xFFFF'FFFF)},
               {0x05, "n", {}, for_number(1, 7, 0)},
               {0x05, "n", {}, for_number(std::uint64_t{1} << 33U, 0, 0)},
               {0x06, "n", {}, for_number(8, 0, 0), 2},
               {0x06, "n", {}, for_number(8, 0, 0), 2},
               {0x00, "n"},
               {0x01, "t", "text", for_store(0, 0)},
               {0x05, "t", {}, for_number(1, 0, 0)}}),
       binary({error(0x05, 1, "Not found"), answer(0x05, 1, big_endian(std::uint64_t{7})),
               answer(0x05, 2, big_endian((std::uint64_t{1} << 33U) + 7)),
               answer(0x06, 3, big_endian((std::uint64_t{1} << 33U) - 1)),
               error(0x06, 2, "Data exists for key."), answer(0x00, 3, "8589934591", none), answer(0x01, 4),
               error(0x05, 6, "Non-numeric server-side value for incr or decr")})},
      {"touches",
       binary({{0x1C, "k", {}, big_endian(9U)},
               {0x1D, "k", {}, big_endian(9U)},
               {0x1E, "k", {}, big_endian(9U)},
               {0x24, "k", {}, big_endian(9U)},
               {0x01, "k", "a", for_store(5, 9)},
               {0x1C, "k", {}, big_endian(9U)},
               {0x1D, "k", {}, big_endian(9U)},
               {0x1E, "k", {}, big_endian(9U)},
               {0x23, "k", {}, big_endian(9U)},
               {0x24, "k", {}, big_endian(0x8000'0000U)},
               {0x00, "k"}}),
       binary({error(0x1C, 1, "Not found"), error(0x1D, 1, "Not found"), answer(0x01, 1),
               answer(0x1C, 1, {}, five), answer(0x1D, 1, "a", five), answer(0x1E, 1, "a", five),
               answer(0x23, 1, "a", five, "k"), answer(0x24, 1, "a", five, "k"),
               answer(0x00, 1, "a", five)})},
      {"about_the_server",
       binary({{0x0B},
               {0x0A},
               {0x01, "k", "a", for_store(0, 0)},
               {0x08},
               {0x00, "k"},
               {0x08, {}, {}, big_endian(9U)},
               {0x10, "sizes"},
               {0x10, "detail on"},
               {0x10, "nonsense"},
               {0x10, "cachedump 1 1"},
               {0x20},
               {unused_opcode, "k", "v"},
               {0x07},
               {0x0A}}),
       binary({answer(0x0B, 0, std::string(spoken_version)), answer(0x0A), answer(0x01, 1), answer(0x08),
               not_found, answer(0x08), answer(0x10, 0, "disabled", {}, "sizes_status"), answer(0x10),
               answer(0x10), error(0x10, 1, "Not found"), answer(0x10), error(0x20, 0x81, "Unknown command"),
               error(unused_opcode, 0x81, "Unknown command"), answer(0x07)}),
       true},
      {"prefixes",
       binary({{0x10, "detail on"},
               {0x01, "a:1", "1", for_store(0, 0)},
               {0x00, "a:1"},
               {0x04, "a:1"},
               {0x10, "detail dump"}}),
       binary({answer(0x10), answer(0x01, 1), answer(0x00, 1, "1", none), answer(0x04),
               answer(0x10, 0, "PREFIX a get 1 hit 1 set 1 del 1\r\nEND\r\n", {}, "detailed"),
               answer(0x10)})},
      {"a_key_that_is_too_long", binary({{0x00, many(251, 'k')}, {0x0A}}),
       binary({error(0x00, 4, "Invalid arguments")}), true},
      {"a_store_without_extras", binary({{0x01, "k", "v"}, {0x0A}}),
       binary({error(0x01, 4, "Invalid arguments")}), true},
      {"a_get_with_a_value", binary({{0x00, "k", "v"}, {0x0A}}),
       binary({error(0x00, 4, "Invalid arguments")}), true},
      {"a_get_without_a_key", binary({{0x00}, {0x0A}}), binary({error(0x00, 4, "Invalid arguments")}), true},
      {"a_nothing_with_a_key", binary({{0x0A, "k"}, {0x0A}}), binary({error(0x0A, 4, "Invalid arguments")}),
       true},
      {"a_body_shorter_than_its_parts",
       std::string("\x80\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x04wxyz", 16) + many(12, '\0'),
       binary({error(0x00, 0x81, "Unknown command")}), true},
      {"a_body_that_is_no_command",
       std::string("\x80\x01\x00\x05\x08\x00\x00\x00\xff\xff\xff\xfewxyz", 16) + many(12, '\0'),
       binary({error(0x01, 4, "Invalid arguments")}), true},
      {"text_ends_it", binary({{0x0A}}) + "get a\r\n" + many(20, ' '), binary({answer(0x0A)}), true},
  };
}

TEST(protocol, no_bytes_decide_nothing) {
  for (const std::string& first : {std::string("get k\r\n"), frame{0x00, "k"}.bytes()}) {
    conversation c;
    EXPECT_EQ(c.say(""), "");
    EXPECT_EQ(c.say(first), first.front() == 'g' ? "END\r\n" : error(0x00, 1, "Not found").bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(binary, conversations, testing::ValuesIn(binary_exchanges()), name_of);

TEST(protocol, large_values_of_the_binary_protocol) {
  const std::string large = many(30'000, 'x');
  const std::string store = frame{0x01, "k", large, for_store(1, 0)}.bytes();
  conversation c;
  c.say(store.substr(0, 200));
  EXPECT_EQ(c.commands().room().size(), large.size() - (200 - 33));  // it lies in the cache
  EXPECT_EQ(c.say(store.substr(200)), answer(0x01, 1).bytes());
  EXPECT_EQ(c.ask(frame{0x00, "k"}.bytes()), answer(0x00, 1, large, big_endian(1U)).bytes());
  const std::string too_large = frame{0x01, "k", many(64 * kibibyte, 'x'), for_store(1, 0)}.bytes();
  for (const std::size_t cut : {std::size_t{24}, std::size_t{40}, too_large.size()}) {
    conversation d;
    d.say(frame{0x11, "k", "old", for_store(0, 0)}.bytes() + too_large.substr(0, cut));
    EXPECT_EQ(d.say(too_large.substr(cut) + frame{0x00, "k"}.bytes()),
              error(0x01, 3, "Too large.").bytes() + error(0x00, 1, "Not found").bytes());
  }
}

TEST(protocol, which_protocols_are_spoken) {
  choice with;
  with.chosen.transport.protocol = "ascii";
  conversation text(with);
  EXPECT_EQ(text.say("\x80xyz\r\nmn\r\n"), "ERROR\r\nMN\r\n");
  with.chosen.transport.protocol = "binary";
  conversation frames(with);
  EXPECT_EQ(frames.say(frame{0x0A}.bytes()), answer(0x0A).bytes());
  for (const bool asks_for_user : {false, true}) {
    conversation other(with);
    if (asks_for_user) other.shared.set_users(users("me:pw"));
    EXPECT_EQ(other.say("set a 0 0 5\r\nme pw\r\nmn\r\n"), "");
    EXPECT_TRUE(other.closed);
  }
}

TEST(protocol, a_binary_connection_logs_in_by_sasl) {
  const auto start = [](conversation& c) { c.shared.set_users(users("me:pw")); };
  const std::string refused = "Auth failure.";
  for (const frame& first :
       {frame{0x00, "k"}, frame{0x01, "k", "v", for_store(0, 0)}, frame{0x10}, frame{unused_opcode}}) {
    conversation c;
    start(c);
    EXPECT_EQ(c.say(first.bytes() + frame{0x0B}.bytes()), error(first.opcode, 0x20, refused).bytes());
    EXPECT_TRUE(c.closed);
  }
  conversation c;
  start(c);
  const auto log_in = [](std::string_view mechanism, std::string_view value) {
    return frame{0x21, std::string(mechanism), std::string(value)}.bytes();
  };
  EXPECT_EQ(c.ask(frame{0x20}.bytes()), answer(0x20, 0, "PLAIN").bytes());
  EXPECT_EQ(c.ask(frame{0x0B}.bytes()), answer(0x0B, 0, std::string(spoken_version)).bytes());
  using namespace std::string_view_literals;
  for (const auto wrong : {"\0me\0px"sv, "\0me"sv, "me"sv, ""sv, "\0me\0pw\0"sv, "me\0pw"sv})
    EXPECT_EQ(c.ask(log_in("PLAIN", wrong)), error(0x21, 0x20, refused).bytes());
  EXPECT_EQ(c.ask(log_in("PLAIN", many(16'385, 'x'))), error(0x21, 4, "Invalid arguments").bytes());
  EXPECT_EQ(c.ask(log_in("SCRAM", "\0me\0pw"sv)), error(0x21, 0x20, refused).bytes());
  EXPECT_EQ(c.ask(frame{0x22, "PLAIN", std::string("\0me\0pw"sv)}.bytes()),
            error(0x22, 0x20, refused).bytes());
  EXPECT_EQ(c.ask(log_in("PLAIN", "you\0me\0pw"sv)), answer(0x21, 0, "Authenticated").bytes());
  EXPECT_EQ(c.ask(frame{0x09, "k"}.bytes() + frame{0x0A}.bytes()), answer(0x0A).bytes());
  // An attempt that is refused ends what a former one had allowed.
  conversation again;
  start(again);
  EXPECT_EQ(again.say(log_in("PLAIN", "\0me\0pw"sv) + frame{0x0A}.bytes() + log_in("PLAIN", "\0me\0px"sv) +
                      frame{0x00, "k"}.bytes()),
            answer(0x21, 0, "Authenticated").bytes() + answer(0x0A).bytes() +
                error(0x21, 0x20, refused).bytes() + error(0x00, 0x20, refused).bytes());
  EXPECT_TRUE(again.closed);
}

TEST(protocol, binary_commands_at_random_do_not_depend_on_how_they_are_cut) {
  std::vector<std::string> pieces;
  for (unsigned opcode = 0; opcode < 0x28; ++opcode) {
    for (const std::string& extras : {std::string(), for_store(3, 2), big_endian(7U), for_number(1, 5, 0)})
      for (const char* const key : {"", "k", "n", "detail dump"})
        for (const char* const value : {"", "5", "abc"})
          pieces.push_back(frame{static_cast<std::uint8_t>(opcode), key, value, extras}.bytes());
  }
  // Most of these end a conversation.
  const std::vector<std::string> good = {frame{0x01, "k", many(300, 'v'), for_store(1, 0)}.bytes(),
                                         frame{0x11, "n", "5", for_store(1, 0)}.bytes(),
                                         frame{0x00, "k"}.bytes(),
                                         frame{0x0D, "n"}.bytes(),
                                         frame{0x05, "n", {}, for_number(3, 1, 0)}.bytes(),
                                         frame{0x01, "k", many(3000, 'v'), for_store(1, 0)}.bytes(),
                                         frame{0x10, "settings"}.bytes(),
                                         frame{0x04, "k", {}, {}, 2}.bytes(),
                                         frame{0x1D, "k", {}, big_endian(1U)}.bytes(),
                                         frame{unused_opcode, "k", "v"}.bytes()};
  for (std::uint64_t seed = 0; seed < 200 && !HasFailure(); ++seed) {
    measure::random_generator random(9010, seed);
    std::string script(1, static_cast<char>(random.below(64)));
    while (script.size() < 1500) {
      std::string next =
          random.below(8) == 0 ? pieces[random.below(pieces.size())] : good[random.below(good.size())];
      if (random.below(40) == 0) next[random.below(next.size())] = static_cast<char>(random.below(256));
      script += next;
    }
    EXPECT_EQ(play(script), "") << "seed " << seed;
  }
}

TEST(protocol, a_clock_goes_on_where_another_one_was) {
  const second_clock old;
  const std::int64_t calendar = old.origin() + old.now();
  second_clock later;
  ASSERT_TRUE(later.go_on(calendar - 5000, 1000));  // 4000 seconds without a server
  EXPECT_GE(later.now(), 5000U);
  EXPECT_EQ(later.origin() + later.now(), calendar + (later.now() - 5000));
  EXPECT_LT(later.uptime(), 4000U);
  later.advance();
  EXPECT_LT(later.now(), 9000U);
  second_clock back;  // the calendar was set back meanwhile
  ASSERT_TRUE(back.go_on(calendar + 5000, 1000));
  EXPECT_EQ(back.now(), 1000U);
  second_clock other;
  const std::uint32_t before = other.now();
  EXPECT_FALSE(other.go_on(-(std::int64_t{1} << 31U), 1000));
  EXPECT_FALSE(other.go_on(calendar + 5000, 1));
  EXPECT_EQ(other.now(), before);
}

TEST(protocol, a_flush_at_a_time_of_the_calendar_comes_a_second_before_it) {
  conversation c;
  const std::int64_t now = c.shared.clock().origin() + c.shared.clock().now();
  const auto flushed_after = [&](std::int64_t from_now) {
    c.say("set k 0 0 1\r\na\r\n");
    EXPECT_EQ(c.ask("flush_all " + std::to_string(now + from_now) + "\r\n"), "OK\r\n");
    return c.ask("get k\r\n") == "END\r\n";
  };
  EXPECT_TRUE(flushed_after(-50));
  EXPECT_TRUE(flushed_after(0));
  EXPECT_TRUE(flushed_after(1));
  EXPECT_FALSE(flushed_after(2));
  EXPECT_EQ(c.ask("debugtime 1\r\nget k\r\n"), "OK\r\nEND\r\n");
  conversation in_frames;
  EXPECT_EQ(in_frames.ask(frame{0x11, "k", "1", for_store(0, 0)}.bytes() +
                          frame{0x18, {}, {}, big_endian(100U)}.bytes() + frame{0x00, "k"}.bytes()),
            answer(0x00, 1, "1", big_endian(0U)).bytes());
}

TEST(protocol, each_byte_as_a_flag) {
  constexpr std::string_view flags = "bklhqstfcvuxNTROPLFCEMJDI";
  const std::string bad_line = "CLIENT_ERROR bad command line format\r\n";
  conversation c;
  for (int code = 0; code < 256; ++code) {
    const char byte = static_cast<char>(code);
    if (byte == '\r' || byte == '\n' || byte == ' ') continue;
    const bool may_be_flag = (byte >= 'A' && byte <= 'z') || (byte >= '0' && byte <= '9');
    const bool is_flag = flags.find(byte) != std::string_view::npos;
    const std::string wrong = is_flag ? "CLIENT_ERROR duplicate flag\r\n" : "CLIENT_ERROR invalid flag\r\n";
    const std::string begin = is_flag ? std::string{byte, '1', ' '} : "";
    for (const std::string verb : {"mg", "ms", "md", "ma", "me"}) {
      const std::string refusal = !may_be_flag || (verb == "me" && byte == 'b') ? bad_line
                                  : verb == "me"                                ? "EN\r\n"
                                  : verb == "ma" ? "CLIENT_ERROR invalid or duplicate flag\r\n"
                                                 : wrong;
      const std::string line = verb + (verb == "ms" ? " k 1 q " : " k q ") + begin + byte + "\r\n";
      // The value is skipped in any case.
      EXPECT_EQ(c.ask(line + (verb == "ms" ? "x\r\nmn\r\n" : "mn\r\n")), refusal + "MN\r\n") << line;
    }
  }
  EXPECT_EQ(c.ask("get k\r\n"), "END\r\n");
}

TEST(protocol, a_value_that_is_too_large_is_skipped_and_leaves_no_older_one) {
  const std::string large(64 * kibibyte, 'x');
  const std::string line = " 0 0 " + std::to_string(large.size());
  for (const std::size_t piece : {std::size_t{1} << 30U, std::size_t{4096}, std::size_t{1000}}) {
    conversation c;
    EXPECT_EQ(c.ask("set k 0 0 1\r\na\r\nset n 0 0 1\r\na\r\nset m 0 0 1\r\na\r\nset a 0 0 1\r\na\r\n"),
              "STORED\r\nSTORED\r\nSTORED\r\nSTORED\r\n");
    const std::string input = "set k" + line + "\r\n" + large + "\r\nset n" + line + " noreply\r\n" + large +
                              "\r\nadd a" + line + " noreply\r\n" + large + "\r\nms m " +
                              std::to_string(large.size()) + " q\r\n" + large + "\r\nget k n m a\r\n";
    c.replies.clear();
    for (std::size_t at = 0; at < input.size(); at += piece) {
      c.say(std::string_view(input).substr(at, piece));
      EXPECT_LE(c.unused(), 4096U + 2);
    }
    EXPECT_EQ(c.replies,
              "SERVER_ERROR object too large for cache\r\nSERVER_ERROR object too large for cache\r\nVALUE a "
              "0 1\r\na\r\nEND\r\n");
    EXPECT_THAT(c.ask("stats\r\n"), HasSubstr("STAT store_too_large 4\r\n"));
  }
}

TEST(protocol, a_value_that_is_too_large_counts_before_an_opaque_that_is_too_long) {
  conversation c;
  const std::string large(70'000, 'x');
  c.ask("set k 0 0 1\r\na\r\n");
  EXPECT_EQ(c.ask("ms k 70000 q MX\r\n" + large + "\r\nmg k\r\n"),
            "CLIENT_ERROR invalid mode for ms M token\r\nHD\r\n");
  EXPECT_EQ(c.ask("ms k 70000 q O" + many(32, 'o') + "\r\n" + large + "\r\nmg k\r\n"),
            "SERVER_ERROR object too large for cache\r\nEN\r\n");
}

std::string large_value(char of) { return std::string(40'000, of); }

TEST(protocol, a_large_value_comes_in_any_parts_and_by_either_way) {
  const std::string input = "set k 7 0 40000\r\n" + large_value('a') + "\r\nget k\r\nms k 40000 c\r\n" +
                            large_value('b') + "\r\nmg k v f s\r\nadd k 0 0 40000\r\n" + large_value('c') +
                            "\r\nget k\r\n";
  std::string replies;
  for (const std::size_t part : {input.size(), std::size_t{1'000}, std::size_t{40'001}, std::size_t{17}}) {
    for (const bool to_room : {false, true}) {
      conversation c;
      for (std::size_t at = 0; at < input.size(); at += part) {
        std::string_view rest = std::string_view(input).substr(at, part);
        if (to_room) rest = c.receive(rest);
        if (!rest.empty()) c.say(rest);
      }
      if (replies.empty()) replies = c.replies;
      EXPECT_EQ(c.replies, replies) << part << ' ' << to_room;
      EXPECT_TRUE(c.commands().room().empty());
    }
  }
  EXPECT_THAT(replies, StartsWith("STORED\r\nVALUE k 7 40000\r\n" + large_value('a') + "\r\nEND\r\nHD c"));
  EXPECT_THAT(replies, HasSubstr("VA 40000 f0 s40000\r\n" + large_value('b') + "\r\nNOT_STORED\r\n"));
}

TEST(protocol, a_large_value_without_its_end_of_line_is_refused) {
  conversation c;
  c.say("set k 0 0 5\r\nsmall\r\nset k 0 0 40000\r\n" + large_value('a').substr(1));
  EXPECT_EQ(c.ask("a!!get k\r\n"), "CLIENT_ERROR bad data chunk\r\nVALUE k 0 5\r\nsmall\r\nEND\r\n");
}

// As much as may be received at once; and a client that ends before its value frees the room.
TEST(protocol, large_values_that_are_not_complete_leave_room_for_others) {
  choice small;
  small.memory.memory_limit = mebibyte * 2;
  const byte_cache* cache = nullptr;
  conversation stays(small);
  cache = &stays.shared.cache();
  stays.say("set small 0 0 1\r\nx\r\n");
  std::vector<std::unique_ptr<session>> clients;
  batch with(stays.shared);
  output out;
  std::size_t refused = 0;
  for (int i = 0; i < 100; ++i) {
    auto& one = *clients.emplace_back(std::make_unique<session>(stays.shared));
    const std::string line = "set k" + std::to_string(i) + " 0 0 40000\r\n" + large_value('x').substr(1);
    EXPECT_EQ(one.consume(line, out, with), line.size());
    if (one.room().empty()) ++refused;
  }
  EXPECT_GT(refused, 70U);
  EXPECT_LT(refused, 80U);
  EXPECT_LE(cache->statistics().used_bytes, small.memory.memory_limit);
  EXPECT_EQ(out.size(), refused * std::string_view("SERVER_ERROR out of memory storing object\r\n").size());
  EXPECT_EQ(stays.ask("get small\r\n"), "VALUE small 0 1\r\nx\r\nEND\r\n");
  clients.clear();
  const std::string line = "set k 0 0 40000\r\n" + large_value('y') + "\r\n";
  EXPECT_EQ(stays.ask(line), "STORED\r\n");
}

TEST(protocol, a_reply_keeps_its_large_value_whatever_becomes_of_the_entry) {
  choice small;
  small.memory.memory_limit = mebibyte * 2;
  conversation reader(small);
  reader.say("set k 0 0 40000\r\n" + large_value('a') + "\r\nset l 0 0 40000\r\n" + large_value('b') +
             "\r\n");
  reader.replies.clear();
  reader.execute("get k l\r\n");
  session writer(reader.shared);
  batch with(reader.shared);
  output out;
  for (int i = 0; i < 200; ++i) {
    const std::string set = (i == 0 ? std::string("delete l\r\nset k") : "set k" + std::to_string(i)) +
                            " 0 0 40000\r\n" + large_value('z') + "\r\n";
    EXPECT_EQ(writer.consume(set, out, with), set.size());
  }
  EXPECT_GT(reader.shared.cache().statistics().evictions, 100U);
  EXPECT_EQ(reader.sent(), "VALUE k 0 40000\r\n" + large_value('a') + "\r\nVALUE l 0 40000\r\n" +
                               large_value('b') + "\r\nEND\r\n");
}

TEST(protocol, a_value_that_grows_too_large_stays_as_it_was) {
  conversation c;
  const std::string half(40 * kibibyte, 'x');
  const std::string bytes = std::to_string(half.size());
  EXPECT_EQ(c.ask("set k 0 0 " + bytes + "\r\n" + half + "\r\nappend k 0 0 " + bytes + "\r\n" + half +
                  "\r\nmg k s\r\n"),
            "STORED\r\nNOT_STORED\r\nHD s" + bytes + "\r\n");
}

TEST(protocol, input_that_is_too_short_is_not_looked_at) {
  conversation c;
  c.say("mn\r\nset k 0 0 1000\r\n");
  EXPECT_EQ(c.commands().wanted(), std::string("set k 0 0 1000\r\n").size() + 1002);
  c.say(many(1000, 'x'));
  EXPECT_EQ(c.replies, "MN\r\n");
  c.say("\r\n");
  EXPECT_EQ(c.replies, "MN\r\nSTORED\r\n");
  EXPECT_EQ(c.commands().wanted(), 1U);
}

TEST(protocol, memory_that_is_full_refuses_where_nothing_is_evicted) {
  choice full;
  full.memory.memory_limit = mebibyte * 2;
  full.memory.evicts = false;
  conversation c(full);
  const std::string value(8 * kibibyte, 'x');
  const std::string line = " 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
  int stored = 0;
  while (c.ask("set k" + std::to_string(stored) + line) == "STORED\r\n") ASSERT_LT(++stored, 300);
  EXPECT_GT(stored, 50);
  EXPECT_EQ(c.replies, "SERVER_ERROR out of memory storing object\r\n");
  EXPECT_EQ(c.ask("set k0" + line + "get k0\r\n"), "SERVER_ERROR out of memory storing object\r\nEND\r\n");
  EXPECT_THAT(c.ask("stats\r\n"), HasSubstr("STAT store_no_memory 2\r\n"));
}

TEST(protocol, an_end_that_has_no_room_is_refused) {
  choice full;
  full.memory.memory_limit = mebibyte * 2;
  full.memory.evicts = false;
  conversation c(full);
  c.ask("set none 0 0 1\r\nx\r\nset ends 0 500 1\r\nx\r\n");
  for (const std::size_t size :
       {8 * kibibyte, std::size_t{1}}) {  // until not even the smallest entry has room
    const std::string line = " 0 0 " + std::to_string(size) + "\r\n" + many(size, 'x') + "\r\n";
    int stored = 0;
    while (c.ask("set " + std::to_string(size) + "k" + std::to_string(stored) + line) == "STORED\r\n")
      ASSERT_LT(++stored, 100'000);
  }
  const std::string refused = "SERVER_ERROR out of memory touching object\r\n";
  const std::string ends = "VALUE ends 0 1\r\nx\r\n";
  EXPECT_EQ(c.ask("touch none 60\r\nmg none t\r\n"), refused + "HD t-1\r\n");
  EXPECT_EQ(c.ask("touch none 60 noreply\r\nmg none T60 v k q\r\nmg none t\r\n"), refused + "HD t-1\r\n");
  EXPECT_EQ(c.ask("gat 60 none\r\ngat 60 ends none ends\r\nmg none t\r\n"),
            refused + ends + refused + "HD t-1\r\n");
  conversation in_frames(full);
  in_frames.ask(frame{0x11, "none", "x", for_store(0, 0)}.bytes());
  for (int n = 0; n < 100'000; ++n)
    if (!in_frames
             .ask(frame{0x11, "k" + std::to_string(n), n < 1000 ? many(8 * kibibyte, 'x') : "x",
                        for_store(0, 0)}
                      .bytes())
             .empty() &&
        n >= 1000)
      break;
  EXPECT_EQ(in_frames.ask(frame{0x1C, "none", {}, big_endian(60U)}.bytes()),
            error(0x1C, 0x82, "Out of memory").bytes());
  // What needs no room is done.
  EXPECT_EQ(c.ask("touch ends 60\r\ngat 70 ends\r\nmg ends T80 t\r\ntouch ends 0\r\nmg ends t\r\n"),
            "TOUCHED\r\n" + ends + "END\r\nHD t80\r\nTOUCHED\r\nHD t-1\r\n");
  EXPECT_EQ(c.ask("touch none -1\r\nmg none\r\n"), "TOUCHED\r\nEN\r\n");
  const std::string statistics = c.ask("stats\r\n");
  for (const char* const line : {"cmd_touch 11", "touch_hits 6", "touch_misses 0", "store_no_memory 7"})
    EXPECT_THAT(statistics, HasSubstr(std::string("STAT ") + line + "\r\n"));
}

TEST(protocol, a_turn_ends_after_its_commands) {
  conversation c;
  c.turn = 5;
  std::string input;
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    input += i % 2 == 0 ? "mn\r\n" : "mg none k\r\n";
    expected += i % 2 == 0 ? "MN\r\n" : "EN knone\r\n";
  }
  output out;
  session commands(c.shared);
  batch with(c.shared);
  EXPECT_EQ(commands.consume(input, out, with, 5), 4 * 3 + 11 * 2U);
  EXPECT_EQ(commands.next(), session::step::go_on);
  EXPECT_EQ(c.say(input), expected);
}

TEST(protocol, output_waits_before_it_becomes_large) {
  conversation c;
  const std::string value(60 * kibibyte, 'v');
  c.ask("set k 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n");
  const std::string shown = "VALUE k 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
  std::string keys = "get";
  std::string commands;
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    keys += " k";
    commands += "get k\r\n";
    expected += shown;
  }
  EXPECT_TRUE(c.ask(keys + "\r\nmn\r\n") == expected + "END\r\nMN\r\n");
  EXPECT_LT(c.most_output, mebibyte + 2 * value.size());
  // Nothing else runs in between.
  EXPECT_TRUE(c.ask(keys + " none none\r\n") == expected + "END\r\n");
  c.ask(commands);
  EXPECT_EQ(c.replies.size(), expected.size() + 100 * 5);
  EXPECT_LT(c.most_output, mebibyte + 2 * value.size());
  EXPECT_EQ(c.unused(), 0U);
}

TEST(protocol, a_line_of_many_keys_has_a_limit) {
  conversation c;
  std::string keys = "get";
  while (keys.size() + 5 < mebibyte) keys += " none";
  EXPECT_EQ(c.ask(keys + "\r\n"), "END\r\n");
  conversation d;
  for (int i = 0; i < 2 && !d.closed; ++i) d.say(keys);
  EXPECT_TRUE(d.closed);
  EXPECT_EQ(d.replies, "");
}

TEST(protocol, statistics) {
  conversation c;
  c.say(
      "set k 0 0 1\r\n1\r\nget k none\r\nincr k 1\r\nincr none 1\r\ndecr k 1\r\ndecr none 1\r\ndelete "
      "none\r\ntouch k 0\r\ntouch none 0\r\n"
      "cas k 0 0 1 77\r\n1\r\ncas none 0 0 1 1\r\n1\r\nmg k\r\nmg k T0\r\ndelete k\r\nset k 0 0 "
      "1\r\n1\r\nflush_all 0\r\nset k 0 0 1\r\n1\r\nme k\r\n");
  const std::string general = c.ask("stats\r\n");
  for (const std::string& line : split(
           "cmd_get 3|get_hits 2|get_misses 1|cmd_set 5|incr_hits 1|incr_misses 1|decr_hits 1|decr_misses 1|"
           "delete_hits 1|delete_misses 1|cmd_touch 3|touch_hits 2|touch_misses 1|cas_badval 1|cas_misses 1|"
           "cas_hits 0|cmd_flush 1|cmd_meta 1|limit_maxbytes 4194304|threads 4|pointer_size 64|"
           "version 1.6.45|evictions 0"))
    EXPECT_THAT(general, HasSubstr(std::string("STAT ") + line + "\r\n"));
  EXPECT_THAT(general, testing::EndsWith("\r\nSTAT espalier 0.0.0\r\nEND\r\n"));
  // What a Prometheus exporter of memcached reads.
  for (const std::string& name :
       split("uptime|time|version|rusage_user|rusage_system|bytes|curr_items|total_items|bytes_read|"
             "bytes_written|curr_connections|total_connections|rejected_connections|conn_yields|"
             "listen_disabled_num|time_in_listen_disabled_us|reclaimed|store_too_large|store_no_memory|"
             "accepting_conns"))
    EXPECT_THAT(general, HasSubstr(std::string("STAT ") + name + " "));
  const std::string slabs = c.ask("stats slabs\r\n");
  for (const std::string& name :
       split("chunk_size|chunks_per_page|total_pages|total_chunks|used_chunks|free_chunks|free_chunks_end|"
             "get_hits|cmd_set|delete_hits|incr_hits|decr_hits|cas_hits|cas_badval|touch_hits"))
    EXPECT_THAT(slabs, HasSubstr(std::string("STAT 1:") + name + " "));
  const std::string items = c.ask("stats items\r\n");
  for (const std::string& name :
       split("number|evicted|evicted_nonzero|evicted_time|evicted_unfetched|outofmemory|reclaimed|"
             "expired_unfetched"))
    EXPECT_THAT(items, HasSubstr(std::string("STAT items:1:") + name + " "));
  EXPECT_THAT(c.ask("stats  settings\r\n"), HasSubstr("STAT maxconns 1024\r\n"));
  EXPECT_EQ(c.ask("stats conns\r\n"), "END\r\n");
  EXPECT_EQ(c.ask("stats reset\r\n"), "RESET\r\n");
  EXPECT_THAT(c.ask("stats\r\n"), HasSubstr("STAT cmd_get 0\r\n"));
}

TEST(protocol, a_limit_of_memory_changes) {
  choice with;
  with.memory.memory_limit = 16 * mebibyte;
  with.memory.largest_limit = 64 * mebibyte;
  conversation c(with);
  EXPECT_EQ(c.ask("cache_memlimit\r\ncache_memlimit x\r\ncache_memlimit -8\r\ncache_memlimit noreply\r\n"),
            "ERROR\r\nERROR\r\nERROR\r\n");
  EXPECT_EQ(c.ask("cache_memlimit 0\r\ncache_memlimit 7\r\ncache_memlimit 1000000001\r\n"),
            "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"
            "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"
            "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n");
  EXPECT_EQ(c.ask("cache_memlimit 65\r\ncache_memlimit 1000000000\r\n"),
            "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust: it is from 8 to 64\r\n"
            "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust: it is from 8 to 64\r\n");
  EXPECT_THAT(c.ask("stats\r\n"), HasSubstr("STAT limit_maxbytes 16777216\r\n"));
  const auto fill = [&c] {
    const std::string value = " 0 0 10000 noreply\r\n" + std::string(10'000, 'x') + "\r\n";
    for (unsigned i = 0; i < 6000; ++i) c.say("set key" + std::to_string(i) + value);
    return c.shared.cache().statistics().entries;
  };
  const std::uint64_t before = fill();
  EXPECT_EQ(c.ask("cache_memlimit 64 noreply\r\ncache_memlimit 1000000000 noreply\r\n"), "");
  EXPECT_THAT(c.ask("stats settings\r\n"), HasSubstr("STAT maxbytes 67108864\r\n"));
  EXPECT_GT(fill(), before * 7 / 2);
  EXPECT_EQ(c.ask("cache_memlimit 8\r\n"), "OK\r\n");
  EXPECT_THAT(c.ask("stats\r\n"), HasSubstr("STAT limit_maxbytes 8388608\r\n"));
  EXPECT_GT(c.shared.cache().statistics().used_bytes, 16 * mebibyte) << "a command does a part of it";
  c.shared.tick();
  EXPECT_LE(c.shared.cache().statistics().used_bytes, 8 * mebibyte);
  EXPECT_EQ(c.ask("set k 0 0 1\r\na\r\nget k\r\n"), "STORED\r\nVALUE k 0 1\r\na\r\nEND\r\n");
}

/// Lines of a log without what differs from one moment to the other.
std::string timeless(const std::string& lines) {
  return std::regex_replace(lines, std::regex("ts=[0-9]+\\.[0-9]+ "), "");
}

TEST(protocol, a_watcher_sees_each_event_of_its_kinds) {
  conversation c;
  session watching(c.shared, 7);
  batch thread(c.shared);
  output lines;
  const auto seen = [&] {
    watching.collect(lines);
    return timeless(all_of(lines));
  };
  c.say("get before\r\n");
  const std::string line = "watch fetchers mutations deletions\r\n";
  EXPECT_EQ(watching.consume(line, lines, thread), line.size());
  EXPECT_EQ(seen(), "OK\r\n");
  EXPECT_TRUE(watching.watches());
  EXPECT_THAT(c.ask("stats\r\n"), HasSubstr("STAT log_watchers 1\r\n"));
  c.say(
      "set a%b 1 60 3\r\nabc\r\nget a%b none\r\nadd a%b 0 0 1\r\nx\r\ncas a%b 0 0 1 0\r\nx\r\nms m 2 "
      "Ma\r\nhi\r\n");
  EXPECT_EQ(seen(),
            "gid=1 type=item_get key=a%25b status=not_found clsid=1 cfd=-1 size=0\n"
            "gid=2 type=item_store key=a%25b status=stored cmd=set ttl=60 clsid=1 cfd=-1 size=3\n"
            "gid=3 type=item_get key=a%25b status=found clsid=1 cfd=-1 size=3\n"
            "gid=4 type=item_get key=none status=not_found clsid=1 cfd=-1 size=0\n"
            "gid=5 type=item_get key=a%25b status=found clsid=1 cfd=-1 size=3\n"
            "gid=6 type=item_store key=a%25b status=not_stored cmd=add ttl=0 clsid=1 cfd=-1 size=1\n"
            "gid=7 type=item_get key=a%25b status=found clsid=1 cfd=-1 size=3\n"
            "gid=8 type=item_store key=a%25b status=exists cmd=cas ttl=0 clsid=1 cfd=-1 size=1\n");
  c.replies.clear();
  c.say("set big 0 0 70000\r\n" + std::string(70'000, 'x') +
        "\r\ntouch a%b 0\r\nmd a%b I\r\nmd none\r\ndelete none\r\n"
        "md a%b\r\nset d 0 0 1\r\nx\r\ndelete d\r\nversion\r\n");
  EXPECT_THAT(
      seen(),
      testing::AllOf(
          HasSubstr("type=item_store key=big status=too_large cmd=set ttl=0 clsid=1 cfd=-1 size=0\n"),
          HasSubstr("type=item_get key=a%25b status=found clsid=1 cfd=-1 size=3\n"),
          HasSubstr("type=deleted key=a%25b cmd=md clsid=1 size=3\n"),
          HasSubstr("type=deleted key=d cmd=delete clsid=1 size=1\n"), Not(HasSubstr("deleted key=none"))));
  EXPECT_EQ(seen(), "");
  // What it says is not read any more.
  EXPECT_EQ(watching.consume("get k\r\nquit\r\n", lines, thread), 13U);
  EXPECT_EQ(seen(), "");
}

TEST(protocol, a_large_value_is_watched_too) {
  choice with;
  with.memory.largest_entry = mebibyte;
  conversation c(with);
  session watching(c.shared, 7);
  batch thread(c.shared);
  output lines;
  watching.consume("watch fetchers mutations\r\n", lines, thread);
  lines.clear();
  c.say("set large 0 0 100000\r\n");
  c.say(std::string(100'000, 'x') + "\r\n");
  watching.collect(lines);
  EXPECT_EQ(timeless(all_of(lines)),
            "gid=1 type=item_get key=large status=not_found clsid=1 cfd=-1 size=0\n"
            "gid=2 type=item_store key=large status=stored cmd=set ttl=0 clsid=1 cfd=-1 size=100000\n");
}

TEST(protocol, evictions_are_watched) {
  choice with;
  with.memory.memory_limit = byte_cache::smallest_limit;
  with.memory.largest_entry = 10'000;
  with.chosen.watcher_bytes = 10 * mebibyte;
  conversation c(with);
  const std::string value = " 0 60 2000 noreply\r\n" + std::string(2000, 'x') + "\r\n";
  for (unsigned i = 0; i < 1000; ++i) c.say("set before" + std::to_string(i) + value);
  std::optional<session> watching(std::in_place, c.shared, 7);
  batch thread(c.shared);
  output lines;
  watching->consume("watch evictions\r\n", lines, thread);
  lines.clear();
  const auto before = c.shared.cache().statistics().evictions;
  for (unsigned i = 0; i < 1000; ++i) c.say("set k" + std::to_string(i) + value);
  watching->collect(lines);
  const std::string seen = timeless(all_of(lines));
  const auto evicted = c.shared.cache().statistics().evictions - before;
  EXPECT_GT(evicted, 500U);
  EXPECT_EQ(static_cast<std::uint64_t>(std::ranges::count(seen, '\n')), evicted);
  EXPECT_THAT(
      seen, testing::MatchesRegex(
                "(gid=[0-9]+ type=eviction key=(k|before)[0-9]+ fetch=no ttl=60 la=0 clsid=1 size=2000\n)+"));
  // Without it no line is made.
  watching.reset();
  EXPECT_TRUE(c.shared.watched().wanted().empty());
  for (unsigned i = 0; i < 1000; ++i) c.say("set k" + std::to_string(i) + value);
  EXPECT_EQ(c.shared.watched().count().sent, evicted);
}

TEST(protocol, a_slow_watcher_skips_lines_and_is_told_how_many) {
  choice with;
  with.chosen.watcher_bytes = 1000;
  conversation c(with);
  session slow(c.shared, 7);
  session other(c.shared, 8);
  batch thread(c.shared);
  output lines;
  slow.consume("watch fetchers\r\n", lines, thread);
  other.consume("watch\r\n", lines, thread);
  lines.clear();
  for (unsigned i = 0; i < 100; ++i) {
    c.say("get k\r\n");
    other.collect(lines);
  }
  EXPECT_EQ(std::ranges::count(all_of(lines), '\n'), 100);
  slow.collect(lines);
  const std::string seen = all_of(lines);
  EXPECT_LE(seen.size(), 1000U + 20U);
  const auto there = std::ranges::count(seen, '\n') - 1;
  EXPECT_GT(there, 5);
  EXPECT_THAT(seen, testing::EndsWith("\nskipped=" + std::to_string(100 - there) + "\n"));
  const std::string counted = c.ask("stats\r\n");
  EXPECT_THAT(counted, HasSubstr("STAT log_watcher_skipped " + std::to_string(100 - there) + "\r\n"));
  EXPECT_THAT(counted, HasSubstr("STAT log_watcher_sent " + std::to_string(100 + there) + "\r\n"));
  c.say("get after\r\n");
  slow.collect(lines);
  EXPECT_EQ(timeless(all_of(lines)),
            "gid=101 type=item_get key=after status=not_found clsid=1 cfd=-1 size=0\n");
}

TEST(protocol, what_can_be_watched) {
  conversation c;
  EXPECT_EQ(c.ask("watch fetchers nothing\r\nwatch connevents\r\nmn\r\n"),
            "ERROR there are no nothing to watch\r\nERROR there are no connevents to watch\r\nMN\r\n");
  std::vector<std::unique_ptr<session>> watching;
  batch thread(c.shared);
  for (unsigned i = 0; i <= watch_log::most_watchers; ++i) {
    output replies;
    watching.push_back(std::make_unique<session>(c.shared));
    watching.back()->consume("watch mutations\r\n", replies, thread);
    EXPECT_EQ(all_of(replies),
              i < watch_log::most_watchers ? "OK\r\n" : "WATCHER_TOO_MANY log watcher limit reached\r\n");
  }
  watching.clear();
  EXPECT_EQ(c.ask("watch mutations\r\nget k\r\n"), "OK\r\n") << "the rest is not read";
  EXPECT_EQ(c.shared.watched().count().watchers, 1U);
  choice without;
  without.chosen.watches = false;
  conversation d(without);
  EXPECT_EQ(d.ask("watch\r\nget k\r\n"), "CLIENT_ERROR watch commands not allowed\r\nEND\r\n");
}

TEST(protocol, watchers_come_and_go_while_threads_are_watched) {
  choice with;
  with.memory.memory_limit = byte_cache::smallest_limit;
  with.memory.largest_entry = 10'000;
  with.chosen.watcher_bytes = 5000;
  service shared(with.chosen, with.memory);
  std::atomic<int> left{2};
  const auto use = [&](unsigned thread) {
    batch commands(shared);
    session client(shared, static_cast<int>(thread));
    output replies;
    const std::string value = " 0 0 900\r\n" + std::string(900, 'x') + "\r\n";
    for (unsigned i = 0; i < 3000; ++i) {
      const std::string key = "k" + std::to_string(i * 7 % 2000);
      client.consume("set " + key + value + "get " + key + "\r\n", replies, commands);
      client.consume("delete " + key + "\r\n", replies, commands);
      replies.clear();
    }
    left.fetch_sub(1, std::memory_order_relaxed);  // relaxed: when the watchers end does not matter
  };
  std::thread first(use, 1);
  std::thread second(use, 2);
  batch commands(shared);
  while (left.load(std::memory_order_relaxed) != 0) {  // relaxed: as above
    session watching(shared, 3);
    output lines;
    watching.consume("watch fetchers mutations evictions deletions\r\n", lines, commands);
    for (unsigned i = 0; i < 10; ++i) watching.collect(lines);
    const std::string seen = all_of(lines);
    ASSERT_THAT(seen, testing::StartsWith("OK\r\n"));
    ASSERT_THAT(seen, testing::EndsWith("\n"));
  }
  first.join();
  second.join();
  EXPECT_EQ(shared.watched().count().watchers, 0U);
  EXPECT_TRUE(shared.watched().wanted().empty());
}

TEST(protocol, a_command_is_parsed_without_a_cache) {
  const second_clock clock;
  std::array<command, 4> commands;
  std::vector<std::string_view> keys;
  incomplete_command first;
  const auto parse = [&](std::string_view input, std::size_t largest) {
    return parse_commands(input, commands, {clock, largest}, keys, first);
  };
  ASSERT_EQ(parse("get a b\r\nms k 3 T9 MA\r\nabc\r\nset k 0 0 3\r\nab", 4), 2U);
  EXPECT_THAT(keys, testing::ElementsAre("a", "b"));
  EXPECT_EQ(commands[1].what, verb::meta_store);
  EXPECT_EQ(commands[1].mode, store_mode::append);
  EXPECT_EQ(commands[1].key, "k");
  EXPECT_EQ(commands[1].value, "abc");
  EXPECT_EQ(commands[1].end, clock.now() + 9);
  ASSERT_EQ(parse("set k 0 0 3\r\nab", 4), 0U);
  EXPECT_EQ(first.wanted, 18U);
  ASSERT_EQ(parse("set k 0 0 3\r\nabc\r\n", 3), 1U);
  EXPECT_EQ(commands[0].what, verb::refused);
}

TEST(protocol, the_log_has_each_command_and_its_session) {
  conversation c;
  std::string log;
  c.shared.log = [&log](int number, std::string_view line) {
    log += std::to_string(number) + ':' + std::string(line) + '\n';
  };
  c.say("mn\r\nverbosity 2\r\nmn\r\nset k 0 0 30000\r\n" + many(30'000, 'x') + "\r\nget k none\r\n");
  EXPECT_EQ(log, "-1:mn\n-1:set k 0 0 30000\n-1:get k none\n");
}

TEST(protocol, gets_of_what_has_ended_or_was_flushed_are_counted) {
  conversation c;
  c.shared.set_detail(true);  // which looks at the keys by itself
  // Without the tick of the server, which takes out what has ended.
  const auto five_seconds_pass = [&c] {
    c.shared.clock().move(5);
    static_cast<void>(c.shared.clock().advance());
  };
  c.say("set a 0 5 1\r\n1\r\nset b 0 5 1\r\n1\r\n");
  five_seconds_pass();
  c.say("get a a none\r\nincr b 1\r\nset c 0 0 1\r\n1\r\nset d 0 5 1\r\n1\r\nflush_all\r\n");
  five_seconds_pass();
  c.say("mg c\r\nmg d\r\n");
  const std::string general = c.ask("stats\r\n");
  for (const char* const line : {"get_misses 5", "get_expired 3", "get_flushed 2", "incr_misses 1"})
    EXPECT_THAT(general, HasSubstr(std::string("STAT ") + line + "\r\n"));
}

TEST(protocol, evictions_are_counted_with_what_they_end) {
  choice with;
  with.memory.memory_limit = byte_cache::smallest_limit;
  conversation c(with);
  const auto evicted = [&c](const char* what) {
    const std::string items = c.ask("stats items\r\n");
    const std::string name = std::string("STAT items:1:") + what + " ";
    return std::stoul(items.substr(items.find(name) + name.size()));
  };
  const auto store = [&](char kind, const char* end) {
    const std::string value = many(1000, 'x') + "\r\n";
    for (unsigned i = 0; i < 2'000; ++i)
      c.say("set " + std::string(1, kind) + std::to_string(i) + " 0 " + end + " 1000 noreply\r\n" + value);
  };
  store('a', "0");
  EXPECT_GT(evicted("evicted"), 0U);
  EXPECT_EQ(evicted("evicted_nonzero"), 0U);
  EXPECT_EQ(evicted("evicted_time"), 0U);
  c.say("debugtime 100\r\n");
  store('b', "9000");
  EXPECT_GT(evicted("evicted_nonzero"), 0U);
  EXPECT_LT(evicted("evicted_nonzero"), evicted("evicted"));
  c.say("debugtime 50\r\nset c 0 0 30000\r\n" + many(30'000, 'x') + "\r\nset d 0 0 30000\r\n" +
        many(30'000, 'x') + "\r\nset e 0 0 30000\r\n" + many(30'000, 'x') + "\r\nset f 0 0 30000\r\n" +
        many(30'000, 'x') + "\r\n");
  EXPECT_EQ(evicted("evicted_time"), 50U);
}

TEST(protocol, the_age_is_of_the_oldest_segment_or_large_entry) {
  conversation c;
  const auto age = [&c] {
    const std::string items = c.ask("stats items\r\n");
    const std::string_view name = "STAT items:1:age ";
    const std::size_t at = items.find(name);
    return at == std::string::npos ? std::string("none") : items.substr(at + name.size(), 3);
  };
  EXPECT_EQ(age(), "none");
  c.say("set a 0 0 30000\r\n" + many(30'000, 'x') + "\r\ndebugtime 77\r\nset b 0 0 1\r\nx\r\n");
  EXPECT_EQ(age(), "77\r");
  c.say("delete a\r\n");
  EXPECT_EQ(age(), "0\r\n");
  c.say("debugtime 100\r\nset a 0 0 30000\r\n" + many(30'000, 'x') + "\r\ndebugtime 11\r\n");
  EXPECT_EQ(age(), "111");
}

TEST(protocol, the_walk_for_what_has_ended_is_counted) {
  conversation c;
  const auto shows = [&c](const char* row) {
    EXPECT_THAT(c.ask("stats\r\n"), HasSubstr(std::string("\r\nSTAT ") + row + "\r\n"));
  };
  c.say("set a 0 5 1\r\nx\r\nset b 0 50 1\r\nx\r\nset c 0 5 30000\r\n" + many(30'000, 'x') +
        "\r\ndebugtime 5\r\n");
  // Half of the segments at each second. The first half was looked at as the clock moved.
  for (unsigned i = 0; i < 10; ++i) c.shared.tick();
  shows("lru_crawler_starts 6");
  shows("crawler_reclaimed 2");
  shows("curr_items 1");
  shows("reclaimed 2");
  shows("direct_reclaims 0");
  EXPECT_THAT(c.ask("stats items\r\n"), HasSubstr("\r\nSTAT items:1:crawler_reclaimed 2\r\n"));
  EXPECT_THAT(c.ask("stats reset\r\nstats\r\n"), HasSubstr("\r\nSTAT crawler_reclaimed 0\r\n"));
}

TEST(protocol, a_dump_of_keys_has_a_limit) {
  choice with;
  with.memory.memory_limit = 32 * mebibyte;
  conversation c(with);
  const auto items = [&c](const char* command) {
    const std::string all = c.ask(command);
    EXPECT_THAT(all, testing::EndsWith("END\r\n"));
    EXPECT_LE(all.size(), 2 * mebibyte);
    EXPECT_EQ(unreadable(all), std::string::npos);
    return std::ranges::count(all, '\n') - 1;
  };
  c.say("ms YQpi 1 b\r\nx\r\nms YSBi 1 b\r\nx\r\n");  // a key with an end of line, and one with a blank
  EXPECT_EQ(items("stats cachedump 1 0\r\n"), 0);
  const std::string end = many(240, 'k') + " 0 0 1 noreply\r\nx\r\n";
  for (int i = 0; i < 10'000; ++i) c.say("set " + std::to_string(i) + end);
  EXPECT_EQ(items("stats cachedump 1 7\r\n"), 7);
  const auto most = items("stats cachedump 1 0\r\n");
  EXPECT_GT(most, 7'000);
  EXPECT_LT(most, 10'000);
}

TEST(protocol, a_dump_shows_what_memcached_does) {
  conversation c;
  c.say(
      "ms YWIgY8OkCg== 3 b T100 E7 F9\r\nabc\r\nget none\r\ndebugtime 70\r\nmg YWIgY8OkCg== b\r\ndebugtime "
      "5\r\n");
  const std::int64_t now = c.shared.clock().origin() + c.shared.clock().now();
  EXPECT_EQ(c.ask("lru_crawler metadump all\r\nmn\r\n"),
            "OK\r\nkey=ab%20c%C3%A4%0A exp=" + std::to_string(now + 25) + " la=" + std::to_string(now - 5) +
                " cas=7 fetch=yes cls=1 size=10 flags=9 \nEND\r\nMN\r\n");
  EXPECT_THAT(c.ask("md YWIgY8OkCg== b q\r\nset k 0 0 1\r\nx\r\nlru_crawler metadump hash\r\n"),
              HasSubstr("\nkey=k exp=-1 la=" + std::to_string(now) + " cas="));
}

TEST(protocol, a_dump_of_entries_waits_for_its_reader) {
  choice with;
  with.chosen.replies_at_once = 4 * kibibyte;
  conversation c(with);
  constexpr unsigned entries = 600;
  const auto store = [&c](char kind, unsigned count) {
    std::string sets;
    for (unsigned i = 0; i < count; ++i)
      sets += "set " + std::string(1, kind) + std::to_string(i) + " 0 0 1 noreply\r\nx\r\n";
    c.say(sets);
  };
  store('k', entries);
  for (const char* const dump : {"lru_crawler metadump all\r\nmn\r\n", "lru_crawler mgdump all\r\nmn\r\n"}) {
    c.most_output = 0;
    const std::string all = c.ask(dump);
    EXPECT_LE(c.most_output, 8 * kibibyte);
    EXPECT_EQ(unreadable(all), std::string::npos);
    EXPECT_EQ(std::ranges::count(all, '\n'), entries + 3);
    EXPECT_THAT(all, testing::EndsWith("\r\nMN\r\n"));
  }
  // Other commands of the same connection wait. Those of others need not, and the table grows meanwhile.
  output out;
  batch with_it(c.shared);
  session dumps(c.shared);
  std::string_view input = "lru_crawler metadump all\r\nmn\r\n";
  std::string shown;
  unsigned turns = 0;
  do {
    input.remove_prefix(dumps.consume(input, out, with_it));
    shown += all_of(out);
    if (turns < 4) store(static_cast<char>('m' + turns), 1000);
    ASSERT_LT(++turns, 1000U);
  } while (!input.empty());
  EXPECT_GT(turns, 10U);
  EXPECT_THAT(shown, testing::EndsWith("\nEND\r\nMN\r\n"));
  for (unsigned i = 0; i < entries; ++i)
    ASSERT_NE(shown.find("\nkey=k" + std::to_string(i) + " "), std::string::npos) << i;
}

TEST(protocol, commands_at_random_do_not_depend_on_how_they_are_cut) {
  const std::vector<std::string> pieces = split(
      "get |gets |gat 5 |set |add |cas |append |mg |ms |md |ma |me |mn|incr |decr |touch |delete |k |"
      "a |b|1 |0 |3 |-1 |noreply|\r\n|\r\n|\r\n|\n|abc| |v |q |N5 |T9 |R30 |I |MA |C5 |E7 |b |YQ== |"
      "O12 |k|x|stats detail dump\r\n|flush_all|verbosity 0\r\n|lru_crawler metadump all\r\n|\x01|\xff|"
      "99999999999|set k 0 0 3\r\nabc\r\n|ms k 3 T5\r\nabc\r\n|set n 0 0 1\r\n5\r\n|mg k v c t\r\n|"
      "debugtime 1\r\n");
  std::size_t replied = 0;
  for (std::uint64_t seed = 0; seed < 400 && !HasFailure(); ++seed) {
    measure::random_generator random(9009, seed);
    std::string script(1, static_cast<char>(random.below(64)));
    while (script.size() < 400) script += pieces[random.below(pieces.size())];
    EXPECT_EQ(play(script), "") << "seed " << seed;
    replied += conversation().say(std::string_view(script).substr(1)).size();
  }
  EXPECT_GT(replied, 400U * 50);
}

TEST(protocol, scripts_of_the_corpus) {
  unsigned played = 0;
  for (const auto& file : std::filesystem::directory_iterator(ESPALIER_CORPUS)) {
    std::ifstream in(file.path(), std::ios::binary);
    const std::string script{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(play(script), "") << file.path();
    ++played;
  }
  EXPECT_GT(played, 0U);
}

}  // namespace
}  // namespace espalier::memcached
