#include "libsim/hdf5/hdf5_handle.hpp"

#include <algorithm>
#include <string_view>

namespace stagecraft {

namespace {

/// Called for each entry of the error stack from the failed call inwards; the last one is the
/// cause.
herr_t keep_reason(unsigned /*depth*/, H5E_error2_t const* entry, void* reason) {
  if (entry->desc != nullptr) *static_cast<std::string*>(reason) = entry->desc;
  return 0;
}

}  // namespace

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

void silence_hdf5() {
  // Every identifier is closed by its handle. HDF5's own cleanup at exit would loop, and say so on
  // standard error, if a damaged file could not be opened (1.10.8).
  static bool const closes_itself = H5dont_atexit() < 0;
  static_cast<void>(closes_itself);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

std::string last_hdf5_reason() {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_reason, &reason);
  // If a system call failed, its own message is within a list of numbers.
  constexpr std::string_view before = "error message = '";
  std::size_t const begin = reason.find(before);
  if (begin == std::string::npos) return reason;
  std::size_t const from = begin + before.size();
  return reason.substr(from, reason.find('\'', from) - from);
}

void check_hdf5(long long status, std::string const& doing) {
  if (status >= 0) return;
  std::string const reason = last_hdf5_reason();
  throw Hdf5Error{"could not " + doing + (reason.empty() ? "" : ": " + reason)};
}

}  // namespace stagecraft
