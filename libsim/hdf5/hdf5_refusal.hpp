#pragma once

#include <string>

#include "libsim/hdf5/hdf5_handle.hpp"

namespace stagecraft {

/// Throws an Hdf5Error that says where in a file something was found, and what is accepted there.
[[noreturn]] inline void refuse_hdf5(std::string const& where,
                                     std::string const& found,
                                     std::string const& accepted) {
  throw Hdf5Error{where + ": found " + found + "; accepted: " + accepted};
}

}  // namespace stagecraft
