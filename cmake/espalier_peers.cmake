# Other libraries' maps, measured with the same driver as Espalier's: bench/peers/<peer>.hpp for each. All are optional.
# A peer is built if its libraries are found; espalier/peers_config.hpp lists these, and the packages for the others.
#
# ESPALIER_PEER_FOLDER names a folder with adapters for other maps (docs/bring-your-own-map.md). Each <peer>.hpp there
# is one. peers.cmake there may define a target peer_<peer>, which that adapter is linked with.
#
#   espalier_link_peers(<target> <header>)   adds a unit for each peer found, as espalier_catalog_units does
#                                            for Espalier's maps, its libraries, and that header. Call it in
#                                            the folder that created the target.

include(CheckCXXCompilerFlag)

set(espalier_peers_found "")
set(espalier_peers_missing_initializers "")
set(espalier_peers_missing_count 0)

# espalier_declare_peer(<peer> LIBRARIES <target>... PACKAGES <Debian package>...
#                       [OPTIONS <compile option>...])
# The libraries are CMake targets, one for each package in the same order. A library without a target at this point is
# missing.
function(espalier_declare_peer peer)
  cmake_parse_arguments(arg "" "" "LIBRARIES;PACKAGES;OPTIONS" ${ARGN})
  set(packages "")
  foreach(library package IN ZIP_LISTS arg_LIBRARIES arg_PACKAGES)
    if(NOT TARGET ${library})
      list(APPEND packages ${package})
    endif()
  endforeach()
  if(packages)
    list(JOIN packages " " packages)
    math(EXPR count "${espalier_peers_missing_count} + 1")
    set(espalier_peers_missing_count ${count} PARENT_SCOPE)
    set(espalier_peers_missing_initializers
      "${espalier_peers_missing_initializers}    {\"${peer}\", \"${packages}\"},\n" PARENT_SCOPE)
  else()
    set(espalier_peers_found ${espalier_peers_found} ${peer} PARENT_SCOPE)
    set(espalier_peer_${peer}_libraries ${arg_LIBRARIES} PARENT_SCOPE)
    set(espalier_peer_${peer}_options ${arg_OPTIONS} PARENT_SCOPE)
  endif()
endfunction()

if(ESPALIER_PEERS)
  find_package(TBB QUIET CONFIG)
  find_package(absl QUIET CONFIG)

  # Not find_package(LibCDS): Debian's file names a folder that does not contain its library, which ends the
  # configuration, and it would add -std=c++11 to every consumer.
  find_path(ESPALIER_LIBCDS_INCLUDE cds/container/bronson_avltree_map_rcu.h)
  find_library(ESPALIER_LIBCDS_LIBRARY cds)
  mark_as_advanced(ESPALIER_LIBCDS_INCLUDE ESPALIER_LIBCDS_LIBRARY)
  if(ESPALIER_LIBCDS_INCLUDE AND ESPALIER_LIBCDS_LIBRARY AND NOT TARGET espalier_libcds)
    add_library(espalier_libcds UNKNOWN IMPORTED)
    set_target_properties(espalier_libcds PROPERTIES
      IMPORTED_LOCATION "${ESPALIER_LIBCDS_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${ESPALIER_LIBCDS_INCLUDE}"
      INTERFACE_LINK_LIBRARIES Threads::Threads)
  endif()
  # The use of 16-byte atomics changes libcds's types. The packaged library is built by g++, which never uses them
  # there; clang would, given -mcx16 or -march=native.
  set(libcds_options -DCDS_DISABLE_128BIT_ATOMIC)

  # oneTBB compiles its speculative lock only if the compiler may emit RTM instructions. Nothing else in that unit is
  # affected, because compilers emit them only for intrinsics.
  check_cxx_compiler_flag(-mrtm ESPALIER_HAS_MRTM)
  set(speculative_options "")
  if(ESPALIER_HAS_MRTM)
    set(speculative_options -mrtm)
  endif()

  espalier_declare_peer(absl_shared_mutex LIBRARIES absl::btree PACKAGES libabsl-dev)
  espalier_declare_peer(absl_speculative
    LIBRARIES absl::btree TBB::tbb PACKAGES libabsl-dev libtbb-dev OPTIONS ${speculative_options})
  espalier_declare_peer(cds_bronson LIBRARIES espalier_libcds PACKAGES libcds-dev OPTIONS ${libcds_options})
  espalier_declare_peer(cds_ellen LIBRARIES espalier_libcds PACKAGES libcds-dev OPTIONS ${libcds_options})
  espalier_declare_peer(cds_skip_list LIBRARIES espalier_libcds PACKAGES libcds-dev OPTIONS ${libcds_options})
  espalier_declare_peer(tbb_concurrent_map LIBRARIES TBB::tbb PACKAGES libtbb-dev)
  unset(libcds_options)
  unset(speculative_options)
endif()

set(espalier_own_peers "")
if(ESPALIER_PEER_FOLDER)
  file(GLOB own_peers CONFIGURE_DEPENDS RELATIVE "${ESPALIER_PEER_FOLDER}" "${ESPALIER_PEER_FOLDER}/*.hpp")
  if(NOT own_peers)
    message(FATAL_ERROR "ESPALIER_PEER_FOLDER: there is no <peer>.hpp in ${ESPALIER_PEER_FOLDER}; "
      "docs/bring-your-own-map.md describes such a file")
  endif()
  include("${ESPALIER_PEER_FOLDER}/peers.cmake" OPTIONAL)
  foreach(file IN LISTS own_peers)
    cmake_path(GET file STEM peer)
    list(APPEND espalier_own_peers ${peer})
  endforeach()
endif()

function(espalier_write_peers_config)
  set(enabled false)
  if(ESPALIER_PEERS OR espalier_own_peers)
    set(enabled true)
  endif()
  set(found ${espalier_peers_found} ${espalier_own_peers})
  list(LENGTH found found_count)
  set(found_initializers "")
  foreach(peer IN LISTS found)
    string(APPEND found_initializers "    \"${peer}\",\n")
  endforeach()
  configure_file("${PROJECT_SOURCE_DIR}/cmake/peers_config.hpp.in"
    "${PROJECT_BINARY_DIR}/generated/espalier/peers_config.hpp" @ONLY)
endfunction()
espalier_write_peers_config()

function(espalier_link_peers target header)
  target_include_directories(${target} PRIVATE
    "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/generated")
  if(espalier_peers_found)
    espalier_catalog_units(${target} ${header}
      FOLDER "${PROJECT_SOURCE_DIR}/bench/peers" PREFIX bench/peers ONLY ${espalier_peers_found})
  endif()
  foreach(peer IN LISTS espalier_peers_found)
    # Imported targets: their headers count as system headers, so that their warnings are suppressed.
    target_link_libraries(${target} PRIVATE ${espalier_peer_${peer}_libraries})
    set_source_files_properties("${CMAKE_CURRENT_BINARY_DIR}/${target}.units/${peer}.cpp"
      PROPERTIES COMPILE_OPTIONS "${espalier_peer_${peer}_options}")
    if(espalier_peer_${peer}_options MATCHES "-m")
      # g++ refuses precompiled headers of another instruction set.
      set_source_files_properties("${CMAKE_CURRENT_BINARY_DIR}/${target}.units/${peer}.cpp"
        PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
  if(espalier_own_peers)
    cmake_path(GET ESPALIER_PEER_FOLDER FILENAME prefix)
    cmake_path(GET ESPALIER_PEER_FOLDER PARENT_PATH parent)
    target_include_directories(${target} PRIVATE "${parent}")
    espalier_catalog_units(${target} ${header}
      FOLDER "${ESPALIER_PEER_FOLDER}" PREFIX ${prefix} ONLY ${espalier_own_peers})
  endif()
  foreach(peer IN LISTS espalier_own_peers)
    if(TARGET peer_${peer})
      target_link_libraries(${target} PRIVATE peer_${peer})
    endif()
    # Warnings about other people's headers are no errors.
    set_source_files_properties("${CMAKE_CURRENT_BINARY_DIR}/${target}.units/${peer}.cpp"
      PROPERTIES COMPILE_OPTIONS -Wno-error)
  endforeach()
endfunction()
