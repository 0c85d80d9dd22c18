#include "apps/serve/server.hpp"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "espalier/memcached/session.hpp"

// One thread accepts, and advances the clock once a second; an idle server does nothing else. Each worker has an event
// loop of its own.
//
// A worker receives into a buffer that its connections share, and writes their replies into another one. A connection
// has buffers of its own only while a command of it is incomplete, or while replies wait for a slow reader.

namespace espalier::app::serving {

using memcached::batch;
using memcached::counted;
using memcached::counters;
using memcached::output;
using memcached::session;

namespace {

struct base_free {
  void operator()(event_base* base) const noexcept { event_base_free(base); }
};
using base_pointer = std::unique_ptr<event_base, base_free>;

base_pointer make_base() {
  const std::unique_ptr<event_config, void (*)(event_config*)> config(event_config_new(), event_config_free);
  if (config == nullptr) throw std::bad_alloc();
  event_config_set_flag(config.get(), EVENT_BASE_FLAG_NOLOCK);  // each is used by one thread
  base_pointer base(event_base_new_with_config(config.get()));
  if (base == nullptr) throw std::system_error(errno, std::generic_category(), "cannot make an event loop");
  return base;
}

timeval after(std::uint64_t microseconds) noexcept {
  constexpr std::uint64_t second = 1'000'000;
  return {static_cast<time_t>(microseconds / second), static_cast<suseconds_t>(microseconds % second)};
}

/// Wakes an event loop from any thread.
class alarm_bell {
 public:
  alarm_bell() : descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "cannot make an eventfd");
  }
  alarm_bell(const alarm_bell&) = delete;
  alarm_bell& operator=(const alarm_bell&) = delete;
  ~alarm_bell() {
    if (is_added_) event_del(&event_);
    close(descriptor_);
  }

  void add_to(event_base* base, event_callback_fn called, void* with) {
    event_assign(&event_, base, descriptor_, EV_READ | EV_PERSIST, called, with);
    event_add(&event_, nullptr);
    is_added_ = true;
  }
  void ring() const noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(descriptor_, &one, sizeof(one));
  }
  void hear() const noexcept {
    std::uint64_t times = 0;
    [[maybe_unused]] const ssize_t got = read(descriptor_, &times, sizeof(times));
  }

 private:
  int descriptor_;
  bool is_added_ = false;
  event event_{};
};

/// A connection that was accepted.
struct arrival {
  int descriptor;
  security how;
};

class worker;

/// Bytes that were received and not used.
class input_buffer {
 public:
  input_buffer() = default;
  input_buffer(const input_buffer&) = delete;
  input_buffer& operator=(const input_buffer&) = delete;
  ~input_buffer() { std::free(bytes_); }

  [[nodiscard]] std::string_view content() const noexcept { return {bytes_ + begin_, size_}; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

  /// Room for `capacity` bytes in all; null if there is no memory.
  [[nodiscard]] char* room(std::size_t capacity) noexcept {
    if (begin_ != 0) std::memmove(bytes_, bytes_ + std::exchange(begin_, 0), size_);
    if (capacity > capacity_) {
      auto* const larger = static_cast<char*>(std::realloc(bytes_, capacity));
      if (larger == nullptr) return nullptr;
      bytes_ = larger;
      capacity_ = capacity;
    }
    return bytes_ + size_;
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  void received(std::size_t bytes) noexcept { size_ += bytes; }
  [[nodiscard]] bool assign(std::string_view content) noexcept {
    begin_ = size_ = 0;
    char* const to = room(content.size());
    if (to == nullptr) return false;
    std::memcpy(to, content.data(), content.size());
    size_ = content.size();
    return true;
  }
  void use(std::size_t bytes) noexcept {
    begin_ += bytes;
    size_ -= bytes;
    if (size_ == 0) release();
  }
  void release() noexcept {
    std::free(std::exchange(bytes_, nullptr));
    begin_ = size_ = capacity_ = 0;
  }

 private:
  char* bytes_ = nullptr;
  std::size_t begin_ = 0;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

struct connection {
  connection(service& of, worker& by, int fd) : owner(by), descriptor(fd), commands(of, fd) {}

  worker& owner;
  int descriptor;
  event ready{};
  session commands;
  input_buffer input;
  output replies;                   // that could not be sent yet
  std::unique_ptr<tls_stream> tls;  // null: the socket is read and written as it is
  short waits_for = EV_READ;
  bool sends = false;    // waits until replies can be sent, and receives nothing
  bool ends = false;     // after the replies
  bool resumes = false;  // has commands to execute, and waits for its turn
  bool watches = false;  // is one of its worker's watchers
  bool sent_large =
      false;  // its last value went into the cache without a copy, but for what came with the line
  std::atomic<std::uint32_t> last_second{0};
  std::size_t position = 0;  // among its worker's
  std::size_t buffered = 0;  // bytes of its buffers, as the service counts them
  int unread = 0;            // bytes of replies that the kernel had when the client was last taken for idle
};

class worker {
 public:
  worker(service& of, alarm_bell& acceptor, const tls_context* tls)
      : service_(of),
        acceptor_(acceptor),
        tls_(tls),
        counters_(of.stats().add_thread()),
        batch_(of),
        base_(make_base()) {
    bell_.add_to(
        base_.get(), [](evutil_socket_t, short, void* self) { static_cast<worker*>(self)->on_bell(); }, this);
    event_assign(
        &idle_timer_, base_.get(), -1, 0,
        [](evutil_socket_t, short, void* self) { static_cast<worker*>(self)->close_idle(); }, this);
    event_assign(
        &watch_timer_, base_.get(), -1, 0,
        [](evutil_socket_t, short, void* self) { static_cast<worker*>(self)->send_lines(); }, this);
    thread_ = std::thread([this] { run(); });
  }
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;
  ~worker() {
    stops_.store(true, std::memory_order_release);
    bell_.ring();
    thread_.join();
    while (!connections_.empty()) close_connection(*connections_.back());
    for (const arrival& one : arrived_) close(one.descriptor);
  }

  /// From the thread that accepts.
  void take(int descriptor, security how) {
    {
      const std::lock_guard held(mutex_);
      arrived_.push_back({descriptor, how});
    }
    bell_.ring();
  }

  void list(output& out) {
    const std::lock_guard held(mutex_);
    const std::uint32_t now = service_.clock().now();
    for (const auto& c : connections_) {
      const std::uint32_t last = c->last_second.load(std::memory_order_relaxed);  // relaxed: a time to show
      out << fmt::format(
          "STAT {0}:addr {1}\r\nSTAT {0}:listen_addr {2}\r\nSTAT {0}:state conn_read\r\n"
          "STAT {0}:secs_since_last_cmd {3}\r\n",
          c->descriptor, shown_address(c->descriptor, true), shown_address(c->descriptor, false),
          now - std::min(now, last));
    }
  }

 private:
  static constexpr std::size_t shared_bytes = std::size_t{64} << 10U;

  void run() {
    while (!stops_.load(std::memory_order_acquire)) {
      event_base_loop(base_.get(), resuming_.empty() ? EVLOOP_ONCE : EVLOOP_ONCE | EVLOOP_NONBLOCK);
      resumed_.swap(resuming_);
      for (connection* const c : resumed_) {
        if (c == nullptr) continue;
        c->resumes = false;
        // What TLS has received already no event tells of.
        if (c->tls != nullptr && c->commands.next() == session::step::receive)
          receive(*c);
        else
          execute(*c, c->input.content(), true);
      }
      resumed_.clear();
    }
  }

  void on_bell() {
    bell_.hear();
    std::vector<arrival> arrived;
    {
      const std::lock_guard held(mutex_);
      arrived.swap(arrived_);
    }
    for (const arrival& one : arrived) {
      try {
        open_connection(one);
      } catch (const std::bad_alloc&) {
        counters_.add(counted::lacking_memory);
        close(one.descriptor);
        left();
      }
    }
  }

  void open_connection(const arrival& one) {
    auto made = std::make_unique<connection>(service_, *this, one.descriptor);
    connection& c = *made;
    if (one.how != security::none) {
      c.tls = tls_->accept(one.descriptor, one.how);
      if (c.tls == nullptr) throw std::bad_alloc();
    }
    resuming_.reserve(connections_.size() + 1);
    resumed_.reserve(connections_.size() + 1);
    note_time(c);
    event_assign(&c.ready, base_.get(), one.descriptor, EV_READ | EV_PERSIST, on_ready, &c);
    {
      const std::lock_guard held(mutex_);
      c.position = connections_.size();
      connections_.push_back(std::move(made));
    }
    if (event_add(&c.ready, nullptr) != 0) return close_connection(c);
    if (service_.chosen().transport.idle_timeout != 0 &&
        event_pending(&idle_timer_, EV_TIMEOUT, nullptr) == 0)
      wait_for_idle(service_.chosen().transport.idle_timeout + 1);
  }

  void close_connection(connection& c) {
    event_del(&c.ready);
    if (c.resumes) std::ranges::replace(resuming_, &c, static_cast<connection*>(nullptr));
    if (c.watches) std::erase(watchers_, &c);
    c.tls.reset();
    close(c.descriptor);
    service_.buffered.fetch_sub(c.buffered, std::memory_order_relaxed);  // relaxed: a count
    {
      const std::lock_guard held(mutex_);
      connections_.back()->position = c.position;
      std::swap(connections_[c.position], connections_.back());
      connections_.pop_back();
    }
    if (connections_.empty()) out_ = output();
    left();
  }

  void close_without_memory(connection& c) {
    counters_.add(counted::lacking_memory);
    close_connection(c);
  }

  void left() {
    service_.connections.fetch_sub(1, std::memory_order_acq_rel);
    if (!service_.accepting.load(std::memory_order_acquire)) acceptor_.ring();
  }

  /// Counts the buffers of a connection. False: it has large ones, and all connections together exceed the limit. It is closed.
  [[nodiscard]] bool may_buffer(connection& c) {
    constexpr std::size_t little = std::size_t{16} << 10U;
    const std::size_t now = c.input.capacity() + c.replies.capacity();
    if (now == c.buffered) return true;
    // relaxed: a count
    const std::size_t all =
        service_.buffered.fetch_add(now - c.buffered, std::memory_order_relaxed) + now - c.buffered;
    const bool grows = now > c.buffered;
    c.buffered = now;
    if (!grows || now <= little || all <= service_.chosen().transport.buffers) return true;
    counters_.add(counted::lacking_buffers);
    constexpr std::string_view refusal = "SERVER_ERROR out of memory for the buffers of connections\r\n";
    if (c.replies.empty() && c.tls == nullptr) {
      [[maybe_unused]] const ssize_t sent =
          send(c.descriptor, refusal.data(), refusal.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (service_.verbosity() > 0)
      std::fprintf(stderr, "espalier serve: closed connection %d: %zu bytes of buffers\n", c.descriptor, all);
    close_connection(c);
    return false;
  }

  void note_time(connection& c) noexcept {
    c.last_second.store(service_.clock().now(), std::memory_order_relaxed);  // relaxed: a time to show
  }

  void wait_for_idle(std::uint32_t seconds) {
    const timeval wait = after(std::uint64_t{seconds} * 1'000'000);
    event_add(&idle_timer_, &wait);
  }

  void close_idle() {
    const std::uint32_t longest = service_.chosen().transport.idle_timeout;
    const std::uint32_t now = service_.clock().now();
    std::uint32_t next = longest + 1;
    for (std::size_t i = connections_.size(); i-- > 0;) {
      connection& c = *connections_[i];
      const std::uint32_t last = c.last_second.load(std::memory_order_relaxed);  // relaxed: this thread's own
      std::uint32_t idle = now - std::min(now, last);
      if (idle > longest && is_read(c)) {
        note_time(c);
        idle = 0;
      }
      if (idle > longest && !c.watches) {
        counters_.add(counted::idle_kicks);
        close_connection(c);
      } else {
        next = std::min(next, longest - idle + 1);
      }
    }
    if (!connections_.empty()) wait_for_idle(next);
  }

  /// Whether the client has read replies since the last call, which the kernel had taken before.
  static bool is_read(connection& c) noexcept {
    int unread = 0;
    return c.sends && ioctl(c.descriptor, SIOCOUTQ, &unread) == 0 &&
           std::exchange(c.unread, unread) != unread;
  }

  static void on_ready(evutil_socket_t, short, void* with) {
    auto& c = *static_cast<connection*>(with);
    if (c.sends)
      c.owner.go_on_sending(c);
    else if (!c.resumes)
      c.owner.receive(c);
  }

  /// A large value, into the cache; and what comes after it, into the shared buffer.
  void receive_value(connection& c, std::span<char> to) {
    std::array<iovec, 2> parts{{{to.data(), to.size()}, {shared_.data(), shared_bytes}}};
    const ssize_t got = take_in(c, parts);
    if (got <= 0) return nothing_came(c, got);
    const auto bytes = static_cast<std::size_t>(got);
    counters_.add(counted::bytes_read, bytes);
    note_time(c);
    const std::size_t of_value = std::min(bytes, to.size());
    c.commands.received(of_value);
    c.sent_large = true;
    // A value of the binary protocol has no end of line: it is whole without more input.
    if (of_value == to.size())
      execute(c, {shared_.data(), bytes - of_value}, false);
    else
      read_on(c);
  }

  static ssize_t take_in(connection& c, std::span<iovec> parts) noexcept {
    if (c.tls != nullptr) return c.tls->receive(parts);
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    return recvmsg(c.descriptor, &message, 0);
  }
  void nothing_came(connection& c, ssize_t got) {
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return wait_as_tls_does(c, EV_READ);
    if (got < 0 && c.tls != nullptr) counters_.add(counted::tls_failures);
    close_connection(c);
  }
  /// What TLS has received already waits for its turn.
  void read_on(connection& c) {
    if (c.tls != nullptr && c.tls->has_more()) resume_later(c);
  }

  void receive(connection& c) {
    if (const std::span<char> to = c.commands.room(); !to.empty()) return receive_value(c, to);
    const std::size_t wanted = c.commands.wanted();
    const std::size_t held = c.input.content().size();
    char* to = nullptr;
    std::size_t room = 0;
    const bool shares = wanted <= shared_bytes && held <= shared_bytes / 2;
    if (shares) {
      if (held != 0) std::memcpy(shared_.data(), c.input.content().data(), held);
      to = shared_.data() + held;
      // Another line may come with another such value: what is received with it is copied.
      constexpr std::size_t few = 2048;
      room = std::exchange(c.sent_large, false) ? few : shared_bytes - held;
    } else {
      // A large value grows as it comes, and nothing after it is received.
      constexpr std::size_t at_once = std::size_t{2} << 20U;
      std::size_t capacity = std::max(c.input.capacity(), 2 * shared_bytes);
      if (held == capacity) capacity *= 2;
      if (wanted > held) capacity = wanted <= at_once ? wanted : std::min(capacity, wanted);
      to = c.input.room(capacity);
      if (to == nullptr) return close_without_memory(c);
      if (!may_buffer(c)) return;
      room = capacity - held;
    }
    iovec part{to, room};
    const ssize_t got = c.tls == nullptr ? recv(c.descriptor, to, room, 0) : take_in(c, {&part, 1});
    if (got <= 0) return nothing_came(c, got);
    const auto bytes = static_cast<std::size_t>(got);
    counters_.add(counted::bytes_read, bytes);
    note_time(c);
    if (shares) return execute(c, {shared_.data(), held + bytes}, false);
    c.input.received(bytes);
    if (held + bytes >= wanted) return execute(c, c.input.content(), true);
    read_on(c);
  }

  /// Executes the commands in the input, which is the connection's own, or the shared one.
  void execute(connection& c, std::string_view input, bool is_own) {
    out_.clear();  // it has replies if the connection before broke
    std::size_t used = 0;
    try {
      used = c.commands.consume(input, out_, batch_, service_.chosen().transport.requests_per_turn);
      // Before the replies are sent: they may wait for the reader, and its lines wait for them.
      if (c.commands.watches() && !c.watches) begin_to_watch(c);
    } catch (const std::bad_alloc&) {
      return close_without_memory(c);
    }
    if (out_.failed()) counters_.add(counted::lacking_memory);
    const session::step next = c.commands.next();
    if (is_own)
      c.input.use(used);
    else if (used == input.size())
      c.input.release();
    else if (!c.input.assign(input.substr(used)))
      return close_without_memory(c);
    if (!may_buffer(c)) return;
    if (!out_.empty()) {
      if (!send_some(c, out_)) return close_connection(c);
      if (!out_.empty()) {
        c.replies = std::exchange(out_, output());
        c.ends = next == session::step::close;
        if (!may_buffer(c)) return;
        return wait_to_send(c);
      }
      out_.trim();
    }
    if (next == session::step::close) return close_connection(c);
    if (next == session::step::receive || c.input.empty()) return read_on(c);
    counters_.add(counted::yields);
    resume_later(c);
  }

  void begin_to_watch(connection& c) {
    watchers_.push_back(&c);
    c.watches = true;
    if (watchers_.size() == 1) wait_for_lines();
  }
  void wait_for_lines() {
    constexpr std::uint64_t microseconds = 10'000;
    const timeval wait = after(microseconds);
    event_add(&watch_timer_, &wait);
  }
  /// To those that have been sent all lines before. What a slow one has no room for its log skips.
  void send_lines() {
    for (std::size_t i = watchers_.size(); i-- > 0;) {
      connection& c = *watchers_[i];
      if (c.sends) continue;
      out_.clear();
      c.commands.collect(out_);
      if (out_.empty()) continue;
      note_time(c);
      if (!send_some(c, out_)) {
        close_connection(c);
      } else if (!out_.empty()) {
        c.replies = std::exchange(out_, output());
        if (may_buffer(c)) wait_to_send(c);
      }
    }
    if (!watchers_.empty()) wait_for_lines();
  }

  void resume_later(connection& c) {
    c.resumes = true;
    resuming_.push_back(&c);
  }

  /// False: the connection is broken.
  bool send_some(connection& c, output& out) {
    std::array<iovec, 64> parts;
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = out.pending(parts.data(), parts.size());
    const ssize_t sent = c.tls == nullptr ? sendmsg(c.descriptor, &message, MSG_NOSIGNAL)
                                          : c.tls->send({parts.data(), message.msg_iovlen});
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    counters_.add(counted::bytes_written, static_cast<std::uint64_t>(sent));
    out.sent(static_cast<std::size_t>(sent));
    return true;
  }

  void wait_for(connection& c, short what) {
    c.waits_for = what;
    event_del(&c.ready);
    event_assign(&c.ready, base_.get(), c.descriptor, static_cast<short>(what | EV_PERSIST), on_ready, &c);
    if (event_add(&c.ready, nullptr) != 0) close_connection(c);
  }

  /// TLS may have to send before it can receive, and the other way round.
  void wait_as_tls_does(connection& c, short what) {
    if (c.tls != nullptr && c.tls->waits_for_other()) what = what == EV_READ ? EV_WRITE : EV_READ;
    if (what != c.waits_for) wait_for(c, what);
  }

  void wait_to_send(connection& c) {
    c.sends = true;
    wait_as_tls_does(c, EV_WRITE);
  }

  void go_on_sending(connection& c) {
    const std::size_t before = c.replies.size();
    if (!send_some(c, c.replies)) return close_connection(c);
    if (c.replies.size() != before) note_time(c);
    if (!c.replies.empty()) return wait_as_tls_does(c, EV_WRITE);
    if (c.ends) return close_connection(c);
    // The buffer may be used for the next replies.
    if (out_.capacity() < c.replies.capacity()) out_ = std::move(c.replies);
    out_.trim();
    c.replies = output();
    c.sends = false;
    if (!may_buffer(c)) return;
    if (!c.input.empty()) {
      counters_.add(counted::yields);
      resume_later(c);
    } else {
      read_on(c);
    }
    wait_for(c, EV_READ);
  }

  service& service_;
  alarm_bell& acceptor_;
  const tls_context* tls_;
  counters& counters_;
  batch batch_;
  output out_;
  std::array<char, shared_bytes> shared_;
  base_pointer base_;
  alarm_bell bell_;
  event idle_timer_{};
  event watch_timer_{};
  std::vector<connection*> watchers_;
  std::vector<connection*> resuming_;
  std::vector<connection*> resumed_;  // whose turn it is. Both have room for all connections
  std::atomic<bool> stops_{false};

  std::mutex mutex_;  // of the two below. This thread reads its connections without it
  std::vector<arrival> arrived_;
  std::vector<std::unique_ptr<connection>> connections_;
  std::thread thread_;
};

/// While it exists, threads that begin handle no signals.
class no_signals {
 public:
  no_signals() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  no_signals(const no_signals&) = delete;
  no_signals& operator=(const no_signals&) = delete;
  ~no_signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

struct server::state {
  state(service& of, const listeners& at, const tls_context* tls)
      : service_(of), listeners_(at), counters_(of.stats().add_thread()), base_(make_base()) {
    bell_.add_to(
        base_.get(), [](evutil_socket_t, short, void* self) { static_cast<state*>(self)->on_bell(); }, this);
    for (const int descriptor : at.descriptors()) {
      auto& accepts = *accepts_.emplace_back(std::make_unique<event>());
      event_assign(
          &accepts, base_.get(), descriptor, EV_READ | EV_PERSIST,
          [](evutil_socket_t listener, short, void* self) {
            static_cast<state*>(self)->accept_from(listener);
          },
          this);
      event_add(&accepts, nullptr);
    }
    event_assign(
        &second_, base_.get(), -1, 0,
        [](evutil_socket_t, short, void* self) { static_cast<state*>(self)->on_second(); }, this);
    std::size_t i = 0;
    for (const int signal : {SIGINT, SIGTERM}) {
      event_assign(
          &signals_[i], base_.get(), signal, EV_SIGNAL | EV_PERSIST,
          [](evutil_socket_t, short, void* self) { static_cast<state*>(self)->ends_ = true; }, this);
      event_add(&signals_[i++], nullptr);
    }
    event_assign(
        &signals_[i], base_.get(), SIGUSR1, EV_SIGNAL | EV_PERSIST,
        [](evutil_socket_t, short, void* self) { static_cast<state*>(self)->end_and_keep(); }, this);
    event_add(&signals_[i++], nullptr);
    event_assign(
        &signals_[i], base_.get(), SIGHUP, EV_SIGNAL | EV_PERSIST,
        [](evutil_socket_t, short, void* self) { static_cast<state*>(self)->reload(); }, this);
    event_add(&signals_[i], nullptr);
    const no_signals while_starting;
    for (unsigned thread = 0; thread < of.chosen().transport.threads; ++thread)
      workers_.push_back(std::make_unique<worker>(of, bell_, tls));
    of.stop = [this] {
      ends_ = true;
      bell_.ring();
    };
    of.stop_and_keep = [this] {
      end_and_keep();
      bell_.ring();
    };
    of.log = [](int connection, std::string_view line) {
      std::fprintf(stderr, "<%d %.*s\n", connection, static_cast<int>(line.size()), line.data());
    };
    of.list_connections = [this](output& out) {
      for (const int descriptor : listeners_.descriptors())
        out << fmt::format("STAT {0}:addr {1}\r\nSTAT {0}:state conn_listening\r\n", descriptor,
                           shown_address(descriptor, false));
      for (const auto& one : workers_) one->list(out);
    };
  }
  state(const state&) = delete;
  state& operator=(const state&) = delete;
  ~state() {
    workers_.clear();
    for (const auto& accepts : accepts_) event_del(accepts.get());
    event_del(&second_);
    for (event& signal : signals_) event_del(&signal);
    service_.stop = nullptr;
    service_.stop_and_keep = nullptr;
    service_.log = nullptr;
    service_.list_connections = nullptr;
  }

  [[nodiscard]] bool run() {
    on_second();
    while (!ends_) event_base_loop(base_.get(), EVLOOP_ONCE);
    return keeps_;
  }

 private:
  void end_and_keep() noexcept {
    keeps_ = true;
    ends_ = true;
  }

  void reload() {
    try {
      if (service_.reload) service_.reload();
    } catch (const std::exception& wrong) {
      std::fprintf(stderr, "espalier serve: %s; what it had stays\n", wrong.what());
    }
  }

  void on_second() {
    const timeval wait = after(service_.tick());
    event_add(&second_, &wait);
    if (!service_.accepting && !is_full()) resume_accepting();
  }

  void on_bell() {
    bell_.hear();
    if (!service_.accepting && !is_full()) resume_accepting();
  }

  [[nodiscard]] bool is_full() const noexcept {
    return service_.connections.load(std::memory_order_acquire) >= service_.chosen().transport.connections;
  }

  [[nodiscard]] security security_of(int listener) const noexcept {
    const auto& all = listeners_.descriptors();
    return listeners_.security_of(static_cast<std::size_t>(std::ranges::find(all, listener) - all.begin()));
  }

  void accept_from(int listener) {
    const security how = security_of(listener);
    constexpr int at_most = 64;
    for (int i = 0; i < at_most; ++i) {
      if (is_full() && !service_.chosen().transport.rejects_at_limit) return pause_accepting();
      const int descriptor = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (descriptor < 0) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        // Whatever the kernel lacks: waiting connections would wake this thread again at once.
        if (errno != EAGAIN) {
          if (service_.verbosity() > 0)
            std::fprintf(stderr, "espalier serve: cannot accept: %s\n", std::strerror(errno));
          pause_accepting();
        }
        return;
      }
      if (is_full()) {
        counters_.add(counted::rejected);  // before the client can know
        constexpr std::string_view refusal = "ERROR Too many open connections\r\n";
        if (how == security::none) {
          [[maybe_unused]] const ssize_t sent =
              send(descriptor, refusal.data(), refusal.size(), MSG_NOSIGNAL);
        }
        close(descriptor);
        continue;
      }
      service_.connections.fetch_add(1, std::memory_order_acq_rel);
      counters_.add(counted::accepted);
      workers_[next_++ % workers_.size()]->take(descriptor, how);
    }
  }

  void pause_accepting() {
    for (const auto& accepts : accepts_) event_del(accepts.get());
    service_.accepting = false;
    paused_at_ = std::chrono::steady_clock::now();
    counters_.add(counted::accept_pauses);
  }

  void resume_accepting() {
    for (const auto& accepts : accepts_) event_add(accepts.get(), nullptr);
    service_.accepting = true;
    const auto paused = std::chrono::steady_clock::now() - paused_at_;
    counters_.add(
        counted::paused_us,
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(paused).count()));
  }

  service& service_;
  const listeners& listeners_;
  counters& counters_;
  base_pointer base_;
  alarm_bell bell_;
  std::vector<std::unique_ptr<event>> accepts_;
  event second_{};
  std::array<event, 4> signals_{};
  std::vector<std::unique_ptr<worker>> workers_;
  std::size_t next_ = 0;
  std::chrono::steady_clock::time_point paused_at_;
  std::atomic<bool> ends_{false};
  std::atomic<bool> keeps_{false};
};

server::server(service& of, const listeners& at, const tls_context* tls)
    : state_(std::make_unique<state>(of, at, tls)) {}
server::~server() = default;
bool server::run() { return state_->run(); }

}  // namespace espalier::app::serving
