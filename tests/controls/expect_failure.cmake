# Runs one test of the controls and succeeds only if it fails as it should: with the exit status STATUS and
# with TEXT in its output. A failed expectation exits with 1 and names the test; a crash does neither.
#
#   cmake -DEXECUTABLE=... -DTEST=suite/subject.check -DSTATUS=1 -DTEXT=... -P expect_failure.cmake

execute_process(
  COMMAND "${EXECUTABLE}" "--gtest_filter=${TEST}" --gtest_color=no
  RESULT_VARIABLE status
  OUTPUT_VARIABLE output
  ERROR_VARIABLE output)

if(NOT status STREQUAL STATUS)
  message(FATAL_ERROR "${TEST} ended with ${status}, not with ${STATUS}:\n${output}")
endif()
set(wanted "${TEXT}")
if(STATUS EQUAL 1)
  list(APPEND wanted "[  FAILED  ] ${TEST}")
endif()
foreach(text IN LISTS wanted)
  string(FIND "${output}" "${text}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${TEST} does not say '${text}':\n${output}")
  endif()
endforeach()
