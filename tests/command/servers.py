"""Servers that tests run on a socket in a folder of theirs, and clients that know what they must answer."""

import concurrent.futures
import gzip
import hashlib
import os
import pathlib
import random
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request


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
    while server.poll() is None:
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

    def set(self, key: str, value: bytes, verb: str = "set") -> bytes:
        return self.told(f"{verb} {key} 0 0 {len(value)}", value)

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


SIZES = (0, 1, 15, 16, 63, 64, 100, 511, 512, 1000, 1024, 4096, 8191, 16384, 65536, 200_000, 900_000)


def use_as(number: int, client: MemcachedClient, rounds: int) -> str:
    """Uses keys that only this user uses, at random but as its number says, and knows what must be there. A digest of all
    answers."""
    def key_of(which: int) -> str:
        # Long ones as well, up to what the protocol allows.
        return f"user{number}:" + "k" * (which % 7 * 30) + str(which)

    chance = random.Random(number)
    known: dict[str, bytes] = {}
    counters: dict[str, int] = {}
    for turn in range(rounds):
        key = key_of(chance.randrange(60))
        what = chance.random()
        if what < 0.35:
            # Large ones are rare, or the sockets are all that is measured.
            size = chance.choice(SIZES[:13] if chance.random() < 0.95 else SIZES)
            value = chance.randbytes(size)
            assert client.set(key, value) == b"STORED\r\n", (turn, key, size)
            known[key] = value
        elif what < 0.7:
            keys = [key_of(chance.randrange(60)) for _ in range(chance.choice((1, 1, 1, 20)))]
            expected = {one: known[one] for one in keys if one in known}
            assert client.get(*dict.fromkeys(keys)) == expected, (turn, keys)
        elif what < 0.8:
            there = known.pop(key, None) is not None
            assert client.told(f"delete {key}") == (b"DELETED\r\n" if there else b"NOT_FOUND\r\n"), (turn, key)
        elif what < 0.85:
            more = chance.randbytes(chance.choice(SIZES[:9]))
            there = key in known and len(known[key]) < 500_000
            if there or key not in known:
                assert client.set(key, more, "append") == (b"STORED\r\n" if there else b"NOT_STORED\r\n"), (turn, key)
            if there:
                known[key] += more
        else:
            name = f"user{number}:count{chance.randrange(5)}"
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
    return client.seen.hexdigest()


def use_memcached(path: pathlib.Path, users: int, rounds: int) -> tuple[list[str], bytes]:
    """So many users at once: the digests of what each was answered, and the count that all increased."""
    def user(number: int) -> str:
        with MemcachedClient(path) as client:
            return use_as(number, client, rounds)

    with MemcachedClient(path) as client, concurrent.futures.ThreadPoolExecutor(users) as at_once:
        client.set("all", b"0")
        digests = list(at_once.map(user, range(users)))
        return digests, client.get("all")["all"].strip()


def memcached(threads: int) -> tuple[str, ...]:
    """The command. It wants to hear by name that it is to be root."""
    user = ("-u", "root") if os.geteuid() == 0 else ()
    return ("memcached", "-s", "socket", "-t", str(threads), "-m", "512", *user)


def other_user() -> tuple[str, ...]:
    """What begins a command that must not be root's."""
    if os.geteuid() != 0:
        return ()
    return "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"


def given_to(user: tuple[str, ...], folder: pathlib.Path) -> pathlib.Path:
    if user:
        shutil.chown(folder, "nobody", "nogroup")
    return folder


def copy_for_all(espalier: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The command and its libraries where every user may read them: a build may lie in a folder that only its owner
    may enter."""
    copy = folder / "build/apps/espalier/espalier"
    if not copy.exists():
        copy.parent.mkdir(parents=True)
        shutil.copy(espalier, copy)
        shutil.copytree(espalier.parent / "../../preload", folder / "build/preload",
                        ignore=lambda _, names: [name for name in names if not name.endswith(".so")])
    return copy


def free_port() -> int:
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return any_port.getsockname()[1]


def postgres_programs() -> pathlib.Path:
    """The folder of the newest version that Debian installed, or of the one in PATH."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda one: int(one.parts[4]))
    return (found[-1] if found else pathlib.Path(shutil.which("postgres") or "postgres").resolve()).parent


POSTGRES_QUERIES = """
select count(*), sum(delta) from pgbench_history;
select sum(abalance), sum(abalance::bigint * aid) from pgbench_accounts;
select sum(tbalance) from pgbench_tellers;
select sum(bbalance) from pgbench_branches;
set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0; set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0; set work_mem = '4MB';
select count(distinct filler || aid), md5(string_agg(left(aid::text, 3), ',' order by aid % 997, aid))
  from pgbench_accounts;
create table documents as
  select n, jsonb_build_object('number', n, 'text', repeat('x', n % 300), 'list', array[n, n % 7]) as body
  from generate_series(1, 20000) n;
create index on documents using gin (body);
select count(*), sum((body->>'number')::int) from documents where body @> '{"list": [3]}';
do $$
  declare words text[] := '{}';
  begin
    for i in 1..3000 loop words := words || ('word ' || i * 7919 % 3000); end loop;
    create table words as select word from unnest(words) word order by reverse(word);
    perform 1 / 0;
  exception when division_by_zero then
    create table words as select 'none' as word;
  end $$;
select * from words;
select md5(string_agg(regexp_replace(body::text, '(\\d+)', '<\\1>', 'g'), '' order by n)) from documents
  where n < 3000;
"""

MARIADB_TABLES = """
create database work; use work;
create table shared (number int primary key, value bigint not null) engine=innodb;
insert into shared select seq, 0 from seq_1_to_50;
create table texts (id int primary key, words text, fulltext (words)) engine=innodb;
insert into texts select seq, concat('word', seq % 91, ' other', seq % 17, repeat(' filler', seq % 40))
  from seq_1_to_6000;
"""

MARIADB_QUERIES = """
use work;
select count(*), sum(value) from shared;
checksum table own0, own1, own2, own3, texts;
select count(*), sum(id) from texts where match (words) against ('+word7 +other3' in boolean mode);
select substring(words, 1, 6) as word, count(*), md5(group_concat(id order by id)) from texts
  group by word order by word limit 20;
select count(*) from own0 a join own1 b on a.value % 100 = b.value % 100 where a.id < 300;
select json_length(json_arrayagg(words)) from texts;
drop database work;
"""


def mariadb_statements(number: int, count: int) -> str:
    """Of one client: a table of its own, and rows that all add to."""
    chance = random.Random(number)
    lines = ["use work;", f"create table own{number} (id int primary key, value bigint, text blob, key (value));"]
    for i in range(count):
        key = chance.randrange(1, 400)
        lines.append(chance.choice((
            f"replace into own{number} values ({key}, {chance.randrange(1 << 40)}, "
            f"repeat('x{i}', {chance.randrange(900)}));",
            f"update own{number} set value = value + 1, text = concat(text, 'y') where id < {key} and id > {key} - 20;",
            f"delete from own{number} where id = {key};",
            f"select count(*), sum(length(text)), max(value) from own{number} where id < {key};",
            f"update shared set value = value + {i} where number = {chance.randrange(1, 51)};")))
    return "\n".join(lines)


def prepare_nginx(folder: pathlib.Path, port: int) -> None:
    """Two processes, with threads that read files, and pages for them."""
    pages = folder / "pages"
    pages.mkdir()
    chance = random.Random(11)
    (pages / "small.html").write_text("<p>small</p>\n" * 20)
    (pages / "large.html").write_bytes(chance.randbytes(150_000))
    (pages / "packed.html").write_text("".join(f"<p>{chance.randrange(1000)} words</p>\n" for _ in range(2000)))
    (pages / "whole.shtml").write_text('<p>before</p><!--#include virtual="/small.html" --><p>behind</p>\n')
    user = "user root;\n" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(f"""{user}daemon off;
pid {folder}/pid;
error_log stderr crit;
worker_processes 2;
thread_pool readers threads=2;
events {{ worker_connections 200; }}
http {{
  access_log {folder}/access.log;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  default_type text/html;
  server {{
    listen unix:{folder}/socket;
    listen 127.0.0.1:{port};
    root {folder}/pages;
    aio threads=readers;
    ssi on;
    location = /packed.html {{ gzip on; gzip_min_length 100; }}
    location /behind/ {{ proxy_pass http://unix:{folder}/socket:/; }}
    error_page 404 /small.html;
  }}
}}
""")


def pages_of(port: int) -> list[str]:
    """Status and digest of each page as a client reads it."""
    found = []
    for page, headers in (("small.html", {}), ("large.html", {"Range": "bytes=1000-99999"}), ("whole.shtml", {}),
                          ("packed.html", {"Accept-Encoding": "gzip"}), ("behind/large.html", {}), ("missing.html", {})):
        try:
            asked = urllib.request.Request(f"http://127.0.0.1:{port}/{page}", headers=headers)
            with urllib.request.urlopen(asked) as answer:
                status, content = answer.status, answer.read()
                if answer.headers["Content-Encoding"] == "gzip":
                    content = gzip.decompress(content)
        except urllib.error.HTTPError as error:
            status, content = error.code, error.read()
        found.append(f"{page} {status} {len(content)} {hashlib.sha256(content).hexdigest()}")
    return found
