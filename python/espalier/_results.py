"""What `espalier bench` writes, as tables of pandas."""

import json


def read_results(path, part="benchmarks"):
    """The table of a results file: a row for each run and each aggregate; with part="latency", for each distribution of
    latencies. What was not measured is missing. `attrs["context"]` has the machine and the build."""
    try:
        import pandas
    except ImportError:
        raise ImportError("read_results needs pandas: pip install pandas") from None
    with open(path, encoding="utf-8") as file:
        try:
            results = json.load(file)
        except ValueError as error:  # no JSON, or no UTF-8
            raise ValueError(f"{path}: {error}") from None
    rows = results.get(part) if isinstance(results, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path}: has no list '{part}', which the JSON that `espalier bench` writes has")
    frame = pandas.json_normalize(rows).replace("unavailable", pandas.NA)
    frame = frame.infer_objects()
    frame.attrs["context"] = results.get("context", {})
    return frame
