#!/usr/bin/env python3
"""Every file that names the version names the same one."""

import json
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def text(name: str) -> str:
    return (ROOT / name).read_text()


class Version(unittest.TestCase):
    def test_one_version(self) -> None:
        version = re.search(r"^  VERSION (\d+\.\d+\.\d+)$", text("CMakeLists.txt"), re.MULTILINE)[1]
        minor = version.rpartition(".")[0]
        named = {
            "debian/changelog": re.match(r"espalier \((\S+)-\d+\)", text("debian/changelog"))[1],
            "cmake/vcpkg/espalier/vcpkg.json": json.loads(text("cmake/vcpkg/espalier/vcpkg.json"))["version"],
            "CHANGELOG.md": re.search(r"^## \[(\d\S*)\]", text("CHANGELOG.md"), re.MULTILINE)[1],
        }
        self.assertEqual(named, dict.fromkeys(named, version))
        minors = {
            "README.md": re.search(r"\| status \| (\d+\.\d+):", text("README.md"))[1],
            "debian/control": re.search(r"^Package: libespalier([\d.]+)$", text("debian/control"), re.MULTILINE)[1],
            "examples/CMakeLists.txt": re.search(r"find_package\(espalier ([\d.]+)", text("examples/CMakeLists.txt"))[1],
        }
        self.assertEqual(minors, dict.fromkeys(minors, minor))
        self.assertTrue((ROOT / f"debian/libespalier{minor}.install").exists())


if __name__ == "__main__":
    unittest.main()
