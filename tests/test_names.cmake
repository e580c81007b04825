# cmake -D TEST_EXECUTABLE=... -P test_names.cmake: fails if a test has a name that CTest cannot pass back to
# its executable. Catch2's discovery keeps names in a CMake list, whose separator is the semicolon: a name with
# one becomes two tests that match nothing, and pass. A name that begins with a dash is read as an option.
execute_process(COMMAND ${TEST_EXECUTABLE} --list-test-names-only OUTPUT_VARIABLE names)
if(names MATCHES "[^\n]*[;\\][^\n]*")
  message(FATAL_ERROR "test name: found '${CMAKE_MATCH_0}'; accepted: a name without ; and \\")
endif()
if(names MATCHES "(^|\n)(-[^\n]*)")
  message(FATAL_ERROR "test name: found '${CMAKE_MATCH_2}'; accepted: a name that does not begin with -")
endif()
