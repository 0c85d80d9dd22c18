#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "espalier/delegation/message.hpp"
#include "espalier/delegation/runtime.hpp"

// The results of operations that a thread has submitted and not awaited (partitions::execute).

namespace espalier::delegation {

namespace detail {

/// A reply that keeps the result.
template <class Result>
class reply_of : public reply {
 public:
  /// The operation was postponed, and has now run in the calling thread.
  void arrive(member& me, outcome<Result> done) noexcept {
    later_ = nullptr;
    done_.emplace(std::move(done));
    if (then_ != nullptr) runtime::postpone(me, *then_, me.depth);
  }

 protected:
  using taker = outcome<Result> (*)(message&) noexcept;

  explicit reply_of(taker take) noexcept : take_(take) {}
  reply_of(reply_of&&) noexcept = default;
  void deliver(message& answered) noexcept final { done_.emplace(take_(answered)); }

  taker take_;
  std::optional<outcome<Result>> done_;
};

}  // namespace detail

/// The result of an operation that may not have run yet. It belongs to the thread that submitted the operation, and may not
/// outlive the runtime. A completion that is destroyed early discards the result, not the operation.
template <class Result>
class [[nodiscard]] completion final : private detail::reply_of<Result> {
  using base = detail::reply_of<Result>;
  using base::by_, base::done_, base::later_, base::turn_;

 public:
  completion(completion&& other) noexcept
      : base(std::move(other)), runtime_(other.runtime_), is_taken_(std::exchange(other.is_taken_, true)) {}
  completion& operator=(completion&&) = delete;
  ~completion() override = default;

  /// Whether await() would return at once. A loop of is_ready() ends: the calling thread runs an operation that stays
  /// unserved. Throws nesting_error as await() does if the operation is postponed.
  [[nodiscard]] bool is_ready() {
    if (by_ != nullptr)
      runtime_->look_for_answers(runtime_->local(), *by_);
    else if (later_ != nullptr) [[unlikely]]
      runtime_->await_postponed(runtime_->local());
    return done_.has_value();
  }
  /// Waits, and serves meanwhile. Returns the result or throws what the operation threw. Throws std::logic_error if the
  /// result was taken before, by await() or then(). Throws nesting_error inside options::nesting operations that wait for one
  /// another; the submitted operation runs nevertheless.
  Result await() {
    if (by_ != nullptr || later_ != nullptr) {
      detail::member& me = runtime_->local();
      runtime_->check_nesting(me);
      if (later_ != nullptr) [[unlikely]]
        runtime_->check_postponed(me);
      finish(me);
    }
    if (std::exchange(is_taken_, true)) [[unlikely]]
      runtime::refuse_second_result();
    assert(done_.has_value());
    return done_->get();
  }
  /// Calls function(outcome<Result>) in the thread that submitted the operation, when that thread takes the answer: in its
  /// poll(), or while it submits, waits or leaves; at once if the operation has run. If options::nesting continuations and
  /// operations that are not awaited lie on the stack, the call is postponed until one of them ends or the thread waits in
  /// barrier(). The function must not throw; it may submit operations. Throws std::bad_alloc without calling the function,
  /// and std::logic_error as await() does.
  template <class Function>
  void then(Function&& function) && {
    static_assert(std::is_invocable_v<Function&, outcome<Result>>,
                  "then() takes a function of outcome<Result>");
    using next_type = continuation<std::decay_t<Function>>;
    if (is_taken_) [[unlikely]]
      runtime::refuse_second_result();
    if (by_ != nullptr || later_ != nullptr) {
      (new next_type(std::forward<Function>(function), std::move(*this)))->comes_later();
      return;
    }
    detail::member& me = runtime_->local();
    if (!runtime_->has_room(me)) [[unlikely]] {
      runtime::postpone(me, *new next_type(std::forward<Function>(function), std::move(*this)), me.depth);
      return;
    }
    is_taken_ = true;
    const runtime::on_stack inside(*runtime_, me);
    function(std::move(*done_));
  }

 private:
  template <class, class>
  friend class partitions;
  template <class, std::size_t>
  friend class awaited_together;
  using taker = typename base::taker;

  completion(runtime& of, taker take) noexcept : base(take), runtime_(&of) {}
  void comes_from(detail::postponed& later) noexcept {
    later_ = &later;
    later.to = this;
  }
  void has_come(outcome<Result> done) noexcept { done_.emplace(std::move(done)); }
  /// await() for a message that was just posted by a thread that may wait.
  Result await_here(detail::member& me) {
    if (by_ != nullptr)
      runtime_->wait_for(me, *by_, turn_);  // what the thread served since may have taken the answer
    return done_->get();
  }
  /// Waits until the operation has run.
  void finish(detail::member& me) {
    if (by_ != nullptr)
      runtime_->wait_for(me, *by_, turn_);
    else if (later_ != nullptr)
      runtime_->run_postponed(me);
  }

  template <class Function>
  class continuation final : public detail::reply_of<Result>, public detail::postponed {
   public:
    template <class Source>
    continuation(Source&& function, completion&& before)
        : detail::reply_of<Result>(std::move(before)), function_(std::forward<Source>(function)) {
      before.is_taken_ = true;
    }
    /// When the result has come.
    void comes_later() noexcept { this->then_ = this; }
    void run(detail::member&) noexcept override {
      const std::unique_ptr<continuation> ends(this);
      function_(std::move(*this->done_));
    }

   private:
    Function function_;
  };

  runtime* runtime_;
  bool is_taken_ = false;
};

/// The results of operations that refer to their caller's frame. It waits for all that were submitted, also if a later one
/// could not be.
template <class Result, std::size_t Most>
class awaited_together {
 public:
  /// Throws nesting_error where the thread may not wait.
  explicit awaited_together(runtime& of) : runtime_(of) {
    detail::member& me = of.local();
    of.check_nesting(me);
    of.check_postponed(me);
  }
  awaited_together(const awaited_together&) = delete;
  awaited_together& operator=(const awaited_together&) = delete;
  ~awaited_together() {
    for (std::size_t i = 0; i < end_; ++i) {
      if (each_[i]) each_[i]->finish(runtime_.local());
    }
  }

  void add(std::size_t at, completion<Result>&& one) {
    each_[at].emplace(std::move(one));
    end_ = std::max(end_, at + 1);
  }
  /// Waits for all, and calls visit(result) for each in order until one throws. It keeps the first exception in `thrown`.
  template <class Visit>
  void take(std::exception_ptr& thrown, Visit&& visit) {
    for (std::size_t i = 0; i < end_; ++i) {
      auto& one = each_[i];
      if (!one) continue;
      try {
        if (thrown)
          static_cast<void>(one->await());
        else
          visit(one->await());
      } catch (...) {
        if (!thrown) thrown = std::current_exception();
      }
      one.reset();
    }
    end_ = 0;
  }

 private:
  runtime& runtime_;
  std::size_t end_ = 0;  ///< after the last one
  std::array<std::optional<completion<Result>>, Most> each_;
};

}  // namespace espalier::delegation
