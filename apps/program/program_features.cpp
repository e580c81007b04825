#include "apps/program/program_features.hpp"

#include "libsim/hdf5/column_file.hpp"
#include "libsim/host/program_version.hpp"

namespace stagecraft {

std::string program_features() { return build_features() + ", " + hdf5_version(); }

}  // namespace stagecraft
