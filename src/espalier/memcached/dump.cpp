// All entries, or all keys, as the commands lru_crawler and stats cachedump show them.

#include <algorithm>
#include <array>
#include <string_view>

#include "espalier/memcached/base64.hpp"
#include "espalier/memcached/execute.hpp"

namespace espalier::memcached {
namespace {

constexpr std::string_view end_line = "END\r\n";

/// `mg KEY`, with the key in base64 where a line could not show it.
void put_command(output& out, std::string_view key) {
  constexpr std::size_t most = 2 * byte_cache::largest_key + 16;
  char* const room = out.room(most);
  if (room == nullptr) return;
  const bool is_plain =
      std::ranges::all_of(key, [](char c) { return static_cast<unsigned char>(c) > ' ' && c != '\x7f'; });
  out << "mg ";
  out.wrote(is_plain ? std::ranges::copy(key, room + 3).out : put_base64(room + 3, key));
  out << (is_plain ? "\r\n" : " b\r\n");
}

/// The key as in a URI, and memcached's names of properties. Only "\n" ends the line, as there.
void put_properties(service& of, output& out, std::string_view key, const cache_entry& e) {
  std::array<char, 3 * byte_cache::largest_key> escaped;
  const std::size_t size = static_cast<std::size_t>(put_escaped(escaped.data(), key) - escaped.data());
  out << "key=" << std::string_view(escaped.data(), size) << " exp=";
  if (e.expires == cache_entry::never)
    out << "-1";
  else
    out << of.clock().origin() + e.expires;
  out << " la=" << of.clock().origin() + e.accessed << " cas=" << (of.chosen().versions ? e.version : 0)
      << " fetch=" << (e.fetched ? "yes" : "no") << " cls=1 size=" << key.size() + e.value.size()
      << " flags=" << e.flags << " \n";
}

}  // namespace

void show_keys(service& of, output& out, std::uint64_t most) {
  constexpr std::size_t most_bytes = std::size_t{2} << 20U;
  const std::size_t before = out.size();
  std::uint64_t shown = 0;
  of.cache().for_each([&](std::string_view key, const cache_entry& entry) {
    // A meta command may have given a key that no line can show.
    if (key.find_first_of(" \n") != std::string_view::npos) return true;
    const std::int64_t end = entry.expires == cache_entry::never ? 0 : of.clock().origin() + entry.expires;
    const std::size_t before_line = out.size();
    out << "ITEM " << key << " [" << entry.value.size() << " b; " << end << " s]\r\n";
    if (out.size() - before + end_line.size() <= most_bytes) return ++shown != most;
    out.shrink_to(before_line);
    return false;
  });
  out << end_line;
}

bool show_entries(service& of, output& out, dump_format as, std::size_t& place) {
  const std::size_t most_bytes = std::min(of.chosen().replies_at_once, std::size_t{64} << 10U);
  constexpr unsigned most_parts = 4096;  // they may be empty
  const auto show = [&](std::string_view key, const cache_entry& entry) {
    if (as == dump_format::commands)
      put_command(out, key);
    else
      put_properties(of, out, key, entry);
  };
  for (unsigned parts = 0; parts < most_parts && out.size() < most_bytes; ++parts) {
    if (of.cache().visit_part(place, show)) continue;
    out << (as == dump_format::commands ? std::string_view("EN\r\n") : end_line);
    return false;
  }
  return true;
}

}  // namespace espalier::memcached
