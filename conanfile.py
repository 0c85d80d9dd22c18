"""The map for Conan 2, which needs pthreads alone: `conan create .` builds it and runs tests/consumer/small."""

import pathlib
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain
from conan.tools.files import copy, load


class Espalier(ConanFile):
    name = "espalier"
    description = "Concurrent ordered map that shows why it is fast on your machine"
    license = "Apache-2.0"
    package_type = "static-library"
    settings = "os", "arch", "compiler", "build_type"
    exports_sources = "CMakeLists.txt", "LICENSE", "cmake/*", "docs/Doxyfile.in", "src/*"
    test_package_folder = "tests/consumer/small"

    def set_version(self):
        text = load(self, pathlib.Path(self.recipe_folder, "CMakeLists.txt"))
        self.version = re.search(r"^  VERSION (\S+)$", text, re.MULTILINE)[1]

    def layout(self):
        self.folders.build = self.folders.generators = "build/conan"

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        for part in ("ALL_LIBRARIES", "BUILD_APPS", "BUILD_TESTS", "SIMULATOR", "PRELOAD", "INTEGRATIONS", "SHARED"):
            toolchain.cache_variables[f"ESPALIER_{part}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, pathlib.Path(self.package_folder, "licenses"))

    def package_info(self):
        # CMake finds the package's own files, which have each target that an installation has.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/espalier"]
        self.cpp_info.set_property("pkg_config_name", "espalier-map")
        self.cpp_info.libs = ["espalier_map"]
        self.cpp_info.system_libs = ["pthread"]
