#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stagecraft {

/// A filter of a chunk, of those that trace files may use.
enum class ColumnFilter : std::uint8_t { shuffle, deflate };

/// Bytes that `elements` elements cannot take more of in a file, however badly they compress.
std::size_t most_stored_bytes(std::size_t elements);

/// Undoes the filters of one chunk of a column, last filter first.
///
/// HDF5 itself inflates whatever a file says, without a bound: a chunk of 1 MB becomes 1 GB. Here a
/// chunk has exactly the size of its elements. Little-endian 64-bit elements.
/// \return whether `stored` was such a chunk; if not, `elements` is left with anything.
bool unpack_chunk(std::span<unsigned char const> stored,
                  std::span<ColumnFilter const> filters,
                  std::span<std::int64_t> elements);

}  // namespace stagecraft
