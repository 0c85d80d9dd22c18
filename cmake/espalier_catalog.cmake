# One translation unit for each algorithm of a catalogue folder, compiled into a target. Each unit includes the
# algorithm's catalogue file and the given header, which defines ESPALIER_CATALOG_UNIT(algorithm).
#
#   espalier_catalog_units(<target> <header>                   Espalier's catalogue
#     [FOLDER <folder> PREFIX <include prefix>]                another one
#     [ONLY <algorithm>...])                                   a part of it

set(ESPALIER_ALGORITHMS "" CACHE STRING
  "Algorithms of the catalogue to build, separated by semicolons; empty for all (for work on one of them)")

# The algorithms of Espalier's catalogue that this build has.
function(espalier_algorithms result)
  file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/espalier/catalog/entries/*.hpp")
  set(names "")
  foreach(file IN LISTS files)
    cmake_path(GET file STEM name)
    if(NOT ESPALIER_ALGORITHMS OR name IN_LIST ESPALIER_ALGORITHMS)
      list(APPEND names ${name})
    endif()
  endforeach()
  set(${result} ${names} PARENT_SCOPE)
endfunction()

function(espalier_catalog_units target header)
  cmake_parse_arguments(arg "" "FOLDER;PREFIX" "ONLY" ${ARGN})
  if(NOT arg_FOLDER)
    set(arg_FOLDER "${PROJECT_SOURCE_DIR}/src/espalier/catalog/entries")
    set(arg_PREFIX "espalier/catalog/entries")
    espalier_algorithms(files)
    list(TRANSFORM files APPEND ".hpp")
  else()
    file(GLOB files CONFIGURE_DEPENDS RELATIVE "${arg_FOLDER}" "${arg_FOLDER}/*.hpp")
  endif()
  if("ONLY" IN_LIST ARGN)
    list(TRANSFORM arg_ONLY APPEND ".hpp")
    foreach(file IN LISTS arg_ONLY)
      if(NOT file IN_LIST files)
        message(FATAL_ERROR "espalier_catalog_units: there is no ${file} in ${arg_FOLDER}")
      endif()
    endforeach()
    set(files ${arg_ONLY})
  endif()
  foreach(file IN LISTS files)
    cmake_path(GET file STEM algorithm)
    set(unit "${CMAKE_CURRENT_BINARY_DIR}/${target}.units/${algorithm}.cpp")
    file(CONFIGURE OUTPUT "${unit}" @ONLY CONTENT
      "#include \"@arg_PREFIX@/@file@\"\n#include \"@header@\"\n\nESPALIER_CATALOG_UNIT(@algorithm@)\n")
    target_sources(${target} PRIVATE "${unit}")
  endforeach()
endfunction()
