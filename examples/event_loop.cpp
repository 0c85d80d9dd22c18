// An index in partitions behind one event loop. Requests arrive on a socket; the loop submits each as an operation, and
// never waits for one. It writes an answer when the operation's result has come. While it has nothing to do it sleeps in
// epoll_wait() on two descriptors: that of the requests, and that of the runtime, which answers make readable.
//
// Prints:
//   100 answers, 50 of them with a value
//   the value of 7 is 49

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <espalier/delegation/partitions.hpp>
#include <espalier/ordered_map.hpp>
#include <initializer_list>
#include <optional>
#include <thread>

namespace {

using namespace espalier;
using number = std::uint64_t;
using map = ordered_map<number, number>;
using parts = delegation::partitions<map>;

constexpr number none = ~number{0};

struct message {
  number key;
  number value;
};

void check(bool works, const char* what) {
  if (works) return;
  std::perror(what);
  std::exit(1);
}

/// Until the client closes its end.
void serve(int socket, parts& index) {
  delegation::runtime& threads = index.threads();
  threads.attach(0);
  const int events = epoll_create1(0);
  for (const int fd : {socket, threads.event_fd()}) {
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    wanted.data.fd = fd;
    check(epoll_ctl(events, EPOLL_CTL_ADD, fd, &wanted) == 0, "epoll_ctl");
  }
  const auto submit = [&](message request) {
    index.execute(request.key, [k = request.key](map& m) { return m.find(k); })
        .then([socket, k = request.key](delegation::outcome<std::optional<number>> found) {
          const message answer{k, found.get().value_or(none)};
          check(send(socket, &answer, sizeof answer, 0) == sizeof answer, "send");
        });
  };
  for (bool open = true; open;) {
    const int timeout = threads.arm() ? -1 : 0;  // 0: there is work, so it does not sleep
    epoll_event event{};
    const int ready = epoll_wait(events, &event, 1, timeout);
    threads.poll();  // takes the answers, and serves the messages to this thread's locality
    if (ready != 1 || event.data.fd != socket) continue;
    message request{};
    const ssize_t bytes = recv(socket, &request, sizeof request, 0);
    check(bytes >= 0, "recv");
    if (bytes == 0)
      open = false;
    else
      submit(request);
  }
  threads.barrier();
  close(events);
  close(socket);
}

}  // namespace

int main() {
  delegation::runtime threads(delegation::localities::in_turn(2));
  parts index(threads, 2);
  threads.add_poller(1);  // the loop is in locality 0
  for (number k = 0; k < 50; ++k) index.call(k, [k](map& m) { m.insert(k, k * k); });

  int ends[2];
  check(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0, "socketpair");
  std::thread loop([&] { serve(ends[1], index); });
  for (number k = 0; k < 100; ++k) {
    const message request{k, none};
    check(send(ends[0], &request, sizeof request, 0) == sizeof request, "send");
  }
  check(shutdown(ends[0], SHUT_WR) == 0, "shutdown");

  unsigned answers = 0;
  unsigned with_value = 0;
  number of_seven = none;
  for (message answer{}; recv(ends[0], &answer, sizeof answer, 0) == sizeof answer; ++answers) {
    if (answer.value != none) ++with_value;
    if (answer.key == 7) of_seven = answer.value;
  }
  loop.join();
  close(ends[0]);
  std::printf("%u answers, %u of them with a value\n", answers, with_value);
  std::printf("the value of 7 is %llu\n", static_cast<unsigned long long>(of_seven));
}
