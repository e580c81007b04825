#include "libsim/hdf5/chunked_column.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "libsim/hdf5/hdf5_handle.hpp"

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

/// Fletcher's checksum as HDF5 takes it: over 16-bit words, their first byte the higher one.
std::uint32_t fletcher32(std::span<unsigned char const> bytes) {
  constexpr std::size_t before_overflow = 360;  // words whose sums stay below 2^32
  std::uint32_t sum = 0;
  std::uint32_t sum_of_sums = 0;
  std::size_t in_block = 0;
  auto const fold = [](std::uint32_t value) { return (value & 0xffffU) + (value >> 16U); };
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    unsigned const low = i + 1 < bytes.size() ? bytes[i + 1] : 0U;
    sum += (static_cast<unsigned>(bytes[i]) << 8U) | low;
    sum_of_sums += sum;
    if (++in_block == before_overflow) {
      sum = fold(sum);
      sum_of_sums = fold(sum_of_sums);
      in_block = 0;
    }
  }
  return fold(fold(sum_of_sums)) << 16U | fold(fold(sum));
}

/// Takes the checksum off the end. False if it is not that of the rest.
bool take_checksum(std::vector<unsigned char>& bytes) {
  std::uint32_t stored = 0;
  if (bytes.size() < sizeof stored) return false;
  bytes.resize(bytes.size() - sizeof stored);
  std::memcpy(&stored, bytes.data() + bytes.size(), sizeof stored);
  return stored == fletcher32(bytes);
}

/// Twice what create_column() writes. It limits what one chunk can make us allocate.
constexpr hsize_t most_chunk_elements = 131'072;

/// The filters by id, so that HDF5 never looks for a plugin. Each may be used at most once.
std::vector<ColumnFilter> filters_of(H5Handle const& properties, std::string const& where) {
  std::vector<ColumnFilter> filters;
  int const count = H5Pget_nfilters(properties.id());
  check_hdf5(count, "read " + where);
  for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) {
    unsigned flags = 0;
    std::size_t values = 0;
    unsigned config = 0;
    H5Z_filter_t const id =
        H5Pget_filter2(properties.id(), i, &flags, &values, nullptr, 0, nullptr, &config);
    constexpr std::array known{std::pair{H5Z_FILTER_SHUFFLE, ColumnFilter::shuffle},
                               std::pair{H5Z_FILTER_DEFLATE, ColumnFilter::deflate},
                               std::pair{H5Z_FILTER_FLETCHER32, ColumnFilter::fletcher32}};
    auto const* const filter = std::ranges::find(known, id, [](auto const& f) { return f.first; });
    if (filter == known.end() || std::ranges::find(filters, filter->second) != filters.end()) {
      refuse_hdf5(where, "filter " + std::to_string(id), "shuffle, deflate, fletcher32, once each");
    }
    filters.push_back(filter->second);
  }
  return filters;
}

/// The rows of a chunk; a row has `words` elements of 64 bits. The last chunk has at most those of
/// the whole column.
hsize_t chunk_rows_of(H5Handle const& properties, hsize_t words, std::string const& where) {
  hsize_t elements = 0;
  if (H5Pget_layout(properties.id()) != H5D_CHUNKED ||
      H5Pget_chunk(properties.id(), 1, &elements) != 1) {
    refuse_hdf5(where, "another layout", "chunks");
  }
  if (elements < 1 || elements > most_chunk_elements / words) {
    refuse_hdf5(where, "chunks of " + std::to_string(elements) + " elements",
                "1 to " + std::to_string(most_chunk_elements / words));
  }
  return elements;
}

/// The filters without those that were skipped when the chunk was written (bit i: filter i), as the
/// chunk's entry in the file says.
std::vector<ColumnFilter> applied(std::vector<ColumnFilter> const& filters, std::uint32_t skipped) {
  std::vector<ColumnFilter> result;
  for (std::size_t i = 0; i < filters.size(); ++i) {
    if ((skipped >> i & 1U) == 0) result.push_back(filters[i]);
  }
  return result;
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
    if (filters[i] == ColumnFilter::fletcher32) {
      if (!take_checksum(current)) return false;
      continue;
    }
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

H5Handle creation_properties(H5Handle const& dataset, std::string const& where) {
  return {H5Dget_create_plist(dataset.id()), H5Pclose, "read " + where};
}

ChunkedColumn::ChunkedColumn(H5Handle const& dataset, hsize_t words, std::string const& where)
    : dataset_{dataset}, where_{where}, words_{words} {
  H5Handle const properties = creation_properties(dataset, where);
  chunk_ = chunk_rows_of(properties, words, where);
  filters_ = filters_of(properties, where);
  bool const has_shuffle =
      std::find(filters_.begin(), filters_.end(), ColumnFilter::shuffle) != filters_.end();
  if (words > 1 && has_shuffle) {
    refuse_hdf5(where, "shuffled text", "text that is deflated at most");
  }
}

void ChunkedColumn::read(std::vector<std::int64_t>& values) {
  elements_.resize(chunk_ * words_);
  for (hsize_t row = 0; row * words_ < values.size(); row += chunk_) {
    read_chunk(row);
    auto const count = std::min<std::size_t>(elements_.size(), values.size() - row * words_);
    std::copy_n(elements_.begin(), count,
                values.begin() + static_cast<std::ptrdiff_t>(row * words_));
  }
}

void ChunkedColumn::read_chunk(hsize_t row) {
  std::string const where = where_ + ", row " + std::to_string(row);
  hsize_t size = 0;
  check_hdf5(H5Dget_chunk_storage_size(dataset_.id(), &row, &size), "read " + where);
  if (size == 0 || size > most_stored_bytes(elements_.size())) {
    refuse_hdf5(where, "a chunk of " + std::to_string(size) + " bytes",
                "up to " + std::to_string(most_stored_bytes(elements_.size())));
  }
  stored_.resize(size);
  std::uint32_t skipped = 0;
  check_hdf5(H5Dread_chunk(dataset_.id(), H5P_DEFAULT, &row, &skipped, stored_.data()),
             "read " + where);
  if (!unpack_chunk(stored_, applied(filters_, skipped), elements_)) {
    throw Hdf5Error{where + ": the chunk is damaged"};
  }
}

}  // namespace stagecraft
