# Run at every build: writes OUTPUT with SOURCE's current commit, and touches it only on a change.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty --abbrev=12
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR commit STREQUAL "")
  set(commit "unavailable")
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT
  "#pragma once\n\nnamespace espalier {\ninline constexpr const char* built_from_commit = \"@commit@\";\n}\n" @ONLY)
