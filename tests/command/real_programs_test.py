#!/usr/bin/env python3
"""Programs as their users run them, under `espalier run`: the same output and status as without, on another malloc, on
other locks, and on both. `--long` runs more of each, in every way, and shows what each cost. `--emulated` runs them on
both with transactions that the library EMULATED_RTM carries out, and asks for some that come to something."""

import concurrent.futures
import hashlib
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

import servers
import ways

LONG, EMULATED = (option in sys.argv for option in ("--long", "--emulated"))
sys.argv = [word for word in sys.argv if word not in ("--long", "--emulated")]
COMMAND = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "espalier").resolve()
LIBRARIES = COMMAND.parent / "../../preload"
SOURCES = pathlib.Path(__file__).resolve().parents[2]
WORKLOADS = SOURCES / "tests/command/workloads"
PYTHON = "/usr/bin/python3"
WAYS = (ways.EMULATED,) if EMULATED else ways.ALL if LONG else (ways.BOTH,)
TABLE = ways.Table()
ways.Peak.wanted = LONG  # looking often costs a processor
# Debian has servers there.
os.environ["PATH"] += os.pathsep + "/usr/sbin"


def setUpModule() -> None:
    if EMULATED and not ways.EMULATED_RTM:
        raise unittest.SkipTest("there is no emulator of transactions")


def tearDownModule() -> None:
    print(f"\n{TABLE}", flush=True)
    assert not EMULATED or TABLE.sections_elided, "no section of any program was elided"


class ProgramTest(unittest.TestCase):
    maxDiff = 4000

    def setUp(self) -> None:
        if not (LIBRARIES / "libespalier-malloc.so").exists():
            self.skipTest("this build has no libraries to preload")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.root.chmod(0o711)  # servers that refuse to be root's have folders in it

    def folder(self) -> pathlib.Path:
        """A new one. What lies there has names of the same length in each."""
        return pathlib.Path(tempfile.mkdtemp(dir=self.root))

    def installed(self, package: str, *programs: str) -> None:
        for program in programs:
            if shutil.which(program) is None:
                self.skipTest(f"{program} is not installed; it is in the package {package}")

    def own_malloc(self, program: pathlib.Path) -> str:
        """What `espalier inspect` says of a program that brings a malloc, which nothing preloaded comes before."""
        self.installed("binutils", "nm")
        symbols = subprocess.run(["nm", "-D", "--defined-only", program], capture_output=True, text=True)
        brings = re.search(r" T malloc$", symbols.stdout, re.MULTILINE)
        return f"{ways.OWN_MALLOC}{program.name} has a malloc of its own" if brings else ""

    def start(self, way: ways.Way, *command: object, folder: pathlib.Path | None = None, stats: bool = True,
              user: tuple[str, ...] = (), **variables: str) -> ways.Running:
        running = ways.Running(servers.copy_for_all(COMMAND, self.root) if user else COMMAND, way, command,
                               folder or self.folder(), stats, variables, user)
        self.addCleanup(running.kill)
        return running

    def noticed_nothing(self, program: str, plain: ways.Outcome, done: ways.Outcome, stats: bool = True,
                        remark: str = "") -> None:
        """The same of both, and the libraries were there."""
        TABLE.add(program, plain, done)
        self.assertEqual((done.status, done.stdout, done.stderr), (plain.status, plain.stdout, plain.stderr))
        self.libraries_told(done, stats, remark)

    def libraries_told(self, done: ways.Outcome, stats: bool = True, remark: str = "") -> None:
        """`espalier inspect` shows a report, or says `remark`."""
        self.assertIn(done.told_of_transactions,
                      (0, len(ways.NO_TRANSACTIONS)) if done.way.locks == "tle" and not done.way.rtm else (0,))
        if done.way.inspected:
            self.assertEqual((done.figures.report, done.figures.remark[:len(remark)]), (not remark, remark),
                             done.figures.remark)
        elif stats:
            self.assertEqual(done.figures.told(), done.way.libraries)
            if remark.startswith(ways.OWN_MALLOC):
                self.assertEqual(done.figures.most("regions of blocks"), 0)

    def same(self, program: str, *command: object, sent: bytes = b"", status: int = 0, stats: bool = True,
             remark: str | None = None, **variables: str) -> bytes:
        """Runs a program by itself and in each of these ways, in folders of its own. A program that a signal ends leaves
        no snapshot, unless its heap began to fall before; `remark` is then empty."""
        self.installed(str(command[0]), str(command[0]))
        plain = self.start(ways.PLAIN, *command, **variables).ended(sent)
        self.assertEqual(plain.status, status, plain.stderr)
        TABLE.add(program, plain, plain)
        if remark is None:
            remark = ways.NO_SNAPSHOT if status > 128 else ""
        for way in WAYS:
            with self.subTest(way.name):
                done = self.start(way, *command, stats=stats, **variables).ended(sent)
                self.noticed_nothing(program, plain, done, stats, remark)
        return plain.stdout


class Servers(ProgramTest):
    """What the clients were answered must be the same, and what the server said."""

    def served(self, program: str, command: tuple, use, stop=None, prepare=None, socket: str = "socket",
               locks: bool = True, user: tuple[str, ...] = ()) -> None:
        """Words that are functions are asked with the folder. prepare(folder) comes before the server; use(folder)
        gives what is to be the same; stop(folder) ends the server, else it is asked to end. `locks`: it takes mutexes."""

        def serve(way: ways.Way) -> tuple[ways.Outcome, tuple]:
            folder = self.folder()
            if prepare is not None:
                prepare(folder)
            server = self.start(way, *(word(folder) if callable(word) else word for word in command), folder=folder,
                                user=user)
            servers.wait_for(folder / socket, server.process)
            if server.process.poll() is not None:
                self.fail(f"it ended: {server.ended().stderr.decode()}")
            answers = use(folder)
            with concurrent.futures.ThreadPoolExecutor() as asking:
                # What it and the libraries say last may be more than a pipe holds, and has to be read meanwhile.
                asked = asking.submit(server.process.terminate if stop is None else lambda: stop(folder))
                done = server.ended()
                asked.result()
            return done, (answers, done.status, self.without_chance(done.stdout), self.without_chance(done.stderr))

        plain, expected = serve(ways.PLAIN)
        self.assertEqual(plain.status, 0, plain.stderr)
        TABLE.add(program, plain, plain)
        for way in WAYS:
            with self.subTest(way.name):
                done, seen = serve(way)
                TABLE.add(program, plain, done)
                self.assertEqual(seen, expected)
                self.libraries_told(done)
                if locks and way.locks != "system":
                    self.assertGreater(done.figures.sections(), 0)

    def answer(self, *command: object, sent: str = "") -> str:
        """What a client prints."""
        done = subprocess.run(command, input=sent, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    @staticmethod
    def without_chance(said: bytes) -> list[str]:
        """What a server says, but for numbers and folders, and in which order its threads and children say it."""
        lines = re.sub(r"\d+:(?:[A-Z]|signal-handler) (?:\(\d+\) )?(?:\d+ \w+ \d+ [\d:.]+)?", "", said.decode())
        lines = re.sub(re.escape(tempfile.gettempdir()) + r"/\w+/\w+", "FOLDER", lines)
        return sorted(re.sub(r"\d+", "#", line) for line in lines.splitlines()
                      # How much was copied, and whether a quarter of the pages is dumped, depends on the time of writes.
                      if not re.search(r"copy-on-write|Fork CoW|innodb_buf_pool_dump_pct", line))

    def redis(self, folder: pathlib.Path, *command: str, sent: str = "") -> str:
        return self.answer("redis-cli", "-s", folder / "socket", *command, sent=sent)

    def commands(self, count: int) -> str:
        """Commands of every kind of value, the same each time."""
        chance = random.Random(7)
        lines = []
        for _ in range(count):
            key = chance.randrange(count // 20)
            value = "v" * chance.choice((1, 20, 44, 45, 100, 1000, 5000)) + str(chance.randrange(1000))
            lines.append(chance.choice((
                f"set s{key} {value}", f"append s{key} {value}", f"get s{key}", f"strlen s{key}", f"del s{key}",
                f"setrange s{key} {chance.randrange(40000)} {value}", f"incrby n{key} {chance.randrange(1 << 40)}",
                f"rpush l{key} {value} {value}", f"lpop l{key}", f"lrange l{key} 0 -1",
                f"linsert l{key} before {value} x", f"unlink l{key}",
                f"sadd m{key} {chance.randrange(2000)} {value}", f"srem m{key} {value}", f"scard m{key}",
                f"hset h{key} f{chance.randrange(900)} {value}", f"hdel h{key} f{chance.randrange(900)}",
                f"hlen h{key}", f"copy h{key} h{key + 1} replace",
                f"zadd z{key} {chance.randrange(900)} {value}", f"zrange z{key} 0 -1 withscores", f"zpopmin z{key}",
                f"xadd x{key} {len(lines) + 1}-1 field {value}", f"xlen x{key}", f"pfadd p{key} {value}",
                f"pfcount p{key}", f"rename s{key} s{key + 1}",
                f'eval "local t = {{}} for i = 1, {key % 300} do t[i] = i .. ARGV[1] end return #table.concat(t)" 0 x'
            )))
        return "\n".join(lines) + "\n"

    def test_redis(self) -> None:
        self.installed("redis-tools", "redis-check-rdb", "redis-benchmark", "redis-cli")
        requests, commands, threads = ("3000", 5000, "3") if LONG else ("300", 1000, "2")

        def use(folder: pathlib.Path) -> tuple[str, ...]:
            answers = self.redis(folder, sent=self.commands(commands))
            digests = [self.redis(folder, "debug", "digest")]
            # By threads and children: values made free, a table thrown away, files written and read again.
            for command in (("debug", "reload"), ("save",), ("flushall", "async"), ("debug", "loadaof")):
                answers += self.redis(folder, *command)
                digests.append(self.redis(folder, "debug", "digest"))
            self.assertEqual(digests[1:3], digests[:1] * 2)
            self.assertNotEqual(digests[3], digests[0])
            benchmark = self.answer(
                "redis-benchmark", "-s", folder / "socket", "-n", requests, "-r", "1000", "-d", "300", "-P", "4", "-q",
                "-t", "set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange_100,mset")
            # A command that took less than a millisecond had `inf` of them.
            ran = re.findall(r"^([A-Z_]+)[^\n]*: \S+ requests per second", benchmark.replace("\r", "\n"), re.MULTILINE)
            answers += self.redis(folder, "bgsave")
            while "rdb_bgsave_in_progress:1" in self.redis(folder, "info", "persistence"):
                time.sleep(0.05)
            return hashlib.sha256(answers.encode()).hexdigest(), *digests, *ran

        self.served("redis-server", (servers.redis_server, "--port", "0", "--unixsocket", "socket", "--save", "",
                                     "--enable-debug-command", "yes", "--appendonly", "yes", "--appendfsync", "no",
                                     "--auto-aof-rewrite-percentage", "0", "--io-threads", threads,
                                     "--io-threads-do-reads", "yes", "--lazyfree-lazy-user-del", "yes"),
                    use, lambda folder: subprocess.run(["redis-cli", "-s", folder / "socket", "shutdown", "nosave",
                                                        "now", "force"], capture_output=True))

    def test_memcached(self) -> None:
        self.installed("memcached", "memcached")
        users, rounds = (8, 6000) if LONG else (4, 700)

        self.served("memcached", servers.memcached(threads=4),
                    lambda folder: servers.use_memcached(folder / "socket", users, rounds))

    @unittest.skipUnless(LONG, "of the long form")
    def test_postgres(self) -> None:
        programs = servers.postgres_programs()
        self.installed("postgresql", *(str(programs / name) for name in ("postgres", "initdb", "pg_isready", "pgbench",
                                                                          "psql")))
        user = servers.other_user()
        cluster = servers.given_to(user, self.folder()) / "cluster"
        self.answer(*user, programs / "initdb", "-D", cluster, "-U", "postgres", "--auth=trust", "--no-sync",
                    "--wal-segsize=1", "--no-instructions", "--locale=C.UTF-8")

        def prepare(folder: pathlib.Path) -> None:
            self.answer("cp", "-a", cluster, servers.given_to(user, folder) / "data")

        def use(folder: pathlib.Path) -> tuple[str, ...]:
            server = ("-h", folder, "-U", "postgres", "postgres")
            # It listens before it answers.
            while subprocess.run([programs / "pg_isready", "-q", "-h", folder]).returncode != 0:
                time.sleep(0.05)
            self.answer(programs / "pgbench", "-i", "-q", "-s", "2", *server)
            benchmark = self.answer(programs / "pgbench", "-n", "-c", "4", "-j", "2", "-t", "1500", "--random-seed=7",
                                    *server)
            counts = re.findall(r"^number of (?:transactions actually processed|failed transactions): .*", benchmark,
                                re.MULTILINE)
            self.assertEqual(counts[0].split()[-1], "6000/6000")
            return *counts, self.answer(programs / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", *server,
                                        sent=servers.POSTGRES_QUERIES)

        self.served("postgres", (programs / "postgres", "-D", "data", "-k", lambda folder: folder, "-c",
                                 "listen_addresses=", "-c", "fsync=off", "-c", "autovacuum=off", "-c",
                                 "log_checkpoints=off", "-c", "max_wal_size=1GB"),
                    use, prepare=prepare, socket=".s.PGSQL.5432", locks=False, user=user)

    @unittest.skipUnless(LONG, "of the long form")
    def test_mariadb(self) -> None:
        self.installed("mariadb-server-core", "mariadbd", "mariadb-install-db")
        self.installed("mariadb-client-core", "mariadb")
        user = ("--user=root",) if os.geteuid() == 0 else ()
        options = ("--no-defaults", *user, "--innodb-log-file-size=4M")
        self.answer("mariadb-install-db", *options, "--auth-root-authentication-method=normal", "--skip-test-db",
                    f"--datadir={self.root}/tables")

        def prepare(folder: pathlib.Path) -> None:
            self.answer("cp", "-a", self.root / "tables", folder / "data")

        def client(folder: pathlib.Path, sent: str) -> str:
            return self.answer("mariadb", "--no-defaults", "--batch", "-S", folder / "socket", "-u", "root", sent=sent)

        def use(folder: pathlib.Path) -> list[str]:
            client(folder, servers.MARIADB_TABLES)
            with concurrent.futures.ThreadPoolExecutor() as clients:
                answers = list(clients.map(lambda number: client(folder, servers.mariadb_statements(number, 1200)),
                                           range(4)))
            return [*answers, client(folder, servers.MARIADB_QUERIES)]

        self.served("mariadb", ("mariadbd", *options, lambda folder: f"--datadir={folder}/data",
                                lambda folder: f"--socket={folder}/socket",
                                "--skip-networking", "--innodb-flush-log-at-trx-commit=0",
                                "--innodb-buffer-pool-size=64M", "--thread-handling=pool-of-threads"),
                    use, lambda folder: client(folder, "shutdown"), prepare)

    @unittest.skipUnless(LONG, "of the long form")
    def test_nginx(self) -> None:
        self.installed("nginx", "nginx")
        self.installed("apache2-utils", "ab")
        port = servers.free_port()

        def use(folder: pathlib.Path) -> list[str]:
            counts = []
            for page, kept in (("small", ("-k",)), ("large", ("-k",)), ("packed", ("-H", "Accept-Encoding: gzip")),
                               ("missing", ())):
                told = self.answer("ab", "-q", "-n", "3000", "-c", "8", *kept, f"http://127.0.0.1:{port}/{page}.html")
                counts += re.findall(r"^(?:Complete requests|Failed requests|Non-2xx responses|Document Length): .*",
                                     told, re.MULTILINE)
            self.assertEqual(sum(line.split() == ["Complete", "requests:", "3000"] for line in counts), 4, counts)
            return [*counts, *servers.pages_of(port)]

        self.served("nginx", ("nginx", "-p", lambda folder: f"{folder}/", "-c", "nginx.conf", "-e", "stderr"), use,
                    lambda folder: os.kill(int((folder / "pid").read_text()), signal.SIGQUIT),
                    lambda folder: servers.prepare_nginx(folder, port), locks=False)


class Sqlite(ProgramTest):
    def test_by_itself(self) -> None:
        queries = (WORKLOADS / "queries.sql").read_bytes().replace(b"ROWS", b"150000" if LONG else b"15000")
        told = self.same("sqlite3", "sqlite3", "database", sent=queries, status=1)
        self.assertIn(b"\nok\n", told)

    def test_by_threads_of_python(self) -> None:
        self.installed("python3", PYTHON)
        work = ("4000", "12") if LONG else ("1500", "3")
        self.same("sqlite3 in python3", PYTHON, WORKLOADS / "databases.py", *work)


class Git(ProgramTest):
    USER = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_NAME": "c",
            "GIT_COMMITTER_EMAIL": "c@example.org", "GIT_COMMITTER_DATE": "1700000000 +0000"}

    @staticmethod
    def history(commits: int) -> bytes:
        """A repository for git fast-import: branches that part and meet, files that grow, move and go."""
        chance = random.Random(3)
        stream = []
        for n in range(1, commits + 1):
            branch = "main" if n % 4 else f"side{n % 12 // 4}"
            stream.append(f"commit refs/heads/{branch}\nmark :{n}\ncommitter c <c@example.org> {1700000000 + n} +0000\n"
                          f"data {len(str(n)) + 7}\ncommit {n}\n")
            if n > 1:
                stream.append(f"from :{n - 1}\n")
            if n % 9 == 8:
                stream.append(f"merge :{n - 4}\n")
            for _ in range(4):
                text = "".join(f"line {chance.randrange(50)} of some words\n" for _ in range(chance.randrange(1, 400)))
                file = f"d{chance.randrange(9)}/f{chance.randrange(40)}"
                stream.append(f"M 644 inline {file}\ndata {len(text)}\n{text}\n")
            if n % 17 == 0:
                stream.append(f"R d{n % 9} moved{n % 5}\n" if n % 2 else f"D d{n % 9}\n")
        return "".join(stream).encode()

    def test_a_repository_from_its_first_commit_to_its_packs(self) -> None:
        self.installed("git", "git")
        told = self.same("git", "sh", WORKLOADS / "repository.sh", sent=self.history(300 if LONG else 40),
                         status=128, **self.USER)
        self.assertEqual(told.count(b"  -\n"), 7)

    @unittest.skipUnless(LONG, "of the long form")
    def test_the_repository_of_this_project(self) -> None:
        self.installed("git", "git")
        if subprocess.run(["git", "-C", SOURCES, "rev-parse", "--git-dir"], capture_output=True).returncode != 0:
            self.skipTest("these sources are no git checkout")
        script = (f"set -e; git -c safe.directory='*' clone -q 'file://{SOURCES}' work 2>said; cd work; "
                  "git log --stat | sha256sum; git -c pack.threads=4 repack -adfq; git gc -q --prune=now; "
                  "git fsck --full; "
                  "git rev-list --objects --all | sort | sha256sum; git grep -c const | sha256sum")
        self.same("git, this project", "sh", "-c", script, **self.USER)


class Compiler(ProgramTest):
    OBJECTS = ("src/espalier/measure/histogram.cpp", "src/espalier/inspect/analysis.cpp", "preload/heap/thread_heap.cpp")

    def compiled(self, compiler: str, source: str, *options: object, remark: str = "") -> None:
        """The same object, byte for byte: two compilations in one folder, for folders are in debug information."""
        folder = self.folder()
        command = (compiler, *options, SOURCES / source, "-o", "object.o")
        plain = self.start(ways.PLAIN, *command, folder=folder).ended()
        self.assertEqual(plain.status, 0, plain.stderr)
        expected = (folder / "object.o").read_bytes()
        program = f"{compiler} {pathlib.Path(source).name}"
        TABLE.add(program, plain, plain)
        for way in WAYS:
            with self.subTest(way.name, source=source):
                (folder / "object.o").unlink(missing_ok=True)
                done = self.start(way, *command, folder=folder).ended()
                self.noticed_nothing(program, plain, done, remark=remark)
                self.assertTrue((folder / "object.o").read_bytes() == expected, "the object file")

    @unittest.skipUnless(LONG, "of the long form")
    def test_objects_are_the_same(self) -> None:
        self.installed("g++", "g++")
        options = ("-std=c++20", "-I", SOURCES / "src", "-I", SOURCES, "-g", "-O2", "-c")
        for source in self.OBJECTS:
            self.compiled("g++", source, *options)
        if shutil.which("clang++-19"):
            self.compiled("clang++-19", self.OBJECTS[0], *options)

    @unittest.skipUnless(LONG, "of the long form")
    def test_objects_of_rust(self) -> None:
        """By Debian's compiler, whose malloc is the C library's, and by the rust project's, which has its own."""
        self.installed("rustc", "rustc")
        asked = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True)
        for compiler in sorted({pathlib.Path("/usr"), pathlib.Path(asked.stdout.strip())}):
            if (compiler / "bin/rustc").exists():
                self.compiled(str(compiler / "bin/rustc"), "tests/command/workloads/threads.rs", "-O", "--emit", "obj",
                              remark=self.own_malloc(compiler / "bin/rustc"))

    def test_so_are_programs_and_mistakes(self) -> None:
        self.installed("g++", "g++")
        made = ("cat > program.cpp; g++ -O1 -pipe -flto=2 -frandom-seed=1 -o program program.cpp; "
                "sha256sum program; ./program; echo 'int main() { return x; }' > wrong.cpp; g++ -c wrong.cpp")
        self.same("g++, a program", "sh", "-c", made, status=1, LC_ALL="C", sent=b"""
            #include <algorithm>
            #include <iostream>
            #include <map>
            #include <string>
            int main() {
              std::map<std::string, int> words;
              for (int i = 0; i < 10000; ++i) ++words[std::string(i % 97, 'x')];
              std::cout << words.size() << std::endl;
            }""")


class Python(ProgramTest):
    # Of threads, memory, processes and modules in C. Those whose verdict is a matter of time, of the network or of who
    # runs them are left out.
    QUICK = ("test_dict", "test_thread", "test_list", "test_memoryview", "test_fork1")
    THOROUGH = (*QUICK, "test_gc", "test_json", "test_deque", "test_zlib", "test_array", "test_ast", "test_asyncgen", "test_atexit", "test_bigmem", "test_bytes",
                "test_bz2", "test_codecs", "test_collections", "test_ctypes", "test_decimal", "test_exceptions",
                "test_faulthandler", "test_generators", "test_hashlib", "test_heapq", "test_io", "test_long",
                "test_lzma", "test_mmap", "test_multiprocessing_main_handling", "test_pickle", "test_posix",
                "test_queue", "test_re", "test_resource", "test_set", "test_shelve", "test_sort", "test_struct",
                "test_subprocess", "test_tarfile", "test_threading", "test_threading_local", "test_threadsignals",
                "test_tracemalloc", "test_unicode", "test_weakref", "test_xml_etree_c", "test_zipfile")

    def verdicts(self, way: ways.Way, tests: tuple[str, ...]) -> tuple[ways.Outcome, dict[str, str]]:
        """Of every case by itself."""
        folder = self.folder()
        # Without figures: many of these read what their children say. Some look which signals have a handler.
        done = self.start(way, PYTHON, "-m", "test", "-j2", "--timeout", "7200", "--junit-xml", folder / "verdicts.xml",
                          *tests, folder=folder, stats=False, ESPALIER_INSPECT_SIGNAL="none").ended()
        self.assertTrue((folder / "verdicts.xml").exists(), done.stderr)
        found = {}
        for case in xml.etree.ElementTree.parse(folder / "verdicts.xml").iter("testcase"):
            other = {one.tag for one in case} & {"error", "failure", "skipped"}
            found[case.get("name", "")] = " ".join(other) or "passed"
        return done, found

    def test_its_own_tests(self) -> None:
        self.installed("python3", PYTHON)
        tests = self.THOROUGH if LONG else self.QUICK
        have = subprocess.run([PYTHON, "-c", "import test.test_list"], capture_output=True)
        if have.returncode != 0:
            self.skipTest("python's own tests are not installed; they are in the package libpython3.11-testsuite")
        plain, expected = self.verdicts(ways.PLAIN, tests)
        self.assertGreater(len(expected), 100 * len(tests) // 2)
        TABLE.add("python3 -m test", plain, plain)
        # It takes longest.
        for way in ways.MAIN if LONG else WAYS:
            with self.subTest(way.name):
                done, found = self.verdicts(way, tests)
                TABLE.add("python3 -m test", plain, done)
                differ = {name: (expected.get(name), found.get(name)) for name in expected.keys() | found.keys()
                          if expected.get(name) != found.get(name)}
                self.assertEqual(differ, {}, done.stdout.decode()[-4000:])
                self.assertEqual(done.status, plain.status, done.stdout.decode()[-4000:])
                self.libraries_told(done, stats=False)

    def test_threads_forks_and_pools(self) -> None:
        self.installed("python3", PYTHON)
        # Each of its objects by malloc, not out of an arena of python's own.
        self.same("python3, threads and forks", PYTHON, WORKLOADS / "threads_and_forks.py", "400" if LONG else "60",
                  PYTHONMALLOC="malloc", PYTHONHASHSEED="0")


class StressNg(ProgramTest):
    QUICK = {"malloc": 20_000, "mutex": 2_000, "pthread": 50, "tsearch": 1, "hsearch": 5, "lsearch": 1, "bsearch": 3,
             "qsort": 1, "fork": 20, "zlib": 3, "str": 30, "wcs": 30}
    THOROUGH = {**QUICK, "malloc": 50_000, "mutex": 20_000, "pthread": 1_000, "hsearch": 200, "bsearch": 10, "qsort": 5,
                "fork": 500, "zlib": 10, "str": 100, "wcs": 100, "vfork": 500, "list": 10,
                "tree": 1, "skiplist": 2, "mergesort": 5, "radixsort": 5, "randlist": 3, "vm": 3_000}

    def test_verifies(self) -> None:
        self.installed("stress-ng", "stress-ng")
        stressors = self.THOROUGH if LONG else self.QUICK
        at_once = {name: times for name, times in stressors.items() if name != "mutex"}
        plain = self.stressed(ways.PLAIN, at_once)
        expected = self.without_chance(plain)
        self.assertEqual(plain.status, 0, plain.stderr)
        self.assertFalse([line for line in expected if b"fail" in line or b"error" in line])
        TABLE.add("stress-ng", plain, plain)
        for way in WAYS:
            with self.subTest(way.name):
                done = self.stressed(way, at_once)
                TABLE.add("stress-ng", plain, done)
                self.assertEqual((done.status, self.without_chance(done)), (0, expected))
                self.libraries_told(done)
                # By itself: its threads may have done all there is to do before it sees that it has made them, and it
                # then takes them for missing, on any locks.
                mutexes = next((one for one in (self.stressed(way, {"mutex": stressors["mutex"]}) for _ in range(20))
                                if b"could not create any pthreads" not in one.stdout + one.stderr), None)
                self.assertIsNotNone(mutexes)
                self.assertEqual(mutexes.status, 0, mutexes.stderr)

    @staticmethod
    def without_chance(of: ways.Outcome) -> list[bytes]:
        """What it says, but for processes, times and sums of bytes by chance, and in which order these say it."""
        return sorted(re.sub(rb"\[\d+\]|\d+\.\d+s.*|(?<=matches )(\d+)/\1(?=\()", b"", line)
                      for line in (of.stdout + of.stderr).splitlines())

    def stressed(self, way: ways.Way, stressors: dict[str, int]) -> ways.Outcome:
        folder = self.folder()
        asked = [word for name, times in stressors.items() for word in (f"--{name}", "1", f"--{name}-ops", str(times))]
        return self.start(way, "stress-ng", "--temp-path", folder, "--verify", "--no-rand-seed", *asked,
                          folder=folder).ended()


class Languages(ProgramTest):
    def test_lua(self) -> None:
        self.same("lua", "lua5.4", WORKLOADS / "trees.lua", "20000" if LONG else "700", status=1)

    @unittest.skipUnless(LONG, "of the long form")
    def test_perl(self) -> None:
        self.same("perl", "perl", WORKLOADS / "threads.pl", "60", status=7, PERL_HASH_SEED="0")

    @unittest.skipUnless(LONG, "of the long form")
    def test_ruby(self) -> None:
        self.same("ruby", "ruby", WORKLOADS / "threads.rb", "1500", status=1)

    @unittest.skipUnless(LONG, "of the long form")
    def test_php(self) -> None:
        """Its extensions are opened with RTLD_DEEPBIND. Once more with each block by malloc, not from its own arenas."""
        self.installed("php-cli", "php")
        have = subprocess.run(["php", "-m"], capture_output=True, text=True).stdout.split("\n")
        for package, extension in (("php-mbstring", "mbstring"), ("php-xml", "dom"), ("php-xml", "xsl")):
            if extension not in have:
                self.skipTest(f"php's {extension} is not installed; it is in the package {package}")
        script = ("php", "-d", "opcache.enable_cli=1", WORKLOADS / "documents.php", "250")
        for name, variables in (("php", {}), ("php, each block by malloc", {"USE_ZEND_ALLOC": "0"})):
            told = self.same(name, *script, status=9, **variables)
            self.assertIn(b"opcache compiles\n", told)

    def test_z3(self) -> None:
        pigeons = 8 if LONG else 5
        holes = [f"(p{i}_{j})" for i in range(pigeons) for j in range(pigeons - 1)]
        self.same("z3", "z3", "-in", sent="\n".join((
            *(f"(declare-const {one[1:-1]} Bool)" for one in holes), "(push)",
            *("(assert (or " + " ".join(f"p{i}_{j}" for j in range(pigeons - 1)) + "))" for i in range(pigeons)),
            *(f"(assert (not (and p{i}_{j} p{k}_{j})))" for i in range(pigeons) for k in range(i) for j in
              range(pigeons - 1)), "(check-sat)", "(pop)",
            "(declare-const x (_ BitVec 24)) (declare-const y (_ BitVec 24))", "(push)",
            "(assert (= (bvmul x y) #x7fffff)) (assert (bvult #x000001 x)) (assert (bvult x y))", "(check-sat)",
            "(pop)",
            "(declare-fun f (Int) Int)", "(push)", "(assert (forall ((n Int)) (> (f (+ n 1)) (f n))))",
            "(assert (< (f 30) (f 3)))", "(check-sat)", "(pop)",
            "(declare-const s String)", "(assert (= (str.len s) 40))", '(assert (str.contains s "abc"))', "(check-sat)",
            "(get-no-such-thing)")).encode() + b"\n")


class Runtimes(ProgramTest):
    """Where malloc and mutexes are those of somebody else's threads, signals and memory."""

    def built(self, *command: object) -> pathlib.Path:
        program = self.folder() / "program"
        subprocess.run([*command[:-1], "-o", program, command[-1]], cwd=program.parent, check=True, capture_output=True,
                       env={**os.environ, "GOCACHE": str(self.root / "go"), "GOFLAGS": "-mod=mod"})
        return program

    def test_java(self) -> None:
        self.installed("default-jdk-headless", "java", "javac")
        classes = self.folder()
        subprocess.run(["javac", "-d", classes, WORKLOADS / "Threads.java"], check=True)
        self.same("java", "java", "-Xmx256m", "-cp", classes, "Threads", "200" if LONG else "8")

    def test_node(self) -> None:
        self.installed("nodejs", "node")
        self.same("node", "node", WORKLOADS / "workers.js", "4000" if LONG else "100")

    @unittest.skipUnless(LONG, "of the long form")
    def test_go(self) -> None:
        self.installed("golang-go", "go")
        # It ends by a system call of its own, after which nobody tells figures.
        self.same("go with C", self.built("go", "build", WORKLOADS / "goroutines.go"), "100", stats=False,
                  remark=ways.NO_SNAPSHOT)

    @unittest.skipUnless(LONG, "of the long form")
    def test_rust(self) -> None:
        self.installed("rustc", "rustc")
        self.same("rust", self.built("rustc", "-O", WORKLOADS / "threads.rs"), "30000")


@unittest.skipUnless(LONG, "of the long form")
class Media(ProgramTest):
    """Pictures, films, pages and archives, by threads of theirs."""

    def test_ffmpeg(self) -> None:
        self.same("ffmpeg", "ffmpeg", "-nostdin", "-loglevel", "error", "-f", "lavfi", "-i",
                  "testsrc2=size=640x360:rate=25:duration=6", "-f", "lavfi", "-i", "sine=duration=6", "-threads", "2",
                  "-c:v", "libx264", "-preset", "veryfast", "-c:a", "aac", "-f", "framemd5", "-")

    def test_imagemagick(self) -> None:
        # Debian's name of it: there are other programs that are called convert.
        self.installed("imagemagick", "convert-im6.q16")
        self.same("convert", "convert-im6.q16", "-size", "1200x900", "gradient:red-blue", "wizard:", "-resize",
                  "1200x900!", "-swirl", "60", "-blur", "0x3", "-rotate", "17", "-append", "-colors", "200", "-format",
                  "%# %wx%h\n", "info:")

    def test_ghostscript(self) -> None:
        self.installed("ghostscript", "gs")
        self.same("gs", "gs", "-q", "-dBATCH", "-dNOPAUSE", "-dSAFER", "-sDEVICE=ppmraw", "-r100",
                  "-dMaxBitmap=1000000", "-dNumRenderingThreads=2", "-sOutputFile=-", "-",
                  sent=(WORKLOADS / "drawing.ps").read_bytes().replace(b"1 1 PAGES", b"1 1 8"))

    def test_xz(self) -> None:
        self.installed("xz-utils", "xz")
        chance = random.Random(5)
        words = ["".join(chance.choices("abcdefghijklmnop ", k=chance.randrange(3, 40))) for _ in range(3000)]
        packed = self.same("xz", "xz", "-T2", "-3", "--block-size=1MiB", "-c",
                           sent=" ".join(chance.choices(words, k=400000)).encode())
        self.same("xz -d", "xz", "-T2", "-dc", sent=packed * 3)


@unittest.skipUnless(LONG, "of the long form")
class Browser(ProgramTest):
    def test_chromium(self) -> None:
        # What is in PATH is a shell script that starts it.
        browser = pathlib.Path("/usr/lib/chromium/chromium")
        self.installed("chromium", str(browser))
        self.same("chromium", browser, "--headless", "--no-sandbox", "--disable-gpu", "--log-level=3",
                  "--user-data-dir=profile", "--dump-dom", (WORKLOADS / "rows.html").as_uri(),
                  remark=self.own_malloc(browser))


class Surroundings(ProgramTest):
    """Where programs have less than usual."""

    def test_shells_that_fork_much(self) -> None:
        self.installed("bash", "bash")
        script = ("n=0; for i in $(seq %d); do x=$(echo $i | tr 0-9 a-j); y=$( (echo $x; exit 3) | cat); "
                  "n=$((n + ${#y})); done; echo $n; (exec 2>&-; echo quiet; ls /no/such) ; "
                  "seq 30 | xargs -P 4 -n 1 sh -c 'exit 0'; "
                  "trap 'echo end' EXIT; kill -TERM $$") % (300 if LONG else 20)
        for shell in ("sh", "bash"):
            # The signal ends it after its heap has begun to fall: the snapshot of its peak is there.
            self.same(f"{shell} that forks", shell, "-c", script, status=143, remark="")

    def test_limits(self) -> None:
        self.installed("python3", PYTHON)
        # Until there is no memory, in a thread that began before and by the first one, and on from there.
        script = ("import threading\n"
                  "def fill():\n"
                  f"  for size in (1 << 25, 1 << 20, 30000, 5000, {100 if LONG else 1000}):\n"
                  "    kept = []\n"
                  "    try:\n"
                  "      while True: kept.append(bytearray(size))\n"
                  "    except MemoryError:\n"
                  "      del kept\n"
                  "one = threading.Thread(target=fill); one.start(); one.join(); fill()\n"
                  "print(len([bytearray(1000) for _ in range(1000)]))")
        for name, limit, *what in (("python3", "-v 150000", PYTHON, "-c", script), ("echo", "-v 60000", "echo", "fine"),
                                   ("echo", "-n 20", "echo", "fine"), ("sort", "-s 256", "sort", "/etc/passwd"),
                                   ("echo", "-f 0", "echo", "fine"), ("echo", "-l 0", "echo", "fine")):
            # Where no file may grow, no snapshot can be written.
            self.same(f"{name} with ulimit {limit}", "sh", "-c", f'ulimit {limit}; exec "$@"', "sh", *what,
                      remark=ways.NO_SNAPSHOT if limit == "-f 0" else None)

    def test_standard_error_that_is_closed(self) -> None:
        for script in ("exec 2>&-; echo fine", "exec 2>&-; exec cat /dev/null", "exec 2>data; echo fine; cat data",
                       "exec 0<&- 1>&- 2>&-; exec sort /etc/passwd"):
            plain = self.start(ways.PLAIN, "sh", "-c", script).ended()
            for way in WAYS:
                with self.subTest(way.name, script=script):
                    done = self.start(way, "sh", "-c", script, stats=False).ended()
                    self.assertEqual((done.status, done.stdout, done.stderr),
                                     (plain.status, plain.stdout, plain.stderr))


if __name__ == "__main__":
    unittest.main()
