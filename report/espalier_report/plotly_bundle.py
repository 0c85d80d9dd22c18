"""Finds plotly.js on this machine and extracts the parts for bars and lines.

Debian's python3-plotly carries the whole library as readable source, 8.6 MB: too much for a page that is sent by
mail. That source is a table of numbered modules, each with the list of the modules that it requires. The part that
a bar and a line chart reach can be taken unchanged: about a fifth of the text. If the table does not look as
expected (PyPI's plotly carries a minified file), the library is used as a whole.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import re

DEBIAN = pathlib.Path("/usr/share/python3-plotly/plotly.js")
HEAD = "({1:[function(_dereq_,module,exports){\n"
BORDER = re.compile(r"^\},(\{.*\})\],(\d+):\[function\(_dereq_,module,exports\)\{\n", re.MULTILINE)
TAIL = re.compile(r"^\},(\{.*\})\]\},\{\},\[(\d+)\]\)\(\d+\)\n\}\);\s*\Z", re.MULTILINE)
VERSION = re.compile(r"plotly\.js v(\d+(?:\.\d+)*)")
NOTICE = re.compile(r"copyright|licen[sc]e|\(c\)|@preserve", re.IGNORECASE)
CORE, BAR = "./core", "./bar"

Module = tuple[str, dict[str, int]]


class PlotlyMissing(RuntimeError):
    """One line: plotly.js was not found, and how to install it."""


def find() -> pathlib.Path:
    if DEBIAN.is_file():
        return DEBIAN
    package = importlib.util.find_spec("plotly")
    for folder in (package.submodule_search_locations or []) if package else []:
        file = pathlib.Path(folder) / "package_data" / "plotly.min.js"
        if file.is_file():
            return file
    raise PlotlyMissing("plotly.js is not installed; `apt-get install python3-plotly` provides "
                        f"{DEBIAN}")


def load() -> str:
    path = find()
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise PlotlyMissing(f"{path}: cannot be read ({error}); "
                            "reinstall python3-plotly") from None
    return as_inline_script(reduced(source) or source)


def file_name(source: str) -> str:
    """The name of the file that several pages share. Pages of another version in the same folder keep theirs."""
    version = VERSION.search(source)
    return f"plotly-{version[1]}.js" if version else "plotly.js"


def as_inline_script(source: str) -> str:
    """Inside a script element neither of these may occur; both forms mean the same in strings."""
    return source.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def reduced(source: str) -> str | None:
    """The library with bars and lines only, or None if the source is no such module table."""
    head, tail = source.find(HEAD), TAIL.search(source)
    if head < 0 or tail is None:
        return None
    modules = _modules(source[head + len(HEAD):tail.start()], json.loads(tail[1]))
    if modules is None or int(tail[2]) not in modules:
        return None
    entry = int(tail[2])
    needed = modules[entry][1]
    if CORE not in needed or BAR not in needed:
        return None
    modules[entry] = (
        f"var Plotly = module.exports = _dereq_('{CORE}');\n"
        f"Plotly.register([_dereq_('{BAR}')]);\n", {CORE: needed[CORE], BAR: needed[BAR]})
    table = ",".join(f"{index}:[function(_dereq_,module,exports){{\n{_stripped(modules[index][0])}"
                     f"}},{json.dumps(modules[index][1])}]"
                     for index in sorted(_reachable(modules, entry)))
    return f"{_stripped(source[:head])}({{{table}}},{{}},[{entry}])({entry})\n}});\n"


def _modules(text: str, last_requires: dict[str, int]) -> dict[int, Module] | None:
    modules: dict[int, Module] = {}
    start, index = 0, 1
    for border in BORDER.finditer(text):
        if int(border[2]) != index + 1:
            return None
        modules[index] = (text[start:border.start()], json.loads(border[1]))
        start, index = border.end(), index + 1
    modules[index] = (text[start:], last_requires)
    return modules if all(required in modules for _, requires in modules.values()
                          for required in requires.values()) else None


def _reachable(modules: dict[int, Module], entry: int) -> set[int]:
    found: set[int] = set()
    waiting = [entry]
    while waiting:
        index = waiting.pop()
        if index not in found:
            found.add(index)
            waiting += modules[index][1].values()
    return found


def _stripped(source: str) -> str:
    """Removes indentation and comments that fill whole lines, except notices of licences.

    A template literal or a continued string could contain such a line as text. A source that may have either is
    left unchanged.
    """
    kept: list[str] = []
    comment: list[str] = []
    in_block = False
    for line in map(str.strip, source.split("\n")):
        if in_block or line.startswith("/*"):
            comment.append(line)
            in_block = "*/" not in line
            if line.partition("*/")[2]:  # Code follows on the same line.
                kept += comment
                comment = []
        elif line.startswith("//"):
            comment.append(line)
        elif line:
            kept += comment if NOTICE.search("\n".join(comment)) else []
            kept.append(line)
            comment = []
    kept += comment if NOTICE.search("\n".join(comment)) else []
    result = "\n".join(kept) + "\n"
    return source if "`" in result or "\\\n" in result else result
