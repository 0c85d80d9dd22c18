# Programs of scenes, and the library with seeded bugs in them. mutants.py defines their description; the edited sources
# exist in the build folder only.

find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)  # tomllib
set(mutants_folder ${CMAKE_CURRENT_LIST_DIR}/../mutants)
set(mutants_tool ${Python3_EXECUTABLE} ${mutants_folder}/mutants.py)
if(NOT ESPALIER_EVERY_ENTRY)
  list(APPEND mutants_tool --short)
endif()

# Reads the tables of a folder: sets mutants_of_<program> to the rows (program or mutant, edited sources) of a program.
function(espalier_read_mutants folder)
  set(overlays "${CMAKE_CURRENT_BINARY_DIR}/overlays")
  set(tool ${mutants_tool} --tables ${folder})
  file(GLOB tables CONFIGURE_DEPENDS ${folder}/*.toml)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${tables})
  execute_process(COMMAND ${tool} list --cmake
    OUTPUT_VARIABLE rows RESULT_VARIABLE status ERROR_VARIABLE wrong)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${wrong}")
  endif()
  set(batteries "")
  foreach(row IN LISTS rows)
    string(REPLACE "|" ";" row "${row}")
    list(POP_FRONT row name battery files edited)
    string(REPLACE "," ";" files "${files}")
    string(REPLACE "," ";" edited "${edited}")
    list(TRANSFORM files PREPEND "${PROJECT_SOURCE_DIR}/")
    list(TRANSFORM edited PREPEND "${overlays}/${name}/")
    list(APPEND batteries ${battery})
    list(APPEND mutants_of_${battery} ${name})
    list(APPEND inputs_${battery} ${files})
    list(APPEND outputs_${battery} ${edited})
    set(edited_${name} ${edited} PARENT_SCOPE)
  endforeach()
  list(REMOVE_DUPLICATES batteries)
  foreach(battery IN LISTS batteries)
    list(REMOVE_DUPLICATES inputs_${battery})
    add_custom_command(OUTPUT ${outputs_${battery}}
      COMMAND ${tool} generate --into ${overlays} ${battery}
      DEPENDS ${mutants_folder}/mutants.py ${mutants_folder}/switches.py ${tables} ${inputs_${battery}}
      COMMENT "Mutants of ${battery}"
      VERBATIM)
    set(mutants_of_${battery} ${mutants_of_${battery}} PARENT_SCOPE)
  endforeach()
  set(mutants_batteries ${batteries} PARENT_SCOPE)
endfunction()

# A battery that is no program, and no algorithm that ESPALIER_ALGORITHMS leaves out.
function(espalier_check_mutants)
  foreach(battery IN LISTS mutants_batteries)
    if(NOT TARGET scheduled_${battery} AND NOT TARGET scheduled_${battery}_test AND
       NOT EXISTS ${PROJECT_SOURCE_DIR}/src/espalier/catalog/entries/${battery}.hpp)
      message(FATAL_ERROR "mutants: battery '${battery}' is no program of scenes")
    endif()
  endforeach()
endfunction()

# Links a program with its libraries, libraries_<program>, and plants the bugs of one row.
function(espalier_plant target program row)
  target_link_libraries(${target} PRIVATE scheduled_main ${libraries_${program}})
  target_precompile_headers(${target} REUSE_FROM scheduled_main)
  espalier_simulated(${target})
  if(NOT row)
    return()
  endif()
  target_sources(${target} PRIVATE ${edited_${row}})
  set_source_files_properties(${edited_${row}} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  # The simulator is not a program that it simulates.
  set(of_the_simulator ${edited_${row}})
  list(FILTER of_the_simulator INCLUDE REGEX "/overlays/${row}/sim/")
  set_source_files_properties(${of_the_simulator} PROPERTIES
    SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS -fno-sanitize=thread)
  target_include_directories(${target} BEFORE PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/overlays/${row}")
  target_compile_options(${target} PRIVATE -w)  # a mutant may leave a variable unused
  espalier_label_target(mutants ${target})
endfunction()

#   espalier_add_scene_program(<target> <program> [<source>...] [UNIT <algorithm>])
# and one for each of its mutants that needs its own.
function(espalier_add_scene_program target program)
  cmake_parse_arguments(arg "" "UNIT" "" ${ARGN})
  set(own ${mutants_of_${program}})
  list(REMOVE_ITEM own ${program})
  foreach(one IN ITEMS "" LISTS own)
    set(each ${target})
    set(row ${one})
    if(one)
      set(each mutant_${one})
    elseif(program IN_LIST mutants_of_${program})
      set(row ${program})
    endif()
    add_executable(${each} ${arg_UNPARSED_ARGUMENTS})
    set_target_properties(${each} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
    if(arg_UNIT)
      espalier_catalog_units(${each} scheduled/maps.hpp ONLY ${arg_UNIT})
    endif()
    espalier_plant(${each} ${program} "${row}")
  endforeach()
endfunction()
