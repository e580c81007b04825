#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stagecraft {

/// The filters that chunks of trace files may use.
enum class ColumnFilter : std::uint8_t { shuffle, deflate };

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

}  // namespace stagecraft
