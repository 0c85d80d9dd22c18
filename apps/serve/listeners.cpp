#include "apps/serve/listeners.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "apps/common/exit_status.hpp"
#include "espalier/io/output_file.hpp"
#include "espalier/io/text.hpp"

namespace espalier::app::serving {
namespace {

constexpr int socket_kind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

struct address {
  std::string host;  // empty: all
  int port;
  security how;
};

/// host, host:port, [IPv6], [IPv6]:port, or an IPv6 address alone; and how it is secured before it.
address address_of(std::string item, int port, bool has_tls) {
  security how = has_tls ? security::standard : security::none;
  constexpr std::array<std::pair<std::string_view, security>, 3> prefixes{
      {{"notls:", security::none}, {"btls:", security::without_peer}, {"mtls:", security::with_peer}}};
  for (const auto& [prefix, named] : prefixes) {
    if (!item.starts_with(prefix)) continue;
    if (!has_tls) throw usage_error(fmt::format("-l {}: {} is for servers with -Z", item, prefix));
    item.erase(0, prefix.size());
    how = named;
    break;
  }
  if (item.starts_with("proto[") || item.starts_with("tag["))
    throw usage_error(
        fmt::format("-l {}: protocols and tags of a listener are not supported; name host:port", item));
  std::string host = item;
  std::string given;
  if (item.starts_with('[')) {
    const std::size_t end = item.find(']');
    if (end == std::string::npos) throw usage_error(fmt::format("-l {}: its bracket is not closed", item));
    host = item.substr(1, end - 1);
    given = item.substr(end + 1);
  } else if (const std::size_t colon = item.find(':');
             colon != std::string::npos && colon == item.rfind(':')) {
    host = item.substr(0, colon);
    given = item.substr(colon);
  }
  if (!given.empty()) {
    const auto number = given.front() == ':' ? io::parse_whole<std::uint16_t>(given.substr(1)) : std::nullopt;
    if (!number)
      throw usage_error(
          fmt::format("-l {}: '{}' is no port", item, given.substr(given.front() == ':' ? 1 : 0)));
    port = *number;
  }
  if (host == "*") host.clear();
  return {host, port, how};
}

std::vector<std::string> items_of(const std::string& list) {
  std::vector<std::string> items;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (end != begin) items.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

/// Whether the machine has addresses of a family at all.
bool has_family(int family) noexcept {
  const int descriptor = socket(family, socket_kind, 0);
  if (descriptor < 0) return false;
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = in6addr_loopback;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool is_v6 = family == AF_INET6;
  const auto* const loopback =
      is_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
  const bool has = bind(descriptor, loopback, is_v6 ? sizeof(v6) : sizeof(v4)) == 0 || errno != EADDRNOTAVAIL;
  close(descriptor);
  return has;
}

void set_option(int descriptor, int level, int option) {
  const int on = 1;
  setsockopt(descriptor, level, option, &on, sizeof(on));
}

}  // namespace

listeners::listeners(const memcached::transport_settings& chosen) {
  if (!chosen.unix_path.empty()) {
    bind_unix(chosen);
    return;
  }
  if (chosen.port == 0) return;
  const int port = chosen.port == -1 ? 0 : chosen.port;
  const std::vector<std::string> items = items_of(chosen.listen);
  const bool has_tls = chosen.tls.is_on;
  if (items.empty()) bind_tcp("", port, has_tls ? security::standard : security::none, chosen.backlog);
  for (const std::string& item : items) {
    const auto [host, own_port, how] = address_of(item, port, has_tls);
    bind_tcp(host, own_port, how, chosen.backlog);
  }
  if (descriptors_.empty()) throw usage_error(left_out_.front());
}

listeners::~listeners() {
  for (const int descriptor : descriptors_) close(descriptor);
  struct stat found{};
  if (!path_.empty() && lstat(path_.c_str(), &found) == 0 && found.st_dev == device_ &&
      found.st_ino == number_)
    unlink(path_.c_str());
}

void listeners::bind_tcp(const std::string& host, int port, security how, unsigned backlog) {
  const std::string shown =
      host.empty() ? fmt::format("port {}", port) : fmt::format("{}, port {}", host, port);
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  addrinfo* all = nullptr;
  const int failed =
      getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &wanted, &all);
  if (failed != 0)
    throw usage_error(fmt::format("cannot listen at {}: {}", shown,
                                  failed == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(failed)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> kept(all, freeaddrinfo);
  bool listens = false;
  int why = 0;
  int missing = 0;
  for (const addrinfo* one = all; one != nullptr; one = one->ai_next) {
    std::string bytes(reinterpret_cast<const char*>(one->ai_addr), one->ai_addrlen);
    if (std::ranges::find(bound_, bytes) != bound_.end()) {
      listens = true;
      continue;
    }
    const int error = bind_one(*one, how, backlog);
    if (error == 0) {
      listens = true;
      bound_.push_back(std::move(bytes));
    } else if ((error == EADDRNOTAVAIL || error == EAFNOSUPPORT) && !has_family(one->ai_family)) {
      missing = error;
    } else if (error != EADDRNOTAVAIL) {
      throw usage_error(
          fmt::format("cannot listen at {}: {}{}", shown, std::strerror(error),
                      error == EADDRINUSE ? "; another server has it, choose another port with -p" : ""));
    } else {
      why = error;
    }
  }
  if (listens) return;
  if (why != 0 || missing == 0)
    throw usage_error(fmt::format("cannot listen at {}: {}", shown, std::strerror(why)));
  left_out_.push_back(fmt::format("cannot listen at {}: {}", shown, std::strerror(missing)));
}

int listeners::bind_one(const addrinfo& one, security how, unsigned backlog) {
  const int descriptor = socket(one.ai_family, socket_kind, one.ai_protocol);
  if (descriptor < 0) return errno;
  set_option(descriptor, SOL_SOCKET, SO_REUSEADDR);
  if (one.ai_family == AF_INET6) set_option(descriptor, IPPROTO_IPV6, IPV6_V6ONLY);
  // Connections inherit them.
  set_option(descriptor, SOL_SOCKET, SO_KEEPALIVE);
  set_option(descriptor, IPPROTO_TCP, TCP_NODELAY);
  if (bind(descriptor, one.ai_addr, one.ai_addrlen) != 0 ||
      ::listen(descriptor, static_cast<int>(backlog)) != 0) {
    const int why = errno;
    close(descriptor);
    return why;
  }
  securities_.push_back(how);
  descriptors_.push_back(descriptor);
  return 0;
}

void listeners::give_to(uid_t user, gid_t group) const {
  if (!path_.empty() && lchown(path_.c_str(), user, group) != 0)
    throw usage_error(fmt::format("-s {}: {}", path_, std::strerror(errno)));
}

void listeners::bind_unix(const memcached::transport_settings& chosen) {
  const std::string& path = chosen.unix_path;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof(name.sun_path))
    throw usage_error(
        fmt::format("-s {}: a socket's path has at most {} bytes", path, sizeof(name.sun_path) - 1));
  std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
  const auto* const address = reinterpret_cast<const sockaddr*>(&name);
  struct stat found{};
  if (lstat(path.c_str(), &found) == 0) {
    if (!S_ISSOCK(found.st_mode))
      throw usage_error(fmt::format("-s {}: there is a file that is no socket; name another path", path));
    const int other = socket(AF_UNIX, socket_kind, 0);
    const bool answers = connect(other, address, sizeof(name)) == 0 || errno == EAGAIN;
    close(other);
    if (answers) throw usage_error(fmt::format("-s {}: another server listens at this socket", path));
    unlink(path.c_str());
  }
  const int descriptor = socket(AF_UNIX, socket_kind, 0);
  if (descriptor < 0) throw usage_error(fmt::format("-s {}: {}", path, std::strerror(errno)));
  securities_.push_back(security::none);
  descriptors_.push_back(descriptor);
  const mode_t before = umask(static_cast<mode_t>(~chosen.unix_mask & 0777U));
  const bool bound = bind(descriptor, address, sizeof(name)) == 0;
  const int why = errno;
  umask(before);
  if (!bound || ::listen(descriptor, static_cast<int>(chosen.backlog)) != 0)
    throw usage_error(fmt::format("-s {}: {}", path, std::strerror(bound ? errno : why)));
  if (lstat(path.c_str(), &found) == 0) {
    path_ = path;
    device_ = found.st_dev;
    number_ = found.st_ino;
  }
}

void listeners::write_ports(const std::filesystem::path& file) const {
  std::string text;
  for (const int descriptor : descriptors_) {
    sockaddr_storage bound{};
    socklen_t size = sizeof(bound);
    if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &size) != 0) continue;
    if (bound.ss_family == AF_INET)
      text += fmt::format("TCP INET: {}\n", ntohs(reinterpret_cast<const sockaddr_in&>(bound).sin_port));
    if (bound.ss_family == AF_INET6)
      text += fmt::format("TCP INET6: {}\n", ntohs(reinterpret_cast<const sockaddr_in6&>(bound).sin6_port));
  }
  io::output_file(file).commit(text);
}

std::string shown_address(int descriptor, bool of_peer) {
  sockaddr_storage found{};
  socklen_t size = sizeof(found);
  auto* const address = reinterpret_cast<sockaddr*>(&found);
  if ((of_peer ? getpeername(descriptor, address, &size) : getsockname(descriptor, address, &size)) != 0)
    return "unknown";
  if (found.ss_family == AF_UNIX)
    return "unix:" + std::string(reinterpret_cast<const sockaddr_un&>(found).sun_path);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (getnameinfo(address, size, host.data(), host.size(), port.data(), port.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "unknown";
  if (found.ss_family == AF_INET6) return fmt::format("tcp6:[{}]:{}", host.data(), port.data());
  return fmt::format("tcp:{}:{}", host.data(), port.data());
}

}  // namespace espalier::app::serving
