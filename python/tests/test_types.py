"""The type stubs, by mypy where it is installed."""

import os
import pathlib

import espalier
import pytest

PROGRAM = """
from typing import Any
from typing_extensions import assert_type
import numpy
from numpy.typing import NDArray
from espalier import Cache, OrderedMap

assert_type(OrderedMap({1: "x"}), OrderedMap[int, Any])
numbers = OrderedMap({1: 2}, values=int)
assert_type(numbers, OrderedMap[int, int])
assert_type(numbers[1], int)
assert_type(numbers[1:2], list[tuple[int, int]])
assert_type(numbers.popitem(numpy.int64(0)), tuple[int, int])
assert_type(numbers.find_many([1]), tuple[NDArray[numpy.int64], NDArray[numpy.bool_]])
visits = OrderedMap(keys=bytes, values=bytes)
assert_type(visits.ceiling(b"a"), tuple[bytes, bytes] | None)
assert_type(visits.find_many([b"a"]), tuple[list[bytes | None], NDArray[numpy.bool_]])
assert_type(Cache().get(b"a"), bytes | None)
assert_type(list(reversed(visits.items())), list[tuple[bytes, bytes]])
assert_type([list(reversed(view)) for view in (visits.keys(), visits.values())], list[list[bytes]])
visits["a"] = b"1"  # type: ignore[index]
numbers[1] = "a"  # type: ignore[assignment]
"""


def test_stubs(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    folder = pathlib.Path(os.path.abspath(espalier.__file__)).parent.parent
    if folder.name != "site-packages":  # where mypy finds it
        monkeypatch.setenv("MYPYPATH", str(folder))
    out, _, status = api.run(["--warn-unused-ignores", "--ignore-missing-imports", "--follow-imports=silent",
                              f"--cache-dir={tmp_path / 'cache'}", str(program)])
    assert status == 0, out
