#!/usr/bin/env python3
"""Three cache servers behind a proxy, of which one dies under load: what do clients see?

Starts three `espalier serve` and Debian's nutcracker (twemproxy) with ketama in front of them. A client stores keys, then
reads them all the time. One server is killed, and later started again, empty. For each phase it prints the share of hits,
misses and errors.

  examples/several_servers.py [ESPALIER]        needs nutcracker (Debian: apt-get install nutcracker)
"""

import collections
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

KEYS = 3000
EJECT_MS = 2000  # for so long the proxy asks a server no more that has failed

POOL = """cache:
  listen: 127.0.0.1:{proxy}
  hash: fnv1a_64
  distribution: ketama
  auto_eject_hosts: true
  server_failure_limit: 1
  server_retry_timeout: {eject}
  timeout: 400
  servers:
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Client:
    """One connection to the proxy, which makes another one after an error."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.stream = None

    def ask(self, line: bytes) -> bytes:
        try:
            if self.stream is None:
                self.stream = socket.create_connection(("127.0.0.1", self.port), 5).makefile("rwb")
            self.stream.write(line)
            self.stream.flush()
            first = self.stream.readline()
            if first.startswith(b"VALUE"):
                self.stream.readline()
                self.stream.readline()
            elif not first:
                raise ConnectionError
            return first
        except OSError:
            self.stream = None
            return b"error"


def kind_of(reply: bytes) -> str:
    return {b"V": "hit", b"E": "miss"}.get(reply[:1] if reply[:3] != b"ERR" else b"", "error")


def read_all(client: Client) -> collections.Counter:
    return collections.Counter(kind_of(client.ask(b"get key%d\r\n" % i)) for i in range(KEYS))


def show(phase: str, seen: collections.Counter) -> None:
    print(f"{phase:44}" + "".join(f"{kind} {100 * seen[kind] / KEYS:5.1f} %   " for kind in ("hit", "miss", "error")))


def main() -> int:
    command = sys.argv[1] if len(sys.argv) > 1 else "espalier"
    for needed in (command, "nutcracker"):
        if shutil.which(needed) is None:
            print(f"{needed} is not installed", file=sys.stderr)
            return 2
    ports = [free_port() for _ in range(3)]
    proxy = free_port()

    def serve(port: int) -> subprocess.Popen:
        return subprocess.Popen([command, "serve", "-p", str(port), "-l", "127.0.0.1", "-m", "64", "-t", "1"])

    servers = [serve(port) for port in ports]
    with tempfile.TemporaryDirectory() as folder:
        pool = pathlib.Path(folder, "pool.yml")
        pool.write_text(POOL.format(proxy=proxy, eject=EJECT_MS) +
                        "".join(f"   - 127.0.0.1:{port}:1 server{n}\n" for n, port in enumerate(ports)))
        servers.append(subprocess.Popen(["nutcracker", "-c", str(pool), "-s", str(free_port())],
                                        stderr=subprocess.DEVNULL))
        try:
            time.sleep(1)
            client = Client(proxy)
            for i in range(KEYS):
                client.ask(b"set key%d 0 0 1\r\nv\r\n" % i)
            show("three servers", read_all(client))
            servers[0].kill()
            servers[0].wait()
            show("one was killed", read_all(client))
            show("its keys are looked for at the others", read_all(client))
            for i in range(KEYS):
                client.ask(b"set key%d 0 0 1\r\nw\r\n" % i)
            show("all were stored again", read_all(client))
            servers[0] = serve(ports[0])
            time.sleep(1 + EJECT_MS / 1000)
            show("it is back, empty", read_all(client))
        finally:
            for server in servers:
                server.kill()
                server.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
