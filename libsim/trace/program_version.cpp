#include "libsim/trace/program_version.hpp"

#include <hdf5.h>

#include <string_view>

#include "libsim/trace/git_commit.hpp"

namespace stagecraft {

std::string program_version() {
  std::string const commit{std::string_view{git_commit}.substr(0, 12)};
  return std::string{STAGECRAFT_VERSION} +
         (commit.empty() ? " (commit unknown" : " (commit " + commit) +
         (git_has_changes ? ", modified)" : ")");
}

std::string program_features() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  H5get_libversion(&major, &minor, &release);
  std::string const version =
      std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
  bool const compresses = H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0;
  return std::string{STAGECRAFT_COMPILER " " STAGECRAFT_BUILD_TYPE ", HDF5 "} + version +
         (compresses ? " with deflate" : " without deflate");
}

}  // namespace stagecraft
