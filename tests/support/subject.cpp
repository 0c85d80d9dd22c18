#include "support/subject.hpp"

#include <optional>

namespace espalier::test {

template <class Call>
auto guarding_operations::guarded(Call call) {
  std::optional<decltype(call(of_.plain()))> result;
  of_.with_guard([&](operations& map) { result = call(map); });
  return *result;
}

std::optional<value> guarding_operations::find(key k) {
  return guarded([&](operations& map) { return map.find(k); });
}
bool guarding_operations::contains(key k) {
  return guarded([&](operations& map) { return map.contains(k); });
}
std::size_t guarding_operations::find_batch(std::span<const key> keys,
                                            std::span<std::optional<value>> results) {
  return guarded([&](operations& map) { return map.find_batch(keys, results); });
}
std::optional<entry_pair> guarding_operations::lower_bound(key k) {
  return guarded([&](operations& map) { return map.lower_bound(k); });
}
std::optional<entry_pair> guarding_operations::first() {
  return guarded([&](operations& map) { return map.first(); });
}
bool guarding_operations::insert(key k, value v) {
  return guarded([&](operations& map) { return map.insert(k, v); });
}
bool guarding_operations::try_emplace(key k, value v) {
  return guarded([&](operations& map) { return map.try_emplace(k, v); });
}
bool guarding_operations::insert_or_assign(key k, value v) {
  return guarded([&](operations& map) { return map.insert_or_assign(k, v); });
}
bool guarding_operations::erase(key k) {
  return guarded([&](operations& map) { return map.erase(k); });
}
std::size_t guarding_operations::scan(key from, function_ref<bool(key, value)> visit) {
  return guarded([&](operations& map) { return map.scan(from, visit); });
}
std::size_t guarding_operations::scan(key from, key to, function_ref<bool(key, value)> visit) {
  return guarded([&](operations& map) { return map.scan(from, to, visit); });
}
std::size_t guarding_operations::scan_to_end(key from, function_ref<void(key, value)> visit) {
  return guarded([&](operations& map) { return map.scan_to_end(from, visit); });
}
std::size_t guarding_operations::size() {
  return guarded([&](operations& map) { return map.size(); });
}
bool guarding_operations::empty() {
  return guarded([&](operations& map) { return map.empty(); });
}
std::optional<value> guarding_operations::exchange(key k, value v) {
  return guarded([&](operations& map) { return map.exchange(k, v); });
}
std::optional<value> guarding_operations::extract(key k) {
  return guarded([&](operations& map) { return map.extract(k); });
}
std::optional<value> guarding_operations::update(key k,
                                                 function_ref<std::optional<value>(std::optional<value>)> f) {
  return guarded([&](operations& map) { return map.update(k, f); });
}
void guarding_operations::for_each(function_ref<bool(key, value)> visit) {
  of_.with_guard([&](operations& map) { map.for_each(visit); });
}
void guarding_operations::clear() {
  of_.with_guard([](operations& map) { map.clear(); });
}
bool guarding_operations::exchanges() const {
  bool result = false;
  of_.with_guard([&](operations& map) { result = map.exchanges(); });
  return result;
}

}  // namespace espalier::test
