#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "espalier/map/btree/masstree_node.hpp"

// How masstree for strings holds its keys (masstree_strings.hpp): the nodes of each layer compare a slice, 8 bytes, and
// the rest of a key lies in a container, together with those of a few others.

namespace espalier::btree {

/// The part of a key that one layer compares: its next 8 bytes, as a number that orders as they do, and how many there
/// are. A key that is longer comes behind all those that end within the slice.
struct key_slice {
  static constexpr std::size_t width = 8;
  static constexpr std::uint8_t longer = 9;

  std::uint64_t bytes = 0;
  std::uint8_t length = 0;

  /// Of the key behind its first `from` bytes, of which there are at least so many.
  [[nodiscard]] static key_slice of(std::string_view key, std::size_t from) noexcept {
    const char* const at = key.data() + from;
    const std::size_t left = key.size() - from;
    if (left >= width) [[likely]]
      return {load(at), static_cast<std::uint8_t>(left == width ? width : longer)};
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < left; ++i)
      bytes |= std::uint64_t{static_cast<unsigned char>(at[i])} << (8 * (width - 1 - i));
    return {bytes, static_cast<std::uint8_t>(left)};
  }
  [[nodiscard]] bool goes_on() const noexcept { return length == longer; }

  void append_to(std::string& key) const {
    const std::uint64_t in_order = in_memory_order(bytes);
    std::array<char, width> characters;
    std::memcpy(characters.data(), &in_order, width);
    key.append(characters.data(), std::min<std::size_t>(length, width));
  }

  friend bool operator==(const key_slice&, const key_slice&) = default;
  friend bool operator<(const key_slice& a, const key_slice& b) noexcept {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.length < b.length;
  }

 private:
  [[nodiscard]] static std::uint64_t load(const char* at) noexcept {
    std::uint64_t x;
    std::memcpy(&x, at, width);
    return in_memory_order(x);
  }
  [[nodiscard]] static std::uint64_t in_memory_order(std::uint64_t x) noexcept {
    return std::endian::native == std::endian::little ? __builtin_bswap64(x) : x;
  }
};

/// Both parts of a slice are loaded at the same version, but for low keys: see masstree_layer.hpp, (M2). A low key that
/// is read while it becomes smaller may be any in between: its node is about to get that range.
template <unsigned Count>
class node_keys<key_slice, Count> {
 public:
  /// Most layers have few keys.
  static constexpr bool by_halves = false;

  [[nodiscard]] key_slice get(unsigned i) const noexcept { return {bytes_[i].get(), length_[i].get()}; }
  [[nodiscard]] key_slice held(unsigned i) const noexcept { return {bytes_[i].held(), length_[i].held()}; }
  void set(unsigned i, const key_slice& k) noexcept {
    bytes_[i].set(k.bytes);
    length_[i].set(k.length);
  }

 private:
  std::array<node_field<std::uint64_t>, Count> bytes_;
  std::array<node_field<std::uint8_t>, Count> length_;
};

/// A few keys of a layer that have a slice in common and go on: what each has behind the slice, its tail, in order, and
/// its word. The tails never change, so a key comes or goes with a new container.
///
/// The block has, behind the count, where each tail ends, then the words, then the tails.
template <class Word>
class alignas(node_field<Word>) key_container {
 public:
  /// How much is in a container.
  struct shape {
    unsigned count = 0;
    std::size_t tail_bytes = 0;

    [[nodiscard]] shape with(std::string_view tail) const noexcept {
      return {count + 1, tail_bytes + tail.size()};
    }
    [[nodiscard]] shape without(std::string_view tail) const noexcept {
      return {count - 1, tail_bytes - tail.size()};
    }
    [[nodiscard]] constexpr std::size_t bytes() const noexcept {
      return words_at(count) + count * sizeof(field) + tail_bytes;
    }
    friend bool operator==(const shape&, const shape&) = default;
  };

  /// To be filled before other threads see it, from the first key to the last.
  explicit key_container(const shape& s) noexcept : count_(s.count) {
    ends()[s.count - 1] = static_cast<std::uint32_t>(s.tail_bytes);
    std::uninitialized_value_construct_n(words(), s.count);
  }
  void set(unsigned i, std::string_view tail, Word w) noexcept {
    std::memcpy(tails() + begin_of(i), tail.data(), tail.size());
    ends()[i] = begin_of(i) + static_cast<std::uint32_t>(tail.size());
    words()[i].set(w);
  }
  /// The keys of another one from `first` to before `last`.
  void set(unsigned i, const key_container& other, unsigned first, unsigned last) noexcept {
    const std::uint32_t begin = other.begin_of(first);
    std::memcpy(tails() + begin_of(i), other.tails() + begin, other.begin_of(last) - begin);
    const std::uint32_t moved = begin_of(i) - begin;
    for (; first != last; ++first, ++i) {
      ends()[i] = other.ends()[first] + moved;
      words()[i].set(other.words()[first].held());
    }
  }

  [[nodiscard]] shape content() const noexcept { return {count_, ends()[count_ - 1]}; }
  [[nodiscard]] std::size_t node_block_bytes() const noexcept { return content().bytes(); }
  [[nodiscard]] unsigned count() const noexcept { return count_; }
  [[nodiscard]] std::string_view tail(unsigned i) const noexcept {
    return {tails() + begin_of(i), begin_of(i + 1) - begin_of(i)};
  }
  [[nodiscard]] node_field<Word>& word(unsigned i) noexcept { return words()[i]; }
  [[nodiscard]] const node_field<Word>& word(unsigned i) const noexcept { return words()[i]; }

  /// The index of the key with this tail, or count().
  [[nodiscard]] unsigned index_of(std::string_view sought) const noexcept {
    const char* begin = tails();
    for (unsigned i = 0; i < count_; ++i) {
      const char* const end = tails() + ends()[i];
      if (static_cast<std::size_t>(end - begin) == sought.size() && same(begin, sought)) return i;
      begin = end;
    }
    return count_;
  }
  /// How many tails are smaller.
  [[nodiscard]] unsigned count_before(std::string_view sought) const noexcept {
    unsigned i = 0;
    while (i < count_ && tail(i) < sought) ++i;
    return i;
  }

 private:
  using field = node_field<Word>;

  static constexpr std::size_t words_at(unsigned count) noexcept {
    return ((1 + count) * sizeof(std::uint32_t) + alignof(field) - 1) / alignof(field) * alignof(field);
  }
  [[nodiscard]] std::uint32_t begin_of(unsigned i) const noexcept { return i == 0 ? 0 : ends()[i - 1]; }

  template <class T>
  [[nodiscard]] T* at(std::size_t offset) const noexcept {
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(this) + offset);
  }
  [[nodiscard]] std::uint32_t* ends() noexcept { return at<std::uint32_t>(sizeof(count_)); }
  [[nodiscard]] const std::uint32_t* ends() const noexcept { return at<const std::uint32_t>(sizeof(count_)); }
  [[nodiscard]] field* words() noexcept { return at<field>(words_at(count_)); }
  [[nodiscard]] const field* words() const noexcept { return at<const field>(words_at(count_)); }
  [[nodiscard]] char* tails() noexcept { return reinterpret_cast<char*>(words() + count_); }
  [[nodiscard]] const char* tails() const noexcept { return reinterpret_cast<const char*>(words() + count_); }

  /// From behind, since what one host or folder has in common is in front. Without a call, since most tails are short.
  [[nodiscard]] static bool same(const char* a, std::string_view b) noexcept {
    constexpr std::size_t step = sizeof(std::uint64_t);
    std::size_t left = b.size();
    for (; left >= step; left -= step) {
      if (std::memcmp(a + left - step, b.data() + left - step, step) != 0) return false;
    }
    while (left != 0 && a[left - 1] == b[left - 1]) --left;
    return left == 0;
  }

  const std::uint32_t count_;
};

/// The keys of a full container and one more, which become a layer.
template <class Word, unsigned Count>
class burst_keys {
  using container = key_container<Word>;

 public:
  burst_keys(const container& full, std::string_view tail, Word w) noexcept {
    const unsigned at = full.count_before(tail);
    for (unsigned i = 0; i < Count; ++i) {
      const unsigned from = i < at ? i : i - 1;
      tail_[i] = i == at ? tail : full.tail(from);
      word_[i] = i == at ? w : full.word(from).held();
    }
    const std::string_view first = tail_.front();
    const auto same = std::ranges::mismatch(first, tail_.back()).in1 - first.begin();
    shared_ =
        static_cast<unsigned>(std::min(static_cast<std::size_t>(same), first.size() - 1) / key_slice::width);
  }

  /// So many further slices all of them have, and go on behind these.
  [[nodiscard]] unsigned shared() const noexcept { return shared_; }
  /// The slice at that index. From shared() on keys differ.
  [[nodiscard]] key_slice slice(unsigned i, std::size_t index) const noexcept {
    return key_slice::of(tail_[i], index * key_slice::width);
  }
  [[nodiscard]] Word word(unsigned i) const noexcept { return word_[i]; }
  /// Calls f(slice, first, last) for each slice in which keys differ: those from `first` to before `last` have it.
  template <class F>
  void for_each_slice(const F& f) const {
    for (unsigned first = 0, last = 0; first < Count; first = last) {
      const key_slice part = slice(first, shared_);
      while (++last < Count && slice(last, shared_) == part) {
      }
      f(part, first, last);
    }
  }
  /// The container of such keys, if they go on.
  [[nodiscard]] typename container::shape shape_of(unsigned first, unsigned last) const noexcept {
    typename container::shape s;
    for (; first != last; ++first) s = s.with(rest(first));
    return s;
  }
  void fill(container& fresh, unsigned first) const noexcept {
    for (unsigned i = 0; i < fresh.count(); ++i) fresh.set(i, rest(first + i), word_[first + i]);
  }

 private:
  [[nodiscard]] std::string_view rest(unsigned i) const noexcept {
    return tail_[i].substr((shared_ + std::size_t{1}) * key_slice::width);
  }

  std::array<std::string_view, Count> tail_;
  std::array<Word, Count> word_;
  unsigned shared_;
};

/// The words of layers of strings: a value where the key ends within the slice, otherwise a container, or the root of
/// the next layer with the lowest bit set.
struct string_words {
  static constexpr bool any = true;

  template <class Node>
  [[nodiscard]] static Node* layer_behind(const key_slice& k, std::uint64_t w) noexcept {
    return k.goes_on() && (w & 1U) != 0 ? reinterpret_cast<Node*>(static_cast<std::uintptr_t>(w - 1))
                                        : nullptr;
  }
  template <class Word, class Node>
  [[nodiscard]] static Word word_of(Node* root) noexcept {
    return static_cast<Word>(reinterpret_cast<std::uintptr_t>(root)) + 1;
  }
};

}  // namespace espalier::btree
