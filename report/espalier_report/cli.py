"""The command line: reads, renders, and writes the page as a whole or not at all."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import pathlib
import sys
import textwrap
from collections.abc import Sequence

from espalier_report import layout, layout_file, page, plotly_bundle, results, study, text
from espalier_report.results import Object

FAILED, REFUSED = 1, 2
# Errors of the place that was named. Any other, such as a full disk, is no fault of the request.
OF_THE_PLACE = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG,
                errno.ELOOP}
STANDARD_OUTPUT = "-"


class OutputError(RuntimeError):
    """One line: why the page cannot be written at the requested place."""


class WriteError(RuntimeError):
    """One line: why a page was lost at a place that is right."""


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    try:
        if not options.output.name:
            raise OutputError("-o names no file; give it the name of one to write")
        inspected = layout_file.load(options.results)
        if inspected is not None:
            return write_layout(options.output, inspected, options.results)
        loaded = results.load(options.results)
        written = write_pages(options.output, loaded, options.results)
    except (results.ResultsError, plotly_bundle.PlotlyMissing, OutputError) as error:
        return complained(error, REFUSED)
    except WriteError as error:
        return complained(error, FAILED)
    held = [text.plural(len(loaded.study.figures), "figure")] if loaded.study else []
    if loaded.timed:
        held.append(text.plural(len(loaded.timed), "measurement"))
    elif loaded.workloads or not loaded.study:
        maps = len({m.label for m in loaded.measurements})
        held += [text.plural(len(loaded.workloads), "workload"), text.plural(maps, "map")]
    told(options.output, f"{', '.join(held)}, {written / 1e6:.1f} MB")
    return 0


def complained(error: Exception, status: int) -> int:
    print(f"espalier report: {' '.join(str(error).split())}", file=sys.stderr)
    return status


def told(target: pathlib.Path, what: str) -> None:
    """The page is there; a reader of this line may have gone."""
    try:
        print(f"{target}: {what}", file=sys.stderr if str(target) == STANDARD_OUTPUT else sys.stdout, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="espalier report",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=textwrap.dedent("""\
            Turns the results of `espalier bench` into one HTML page: which map won which
            workload, charts of throughput, latency, memory and scaling, and every number as a
            table. Results of `espalier simulate` become a page of their own kind, which says on
            every figure that it is simulated. The page is a single file and loads nothing, so it can be mailed, archived
            and opened without a network."""),
        epilog=textwrap.dedent("""\
            examples:
              espalier report results.json -o report.html
              espalier report monday.json tuesday.json -o both.html

            The layout that `espalier inspect` writes by --json becomes a page of its own.

            The study that `--study atc18`, `cache`, `dps`, `eunomia`, `malloc-tsx` or `malloc-speed` writes becomes an
            index, and beside it a page for each of its figures, which share plotly-VERSION.js.

            Several files become one page. Entries are told apart by workload, map and threads;
            where two files hold the same, their maps carry the file's name. Ratios between two
            files also hold what changed between the runs: prefer maps measured in one run.

            exit status: 0 written; 2 nothing written, for a fault of the request; 1 a write failed, as on a full
            disk. One line on stderr says why."""))
    result.add_argument("results", nargs="+", type=pathlib.Path, metavar="RESULTS.json",
                        help="a file that `espalier bench`, `simulate` or `inspect` wrote")
    result.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("report.html"),
                        metavar="REPORT.html", help="the page, or - (default: %(default)s)")
    return result


def write_layout(target: pathlib.Path, inspected: Object, sources: Sequence[pathlib.Path]) -> int:
    html = layout.render(inspected).encode("utf-8", errors="replace")
    written = write_whole(target, html, sources)
    told(target, f"{text.plural(len(inspected['findings']), 'finding')}, "
                 f"{text.plural(len(layout.by_bytes(inspected)), 'type')}, {written / 1e6:.1f} MB")
    return 0


def write_pages(target: pathlib.Path, loaded: results.Results,
                sources: Sequence[pathlib.Path]) -> int:
    """One page, or those of a study beside their index. Returns the number of bytes written."""
    if loaded.study and str(target) == STANDARD_OUTPUT:
        raise OutputError("-: takes one page, and a study has several; give -o the name of a file to write")
    plotly = plotly_bundle.load()
    files = study.files(loaded, target.name, plotly) if loaded.study else \
        [study.File(target.name, page.render(loaded, plotly))]
    if len({one.name for one in files}) < len(files):
        raise OutputError(f"{target}: is the name of another file of the study; give -o another name")
    return sum(write_whole(target.with_name(one.name), one.content.encode("utf-8", errors="replace"),
                           sources) for one in files)


def write_whole(target: pathlib.Path, content: bytes, sources: Sequence[pathlib.Path]) -> int:
    """Writes beside the target and renames, so that a reader never sees an incomplete page."""
    final = pathlib.Path(os.path.realpath(target))
    draft = final.with_name(f".{final.name[:100]}.{os.getpid()}.tmp")
    try:
        if str(target) == STANDARD_OUTPUT:
            sys.stdout.buffer.write(content)
            sys.stdout.flush()
            return len(content)
        if final.exists() and not final.is_file():
            raise OutputError(f"{target}: is no regular file; give -o the name of a file to write")
        if any(final.exists() and final.samefile(source) for source in sources):
            raise OutputError(f"{target}: is one of the results; give -o another name")
        with open(draft, "xb") as file:
            file.write(content)
        os.replace(draft, final)
    except OSError as error:
        if error.errno not in OF_THE_PLACE:
            raise WriteError(f"writing {target} failed ({error.strerror}); nothing of it is left") from None
        raise OutputError(f"{target}: cannot be written ({error.strerror}); "
                          "give -o a file in a folder that exists and is writable") from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
    return len(content)
