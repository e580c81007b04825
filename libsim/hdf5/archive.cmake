# Lets programs link HDF5's archive, if there is one. Debian's shared library needs 30 others, most of them to read files
# from Amazon S3, and loading them takes most of the start of a program; of the archive, only what is called is linked.
# It cannot be part of a module, because it is not compiled for that: experiments/wheel.sh bundles the shared library.
list(GET HDF5_LIBRARIES 0 hdf5_shared)
get_filename_component(hdf5_folder ${hdf5_shared} DIRECTORY)
find_library(hdf5_archive NAMES libhdf5.a PATHS ${hdf5_folder} NO_DEFAULT_PATH)
if(hdf5_archive)
  set(hdf5_needs ${HDF5_LIBRARIES})
  list(FILTER hdf5_needs EXCLUDE REGEX "/lib(hdf5|curl|crypto|z)[.]")
  # An archive whose object files need those others even so is not used.
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_INCLUDES ${HDF5_INCLUDE_DIRS})
  set(CMAKE_REQUIRED_LIBRARIES ${hdf5_archive} ${hdf5_needs} ZLIB::ZLIB)
  check_cxx_source_compiles("#include <hdf5.h>
    int main() { return H5Fopen(\"\", H5F_ACC_RDONLY, H5P_DEFAULT) < 0; }" HDF5_ARCHIVE_LINKS)
  unset(CMAKE_REQUIRED_INCLUDES)
  unset(CMAKE_REQUIRED_LIBRARIES)
endif()
if(hdf5_archive AND HDF5_ARCHIVE_LINKS)
  # A target, so that what it needs comes behind it on every command line.
  add_library(stagecraft_hdf5_archive STATIC IMPORTED)
  set_target_properties(stagecraft_hdf5_archive PROPERTIES
    IMPORTED_LOCATION ${hdf5_archive} INTERFACE_LINK_LIBRARIES "${hdf5_needs};ZLIB::ZLIB")
  set_target_properties(HDF5::HDF5 PROPERTIES INTERFACE_LINK_LIBRARIES
    "$<IF:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>,stagecraft_hdf5_archive,${HDF5_LIBRARIES}>")
endif()
