#!/usr/bin/env python3
"""`espalier serve`: its options, its connections, and how it begins and ends."""

import contextlib
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import ssl
import stat
import struct
import subprocess
import time
import unittest

import servers
from case import COMMAND, Case, compiled

# What the kernel may do at any call: it takes or gives a few bytes, is interrupted, or has nothing right now; and it has no
# more files for the first connections.
FICKLE_KERNEL = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>
static __thread unsigned calls;
static int fails(void) {
  ++calls;
  if (calls % 5 == 0) { errno = EINTR; return 1; }
  if (calls % 3 == 0) { errno = EAGAIN; return 1; }
  return 0;
}
ssize_t recv(int fd, void* to, size_t bytes, int flags) {
  static ssize_t (*real)(int, void*, size_t, int);
  if (!real) real = (ssize_t (*)(int, void*, size_t, int))dlsym(RTLD_NEXT, "recv");
  if (fails()) return -1;
  return real(fd, to, bytes < 7 ? bytes : 7, flags);
}
static size_t fewer(const struct msghdr* from, struct iovec* to, size_t left) {
  size_t n = 0;
  for (; n < from->msg_iovlen && n < 16 && left != 0; ++n) {
    to[n] = from->msg_iov[n];
    if (to[n].iov_len > left) to[n].iov_len = left;
    left -= to[n].iov_len;
  }
  return n;
}
ssize_t recvmsg(int fd, struct msghdr* message, int flags) {
  static ssize_t (*real)(int, struct msghdr*, int);
  struct iovec some[16];
  struct msghdr less = *message;
  if (!real) real = (ssize_t (*)(int, struct msghdr*, int))dlsym(RTLD_NEXT, "recvmsg");
  if (fails()) return -1;
  less.msg_iovlen = fewer(message, some, 4999);
  less.msg_iov = some;
  return real(fd, &less, flags);
}
ssize_t sendmsg(int fd, const struct msghdr* message, int flags) {
  static ssize_t (*real)(int, const struct msghdr*, int);
  struct iovec some[16];
  struct msghdr less = *message;
  if (!real) real = (ssize_t (*)(int, const struct msghdr*, int))dlsym(RTLD_NEXT, "sendmsg");
  if (fails()) return -1;
  less.msg_iovlen = fewer(message, some, calls % 2 ? 11 : 4999);
  less.msg_iov = some;
  return real(fd, &less, flags);
}
int accept4(int fd, struct sockaddr* a, socklen_t* n, int flags) {
  static int (*real)(int, struct sockaddr*, socklen_t*, int);
  static unsigned accepts;
  static const int errors[] = {ECONNABORTED, EINTR, ENFILE};  // the last one costs a second
  if (!real) real = (int (*)(int, struct sockaddr*, socklen_t*, int))dlsym(RTLD_NEXT, "accept4");
  if (accepts < 3) { errno = errors[accepts++]; return -1; }
  return real(fd, a, n, flags);
}
"""

# A machine without IPv6, whose names have each address twice.
ONE_FAMILY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <sys/socket.h>
int socket(int family, int kind, int protocol) {
  static int (*real)(int, int, int);
  if (!real) real = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
  if (family == AF_INET6) { errno = EAFNOSUPPORT; return -1; }
  return real(family, kind, protocol);
}
int getaddrinfo(const char* host, const char* port, const struct addrinfo* wanted, struct addrinfo** found) {
  static int (*real)(const char*, const char*, const struct addrinfo*, struct addrinfo**);
  if (!real) real = (int (*)(const char*, const char*, const struct addrinfo*, struct addrinfo**))dlsym(RTLD_NEXT, "getaddrinfo");
  int failed = real(host, port, wanted, found);
  if (failed) return failed;
  struct addrinfo* last = *found;
  while (last->ai_next) last = last->ai_next;
  return real(host, port, wanted, &last->ai_next);
}
"""

# Where Prometheus' exporter finds its families: in which statistics, and in rows of which names. Those of extstore and of the
# proxy are left out.
FAMILIES = {
    "": {"up": "pid", "uptime_seconds": "uptime", "time_seconds": "time", "version": "version",
         "process_user_cpu_seconds_total": "rusage_user", "process_system_cpu_seconds_total": "rusage_system",
         "read_bytes_total": "bytes_read", "written_bytes_total": "bytes_written",
         "current_connections": "curr_connections", "connections_total": "total_connections",
         "connections_rejected_total": "rejected_connections", "connections_yielded_total": "conn_yields",
         "connections_listener_disabled_total": "listen_disabled_num", "current_bytes": "bytes",
         "limit_bytes": "limit_maxbytes", "current_items": "curr_items", "items_total": "total_items",
         "items_evicted_total": "evictions", "items_reclaimed_total": "reclaimed",
         "item_too_large_total": "store_too_large", "item_no_memory_total": "store_no_memory",
         "direct_reclaims_total": "direct_reclaims", "accepting_connections": "accepting_conns",
         "lru_crawler_starts_total": "lru_crawler_starts", "lru_crawler_reclaimed_total": "crawler_reclaimed",
         "lru_crawler_items_checked_total": "crawler_items_checked",
         "lru_crawler_moves_to_cold_total": "moves_to_cold", "lru_crawler_moves_to_warm_total": "moves_to_warm",
         "lru_crawler_moves_within_lru_total": "moves_within_lru",
         "commands_total": "cmd_set cmd_flush get_hits get_misses delete_hits delete_misses incr_hits incr_misses decr_hits "
                           "decr_misses cas_hits cas_misses cas_badval touch_hits touch_misses"},
    "settings": {"max_connections": "maxconns", "lru_crawler_enabled": "lru_crawler",
                 "lru_crawler_sleep": "lru_crawler_sleep", "lru_crawler_to_crawl": "lru_crawler_tocrawl",
                 "lru_crawler_maintainer_thread": "lru_maintainer_thread", "lru_crawler_hot_percent": "hot_lru_pct",
                 "lru_crawler_warm_percent": "warm_lru_pct", "lru_crawler_hot_max_factor": "hot_max_factor",
                 "lru_crawler_warm_max_factor": "warm_max_factor"},
    "items": {"slab_current_items": "items:1:number", "slab_items_age_seconds": "items:1:age",
              "slab_mem_requested_bytes": "items:1:mem_requested",
              "slab_items_crawler_reclaimed_total": "items:1:crawler_reclaimed",
              "slab_items_evicted_total": "items:1:evicted", "slab_items_evicted_nonzero_total": "items:1:evicted_nonzero",
              "slab_items_evicted_time_seconds": "items:1:evicted_time",
              "slab_items_evicted_unfetched_total": "items:1:evicted_unfetched",
              "slab_items_expired_unfetched_total": "items:1:expired_unfetched",
              "slab_items_outofmemory_total": "items:1:outofmemory", "slab_items_reclaimed_total": "items:1:reclaimed",
              "slab_items_tailrepairs_total": "items:1:tailrepairs", "slab_items_moves_to_cold": "items:1:moves_to_cold",
              "slab_items_moves_to_warm": "items:1:moves_to_warm",
              "slab_items_moves_within_lru": "items:1:moves_within_lru", "slab_hot_items": "items:1:number_hot",
              "slab_warm_items": "items:1:number_warm", "slab_cold_items": "items:1:number_cold",
              "slab_temporary_items": "items:1:number_temp", "slab_hot_age_seconds": "items:1:age_hot",
              "slab_warm_age_seconds": "items:1:age_warm",
              "slab_lru_hits_total": "items:1:hits_to_hot items:1:hits_to_warm items:1:hits_to_cold items:1:hits_to_temp"},
    "slabs": {"malloced_bytes": "total_malloced", "slab_chunk_size_bytes": "1:chunk_size",
              "slab_chunks_per_page": "1:chunks_per_page", "slab_current_pages": "1:total_pages",
              "slab_current_chunks": "1:total_chunks", "slab_chunks_used": "1:used_chunks",
              "slab_chunks_free": "1:free_chunks", "slab_chunks_free_end": "1:free_chunks_end",
              "slab_commands_total": "1:get_hits 1:delete_hits 1:incr_hits 1:decr_hits 1:cas_hits 1:touch_hits "
                                     "1:cas_badval 1:cmd_set"},
}


class Client:
    """A connection."""

    def __init__(self, to: tuple[str, int] | str) -> None:
        self.socket = socket.create_connection(to) if isinstance(to, tuple) else socket.socket(socket.AF_UNIX)
        if isinstance(to, str):
            self.socket.connect(to)
        self.replies = self.socket.makefile("rb")

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.replies.close()
        self.socket.close()

    def send(self, text: str | bytes) -> None:
        self.socket.sendall(text.encode() if isinstance(text, str) else text)

    def ask(self, text: str, lines: int = 1) -> str:
        self.send(text + "\r\n")
        return "".join(self.replies.readline().decode() for _ in range(lines)).replace("\r\n", "\n").rstrip("\n")

    def stats(self, which: str = "") -> dict[str, str]:
        self.send(f"stats {which}\r\n")
        found = {}
        for line in iter(self.replies.readline, b"END\r\n"):
            _, name, value = line.decode().rstrip("\r\n").split(" ", 2)
            found[name] = value
        return found

    def has_ended(self) -> bool:
        """Waits for the end of the connection. False: there is one more reply."""
        with contextlib.suppress(ConnectionResetError):
            return self.replies.read(1) == b""
        return True


def after(state: tuple[str, str | None] | None, command: tuple[str, str, str], reply: str) -> list:
    """What a key may hold after a command with this reply: a value and its version, which is "" until a reply shows it, or
    None for nothing. Empty: it cannot be the reply."""
    verb, argument, version = command
    value = state[0] if state else ""
    is_number = value.isdigit() and int(value) < 1 << 64
    if verb in ("get", "gets"):
        if state is None:
            return [state] if reply == "END" else []
        shown = state[1] or (reply.split()[4:5] or ["?"])[0] if verb == "gets" else ""
        is_right = reply == f"VALUE k 0 {len(value)}{' ' if shown else ''}{shown}\n{value}\nEND"
        return [(value, shown or state[1])] if is_right else []
    if verb == "set" or (verb == "add") == (state is None) and verb in ("add", "replace"):
        expected, then = "STORED", (argument, "")
    elif verb in ("add", "replace") or state is None and verb in ("append", "prepend"):
        expected, then = "NOT_STORED", state
    elif state is None:
        expected, then = "NOT_FOUND", None
    elif verb in ("append", "prepend"):
        expected, then = "STORED", (value + argument if verb == "append" else argument + value, "")
    elif verb == "cas":
        expected, then = ("STORED", (argument, "")) if state[1] == version else ("EXISTS", state)
    elif verb == "delete":
        expected, then = "DELETED", None
    elif is_number:
        expected = str((int(value) + int(argument)) % (1 << 64))
        then = expected, ""
    else:
        expected, then = "CLIENT_ERROR cannot increment or decrement non-numeric value", state
    return [then] if reply in (expected, "") else []


def linearized(states: set, lanes: list[list[tuple]]) -> set:
    """What the key may hold after commands of several clients, each with its reply: they took effect one after the other,
    those of a client in its order."""
    ends, seen, left = set(), set(), [((0,) * len(lanes), state) for state in states]
    while left:
        at = left.pop()
        if at in seen:
            continue
        seen.add(at)
        done, state = at
        if all(n == len(lane) for n, lane in zip(done, lanes)):
            ends.add(state)
        for i, lane in enumerate(lanes):
            if done[i] < len(lane):
                left += [((*done[:i], done[i] + 1, *done[i + 1:]), then) for then in after(state, *lane[done[i]])]
    return ends


class Serve(Case):
    def setUp(self) -> None:
        super().setUp()
        self.path = str(self.folder / "socket")

    def start(self, *options: str, tcp: bool = False, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """A server that listens: at self.path, or at any port of TCP, which it notes in self.port."""
        ports = self.folder / "ports"
        ports.unlink(missing_ok=True)
        where = ("-p", "-1") if tcp else ("-s", self.path)
        server = subprocess.Popen([COMMAND, "serve", *where, *options], cwd=self.folder, text=True, stderr=subprocess.PIPE,
                                  env={**os.environ, "MEMCACHED_PORT_FILENAME": str(ports), **(environment or {})})
        self.addCleanup(self.stop, server)
        while server.poll() is None:
            if ports.exists():
                self.ports = dict(re.findall(r"TCP (\w+): (\d+)", ports.read_text()))
                return server
            time.sleep(0.02)
        self.fail(server.communicate()[1])

    @staticmethod
    def stop(server: subprocess.Popen[str]) -> None:
        server.kill()
        server.wait()
        server.stderr.close()

    def client(self, to: tuple[str, int] | str | None = None) -> Client:
        made = Client(to or self.path)
        self.addCleanup(made.close)
        return made

    def end(self, server: subprocess.Popen[str], by: int = signal.SIGTERM, said: str = "", status: int = 0) -> None:
        server.send_signal(by)
        _, errors = server.communicate()
        self.assertEqual((server.returncode, errors), (status, said))

    def test_it_is_a_small_program_of_its_own(self) -> None:
        server = self.start("-t", "1")
        process = pathlib.Path(f"/proc/{server.pid}")
        self.assertEqual(pathlib.Path(os.readlink(process / "exe")).name, "espalier-serve")
        self.assertTrue((process / "cmdline").read_text().startswith("espalier serve\0-s\0"))
        self.assertEqual((process / "comm").read_text(), "espalier-serve\n")
        mapped = (process / "maps").read_text()
        self.assertIn("libevent_core", mapped)
        for library in ("hwloc", "tbb", "jemalloc", "libdw", "crypto"):
            self.assertNotIn(library, mapped)
        self.end(server)

    def test_without_its_program(self) -> None:
        command = self.folder / "espalier"
        shutil.copy2(COMMAND, command)
        done = subprocess.run([command, "serve"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, "^espalier: serve: its program espalier-serve is missing; .*\n$")

    def test_tcp(self) -> None:
        server = self.start("-l", "127.0.0.1", tcp=True)
        with Client(("127.0.0.1", int(self.ports["INET"]))) as one, Client(("127.0.0.1", int(self.ports["INET"]))) as other:
            self.assertEqual(one.ask("set key 1 0 5\r\nvalue"), "STORED")
            self.assertEqual(other.ask("get key", 3), "VALUE key 1 5\nvalue\nEND")
            self.assertEqual(one.stats()["curr_connections"], "2")
            addresses = one.stats("conns")
            self.assertEqual(sum(value.startswith("tcp:127.0.0.1:") for value in addresses.values()), 5)
        self.end(server)

    def test_all_addresses(self) -> None:
        self.start(tcp=True)
        for family, host in (("INET", "127.0.0.1"), ("INET6", "::1")):
            if family in self.ports:
                with Client((host, int(self.ports[family]))) as client:
                    self.assertEqual(client.ask("mn"), "MN")

    def test_several_addresses(self) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.2", 0))
            port = unused.getsockname()[1]
        self.start("-l", "127.0.0.1", "-l", f"127.0.0.2:{port}", tcp=True)
        for at in (("127.0.0.1", int(self.ports["INET"])), ("127.0.0.2", port)):
            if at[1] == port or at[0] == "127.0.0.1":
                with contextlib.suppress(ConnectionRefusedError), Client(at) as client:
                    self.assertEqual(client.ask("mn"), "MN")
        with Client(("127.0.0.2", port)) as client:
            self.assertEqual(client.stats("settings")["inter"], f"127.0.0.1,127.0.0.2:{port}")

    def test_addresses_that_repeat_or_are_of_no_family(self) -> None:
        without = {"LD_PRELOAD": str(compiled(ONE_FAMILY, "-shared", "-fPIC", "-ldl")),
                   "ASAN_OPTIONS": "verify_asan_link_order=0"}
        server = self.start("-t", "1", "-l", "127.0.0.1,[::1],127.0.0.1", tcp=True, environment=without)
        with Client(("127.0.0.1", int(self.ports["INET"]))) as client:
            listening = [value for value in client.stats("conns").values() if value == "conn_listening"]
        self.assertEqual(len(listening), 1)
        self.end(server, said="espalier serve: cannot listen at ::1, port 0: Address family not supported by protocol\n")
        for address, why in (("::1", "not supported"), ("127.0.0.1,203.0.113.7", "Cannot assign")):
            done = self.espalier("serve", "-p", "-1", "-l", address, env={**os.environ, **without})
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, f"^espalier serve: cannot listen at .*{why}.*\n$")

    def test_a_port_that_is_taken(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            said = self.refused("serve", "-l", "127.0.0.1", "-p", str(taken.getsockname()[1]))
            self.assertIn("another server has it", said)
            self.assertIn("another server has it",
                          self.refused("serve", "-d", "-l", "127.0.0.1", "-p", str(taken.getsockname()[1])))

    def test_options(self) -> None:
        self.start("-t", "2", "-m8", "-M", "-I", "512k", "-c", "77", "-R5", "-b", "9", "-a", "770", "-A", "-C", "-F", "-D", "/",
                   "-B", "ascii", "-U", "0", "-vv", "-o", "idle_timeout=9,maxconns_fast")
        client = self.client()
        shown = client.stats("settings")
        for name, value in {"maxbytes": str(8 << 20), "maxconns": "77", "num_threads": "2", "evictions": "off", "umask": "770",
                            "item_size_max": str(512 << 10), "reqs_per_event": "5", "tcp_backlog": "9", "cas_enabled": "no",
                            "shutdown_command": "yes", "flush_enabled": "no", "stat_key_prefix": "/", "detail_enabled": "yes",
                            "binding_protocol": "ascii", "verbosity": "2", "idle_timeout": "9", "maxconns_fast": "yes",
                            "domain_socket": self.path}.items():
            self.assertEqual(shown[name], value, name)
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o770)
        self.assertEqual(client.ask("flush_all"), "CLIENT_ERROR flush_all not allowed")

    def test_long_names_and_defaults(self) -> None:
        self.start("--threads=1", "--memory-limit=100", "--idle-timeout=7", "--conn-limit", "5", "--conn-limit", "6")
        shown = self.client().stats("settings")
        for name, value in {"maxbytes": str(100 << 20), "maxconns": "6", "num_threads": "1", "evictions": "on", "umask": "700",
                            "item_size_max": str(1 << 20), "reqs_per_event": "20", "cas_enabled": "yes", "idle_timeout": "7",
                            "binding_protocol": "auto-negotiate", "shutdown_command": "no"}.items():
            self.assertEqual(shown[name], value, name)
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o700)

    def test_what_is_refused(self) -> None:
        self.refused_each("serve", table={
            ("-U", "11211"): "UDP is not supported", ("-B", "http"): "ascii, binary or auto", ("-S",): "name the users", ("-S", "-Y", "x", "-B", "ascii"): "leave -B out", ("--enable-ssl",): "-Z: ", ("-l", "notls:127.0.0.1"): "servers with -Z", ("-o", "ssl_key=x"): "with -Z alone", ("-Y", "none"): "cannot be read", ("-Y", "/dev/null"): "cannot be read, or is empty",
            ("-e", "."): "-e ", ("-e", "/dev/null"): "no file", ("-k",): "locked memory", ("-r",): "ulimit -c", ("-X",): "cannot be disabled",
            ("-o", "watcher_logbuf_size=x"): "number of kilobytes", ("-N", "2"): "dealt to threads", ("-N",): "dealt to threads",
            ("-o", "ext_path=/x:1G"): "ext_path", ("-o", "idle_timeout"): "number of seconds", ("-t", "0"): "-t is",
            ("-c", "0"): "-c is", ("-c", "-1"): "negative", ("-R", "0"): "-R is", ("-b", "0"): "-b is", ("-b", "2147483648"): "-b is from 1 to", ("-m", "0"): "-m is",
            ("-m", "x"): "not a whole number", ("-p", "70000"): "up to 65535", ("-I", "1000"): "1k to 128m",
            ("-I", "256m"): "1k to 128m", ("-I", "1g"): "number with k or m", ("-I", "40m"): "half of the memory",
            ("-m", "1000000000"): "-m is from 1 to 1048576",
            ("-D", "::"): "one character", ("-s", "x", "-a", "999"): "octal", ("-a", "700"): "no effect without --unix-socket",
            ("-l", "no.such.host.invalid"): "cannot listen", ("-l", "127.0.0.1:x"): "no port", ("-l", "[::1"): "not closed", ("-l", "[::1]80"): "'80' is no port",
            ("-l", "proto[ascii]:127.0.0.1"): "tags", ("-s", "s" * 200): "at most", ("-s", "none/s"): "No such file",
            ("-P", "none/pid"): "none", ("-u", "no-such-user"): "-u no-such-user", ("--thread", "3"): "did you mean '--threads'?",
            ("-l", ",", "-t", "1"): "has an empty item", ("-omodern,,idle_timeout=1",): "has an empty item"})
        self.assertIn("espalier ", self.ended(0, "serve", "-V").stdout)
        self.assertIn("espalier ", self.ended(0, "serve", "-f", "-n", "48", "-V").stdout)
        shown = self.ended(0, "serve", "-h").stdout
        self.assertNotIn("--test-clock", shown)
        self.assertNotIn("--enable-coredumps", self.offered("espalier", "serve", "--e"))
        self.assertIn("--memory-limit", self.offered("espalier", "serve", "--m"))

    def test_connections_beyond_the_limit(self) -> None:
        self.start("-c", "3")
        clients = [self.client() for _ in range(3)]
        for client in clients:
            self.assertEqual(client.ask("mn"), "MN")
        for _ in range(2):
            with Client(self.path) as refused:
                self.assertEqual(refused.replies.read(), b"ERROR Too many open connections\r\n")
        self.assertEqual(clients[0].stats()["rejected_connections"], "2")
        clients.pop().close()
        while clients[0].stats()["curr_connections"] != "2":
            time.sleep(0.01)
        self.assertEqual(self.client().ask("mn"), "MN")

    def test_connections_that_wait_at_the_limit(self) -> None:
        self.start("-c", "2", "-o", "no_maxconns_fast")
        first, second = self.client(), self.client()
        self.assertEqual(first.ask("mn") + second.ask("mn"), "MNMN")
        waiting = self.client()
        waiting.send("mn\r\n")
        self.assertEqual(first.stats()["curr_connections"], "2")
        second.close()
        self.assertEqual(waiting.replies.readline(), b"MN\r\n")
        self.assertEqual(first.stats()["rejected_connections"], "0")

    def test_a_thousand_connections(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 2000:
            self.skipTest("this process may not have so many files")
        resource.setrlimit(resource.RLIMIT_NOFILE, (2000, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        server = self.start("-c", "1100", "-b", "1100")
        clients = [self.client() for _ in range(1000)]
        for i, client in enumerate(clients):
            client.send(f"set k{i} 0 0 4 noreply\r\n{i:04}\r\nget k{i}\r\n")
        for i, client in enumerate(clients):
            self.assertEqual(client.ask("mn", 4), f"VALUE k{i} 0 4\n{i:04}\nEND\nMN")
        self.assertEqual(clients[0].stats()["curr_connections"], "1000")
        self.end(server)
        self.assertTrue(all(client.has_ended() for client in clients))

    def test_fewer_files_than_connections(self) -> None:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = "-t", "1", "-c", "1024"  # 66 files beside the connections
        for most, connections in ((256, 190), (66, 0)):
            with self.subTest(most):
                # prlimit, so that root may not raise it either.
                command = ("setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource") if os.geteuid() == 0 else ()
                path = str(self.folder / f"s{most}")
                server = subprocess.Popen([*command, "prlimit", f"--nofile={most}:{most}", COMMAND, "serve", "-s", path, *needed],
                                          text=True, stderr=subprocess.PIPE, cwd=self.folder)
                self.addCleanup(self.stop, server)
                said = server.stderr.readline()
                if connections == 0:
                    self.assertIn("66 open files, and 1 threads need 66", said)
                    self.assertEqual(server.wait(), 2)
                    continue
                self.assertIn(f"-c 1024: this process may have 256 open files, which are {connections} connections", said)
                servers.wait_for(pathlib.Path(path), server)
                self.assertEqual(self.client(path).stats()["max_connections"], str(connections))
                self.end(server)
        self.assertEqual(resource.getrlimit(resource.RLIMIT_NOFILE), limits)

    def test_the_families_of_an_exporter(self) -> None:
        self.start("-t", "1")
        client = self.client()
        self.assertEqual(client.ask("set k 0 0 1\r\nx"), "STORED")
        shown = {which: client.stats(which) for which in FAMILIES}
        absent = {family for which, families in FAMILIES.items() for family, rows in families.items()
                  if not set(rows.split()) <= set(shown[which])}
        self.assertEqual(absent, {f"lru_crawler_{name}" for name in (
            "sleep", "to_crawl", "hot_percent", "warm_percent", "hot_max_factor", "warm_max_factor", "moves_to_cold_total",
            "moves_to_warm_total", "moves_within_lru_total")} | {f"slab_{name}" for name in (
                "hot_items", "warm_items", "cold_items", "temporary_items", "hot_age_seconds", "warm_age_seconds",
                "lru_hits_total", "items_moves_to_cold", "items_moves_to_warm", "items_moves_within_lru",
                "items_tailrepairs_total")})
        # A row that comes twice would be one metric twice, which the exporter refuses.
        self.assertNotIn("1:mem_requested", shown["slabs"])
        self.assertEqual((len(absent), sum(map(len, FAMILIES.values()))), (20, 70))

    def test_no_more_files(self) -> None:
        server = self.start()
        client = self.client()
        self.assertEqual(client.ask("mn"), "MN")
        limit = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (4, limit[1]))
        waiting = self.client()
        waiting.send("mn\r\n")
        while client.stats()["accepting_conns"] != "0":
            time.sleep(0.01)
        self.assertEqual(client.ask("set k 0 0 1\r\nx"), "STORED")
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, limit)
        self.assertEqual(waiting.replies.readline(), b"MN\r\n")
        found = client.stats()
        self.assertNotEqual(found["listen_disabled_num"], "0")
        self.assertGreater(int(found["time_in_listen_disabled_us"]), 0)

    def test_a_kernel_that_does_little_at_a_time(self) -> None:
        library = compiled(FICKLE_KERNEL, "-shared", "-fPIC", "-ldl")
        self.start("-t", "1", environment={"LD_PRELOAD": str(library), "ASAN_OPTIONS": "verify_asan_link_order=0"})
        first, second = self.client(), self.client()
        value = "".join(f"{i:05}" for i in range(600))
        for n in range(3):
            for client in (first, second):
                client.send(f"set k{n} 0 0 {len(value)}\r\n{value}\r\nget k{n} none k{n}\r\nmg k{n} s\r\n")
        hit = f"VALUE k{{0}} 0 {len(value)}\n{value}\n"
        expected = "".join(f"STORED\n{hit}{hit}END\nHD s{len(value)}\n".replace("{0}", str(n)) for n in range(3))
        for client in (first, second):
            self.assertTrue(client.ask("mn", 3 * 7 + 1) == expected + "MN")
        large = value * 20
        first.send(f"set large 0 0 {len(large)}\r\n{large}\r\nget large large\r\nmn\r\n")
        hit = f"VALUE large 0 {len(large)}\n{large}\n"
        self.assertTrue(first.ask("mn", 8) == f"STORED\n{hit}{hit}END\nMN\nMN")

    def test_histories_of_a_key_are_linearizable(self) -> None:
        server = self.start("-t", "3", "-R", "100")
        clients = [self.client() for _ in range(3)]
        chance = random.Random(5)
        states, version = {None}, "1"
        for _ in range(60):
            lanes = [[(chance.choice(("get", "gets", "set", "add", "replace", "append", "prepend", "cas", *["incr"] * 6,
                                      "delete")), str(chance.randrange(1, 1000)), version) for _ in range(14)]
                     for _ in clients]
            asked = []
            for lane in lanes:
                text, are_quiet = "", [verb[:3] != "get" and chance.random() < 0.1 for verb, _, _ in lane]
                for (verb, argument, given), is_quiet in zip(lane, are_quiet):
                    noreply = " noreply" if is_quiet else ""
                    if verb in ("get", "gets", "delete", "incr"):
                        text += f"{verb} k{' ' + argument if verb == 'incr' else ''}{noreply}\r\n"
                    else:
                        text += (f"{verb} k 0 0 {len(argument)}{' ' + given if verb == 'cas' else ''}{noreply}\r\n"
                                 f"{argument}\r\n")
                asked.append((text, are_quiet))
            # All of them wait for the server, so that its threads begin together.
            server.send_signal(signal.SIGSTOP)
            for client, (text, _) in zip(clients, asked):
                client.send(text + "mn\r\n")
            server.send_signal(signal.SIGCONT)
            history = []
            for client, lane, (_, are_quiet) in zip(clients, lanes, asked):
                lines = [line.decode().rstrip("\r\n") for line in iter(client.replies.readline, b"MN\r\n")]
                answered = []
                for command, is_quiet in zip(lane, are_quiet):
                    count = 0 if is_quiet else 3 if lines[0].startswith("VALUE") else 1
                    answered.append((command, "\n".join(lines[:count])))
                    del lines[:count]
                self.assertEqual(lines, [], "a reply to no command")
                history.append(answered)
            states = linearized(states, history)
            self.assertTrue(states, history)
            version = next((state[1] for state in states if state and state[1]), version)

    def test_large_values_in_pieces(self) -> None:
        self.start("-I", "20m", "-m", "100")
        client = self.client()
        for size in (70_000, 1_000_000, 5_000_000):
            value = bytes(range(256)) * (size // 256)
            message = b"set k 0 0 %d\r\n%s\r\nget k\r\n" % (len(value), value)
            for at in range(0, len(message), 99_991):
                client.send(message[at:at + 99_991])
            self.assertEqual(client.replies.readline(), b"STORED\r\n")
            self.assertEqual(client.replies.readline(), b"VALUE k 0 %d\r\n" % len(value))
            self.assertTrue(client.replies.read(len(value)) == value)
            self.assertEqual(client.replies.readline() + client.replies.readline(), b"\r\nEND\r\n")

    def test_large_values_of_the_binary_protocol(self) -> None:
        self.start()
        client = self.client()
        value = bytes(range(256)) * 4000
        # No byte follows the value.
        client.send(struct.pack("!BBHBBHIIQII", 0x80, 1, 1, 8, 0, 0, 9 + len(value), 7, 0, 0, 0) + b"k" + value)
        self.assertEqual(client.replies.read(16), struct.pack("!BBHBBHII", 0x81, 1, 0, 0, 0, 0, 0, 7))
        client.replies.read(8)  # the version
        client.send(struct.pack("!BBHBBHIIQ", 0x80, 0, 1, 0, 0, 0, 1, 8, 0) + b"k")
        self.assertEqual(client.replies.read(28)[:16], struct.pack("!BBHBBHII", 0x81, 0, 0, 4, 0, 0, 4 + len(value), 8))
        self.assertTrue(client.replies.read(len(value)) == value)

    def test_a_client_that_sends_no_more_has_all_replies(self) -> None:
        self.start()
        client = self.client()
        commands = "".join(f"set k{i} 0 0 3\r\nabc\r\nget k{i}\r\n" for i in range(5000))
        client.send(commands + "get k1")  # the last one has no end
        client.socket.shutdown(socket.SHUT_WR)
        self.assertEqual(client.replies.read().count(b"END\r\n"), 5000)
        # And one that says so, with a reply that the socket does not hold.
        leaves = self.client()
        self.assertEqual(leaves.ask(f"set k 0 0 900000\r\n{'v' * 900_000}"), "STORED")
        leaves.send("get k\r\nquit\r\n")
        self.assertEqual(leaves.replies.read(), b"VALUE k 0 900000\r\n" + b"v" * 900_000 + b"\r\nEND\r\n")

    def test_a_client_that_reads_nothing(self) -> None:
        server = self.start("-t", "1")
        other, slow = self.client(), self.client()
        size = 500_000
        other.send(b"set k 0 0 %d\r\n%s\r\n" % (size, b"v" * size))
        self.assertEqual(other.replies.readline(), b"STORED\r\n")
        slow.send("get k\r\n" * 1000 + "mn\r\n")
        for _ in range(100):
            self.assertEqual(other.ask("mg k s"), f"HD s{size}")
        self.assertLess(self.resident(server), 250_000)
        for _ in range(1000):
            self.assertEqual(slow.replies.readline(), b"VALUE k 0 %d\r\n" % size)
            self.assertEqual(len(slow.replies.read(size + 2)), size + 2)
            self.assertEqual(slow.replies.readline(), b"END\r\n")
        self.assertEqual(slow.replies.readline(), b"MN\r\n")

    def resident(self, server: subprocess.Popen[str]) -> int:
        """Kilobytes."""
        return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{server.pid}/status").read_text())[1])

    def test_values_that_do_not_come_whole_take_memory_of_the_cache(self) -> None:
        server = self.start("-t", "1", "-m", "16")
        other = self.client()
        clients = [self.client() for _ in range(60)]
        before = self.resident(server)
        for client in clients:
            client.send(b"set k 0 0 1000000\r\n" + b"v" * 900_000)
        while int(other.stats()["bytes_read"]) < 60 * 900_000:
            time.sleep(0.01)
        self.assertEqual(other.stats()["store_no_memory"], "52", "half of the memory is for values to come")
        self.assertLess(self.resident(server) - before, 20_000)
        self.assertEqual(other.ask("set small 0 0 1\r\n1"), "STORED")
        for client in clients:
            client.close()
        while other.stats()["curr_connections"] != "1":
            time.sleep(0.01)
        self.assertEqual(other.ask("set k 0 0 1000000\r\n" + "w" * 1_000_000), "STORED")

    def test_large_replies_that_are_not_read_take_memory_of_the_cache(self) -> None:
        server = self.start("-t", "1", "-m", "16")
        other = self.client()
        self.assertEqual(other.ask("set k 0 0 1000000\r\n" + "v" * 1_000_000), "STORED")
        slow = [self.client() for _ in range(60)]
        before = self.resident(server)
        for client in slow:
            client.send("get k\r\n" * 10)
        while int(other.stats()["get_hits"]) < 60:
            time.sleep(0.01)
        self.assertLess(self.resident(server) - before, 20_000)
        # What is being sent stays as it was.
        self.assertEqual(other.ask("set k 0 0 1000000\r\n" + "w" * 1_000_000), "STORED")
        for client in slow[:3]:
            self.assertEqual(client.replies.readline(), b"VALUE k 0 1000000\r\n")
            self.assertTrue(client.replies.read(1_000_000) == b"v" * 1_000_000)

    def test_the_limit_of_memory_changes(self) -> None:
        server = self.start("-t", "1", "-m", "16")
        client = self.client()

        def fill() -> int:
            for key in range(400):
                client.send(f"set key{key} 0 0 100000 noreply\r\n{'x' * 100_000}\r\n")
            self.assertEqual(client.ask("mn"), "MN")
            return int(client.stats()["curr_items"])

        before = fill()
        self.assertEqual(client.ask("cache_memlimit 64"), "OK")
        self.assertEqual(client.stats("settings")["maxbytes"], str(64 << 20))
        self.assertGreater(before, 100)
        self.assertEqual(fill(), 400)
        full = self.resident(server)
        self.assertEqual(client.ask("cache_memlimit 8"), "OK")
        while int(client.stats()["used_bytes"]) > 8 << 20:  # the rest goes each second
            time.sleep(0.1)
        self.assertLess(self.resident(server), full - 24_000)
        self.assertGreater(int(client.stats()["curr_items"]), before * 2 // 5)
        # Where there are no more addresses it starts, and cannot grow.
        server.kill()
        server.wait()
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, limits[1]))
        try:
            self.start("-t", "1", "-m", "16")
            refused = self.ended(2, "serve", "-s", str(self.folder / "other"), "-m", "1000").stderr
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)
        self.assertIn("does not provide that many megabytes", refused)
        client = self.client()
        self.assertIn("it is from 8 to 16", client.ask("cache_memlimit 17"))
        self.assertEqual(client.ask("cache_memlimit 8"), "OK")

    def test_watchers(self) -> None:
        server = self.start("-t", "2", "-o", "watcher_logbuf_size=8", "--idle-timeout", "1", "--test-clock")
        client = self.client()
        self.assertEqual(client.ask("debugtime p"), "OK")
        watchers = [self.client() for _ in range(3)]
        for watcher in watchers:
            self.assertEqual(watcher.ask("watch fetchers mutations"), "OK")
        client.ask("set k 0 0 2\r\nhi")
        for watcher in watchers[:2]:
            lines = watcher.replies.readline() + watcher.replies.readline()
            self.assertRegex(lines.decode(), r"^ts=\d+\.\d+ gid=1 type=item_get key=k status=not_found clsid=1 cfd=\d+ size=0\n"
                                             r"ts=\d+\.\d+ gid=2 type=item_store key=k status=stored cmd=set ttl=0 clsid=1 cfd=\d+ size=2\n$")
        # One that leaves, and one that reads nothing: lines are skipped, and no client waits.
        watchers[0].close()
        key = "x" * 250
        while int(client.stats()["log_watcher_skipped"]) < 10_000:
            client.send(f"get {key}\r\n" * 1000 + "mn\r\n")
            for line in iter(client.replies.readline, b"MN\r\n"):
                self.assertEqual(line, b"END\r\n")
        while client.stats()["log_watchers"] != "2":
            time.sleep(0.01)
        # Each thread has an idle connection, which a watcher is not.
        idle = [self.client() for _ in range(2)]
        for one in idle:
            self.assertEqual(one.ask("mn"), "MN")
        self.assertEqual(client.ask("debugtime 2"), "OK")
        self.assertTrue(all(one.has_ended() for one in idle))
        watchers[1].send("what a watcher sends is not read\r\n")
        slow, seen = watchers[2].replies, 0
        for line in iter(slow.readline, None):
            if line.startswith(b"skipped="):
                break
            self.assertTrue(line.endswith(b"\n") and line.startswith(b"ts="), line)
            seen += 1
        self.assertGreater(seen, 10)
        # One whose first reply waits for its reader, behind a large value.
        self.assertEqual(self.client().ask(f"set large 0 0 900000\r\n{'x' * 900_000}"), "STORED")
        late = self.client()
        late.send("get large\r\nwatch\r\n")
        self.assertEqual(late.replies.readline(), b"VALUE large 0 900000\r\n")
        self.assertEqual(late.replies.read(900_002 + 9)[900_000:], b"\r\nEND\r\nOK\r\n")
        self.assertEqual(self.client().ask("get none"), "END")
        self.assertTrue(any(b" key=none " in line for line in iter(late.replies.readline, b"")))
        self.end(server)
        self.start("-W")
        self.assertEqual(self.client().ask("watch"), "CLIENT_ERROR watch commands not allowed")

    def test_clients_that_leave_in_the_middle(self) -> None:
        server = self.start("-t", "1")
        other = self.client()
        self.assertEqual(other.ask(f"set k 0 0 50000\r\n{'v' * 50000}"), "STORED")
        for i in range(60):
            with Client(self.path) as client:
                client.send(("set x 0 0 100000\r\nabc", "get k\r\n" * 200, "get k")[i % 3])
        while other.stats()["curr_connections"] != "1":
            time.sleep(0.01)
        self.end(server)

    def test_it_takes_turns(self) -> None:
        self.start("-t", "1", "-R", "3")
        client = self.client()
        client.send("mn\r\n" * 1000)
        self.assertEqual(client.replies.read(4000), b"MN\r\n" * 1000)
        self.assertGreater(int(client.stats()["conn_yields"]), 50)

    def test_idle_connections_are_closed_and_slow_readers_are_not(self) -> None:
        self.start("-t", "1", "--idle-timeout", "1", "--test-clock")
        busy, slow, idle = self.client(), self.client(), self.client()
        size, times = 500_000, 16
        self.assertEqual(busy.ask(f"debugtime p\r\nset k 0 0 {size}\r\n{'v' * size}", 2), "OK\nSTORED")
        slow.send("get k\r\n" * times + "mn\r\n")
        received = b""
        for _ in range(4):
            # The slow one reads until more was sent to it than the statistics are, then a second passes.
            before = int(busy.stats()["bytes_written"])
            while int(busy.stats()["bytes_written"]) < before + size:
                received += slow.replies.read(size // 4)
            self.assertEqual(busy.ask("debugtime 1"), "OK")
        while busy.stats()["idle_kicks"] == "0":
            time.sleep(0.02)
        self.assertTrue(idle.has_ended())
        while not received.endswith(b"MN\r\n"):
            line = slow.replies.readline()
            self.assertNotEqual(line, b"", "the slow reader was taken for idle")
            received += line
        self.assertEqual(received.count(b"END\r\n"), times)
        self.assertEqual(busy.stats()["idle_kicks"], "1")

    def test_a_client_that_reads_what_the_kernel_has_is_not_idle(self) -> None:
        self.start("-t", "1", "--idle-timeout", "1", "--test-clock")
        busy, slow, dead = self.client(), self.client(), self.client()
        self.assertEqual(busy.ask("debugtime p"), "OK")
        for n in range(4):
            self.assertEqual(busy.ask(f"set k{n} 0 0 500000\r\n{'v' * 500_000}"), "STORED")
        for client in (slow, dead):
            client.send("get k0 k1 k2 k3\r\n")
        received = {slow: 0, dead: 0}

        def read(client: Client, most: int) -> bool:
            now = len(client.socket.recv(most))
            received[client] += now
            return now != 0

        for read_so_far, kicks in ((40_000, 1), (80_000, 3), (120_000, 4)):
            while received[slow] < read_so_far:  # less than makes room for more
                read(slow, read_so_far - received[slow])
            idle = self.client()
            self.assertEqual(idle.ask("mn"), "MN")
            self.assertEqual(busy.ask("debugtime 10"), "OK")
            while int(busy.stats()["idle_kicks"]) < kicks:
                time.sleep(0.02)
            self.assertTrue(idle.has_ended())
        while received[slow] < 4 * 500_000 and read(slow, 1 << 20):
            pass
        self.assertGreater(received[slow], 4 * 500_000 - 1, "the slow reader was taken for idle")
        while read(dead, 1 << 20):
            pass
        self.assertLess(received[dead], 4 * 500_000)

    def test_an_idle_server_sleeps(self) -> None:
        server = self.start("-t", "2")
        client = self.client()
        self.assertEqual(client.ask("mn"), "MN")
        tasks = sorted(pathlib.Path(f"/proc/{server.pid}/task").iterdir(), key=lambda task: int(task.name))

        def wakes() -> list[int]:
            return [int(re.search(r"\nvoluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text())[1]) for task in tasks]
        # On a busy machine a thread may still fall asleep in the first of them, and have no processor in another.
        for _ in range(10):
            began, before = time.monotonic(), wakes()
            time.sleep(3)
            after, seconds = wakes(), time.monotonic() - began
            usual = range(1, int(2 * seconds) + 4)
            if after[1:] == before[1:] and after[0] - before[0] in usual:
                break
        self.assertEqual(after[1:], before[1:])
        self.assertIn(after[0] - before[0], usual)

    def test_signals(self) -> None:
        for end in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            with self.subTest(end):
                server = self.start("-P", "pid")
                self.assertEqual((self.folder / "pid").read_text(), f"{server.pid}\n")
                client, half = self.client(), self.client()
                half.send("set k 0 0 100\r\nabc")
                server.send_signal(signal.SIGHUP)
                server.send_signal(signal.SIGPIPE)
                self.assertEqual(client.ask("mn"), "MN")
                self.end(server, end)
                self.assertTrue(client.has_ended() and half.has_ended())
                self.assertEqual(sorted(os.listdir(self.folder)), ["ports"])

    def test_users(self) -> None:
        file = self.folder / "users"
        file.write_text("one:pw\ntwo\n")
        self.assertRegex(self.refused("serve", "-Y", str(file)), "line 2 is not NAME:PASSWORD")
        file.write_text("one:pw\n")
        server = self.start("-Y", "users")
        first, second = self.client(), self.client()
        self.assertEqual(first.ask("get a"), "CLIENT_ERROR unauthenticated")
        self.assertEqual(first.ask("set a 0 0 6\r\none pw"), "STORED")
        self.assertEqual(first.stats("settings")["auth_enabled_ascii"], str(file))
        for lines, said in (("one:other\n", ""), ("one\n", f"espalier serve: -Y {file}: line 1 is not NAME:PASSWORD; what it had stays\n")):
            file.write_text(lines)
            server.send_signal(signal.SIGHUP)
            if said:
                self.assertEqual(server.stderr.readline(), said)
            while second.ask("set a 0 0 6\r\none pw") == "STORED":  # until the file has been read
                second = self.client()
            self.assertEqual(second.ask("set a 0 0 9\r\none other"), "STORED")
            second = self.client()
        self.assertEqual(first.ask("get a"), "END")
        self.end(server)

    def test_tls(self) -> None:
        if not (pathlib.Path(COMMAND).parent.parent / "serve/espalier-serve-tls").exists() or not shutil.which("openssl"):
            self.skipTest("there is no OpenSSL")
        keys = {name: str(self.folder / name) for name in ("one.crt", "one.key", "two.crt", "two.key")}
        for name in ("one", "two"):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                            "-keyout", keys[name + ".key"], "-out", keys[name + ".crt"]], check=True, capture_output=True)
        chain, key = str(self.folder / "chain"), str(self.folder / "key")

        def use(name: str) -> None:
            shutil.copy(keys[name + ".crt"], chain)
            shutil.copy(keys[name + ".key"], key)

        use("one")
        options = ("-t", "1", "-Z", "-o", f"ssl_chain_cert={chain},ssl_key={key}", "-o", f"ssl_ca_cert={keys['one.crt']}")
        self.assertIn("ssl_ciphers", self.refused("serve", *options, "-o", "ssl_ciphers=none"))
        self.assertIn("ssl_key", self.refused("serve", *options, "-o", f"ssl_key={keys['two.key']}"))
        for name in ("ssl_chain_cert", "ssl_key", "ssl_ca_cert"):
            self.assertRegex(self.refused("serve", *options, "-o", f"{name}=none"), f"-o {name}=.*none: No such file")
        with socket.socket() as free, socket.socket() as other:
            # Where no other program's connections have ports.
            free.bind(("127.0.0.2", 0))
            other.bind(("127.0.0.3", 0))
            plain, strict = free.getsockname(), other.getsockname()
        server = self.start(*options, "-l", f"127.0.0.1,notls:{plain[0]}:{plain[1]},mtls:{strict[0]}:{strict[1]}", tcp=True)
        port = int(re.search(r"TCP INET: (\d+)", (self.folder / "ports").read_text()).group(1))

        def secured(trusts: str = "one", to: tuple[str, int] = ("127.0.0.1", port), shows: str | None = None,
                    most: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED, notes_the_end: bool = False) -> Client:
            context = ssl.create_default_context(cafile=keys[trusts + ".crt"])
            context.check_hostname = False
            context.maximum_version = most
            if notes_the_end:
                context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
            if shows:
                context.load_cert_chain(keys[shows + ".crt"], keys[shows + ".key"])
            made = Client(to)
            self.addCleanup(made.close)
            made.replies.close()
            made.socket = context.wrap_socket(made.socket, suppress_ragged_eofs=not notes_the_end)
            made.replies = made.socket.makefile("rb")
            return made

        client = secured()
        self.assertEqual(client.ask("set k 0 0 5\r\nvalue"), "STORED")
        self.assertEqual(self.client(plain).ask("get k", 3), "VALUE k 0 5\nvalue\nEND")
        # More than the socket and a record hold, each way, and many commands in one record.
        large = random.Random(1).randbytes(900_000)
        for _ in range(3):
            client.send(b"set large 0 0 %d\r\n%b\r\n" % (len(large), large) + b"mn\r\n" * 500)
            self.assertEqual(client.replies.readline(), b"STORED\r\n")
            self.assertEqual(client.replies.read(4 * 500), b"MN\r\n" * 500)
        # A record that is longer than what is received at once after such a value.
        client.send(b"set large 0 0 %d\r\n%b\r\n" % (len(large), large))
        self.assertEqual(client.replies.readline(), b"STORED\r\n")
        client.send(b"mn\r\n" * 1000)
        self.assertEqual(client.replies.read(4 * 1000), b"MN\r\n" * 1000)
        leaves = secured(notes_the_end=True)
        for one, last in ((client, b""), (leaves, b"quit\r\n")):
            one.send(b"get large\r\n" * 10 + last)
            time.sleep(0.1)  # the replies fill the socket
            for _ in range(10):
                self.assertEqual(one.replies.readline(), b"VALUE large 0 900000\r\n")
                self.assertEqual(one.replies.read(len(large) + 7), large + b"\r\nEND\r\n")
        self.assertEqual(leaves.replies.read(1), b"")  # and TLS said so
        # More values than one call sends, which the socket holds.
        many = "\r\n".join(f"set k{n} 0 0 17000\r\n{'x' * 17000}" for n in range(50))
        self.assertEqual(client.ask(many, 50), "\n".join(["STORED"] * 50))
        client.send(f"get {' '.join(f'k{n}' for n in range(50))}\r\n")
        expected = b"".join(b"VALUE k%d 0 17000\r\n%b\r\n" % (n, b"x" * 17000) for n in range(50)) + b"END\r\n"
        self.assertEqual(client.replies.read(len(expected)), expected)
        shown = client.stats("settings")
        self.assertEqual((shown["ssl_enabled"], shown["ssl_chain_cert"]), ("yes", chain))
        # What speaks no TLS, and what has no certificate where one is demanded.
        junk = self.client(("127.0.0.1", port))
        junk.send("version\r\n" * 20)
        with contextlib.suppress(ConnectionResetError):
            while junk.replies.read(1000):  # an alert of TLS
                pass
        self.assertEqual(client.stats()["ssl_handshake_errors"], "1")
        self.assertEqual(secured(to=strict, shows="one").ask("mn"), "MN")
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            stranger = secured(to=strict)
            if not stranger.ask("mn"):
                raise ConnectionError
        # New certificates are for new connections.
        use("two")
        self.assertEqual(client.ask("refresh_certs"), "OK")
        self.assertEqual(secured("two").ask("mn"), "MN")
        with self.assertRaises(ssl.SSLError):
            secured("one")
        pathlib.Path(key).write_text("")
        self.assertRegex(client.ask("refresh_certs"), "^SERVER_ERROR -o ssl_key=.*")
        self.assertEqual(secured("two").ask("mn"), "MN")
        self.end(server)
        # What each version and each mode asks of a client.
        use("one")
        server = self.start(*options, "-l", "127.0.0.1", "-o", "ssl_min_version=3", tcp=True)
        here = "127.0.0.1", int(self.ports["INET"])
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            secured(to=here, most=ssl.TLSVersion.TLSv1_2)
        self.assertEqual(secured(to=here).ask("mn"), "MN")
        self.end(server)
        for mode, takes_strangers in ("0", True), ("1", True), ("2", False), ("3", False):
            with self.subTest(mode=mode):
                server = self.start(*options, "-l", "127.0.0.1", "-o", f"ssl_verify_mode={mode}", tcp=True)
                here = "127.0.0.1", int(self.ports["INET"])
                self.assertEqual(secured(to=here, shows="one").ask("mn"), "MN")
                answer = ""
                with contextlib.suppress(ssl.SSLError, ConnectionError):
                    answer = secured(to=here).ask("mn")
                self.assertEqual(answer, "MN" if takes_strangers else "")
                self.end(server)

    def test_a_restart_keeps_the_entries(self) -> None:
        file = self.folder / "memory"
        options = ("-e", "memory", "-m", "200", "-t", "1", "-A")
        server = self.start(*options)
        client = self.client()
        self.assertEqual(client.stats("settings")["memory_file"], str(file))
        self.assertIn("another server has it", self.refused_start(*options))
        count = 20_000
        client.send("".join(f"set key{i} {i} 0 {len(str(i))} noreply\r\n{i}\r\n" for i in range(count)))
        large = random.Random(1).randbytes(700_000)
        client.send(b"set large 0 0 %d\r\n%b\r\n" % (len(large), large))
        self.assertEqual(client.replies.readline(), b"STORED\r\n")
        for command in ("set short 0 1 1\r\n1", "set long 0 10000 1\r\n2"):
            self.assertEqual(client.ask(command), "STORED")
        version = client.ask("gets key7", 3)
        for end in (lambda: server.send_signal(signal.SIGUSR1), lambda: client.send("shutdown graceful\r\n")):
            end()
            self.assertEqual((server.wait(), server.stderr.read()), (0, ""))
            self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
            time.sleep(1.1)  # the second of the shortest has passed
            server = self.start(*options)
            client = self.client()
            for first in range(0, count, 1000):
                some = range(first, first + 1000)
                client.send("".join(f"get key{i}\r\n" for i in some))
                expected = b"".join(b"VALUE key%d %d %d\r\n%d\r\nEND\r\n" % (i, i, len(str(i)), i) for i in some)
                self.assertEqual(client.replies.read(len(expected)), expected)
            self.assertEqual(file.stat().st_size, 0)
            self.assertEqual(client.ask("gets key7", 3), version)
            client.send("get large\r\n")
            self.assertEqual(client.replies.readline(), b"VALUE large 0 700000\r\n")
            self.assertEqual(client.replies.read(len(large) + 7), large + b"\r\nEND\r\n")
            self.assertEqual(client.ask("get short"), "END")
            left = int(client.ask("mg long t").split("t")[1])
            self.assertTrue(0 < left < 10000, left)
        # It was for one start.
        server.kill()
        server.wait()
        server = self.start(*options)
        self.assertEqual(self.client().ask("get key1"), "END")
        self.client().ask("set k 0 0 1\r\n1")
        self.end(server, signal.SIGTERM)
        self.assertEqual(file.stat().st_size, 0)

        def begins_empty(content: bytes, why: str) -> None:
            file.write_bytes(content)
            server = self.start(*options)
            self.assertEqual(self.client().ask("get k"), "END")
            self.end(server, signal.SIGTERM, f"espalier serve: -e {file}: {why}; the cache starts empty\n")

        server = self.start(*options)
        self.client().ask("set k 0 0 1\r\n1")
        self.end(server, signal.SIGUSR1)
        whole = file.read_bytes()
        begins_empty(whole[:-10], "it is not whole")
        begins_empty(b"espalier cache 0" + whole[16:], "it was not closed, or has been read")
        for other in (whole[:20], bytes(72) + whole[72:], b"x" + whole[1:], b"a letter\n"):
            file.write_bytes(other)
            self.assertIn("it is a file of something else", self.refused_start(*options))
            self.assertEqual(file.read_bytes(), other)
        begins_empty(whole[:16] + b"9" + whole[17:], "it is of another version")
        begins_empty(whole[:48] + whole[48:52][::-1] + whole[52:], "it is of another machine")
        for at in (88, 112, 129):  # of the one record
            begins_empty(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:], "it was changed")

    def keep_some(self, *options: str, environment: dict[str, str] | None = None, said: str = "") -> None:
        """Leaves entries, one of them of 9 MB, in the file "memory"."""
        server = self.start("-e", "memory", "-P", "pid", *options, environment=environment)
        client = self.client()
        self.assertEqual(client.ask("set before 0 0 1\r\n1"), "STORED")
        self.assertEqual(client.ask(f"set large 0 0 9000000\r\n{'x' * 9_000_000}"), "STORED")
        self.assertEqual(client.ask("set after 0 0 1\r\n2"), "STORED")
        self.end(server, signal.SIGUSR1, said, status=1 if said else 0)

    def test_a_restart_with_less_memory_leaves_out_what_is_too_large(self) -> None:
        self.keep_some("-m", "64", "-I", "16m")
        server = self.start("-e", "memory", "-m", "4")
        client = self.client()
        self.assertEqual([client.ask(f"mg {key}") for key in ("before", "large", "after")], ["HD", "EN", "HD"])
        self.end(server)

    def test_a_start_that_is_killed_while_it_reads_the_file(self) -> None:
        self.keep_some("-m", "64", "-I", "16m")
        library = compiled(r"""
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
int fallocate(int fd, int mode, off_t from, off_t bytes) {
  syscall(SYS_fallocate, fd, mode, from, bytes);
  return raise(SIGKILL);
}
""", "-shared", "-fPIC")
        options = ("-e", "memory", "-m", "64", "-I", "16m")
        killed = subprocess.run([COMMAND, "serve", "-s", self.path, *options], cwd=self.folder, capture_output=True,
                                env={**os.environ, "LD_PRELOAD": str(library), "ASAN_OPTIONS": "verify_asan_link_order=0"})
        self.assertEqual(killed.returncode, -signal.SIGKILL)
        server = self.start(*options)
        self.assertEqual(self.client().ask("get before after"), "END")
        self.end(server, said=f"espalier serve: -e {self.folder / 'memory'}: it was not closed, or has been read; "
                              "the cache starts empty\n")

    def test_no_signal_ends_it_while_it_writes_the_file(self) -> None:
        library = compiled(r"""
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
int ftruncate(int fd, off_t bytes) {
  kill(getpid(), SIGTERM);
  kill(getpid(), SIGINT);
  kill(getpid(), SIGHUP);
  kill(getpid(), SIGUSR1);
  return syscall(SYS_ftruncate, fd, bytes);
}
""", "-shared", "-fPIC")
        self.keep_some("-m", "64", "-I", "16m",
                       environment={"LD_PRELOAD": str(library), "ASAN_OPTIONS": "verify_asan_link_order=0"})
        self.assertEqual(sorted(os.listdir(self.folder)), ["memory", "ports"])
        server = self.start("-e", "memory", "-m", "64", "-I", "16m")
        self.assertEqual(self.client().ask("get after", 3), "VALUE after 0 1\n2\nEND")
        self.end(server)

    def test_the_file_is_kept_by_calls_that_fail(self) -> None:
        library = compiled(r"""
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
static long most(const char* name) { return getenv(name) == NULL ? 1L << 40 : atol(getenv(name)); }
/* A call for a file, unless for the few bytes of one with a number, is interrupted, and the next one does half of its work. */
static int part(int call, int fd, size_t* bytes) {
  static int calls;
  struct stat file;
  if (*bytes < 16 || fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) return 0;
  int error = calls++ % 2 == 0 ? EINTR : 0;
  if (call == SYS_write && file.st_size + (off_t)*bytes > most("ROOM")) error = ENOSPC;
  if (call == SYS_read && lseek(fd, 0, SEEK_CUR) + (off_t)*bytes > most("READABLE")) error = EIO;
  if (error != 0) errno = error;
  *bytes = (*bytes + 1) / 2;
  return error != 0;
}
ssize_t write(int fd, const void* from, size_t bytes) {
  return part(SYS_write, fd, &bytes) ? -1 : syscall(SYS_write, fd, from, bytes);
}
ssize_t read(int fd, void* to, size_t bytes) {
  return part(SYS_read, fd, &bytes) ? -1 : syscall(SYS_read, fd, to, bytes);
}
""", "-shared", "-fPIC")
        faults = {"LD_PRELOAD": str(library), "ASAN_OPTIONS": "verify_asan_link_order=0"}
        sizes = "-m", "64", "-I", "16m"
        file = self.folder / "memory"

        def found(said: str = "", **more: str) -> list[str]:
            server = self.start("-e", "memory", *sizes, environment={**faults, **more})
            client = self.client()
            found = [client.ask(f"mg {key}") for key in ("before", "large", "after")]
            self.assertEqual(file.stat().st_size, 0)
            self.end(server, said=said and f"espalier serve: -e {file}: {said}; the cache starts empty\n")
            return found

        self.keep_some(*sizes, environment=faults)
        self.assertEqual(found(), ["HD"] * 3)
        self.keep_some(*sizes)
        self.assertEqual(found("Input/output error", READABLE="4000000"), ["EN"] * 3)
        self.keep_some(*sizes, environment={**faults, "ROOM": "5000000"},
                       said=f"espalier serve: -e {file}: No space left on device; the next cache starts empty\n")
        self.assertEqual(found(), ["EN"] * 3)

    def test_a_flush_to_come_comes_after_a_restart(self) -> None:
        options = ("-e", "memory", "-t", "1", "--test-clock")
        server = self.start(*options)
        client = self.client()
        self.assertEqual(client.ask("set k 0 0 1\r\n1"), "STORED")
        self.assertEqual(client.ask("flush_all 1000"), "OK")
        self.end(server, signal.SIGUSR1)
        server = self.start(*options)
        client = self.client()
        self.assertEqual(client.ask("get k", 3), "VALUE k 0 1\n1\nEND")
        self.assertEqual(client.ask("debugtime 1000"), "OK")
        self.assertEqual(client.ask("get k"), "END")
        self.end(server)

    def refused_start(self, *options: str) -> str:
        done = subprocess.run([COMMAND, "serve", "-s", self.path + "2", *options], cwd=self.folder, text=True, capture_output=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_options_of_slabs_have_no_effect(self) -> None:
        server = self.start("-f", "1.25", "--slab-min-size=48", "-L", "-o", "modern,slab_reassign,no_lru_crawler,hashpower=20")
        self.assertEqual(self.client().ask("mn"), "MN")
        self.end(server, said="espalier serve: -f, -n, -L, -o modern, -o slab_reassign, -o no_lru_crawler, -o hashpower: no effect "
                              "here, where there are no slabs, no LRUs and nothing to tune; leave it out\n")

    def test_shutdown(self) -> None:
        server = self.start("-A")
        self.client().send("shutdown\r\n")
        self.assertEqual(server.wait(), 0)

    def test_files_of_a_running_server_stay(self) -> None:
        server = self.start("-P", "pid")
        self.assertIn("another server listens", self.espalier("serve", "-s", self.path).stderr)
        self.assertIn(f"process {server.pid}", self.espalier("serve", "-s", "other", "-P", "pid").stderr)
        (self.folder / "file").write_text("kept")
        self.assertIn("no socket", self.espalier("serve", "-s", "file").stderr)
        self.assertEqual((self.folder / "file").read_text(), "kept")
        self.assertEqual(self.client().ask("mn"), "MN")
        self.assertEqual((self.folder / "pid").read_text(), f"{server.pid}\n")

    def test_files_of_a_killed_server_are_replaced(self) -> None:
        server = self.start("-P", "pid")
        server.kill()
        server.wait()
        self.assertTrue(os.path.exists(self.path) and os.path.exists(self.folder / "pid"))
        server = self.start("-P", "pid")
        self.assertEqual(self.client().ask("mn"), "MN")
        self.end(server)
        self.assertFalse(os.path.exists(self.path) or os.path.exists(self.folder / "pid"))

    def test_a_pid_file_counts_while_it_is_locked(self) -> None:
        file = self.folder / "pid"
        file.write_text(f"{os.getpid()}\n")  # of a program that runs, and is no server
        server = self.start("-P", "pid")
        self.assertEqual(file.read_text(), f"{server.pid}\n")
        self.assertIn(f"process {server.pid}", self.espalier("serve", "-d", "-s", "other", "-P", "pid").stderr)
        self.assertEqual(stat.S_IMODE(file.stat().st_mode) & 0o700, 0o600)
        # Another program's file stays.
        file.unlink()
        file.write_text("kept")
        self.end(server)
        self.assertEqual(file.read_text(), "kept")
        self.assertEqual(sorted(os.listdir(self.folder)), ["pid", "ports"])
        os.mkfifo(self.folder / "pipe")
        self.assertIn("it is no file", self.espalier("serve", "-s", "other", "-P", "pipe").stderr)

    def test_a_daemon(self) -> None:
        for closed in ("", "<&- >&- 2>&-"):
            pid, path = self.folder / f"pid{len(closed)}", str(self.folder / f"socket{len(closed)}")
            done = self.ended(0, "serve", "-d", "-s", path, "-P", str(pid), under=("sh", "-c", f'exec "$@" {closed}', "sh"))
            self.assertEqual(done.stdout + done.stderr, "")
            process = int(pid.read_text())
            self.addCleanup(lambda pid=pid, process=process: pid.exists() and os.kill(process, signal.SIGKILL))
            client = self.client(path)  # it listens already
            self.assertEqual(client.stats()["pid"], str(process))
            self.assertEqual(os.getsid(process), process)
            self.assertEqual(os.readlink(f"/proc/{process}/cwd"), "/")
            os.kill(process, signal.SIGTERM)
            self.assertTrue(client.has_ended())
            while pid.exists():
                time.sleep(0.01)

    def test_another_user(self) -> None:
        if os.geteuid() != 0:
            self.assertIn("only root", self.refused("serve", "-u", "nobody"))
            return
        self.folder.chmod(0o777)
        server = self.start("-u", "nobody", "-P", "pid")
        self.assertEqual(self.client().ask("mn"), "MN")
        status = pathlib.Path(f"/proc/{server.pid}/status").read_text()
        for name in ("Uid", "Gid"):
            self.assertEqual(set(re.search(rf"{name}:\s+(.*)", status)[1].split()), {"65534"})
        self.assertEqual((os.stat(self.path).st_uid, os.stat(self.path).st_gid), (65534, 65534))
        self.end(server)
        self.assertEqual(sorted(os.listdir(self.folder)), ["ports"])

    def test_another_user_who_may_not_remove_its_files(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        self.folder.chmod(0o755)
        for _ in range(2):  # what stays is replaced
            server = self.start("-u", "nobody", "-P", "pid")
            self.assertEqual((self.folder / "pid").read_text(), f"{server.pid}\n")
            self.end(server, said=f"espalier serve: -s {self.path}: 'nobody' may not remove it from its folder: it stays when the "
                                  f"server ends\nespalier serve: -P {self.folder}/pid: 'nobody' may not remove it from its "
                                  "folder: it stays, empty, when the server ends\n")
            self.assertEqual((self.folder / "pid").read_text(), "")
            self.assertTrue(os.path.exists(self.path))

    def test_the_test_clock(self) -> None:
        self.start("--test-clock")
        client = self.client()
        self.assertEqual(client.ask("debugtime p\r\nset k 0 100 1\r\nx", 2), "OK\nSTORED")
        self.assertEqual(client.ask("debugtime 99\r\nget k", 4), "OK\nVALUE k 0 1\nx\nEND")
        self.assertEqual(client.ask("debugtime 1\r\nget k", 2), "OK\nEND")

    def test_the_clock_advances(self) -> None:
        self.start()
        client = self.client()
        self.assertEqual(client.ask("set k 0 2 1\r\nx"), "STORED")
        while client.ask("mg k") != "EN":
            time.sleep(0.05)
        self.assertGreater(int(client.stats()["uptime"]), 0)
        self.assertLess(abs(int(client.stats()["time"]) - time.time()), 100)


if __name__ == "__main__":
    unittest.main()
