#include "libsim/hdf5/column_codec.hpp"

#include <zlib.h>

#include <bit>
#include <cstring>
#include <limits>

namespace stagecraft {

namespace {

static_assert(std::endian::native == std::endian::little, "columns are copied as they are");

constexpr std::size_t width = sizeof(std::int64_t);

/// Whether `from` inflates to exactly the size of `to`.
bool inflate_exactly(std::span<unsigned char const> from, std::vector<unsigned char>& to) {
  uLongf size = to.size();
  uLong read = from.size();
  int const status = ::uncompress2(to.data(), &size, from.data(), &read);
  return status == Z_OK && size == to.size();
}

/// Undoes HDF5's shuffle, which puts byte k of all elements before byte k + 1 of all elements.
void gather_bytes(std::span<unsigned char const> from, std::span<unsigned char> to) {
  std::size_t const count = from.size() / width;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < width; ++k) to[i * width + k] = from[k * count + i];
  }
}

}  // namespace

std::size_t most_stored_bytes(std::size_t elements) {
  // zlib's own bound for the worst case of the format: 5 bytes per 16 KiB and a header.
  std::size_t const size = elements * width;
  return size + size / 1000 + 64;
}

bool unpack_chunk(std::span<unsigned char const> stored,
                  std::span<ColumnFilter const> filters,
                  std::span<std::int64_t> elements) {
  std::size_t const size = elements.size() * width;
  std::vector<unsigned char> current{stored.begin(), stored.end()};
  for (std::size_t i = filters.size(); i-- > 0;) {
    std::vector<unsigned char> next(size);
    if (filters[i] == ColumnFilter::deflate) {
      if (!inflate_exactly(current, next)) return false;
    } else {
      if (current.size() != size) return false;
      gather_bytes(current, next);
    }
    current.swap(next);
  }
  if (current.size() != size) return false;
  std::memcpy(elements.data(), current.data(), size);
  return true;
}

}  // namespace stagecraft
