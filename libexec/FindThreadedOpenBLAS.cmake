# Finds the threaded (pthread) build of OpenBLAS: ThreadedOpenBLAS::openblas, with cblas.h.
#
# The serial build is unsafe with rank threads, the OpenMP one slow on a loaded machine. Debian keeps
# the builds in folders of their own; its alternatives may name another one libopenblas.so.
find_path(ThreadedOpenBLAS_INCLUDE_DIR cblas.h
  HINTS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread
  PATH_SUFFIXES openblas-pthread openblas)
find_library(ThreadedOpenBLAS_LIBRARY openblas
  HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread
  PATH_SUFFIXES openblas-pthread openblas)
mark_as_advanced(ThreadedOpenBLAS_INCLUDE_DIR ThreadedOpenBLAS_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ThreadedOpenBLAS
  REQUIRED_VARS ThreadedOpenBLAS_LIBRARY ThreadedOpenBLAS_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "Debian has it in libopenblas-pthread-dev")

if(ThreadedOpenBLAS_FOUND AND NOT TARGET ThreadedOpenBLAS::openblas)
  add_library(ThreadedOpenBLAS::openblas UNKNOWN IMPORTED)
  set_target_properties(ThreadedOpenBLAS::openblas PROPERTIES
    IMPORTED_LOCATION "${ThreadedOpenBLAS_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${ThreadedOpenBLAS_INCLUDE_DIR}")
endif()
