# The map for vcpkg, which needs pthreads alone, of the sources that this port lies in. The option is there because vcpkg does
# not see when they change:
#   vcpkg install espalier --overlay-ports=FOLDER/cmake/vcpkg --no-binarycaching
vcpkg_check_linkage(ONLY_STATIC_LIBRARY)
cmake_path(SET source NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../../..")
vcpkg_cmake_configure(SOURCE_PATH "${source}" OPTIONS
  -DESPALIER_ALL_LIBRARIES=OFF -DESPALIER_BUILD_APPS=OFF -DESPALIER_BUILD_TESTS=OFF -DESPALIER_SIMULATOR=OFF
  -DESPALIER_PRELOAD=OFF -DESPALIER_INTEGRATIONS=OFF -DESPALIER_SHARED=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/espalier)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${source}/LICENSE")
