# What `cmake --install` installs: headers, libraries, the command with its report tool and manual pages, a CMake
# package and pkg-config files; with the simulator, that as the package's component "sim".

include(CMakePackageConfigHelpers)

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/espalier")

# Programs do not have xxhash and nlohmann_json, which these include. A folder without a header is not installed.
install(DIRECTORY src/espalier/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/espalier" FILES_MATCHING PATTERN "*.hpp"
  PATTERN "cache/state.hpp" EXCLUDE PATTERN "workload/result_document.hpp" EXCLUDE PATTERN "espalier/c" EXCLUDE)
if(TARGET espalier_c)
  install(FILES src/espalier/c/espalier.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
endif()
set(installed_libraries espalier_map_source)
foreach(target IN ITEMS espalier_map espalier_map_shared espalier espalier_shared espalier_cache espalier_c espalier_maps espalier_oltp espalier_inspect espalier_measure
    espalier_workload)
  if(TARGET ${target})
    list(APPEND installed_libraries ${target})
  endif()
endforeach()
# For espalier::map_source.
set(source_folder "${CMAKE_INSTALL_DATADIR}/espalier/source")
install(FILES "${PROJECT_BINARY_DIR}/espalier_map.cpp" DESTINATION "${source_folder}")
foreach(folder IN ITEMS hw io reclaim memory map)
  file(GLOB_RECURSE sources RELATIVE "${PROJECT_SOURCE_DIR}/src" CONFIGURE_DEPENDS src/espalier/${folder}/*.cpp)
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH place)
    install(FILES "src/${source}" DESTINATION "${source_folder}/${place}")
  endforeach()
endforeach()
install(TARGETS ${installed_libraries} EXPORT espalier_targets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT espalier_targets NAMESPACE espalier:: DESTINATION "${package_folder}")

if(TARGET espalier_sim)
  # Separate from the library's headers and libraries, because it is found only through the package.
  install(DIRECTORY sim/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/espalier-sim/sim" FILES_MATCHING PATTERN "*.hpp")
  install(TARGETS espalier_sim espalier_sim_library espalier_sim_program EXPORT espalier_sim_targets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}/espalier"
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/espalier")
  install(EXPORT espalier_sim_targets NAMESPACE espalier:: DESTINATION "${package_folder}")
  install(FILES cmake/espalier_simulated.cmake DESTINATION "${package_folder}")
endif()

configure_package_config_file(cmake/espalier_config.cmake.in
  "${PROJECT_BINARY_DIR}/espalier-config.cmake" INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/espalier-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/espalier-config.cmake" "${PROJECT_BINARY_DIR}/espalier-config-version.cmake"
  DESTINATION "${package_folder}")

# Relative to the file itself, because `cmake --install --prefix` may put it anywhere.
file(RELATIVE_PATH ESPALIER_PC_TO_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
set(modules espalier-map)
if(TARGET espalier)
  list(APPEND modules espalier espalier-c espalier-cache espalier-oltp)
endif()
foreach(module IN LISTS modules)
  configure_file(cmake/${module}.pc.in "${PROJECT_BINARY_DIR}/${module}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${module}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()

if(TARGET espalier_malloc_preload)
  install(TARGETS
    espalier_inspect_preload espalier_random_preload espalier_malloc_preload espalier_elide_preload
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
if(ESPALIER_BUILD_APPS)
  install(TARGETS espalier_command RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  if(TARGET espalier_serve)
    # With -Z it becomes the other one, which it seeks beside itself.
    install(TARGETS espalier_serve RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
    if(TARGET espalier_serve_tls)
      install(TARGETS espalier_serve_tls RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
    endif()
    install(FILES apps/serve/espalier-cache.service DESTINATION lib/systemd/system)
  endif()
  # Only the command starts these, so they need not be in PATH.
  foreach(target IN ITEMS espalier_measured_work espalier_simulate)
    if(TARGET ${target})
      install(TARGETS ${target} RUNTIME DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/espalier")
    endif()
  endforeach()
  install(DIRECTORY report/espalier_report DESTINATION "${CMAKE_INSTALL_DATADIR}/espalier/report"
    PATTERN "__pycache__" EXCLUDE)
  install(DIRECTORY "${PROJECT_BINARY_DIR}/man/man1" DESTINATION "${CMAKE_INSTALL_MANDIR}")
  install(CODE "
    execute_process(
      COMMAND \"$<TARGET_FILE:espalier_command>\" completion
      OUTPUT_FILE \"${PROJECT_BINARY_DIR}/completion.bash\" COMMAND_ERROR_IS_FATAL ANY)")
  install(FILES "${PROJECT_BINARY_DIR}/completion.bash" RENAME espalier
    DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
endif()
