#include "apps/studies/transactions/program.hpp"

#include <atomic>
#include <vector>

#include "apps/studies/plain_elision.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/hw/record.hpp"
#include "espalier/sync/ttas_lock.hpp"
#include "sim/transactions/simulated_htm.hpp"

namespace espalier::simulate {
namespace {

using htm = sim::simulated_htm;
using hw::abort_code;
using hw::transaction_verdict;

class counter final : public transactional_program {
 public:
  counter() { hw::annotate_record(value_.value); }

  bool operate(std::uint64_t) override {
    const bool locked = elide_plainly(fallback_.value, [this]() noexcept { ++value_.value; });
    operations_.value.fetch_add(1, std::memory_order_relaxed);
    return locked;
  }
  [[nodiscard]] std::uint64_t expected() const override { return operations_.value.load(); }
  [[nodiscard]] std::uint64_t found() const override { return value_.value; }

 private:
  hw::padded<ttas_lock> fallback_;
  hw::padded<std::uint64_t> value_{};
  hw::padded<std::atomic<std::uint64_t>> operations_{};
};

class list final : public transactional_program {
 public:
  explicit list(std::uint64_t keys) : nodes_(keys) {
    for (std::uint64_t k = 0; k < keys; ++k) {
      nodes_[k].key = k;
      hw::annotate_record(nodes_[k]);
    }
    hw::annotate_metadata(static_cast<const void*>(&head_.value), sizeof(void*));
    for (std::uint64_t k = keys; k-- > 0;) {
      if (k % 2 != 0) continue;
      nodes_[k].next = head_.value;
      nodes_[k].linked = true;
      head_.value = &nodes_[k];
      ++balance_.value;
    }
  }

  bool operate(std::uint64_t random) override {
    const std::uint64_t key = random / 4 % nodes_.size();
    std::int64_t change = 0;
    const bool locked = elide_plainly(fallback_.value, [&]() noexcept {
      change = 0;
      node** at = &head_.value;
      while (*at != nullptr && (*at)->key < key) at = &(*at)->next;
      node& mine = nodes_[key];
      const bool present = *at == &mine;
      if (random % 4 == 0 && !present) {
        mine.next = *at;
        mine.linked = true;
        *at = &mine;
        change = 1;
      } else if (random % 4 == 1 && present) {
        *at = mine.next;
        mine.linked = false;
        change = -1;
      }
    });
    if (change != 0) balance_.value.fetch_add(change, std::memory_order_relaxed);
    return locked;
  }

  [[nodiscard]] std::uint64_t expected() const override {
    return static_cast<std::uint64_t>(balance_.value.load());
  }
  /// The number of nodes in the list. 0 unless the list is in order and consists of the nodes marked as linked.
  [[nodiscard]] std::uint64_t found() const override {
    std::uint64_t length = 0;
    std::uint64_t linked = 0;
    for (const node* n = head_.value; n != nullptr; n = n->next) {
      if (!n->linked || (n->next != nullptr && n->next->key <= n->key)) return 0;
      ++length;
    }
    for (const node& n : nodes_) linked += n.linked ? 1 : 0;
    return linked == length ? length : 0;
  }

 private:
  struct alignas(32) node {
    std::uint64_t key = 0;
    node* next = nullptr;
    bool linked = false;
  };

  hw::padded<ttas_lock> fallback_;
  hw::padded<node*> head_{};
  hw::padded<std::atomic<std::int64_t>> balance_{};
  std::vector<node> nodes_;
};

class lines final : public transactional_lines {
 public:
  explicit lines(std::uint64_t most) : most_(most), memory_(hw::map_pages(most * hw::cache_line_bytes)) {
    // A transaction maps no page, so all pages are touched before.
    for (std::uint64_t i = 0; i < most_; ++i) at(i) = 0;
  }

  hw::transaction_outcome write(std::uint64_t count, std::uint64_t stride) override {
    const hw::transaction_outcome outcome = htm::run([&]() noexcept {
      // Kept in registers: a line that the loop read repeatedly would occupy a way in its set.
      std::byte* const begin = memory_.data();
      const std::uint64_t step = stride * hw::cache_line_bytes;
      const std::uint64_t n = count;
      for (std::uint64_t i = 0; i < n; ++i) *reinterpret_cast<std::uint64_t*>(begin + i * step) = i + 1;
    });
    if (outcome.committed) {
      for (std::uint64_t i = 0; i < count; ++i) at(i * stride) = 0;
    }
    return outcome;
  }
  hw::transaction_outcome read(std::uint64_t count) override {
    return htm::run([&]() noexcept {
      for (std::uint64_t i = 0; i < count; ++i) {
        if (at(i) != 0) return transaction_verdict::abort(abort_code::validation);
      }
      return transaction_verdict::commit();
    });
  }
  [[nodiscard]] bool is_untouched() const override {
    for (std::uint64_t i = 0; i < most_; ++i) {
      if (at(i) != 0) return false;
    }
    return true;
  }

 private:
  [[nodiscard]] std::uint64_t& at(std::uint64_t line) const {
    return *reinterpret_cast<std::uint64_t*>(memory_.data() + line * hw::cache_line_bytes);
  }

  std::uint64_t most_;
  hw::page_run memory_;
};

}  // namespace

std::unique_ptr<transactional_program> make_transactional_counter() { return std::make_unique<counter>(); }
std::unique_ptr<transactional_program> make_transactional_list(std::uint64_t keys) {
  return std::make_unique<list>(keys);
}
std::unique_ptr<transactional_lines> make_transactional_lines(std::uint64_t most_lines) {
  return std::make_unique<lines>(most_lines);
}

}  // namespace espalier::simulate
