// The protocol of the cache server on one connection: conversations, each whole, in two pieces at every place, and byte
// by byte; what is malformed; limits; commands at random; and what a fuzzer has found.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <ostream>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/measure/random.hpp"
#include "memcached/conversation.hpp"

namespace espalier::memcached {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t kibibyte = 1024;
constexpr std::size_t mebibyte = kibibyte * kibibyte;

struct exchange {
  const char* name;
  std::string input;
  std::string replies;
  bool closes = false;

  friend void PrintTo(const exchange& e, std::ostream* out) { *out << e.name; }
};

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> all;
  for (const auto part : std::views::split(list, '|')) all.emplace_back(part.begin(), part.end());
  return all;
}
std::string many(std::size_t n, char c) { return std::string(n, c); }
std::string times(unsigned n, const std::string& text) { return n == 0 ? "" : text + times(n - 1, text); }

// Versions are given by E where a reply shows them.
const std::vector<exchange>& exchanges() {
  static const std::vector<exchange> all{
      {"set_and_get", "set k 5 0 3\r\nabc\r\nget k\r\nget none\r\n",
       "STORED\r\nVALUE k 5 3\r\nabc\r\nEND\r\nEND\r\n"},
      {"empty_value", "set k 0 0 0\r\n\r\nget k\r\n", "STORED\r\nVALUE k 0 0\r\n\r\nEND\r\n"},
      {"bare_newlines", "set k 0 0 1\nx\r\nget k\nmn\n", "STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\nMN\r\n"},
      {"value_with_line_ends", "set k 0 0 6\r\na\r\nb\r\n\r\nget k\r\n",
       "STORED\r\nVALUE k 0 6\r\na\r\nb\r\n\r\nEND\r\n"},
      {"several_keys", "set a 0 0 1\r\n1\r\nset c 0 0 1\r\n3\r\nget a b  c a\r\n",
       "STORED\r\nSTORED\r\nVALUE a 0 1\r\n1\r\nVALUE c 0 1\r\n3\r\nVALUE a 0 1\r\n1\r\nEND\r\n"},
      {"gets_shows_versions", "ms a 1 E70\r\nx\r\ngets a\r\n", "HD\r\nVALUE a 0 1 70\r\nx\r\nEND\r\n"},
      {"add_and_replace",
       "replace k 0 0 1\r\na\r\nadd k 0 0 1\r\nb\r\nadd k 0 0 1\r\nc\r\nreplace k 0 0 1\r\nd\r\nget k\r\n",
       "NOT_STORED\r\nSTORED\r\nNOT_STORED\r\nSTORED\r\nVALUE k 0 1\r\nd\r\nEND\r\n"},
      {"append_and_prepend",
       "append k 0 0 1\r\na\r\nprepend k 0 0 1\r\na\r\nset k 7 0 1\r\nb\r\nappend k 1 1 2\r\ncd\r\nprepend k "
       "0 0 1\r\na\r\nget k\r\n",
       "NOT_STORED\r\nNOT_STORED\r\nSTORED\r\nSTORED\r\nSTORED\r\nVALUE k 7 4\r\nabcd\r\nEND\r\n"},
      {"cas",
       "cas k 0 0 1 5\r\na\r\nms k 1 E5\r\nb\r\ncas k 0 0 1 4\r\nc\r\ncas k 0 0 1 5\r\nd\r\ncas k 0 0 1 "
       "0\r\nc\r\nget k\r\n",
       "NOT_FOUND\r\nHD\r\nEXISTS\r\nSTORED\r\nEXISTS\r\nVALUE k 0 1\r\nd\r\nEND\r\n"},
      {"incr_and_decr",
       "incr n 1\r\nset n 3 0 2\r\n10\r\nincr n 5\r\ndecr n 6\r\ndecr n 20\r\nget n\r\nset n 0 0 "
       "20\r\n18446744073709551615\r\n"
       "incr n 2\r\n",
       "NOT_FOUND\r\nSTORED\r\n15\r\n9\r\n0\r\nVALUE n 3 1\r\n0\r\nEND\r\nSTORED\r\n1\r\n"},
      {"what_is_no_number",
       "set n 0 0 2\r\nab\r\nincr n 1\r\nset n 0 0 0\r\n\r\nincr n 1\r\nset n 0 0 2\r\n-1\r\ndecr n 1\r\n"
       "set n 0 0 21\r\n184467440737095516150\r\nincr n 1\r\nset n 0 0 3\r\n4  \r\nincr n 1\r\nincr n "
       "x\r\nincr n -1\r\nincr n\r\n",
       "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
       "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
       "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
       "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
       "STORED\r\n5\r\nCLIENT_ERROR invalid numeric delta argument\r\nCLIENT_ERROR invalid numeric delta "
       "argument\r\n"
       "CLIENT_ERROR bad command line format\r\n"},
      {"delete", "set k 0 0 1\r\na\r\ndelete k\r\ndelete k\r\nget k\r\ndelete k 0\r\ndelete\r\n",
       "STORED\r\nDELETED\r\nNOT_FOUND\r\nEND\r\nNOT_FOUND\r\nCLIENT_ERROR bad command line format\r\n"},
      {"delete_with_arguments",
       "set k 0 0 1\r\na\r\ndelete k 1\r\ndelete k 00\r\ndelete k 0 0\r\ndelete k noreply 0\r\ndelete k 0 "
       "noreply x\r\ndelete a b c d e\r\ndelete k 1 noreply\r\ndelete k 0 0 noreply\r\ndelete k noreply "
       "noreply\r\nget k\r\ndelete k 0 noreply \r\nget k\r\nset k 0 0 1\r\na\r\ndelete  k  0 "
       "\r\ndelete noreply\r\nmn\r\n",
       "STORED\r\n" + times(6, "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n") +
           "VALUE k 0 1\r\na\r\nEND\r\nEND\r\nSTORED\r\nDELETED\r\nMN\r\n"},
      {"noreply",
       "set k 0 0 1 noreply\r\na\r\nadd k 0 0 1 noreply\r\nb\r\nappend k 0 0 1 noreply \r\nb\r\nincr k 1 "
       "noreply\r\ntouch k 9 noreply\r\n"
       "get k\r\ndelete k noreply\r\nget k\r\nflush_all noreply\r\nflush_all 0 noreply\r\nverbosity 0 "
       "noreply\r\nmn\r\n",
       "VALUE k 0 2\r\nab\r\nEND\r\nEND\r\nMN\r\n"},
      {"times",
       "set a 0 10 1\r\n1\r\nset b 0 -1 1\r\n2\r\nset c 0 1000000000 1\r\n3\r\nset d 0 0 1\r\n4\r\nget a b c "
       "d\r\ndebugtime 9\r\nget a\r\n"
       "debugtime 1\r\nget a d\r\n",
       "STORED\r\nSTORED\r\nSTORED\r\nSTORED\r\nVALUE a 0 1\r\n1\r\nVALUE d 0 1\r\n4\r\nEND\r\nOK\r\nVALUE a "
       "0 1\r\n1\r\nEND\r\nOK\r\n"
       "VALUE d 0 1\r\n4\r\nEND\r\n"},
      // 2^32 - 1 is libmemcached's -1. After it: 4, 0, the largest and the smallest of 64 bits, and one more.
      {"ends_are_cut_to_32_bits",
       "set k 0 0 1\r\na\r\nset k 0 4294967295 1 noreply\r\nb\r\nget k\r\nadd k 0 2147483648 1\r\nc\r\nmg "
       "k\r\nset k 0 4294967300 1\r\nd\r\nmg k t v\r\nset k 0 +4294967296 1\r\ne\r\nmg k t v\r\nset k 0 "
       "9223372036854775807 1\r\nf\r\nmg k\r\nset k 0 -9223372036854775808 1\r\ng\r\nmg k t v\r\nset k 0 "
       "9223372036854775808 1\r\nh\r\nset k 0 +-1 1\r\nh\r\nset k 0 + 1\r\nh\r\nmg k v\r\n",
       "STORED\r\nEND\r\nSTORED\r\nEN\r\nSTORED\r\nVA 1 t4\r\nd\r\nSTORED\r\nVA 1 "
       "t-1\r\ne\r\nSTORED\r\nEN\r\n"
       "STORED\r\nVA 1 t-1\r\ng\r\n" +
           times(3, "CLIENT_ERROR bad command line format\r\n") + "VA 1\r\ng\r\n"},
      {"flags_are_cut_to_32_bits",
       "set k 4294967301 0 1\r\na\r\nmg k f\r\nset k 18446744073709551615 0 1\r\na\r\nmg k f\r\nset k -1 0 "
       "1\r\na\r\nset k 18446744073709551616 0 1\r\na\r\n",
       "STORED\r\nHD f5\r\nSTORED\r\nHD f4294967295\r\n" +
           times(2, "CLIENT_ERROR bad command line format\r\n")},
      {"ends_of_other_commands_have_32_bits",
       "set k 0 0 1\r\na\r\ntouch k 2147483648\r\ngat 4294967295 k\r\nmg k T4294967295\r\nms k 1 "
       "T2147483648\r\nb\r\nflush_all 4294967295\r\nmg k t v\r\ntouch k -2147483648\r\nmg k\r\n",
       "STORED\r\n" + times(2, "CLIENT_ERROR invalid exptime argument\r\n") +
           times(2, "CLIENT_ERROR bad token in command line format\r\n") +
           "CLIENT_ERROR invalid exptime argument\r\nVA 1 t-1\r\na\r\nTOUCHED\r\nEN\r\n"},
      {"up_to_30_days_are_from_now",
       "set k 0 2592000 1\r\na\r\nmg k t\r\ntouch k 2592000\r\nmg k t\r\ntouch k 2592001\r\nmg k\r\nset k 0 "
       "2592001 "
       "1\r\na\r\nmg k\r\n",
       "STORED\r\nHD t2592000\r\nTOUCHED\r\nHD t2592000\r\nTOUCHED\r\nEN\r\nSTORED\r\nEN\r\n"},
      {"touch",
       "touch k 5\r\nset k 0 0 1\r\na\r\ntouch k 5\r\ndebugtime 4\r\ntouch k 50\r\ndebugtime 40\r\nget "
       "k\r\ntouch k -1\r\nget k\r\n"
       "touch k x\r\ntouch k\r\n",
       "NOT_FOUND\r\nSTORED\r\nTOUCHED\r\nOK\r\nTOUCHED\r\nOK\r\nVALUE k 0 "
       "1\r\na\r\nEND\r\nTOUCHED\r\nEND\r\n"
       "CLIENT_ERROR invalid exptime argument\r\nCLIENT_ERROR bad command line format\r\n"},
      {"gat", "ms a 1 E9\r\n1\r\ngat 30 a b\r\nmg a t\r\ngats 0 a\r\nmg a t\r\ngat x a\r\ngat 1\r\n",
       "HD\r\nVALUE a 0 1\r\n1\r\nEND\r\nHD t30\r\nVALUE a 0 1 9\r\n1\r\nEND\r\nHD t-1\r\nCLIENT_ERROR "
       "invalid exptime argument\r\n"
       "CLIENT_ERROR bad command line format\r\n"},
      {"a_clock_that_stands",
       "debugtime p\r\nset k 0 5 1\r\na\r\ndebugtime 4\r\nget k\r\ndebugtime x\r\ndebugtime 1\r\nget "
       "k\r\n",
       "OK\r\nSTORED\r\nOK\r\nVALUE k 0 1\r\na\r\nEND\r\nERROR\r\nOK\r\nEND\r\n"},
      {"flush", "set k 0 0 1\r\na\r\nflush_all\r\nget k\r\nset k 0 0 1\r\nb\r\nget k\r\nflush_all x\r\n",
       "STORED\r\nOK\r\nEND\r\nSTORED\r\nVALUE k 0 1\r\nb\r\nEND\r\nCLIENT_ERROR invalid exptime "
       "argument\r\n"},
      {"flush_later",
       "set k 0 0 1\r\na\r\nflush_all 10\r\ndebugtime 8\r\nget k\r\ndebugtime 1\r\nget k\r\nset k 0 0 "
       "1\r\nb\r\ndebugtime 99\r\nget k\r\n",
       "STORED\r\nOK\r\nOK\r\nVALUE k 0 1\r\na\r\nEND\r\nOK\r\nEND\r\nSTORED\r\nOK\r\nVALUE k 0 "
       "1\r\nb\r\nEND\r\n"},
      {"a_later_flush_replaces_an_earlier_one",
       "flush_all 10\r\nflush_all 0\r\nset k 0 0 1\r\na\r\ndebugtime 20\r\nget k\r\n",
       "OK\r\nOK\r\nSTORED\r\nOK\r\nVALUE k 0 1\r\na\r\nEND\r\n"},
      {"flush_in_a_second_is_now",
       "set k 0 0 1\r\na\r\nflush_all 1\r\nget k\r\nset k 0 0 1\r\nb\r\ndebugtime 9\r\nget k\r\n",
       "STORED\r\nOK\r\nEND\r\nSTORED\r\nOK\r\nVALUE k 0 1\r\nb\r\nEND\r\n"},
      {"flush_in_the_past_is_now",
       "set k 0 0 1\r\na\r\nflush_all -1\r\nget k\r\nset k 0 0 1\r\na\r\nflush_all -2147483648 "
       "noreply\r\nget k\r\nflush_all -2147483649\r\n",
       "STORED\r\nOK\r\nEND\r\nSTORED\r\nEND\r\nCLIENT_ERROR invalid exptime argument\r\n"},
      {"flush_long_before_the_start_is_never",
       "set k 0 0 1\r\na\r\nflush_all 2\r\nflush_all 2592001\r\ndebugtime 9\r\nget k\r\nflush_all "
       "2592000\r\nflush_all 2147483647\r\nget k\r\nflush_all 2147483648\r\n",
       "STORED\r\nOK\r\nOK\r\nOK\r\nVALUE k 0 1\r\na\r\nEND\r\nOK\r\nOK\r\nVALUE k 0 "
       "1\r\na\r\nEND\r\nCLIENT_ERROR invalid exptime argument\r\n"},
      {"bad_lines",
       "\r\nx\r\nget\r\nget  \r\nset k\r\nset k 0 0 -1\r\nset k 0 0 x\r\nset k 0 0 "
       "4294967295\r\nnonsense\r\nGET k\r\ngetx k\r\n get k\r\n",
       "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad "
       "command line format\r\n"
       "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad "
       "command line format\r\n"
       "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line "
       "format\r\nERROR\r\nERROR\r\nERROR\r\nERROR\r\n"},
      {"short_and_blank_lines",
       "xy\n  \n \r\nxy\r\n   \r\nnoreply\r\n    noreply\r\nnoreply noreply\r\nxy noreply x\r\n "
       "flush_all\r\n "
       "verbosity 0\r\n  flush_all noreply\r\n mn\r\n version\r\n",
       "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\n"
       "CLIENT_ERROR bad command line format\r\nERROR\r\nERROR\r\nERROR\r\nOK\r\nOK\r\nERROR\r\nERROR\r\n"},
      {"the_value_of_a_bad_line_is_skipped",
       "set k x 0 7\r\nget k\r\n\r\nset k 0 x 3 noreply\r\nabc\r\ncas k 0 0 3 x\r\nabc\r\ncas k 0 0 "
       "3\r\nabc\r\nget k\r\n",
       "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad "
       "command line format\r\n"
       "END\r\n"},
      {"bad_chunk", "set k 0 0 3\r\nabcdeget k\r\nset k 0 0 1 noreply\r\nabcms k 1 q\r\nabcmn\r\n",
       "CLIENT_ERROR bad data chunk\r\nEND\r\nCLIENT_ERROR bad data chunk\r\nMN\r\n"},
      {"long_keys",
       "set " + many(250, 'k') + " 0 0 1\r\na\r\nget " + many(250, 'k') + "\r\nget a " + many(251, 'k') +
           "\r\nset " + many(251, 'k') + " 0 0 1\r\na\r\ndelete " + many(251, 'k') + "\r\nmg " +
           many(251, 'k') + "\r\nms " + many(251, 'k') + " 1\r\na\r\nincr " + many(251, 'k') + " 1\r\nmn\r\n",
       "STORED\r\nVALUE " + many(250, 'k') +
           " 0 1\r\na\r\nEND\r\nCLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line "
           "format\r\n"
           "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\n"
           "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\nMN\r\n"},
      {"quit_ends_it", "mn\r\nquit\r\nmn\r\n", "MN\r\n", true},
      {"http_ends_it", "GET / HTTP/1.0\r\nmn\r\n", "", true},
      {"a_long_line_ends_it", "mn\r\nset " + many(2050, 'k') + " 0 0 1\r\n", "MN\r\n", true},
      {"binary_is_refused", std::string("mn\r\n\x80\x0a\0\0\0\0\0\0\0\0\0\0wxyz\0\0\0\0\0\0\0\0", 28),
       std::string("MN\r\n\x81\x0a\0\0\0\0\0\x83\0\0\0\x3awxyz\0\0\0\0\0\0\0\0", 28) +
           "the binary protocol is not supported, the text protocol is",
       true},
      {"meta_get",
       "mg k v\r\nmg k q\r\nmg k k O1 v\r\nms k 3 F5 T90 E44\r\nabc\r\nmg k\r\nmg k v\r\nmg k s v t f c k "
       "Oopaque h\r\nmg k h v q\r\n",
       "EN\r\nEN k"
       "k O1\r\nHD\r\nHD\r\nVA 3\r\nabc\r\nVA 3 s3 t90 f5 c44 kk Oopaque h1\r\nabc\r\nVA 3 h1\r\nabc\r\n"},
      {"meta_get_without_access",
       "ms k 1\r\na\r\nmg k u h\r\nmg k h\r\nmg k h u\r\ndebugtime 100\r\nmg k l u\r\nmg k l\r\nmg k l u\r\n",
       "HD\r\nHD h0\r\nHD h0\r\nHD h1\r\nOK\r\nHD l100\r\nHD l100\r\nHD l0\r\n"},
      {"meta_get_by_version", "ms k 1 E4\r\na\r\nmg k C4 v c\r\nmg k C5 v c\r\n",
       "HD\r\nHD c4\r\nVA 1 c4\r\na\r\n"},
      {"meta_get_touches",
       "ms k 1 T10\r\na\r\nmg k t T50\r\nmg k T60 t v\r\nmg k T0 t\r\nmg none T5\r\nmg k t T-1\r\nmg k\r\n",
       "HD\r\nHD t10\r\nVA 1 t60\r\na\r\nHD t-1\r\nEN\r\nHD t-1\r\nEN\r\n"},
      {"vivify",
       "mg k N30 t c v E8\r\nmg k N30 v\r\nmg k\r\nms k 1 T30 E9\r\na\r\nmg k N30 v\r\nmg k R40 v\r\nmg k "
       "R40\r\nmg k R20\r\n",
       "VA 0 t30 c8 W\r\n\r\nVA 0 Z\r\n\r\nHD Z\r\nHD\r\nVA 1\r\na\r\nVA 1 W\r\na\r\nHD Z\r\nHD Z\r\n"},
      {"a_look_up_wins_below_R_and_not_at_it",
       "ms k 1 T30\r\na\r\nmg k R30\r\nmg k R31\r\nmg k R31\r\nms k 1 T30\r\na\r\nmg k R30 T29\r\nmg k T29 "
       "R30\r\nms k 1\r\na\r\nmg k R2592000\r\n",
       "HD\r\nHD\r\nHD W\r\nHD Z\r\nHD\r\nHD\r\nHD W\r\nHD\r\nHD\r\n"},
      {"a_win_shows_the_access_before_it",
       "ms k 1 T90\r\na\r\nms s 1 T90\r\na\r\nmd s I T80\r\ndebugtime 70\r\nmg k R30 h l\r\nmg k h l\r\nmg s "
       "h l\r\nmg s "
       "h l\r\nms k 1 T90\r\na\r\ndebugtime 61\r\nmg k\r\ndebugtime 20\r\nmg k R30 h l u\r\nmg k T90 R30 h "
       "l\r\n",
       "HD\r\nHD\r\nHD\r\nOK\r\nHD h0 l70 W\r\nHD h1 l0 Z\r\nHD h0 l70 X W\r\nHD h1 l0 Z "
       "X\r\nHD\r\nOK\r\nHD\r\nOK\r\n"
       "HD h1 l20 W\r\nHD h1 l20 Z\r\n"},
      {"stale",
       "ms k 1 E50 T90\r\na\r\nmd k I T30 E60\r\nmg k v t c\r\nmg k v\r\nms k 1 C10 E70\r\nb\r\nms k 1 C10 I "
       "E70\r\nb\r\nmg k v t c\r\n"
       "ms k 1 C70 E71\r\nc\r\nmg k v t c\r\n",
       "HD\r\nHD\r\nVA 1 t30 c60 X W\r\na\r\nVA 1 Z X\r\na\r\nEX\r\nHD\r\nVA 1 t30 c70 Z X\r\nb\r\nHD\r\nVA "
       "1 t-1 c71\r\nc\r\n"},
      {"stale_again_can_be_won_again", "ms k 1\r\na\r\nmd k I\r\nmg k\r\nmd k I\r\nmg k\r\nmg k\r\n",
       "HD\r\nHD\r\nHD X W\r\nHD\r\nHD X W\r\nHD Z X\r\n"},
      {"meta_set",
       "ms k 2 k O9 s c E6 F1\r\nab\r\nms k 2 q\r\nab\r\nms k 1 ME\r\nc\r\nms k 1 MA s\r\nc\r\nms k 1 MP "
       "s\r\nx\r\nms no 1 MA\r\nc\r\n"
       "ms no 1 MR k q\r\nc\r\nms no 1 C5 c\r\nc\r\nms no 1 MA N0 s\r\nc\r\nms no 2 MA N0 s\r\nde\r\nmg no "
       "v\r\nmg k v f\r\n",
       "HD kk O9 s2 c6\r\nNS\r\nHD s3\r\nHD s4\r\nNS\r\nNS kno\r\nNF c0\r\nHD s1\r\nHD s3\r\nVA "
       "3\r\ncde\r\nVA 4 f0\r\nxabc\r\n"},
      {"meta_set_by_version",
       "ms k 1 E5\r\na\r\nms k 1 C4 c\r\nb\r\nms k 1 C5 MA E6\r\nb\r\nms k 1 C5 MA\r\nb\r\nms k 1 "
       "C0\r\nb\r\nms k 1 C6 MR\r\nc\r\nmg k v\r\n",
       "HD\r\nEX c0\r\nHD\r\nEX\r\nEX\r\nHD\r\nVA 1\r\nc\r\n"},
      {"meta_delete",
       "md k\r\nmd k q\r\nms k 1 E5\r\na\r\nmd k C4 k O2\r\nmd k C5 k O2 q\r\nmd k k\r\nms k 2 "
       "E7\r\nab\r\nmd k x\r\nmg k v c\r\n"
       "md k x I E8\r\nmg k v c\r\n",
       "NF\r\nNF\r\nHD\r\nEX kk O2\r\nNF kk\r\nHD\r\nHD\r\nVA 0 c7\r\n\r\nHD\r\nVA 0 c8 X W\r\n\r\n"},
      {"meta_arithmetic",
       "ma n\r\nma n N0 J7 v\r\nma n v D3\r\nma n MD D4 v t T60\r\nma n t v c E5 k O1\r\nma n C4\r\nma n C5 "
       "v M-\r\nma n q\r\nma n M+ v\r\n"
       "ma n MI\r\nma n MX\r\nma n D\r\nset n 0 0 1\r\nx\r\nma n q\r\nma new N30 t v\r\nmg new t\r\n",
       "NF\r\nVA 1\r\n7\r\nVA 2\r\n10\r\nVA 1 t-1\r\n6\r\nVA 1 t60 c5 kn O1\r\n7\r\nEX\r\nVA 1\r\n6\r\nVA "
       "1\r\n8\r\nHD\r\n"
       "CLIENT_ERROR invalid mode for ma M token\r\nCLIENT_ERROR invalid or duplicate flag\r\nSTORED\r\n"
       "CLIENT_ERROR cannot increment or decrement non-numeric value\r\nVA 1 t30\r\n0\r\nHD t30\r\n"},
      {"meta_noop_ends_quiet_ones", "ms k 1 q\r\na\r\nmg k v q\r\nmg no v q\r\nmd k q\r\nmg k q\r\nmn\r\n",
       "VA 1\r\na\r\nMN\r\n"},
      {"meta_flags_refused",
       "mg k v v\r\nmg k m\r\nmg k 1\r\nmg k Tx\r\nmg k T\r\nmg k N\r\nmg k Rq\r\nmg k C-1\r\nmg\r\nmg k O" +
           many(32, 'o') + "\r\nmg k O" + many(31, 'o') +
           "\r\nmg k v s t f c k h l u q O1 P1 L1 b x I F1 C1 E1\r\n"
           "ms k x\r\nms k\r\nms k -1\r\nms k 1 MZ\r\na\r\nms k 1 M\r\na\r\nms k 1 Fx q\r\na\r\nms k 1 v "
           "v\r\na\r\nmn\r\n",
       "CLIENT_ERROR duplicate flag\r\nCLIENT_ERROR invalid flag\r\nCLIENT_ERROR invalid flag\r\n"
       "CLIENT_ERROR bad token in command line format\r\nCLIENT_ERROR bad token in command line format\r\n"
       "CLIENT_ERROR bad token in command line format\r\nCLIENT_ERROR bad token in command line format\r\n"
       "CLIENT_ERROR bad token in command line format\r\nCLIENT_ERROR bad command line format\r\n"
       "CLIENT_ERROR opaque token too long\r\nEN O" +
           many(31, 'o') +
           "\r\nCLIENT_ERROR options flags are too long\r\n"
           "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad "
           "command line format\r\n"
           "CLIENT_ERROR invalid mode for ms M token\r\nCLIENT_ERROR invalid mode for ms M token\r\n"
           "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR duplicate flag\r\nMN\r\n"},
      {"wrong_in_several_ways",
       "mg k v v {\r\nmg k Tx {\r\nma k Tx\r\nma k MX {\r\nma " + many(251, 'k') + "\r\nma " +
           many(251, 'k') + " {\r\nms k 1 v v {\r\na\r\nms k -1 {\r\nmg k" + times(18, " v") + "\r\nmg k" +
           times(19, " v") + "\r\nmg k" + times(20, " v") + " {\r\nmg k" + times(21, " v") + " {\r\nms k 1" +
           times(18, " v") + "\r\na\r\nma k" + times(19, " v") + "\r\nma k" + times(20, " v") + " {\r\n",
       "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\n"
       "CLIENT_ERROR invalid or duplicate flag\r\nCLIENT_ERROR bad command line format\r\n"
       "CLIENT_ERROR invalid or duplicate flag\r\nCLIENT_ERROR bad command line format\r\n"
       "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\n"
       "CLIENT_ERROR duplicate flag\r\nCLIENT_ERROR options flags are too long\r\n"
       "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR options flags are too long\r\n"
       "CLIENT_ERROR options flags are too long\r\nCLIENT_ERROR invalid or duplicate flag\r\n"
       "CLIENT_ERROR bad command line format\r\n"},
      {"opaques",
       "mg k O" + many(31, 'o') + "\r\nmg k q O" + many(32, 'o') + "\r\nmd k O" + many(32, 'o') +
           "\r\nme k O" + many(32, 'o') + "\r\nma n N0 O" + many(32, 'o') + "\r\nma n MX O" + many(32, 'o') +
           "\r\nma n Tx O" + many(32, 'o') + "\r\nms k 1 q O" + many(32, 'o') + "\r\na\r\nms k 1 MX O" +
           many(32, 'o') + "\r\na\r\nms k 1 O" + many(32, 'o') + " {\r\na\r\n",
       "EN O" + many(31, 'o') +
           "\r\nCLIENT_ERROR opaque token too long\r\nCLIENT_ERROR opaque token too long\r\nEN\r\n"
           "CLIENT_ERROR opaque token too long\r\nCLIENT_ERROR invalid mode for ma M token\r\n"
           "CLIENT_ERROR invalid or duplicate flag\r\nCLIENT_ERROR opaque token too long\r\n"
           "CLIENT_ERROR invalid mode for ms M token\r\nCLIENT_ERROR bad command line format\r\n"},
      {"base64_that_is_unusual",
       "ms Y*WJj 1 b k\r\nx\r\nget abc\r\nmg YR== b k\r\nmg YQ==YQ== k b\r\nmd =YQ= b k\r\nmg Y=== b\r\nmg "
       "==== "
       "b\r\nmg * b\r\nma Y*Q== b N0 k v\r\n",
       "HD kYWJj b\r\nVALUE abc 0 1\r\nx\r\nEND\r\nEN kYQ== b\r\nEN kYQ== b\r\nNF kAQ== b\r\nCLIENT_ERROR "
       "error "
       "decoding key\r\nCLIENT_ERROR error decoding key\r\nCLIENT_ERROR error decoding key\r\nVA 1 kYQ== "
       "b\r\n0\r\n"},
      {"base64_keys",
       "ms YQBiIA== 1 b k\r\nx\r\nmg YQBiIA== v b k\r\nmg YQBiIA== v\r\nmg YQBiIA b\r\nmg YQ*= b\r\nma Yg== "
       "b N0 k v\r\nget b\r\n"
       "md Yg== b k\r\nme Yw== b\r\n",
       "HD kYQBiIA== b\r\nVA 1 kYQBiIA== b\r\nx\r\nEN\r\nCLIENT_ERROR error decoding key\r\nCLIENT_ERROR "
       "error decoding key\r\n"
       "VA 1 kYg== b\r\n0\r\nVALUE b 0 1\r\n0\r\nEND\r\nHD kYg== b\r\nEN\r\n"},
      {"meta_debug", "me k\r\nms k 3 T50 E5\r\nabc\r\ndebugtime 20\r\nme k\r\nme\r\n",
       "EN\r\nHD\r\nOK\r\nME k exp=30 la=20 cas=5 fetch=no cls=1 size=4\r\nCLIENT_ERROR bad command line "
       "format\r\n"},
      {"meta_debug_takes_any_flags",
       "ms YWJj 3 b E5\r\nxyz\r\nme abc Tx v v 7\r\nme Y*WJj b\r\nme YWJj v b\r\nme YWJ b\r\nme abc "
       "{\r\nme " +
           many(251, 'k') + "\r\nme k" + times(30, " v") + "\r\n",
       "HD\r\nME abc exp=-1 la=0 cas=5 fetch=no cls=1 size=6\r\nME YWJj exp=-1 la=0 cas=5 fetch=no cls=1 "
       "size=6\r\n"
       "ME YWJj exp=-1 la=0 cas=5 fetch=no cls=1 size=6\r\nCLIENT_ERROR bad command line format\r\n"
       "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\nEN\r\n"},
      {"verbosity", "verbosity 1\r\nverbosity\r\nverbosity x\r\nverbosity 0 1 2\r\n",
       "OK\r\nCLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\nOK\r\n"},
      {"version", "version\r\nversion noreply\r\n", "VERSION 1.6.45\r\nVERSION 1.6.45\r\n"},
      {"refused_by_name", "slabs automove x\r\nwatch\r\nshutdown\r\n",
       "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR watch is not supported: there are no logs to "
       "watch\r\n"
       "SERVER_ERROR: shutdown not enabled\r\n"},
      {"the_crawler",
       "lru_crawler metadump all\r\nlru_crawler mgdump hash\r\nlru_crawler metadump 2,63\r\nlru_crawler "
       "metadump "
       "0\r\nlru_crawler metadump 1,64\r\nlru_crawler mgdump 1,x\r\nlru_crawler metadump\r\nlru_crawler "
       "metadump all "
       "x\r\nlru_crawler metadump all noreply\r\nlru_crawler\r\nlru_crawler x\r\nlru_crawler crawl "
       "all\r\nlru_crawler "
       "crawl 1,2\r\nlru_crawler crawl hash\r\nlru_crawler tocrawl 5\r\nlru_crawler tocrawl x\r\nlru_crawler "
       "sleep "
       "1000000\r\nlru_crawler sleep 1000001\r\nlru_crawler enable\r\nlru_crawler disable\r\n",
       "OK\r\nEND\r\nOK\r\nEN\r\nOK\r\nEND\r\n" + times(3, "BADCLASS invalid class id\r\n") +
           times(4, "ERROR\r\n") +
           "OK\r\nOK\r\nBADCLASS invalid class id\r\nOK\r\nCLIENT_ERROR bad command line format\r\nOK\r\n"
           "CLIENT_ERROR sleep must be one second or less\r\nOK\r\nOK\r\n"},
      {"names_are_whole",
       "replace" + many(256, 'x') + " k 0 0 1\r\nprependx k 0 0 1\r\nmgx k\r\nge k\r\nmn\r\n",
       times(4, "ERROR\r\n") + "MN\r\n"},
      {"dumps_of_commands",
       "set a%~b 0 0 1\r\nx\r\nlru_crawler mgdump all\r\ndelete a%~b\r\nms YWIgYwo= 1 b\r\nx\r\nset gone 0 "
       "-1 "
       "1\r\nx\r\nlru_crawler mgdump 1\r\nmn\r\n",
       "STORED\r\nOK\r\nmg a%~b\r\nEN\r\nDELETED\r\nHD\r\nSTORED\r\nOK\r\nmg YWIgYwo= b\r\nEN\r\nMN\r\n"},
      {"details",
       "stats detail dump\r\nset a:1 0 0 1\r\n1\r\nstats detail on\r\nset a:1 0 0 1\r\n1\r\nget a:1 a:2 "
       "b\r\ndelete a:3\r\nstats detail dump\r\n"
       "stats reset\r\nstats detail dump\r\nstats detail off\r\nget a:1\r\nstats detail dump\r\nstats detail "
       "x\r\n",
       "END\r\nSTORED\r\nOK\r\nSTORED\r\nVALUE a:1 0 1\r\n1\r\nEND\r\nNOT_FOUND\r\nPREFIX a get 2 hit 1 set "
       "1 del 1\r\nEND\r\n"
       "RESET\r\nEND\r\nOK\r\nVALUE a:1 0 1\r\n1\r\nEND\r\nEND\r\nCLIENT_ERROR usage: stats detail "
       "on|off|dump\r\n"},
      {"dumps",
       "set a 0 0 3\r\nabc\r\nstats cachedump 1 0\r\nstats cachedump 2 0\r\nstats cachedump 64 0\r\nstats "
       "cachedump 1\r\nstats sizes\r\n"
       "stats nonsense\r\n",
       "STORED\r\nITEM a [3 b; 0 s]\r\nEND\r\nEND\r\nCLIENT_ERROR Illegal slab id\r\nCLIENT_ERROR bad "
       "command line\r\n"
       "STAT sizes_status disabled\r\nEND\r\nERROR\r\n"},
  };
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

INSTANTIATE_TEST_SUITE_P(protocol, conversations, testing::ValuesIn(exchanges()),
                         [](const auto& of) { return std::string(of.param.name); });

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
  with.chosen.shuts_down = true;
  conversation d(with);
  int stops = 0;
  d.shared.stop = [&stops] { ++stops; };
  EXPECT_EQ(d.ask("shutdown now\r\n"), "CLIENT_ERROR invalid shutdown mode\r\n");
  EXPECT_EQ(d.ask("shutdown graceful\r\nmn\r\n"), "");
  EXPECT_TRUE(d.closed);
  EXPECT_EQ(stops, 1);
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
