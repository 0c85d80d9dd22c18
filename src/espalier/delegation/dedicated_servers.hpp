#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/delegation/message.hpp"
#include "espalier/delegation/partitions.hpp"
#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pause.hpp"
#include "espalier/sync/per_thread.hpp"

// Delegation to threads that do nothing else (Roghanchi, Eriksson and Basu, "ffwd: delegation is (much) faster than you
// think", SOSP 2017), the baseline of delegation/partitions.hpp under the same interface. A structure belongs to one server,
// so its operations need no lock, and run one after the other.
//
// Each client has a line for its request at each server. Fifteen clients share a block of two lines with their results: a
// server runs the requests of all fifteen that have one, writes their results, and then publishes all at once in a word with a
// bit for each client. It writes no request. So fifteen requests are 46 transfers where results are empty: 15 requests
// written, 15 read, 15 times the word read, one write of the word.
//
// Deviations: what does not fit a request or a result lies with the client, to which the request points; waiting clients yield
// their processor after a while; exceptions are results.
//
// Orderings
//   (1) request (release) -> is_new (acquire): the server sees the operation.
//   (2) publish (release) -> is_done (acquire): the client sees its result.
//   (3) add_client (release) -> client_count (acquire): the server sees the lines of a client that it counts.

namespace espalier::delegation {

inline constexpr unsigned clients_in_group = 15;

class dedicated_servers {
 public:
  /// Starts a thread for each server unless the program runs them itself (serve()). Throws std::invalid_argument for 0
  /// servers, and std::system_error if a thread cannot be made; those that could be made have ended then.
  explicit dedicated_servers(unsigned servers, bool start_threads = true);
  dedicated_servers(const dedicated_servers&) = delete;
  dedicated_servers& operator=(const dedicated_servers&) = delete;
  /// No client may wait.
  ~dedicated_servers();

  [[nodiscard]] unsigned count() const noexcept { return static_cast<unsigned>(servers_.size()); }

  /// One round of a server over all clients. Returns how many requests it ran.
  unsigned serve(unsigned which);

  // For served_partitions.

  /// What a request runs; the result is a word.
  using function = std::uint64_t (*)(const std::byte* arguments, void* target) noexcept;

  /// Runs it at the server and waits. The calling thread is a client from then on. Throws std::bad_alloc before that.
  template <class Arguments>
  std::uint64_t run(unsigned which, function what, void* target, const Arguments& arguments) {
    static_assert(sizeof(Arguments) <= argument_bytes && std::is_trivially_copyable_v<Arguments>);
    client& me = clients_.local();
    if (!me.known) [[unlikely]]
      add_client(me);
    group& mine = *servers_[which]->groups[me.index / clients_in_group];
    const unsigned place = me.index % clients_in_group;
    request_line& request = mine.requests[place];
    request.run = what;
    request.target = target;
    std::memcpy(request.arguments.data(), &arguments, sizeof arguments);
    // relaxed: only this client writes it.
    const std::uint32_t turn = request.turn.load(std::memory_order_relaxed) ^ 1U;
    request.turn.store(turn, std::memory_order_release);  // order (1): request, release
    // order (2): is_done, acquire
    for (unsigned looks = 0; (mine.done.load(std::memory_order_acquire) >> place & 1U) != turn; ++looks)
      looks < looks_before_yield ? hw::cpu_relax() : hw::park();
    return mine.results[place];
  }

 private:
  static constexpr unsigned looks_before_yield = 512;

  struct alignas(hw::cache_line_bytes) request_line {
    std::atomic<std::uint32_t> turn{0};
    function run = nullptr;
    void* target = nullptr;
    std::array<std::byte, argument_bytes> arguments{};
  };
  static_assert(sizeof(request_line) == hw::cache_line_bytes, "a request is one cache line");

  struct group {
    /// Two lines, the server's. A bit for each client: it equals the client's turn once its request is done.
    alignas(hw::false_sharing_bytes) std::atomic<std::uint64_t> done{0};
    std::array<std::uint64_t, clients_in_group> results{};
    std::array<request_line, clients_in_group> requests;
  };

  struct server {
    std::array<std::unique_ptr<group>, (hw::max_thread_slots + clients_in_group) / clients_in_group> groups;
  };

  struct client {
    bool known = false;
    unsigned index = 0;
  };

  void add_client(client& me);
  void serve_until_stopped(unsigned which);
  void stop() noexcept;

  per_thread<client> clients_;
  std::mutex lock_;
  std::atomic<unsigned> client_count_{0};
  std::vector<std::unique_ptr<server>> servers_;
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

/// A structure in partitions, each of one server: that of partition i is i modulo their number.
template <class Structure, class Route = by_hash>
class served_partitions {
 public:
  template <class... Arguments>
  served_partitions(dedicated_servers& of, unsigned count, Route route = {}, const Arguments&... arguments)
      : servers_(of), route_(std::move(route)) {
    if (count == 0) throw std::invalid_argument("delegation: there must be at least one partition");
    for (unsigned i = 0; i < count; ++i)
      each_.push_back(
          std::make_unique<hw::padded<Structure>>(hw::padded<Structure>{Structure(arguments...)}));
  }

  [[nodiscard]] unsigned count() const noexcept { return static_cast<unsigned>(each_.size()); }
  [[nodiscard]] Structure& operator[](unsigned index) const noexcept { return each_[index]->value; }

  /// As partitions::call. Not from inside an operation: a server waits for no other one.
  template <class Key, class Operation>
  auto call(const Key& key, Operation&& operation) {
    return call_at(route_.partition(key, count()), std::forward<Operation>(operation));
  }
  /// Throws std::out_of_range for a partition that there is not.
  template <class Operation>
  auto call_at(unsigned index, Operation&& operation) {
    using operation_type = std::decay_t<Operation>;
    using result = std::invoke_result_t<operation_type&, Structure&>;
    if (index >= count()) [[unlikely]]
      detail::refuse_partition(index, count());
    Structure& there = each_[index]->value;
    const unsigned server = index % servers_.count();
    if constexpr (travels<operation_type, result>) {
      const std::uint64_t word = servers_.run(
          server,
          [](const std::byte* arguments, void* target) noexcept -> std::uint64_t {
            alignas(operation_type) std::array<std::byte, sizeof(operation_type)> copy;
            std::memcpy(copy.data(), arguments, sizeof copy);
            auto& mine = *std::launder(reinterpret_cast<operation_type*>(copy.data()));
            std::uint64_t word_of_result = 0;
            if constexpr (std::is_void_v<result>) {
              mine(*static_cast<Structure*>(target));
            } else {
              const result r = mine(*static_cast<Structure*>(target));
              std::memcpy(&word_of_result, &r, sizeof r);
            }
            return word_of_result;
          },
          &there, operation);
      if constexpr (!std::is_void_v<result>) {
        result r;
        std::memcpy(&r, &word, sizeof r);
        return r;
      }
    } else {
      // The operation and its result stay with the client, which waits.
      struct frame {
        std::remove_reference_t<Operation>& operation;
        std::optional<outcome<result>> answer;
      };
      frame mine{operation, std::nullopt};
      frame* const here = &mine;
      servers_.run(
          server,
          [](const std::byte* arguments, void* target) noexcept -> std::uint64_t {
            frame* of_client = nullptr;
            std::memcpy(&of_client, arguments, sizeof of_client);
            of_client->answer.emplace(run_on(*static_cast<Structure*>(target), of_client->operation));
            return 0;
          },
          &there, here);
      return mine.answer->get();
    }
  }

 private:
  template <class Result>
  static constexpr bool is_word =
      std::is_trivially_copyable_v<Result> && sizeof(Result) <= sizeof(std::uint64_t) &&
      std::is_default_constructible_v<Result>;
  template <class Operation, class Result>
  static constexpr bool travels = [] {
    if constexpr (!std::is_trivially_copyable_v<Operation> || sizeof(Operation) > argument_bytes ||
                  !std::is_nothrow_invocable_v<Operation&, Structure&>)
      return false;
    else if constexpr (std::is_void_v<Result>)
      return true;
    else
      return is_word<Result>;
  }();

  dedicated_servers& servers_;
  Route route_;
  std::vector<std::unique_ptr<hw::padded<Structure>>> each_;
};

}  // namespace espalier::delegation
