#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "espalier/hw/cache_line.hpp"

// A delegated operation in one cache line (Ren and Parmer, "Scalable Data-structures with Hierarchical, Distributed
// Delegation", Middleware 2019, section 4.2). The sender writes what to run and sets the toggle; the server runs it, leaves
// the result over the arguments and clears the toggle. So one operation is four transfers of one line: it is written by the
// sender, read by the server, written by the server and read by the sender.
//
// Orderings
//   (1) post (release) -> is_posted (acquire): the server sees the operation and its arguments.
//   (2) answer (release) -> is_posted (acquire): the sender sees the result, and writes the next operation over it.

namespace espalier::delegation {

/// Bytes for an operation's arguments, and then for its result.
inline constexpr std::size_t argument_bytes = 40;

class alignas(hw::cache_line_bytes) message {
 public:
  /// Runs the operation, and replaces the arguments by the result. It does not throw: an exception is a result.
  using function = void (*)(message&) noexcept;

  // Sender.

  /// The arguments must be in place.
  void post(function what, void* on, unsigned deep) noexcept {
    run_ = what;
    target_ = on;
    depth_ = static_cast<std::uint16_t>(deep);
    posted_.store(1, std::memory_order_release);  // order (1): post, release
  }

  // Both.

  [[nodiscard]] bool is_posted() const noexcept {
    return posted_.load(std::memory_order_acquire) != 0;  // order (1), (2): is_posted, acquire
  }
  /// A hint, for which no order is needed.
  [[nodiscard]] bool looks_posted() const noexcept {
    return posted_.load(std::memory_order_relaxed) != 0;  // relaxed: is_posted() confirms it
  }

  // Server.

  /// How many operations led to this one, each waiting for the next; 1 for one of a thread itself.
  [[nodiscard]] unsigned depth() const noexcept { return depth_; }
  [[nodiscard]] void* target() const noexcept { return target_; }
  void run() noexcept { run_(*this); }
  void answer() noexcept { posted_.store(0, std::memory_order_release); }  // order (2): answer, release

  // The arguments or the result: an object of a type that fits().

  template <class T>
  static constexpr bool fits =
      sizeof(T) <= argument_bytes && alignof(T) <= alignof(void*) && std::is_nothrow_move_constructible_v<T>;

  template <class T, class... Arguments>
  void put(Arguments&&... arguments) {
    static_assert(fits<T>);
    ::new (static_cast<void*>(bytes_.data())) T(std::forward<Arguments>(arguments)...);
  }
  /// Moves the object out, and destroys what is left of it.
  template <class T>
  [[nodiscard]] T take() noexcept {
    T* const object = std::launder(reinterpret_cast<T*>(bytes_.data()));
    T taken(std::move(*object));
    std::destroy_at(object);
    return taken;
  }
  void put_exception(std::exception_ptr thrown) noexcept {
    put<std::exception_ptr>(std::move(thrown));
    threw_ = true;
  }
  /// The exception that is the result; null if the operation returned.
  [[nodiscard]] std::exception_ptr take_exception() noexcept {
    if (!threw_) return nullptr;
    threw_ = false;
    return take<std::exception_ptr>();
  }

 private:
  std::atomic<std::uint32_t> posted_{0};
  std::uint16_t depth_ = 0;
  bool threw_ = false;
  function run_ = nullptr;
  void* target_ = nullptr;
  alignas(void*) std::array<std::byte, argument_bytes> bytes_;
};

static_assert(sizeof(message) == hw::cache_line_bytes && alignof(message) == hw::cache_line_bytes,
              "a message is one cache line");

/// What an operation returned, or the exception that it threw.
template <class Result>
class outcome {
  struct nothing {};

 public:
  using stored = std::conditional_t<std::is_void_v<Result>, nothing, Result>;

  explicit outcome(stored result) noexcept : result_(std::move(result)) {}
  explicit outcome(std::exception_ptr thrown) noexcept : thrown_(std::move(thrown)) {}

  [[nodiscard]] bool threw() const noexcept { return thrown_ != nullptr; }
  /// Moves the result out. Throws what the operation threw.
  Result get() {
    if (thrown_) std::rethrow_exception(std::move(thrown_));
    if constexpr (!std::is_void_v<Result>) return std::move(*result_);
  }

 private:
  std::optional<stored> result_;
  std::exception_ptr thrown_;
};

namespace detail {

/// The operation's result, as an outcome stores it.
template <class Structure, class Operation>
auto stored_result(Structure& structure, Operation& operation) {
  using result = std::invoke_result_t<Operation&, Structure&>;
  if constexpr (std::is_void_v<result>) {
    operation(structure);
    return typename outcome<result>::stored{};
  } else {
    return operation(structure);
  }
}

}  // namespace detail

/// An operation on the structure of a Partition as the contents of a message. The operation and its result travel in the
/// line where they fit; otherwise both lie in a block of the sender, to which the line points.
template <class Partition, class Operation>
class call {
  using Structure = typename Partition::structure_type;

 public:
  using result = std::invoke_result_t<Operation&, Structure&>;
  using stored = typename outcome<result>::stored;
  static_assert(
      !std::is_reference_v<result>,
      "an operation of another locality returns a value: what a reference leads to may be gone when it "
      "is looked at; return a copy or a pointer");
  static_assert(std::is_nothrow_move_constructible_v<stored> && std::is_nothrow_destructible_v<stored>,
                "the result of an operation travels between threads: it must move without an exception");

  static constexpr bool in_line = message::fits<Operation> && message::fits<stored>;

  /// Throws std::bad_alloc where the operation needs a block, and what a copy of the operation throws.
  template <class Source>
  static void write(message& to, Source&& operation) {
    if constexpr (in_line)
      to.put<Operation>(std::forward<Source>(operation));
    else
      to.put<block*>(new block(std::forward<Source>(operation)));
  }

  static void run(message& m) noexcept {
    Structure& structure = static_cast<Partition*>(m.target())->structure;
    if constexpr (in_line) {
      Operation operation = m.take<Operation>();
      try {
        m.put<stored>(detail::stored_result(structure, operation));
      } catch (...) {
        m.put_exception(std::current_exception());
      }
    } else {
      auto* const b = m.take<block*>();
      try {
        b->result.emplace(detail::stored_result(structure, *b->operation));
        b->operation.reset();  // as above: its destructor runs here
        m.put<block*>(b);
      } catch (...) {
        delete b;
        m.put_exception(std::current_exception());
      }
    }
  }

  /// By the sender, once.
  [[nodiscard]] static outcome<result> take(message& m) noexcept {
    if (std::exception_ptr thrown = m.take_exception()) return outcome<result>(std::move(thrown));
    if constexpr (in_line) {
      return outcome<result>(m.take<stored>());
    } else {
      const std::unique_ptr<block> b(m.take<block*>());
      return outcome<result>(std::move(*b->result));
    }
  }

 private:
  struct block {
    template <class Source>
    explicit block(Source&& from) : operation(std::forward<Source>(from)) {}
    std::optional<Operation> operation;
    std::optional<stored> result;
  };
};

/// The same operation, run by the calling thread.
template <class Structure, class Operation>
[[nodiscard]] auto run_on(Structure& structure, Operation& operation) noexcept {
  using result = std::invoke_result_t<Operation&, Structure&>;
  try {
    return outcome<result>(detail::stored_result(structure, operation));
  } catch (...) {
    return outcome<result>(std::current_exception());
  }
}

}  // namespace espalier::delegation
