#pragma once

#include <string>

namespace stagecraft {

/// The HDF5 library in use: `HDF5 1.10.8 with deflate`.
std::string hdf5_version();

}  // namespace stagecraft
