"""Servers that tests run on a socket in a folder of theirs, and clients that know what they must answer."""

import hashlib
import os
import pathlib
import random
import shutil
import socket
import subprocess
import threading
import time


def redis_server(folder: pathlib.Path) -> pathlib.Path:
    """The program. Debian's package of the tools has the server too, which goes by its name; the server's own package
    would start a daemon."""
    program = folder / "redis-server"
    if not program.is_symlink():
        tool = shutil.which("redis-check-rdb")
        assert tool is not None
        program.symlink_to(tool)
    return program


def wait_for(path: pathlib.Path, server: subprocess.Popen) -> None:
    """Until the server listens there, or has ended."""
    for _ in range(1200):
        if server.poll() is not None:
            return
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(path))
                return
            except OSError:
                time.sleep(0.05)


class MemcachedClient:
    """A connection to memcached by its text protocol."""

    def __init__(self, path: pathlib.Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(120)
        self.socket.connect(str(path))
        self.answers = self.socket.makefile("rb")
        self.seen = hashlib.sha256()

    def __enter__(self) -> "MemcachedClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.answers.close()
        self.socket.close()

    def line(self) -> bytes:
        line = self.answers.readline()
        self.seen.update(line)
        return line

    def told(self, command: str, value: bytes | None = None) -> bytes:
        self.socket.sendall(command.encode() + b"\r\n" + (b"" if value is None else value + b"\r\n"))
        return self.line()

    def set(self, key: str, value: bytes) -> bytes:
        return self.told(f"set {key} 0 0 {len(value)}", value)

    def append(self, key: str, value: bytes) -> bytes:
        return self.told(f"append {key} 0 0 {len(value)}", value)

    def get(self, *keys: str) -> dict[str, bytes]:
        found = {}
        line = self.told("get " + " ".join(keys))
        while line != b"END\r\n":
            word, key, _, size = line.split()
            assert word == b"VALUE", line
            value = self.answers.read(int(size) + 2)
            self.seen.update(value)
            assert value.endswith(b"\r\n"), f"{key!r} has an end"
            found[key.decode()] = value[:-2]
            line = self.line()
        return found


class MemcachedUser(threading.Thread):
    """Uses keys that only it uses, at random but as its number says, and knows what must be there. What it has learnt
    otherwise, or nothing; a digest of all answers."""

    SIZES = (0, 1, 15, 16, 63, 64, 100, 511, 512, 1000, 1024, 4096, 8191, 16384, 65536, 200_000, 900_000)

    def __init__(self, path: pathlib.Path, number: int, rounds: int) -> None:
        super().__init__()
        self.path = path
        self.number = number
        self.rounds = rounds
        self.fault = "it did not end"
        self.digest = ""

    def run(self) -> None:
        try:
            with MemcachedClient(self.path) as client:
                self.use(client)
                self.digest = client.seen.hexdigest()
            self.fault = ""
        except (AssertionError, OSError, ValueError) as fault:
            self.fault = f"user {self.number}: {fault!r}"

    def key(self, number: int) -> str:
        # Long ones as well, up to what the protocol allows.
        return f"user{self.number}:" + "k" * (number % 7 * 30) + str(number)

    def use(self, client: MemcachedClient) -> None:
        chance = random.Random(self.number)
        known: dict[str, bytes] = {}
        counters: dict[str, int] = {}
        for turn in range(self.rounds):
            key = self.key(chance.randrange(60))
            what = chance.random()
            if what < 0.35:
                # Large ones are rare, or the sockets are all that is measured.
                size = chance.choice(self.SIZES[:13] if chance.random() < 0.95 else self.SIZES)
                value = chance.randbytes(size)
                assert client.set(key, value) == b"STORED\r\n", (turn, key, size)
                known[key] = value
            elif what < 0.7:
                keys = [self.key(chance.randrange(60)) for _ in range(chance.choice((1, 1, 1, 20)))]
                expected = {one: known[one] for one in keys if one in known}
                assert client.get(*dict.fromkeys(keys)) == expected, (turn, keys)
            elif what < 0.8:
                there = known.pop(key, None) is not None
                assert client.told(f"delete {key}") == (b"DELETED\r\n" if there else b"NOT_FOUND\r\n"), (turn, key)
            elif what < 0.85:
                more = chance.randbytes(chance.choice(self.SIZES[:9]))
                there = key in known and len(known[key]) < 500_000
                if there or key not in known:
                    assert client.append(key, more) == (b"STORED\r\n" if there else b"NOT_STORED\r\n"), (turn, key)
                if there:
                    known[key] += more
            else:
                name = f"user{self.number}:count{chance.randrange(5)}"
                if name not in counters:
                    assert client.set(name, b"7") == b"STORED\r\n", (turn, name)
                    counters[name] = 7
                by = chance.randrange(1 << 40)
                counters[name] += by
                assert client.told(f"incr {name} {by}") == f"{counters[name]}\r\n".encode(), (turn, name)
                seen = client.seen.copy()
                assert client.told("incr all 1")[:-2].isdigit(), turn
                client.seen = seen  # how far the others have come is chance
        assert client.get(*known) == known, "at the end"


def use_memcached(path: pathlib.Path, users: int, rounds: int) -> tuple[list[str], list[str], bytes]:
    """So many users at once: their faults, the digests of what each was answered, and the count that all increased."""
    with MemcachedClient(path) as client:
        client.set("all", b"0")
        all_users = [MemcachedUser(path, number, rounds) for number in range(users)]
        for user in all_users:
            user.start()
        for user in all_users:
            user.join()
        count = client.get("all")["all"].strip()
    return [user.fault for user in all_users if user.fault], [user.digest for user in all_users], count


def memcached(threads: int) -> tuple[str, ...]:
    """The command. It wants to hear by name that it is to be root."""
    user = ("-u", "root") if os.geteuid() == 0 else ()
    return ("memcached", "-s", "socket", "-t", str(threads), "-m", "512", *user)
