#include "libsim/hdf5/hdf5_version.hpp"

#include <hdf5.h>

namespace stagecraft {

std::string hdf5_version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  H5get_libversion(&major, &minor, &release);
  bool const compresses = H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0;
  return "HDF5 " + std::to_string(major) + "." + std::to_string(minor) + "." +
         std::to_string(release) + (compresses ? " with deflate" : " without deflate");
}

}  // namespace stagecraft
