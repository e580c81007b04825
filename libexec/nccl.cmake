# Finds NCCL, which has no CMake target of its own, beside CUDA's runtime. Sets stagecraft_has_nccl,
# stagecraft_nccl_library and stagecraft_nccl_include.
set(stagecraft_nccl_least 2.18.1)  # ncclCommSplit
find_path(stagecraft_nccl_include nccl.h HINTS ENV NCCL_HOME ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
find_library(stagecraft_nccl_library nccl HINTS ENV NCCL_HOME ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)
mark_as_advanced(stagecraft_nccl_include stagecraft_nccl_library)
if(stagecraft_nccl_include AND stagecraft_nccl_library)
  file(STRINGS ${stagecraft_nccl_include}/nccl.h lines REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9]*([0-9]+)[^0-9]+([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2.\\3" stagecraft_nccl_version "${lines}")
  if(stagecraft_nccl_version VERSION_GREATER_EQUAL stagecraft_nccl_least)
    set(stagecraft_has_nccl ON)
    message(STATUS "Found NCCL ${stagecraft_nccl_version}: ${stagecraft_nccl_library}")
  endif()
endif()
if(NOT stagecraft_has_nccl)
  message(FATAL_ERROR "WITH_NCCL=ON, but no NCCL of ${stagecraft_nccl_least} or newer was found: set NCCL_HOME")
endif()
