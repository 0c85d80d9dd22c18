"""Threads, and copies of a process whose threads are allocating, and pools of both. Argument: how often."""

import collections
import concurrent.futures
import json
import multiprocessing
import os
import queue
import sys
import threading
import zlib


def text(seed: int) -> int:
    return zlib.crc32(json.dumps([{str(i): "x" * (i * seed % 300)} for i in range(300)]).encode())


def forked(seed: int) -> int:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, str(text(seed)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        value = int(told.read())
    os.waitpid(child, 0)
    return value


def main(rounds: int) -> None:
    given: queue.Queue = queue.Queue(3)
    done: queue.Queue = queue.Queue()

    def work() -> None:
        while (seed := given.get()) is not None:
            done.put((seed, text(seed), bytes(bytearray(seed * 997)).count(0)))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for one in threads:
        one.start()
    for seed in range(rounds):
        given.put(seed)
        if seed % 4 == 0:
            assert forked(seed) == text(seed), "while the others allocate"
    for _ in threads:
        given.put(None)
    for one in threads:
        one.join()
    print(sorted(done.queue))
    with multiprocessing.get_context("fork").Pool(3) as pool:
        print(pool.map(text, range(rounds), chunksize=3))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        print(sorted(collections.Counter(pool.map(text, [seed % 7 for seed in range(rounds)])).items()))
    for _ in range(rounds):
        one = threading.Thread(target=text, args=(5,))
        one.start()
        one.join()


if __name__ == "__main__":
    main(int(sys.argv[1]))
