// Commands that change or erase a value: set and its kind, ms, incr, decr, ma, delete and md.

#include <array>

#include "espalier/memcached/execute.hpp"

namespace espalier::memcached {
namespace {

constexpr std::string_view no_memory = "SERVER_ERROR out of memory storing object";

}  // namespace

void calculation::set(std::uint64_t to) noexcept {
  number = to;
  length = static_cast<std::size_t>(put(digits.data(), number) - digits.data());
}

cache_change calculation::decide(const command& c, const cache_entry* now, bool matches) noexcept {
  const auto keep = [this](result because) {
    is = because;
    return cache_change{};
  };
  cache_change made{.what = cache_change::kind::store, .version = c.new_version};
  if (now == nullptr) {
    if (!c.has('N')) return keep(result::missing);
    is = result::made;
    end_before = cache_entry::never;
    set(c.initial);
    made.value_bytes = length;
    made.expires = end_by_flags(c, end_before, true);
    return made;
  }
  if (now->value.empty()) return keep(result::not_a_number);
  if (!matches) return keep(result::mismatch);
  std::uint64_t before = 0;
  if (!read_number(now->value.substr(0, now->value.find_last_not_of(' ') + 1), before))
    return keep(result::not_a_number);
  is = result::done;
  end_before = now->expires;
  set(!c.decreases ? before + c.delta : before < c.delta ? 0 : before - c.delta);
  made.value_bytes = length;
  made.flags = now->flags;
  made.expires = c.what == verb::meta_calculate ? end_by_flags(c, now->expires, false) : now->expires;
  made.stale = now->stale;
  made.claimed = now->claimed;
  return made;
}

/// What becomes of the entry, and of the reply.
cache_change executor::decide_store(const command& c, const cache_entry* now,
                                    store_result& r) const noexcept {
  cache_change made{kind::store, c.value.size(), c.flags, c.end, c.new_version};
  const auto keep = [&r](stored because) {
    r.is = because;
    return cache_change{};
  };
  r = {.size = c.value.size()};
  switch (c.mode) {
    case store_mode::set:
      break;
    case store_mode::add:
      if (now != nullptr) return keep(stored::not_stored);
      break;
    case store_mode::replace:
      if (now == nullptr) return keep(stored::not_stored);
      break;
    case store_mode::compare:
      if (now == nullptr) return keep(stored::not_found);
      if (matches(*now, c.version)) break;
      if (!c.has('I') || c.version == 0 || c.version > now->version) return keep(stored::exists);
      made.expires = now->expires;
      made.stale = true;
      made.claimed = now->claimed;
      break;
    case store_mode::append:
    case store_mode::prepend:
      if (now == nullptr) {
        if (!c.has('N')) return keep(stored::not_stored);
        made.expires = c.end_if_new;
        break;
      }
      if (c.has('C') && c.version != 0 && !matches(*now, c.version)) return keep(stored::exists);
      r.size = made.value_bytes = now->value.size() + c.value.size();
      made.flags = now->flags;
      made.expires = now->expires;
      break;
  }
  return made;
}

executor::store_result executor::store(const command& c) {
  store_result r;
  const auto decide = [&](const cache_entry* now) { return decide_store(c, now, r); };
  const auto fill = [&c](char* value, const cache_entry* now) {
    const bool joins = now != nullptr && (c.mode == store_mode::append || c.mode == store_mode::prepend);
    const std::string_view old = joins ? now->value : std::string_view();
    if (c.mode == store_mode::prepend)
      put(put(value, c.value), old);
    else
      put(put(value, old), c.value);
  };
  const cache_changed changed =
      turn_.value ? cache_.change(key_of(c), decide, turn_.value) : cache_.change(key_of(c), decide, fill);
  counters_.add(counted::set_commands);
  if (c.mode == store_mode::compare)
    counters_.add(r.is == stored::done        ? counted::cas_hits
                  : r.is == stored::not_found ? counted::cas_misses
                                              : counted::cas_mismatches);
  if (changed.outcome == cache_outcome::too_large) r.is = stored::not_stored;
  if (changed.outcome == cache_outcome::out_of_memory) r.is = no_room(c);
  if (r.is == stored::done) r.version = changed.version;
  if (service_.watched().wanted().has(event::mutation)) [[unlikely]] {
    static constexpr std::array<std::string_view, 5> statuses{"stored", "exists", "not_found", "not_stored",
                                                              "no_memory"};
    observe_store(c, statuses[static_cast<std::size_t>(r.is)], r.size);
  }
  return r;
}

void executor::observe_store(const command& c, std::string_view status, std::size_t value_bytes) {
  static constexpr std::array<std::string_view, 6> names{"set", "add", "replace", "append", "prepend", "cas"};
  service_.watched().stored({c.key, turn_.session, value_bytes}, status,
                            names[static_cast<std::size_t>(c.mode)], c.end);
}

executor::stored executor::no_room(const command& c) {
  counters_.add(counted::out_of_memory);
  if (c.what == verb::meta_store || c.mode == store_mode::set) drop(c);
  return stored::no_memory;
}

void executor::classic_store(const command& c) {
  static constexpr std::array<std::string_view, 5> replies{"STORED", "EXISTS", "NOT_FOUND", "NOT_STORED",
                                                           no_memory};
  reply(c, replies[static_cast<std::size_t>(store(c).is)]);
}

void executor::meta_store(const command& c) {
  static constexpr std::array<std::string_view, 5> replies{"HD", "EX", "NF", "NS", no_memory};
  const store_result r = store(c);
  if (r.is == stored::done && c.quiet) return;
  char* at = meta_room(c);
  if (at == nullptr) return;
  at = put(at, replies[static_cast<std::size_t>(r.is)]);
  constexpr std::uint64_t shown = command::bits("Okcs");
  if (r.is != stored::no_memory && (c.given & shown) != 0)
    at = put_flags(at, c, shown, {.value = {}, .version = r.version}, r.size, false);
  out_.wrote(put(at, "\r\n"));
}

calculation executor::calculate_by(const command& c) {
  using result = calculation::result;
  calculation r;
  const cache_changed changed = cache_.change(
      key_of(c),
      [&](const cache_entry* now) {
        const bool compares = now != nullptr && c.has('C') && c.version != 0;
        return r.decide(c, now, !compares || matches(*now, c.version));
      },
      [&](char* value, const cache_entry*) { put(value, r.text()); });
  r.version = changed.version;
  if (changed.outcome != cache_outcome::done) r.is = result::no_memory;
  if (r.is == result::done) counters_.add(c.decreases ? counted::decr_hits : counted::incr_hits);
  if (r.is == result::missing) counters_.add(c.decreases ? counted::decr_misses : counted::incr_misses);
  return r;
}

void executor::calculate(const command& c) {
  using result = calculation::result;
  const calculation r = calculate_by(c);
  const bool is_meta = c.what == verb::meta_calculate;
  const auto say = [&](std::string_view line) {
    if (is_meta || !c.quiet) out_ << line << "\r\n";
  };
  if (r.is == result::no_memory) return say("SERVER_ERROR out of memory");
  if (r.is == result::not_a_number)
    return say("CLIENT_ERROR cannot increment or decrement non-numeric value");
  const bool fails = r.is == result::missing || r.is == result::mismatch;
  if (!is_meta) return say(fails ? "NOT_FOUND" : r.text());
  if (fails) return put_status(c, r.is == result::missing ? "NF" : "EX");
  if (c.quiet) return;
  char* at = meta_room(c);
  if (at == nullptr) return;
  at = c.has('v') ? put(put(at, "VA "), r.length) : put(at, "HD");
  at = put_flags(at, c, command::bits("TNtcOk"), {.value = {}, .version = r.version, .expires = r.end_before},
                 0, r.is == result::made);
  at = put(at, "\r\n");
  if (c.has('v')) at = put(put(at, r.text()), "\r\n");
  out_.wrote(at);
}

/// A store that has no room for its value, of which the rest is skipped.
void executor::refuse_value(const command& c) {
  static_cast<void>(no_room(c));
  if (service_.watched().wanted().has(event::mutation)) observe_store(c, "no_memory", 0);
  if (c.what == verb::binary)
    reply_binary(c, binary_status::no_memory);
  else if (c.what == verb::meta_store)
    out_ << no_memory << "\r\n";
  else
    reply(c, no_memory);
}

void executor::erase(const command& c) {
  std::size_t bytes = 0;
  const cache_changed changed = cache_.change(
      key_of(c),
      [&bytes](const cache_entry* now) {
        if (now == nullptr) return cache_change{};
        bytes = now->value.size();
        return cache_change{.what = kind::erase};
      },
      fill_nothing);
  const bool hit = changed.what == kind::erase;
  if (hit && service_.watched().wanted().has(event::deletion))
    service_.watched().erased({c.key, turn_.session, bytes}, "delete");
  counters_.add(hit ? counted::delete_hits : counted::delete_misses);
  reply(c, hit ? "DELETED" : "NOT_FOUND");
}

/// As the flags of `md` say.
executor::erased executor::erase_by(const command& c) {
  bool found = false;
  bool mismatch = false;
  std::size_t bytes = 0;
  const cache_changed changed = cache_.change(
      key_of(c),
      [&](const cache_entry* now) {
        found = now != nullptr;
        mismatch = found && c.has('C') && !matches(*now, c.version);
        if (!found || mismatch) return cache_change{};
        bytes = now->value.size();
        const bool invalidates = c.has('I');
        if (!c.has('x') && !invalidates) return cache_change{.what = kind::erase};
        cache_change made{kind::store, 0, c.flags, c.end, c.new_version, invalidates};
        if (!invalidates && !c.has('E')) made.version = now->version;
        if (!c.has('x')) {
          made.value_bytes = now->value.size();
          made.flags = now->flags;
          if (!c.has('T')) made.expires = now->expires;
        }
        return made;
      },
      [&](char* value, const cache_entry* now) {
        if (!c.has('x')) put(value, now->value);
      });
  if (changed.outcome != cache_outcome::done) return erased::no_memory;
  if (!found || mismatch)
    counters_.add(counted::delete_misses);
  else if (!c.has('I'))
    counters_.add(counted::delete_hits);
  if (found && !mismatch && !c.has('I') && !c.has('x') && service_.watched().wanted().has(event::deletion))
    service_.watched().erased({c.key, turn_.session, bytes}, c.what == verb::binary ? "delete" : "md");
  return !found ? erased::not_found : mismatch ? erased::exists : erased::done;
}

void executor::meta_erase(const command& c) {
  switch (erase_by(c)) {
    case erased::done:
      if (!c.quiet) put_status(c, "HD");
      return;
    case erased::not_found:
      return put_status(c, "NF");
    case erased::exists:
      return put_status(c, "EX");
    case erased::no_memory:
      out_ << "SERVER_ERROR out of memory\r\n";
  }
}

/// What could not be stored leaves no older value.
void executor::drop(const command& c) {
  cache_.change(
      key_of(c), [](const cache_entry*) { return cache_change{.what = kind::erase}; }, fill_nothing);
}

}  // namespace espalier::memcached
