#include "apps/studies/cache/engines.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/studies/cache/stock_cache.hpp"
#include "espalier/cache/byte_cache.hpp"
#include "espalier/delegation/dedicated_servers.hpp"
#include "espalier/delegation/partitions.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pages.hpp"

namespace espalier::app::caches {
namespace {

/// byte_cache under the study's interface. Nothing ends, so its clock stands.
class parsec_cache {
 public:
  explicit parsec_cache(const cache_shape& shape) : value_bytes_(shape.value_bytes) {
    static const std::atomic<std::uint32_t> second{1};
    // Room for twice what is stored: what is overwritten leaves holes.
    constexpr std::size_t beside_value = 12 + sizeof(cache_key) + 16;
    const std::size_t each = (shape.items / shape.partitions + 1) * (shape.value_bytes + beside_value);
    cache_options options{.memory_limit = 2 * each + (std::size_t{4} << 20U), .clock = &second};
    options.largest_entry = options.memory_limit / 2;
    cache_.emplace(options);
  }

  bool get(const cache_key& key, std::byte* to) noexcept {
    return cache_->get(text_of(key), [&](const cache_entry& e) {
      std::memcpy(to, e.value.data(), std::min(e.value.size(), value_bytes_));
    });
  }
  bool set(const cache_key& key, const std::byte* from) noexcept {
    const cache_changed done = cache_->change(
        byte_cache::hashed(text_of(key)),
        [this](const cache_entry*) {
          return cache_change{.what = cache_change::kind::store, .value_bytes = value_bytes_};
        },
        [&](char* value, const cache_entry*) { std::memcpy(value, from, value_bytes_); });
    return done.outcome == cache_outcome::done;
  }

 private:
  static std::string_view text_of(const cache_key& key) noexcept {
    return {reinterpret_cast<const char*>(key.words.data()), sizeof(cache_key)};
  }

  std::size_t value_bytes_;
  std::optional<byte_cache> cache_;
};

/// The partition of a key: of other bits than a bucket or a stripe.
struct by_key {
  [[nodiscard]] std::uint64_t number(const cache_key& key) const noexcept { return key.words[0]; }
  [[nodiscard]] unsigned partition(const cache_key& key, unsigned count) const noexcept {
    return static_cast<unsigned>((key.words[0] >> 32U) * count >> 32U);
  }
};

/// A thread's buffers, in pages that it touches first.
class value_buffers {
 public:
  explicit value_buffers(std::size_t value_bytes, std::size_t count)
      : stride_((value_bytes + hw::cache_line_bytes - 1) / hw::cache_line_bytes * hw::cache_line_bytes),
        lines_(stride_ / hw::cache_line_bytes),
        pages_(hw::map_pages(stride_ * count)) {}

  [[nodiscard]] std::byte* operator[](std::size_t at) const noexcept { return pages_.data() + at * stride_; }
  /// The feed makes and judges values outside the simulated program. Here the thread writes to each line as it makes a value,
  /// and reads each as it uses one.
  void write_lines(std::byte* of) const noexcept {
    for (std::size_t i = 0; i < lines_; ++i) *word(of, i) = *word(of, i);
  }
  void read_lines(std::byte* of) const noexcept {
    for (std::size_t i = 0; i < lines_; ++i) static_cast<void>(*word(of, i));
  }

 private:
  static volatile std::uint64_t* word(std::byte* of, std::size_t line) noexcept {
    return reinterpret_cast<volatile std::uint64_t*>(of + line * hw::cache_line_bytes);
  }

  std::size_t stride_;
  std::size_t lines_;
  hw::page_run pages_;
};

/// What each engine does with a thread's requests: `get` and `set` are its ways. A get returns the buffer that has the value, or
/// null.
template <class Get, class Set>
void run_requests(request_feed& feed, const value_buffers& buffers, Get&& get, Set&& set) {
  for (request r; feed.next(r);) {
    const cache_key key = cache_key::of(r.number);
    if (r.sets) {
      feed.was_set(r.number, set(r.number, key));
    } else {
      std::byte* const value = get(key);
      if (value != nullptr) buffers.read_lines(value);
      feed.got(r.number, value);
    }
  }
}

/// Stores a thread's share of the items that `is_here` picks.
template <class Cache, class IsHere>
void fill(const cache_shape& shape, const thread_role& role, Cache& cache, request_feed& feed,
          std::byte* value, IsHere&& is_here) {
  std::uint64_t turn = 0;
  for (std::uint64_t number = 0; number < shape.items; ++number) {
    const cache_key key = cache_key::of(number);
    if (!is_here(key) || turn++ % role.members != role.rank) continue;
    feed.make_value(number, value);
    feed.was_set(number, cache.set(key, value));
  }
}

constexpr auto everywhere = [](const cache_key&) { return true; };

template <class Cache>
class shared_program final : public studied_cache {
 public:
  explicit shared_program(const cache_shape& shape)
      : shape_(shape), cache_(shape), buffers_(shape.roles.size()) {}

  void settle(unsigned thread, request_feed& feed) override {
    const value_buffers& mine = buffers_[thread].emplace(shape_.value_bytes, 2);
    fill(shape_, shape_.roles[thread], cache_, feed, mine[1], everywhere);
  }
  void operate(unsigned thread, request_feed& feed) override {
    const value_buffers& mine = *buffers_[thread];
    run_requests(
        feed, mine, [&](const cache_key& key) { return cache_.get(key, mine[0]) ? mine[0] : nullptr; },
        [&](std::uint64_t number, const cache_key& key) {
          feed.make_value(number, mine[1]);
          mine.write_lines(mine[1]);
          return cache_.set(key, mine[1]);
        });
    feed.ended();
  }
  bool find(std::uint64_t number, std::byte* to) override { return cache_.get(cache_key::of(number), to); }

 private:
  cache_shape shape_;
  Cache cache_;
  std::vector<std::optional<value_buffers>> buffers_;
};

class served_program final : public studied_cache {
  using cache = stock_cache<false>;

 public:
  explicit served_program(const cache_shape& shape)
      : shape_(shape),
        servers_(1, false),
        parts_(servers_, 1, by_key{}, shape),
        buffers_(shape.roles.size()) {}

  void settle(unsigned thread, request_feed& feed) override {
    const value_buffers& mine = buffers_[thread].emplace(shape_.value_bytes, 2);
    const thread_role& role = shape_.roles[thread];
    if (role.serves) fill(shape_, role, parts_[0], feed, mine[1], everywhere);
  }
  void operate(unsigned thread, request_feed& feed) override {
    if (shape_.roles[thread].serves) return serve_until_all_end(feed, [this] { return servers_.serve(0); });
    const value_buffers& mine = *buffers_[thread];
    run_requests(
        feed, mine,
        [&](const cache_key& key) {
          std::byte* const to = mine[0];
          return parts_.call(key, [key, to](cache& c) noexcept { return c.get(key, to); }) ? to : nullptr;
        },
        [&](std::uint64_t number, const cache_key& key) {
          const std::byte* const from = mine[1];
          feed.make_value(number, mine[1]);
          mine.write_lines(mine[1]);
          return parts_.call(key, [key, from](cache& c) noexcept { return c.set(key, from); });
        });
    feed.ended();
  }
  bool find(std::uint64_t number, std::byte* to) override { return parts_[0].get(cache_key::of(number), to); }

 private:
  cache_shape shape_;
  delegation::dedicated_servers servers_;
  delegation::served_partitions<cache, by_key> parts_;
  std::vector<std::optional<value_buffers>> buffers_;
};

/// How a thread of an engine with partitions gets.
enum class getting : std::uint8_t { by_message, here, here_after_own_sets };

template <class Cache, getting How>
class partitioned_program final : public studied_cache {
 public:
  explicit partitioned_program(const cache_shape& shape)
      : shape_(shape),
        runtime_(delegation::localities::in_turn(shape.partitions), options()),
        parts_(runtime_, shape.partitions, by_key{}, shape),
        buffers_(shape.roles.size()),
        sets_(shape.roles.size()) {}

  void settle(unsigned thread, request_feed& feed) override {
    const thread_role& role = shape_.roles[thread];
    runtime_.attach(role.home);
    const value_buffers& mine =
        buffers_[thread].emplace(shape_.value_bytes, (1 + std::size_t{set_buffers}) * parts_.count());
    sets_[thread].resize(parts_.count());
    fill(shape_, role, parts_[role.home], feed, mine[0],
         [&](const cache_key& key) { return parts_.index_of(key) == role.home; });
    make_rings(parts_);
  }

  void operate(unsigned thread, request_feed& feed) override {
    const value_buffers& mine = *buffers_[thread];
    unsigned gets = 0;
    run_requests(
        feed, mine,
        [&](const cache_key& key) {
          const unsigned its = parts_.index_of(key);
          // By message each partition has a buffer of its own: what one wrote there another would have to fetch.
          std::byte* const to = mine[How == getting::by_message ? its : 0];
          const auto operation = [key, to](Cache& c) noexcept { return c.get(key, to); };
          const auto done = [&] {
            if constexpr (How == getting::by_message) return parts_.call(key, operation);
            // What other localities have sent to this one.
            if (++gets % gets_between_polls == 0) runtime_.poll();
            if constexpr (How == getting::here) return operation(parts_[its]);
            return parts_.run_here(key, operation);
          };
          return done() ? to : nullptr;
        },
        [&](std::uint64_t number, const cache_key& key) {
          std::byte* const from = next_set_buffer(thread, parts_.index_of(key));
          feed.make_value(number, from);
          mine.write_lines(from);
          static_cast<void>(parts_.execute(key, [key, from](Cache& c) noexcept { return c.set(key, from); }));
          return true;
        });
    runtime_.barrier();
    feed.ended();
    serve_until_all_end(feed, [this] { return runtime_.poll(); });
  }
  bool find(std::uint64_t number, std::byte* to) override {
    const cache_key key = cache_key::of(number);
    return parts_[parts_.index_of(key)].get(key, to);
  }

 private:
  static constexpr unsigned ring_depth = 4;
  /// The thread may write to one buffer while sets from `ring_depth` others are on their way.
  static constexpr unsigned set_buffers = ring_depth + 1;
  static constexpr unsigned gets_between_polls = 16;

  static delegation::options options() {
    delegation::options o;
    o.ring_depth = ring_depth;
    return o;
  }
  /// The one whose set to this partition was answered first.
  std::byte* next_set_buffer(unsigned thread, unsigned partition) {
    const unsigned turn = sets_[thread][partition]++ % set_buffers;
    return (*buffers_[thread])[parts_.count() + std::size_t{partition} * set_buffers + turn];
  }

  cache_shape shape_;
  delegation::runtime runtime_;
  delegation::partitions<Cache, by_key> parts_;
  std::vector<std::optional<value_buffers>> buffers_;
  /// How many sets a thread has sent to a partition.
  std::vector<std::vector<unsigned>> sets_;
};

}  // namespace

std::unique_ptr<studied_cache> make_cache(const cache_shape& shape) {
  switch (shape.how) {
    case engine::stock:
      return std::make_unique<shared_program<stock_cache<true>>>(shape);
    case engine::ffwd:
      return std::make_unique<served_program>(shape);
    case engine::parsec:
      return std::make_unique<shared_program<parsec_cache>>(shape);
    case engine::dps:
      return std::make_unique<partitioned_program<stock_cache<true>, getting::by_message>>(shape);
    case engine::dps_parsec:
      return std::make_unique<partitioned_program<parsec_cache, getting::here>>(shape);
    case engine::dps_parsec_fenced:
      return std::make_unique<partitioned_program<parsec_cache, getting::here_after_own_sets>>(shape);
  }
  return nullptr;
}

}  // namespace espalier::app::caches
