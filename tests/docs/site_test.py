#!/usr/bin/env python3
"""The site that tools/make_site.py builds: its links lead somewhere, and no page is wider than a phone.

usage: site_test.py FOLDER
"""

import json
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path[:0] = [str(ROOT / "tests/report"), str(ROOT / "tools")]

import browser_test  # noqa: E402
import make_site  # noqa: E402


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        study = FOLDER / "a-study"
        study.mkdir(exist_ok=True)
        (study / "index.html").write_text('<!DOCTYPE html><meta name="viewport" content="width=device-width">'
                                          "<title>A study</title><p>Its figures.")
        (study / "study.json").write_text(json.dumps(
            {"study": {"claims": [{"verdict": "agrees"}, {"verdict": "agrees"}, {"verdict": "differs"}]}}))
        done = subprocess.run([sys.executable, ROOT / "tools/make_site.py", "--out", FOLDER, "--studies", study],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        cls.first = pathlib.Path(done.stdout.splitlines()[-1])

    def test_the_gallery_counts_verdicts(self) -> None:
        gallery = (self.first.parent / "studies/index.html").read_text()
        self.assertRegex(gallery, r'a-study/index\.html">a-study</a></td>\s*<td>2</td>\s*<td>1</td>')

    def test_headers_lead_to_the_api(self) -> None:
        self.assertIn("api/byte__cache_8hpp.html", (self.first.parent / "docs/cache.html").read_text())

    def test_a_dead_link_is_found(self) -> None:
        broken = FOLDER / "broken"
        broken.mkdir(exist_ok=True)
        (broken / "a.html").write_text('<a href="b.html#no">x</a><a href="c.html">y</a><a href="b.html#yes">z</a>')
        (broken / "b.html").write_text('<p id="yes">')
        self.assertEqual(make_site.dead_links(broken), ["a.html: b.html#no: the page has no such place", "a.html: c.html"])

    def test_no_page_is_wider_than_a_phone(self) -> None:
        browser = browser_test.the_browser()
        browser.emulate(browser_test.PHONE)
        site = self.first.parent
        api = [page for page in sorted((site / "api").glob("*.html")) if page.stat().st_size < 1 << 20]
        for page in [*(page for page in sorted(site.rglob("*.html")) if site / "api" not in page.parents), *api[::20]]:
            browser.driver.get(page.as_uri())
            width = browser.driver.execute_script("return document.documentElement.scrollWidth")
            self.assertLessEqual(width, browser_test.PHONE[0], page)


if __name__ == "__main__":
    unittest.main()
