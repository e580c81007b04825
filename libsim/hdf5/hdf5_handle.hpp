#pragma once

#include <hdf5.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

namespace stagecraft {

/// A failed call of the HDF5 library. Caught inside this folder, where the file's name is known.
class Hdf5Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Keeps HDF5 from printing its error stack on standard error, for the whole process.
void silence_hdf5();

/// HDF5's own text for the innermost cause of its last failure; empty if there was none.
std::string last_hdf5_reason();

/// \throws Hdf5Error  "could not <doing>: <HDF5's reason>" if `status` is negative.
void check_hdf5(long long status, std::string const& doing);

/// An open HDF5 identifier, closed exactly once.
class H5Handle {
 public:
  using Close = herr_t (*)(hid_t);

  /// \throws Hdf5Error  if `id` is what a failed call returns.
  H5Handle(hid_t id, Close close, std::string const& doing) : id_{id}, close_{close} {
    check_hdf5(id, doing);
  }
  H5Handle(H5Handle&& other) noexcept
      : id_{std::exchange(other.id_, H5I_INVALID_HID)}, close_{other.close_} {}
  H5Handle(H5Handle const&) = delete;
  H5Handle& operator=(H5Handle const&) = delete;
  H5Handle& operator=(H5Handle&&) = delete;
  ~H5Handle() {
    if (id_ >= 0) close_(id_);
  }

  hid_t id() const { return id_; }

 private:
  hid_t id_;
  Close close_;
};

/// The size in bytes of a text of fixed length; `where` names it in messages. Texts of variable
/// length are refused: HDF5 allocates whatever length the file claims.
/// \throws Hdf5Error
std::size_t text_size(H5Handle const& type, std::string const& where);

/// The same text type in memory, padded with zeros. \throws Hdf5Error
H5Handle memory_text_type(H5Handle const& type, std::size_t size, std::string const& where);

/// The text up to its first zero.
std::string without_padding(std::string text);

/// Throws an Hdf5Error that says where in a file something was found, and what is accepted there.
[[noreturn]] inline void refuse_hdf5(std::string const& where,
                                     std::string const& found,
                                     std::string const& accepted) {
  throw Hdf5Error{where + ": found " + found + "; accepted: " + accepted};
}

}  // namespace stagecraft
