#include "support/subject.hpp"

#include <vector>

namespace espalier::test {
namespace {

class mirrored_operations final : public operations {
 public:
  mirrored_operations(operations& of, key largest) noexcept : of_(of), largest_(largest) {}

  std::optional<value> find(key k) override { return of_.find(largest_ - k); }
  bool contains(key k) override { return of_.contains(largest_ - k); }
  std::size_t find_batch(std::span<const key> keys, std::span<std::optional<value>> results) override {
    std::vector<key> of_map;
    for (const key k : keys) of_map.push_back(largest_ - k);
    return of_.find_batch(of_map, results);
  }
  std::optional<entry_pair> lower_bound(key k) override {
    std::optional<entry_pair> found;
    of_.reverse_scan(largest_ - k, [&](key seen, value v) { return found.emplace(seen, v), false; });
    return seen_in_mirror(found);
  }
  std::optional<entry_pair> first() override { return seen_in_mirror(of_.last()); }
  bool insert(key k, value v) override { return of_.insert(largest_ - k, v); }
  bool try_emplace(key k, value v) override { return of_.try_emplace(largest_ - k, v); }
  bool insert_or_assign(key k, value v) override { return of_.insert_or_assign(largest_ - k, v); }
  bool erase(key k) override { return of_.erase(largest_ - k); }
  std::size_t scan(key from, function_ref<bool(key, value)> visit) override {
    return of_.reverse_scan(largest_ - from, [&](key k, value v) { return visit(largest_ - k, v); });
  }
  std::size_t scan(key from, key to, function_ref<bool(key, value)> visit) override {
    return of_.reverse_scan(largest_ - from, largest_ - to,
                            [&](key k, value v) { return visit(largest_ - k, v); });
  }
  std::size_t scan_to_end(key from, function_ref<void(key, value)> visit) override {
    return scan(from, [&](key k, value v) { return visit(k, v), true; });
  }
  /// There is no range in reverse.
  void for_each(function_ref<bool(key, value)> visit) override { scan(0, visit); }
  std::size_t size() override { return of_.size(); }
  bool empty() override { return of_.empty(); }
  void clear() override { of_.clear(); }

  [[nodiscard]] const map_properties& properties() const override { return of_.properties(); }
  std::optional<entry_pair> last() override { return seen_in_mirror(of_.first()); }
  std::size_t reverse_scan(key from, function_ref<bool(key, value)> visit) override {
    return of_.scan(largest_ - from, [&](key k, value v) { return visit(largest_ - k, v); });
  }
  std::size_t reverse_scan(key from, key to, function_ref<bool(key, value)> visit) override {
    return of_.scan(largest_ - from, largest_ - to, [&](key k, value v) { return visit(largest_ - k, v); });
  }
  std::optional<value> exchange(key k, value v) override { return of_.exchange(largest_ - k, v); }
  std::optional<value> extract(key k) override { return of_.extract(largest_ - k); }
  std::optional<value> update(key k, function_ref<std::optional<value>(std::optional<value>)> f) override {
    return of_.update(largest_ - k, f);
  }

 private:
  [[nodiscard]] std::optional<entry_pair> seen_in_mirror(std::optional<entry_pair> e) const {
    if (e) e->first = largest_ - e->first;
    return e;
  }

  operations& of_;
  key largest_;
};

class mirrored_position final : public position {
 public:
  mirrored_position(position& of, key largest) noexcept : of_(of), largest_(largest) {}

  void seek(key k) override {
    of_.seek(largest_ - k);
    const auto at = of_.entry();
    if (!at)
      of_.seek_last();
    else if (at->first != largest_ - k)
      of_.previous();
  }
  void seek_first() override { of_.seek_last(); }
  void next() override { of_.previous(); }
  std::optional<entry_pair> entry() override {
    auto at = of_.entry();
    if (at) at->first = largest_ - at->first;
    return at;
  }
  void seek_last() override { of_.seek_first(); }
  void previous() override { of_.next(); }

 private:
  position& of_;
  key largest_;
};

class mirrored_subject final : public subject {
 public:
  mirrored_subject(std::unique_ptr<subject> of, key largest)
      : of_(std::move(of)), largest_(largest), plain_(of_->plain(), largest) {}

  operations& plain() override { return plain_; }
  void with_guard(function_ref<void(operations&)> body) override {
    of_->with_guard([&](operations& map) {
      mirrored_operations guarded(map, largest_);
      body(guarded);
    });
  }
  void with_cursor(function_ref<void(position&)> body) override {
    of_->with_cursor([&](position& of) {
      mirrored_position at(of, largest_);
      body(at);
    });
  }
  /// There is no range in reverse.
  void for_each_in(key from, std::optional<key> to, function_ref<void(key, value)> visit) override {
    const auto visit_all = [&](key k, value v) { return visit(k, v), true; };
    if (to)
      plain_.scan(from, *to, visit_all);
    else
      plain_.scan(from, visit_all);
  }
  void bulk_load(std::span<const entry_pair> entries, unsigned threads) override {
    std::vector<entry_pair> of_map(entries.rbegin(), entries.rend());
    for (auto& [k, v] : of_map) k = largest_ - k;
    of_->bulk_load(of_map, threads);
  }
  void visit_blocks(function_ref<void(const void*, std::size_t, memory_role)> visit) override {
    of_->visit_blocks(visit);
  }
  const char* check_invariants() override { return of_->check_invariants(); }
  memory_usage usage() override { return of_->usage(); }
  std::size_t collect() override { return of_->collect(); }
  std::string reclaimer_state() override { return of_->reclaimer_state(); }
  std::optional<reclaimer_figures> reclaimed() override { return of_->reclaimed(); }

 private:
  std::unique_ptr<subject> of_;
  key largest_;
  mirrored_operations plain_;
};

}  // namespace

subject_type mirrored(subject_type type) {
  type.name += mirrored_suffix;
  type.codec = mirrored_suffix;
  type.make = [make = type.make, largest = type.largest_key](const std::shared_ptr<void>& domain) {
    return std::make_unique<mirrored_subject>(make(domain), largest);
  };
  return type;
}

}  // namespace espalier::test
