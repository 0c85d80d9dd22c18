# Makes programs simulated ones: compiled so that each access to memory is announced, and linked with the simulator and
# the instrumented library. Works in this build and in projects that find_package() it.
#
#   espalier_simulated(<target>...)   executables, or libraries of parts of them
#
# The simulator replaces the layers below the maps, so a simulated program is not linked with espalier::espalier as
# well. The library's headers are available.

function(espalier_simulated)
  foreach(target IN LISTS ARGN)
    get_target_property(linked ${target} LINK_LIBRARIES)
    if("espalier::espalier" IN_LIST linked)
      message(FATAL_ERROR "espalier_simulated: ${target} is linked with espalier::espalier, which is not "
        "instrumented; leave that out")
    endif()
    target_link_libraries(${target} PRIVATE espalier::sim_program espalier::sim_library espalier::sim)
  endforeach()
endfunction()
