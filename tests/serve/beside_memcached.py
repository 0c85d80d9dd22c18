#!/usr/bin/env python3
"""The server beside memcached: beside_memcached.py COMMAND MEMCACHED [ROUNDS]

COMMAND is espalier, MEMCACHED that program. Both run at once, with one thread each, and have the same requests in turns; each
figure is ours over memcached's, the median of the rounds and their range. CPU is that of the server's threads, kernel included.
"""

import itertools
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = (10, 100, 1000, 10_000, 100_000)
MEGABYTES = 64


class Server:
    def __init__(self, command: list[str], path: pathlib.Path, megabytes: int) -> None:
        as_root = ["-u", "root"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen([*command, "-s", str(path), "-t", "1", "-m", str(megabytes), *as_root])
        self.socket = socket.socket(socket.AF_UNIX)
        while self.socket.connect_ex(str(path)) != 0:
            if self.process.poll() is not None:
                sys.exit(f"{command[0]} has ended")
            time.sleep(0.02)
        self.replies = self.socket.makefile("rb")

    def cpu(self) -> int:
        """Nanoseconds of all threads."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)

    def end(self) -> None:
        self.replies.close()
        self.socket.close()
        self.process.kill()
        self.process.wait()

    def set(self, keys: list[int], value: bytes) -> None:
        self.socket.sendall(b"".join(b"set key%d 0 0 %d noreply\r\n%b\r\n" % (key, len(value), value) for key in keys) + b"mn\r\n")
        while self.replies.readline() != b"MN\r\n":
            pass

    def get(self, keys: list[int]) -> list[int]:
        """Those that are missed."""
        self.socket.sendall(b"".join(b"get key%d\r\n" % key for key in keys))
        missed = []
        for key in keys:
            line = self.replies.readline()
            if line == b"END\r\n":
                missed.append(key)
            else:
                self.replies.read(int(line.split()[3]) + 7)
        return missed


def in_turns(servers: list[Server], rounds: int, measured) -> list[float]:
    """Ratios of what measured(server, round) returns."""
    ratios = []
    for turn in range(rounds):
        got = {}
        for server in servers if turn % 2 == 0 else reversed(servers):
            got[server] = measured(server, turn)
        ratios.append(got[servers[0]] / got[servers[1]])
    return ratios


def row(name: str, ratios: list[float]) -> None:
    print(f"| {name} | {statistics.median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} |", flush=True)


def cpu_and_latency(servers: list[Server], rounds: int) -> None:
    for size in SIZES:
        keys = min(20_000, MEGABYTES * 2**19 // (size + 100))
        requests = max(200, min(10_000, 200_000_000 // (size + 20_000)))
        value = b"x" * size
        for server in servers:
            for first in range(0, keys, 20):
                server.set(list(range(first, min(first + 20, keys))), value)

        def spent(server: Server, turn: int, work) -> int:
            chance = random.Random(turn)
            before = server.cpu()
            for _ in range(requests):
                work(server, [chance.randrange(keys)])
            return server.cpu() - before

        row(f"CPU, get of {size} bytes", in_turns(servers, rounds, lambda s, turn: spent(s, turn, Server.get)))
        row(f"CPU, set of {size} bytes",
            in_turns(servers, rounds, lambda s, turn: spent(s, turn, lambda t, key: t.set(key, value))))

    def waited(server: Server, turn: int, of: float) -> int:
        chance = random.Random(turn)
        times = []
        for _ in range(5000):
            key = [chance.randrange(300)]
            before = time.perf_counter_ns()
            server.get(key)
            times.append(time.perf_counter_ns() - before)
        return sorted(times)[int(len(times) * of)]

    for server in servers:
        server.set(list(range(300)), b"x" * 100)
    for name, of in (("the median", 0.5), ("the slowest in a hundred", 0.99)):
        row(f"latency, get of 100 bytes, {name}", in_turns(servers, rounds, lambda s, turn: waited(s, turn, of)))


def hit_ratio(servers: list[Server], exponent: float, size: int, keys: int, requests: int) -> float:
    """Of a client that sets what it has missed: keys by Zipf's law."""
    value = b"x" * size
    weights = [1 / rank**exponent for rank in range(1, keys + 1)]
    asked = random.Random(1).choices(range(keys), weights, k=requests)
    hits = []
    for server in servers:
        missed = 0
        for first in range(0, requests, 32):
            gone = server.get(asked[first:first + 32])
            server.set(gone, value)
            missed += len(gone)
        hits.append(1 - missed / requests)
    return hits[0] / hits[1]


def main() -> None:
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    rounds = int(sys.argv[3]) if len(sys.argv) == 4 else 5
    commands = [[sys.argv[1], "serve"], [sys.argv[2]]]
    with tempfile.TemporaryDirectory() as folder:
        sockets = (pathlib.Path(folder) / str(number) for number in itertools.count())

        def started(megabytes: int) -> list[Server]:
            return [Server(command, next(sockets), megabytes) for command in commands]

        print("| | ours over memcached's | range |\n|---|---|---|")
        servers = started(MEGABYTES)
        cpu_and_latency(servers, rounds)
        for server in servers:
            server.end()
        for exponent, size in ((0.8, 300), (1.0, 300), (0.8, 1000), (1.0, 1000)):
            servers = started(8)
            keys = 8 * 2**20 * 3 // (size + 60)
            row(f"hits, Zipf {exponent}, {size} bytes, three times as much as fits",
                [hit_ratio(servers, exponent, size, keys, 4 * keys)])
            for server in servers:
                server.end()


if __name__ == "__main__":
    main()
