#pragma once

#include <cstddef>
#include <string>

#include "libsim/hdf5/hdf5_handle.hpp"

namespace stagecraft {

/// The size in bytes of a text of fixed length; `where` names it in messages. Texts of variable
/// length are refused: HDF5 allocates whatever length the file claims.
/// \throws Hdf5Error
std::size_t text_size(H5Handle const& type, std::string const& where);

/// The same text type in memory, padded with zeros. \throws Hdf5Error
H5Handle memory_text_type(H5Handle const& type, std::size_t size, std::string const& where);

/// The text up to its first zero.
std::string without_padding(std::string text);

}  // namespace stagecraft
