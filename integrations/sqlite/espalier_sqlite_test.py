"""Tests of the extension for SQLite: tables of it against SQLite's own under random statements, and what is its own.

usage: espalier_sqlite_test.py libespalier_sqlite.so
"""

import os
import pathlib
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import unittest

EXTENSION = ""


def connect(file: str = ":memory:") -> sqlite3.Connection:
    made = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
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

    def run_all(self, script: str) -> None:
        for statement in script.split("; "):
            self.db.execute(statement)

    def plan(self, query: str) -> str:
        return " / ".join(row[3] for row in self.rows("EXPLAIN QUERY PLAN " + query))

    def statement(self, rng: random.Random, key) -> tuple[str, tuple]:
        some_value = [None, rng.randrange(100), 2.5, "text \0 with zero", b"blob\0"]
        name = rng.choice("abc")

        def other_type(value: object) -> object:
            if isinstance(value, int):
                return rng.choice([str(value), f" {value}.0 ", float(value), value + 0.5, str(value).encode()])
            return rng.choice([value.encode(), 1])

        return rng.choice(
            [
                ("INSERT INTO {} VALUES (?, ?)", (key(), rng.choice(some_value))),
                ("INSERT OR REPLACE INTO {} VALUES (?, ?)", (key(), rng.choice(some_value))),
                ("INSERT OR IGNORE INTO {} VALUES (?, ?), (?, ?)", (key(), 1, key(), 2)),
                ("INSERT INTO {} VALUES (?, 1), (?, 2), (?, 3)", (key(), key(), key())),
                ("UPDATE {} SET value = ? WHERE key = ?", (rng.choice(some_value), key())),
                ("UPDATE {} SET value = ? WHERE key = ?", (rng.choice(some_value), other_type(key()))),
                ("DELETE FROM {} WHERE key = ?", (other_type(key()),)),
                ("UPDATE {} SET key = key || 1, value = value || 'u' WHERE key > ?", (key(),)),
                ("INSERT OR FAIL INTO {} VALUES (?, 4), (?, 5), (?, 6)", (key(), key(), key())),
                ("INSERT OR ROLLBACK INTO {} VALUES (?, 4), (?, 5)", (key(), key())),
                ("UPDATE OR FAIL {} SET key = ? WHERE key IN (?, ?)", (key(), key(), key())),
                ("UPDATE OR IGNORE {} SET key = ? WHERE key >= ?", (key(), key())),
                ("INSERT INTO {} SELECT key || 2, value FROM {} WHERE key < ?", (key(),)),
                ("UPDATE {} SET key = ? WHERE key = ?", (key(), key())),
                ("UPDATE OR REPLACE {} SET key = ? WHERE key = ?", (key(), key())),
                ("UPDATE {} SET value = 7 WHERE key BETWEEN ? AND ?", (key(), key())),
                ("DELETE FROM {} WHERE key = ?", (key(),)),
                ("DELETE FROM {} WHERE key > ? AND key <= ?", (key(), key())),
                ("BEGIN", ()),
                ("COMMIT", ()),
                ("ROLLBACK", ()),
                (f"SAVEPOINT {name}", ()),
                (f"SAVEPOINT {name}", ()),
                (f"ROLLBACK TO {name}", ()),
                (f"ROLLBACK TO {name}", ()),
                (f"RELEASE {name}", ()),
                # What makes SQLite read the schema again.
                ("CREATE TABLE another (n)", ()),
                ("DROP TABLE another", ()),
                ("VACUUM", ()),
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
                ("WHERE key IS ?", (key(),)),
                ("WHERE key <> ? AND key BETWEEN ? AND ?", (key(), key(), key())),
                ("WHERE (key, value) > (?, 3)", (key(),)),
                ("WHERE key = ?", (2.0,)),
                ("WHERE key = ?", (" 3.0",)),
                ("WHERE key = CAST(? AS INTEGER)", ("3",)),
                ("WHERE key IN (SELECT value FROM {})", ()),
                ("WHERE key LIKE '1%' OR key GLOB 'k*'", ()),
                ("WHERE key < 9223372036854775807 AND key > -9.3e18", ()),
                ("WHERE EXISTS (SELECT 1 FROM {} o WHERE o.value = {}.key)", ()),
                ("WHERE key >= ?", ("7",)),
                ("WHERE key < ?", (b"7",)),
                ("WHERE value = ?", (7,)),
                ("WHERE value = 1 OR key = ?", (key(),)),
            ]
        )
        order = rng.choice(["ORDER BY key", "ORDER BY key DESC", "ORDER BY value, key", "ORDER BY key LIMIT 3",
                            "ORDER BY key DESC NULLS FIRST LIMIT 4 OFFSET 2", "ORDER BY key, value DESC",
                            "GROUP BY key HAVING key IS NOT NULL ORDER BY key DESC", "ORDER BY -key, key",
                            "UNION ALL SELECT a.key, b.value FROM {} a JOIN {} b ON b.key = a.value ORDER BY 1, 2",
                            "UNION SELECT min(key), max(key) FROM {} ORDER BY 1, 2"])
        return f"SELECT key, value FROM {{}} {where} {order}", values

    def both(self, request: tuple[str, tuple]) -> tuple[object, object]:
        """What a statement does on a connection of its own with SQLite's table, and on ours."""

        def result(db: sqlite3.Connection) -> object:
            try:
                return db.execute(request[0].replace("{}", "t"), request[1]).fetchall()
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

    def test_entries_stay_when_sqlite_reads_the_schema_again(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.db.close()
            self.db = connect(f"{folder}/file")
            other = connect(f"{folder}/file")
            for table, argument in (("t", ""), ("s", ", shared=again")):
                self.db.execute(f"CREATE VIRTUAL TABLE {table} USING espalier(key INTEGER, value{argument})")
                self.db.execute(f"INSERT INTO {table} VALUES (1, 'one')")
                for script in ("BEGIN; CREATE TABLE x (n); ROLLBACK", "VACUUM",
                               "ATTACH ':memory:' AS a; CREATE TABLE a.x (n); DETACH a"):
                    self.run_all(script)
                    self.assertEqual(self.rows(f"SELECT * FROM {table}"), [(1, "one")], script)
                other.executescript("CREATE TABLE x (n); DROP TABLE x")
                self.assertEqual(self.rows(f"SELECT * FROM {table}"), [(1, "one")])
                # In a transaction, which undoes what was done before and after.
                self.run_all(f"BEGIN; UPDATE {table} SET value = 'two'; SAVEPOINT a; CREATE TABLE x (n); ROLLBACK TO a")
                self.db.execute(f"UPDATE {table} SET value = 'three'")
                self.db.execute("SAVEPOINT b")
                self.db.execute(f"DELETE FROM {table}")
                self.db.execute("ROLLBACK TO b")
                self.assertEqual(self.rows(f"SELECT * FROM {table}"), [(1, "three")])
                self.db.execute("ROLLBACK TO a")
                self.assertEqual(self.rows(f"SELECT * FROM {table}"), [(1, "two")])
                self.db.execute("ROLLBACK")
                self.assertEqual(self.rows(f"SELECT * FROM {table}"), [(1, "one")])
                # Dropped is dropped.
                self.db.execute(f"DROP TABLE {table}")
                self.db.execute(f"CREATE VIRTUAL TABLE {table} USING espalier(key INTEGER, value{argument})")
                self.assertEqual(self.rows(f"SELECT * FROM {table}"), [])
            other.close()
            # Tables of one name in two files.
            self.db.execute("INSERT INTO t VALUES (1, 'main')")
            self.db.execute("ATTACH ? AS a", (f"{folder}/second",))
            self.db.execute("CREATE VIRTUAL TABLE a.t USING espalier(key TEXT, value)")
            self.db.execute("INSERT INTO a.t VALUES (1, 'a')")
            self.assertEqual(self.rows("SELECT * FROM main.t UNION ALL SELECT * FROM a.t"), [(1, "main"), ("1", "a")])
            self.db.execute("DETACH a")
            self.db.close()
            self.db = connect(f"{folder}/file")
            self.assertEqual(self.rows("SELECT * FROM t"), [])  # they are in memory
            self.assertEqual(self.rows("PRAGMA integrity_check"), [("ok",)])

    def test_a_connection_may_load_the_extension_again(self) -> None:
        self.db.execute("CREATE VIRTUAL TABLE t USING espalier(key INTEGER, value)")
        self.run_all("INSERT INTO t VALUES (1, 'one'); BEGIN; DELETE FROM t")
        self.db.load_extension(EXTENSION)
        self.run_all("CREATE TABLE x (n); ROLLBACK")
        self.assertEqual(self.rows("SELECT * FROM t"), [(1, "one")])
        self.db.execute("VACUUM")
        self.assertEqual(self.rows("SELECT * FROM t"), [(1, "one")])
        self.db.execute("DROP TABLE t")
        other = connect()
        other.execute("CREATE VIRTUAL TABLE t USING espalier(key INTEGER, value)")
        self.assertEqual(other.execute("SELECT * FROM t").fetchall(), [])
        other.close()

    def test_a_name_of_integers_and_one_of_texts_are_apart(self) -> None:
        for table, kind, key in (("i", "INTEGER", 7), ("s", "TEXT", "seven")):
            self.db.execute(f"CREATE VIRTUAL TABLE {table} USING espalier(key {kind}, value, shared=one)")
            self.db.execute(f"INSERT INTO {table} VALUES (?, 1)", (key,))
        self.db.execute("VACUUM")  # SQLite connects the tables again
        self.assertEqual(self.rows("SELECT key FROM i UNION ALL SELECT key FROM s"), [(7,), ("seven",)])
        self.db.execute("DROP TABLE i")
        self.assertEqual(self.rows("SELECT key FROM s"), [("seven",)])

    def test_a_rollback_without_memory_is_completed(self) -> None:
        """In a process that has no memory for another copy of the keys, and keeps none that was freed."""
        program = """
import resource, sys
import espalier_sqlite_test as test
test.EXTENSION = sys.argv[1]
keys = [str(n) * (8 << 20) for n in range(4)]
db = test.connect()
db.execute("CREATE VIRTUAL TABLE t USING espalier(key TEXT, value)")
db.executemany("INSERT INTO t VALUES (?, 'one')", [(key,) for key in keys])
def run(*statements, leaves):
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + leaves, hard))
    said = ""
    for statement in statements:
        try:
            said += f"{db.execute(statement).fetchall()} "
        except (MemoryError, test.sqlite3.Error) as error:
            said += type(error).__name__ + " "
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    print(said, flush=True)
def delete(begin):
    db.execute(begin)
    db.execute("DELETE FROM t WHERE value = 'one'")
    # What the map reclaims later.
    db.executemany("INSERT OR REPLACE INTO t VALUES (?, 2)", [(str(n),) for n in range(10000)])
few = "SELECT count(*), sum(value = 'one') FROM t"
delete("BEGIN")
run("ROLLBACK", few, "INSERT INTO t VALUES ('x', 'one')", leaves=1 << 20)
print(db.in_transaction, db.execute(few).fetchall())
delete("SAVEPOINT a")
run("ROLLBACK TO a", leaves=1 << 20)
print(db.in_transaction, db.execute(few).fetchall())
"""
        done = subprocess.run([sys.executable, "-B", "-c", program, EXTENSION], cwd=pathlib.Path(__file__).parent,
                              env=os.environ | {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)}, capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.stdout, "[] MemoryError MemoryError \nFalse [(4, 4)]\nMemoryError \nFalse [(4, 4)]\n", done.stderr)

    def test_tables_of_a_name_in_one_connection_are_undone_together(self) -> None:
        for table in "ab":
            self.db.execute(f"CREATE VIRTUAL TABLE {table} USING espalier(key INTEGER, value, shared=both)")
        self.run_all("BEGIN; INSERT INTO a VALUES (1, 'a'); UPDATE b SET value = 'b'; DELETE FROM b; ROLLBACK")
        self.assertEqual(self.rows("SELECT * FROM a"), [])
        self.run_all("SAVEPOINT s; INSERT INTO a VALUES (1, 'a'); SAVEPOINT r; INSERT INTO a VALUES (2, 'a')")
        self.run_all("UPDATE b SET value = 'b'; ROLLBACK TO r")
        self.assertEqual(self.rows("SELECT * FROM b"), [(1, "a")])
        self.run_all("RELEASE s; BEGIN; SAVEPOINT s; INSERT INTO a VALUES (2, 'a'); INSERT INTO b VALUES (3, 'b'); ROLLBACK TO s")
        self.assertEqual(self.rows("SELECT * FROM b"), [(1, "a")])
        self.db.execute("COMMIT")
        # Its connection has them as long as it has one of the tables.
        self.db.execute("DROP TABLE a")
        self.assertEqual(self.rows("SELECT * FROM b"), [(1, "a")])

    def test_texts_are_compared_as_the_database_does(self) -> None:
        keys = ["a", "b", "ab", "z", "\u0100", "\u0201", "\uff00", "\U00010000"]
        for encoding in ("UTF-8", "UTF-16le", "UTF-16be"):
            self.db.close()
            self.db = connect()
            self.db.execute(f"PRAGMA encoding = '{encoding}'")
            self.db.execute("CREATE VIRTUAL TABLE t USING espalier(key TEXT, value)")
            self.db.execute("CREATE TABLE model (key TEXT NOT NULL PRIMARY KEY, value) WITHOUT ROWID")
            for key in keys:
                for table in ("t", "model"):
                    self.db.execute(f"INSERT INTO {table} VALUES (?, 1)", (key,))
            for key in keys:
                for where in ("key > ?", "key <= ?", "key = ?", "key <> ?"):
                    query = f"SELECT key FROM {{}} WHERE {where} ORDER BY key DESC"
                    expected = self.rows(query.format("model"), key)
                    self.assertEqual(self.rows(query.format("t"), key), expected, (encoding, query, key))
        # A number equals several texts, and a text of another affinity is compared as a number.
        self.db.execute("CREATE TABLE n (i INTEGER)")
        self.db.execute("INSERT INTO n VALUES (7)")
        self.db.execute("INSERT INTO t VALUES ('7', 1), ('7.0', 2)")
        self.assertEqual(self.rows("SELECT value FROM n JOIN t ON key = i ORDER BY value"), [(1,), (2,)])
        self.db.execute("UPDATE t SET value = 3 WHERE key = CAST('7' AS INTEGER)")
        self.assertEqual(self.rows("SELECT key FROM t WHERE value = 3 ORDER BY key"), [("7",), ("7.0",)])

    def test_texts_are_among_others(self) -> None:
        for encoding in ("UTF-8", "UTF-16le"):
            self.db.close()
            self.db = connect()
            self.db.execute(f"PRAGMA encoding = '{encoding}'")
            self.db.execute("CREATE VIRTUAL TABLE t USING espalier(key TEXT, value)")
            self.db.execute("CREATE TABLE model (key TEXT NOT NULL PRIMARY KEY, value) WITHOUT ROWID")
            self.db.execute("CREATE TABLE n (i INTEGER)")
            self.db.execute("INSERT INTO n VALUES (7)")
            for table in ("t", "model"):
                self.db.execute(f"INSERT INTO {table} VALUES ('7', 7), ('7.0', 'b'), ('8', '7'), ('a', 'none'), ('b', NULL)")
            for among in ("SELECT value FROM {}", "SELECT i FROM n", "7, 'a', NULL, 'b', 'a'", "'b', 'x', '8'", "'x'",
                          "SELECT key FROM {}", "SELECT i FROM n UNION SELECT value FROM {}", ""):
                for order in ("key", "key DESC", "value, key", "key DESC LIMIT 1"):
                    query = f"SELECT * FROM {{0}} WHERE key IN ({among.format('{0}')}) ORDER BY {order}"
                    self.assertEqual(self.rows(query.format("t")), self.rows(query.format("model")), (encoding, query))
            # One after another: of a list with a blob no key is left for the next one.
            self.db.execute("CREATE TABLE o (x)")
            self.db.execute("INSERT INTO o VALUES (x'00'), ('a'), ('7'), (NULL)")
            each = "SELECT x, key FROM o CROSS JOIN {} ON key IN (x, 'b')"
            self.assertEqual(self.rows(each.format("t")), self.rows(each.format("model")), encoding)
            in_order = "TEMP B-TREE" not in self.plan("SELECT * FROM t WHERE key IN ('a', 'b') ORDER BY key DESC")
            self.assertEqual(in_order, encoding == "UTF-8")

    def test_a_program_may_refuse_pragmas(self) -> None:
        self.db.set_authorizer(lambda action, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_PRAGMA else sqlite3.SQLITE_OK)
        self.db.execute("CREATE VIRTUAL TABLE t USING espalier(key TEXT, value)")
        self.db.execute("INSERT INTO t VALUES ('b', 1), ('a', 2), ('c', 3)")
        self.assertEqual(self.rows("SELECT key FROM t WHERE key > 'a' ORDER BY key DESC"), [("c",), ("b",)])
        self.assertEqual(self.rows("SELECT value FROM t WHERE key = 'a'"), [(2,)])

    def test_names_may_be_quoted(self) -> None:
        for name in ('"order"', "[a b]", "`x``y`", '"a ""b"" c"', "plain"):
            self.db.execute(f"CREATE VIRTUAL TABLE t USING espalier({name}   INTEGER  primary\tKEY , \"group\")")
            self.db.execute("INSERT INTO t VALUES (1, 2)")
            self.assertEqual(self.rows(f'SELECT {name}, "group" FROM t WHERE {name} = 1'), [(1, 2)])
            self.db.execute("DROP TABLE t")

    def test_what_is_no_table_or_no_key_is_refused(self) -> None:
        self.db.execute("CREATE VIRTUAL TABLE keeps USING espalier(key INTEGER, value)")
        with self.assertRaisesRegex(sqlite3.OperationalError, "keeps its name"):
            self.db.execute("ALTER TABLE keeps RENAME TO other")
        for arguments in ("", "key INTEGER", "key REAL, value", "key INTEGER, value, other=1", "key INTEGER, value, shared=",
                          # What SQLite would not check.
                          "key INTEGER, value UNIQUE", "key INTEGER, value NOT NULL", "key INTEGER, value TEXT",
                          "key INTEGER, value CHECK (value > 1)", "key INTEGER UNIQUE, value", "key INTEGER PRIMARY KEY DESC, value",
                          "key COLLATE NOCASE TEXT, value", "key, value", "INTEGER, value"):
            with self.assertRaisesRegex(sqlite3.OperationalError, "the arguments are: key INTEGER or key TEXT"):
                self.db.execute(f"CREATE VIRTUAL TABLE t USING espalier({arguments})")
        self.db.execute("CREATE VIRTUAL TABLE n USING espalier(key INTEGER, value)")
        self.db.execute("CREATE VIRTUAL TABLE s USING espalier(key TEXT, value)")
        self.db.execute("INSERT INTO n VALUES ('12', 1), (13.0, 1), (-9223372036854775808, 1)")
        self.assertEqual(self.rows("SELECT key FROM n"), [(-(2**63),), (12,), (13,)])
        self.assertEqual(self.rows("SELECT key FROM n WHERE key = ?", -(2.0**63)), [(-(2**63),)])
        for table, key, message in (
            ("n", "'twelve'", "is an integer"),
            ("n", "1.5", "is an integer"),
            ("n", "9.3e18", "is an integer"),
            ("n", "9223372036854775808", "is an integer"),
            ("n", "'9223372036854775808'", "is an integer"),
            ("n", "NULL", "may not be NULL"),
            ("s", "x'00'", "is a text"),
            ("s", "NULL", "may not be NULL"),
        ):
            with self.assertRaisesRegex(sqlite3.Error, message):
                self.db.execute(f"INSERT INTO {table} VALUES ({key}, 1)")


if __name__ == "__main__":
    EXTENSION = sys.argv.pop(1)
    unittest.main()
