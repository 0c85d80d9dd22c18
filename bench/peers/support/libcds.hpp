#pragma once

#include <cds/init.h>
#include <cds/threading/model.h>
#include <cds/urcu/general_buffered.h>
#include <cds/version.h>

#include <cstdint>
#include <optional>

#include "bench/peers/support/adapter.hpp"

// libcds: the process-wide state that its containers need, and common parts of their adapters.
//
// Reclamation is general_buffered RCU with the library's defaults. An erase that fills the buffer waits for all
// readers, so that updates block whatever the algorithm's progress guarantee. The guard is empty: the library enters a
// read-side section in each operation by itself, and its updates must not be called from within one.
//
// Chosen by trial, with about a million keys and two threads, as medians of interleaved runs. For the Ellen tree
// buffered RCU was 1.3 to 1.4 times as fast as dynamic hazard pointers in every mix; plain hazard pointers were no
// faster than those. For the skip list it was 1.1 to 1.4 times as fast as either where lookups or assignments dominate;
// with a quarter each of inserts and erases they were level within the spread. general_threaded RCU frees on a separate
// thread, so that a comparison per CPU second would miss that time. signal_buffered RCU, no faster beyond the spread,
// occupies a signal of the process.

namespace espalier::peers {

using libcds_rcu = cds::urcu::gc<cds::urcu::general_buffered<>>;

/// The library and its reclamation singleton, created at first use and destroyed with the process. A singleton does not
/// know threads that were attached before it existed, so both are created here, before any attachment.
class libcds_runtime {
 public:
  static void start() { static const libcds_runtime runtime; }

 private:
  libcds_runtime() = default;

  struct library {
    library() { cds::Initialize(); }
    ~library() { cds::Terminate(); }
    library(const library&) = delete;
    library& operator=(const library&) = delete;
  };

  library library_;
  libcds_rcu rcu_;
};

/// Attaches this thread to the library. Scopes may nest.
class libcds_thread_scope {
 public:
  libcds_thread_scope() {
    libcds_runtime::start();
    cds::threading::Manager::attachThread();
  }
  ~libcds_thread_scope() { cds::threading::Manager::detachThread(); }
  libcds_thread_scope(const libcds_thread_scope&) = delete;
  libcds_thread_scope& operator=(const libcds_thread_scope&) = delete;
};

/// A container of the library. Its construction and destruction need an attached thread too.
template <class Container>
class libcds_container {
 public:
  libcds_container() {
    const libcds_thread_scope attached;
    container_.emplace();
  }
  ~libcds_container() {
    const libcds_thread_scope attached;
    container_.reset();
  }
  libcds_container(const libcds_container&) = delete;
  libcds_container& operator=(const libcds_container&) = delete;

  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): holds a container from constructor to destructor
  Container* operator->() noexcept { return &*container_; }

 private:
  std::optional<Container> container_;
};

/// Adapts the maps with nodes that hold a pair of key and value. Description gives container and properties.
///
/// Present values are overwritten through find, for two reasons: the library's update allocates a node on every call,
/// and it publishes the node before the caller can set its value, so that readers could see a zero that no thread
/// wrote.
template <class Description>
class libcds_pairs {
 public:
  using thread_scope = libcds_thread_scope;
  static constexpr map_properties properties = Description::properties;

  [[nodiscard]] std::optional<std::uint64_t> find(std::uint64_t key) {
    std::optional<std::uint64_t> found;
    map_->find(key, [&](const auto& entry) { found = entry.second.read(); });
    return found;
  }

  [[nodiscard]] bool contains(std::uint64_t key) { return map_->contains(key); }

  bool insert(std::uint64_t key, std::uint64_t value) { return map_->insert(key, value); }

  bool insert_or_assign(std::uint64_t key, std::uint64_t value) {
    for (;;) {
      if (map_->find(key, [&](auto& entry) { entry.second.write(value); })) return false;
      if (insert(key, value)) return true;
    }
  }

  bool erase(std::uint64_t key) { return map_->erase(key); }

 private:
  libcds_container<typename Description::container> map_;
};

template <class Description>
using libcds_pair_map = peer_map<libcds_pairs<Description>>;

}  // namespace espalier::peers
