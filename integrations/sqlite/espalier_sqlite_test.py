"""Tests of the extension for SQLite: tables of it against SQLite's own under random statements, and what is its own.

usage: espalier_sqlite_test.py libespalier_sqlite.so
"""

import random
import sqlite3
import sys
import threading
import unittest

EXTENSION = ""


def connect() -> sqlite3.Connection:
    made = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    made.enable_load_extension(True)
    made.load_extension(EXTENSION)
    return made


class Tables(unittest.TestCase):
    def setUp(self) -> None:
        self.db = connect()

    def tearDown(self) -> None:
        self.db.close()

    def rows(self, query: str, *values: object) -> list[tuple]:
        return self.db.execute(query, values).fetchall()

    def plan(self, query: str) -> str:
        return " / ".join(row[3] for row in self.rows("EXPLAIN QUERY PLAN " + query))

    def statement(self, rng: random.Random, key) -> tuple[str, tuple]:
        some_value = [None, rng.randrange(100), 2.5, "text \0 with zero", b"blob\0"]
        return rng.choice(
            [
                ("INSERT INTO {} VALUES (?, ?)", (key(), rng.choice(some_value))),
                ("INSERT OR REPLACE INTO {} VALUES (?, ?)", (key(), rng.choice(some_value))),
                ("INSERT OR IGNORE INTO {} VALUES (?, ?), (?, ?)", (key(), 1, key(), 2)),
                ("INSERT INTO {} VALUES (?, 1), (?, 2), (?, 3)", (key(), key(), key())),
                ("UPDATE {} SET value = ? WHERE key = ?", (rng.choice(some_value), key())),
                ("UPDATE {} SET key = ? WHERE key = ?", (key(), key())),
                ("UPDATE OR REPLACE {} SET key = ? WHERE key = ?", (key(), key())),
                ("UPDATE {} SET value = 7 WHERE key BETWEEN ? AND ?", (key(), key())),
                ("DELETE FROM {} WHERE key = ?", (key(),)),
                ("DELETE FROM {} WHERE key > ? AND key <= ?", (key(), key())),
                ("BEGIN", ()),
                ("COMMIT", ()),
                ("ROLLBACK", ()),
                ("SAVEPOINT s", ()),
                ("ROLLBACK TO s", ()),
                ("RELEASE s", ()),
            ]
        )

    def query(self, rng: random.Random, key) -> tuple[str, tuple]:
        where, values = rng.choice(
            [
                ("", ()),
                ("WHERE key = ?", (key(),)),
                ("WHERE key < ?", (key(),)),
                ("WHERE key <= ? AND key > ?", (key(), key())),
                ("WHERE key >= ? AND key >= ?", (key(), key())),
                ("WHERE key IN (?, ?, ?)", (key(), key(), key())),
                ("WHERE key > ?", (3.5,)),
                ("WHERE key = ?", (None,)),
                ("WHERE key >= ?", ("7",)),
                ("WHERE key < ?", (b"7",)),
                ("WHERE value = ?", (7,)),
                ("WHERE value = 1 OR key = ?", (key(),)),
            ]
        )
        order = rng.choice(["ORDER BY key", "ORDER BY key DESC", "ORDER BY value, key", "ORDER BY key LIMIT 3"])
        return f"SELECT key, value FROM {{}} {where} {order}", values

    def both(self, request: tuple[str, tuple]) -> tuple[object, object]:
        """What a statement does on a connection of its own with SQLite's table, and on ours."""

        def result(db: sqlite3.Connection) -> object:
            try:
                return db.execute(request[0].format("t"), request[1]).fetchall()
            except (sqlite3.IntegrityError, sqlite3.OperationalError) as error:
                return type(error)

        return result(self.model), result(self.db)

    def test_does_what_tables_of_sqlite_do(self) -> None:
        for kind in ("INTEGER", "TEXT"):
            for seed in range(6):
                rng = random.Random(seed)

                def key() -> object:
                    n = rng.randrange(-20, 20)
                    return n if kind == "INTEGER" else "k" * (n % 3) + chr(0x80 + n) + str(n)

                self.db.close()
                self.db = connect()
                self.model = sqlite3.connect(":memory:", isolation_level=None)
                self.db.execute(f"CREATE VIRTUAL TABLE t USING espalier(key {kind}, value)")
                self.model.execute(f"CREATE TABLE t(key {kind} NOT NULL PRIMARY KEY, value) WITHOUT ROWID")
                for _ in range(600):
                    request = self.statement(rng, key) if rng.random() < 0.6 else self.query(rng, key)
                    expected, found = self.both(request)
                    self.assertEqual(expected, found, (kind, seed, request))
                expected, found = self.both(("SELECT * FROM {} ORDER BY key", ()))
                self.assertEqual(expected, found)
                self.model.close()

    def test_ranges_and_orders_are_the_maps(self) -> None:
        self.db.execute("CREATE VIRTUAL TABLE t USING espalier(key INTEGER PRIMARY KEY, value)")
        for order in ("", "ORDER BY key", "ORDER BY key DESC"):
            self.assertNotIn("TEMP B-TREE", self.plan(f"SELECT * FROM t WHERE key > 3 {order}"))
        self.assertIn("TEMP B-TREE", self.plan("SELECT * FROM t ORDER BY value"))
        self.db.execute("CREATE VIRTUAL TABLE s USING espalier(key TEXT, value)")
        self.db.execute("INSERT INTO s VALUES ('B', 1), ('a', 2), ('C', 3)")
        self.assertEqual(self.rows("SELECT key FROM s ORDER BY key COLLATE NOCASE"), [("a",), ("B",), ("C",)])
        self.assertEqual(self.rows("SELECT value FROM s WHERE key = 'b' COLLATE NOCASE"), [(1,)])

    def test_connections_share_a_map_by_its_name(self) -> None:
        other = connect()
        for db in (self.db, other):
            db.execute("CREATE VIRTUAL TABLE t USING espalier(key INTEGER, value, shared=common)")
            db.execute("CREATE VIRTUAL TABLE own USING espalier(key INTEGER, value)")
        self.db.execute("INSERT INTO t VALUES (1, 'one')")
        self.db.execute("INSERT INTO own VALUES (1, 'one')")
        self.assertEqual(other.execute("SELECT * FROM t").fetchall(), [(1, "one")])
        self.assertEqual(other.execute("SELECT * FROM own").fetchall(), [])
        # No isolation, and an undo of one connection's own changes.
        self.db.execute("BEGIN")
        self.db.execute("UPDATE t SET value = 'two'")
        self.assertEqual(other.execute("SELECT value FROM t").fetchall(), [("two",)])
        other.execute("INSERT INTO t VALUES (2, 'other')")
        self.db.execute("ROLLBACK")
        self.assertEqual(other.execute("SELECT value FROM t").fetchall(), [("one",), ("other",)])
        self.db.execute("DROP TABLE t")
        self.assertEqual(other.execute("SELECT count(*) FROM t").fetchall(), [(2,)])
        other.close()
        self.db.execute("CREATE VIRTUAL TABLE t USING espalier(key INTEGER, value, shared=common)")
        self.assertEqual(self.rows("SELECT * FROM t"), [])  # the last table of the name was closed

    def test_threads_write_to_a_map_together(self) -> None:
        self.db.execute("CREATE VIRTUAL TABLE t USING espalier(key INTEGER, value, shared=threads)")

        def write(first: int) -> None:
            own = connect()
            own.execute("CREATE VIRTUAL TABLE t USING espalier(key INTEGER, value, shared=threads)")
            own.executemany("INSERT INTO t VALUES (?, ?)", ((first + 4 * n, first) for n in range(3000)))
            own.close()

        team = [threading.Thread(target=write, args=(first,)) for first in range(4)]
        for thread in team:
            thread.start()
        for thread in team:
            thread.join()
        self.assertEqual(self.rows("SELECT count(*), min(key), max(key) FROM t"), [(12000, 0, 11999)])
        self.assertEqual(self.rows("SELECT key FROM t WHERE value <> key % 4"), [])

    def test_what_is_no_table_or_no_key_is_refused(self) -> None:
        for arguments in ("", "key INTEGER", "key REAL, value", "key INTEGER, value, other=1", "key INTEGER, value, shared="):
            with self.assertRaisesRegex(sqlite3.OperationalError, "the arguments are: key INTEGER or key TEXT"):
                self.db.execute(f"CREATE VIRTUAL TABLE t USING espalier({arguments})")
        self.db.execute("CREATE VIRTUAL TABLE n USING espalier(key INTEGER, value)")
        self.db.execute("CREATE VIRTUAL TABLE s USING espalier(key TEXT, value)")
        self.db.execute("INSERT INTO n VALUES ('12', 1), (13.0, 1)")
        self.assertEqual(self.rows("SELECT key FROM n"), [(12,), (13,)])
        for table, key, message in (
            ("n", "'twelve'", "is an integer"),
            ("n", "1.5", "is an integer"),
            ("n", "9.3e18", "is an integer"),
            ("n", "NULL", "may not be NULL"),
            ("s", "x'00'", "is a text"),
            ("s", "NULL", "may not be NULL"),
        ):
            with self.assertRaisesRegex(sqlite3.Error, message):
                self.db.execute(f"INSERT INTO {table} VALUES ({key}, 1)")


if __name__ == "__main__":
    EXTENSION = sys.argv.pop(1)
    unittest.main()
