"""Results of the command as tables of pandas."""

import json
import sys

import pytest
from espalier import read_results

RESULTS = {"context": {"host_name": "here"},
           "benchmarks": [{"name": "a", "map": "ordered_map", "threads": 2, "cpu_time": 1.5, "llc_misses": "unavailable"},
                          {"name": "b", "map": "ticket", "threads": 1, "cpu_time": 2.5, "llc_misses": 3,
                           "transactions": {"all": {"commits": 1}}}],
           "latency": [{"map": "ordered_map", "operation": "all", "p50": 4}]}


@pytest.fixture
def results(tmp_path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps(RESULTS))
    return path


def test_a_table_of_each_part(results):
    pytest.importorskip("pandas")
    frame = read_results(results)
    assert list(frame["map"]) == ["ordered_map", "ticket"] and frame["cpu_time"].sum() == 4
    assert frame["llc_misses"].isna().tolist() == [True, False]
    assert frame["transactions.all.commits"].tolist()[1] == 1
    assert frame.attrs["context"]["host_name"] == "here"
    assert read_results(results, "latency")["p50"].tolist() == [4]
    with pytest.raises(ValueError, match="has no list 'other'"):
        read_results(results, "other")


@pytest.mark.parametrize("content", [b"", b"{", b'{"benchmarks": []} and more', b"\xff\xfe", b"null", b"[1]", b'{"benchmarks": [1]}'])
def test_what_is_no_file_of_results_is_named(tmp_path, content):
    pytest.importorskip("pandas")
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="other.json: "):
        read_results(path)


def test_without_pandas(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        read_results(results)
