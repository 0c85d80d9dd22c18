#!/usr/bin/env python3
"""Compares espalier with sortedcontainers and cachetools: ratios of CPU time, each part in turns; larger is faster.

needs: pip install sortedcontainers cachetools
"""

import argparse
import random
import statistics
import threading
import time

import cachetools
import numpy
from espalier import Cache, OrderedMap
from sortedcontainers import SortedDict


def cpu_of(call):
    begin = time.thread_time()
    call()
    return time.thread_time() - begin


def in_turns(rounds, ours, theirs):
    """The ratio of medians, and its extremes by rounds."""
    times = [(cpu_of(ours()), cpu_of(theirs())) for _ in range(rounds)]
    ratios = [other / own for own, other in times]
    own, other = (statistics.median(column) for column in zip(*times))
    return other / own, min(ratios), max(ratios)


def show(name, ratio):
    print(f"{name:<44} {ratio[0]:6.2f} x  ({ratio[1]:.2f} to {ratio[2]:.2f})", flush=True)


def maps(n, batch, rounds):
    draw = numpy.random.default_rng(1)
    keys = draw.permutation(numpy.arange(n, dtype=numpy.int64) * 7)
    parts = [keys[i:i + batch] for i in range(0, n, batch)]
    # sortedcontainers is given the integers of Python that it needs.
    lists = [part.tolist() for part in parts]
    shuffled = draw.permutation(keys)
    asked = [shuffled[i:i + batch] for i in range(0, min(n, 100 * batch), batch)]
    asked_lists = [part.tolist() for part in asked]
    ours, theirs = OrderedMap(values=int), SortedDict()

    def insert_ours():
        def call():
            ours.clear()
            for part in parts:
                ours.insert_many(part, part)
        return call

    def insert_theirs():
        def call():
            theirs.clear()
            for part in lists:
                theirs.update(zip(part, part))
        return call
    show("insert, batches", in_turns(min(rounds, 3), insert_ours, insert_theirs))

    def find_ours():
        def call():
            for part in asked:
                ours.find_many(part)
        return call

    def find_theirs():
        def call():
            get = theirs.get
            for part in asked_lists:
                [get(key) for key in part]
        return call
    show("find, batches", in_turns(rounds, find_ours, find_theirs))

    for kind in (int, object):
        single = OrderedMap(values=kind)
        single.insert_many(keys, keys if kind is int else keys.tolist())

        def each(m, part, call):
            return lambda: lambda: call(m, part)

        def subscript(m, many):
            for part in many:
                for key in part:
                    m[key]

        def get(m, many):
            for part in many:
                for key in part:
                    m.get(key)

        def contains(m, many):
            for part in many:
                for key in part:
                    key in m

        def assign(m, many):
            for part in many:
                for key in part:
                    m[key] = key

        def new(m, many):
            for part in many:
                for key in part:
                    m[key + 1] = key
            for part in many:
                for key in part:
                    del m[key + 1]

        def ranges(m, many):
            for part in many:
                for key in part[::20]:
                    list(m.irange(key, key + 140))
        for name, call in (("m[key]", subscript), ("m.get(key)", get), ("key in m", contains),
                           ("m[key] = value, present", assign), ("m[key] = value, absent; del", new),
                           ("irange of 20", ranges)):
            show(f"{name}, values {kind.__name__}",
                 in_turns(rounds, each(single, asked_lists, call), each(theirs, asked_lists, call)))

    def iterate(m):
        return lambda: lambda: sum(1 for _ in m)
    show("iteration over keys", in_turns(rounds, iterate(ours), iterate(theirs)))


def threads(n, batch, rounds):
    """Wall time, which two threads are for: operations of two threads against those of one."""
    draw = numpy.random.default_rng(2)
    keys = draw.permutation(numpy.arange(n, dtype=numpy.int64) * 7)
    m = OrderedMap(values=int)
    m.insert_many(keys, keys)
    parts = [keys[i:i + batch] for i in range(0, n, batch)]

    def find(mine):
        # Often enough that the start of the threads is a small part.
        for _ in range(10):
            for part in mine:
                m.find_many(part)

    def change(mine):
        for part in mine:
            m.erase_many(part)
            m.insert_many(part, part)

    for name, call in (("find", find), ("erase and insert", change)):
        ratios = []
        for _ in range(rounds):
            begin = time.monotonic()
            call(parts)
            one = time.monotonic() - begin
            both = [threading.Thread(target=call, args=(parts[i::2],)) for i in range(2)]
            begin = time.monotonic()
            for thread in both:
                thread.start()
            for thread in both:
                thread.join()
            ratios.append(one / (time.monotonic() - begin))
        show(f"{name}, batches, two threads against one", (statistics.median(ratios), min(ratios), max(ratios)))


def caches(n, rounds):
    draw = random.Random(3)
    keys = [b"key:%d" % i for i in range(n)]
    asked = [draw.choice(keys) for _ in range(100_000)]
    value = b"x" * 100
    ours, theirs = Cache(max(1 << 20, n * 400)), cachetools.TTLCache(n, 3600)

    def fill_ours():
        return lambda: [ours.set(key, value) for key in keys]

    def fill_theirs():
        return lambda: [theirs.__setitem__(key, value) for key in keys]

    def get(cache):
        return lambda: lambda: [cache.get(key) for key in asked]

    def get_many():
        return lambda: [ours.get_many(asked[i:i + 100]) for i in range(0, len(asked), 100)]
    show("cache, set", in_turns(rounds, fill_ours, fill_theirs))
    show("cache, get", in_turns(rounds, get(ours), get(theirs)))
    show("cache, get_many against get", in_turns(rounds, get_many, get(theirs)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--part", choices=("maps", "threads", "caches"), action="append")
    given = parser.parse_args()
    parts = given.part or ["maps", "threads", "caches"]
    if "maps" in parts:
        maps(given.keys, given.batch, given.rounds)
    if "threads" in parts:
        threads(given.keys, given.batch, given.rounds)
    if "caches" in parts:
        caches(given.keys // 10, given.rounds)


if __name__ == "__main__":
    main()
