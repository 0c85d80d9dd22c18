#include "arguments.hpp"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace espalier::bench {

void refuse(const char* what, std::string_view which) noexcept {
  std::fprintf(stderr, "espalier-measured-work: %s '%.*s'; espalier bench starts this program\n", what,
               static_cast<int>(which.size()), which.data());
  std::exit(2);
}

const char* arguments::find(std::string_view name) const noexcept {
  for (int i = 0; i < count_; ++i) {
    const std::string_view word(words_[i]);
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=')
      return words_[i] + name.size() + 1;
  }
  return nullptr;
}

std::uint64_t arguments::number(std::string_view name, std::uint64_t least, std::uint64_t most) const {
  const char* const text = find(name);
  if (text == nullptr) refuse("missing is the argument", name);
  const char* const end = text + std::strlen(text);
  std::uint64_t value = 0;
  const auto [read, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || read != end || value < least || value > most)
    refuse("not a number that can be is the value of", name);
  return value;
}

std::uint64_t arguments::number_or(std::string_view name, std::uint64_t least, std::uint64_t most,
                                   std::uint64_t without) const {
  return find(name) == nullptr ? without : number(name, least, most);
}

}  // namespace espalier::bench
