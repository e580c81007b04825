#include "libsim/hdf5/fixed_text.hpp"

#include <algorithm>

#include "libsim/hdf5/hdf5_refusal.hpp"

namespace stagecraft {

std::size_t text_size(H5Handle const& type, std::string const& where) {
  if (H5Tget_class(type.id()) != H5T_STRING || H5Tis_variable_str(type.id()) != 0) {
    refuse_hdf5(where, "another type", "text of fixed length");
  }
  return H5Tget_size(type.id());
}

H5Handle memory_text_type(H5Handle const& type, std::size_t size, std::string const& where) {
  H5Handle memory{H5Tcopy(H5T_C_S1), H5Tclose, "read " + where};
  check_hdf5(H5Tset_size(memory.id(), size), "read " + where);
  check_hdf5(H5Tset_strpad(memory.id(), H5T_STR_NULLPAD), "read " + where);
  check_hdf5(H5Tset_cset(memory.id(), H5Tget_cset(type.id())), "read " + where);
  return memory;
}

std::string without_padding(std::string text) {
  text.erase(std::find(text.begin(), text.end(), '\0'), text.end());
  return text;
}

}  // namespace stagecraft
