#pragma once

#include <cstddef>
#include <cstdint>

#include "espalier/reclaim/reclaimer_concept.hpp"

namespace espalier {

/// The guard of a domain whose threads have records with a retired_list. The domain makes it a friend, and provides
///   record              of a thread: depth, the number of its guards, and waiting, the list
///   enter(record)       what a first pin does; also of a thread that needs nothing any more of what it has reached
///   leave(record)       static: the end of a guard
///   stamp_of(record)    static: the stamp of what is retired now
///   collect_some(record)   after a bag was sealed
///   records_            those of all threads
template <class Domain>
class [[nodiscard]] domain_guard {
  using record = typename Domain::record;

 public:
  domain_guard(domain_guard&& other) noexcept : domain_(other.domain_), record_(other.record_) {
    other.record_ = nullptr;
  }
  domain_guard& operator=(domain_guard&& other) noexcept {
    if (this != &other) {
      release();
      domain_ = other.domain_;
      record_ = other.record_;
      other.record_ = nullptr;
    }
    return *this;
  }
  domain_guard(const domain_guard&) = delete;
  domain_guard& operator=(const domain_guard&) = delete;
  [[gnu::always_inline]] ~domain_guard() { release(); }

  [[nodiscard]] bool protects(const Domain& domain) const noexcept {
    return record_ != nullptr && domain_ == &domain && record_ == domain.records_.if_made();
  }
  void renew() noexcept {
    if (record_->depth == 1) domain_->enter(*record_);
  }
  /// Room for n retirements, whatever n is. It stays reserved if they do not come. Throws std::bad_alloc.
  void reserve(std::size_t n) {
    if (record_->waiting.reserve(n)) [[unlikely]]
      domain_->collect_some(*record_);
  }
  /// `bytes`: what its reclamation frees, about.
  void retire(const retired& entry, std::size_t bytes = 0) noexcept {
    const std::uint64_t stamp = Domain::stamp_of(*record_);
    if (record_->waiting.retire(entry, bytes, stamp)) domain_->collect_some(*record_);
  }

 private:
  friend Domain;
  domain_guard(Domain& domain, record& r) noexcept : domain_(&domain), record_(&r) {}
  [[gnu::always_inline]] void release() noexcept {
    if (record_ != nullptr) Domain::leave(*record_);
  }

  Domain* domain_;
  record* record_;
};

}  // namespace espalier
