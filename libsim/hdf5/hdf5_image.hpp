#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/hdf5/hdf5_handle.hpp"

namespace stagecraft {

/// An HDF5 file in memory. HDF5 1.10 crashes the program if a file on disk cannot be written to
/// its end, so OutputFile writes to the disk. All functions here throw Hdf5Error; those that write
/// a part do so into any file.
class Hdf5Image {
 public:
  Hdf5Image();

  hid_t root() const { return file_.id(); }

  /// The whole file; valid until the next change. (H5Fget_file_image() of HDF5 1.10 is used only
  /// for the size: it changes the superblock of its copy without updating the checksum.)
  std::span<char const> bytes() const;

 private:
  H5Handle file_;
};

/// Properties of `kind` without times: with times a file would contain the time of its creation,
/// and never have the same bytes twice.
H5Handle untimed_properties(hid_t kind);

/// The type of a UTF-8 text of a fixed length, padded with zeros.
H5Handle text_type(std::size_t size);

H5Handle create_group(hid_t parent, char const* name);

/// The rows per chunk of a column whose rows have so many 64-bit words: 512 KiB, which fits HDF5's
/// default cache of 1 MiB per dataset.
hsize_t column_chunk_rows(hsize_t words);

/// An empty dataset in compressed chunks with checksums, for rows of so many 64-bit words. The
/// words are shuffled if a row is one word.
H5Handle create_column(hid_t group, char const* name, hid_t type, hsize_t rows, hsize_t words);

void write_attribute(hid_t object, char const* name, std::string_view text);
void write_attribute(hid_t object, char const* name, std::int64_t value);
void write_attribute(hid_t object, char const* name, double value);

/// A dataset in chunks with checksums, not compressed. `stored`: its type in the file; `held`:
/// that of the numbers.
void write_dataset(
    hid_t group, char const* name, hid_t stored, hid_t held, std::size_t rows, void const* data);

/// Texts of one fixed length, likewise.
void write_names(hid_t group, char const* name, std::vector<std::string> const& names);

}  // namespace stagecraft
