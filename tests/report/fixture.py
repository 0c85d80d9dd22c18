"""Makes results documents for the tests, in the shape that `espalier bench` and `espalier simulate` write."""

from __future__ import annotations

import math
import pathlib
import re
import statistics
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "report"))

UNAVAILABLE = "unavailable"
NASTY = "<b>a&b</b><script>alert(\"1'\")</script>"

GONE = object()

Json = dict[str, Any]


def put(document: Json, changes: Json) -> Json:
    """The document with other values at these places, which are written as messages write them: benchmarks[3].name. [*]
    stands for each; GONE takes a place out, and of what is a function the value is made."""
    for place, value in changes.items():
        *path, last = (int(one) if re.fullmatch(r"-?\d+", one) else one for one in re.findall(r"[^.\[\]]+", place))
        found: list[Any] = [document]
        for step in path:
            found = [inner for one in found for inner in (one if step == "*" else [one[step]])]
        for one in found:
            if value is GONE:
                del one[last]
            else:
                one[last] = value(one[last]) if callable(value) else value
    return document


def context() -> Json:
    return {
        "date": "2026-01-02T03:04:05+00:00", "host_name": "bench-host",
        "executable": "espalier", "num_cpus": 8, "mhz_per_cpu": 2600,
        "cpu_scaling_enabled": False,
        "caches": [{"type": "Data", "level": 1, "size": 49152, "num_sharing": 1},
                   {"type": "Unified", "level": 3, "size": 34603008, "num_sharing": 8}],
        "load_avg": [0.1, 0.2, 0.3], "library_build_type": "release",
        "espalier_version": "0.1.0", "commit": UNAVAILABLE, "compiler": "g++ 12.2.0",
        "build_flags": "-O2", "cpu_model": "Example CPU",
        "topology": "1 package, 8 cores, 8 threads, 1 NUMA node", "huge_pages": "madvise",
        "rtm": UNAVAILABLE, "membarrier": "available", "hardware_counters": UNAVAILABLE,
        "malloc": "jemalloc", "seed": 42, "pinning": "cores",
        "context_switches": {"voluntary": 12, "involuntary": 3}}


def family(workload: str, map_: str, times: list[float | str], threads: int = 4,
           kind: str = "espalier", bytes_per_key: float | str = 64.0,
           leaked: float | str = 0, **more: Any) -> list[Json]:
    """All entries of one map in one workload: repetitions, then aggregates."""
    name = f"{workload}/{map_}/threads:{threads}"
    common = {"name": name, "run_name": name, "family_index": 0,
              "per_family_instance_index": 0, "repetitions": len(times), "threads": threads,
              "iterations": 1000, "time_unit": "ns", "map": map_, "kind": kind,
              "workload": workload, "mix": "90/5/5", "distribution": "uniform",
              "keys": 100000, "placement": "segregated", "instructions": UNAVAILABLE,
              "llc_misses": UNAVAILABLE, "context_switches": 3, **more}
    entries = [{**common, "run_type": "iteration", "repetition_index": index, **timed(time)}
               for index, time in enumerate(times)]
    numbers = [time for time in times if not isinstance(time, str)]
    aggregates = {"median": statistics.median, "mean": statistics.fmean, "min": min, "max": max}
    for aggregate, compute in aggregates.items():
        time = compute(numbers) if numbers else UNAVAILABLE
        entry = {**common, "run_type": "aggregate", "aggregate_name": aggregate,
                 "aggregate_unit": "time", "name": f"{name}_{aggregate}", **timed(time)}
        if aggregate == "median":
            entry |= {"bytes_per_key": bytes_per_key, "leaked_bytes": leaked}
        entries.append(entry)
    return entries


def timed(time: float | str) -> Json:
    if isinstance(time, str):
        return {"real_time": time, "cpu_time": time, "items_per_second": time}
    return {"real_time": time, "cpu_time": time * 3.9, "items_per_second": 1e9 / time}


def latency(workload: str, map_: str, median: float, threads: int = 4, kind: str = "espalier",
            operation: str = "all", steep: float = 1.0) -> Json:
    curve = [[p, median * (1 + 0.5 * math.log10(1 / (1 - p)) ** (2 * steep))]
             for p in (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999)]
    at = dict((p, value) for p, value in curve)
    slowest = max(median * 40, curve[-1][1] * 1.5)
    return {"workload": workload, "map": map_, "kind": kind, "threads": threads,
            "operation": operation, "count": 100000, "p50": at[0.5], "p99": at[0.99],
            "p999": at[0.999], "max": slowest, "unit": "ns",
            "curve": [*curve, [1.0, slowest]]}


def around(median: float, spread: float = 0.02) -> list[float | str]:
    return [median * (1 + spread * step / 2) for step in (-2, -1, 0, 1, 2)]


def document() -> Json:
    """Two workloads, two thread counts, ours and peers, one map unmeasured, one name nasty."""
    benchmarks: list[Json] = []
    for threads, gain in ((2, 1.0), (4, 0.55)):
        benchmarks += family("read-mostly", "edge_ext_lf", around(400 * gain), threads)
        benchmarks += family("read-mostly", "ticket", around(520 * gain), threads, bytes_per_key=48.5)
        benchmarks += family("read-mostly", NASTY, around(600 * gain), threads, leaked=4096)
        benchmarks += family("read-mostly", "locked_std_map", around(2600 * gain), threads,
                             kind="peer", bytes_per_key=UNAVAILABLE, leaked=UNAVAILABLE)
        benchmarks += family("read-mostly", "absent_peer", [UNAVAILABLE] * 5, threads,
                             kind="peer", bytes_per_key=UNAVAILABLE, leaked=UNAVAILABLE)
    benchmarks += family("update-heavy", "edge_ext_lf", around(800, 0.3))
    benchmarks += family("update-heavy", "ticket", around(820, 0.3), bytes_per_key=48.5)
    latencies = [latency("read-mostly", map_, median, kind=kind, operation=operation)
                 for map_, median, kind in (("edge_ext_lf", 300, "espalier"),
                                            ("ticket", 380, "espalier"),
                                            ("locked_std_map", 1500, "peer"))
                 for operation in ("all", "lookup")]
    return {"context": context(), "benchmarks": benchmarks, "latency": latencies}


# Contenders first, then baselines, then peers.
TREES = ("edge_ext_lf", "edge_int_lf", "ticket", "ext_lf", "int_lf", "log_int", "citrus", "occ_avl")
BASELINES = ("locked_map", "global_lock_bst/ttas", "hand_over_hand_bst")
PEERS = ("tbb_concurrent_map", "cds_bronson", "absl_shared_mutex")
WORKLOADS = {"lookups": ("100/0/0", "uniform"), "read-mostly": ("90/5/5", "uniform"),
             "updates-skewed": ("50/25/25", "scrambled-zipfian:0.99"), "scans": ("ycsb-e", "scrambled-zipfian:0.99")}


def many_maps(contenders: int) -> list[tuple[str, str]]:
    """Names with their kinds; the trees come again with other placements."""
    variants = [f"{tree}{variant}" for variant in ("", "/segregated", "/shared_heap", "/line") for tree in TREES]
    assert contenders <= len(variants)
    return [(map_, "espalier") for map_ in (*variants[:contenders], *BASELINES)] + [(map_, "peer") for map_ in PEERS]


def many_document(contenders: int = 24) -> Json:
    """Four workloads of many maps, 30 by default; the last peer knows no scans. Each has latencies up to 99.9999 %."""
    benchmarks: list[Json] = []
    latencies: list[Json] = []
    for place, (map_, kind) in enumerate(many_maps(contenders)):
        slow = 12.0 if map_ in BASELINES else 1.0
        for turn, (workload, (mix, distribution)) in enumerate(WORKLOADS.items()):
            if workload == "scans" and map_ == PEERS[-1]:
                continue
            median = (100 + 40 * turn) * slow * (1 + (place * 7 + turn * 5) % 31 / 20)
            for threads in (1, 4):
                benchmarks += family(workload, map_, around(median * 4 / threads), threads, kind, mix=mix,
                                     distribution=distribution)
            latencies.append(latency(workload, map_, median, kind=kind, steep=1 + place * 5 % 7 / 7) | {"count": 1_000_000})
    return {"context": context(), "benchmarks": benchmarks, "latency": latencies}


# What the page of document() must draw with the first view of each figure: bars, lines.
DRAWN = {"throughput-0": (4, 0), "throughput-1": (2, 0), "latency-0": (0, 3), "memory-0": (3, 0), "scaling-0": (0, 4)}


SERVED = ("l1_hits", "l2_hits", "llc_hits", "local_transfers", "remote_transfers", "local_dram", "remote_dram")
OTHER_COUNTS = ("reads", "writes", "atomics", "fences", "upgrades", "local_invalidations",
                "remote_invalidations", "back_invalidations", "writebacks", "prefetches",
                "tlb_misses", "page_walks", "queue_cycles", "stall_cycles", "cycles")


def simulated_entry(workload: str, map_: str, threads: int, time: float,
                    served: tuple[float, ...], stall: float) -> Json:
    name = f"{workload}/{map_}/threads:{threads}"
    counts = dict.fromkeys(OTHER_COUNTS, 0.125) | dict(zip(SERVED, served))
    counts |= {"accesses": sum(served), "stall_cycles": stall}
    return {"name": name, "run_name": name, "family_index": 0, "per_family_instance_index": 0,
            "run_type": "iteration", "repetitions": 1, "repetition_index": 0, "threads": threads,
            "iterations": 1000, "real_time": time, "cpu_time": time * threads, "time_unit": "ns",
            "items_per_second": 1e9 / time, "simulated": True, "map": map_, "kind": "espalier",
            "workload": workload, "mix": "90/5/5", "distribution": "uniform", "keys": 100000,
            "placement": "segregated", "counts": counts}


def simulated_document() -> Json:
    """One workload at two thread counts, one at one; three maps, one of them with a nasty name."""
    machine = {"name": "e7_4850", "description": "4 x Xeon", "sockets": 4,
               "llc": {"sets": 2048, "ways": 24}, "llc_inclusive": True}
    told = {key: value for key, value in context().items() if key != "host_name"}
    benchmarks = [
        simulated_entry("read-mostly", "ticket", 1, 500.0, (50, 3, 4, 0, 0, 1, 0), 600.0),
        simulated_entry("read-mostly", "locked_map", 1, 520.0, (40, 4, 6, 0, 0, 1, 0), 550.0),
        simulated_entry("read-mostly", "ticket", 40, 20.0, (50, 3, 3, 0.5, 1.25, 1, 1), 1000.0),
        simulated_entry("read-mostly", "locked_map", 40, 4000.0, (41, 4, 6, 16, 29, 1, 1), 344833.0),
        simulated_entry("read-mostly", NASTY, 40, 100.0, (41, 4, 6, 1, 2, 1, 1), 20000.0),
        simulated_entry("scans", "ticket", 40, 30.0, (60, 3, 3, 0, 1, 1, 1), 1500.0)]
    return {"context": told | {"simulated": True, "machine": machine}, "benchmarks": benchmarks}


def calibrated_document() -> Json:
    ratios = [{"workload": "read-mostly", "threads": 1, "map": map_, "reference": "ticket",
               "native_ratio": native, "simulated_ratio": simulated,
               "deviation": simulated / native - 1}
              for map_, native, simulated in (("ticket", 1.0, 1.0), ("locked_map", 1.25, 1.0))]
    return simulated_document() | {"calibration": ratios}


# As DRAWN, of calibrated_document(); a bar of no length is not drawn.
SIMULATED_DRAWN = {"throughput-0": (0, 2), "throughput-1": (1, 0), "served-0": (15, 0),
                   "served-1": (4, 0), "stalls-0": (3, 0), "stalls-1": (1, 0),
                   "calibration-0": (4, 0)}


def study_document(simulated: bool = False) -> Json:
    """Two figures: one with both nodes of two trees, one that nothing was measured for."""
    maps = {"ticket/published": 64, "ticket/segregated": 32, "ext_lf/published": 64, "ext_lf": 32}
    times = {"ticket/published": 300.0, "ticket/segregated": 250.0, "ext_lf/published": 280.0, "ext_lf": 200.0}
    machine = {"machine": "haswell"} if simulated else {}
    workload = "figure-2, 1,000 keys" + (", haswell" if simulated else "")
    findings = [{"paper": "Smaller nodes gain 23 %", "keys": 1000, "ours": "They gain 1.30 times.",
                 "verdict": "agrees", **machine},
                {"paper": f"A {NASTY} loses", "keys": 1000, "ours": f"{NASTY} gains.", "verdict": "differs",
                 **machine}]
    alone = [{"paper": "Shifted is slower", "keys": 1000, "ours": "Not measured: all.",
              "verdict": "not measurable here", **machine}]
    figures = [
        {"id": "figure-2", "title": "What compact nodes gain", "summary": "With both nodes.",
         "panels": [{"workload": workload, "keys": 1000, "threads": 4, **machine}], "node_bytes": maps,
         "missing": [{"map": "citrus", "why": "not in this build"}], "findings": findings},
        {"id": "figure-3", "title": "Children in the line of their parent", "summary": "Shifted.", "panels": [],
         "node_bytes": {}, "missing": [{"map": NASTY, "why": "not in this build"}], "findings": alone}]
    study = {"name": "atc18", "title": "Getting to the root", "paper": "Arbel-Raviv et al., ATC 2018",
             "figures": figures}
    if simulated:
        told = simulated_document()["context"]
        told["machine"] = told["machine"] | {"name": "haswell"}
        benchmarks = [simulated_entry(workload, map_, 4, time, (50, 3, 4, 1, 1, 1, 1), 600.0)
                      for map_, time in times.items()]
        return {"context": told, "benchmarks": benchmarks, "study": study | {"contexts": [told]}}
    benchmarks = [entry for map_, time in times.items()
                  for entry in family(workload, map_, around(time), bytes_per_key=maps[map_])]
    return {"context": context(), "benchmarks": benchmarks, "study": study}


def undecided_document(simulated: bool = False) -> Json:
    """The first figure has 12 findings that share a cause with 11 of the second, and others with other causes."""
    document = study_document(simulated)
    machine = {"machine": "haswell"} if simulated else {}

    def undecided(number: int, ours: str) -> list[Json]:
        return [{"paper": f"Claim {index} on {ours[:9]}", "keys": 1000, "verdict": "not measurable here", **machine,
                 "ours": ours.format(index)} for index in range(number)]

    elsewhere = "ticket does {}.50 Mop/s. The paper has it at 1,000,000 keys."
    spread = "citrus does {}.50 Mop/s. From run to run the ratio is anything from 0.{} to 1.20, which does not tell."
    first, second = document["study"]["figures"]
    first["findings"] += [
        *undecided(12, elsewhere), *undecided(2, "this processor has no transactions."),
        *undecided(2, spread.replace("0.{}", "0.90")), *undecided(2, f"Not measured: {NASTY}."),
        *undecided(1, "Not measured: log_int."),
        *undecided(1, "A mean. The paper has it on abu_dhabi, which this machine is not.")]
    second["findings"] += undecided(11, elsewhere)
    return document


# As DRAWN, of the first figure of study_document(), measured and simulated.
STUDY_DRAWN = {"pairs-0": (4, 0), "throughput-0": (4, 0), "served-0": (20, 0), "stalls-0": (4, 0)}


# A study of charts. Eight indices of four ways hold sixteen nodes.
CHARTED_MALLOCS = ("glibc", "index-aware", NASTY)
CHARTED_SIZES = (64, 496, 512, 2048)
CHARTED_WAYS = 4


def charted_loads(malloc: str, size: int) -> list[int]:
    """glibc is bad at 496, the nasty one at 512 and half as bad at 496."""
    if (malloc, size) in (("glibc", 496), (NASTY, 512)):
        return [0, 8] * 2 + [0] * 4
    return [4, 0] * 4 if (malloc, size) == (NASTY, 496) else [2] * 8


def charted_entry(figure: str, malloc: str, locks: str, size: int, times: list[float], threads: int = 1,
                  **more: Any) -> Json:
    loads = charted_loads(malloc, size)
    elided = {"elision": {"commits": 9}, "committed": 0.0 if max(loads) > CHARTED_WAYS else 0.995,
              "capacity_aborts": 0.25} if locks == "tle" else {"elision": UNAVAILABLE}
    median = statistics.median(times)
    return {"name": f"{figure}/{malloc}/{locks}/size:{size}", "run_type": "iteration", "iterations": 1000,
            "real_time": median * 1.5, "cpu_time": median, "time_unit": "ns", "threads": threads, "malloc": malloc,
            "locks": locks, "size": size, "rounds_cpu_ns": times, "rounds_wall_ns": [time * 1.5 for time in times],
            "largest_load": max(loads), "loads": loads, "resident_kib": 4096, **elided, **more}


def curve(name: str, sizes: Any, value: Any) -> Json:
    return {"name": name, "points": [[size, value(size)] for size in sizes]}


def charted_document(simulated: bool = False) -> Json:
    """A ring with charts, limits and loads, of which one malloc lacks a size; and blocks of one size."""
    sizes = {malloc: CHARTED_SIZES[:3] if malloc == NASTY else CHARTED_SIZES for malloc in CHARTED_MALLOCS}
    said = {"simulated": True} if simulated else {}
    machine = {"machine": "i7_4770"} if simulated else {}
    ring = [charted_entry("ring-16", malloc, locks, size, [100.0, 101.0, 104.0], **said)
            for size in CHARTED_SIZES for malloc in CHARTED_MALLOCS for locks in ("tts", "tle")
            if size in sizes[malloc]]
    fresh = [charted_entry("fresh", malloc, "tts", 1008, [50.0, 50.0, 50.0], 2, **said)
             for malloc in CHARTED_MALLOCS[:2]]
    x = {"x": "Bytes of a node"}
    throughput = {"title": "Throughput", "caption": "Higher is better.", **x, "y": "x index-aware under tts"}
    charts = [
        {**throughput, "series": [
            curve(f"{malloc}, {locks}", sizes[malloc],
                  lambda size, malloc=malloc: 0.25 if max(charted_loads(malloc, size)) > CHARTED_WAYS else 1.0)
            for malloc in CHARTED_MALLOCS for locks in ("tle", "tts")]},
        {"title": "Nodes at the fullest index", "caption": "Lower is better.", **x, "y": "nodes", "series": [
            curve(malloc, sizes[malloc], lambda size, malloc=malloc: max(charted_loads(malloc, size)))
            for malloc in CHARTED_MALLOCS], "limit": {"y": CHARTED_WAYS, "name": "ways of the L1 cache"}}]
    alone = [{**throughput, "series": [curve("glibc, tts", [1008], lambda _: 0.5),
                                       curve("index-aware, tts", [1008], lambda _: 1.0)]}]
    findings = [{"paper": "With glibc, sizes are slow", "ours": "At 496 bytes.", "verdict": "agrees", **machine},
                {"paper": f"{NASTY} has none", "ours": f"{NASTY} has.", "verdict": "differs", "of_paper": False,
                 **machine}]
    figures = [
        {"id": "ring-16", "title": "A ring of 16 nodes", "summary": "Round and round.", "charts": charts,
         "missing": [], "findings": findings},
        {"id": "fresh", "title": "Fresh blocks", "summary": "One by one.", "charts": alone,
         "missing": [{"map": NASTY, "why": "it is not installed"}],
         "findings": [{"paper": "They commit", "ours": "No transactions.", "verdict": "not measurable here",
                       "of_paper": False, **machine}]}]
    study = {"name": "malloc-tsx", "title": "Malloc placement", "paper": "Dice et al., 2015", "figures": figures}
    told = context()
    if simulated:
        told = simulated_document()["context"]
        told["machine"] = told["machine"] | {"name": "i7_4770", "sockets": 1, "cores_per_socket": 4}
        # What a simulation counts are lines, and it knows nothing of rounds or resident memory.
        charts[1]["y"] = "lines"
        study["models"] = {"glibc": "a model of where glibc puts blocks", NASTY: f"a model of {NASTY}"}
        for entry in ring + fresh:
            for member in ("rounds_cpu_ns", "rounds_wall_ns", "resident_kib"):
                del entry[member]
    return {"context": told, "benchmarks": ring + fresh, "study": study}


COST_BENCHMARKS = ("larson", "g++")
COST_MALLOCS = ("glibc", "index-aware", "mimalloc", "random")


def cost_document() -> Json:
    """What mallocs cost: bars with rounds and without, of ours apart from each other; curves; and no paper."""
    rounds = {malloc: [10.0 * place, 11.0 * place, 12.0 * place] for place, malloc in enumerate(COST_MALLOCS, 1)}
    entries = [{"name": f"{benchmark}/{malloc}", "benchmark": benchmark, "run_type": "iteration", "iterations": 1000,
                "real_time": 2 * times[1], "cpu_time": times[1], "time_unit": "ns", "threads": 2, "malloc": malloc,
                "rounds_cpu_ns": times, "peak_kib": 4096 * times[0]}
               for benchmark in COST_BENCHMARKS for malloc, times in rounds.items()]
    bars = [{"name": "glibc", "value": 1.0, "least": 0.9, "most": 1.2, "peer": True},
            {"name": "index-aware", "value": 0.5, "least": 0.4, "most": 0.6},
            {"name": "mimalloc", "value": 0.75, "least": 0.75, "most": 0.75, "peer": True},
            {"name": "random", "value": 3.0, "least": 2.5, "most": 3.5}]
    means = [{key: value for key, value in bar.items() if key not in ("least", "most")} for bar in bars]
    time = [{"title": "Geometric mean", "caption": "Shorter is better.", "y": "x glibc", "bars": means,
             "limit": {"y": 1.15, "name": "x glibc"}},
            {"title": NASTY, "caption": "Shorter is better.", "y": "x glibc", "bars": bars}]
    curves = [{"title": "By size", "caption": "Lower is better.", "x": "Bytes asked for", "y": "bytes held",
               "series": [curve(malloc, (32, 512), lambda size, place=place: 1 + place / size)
                          for place, malloc in enumerate(COST_MALLOCS[:2])]}]
    figures = [
        {"id": "time", "title": "Time over glibc's", "summary": "In turns.", "charts": time,
         "missing": [{"map": "tcmalloc", "why": "it is not installed"}],
         "findings": [{"paper": "It is faster", "of_paper": False, "ours": "It is.", "verdict": "agrees"}]},
        {"id": "classes", "title": "Classes", "summary": "Counted.", "charts": curves, "missing": [], "findings": []},
        {"id": "memory", "title": "Memory", "summary": "None.", "charts": [], "missing": [],
         "findings": [{"paper": "It needs little", "of_paper": False, "ours": "jemalloc was not measured.",
                       "verdict": "not measurable here"}]}]
    return {"context": context(), "benchmarks": entries,
            "study": {"name": "malloc-speed", "title": "The speed of mallocs", "paper": "Larson, 1998",
                      "figures": figures}}


# As DRAWN, of the figures of cost_document().
COST_DRAWN = {"chart-0": (4, 1), "chart-1": (4, 0)}
COST_CLASSES_DRAWN = {"chart-0": (0, 2)}


# As DRAWN, of the figures of charted_document(); and the rows and cells of its grids.
CHARTED_DRAWN = {"chart-0": (0, 6), "chart-1": (0, 4)}
CHARTED_ALONE_DRAWN = {"chart-0": (2, 0)}
CHARTED_GRIDS = {"placement-0": (3, 24), "placement-1": (2, 16)}
