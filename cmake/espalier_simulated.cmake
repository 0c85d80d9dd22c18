# Makes programs simulated ones: compiled so that each access to memory is announced, and linked with the
# simulator and the instrumented library. The same in this build and in projects that find_package() it.
#
#   espalier_simulated(<target>...)   executables, or libraries of parts of them
#
# The simulator stands in for what is below the maps, so a simulated program is not linked with
# espalier::espalier as well; headers of the library come along.

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
