# Run at every build: writes OUTPUT with SOURCE's current commit, and touches it only on a change. `git archive` writes the commit
# into a file, so that a source without git knows it too.
cmake_minimum_required(VERSION 3.25)
file(READ "${SOURCE}/cmake/archived_commit.txt" commit)
string(STRIP "${commit}" commit)
if(commit MATCHES "^.Format")
  execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed OR commit STREQUAL "")
    set(commit "unavailable")
  endif()
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT
  "#pragma once\n\nnamespace espalier {\ninline constexpr const char* built_from_commit = \"@commit@\";\n}\n" @ONLY)
