#!/usr/bin/env python3
"""Makes the documentation a site: the pages, the API and results of studies, with search; it works without a network.

usage: tools/make_site.py [--out FOLDER] [--studies FOLDER ...] [--no-api]

--out       where the site is made: FOLDER/html/index.html is its first page; by default build/site
--studies   folders that `espalier bench --study` or `espalier simulate --study` wrote by --out, for the gallery
--no-api    without the API, for which Doxygen is needed

Needs mkdocs-material. Where Python has none, it is installed from PyPI into an environment of its own in the folder of the site.
Afterwards each link is followed: one that leads nowhere is an error.
"""

import argparse
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse
import venv
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERDICTS = ("agrees", "differs", "not judged", "not measurable")
LANGUAGES = {".cpp": "cpp", ".hpp": "cpp", ".c": "c", ".py": "python"}
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


class NoSite(Exception):
    """Why there is no site."""


def python_with_mkdocs(folder: pathlib.Path) -> str:
    """An interpreter that has mkdocs-material."""
    own = folder / "environment"
    for python in (sys.executable, str(own / "bin/python")):
        if pathlib.Path(python).exists() and subprocess.run([python, "-c", "import material"], capture_output=True).returncode == 0:
            return python
    print("installing mkdocs-material")
    venv.create(own, with_pip=True)
    python = str(own / "bin/python")
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", "mkdocs-material"], capture_output=True, text=True)
    if done.returncode != 0:
        raise NoSite(f"mkdocs-material is absent and cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    return python


def make_api(folder: pathlib.Path) -> dict[str, str]:
    """Writes the API into the folder. Returns its page of each header, by the header's path in the repository."""
    doxygen = shutil.which("doxygen")
    if doxygen is None:
        raise NoSite("doxygen is absent: install it, or say --no-api")
    folder.mkdir(parents=True)
    version = re.search(r"^  VERSION (\S+)$", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
    settings = (ROOT / "docs/Doxyfile.in").read_text()
    settings = re.sub("@PROJECT_VERSION@", version, settings)
    settings = re.sub("@(PROJECT_DESCRIPTION|PROJECT_SOURCE_DIR|api_folder)@", "", settings)
    settings = re.sub(r"(?<= )(docs|\S+\.md)(?= )", "", settings)  # these are the site's own pages
    settings += f"""
PROJECT_BRIEF = "The interface, header by header"
OUTPUT_DIRECTORY = "{folder.parent}"
HTML_OUTPUT = {folder.name}
FILE_PATTERNS = *.hpp
USE_MDFILE_AS_MAINPAGE =
HTML_EXTRA_STYLESHEET = docs/site/api.css
GENERATE_TAGFILE = "{folder.parent}/api.xml"
"""
    done = subprocess.run([doxygen, "-"], input=settings, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise NoSite(f"doxygen failed:\n{done.stderr}")
    index = folder / "index.html"
    index.write_text(index.read_text().replace(
        '<div class="contents">', '<div class="contents"><p><a href="../index.html">The documentation</a>; '
        '<a href="files.html">the headers</a>; <a href="annotated.html">the classes</a></p>', 1))
    # Doxygen summarises a class with private members of its own by a link to a place that the page does not have.
    for page in folder.glob("*.html"):
        text = page.read_text()
        if 'href="#nested-classes"' in text and 'name="nested-classes"' not in text:
            page.write_text(re.sub('<a href="#nested-classes">([^<]*)</a>', r"\1", text))
    pages = {}
    for compound in xml.etree.ElementTree.parse(folder.parent / "api.xml").getroot().iter("compound"):
        if compound.get("kind") == "file":
            path = pathlib.Path(compound.findtext("path"), compound.findtext("name")).relative_to(ROOT)
            file = compound.findtext("filename")
            file += "" if file.endswith(".html") else ".html"
            pages[str(path)] = file
    return pages


def stage_examples(pages: pathlib.Path) -> None:
    """One page with all examples, each under what its first comment says."""
    lines = ["# Examples", "", "Small programs, one for each way of use. `cmake --build` builds them in `examples/`.", ""]
    for program in sorted((ROOT / "examples").iterdir()):
        language = LANGUAGES.get(program.suffix)
        if language:
            lines += [f"## {program.name}", "", f"```{language}", program.read_text().rstrip(), "```", ""]
    (pages / "examples").mkdir()
    (pages / "examples/README.md").write_text("\n".join(lines))


def stage_studies(pages: pathlib.Path, folders: list[pathlib.Path]) -> None:
    """A gallery: a table of the studies with their verdicts, and their pages."""
    target = pages / "studies"
    target.mkdir()
    lines = ["# Results of studies", "", "Published measurements, repeated. [What they are](../docs/studies.md), and how a finding "
             "is judged.", ""]
    if not folders:
        lines.append("No results were given when this site was made: `tools/make_site.py --studies FOLDER` shows those that "
                     "`espalier bench --study NAME --out FOLDER` wrote.")
    else:
        lines += [f"| study | {' | '.join(VERDICTS)} |", "|---" * (len(VERDICTS) + 1) + "|"]
    for folder in folders:
        results = next((json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))
                        if '"study"' in file.read_text()), None)
        if results is None or not (folder / "index.html").exists():
            raise NoSite(f"{folder} has no results of a study: a file .json and index.html, as `--study NAME --out` writes them")
        shutil.copytree(folder, target / folder.name)
        found = [claim.get("verdict", "") for claim in results["study"].get("claims", results["study"].get("findings", []))]
        counts = [str(sum(verdict.startswith(word) for verdict in found)) for word in VERDICTS]
        lines.append(f"| [{folder.name}]({folder.name}/index.html) | {' | '.join(counts)} |")
    (target / "index.md").write_text("\n".join(lines) + "\n")


def stage_pages(pages: pathlib.Path, headers: dict[str, str]) -> None:
    """Copies each page to its place. Links to headers lead to the API, those to other files of the source become their names."""
    sources = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "preload/README.md", ROOT / "sim/README.md",
               ROOT / "src/espalier/README.md"]
    staged = {source.relative_to(ROOT) for source in sources}

    def target_of(page: pathlib.Path, link: str) -> str | None:
        """The link from this page on the site, or None if the site does not have what it leads to."""
        if "://" in link or link.startswith("mailto:"):
            return link
        path = pathlib.Path(os.path.normpath(page.parent / link))
        up = "../" * len(page.parent.parts)
        if path in staged:
            return link
        if str(path) in headers:
            return f"{up}api/{headers[str(path)]}"
        if path == pathlib.Path("examples"):
            return f"{up}examples/README.md"
        if (ROOT / path / "README.md").exists() and path / "README.md" in staged:
            return f"{up}{path}/README.md"
        if path.suffix in (".svg", ".png"):
            (pages / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, pages / path)
            return link
        return None

    def rewritten(page: pathlib.Path, text: str) -> str:
        def link(match: re.Match) -> str:
            label, target, rest = match[1], match[2], match[3]
            to = target_of(page, target)
            return f"[{label}]({to}{rest}" if to else label

        return LINK.sub(link, text)

    for source in sources:
        page = source.relative_to(ROOT)
        parts = FENCE.split(source.read_text())
        parts[::2] = [rewritten(page, part) for part in parts[::2]]
        (pages / page).parent.mkdir(parents=True, exist_ok=True)
        (pages / page).write_text("".join(parts))
    (pages / "docs/site").mkdir(exist_ok=True)
    shutil.copy(ROOT / "docs/site/phone.css", pages / "docs/site")


class Links(html.parser.HTMLParser):
    """What a page refers to, and the names it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        self.names.update(filter(None, (of.get("id"), of.get("name"))))
        self.targets.update(filter(None, (of.get("href"), of.get("src"))))


def dead_links(site: pathlib.Path) -> list[str]:
    """Each link of a page of the site to a page or a place in one that is not there."""
    pages = {page: Links(page.read_text(errors="replace")) for page in site.rglob("*.html")}
    dead = []
    for page, links in sorted(pages.items()):
        for target in sorted(links.targets):
            parts = urllib.parse.urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (page.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else page
            if file.is_dir():
                file = file / "index.html"
            name = urllib.parse.unquote(parts.fragment)
            if not file.exists():
                dead.append(f"{page.relative_to(site)}: {target}")
            elif name and file in pages and not name.startswith("__") and name not in pages[file].names:
                dead.append(f"{page.relative_to(site)}: {target}: the page has no such place")
    return dead


def make(out: pathlib.Path, studies: list[pathlib.Path], api: bool) -> pathlib.Path:
    out.mkdir(parents=True, exist_ok=True)
    python = python_with_mkdocs(out)
    pages, site = out / "pages", out / "html"
    for folder in (pages, site):
        shutil.rmtree(folder, ignore_errors=True)
    pages.mkdir()
    headers = make_api(pages / "api") if api else {}
    stage_examples(pages)
    stage_studies(pages, studies)
    stage_pages(pages, headers)
    (pages / "api.xml").unlink(missing_ok=True)
    settings = pages.parent / "mkdocs.yml"
    text = (ROOT / "docs/site/mkdocs.yml").read_text()
    settings.write_text(text if api else text.replace("  - API: api/index.html\n", ""))
    done = subprocess.run([python, "-m", "mkdocs", "build", "--quiet", "--config-file", settings],
                          env={**os.environ, "ESPALIER_SITE_PAGES": str(pages), "ESPALIER_SITE_FOLDER": str(site)},
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise NoSite(f"mkdocs failed:\n{done.stdout}{done.stderr}")
    (site / "404.html").unlink(missing_ok=True)  # its links hold at the root of a server alone
    dead = dead_links(site)
    if dead:
        raise NoSite("links that lead nowhere:\n  " + "\n  ".join(dead))
    return site / "index.html"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/site")
    parser.add_argument("--studies", type=pathlib.Path, nargs="+", default=[])
    parser.add_argument("--no-api", action="store_true")
    chosen = parser.parse_args()
    try:
        print(make(chosen.out.resolve(), [folder.resolve() for folder in chosen.studies], not chosen.no_api))
    except NoSite as why:
        print(f"error: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
