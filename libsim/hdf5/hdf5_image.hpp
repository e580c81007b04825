#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/hdf5/hdf5_handle.hpp"

namespace stagecraft {

/// An HDF5 file in memory: HDF5 1.10 crashes the program when a file on disk cannot be written to
/// its end, so the disk is left to OutputFile. All functions here throw Hdf5Error; those that write
/// a part do so into any file.
class Hdf5Image {
 public:
  Hdf5Image();

  hid_t root() const { return file_.id(); }

  /// The whole file; valid until the next change. (H5Fget_file_image() of HDF5 1.10 only tells the
  /// size: it writes into the superblock of its copy without mending its checksum.)
  std::span<char const> bytes() const;

 private:
  H5Handle file_;
};

/// Properties of `kind` without times: with them a file has the time of its creation in it, and
/// never the same bytes twice.
H5Handle untimed_properties(hid_t kind);

/// Text of a fixed length, UTF-8, padded with zeros.
H5Handle text_type(std::size_t size);

H5Handle create_group(hid_t parent, char const* name);

/// Rows of a chunk of a column whose rows are of so many 64-bit words: 512 KiB, which fits HDF5's
/// default cache of 1 MiB a dataset.
hsize_t column_chunk_rows(hsize_t words);

/// An empty dataset in compressed chunks, for rows of so many 64-bit words. Words are shuffled
/// where a row is one.
H5Handle create_column(hid_t group, char const* name, hid_t type, hsize_t rows, hsize_t words);

void write_attribute(hid_t object, char const* name, std::string_view text);
void write_attribute(hid_t object, char const* name, std::int64_t value);
void write_attribute(hid_t object, char const* name, double value);

/// A dataset in one piece, neither chunked nor compressed. `stored`: its type in the file; `held`:
/// that of the numbers.
void write_dataset(
    hid_t group, char const* name, hid_t stored, hid_t held, std::size_t rows, void const* data);

/// Texts of one fixed length, likewise.
void write_names(hid_t group, char const* name, std::vector<std::string> const& names);

}  // namespace stagecraft
