"""Threads that use databases of their own, one in a file, and one by a connection that all share.
Arguments: rows of each table, tables of each thread."""

import hashlib
import sqlite3
import sys
import threading

ROWS, ROUNDS = int(sys.argv[1]), int(sys.argv[2])

shared = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
shared.execute("create table t(thread, i, b)")
file = sqlite3.connect("file", isolation_level=None)
file.execute("pragma journal_mode = wal")
file.execute("create table t(thread, i, b, primary key(thread, i))")
told: dict[int, str] = {}


def work(me: int) -> None:
    seen = hashlib.sha256()
    for first in range(0, 1000 * ROUNDS, 1000):
        own = sqlite3.connect(":memory:")
        own.create_function("twice", 1, lambda text: text * 2)
        own.execute("create table t(i integer primary key, b text)")
        own.executemany("insert into t values(?, ?)", ((i, str(i) * (i % 50)) for i in range(ROWS)))
        found = own.execute("select count(*), sum(length(twice(b))), max(b) from t").fetchall()
        seen.update(repr(found).encode())
        own.close()
        mine = sqlite3.connect("file", timeout=300)
        with mine:
            mine.executemany("insert into t values(?, ?, ?)", ((me, first + i, "x" * i) for i in range(50)))
        mine.close()
        for i in range(200):
            shared.execute("insert into t values(?, ?, ?)", (me, first + i, bytes(i)))
    told[me] = seen.hexdigest()


threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
for one in threads:
    one.start()
for one in threads:
    one.join()
print(sorted(told.items()))
for database in (shared, file):
    print(database.execute("select thread, count(*), sum(i), sum(length(b)) from t group by thread").fetchall(),
          database.execute("pragma integrity_check").fetchall())
