#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libsim/hdf5/hdf5_handle.hpp"

namespace stagecraft {

/// The filters that chunks of trace files may use.
enum class ColumnFilter : std::uint8_t { shuffle, deflate, fletcher32 };

/// The most bytes that `elements` elements can take in a file, however badly they compress.
std::size_t most_stored_bytes(std::size_t elements);

/// Undoes the filters of one chunk of a column, last filter first.
///
/// HDF5 itself inflates without a bound, so that a chunk of 1 MB can become 1 GB. Here a chunk must
/// inflate to exactly the size of its little-endian 64-bit elements.
/// \return whether `stored` was such a chunk; if not, the content of `elements` is unspecified.
bool unpack_chunk(std::span<unsigned char const> stored,
                  std::span<ColumnFilter const> filters,
                  std::span<std::int64_t> elements);

/// A dataset in chunks, whose rows have one or more 64-bit words each. Its chunks are read as they
/// are stored and unpacked here, so that HDF5 never runs a filter on what a file claims.
class ChunkedColumn {
 public:
  /// `where` names the dataset in messages. The dataset and `where` must outlive the object.
  /// \throws Hdf5Error  for another layout, chunks that are too large, and other filters.
  ChunkedColumn(H5Handle const& dataset, hsize_t words, std::string const& where);

  /// Reads all words. Pre: `values` has as many as the dataset.
  /// \throws Hdf5Error  for a damaged chunk.
  void read(std::vector<std::int64_t>& values);

 private:
  void read_chunk(hsize_t row);

  H5Handle const& dataset_;
  std::string const& where_;
  hsize_t words_;
  hsize_t chunk_ = 0;  ///< rows of a chunk
  std::vector<ColumnFilter> filters_;
  std::vector<unsigned char> stored_;
  std::vector<std::int64_t> elements_;
};

/// The properties with which a dataset was made. \throws Hdf5Error
H5Handle creation_properties(H5Handle const& dataset, std::string const& where);

}  // namespace stagecraft
