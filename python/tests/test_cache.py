"""Cache against a dict, under threads; and what it refuses."""

import gc
import random
import threading
import time

import pytest
from espalier import Cache


def test_random_operations_against_a_dict():
    cache, model, draw = Cache(8 << 20), {}, random.Random(1)
    for _ in range(1500):
        key = b"%d" % draw.randrange(80) * draw.choice((1, 1, 100))
        value = b"v%d" % draw.randrange(1000) * draw.choice((1, 300))
        keys = [b"%d" % draw.randrange(80) for _ in range(5)]
        operation = draw.randrange(8)
        if operation == 0:
            assert cache.set(key, value)
            model[key] = value
        elif operation == 1:
            assert cache.get(key) == model.get(key) and cache.get(key, 5) == model.get(key, 5)
        elif operation == 2:
            assert cache.delete(key) == (model.pop(key, None) is not None)
        elif operation == 3:
            assert cache.add(key, value) == (key not in model)
            model.setdefault(key, value)
        elif operation == 4:
            assert cache.get_many(keys) == {k: model[k] for k in keys if k in model}
        elif operation == 5:
            assert cache.set_many({k: value for k in keys}) == len(set(keys))
            model.update({k: value for k in keys})
        elif operation == 6:
            assert (key in cache) == (key in model)
        else:
            assert cache.get_or_set(key, lambda: value) == model.setdefault(key, value)
        assert len(cache) == len(model)
    cache.clear()
    assert not cache.get_many(list(model))


def test_memory_has_a_limit():
    cache = Cache(2 << 20)
    for n in range(5000):
        assert cache.set(b"%d" % n, b"x" * 1000)
    now = cache.statistics()
    assert now["evictions"] > 0 and now["used_bytes"] <= 2 << 20 and now["stored"] == 5000
    assert len(cache) == now["entries"] < 5000
    assert not cache.set(b"large", b"x" * (2 << 20)) and cache.get(b"large") is None
    keeps = Cache(2 << 20, evicts=False)
    assert keeps.set_many({b"%d" % n: b"x" * 1000 for n in range(5000)}) < 5000
    assert keeps.get(b"0") == b"x" * 1000


def test_the_garbage_collector_runs_within_a_batch():
    """At each allocation of a set_many in turn, an object ends that removes all entries of the dict."""
    class Ends:
        def __init__(self, of):
            self.of, self.circle = of, self

        def __del__(self):
            self.of.clear()
    before, keys = gc.get_threshold(), [b"%d" % n for n in range(2000)]
    try:
        for allocation in range(1, 20):
            cache, entries = Cache(), {key: key for key in keys}
            gc.collect()
            gc.disable()
            Ends(entries)
            gc.set_threshold(allocation)
            gc.enable()
            stored = cache.set_many(entries)
            gc.disable()
            assert cache.get_many(keys) == ({key: key for key in keys} if stored else {})
    finally:
        gc.set_threshold(*before)
        gc.enable()


def gone(cache, key):
    """Waits for it. A test that hangs is stopped by its runner."""
    while cache.get(key) is not None:
        time.sleep(0.01)
    return True


def test_entries_end():
    cache = Cache(ttl=0.05)
    cache.set(b"a", b"1")
    cache.set(b"b", b"1", ttl=1000)
    cache.set_many({b"c": b"1"})
    cache.get_or_set(b"d", lambda: b"1")
    assert gone(cache, b"a") and gone(cache, b"c") and gone(cache, b"d")
    assert cache.add(b"e", b"1", ttl=1000) and cache.set_many({b"f": b"1"}, ttl=1000) == 1 and cache.add(b"g", b"1")
    assert gone(cache, b"g") and cache.get_many([b"e", b"f"]) == {b"e": b"1", b"f": b"1"}
    assert cache.get(b"b") == b"1" and cache.touch(b"b", 0.01) and gone(cache, b"b")
    assert not cache.touch(b"b")


def test_errors():
    for arguments in ({"max_bytes": 1}, {"max_bytes": 4 << 20, "largest_entry": 3 << 20}, {"ttl": 0}, {"ttl": -1},
                      {"ttl": float("nan")}):
        with pytest.raises(ValueError):
            Cache(**arguments)
    cache = Cache()
    for call in (lambda: cache.get("a"), lambda: cache.set(b"a", "b"), lambda: cache.set(1, b""), lambda: cache.get_many([1]),
                 lambda: cache.set_many({b"a": None}), lambda: cache.set(b"a", b"b", ttl="c"),
                 lambda: cache.get_or_set(b"new", lambda: 3), lambda: cache.get_many(5), lambda: Cache(largest_entry=-1),
                 lambda: Cache(largest_entry=1.5), lambda: Cache(-1)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ZeroDivisionError):
        cache.get_or_set(b"new", lambda: 1 // 0)
    assert cache.get_or_set(b"new", lambda: b"made") == b"made" and len(cache) == 1


def test_one_thread_makes_a_value_for_all():
    cache, made, begun = Cache(), [], threading.Barrier(4)

    def make():
        made.append(1)
        time.sleep(0.02)  # the others come meanwhile
        return b"value"

    def work():
        begun.wait()
        assert cache.get_or_set(b"key", make) == b"value"
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
