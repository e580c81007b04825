#include <algorithm>
#include <bit>

#include "libsim/hdf5/chunked_column.hpp"
#include "libsim/hdf5/hdf5_handle.hpp"
#include "libsim/hdf5/hdf5_reader.hpp"

// What Hdf5Group reads of datasets.
namespace stagecraft {
namespace {

constexpr std::size_t most_names = 1'000'000;
constexpr std::size_t most_name_bytes = 4'096;
constexpr std::size_t most_names_bytes = std::size_t{16} << 20;

/// The rows of a dataset, which must have one dimension.
hsize_t rows_of(H5Handle const& dataset, std::string const& where) {
  H5Handle const space{H5Dget_space(dataset.id()), H5Sclose, "read " + where};
  hsize_t rows = 0;
  if (H5Sget_simple_extent_type(space.id()) != H5S_SIMPLE ||
      H5Sget_simple_extent_ndims(space.id()) != 1 ||
      H5Sget_simple_extent_dims(space.id(), &rows, nullptr) != 1) {
    refuse_hdf5(where, "another shape", "one dimension");
  }
  return rows;
}

}  // namespace

template <typename Number>
std::vector<Number> Hdf5Group::numbers(std::string const& name,
                                       hid_t type,
                                       std::size_t most) const {
  std::string const where = path_of(name);
  H5Handle const values = dataset(name);
  hsize_t const rows = rows_of(values, where);
  if (rows > most) {
    refuse_hdf5(where, std::to_string(rows) + " rows", "up to " + std::to_string(most));
  }
  std::vector<Number> numbers(rows);
  if (rows > 0) {
    check_hdf5(H5Dread(values.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()),
               "read " + where);
  }
  return numbers;
}

std::vector<std::int64_t> Hdf5Group::integers(std::string const& name, std::size_t most) const {
  return numbers<std::int64_t>(name, H5T_NATIVE_INT64, most);
}

std::vector<double> Hdf5Group::reals(std::string const& name, std::size_t most) const {
  return numbers<double>(name, H5T_NATIVE_DOUBLE, most);
}

std::vector<std::string> Hdf5Group::names(std::string const& name) const {
  std::string const where = path_of(name);
  H5Handle const values = dataset(name);
  hsize_t const rows = rows_of(values, where);
  H5Handle const type{H5Dget_type(values.id()), H5Tclose, "read " + where};
  std::size_t const size = text_size(type, where);
  if (size > most_name_bytes || rows > most_names || rows * size > most_names_bytes) {
    refuse_hdf5(where, std::to_string(rows) + " names of " + std::to_string(size) + " bytes",
                "up to 4096 bytes each, 16 MiB together");
  }
  H5Handle const properties = creation_properties(values, where);
  if (H5Pget_layout(properties.id()) != H5D_CONTIGUOUS ||
      H5Pget_external_count(properties.id()) != 0) {
    refuse_hdf5(where, "another layout", "contiguous, in the same file");
  }
  std::string block(rows * size, '\0');
  if (rows > 0) {
    H5Handle const memory = memory_text_type(type, size, where);
    check_hdf5(H5Dread(values.id(), memory.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, block.data()),
               "read " + where);
  }
  std::vector<std::string> result;
  result.reserve(rows);
  for (hsize_t i = 0; i < rows; ++i) {
    result.push_back(without_padding(block.substr(i * size, size)));
  }
  return result;
}

std::vector<std::int64_t> Hdf5Group::words_of(H5Handle const& values,
                                              std::string const& where,
                                              std::size_t words,
                                              std::int64_t& budget) {
  hsize_t const rows = rows_of(values, where);
  if (rows > static_cast<hsize_t>(budget) / words) {
    refuse_hdf5(where, std::to_string(rows) + " rows",
                "up to " + std::to_string(static_cast<hsize_t>(budget) / words) +
                    " (all columns that are read together: 1 GiB)");
  }
  ChunkedColumn chunks{values, words, where};
  // A file must not claim rows without data: a chunk takes at least one byte.
  if (rows > 0 && H5Dget_storage_size(values.id()) == 0)
    refuse_hdf5(where, "rows without data", "data");
  std::vector<std::int64_t> column(rows * words);
  budget -= static_cast<std::int64_t>(column.size());
  chunks.read(column);
  return column;
}

std::vector<std::int64_t> Hdf5Group::column(std::string_view name, std::int64_t& budget) const {
  std::string const where = path_of(name);
  H5Handle const values = dataset(std::string{name});
  H5Handle const type{H5Dget_type(values.id()), H5Tclose, "read " + where};
  if (H5Tequal(type.id(), H5T_STD_I64LE) <= 0) {
    refuse_hdf5(where, "another type", "64-bit little-endian integers");
  }
  return words_of(values, where, 1, budget);
}

ColumnValues Hdf5Group::any_column(std::string_view name,
                                   std::int64_t& budget,
                                   std::string& unit) const {
  std::string const where = path_of(name);
  H5Handle const values = dataset(std::string{name});
  unit = text_attribute(values, "unit", where, most_name_bytes);
  H5Handle const type{H5Dget_type(values.id()), H5Tclose, "read " + where};
  if (H5Tequal(type.id(), H5T_STD_I64LE) > 0) return words_of(values, where, 1, budget);
  if (H5Tequal(type.id(), H5T_IEEE_F64LE) > 0) {
    std::vector<std::int64_t> const words = words_of(values, where, 1, budget);
    std::vector<double> numbers(words.size());
    std::transform(words.begin(), words.end(), numbers.begin(),
                   [](std::int64_t word) { return std::bit_cast<double>(word); });
    return numbers;
  }
  std::size_t const size = text_size(type, where);
  if (size == 0 || size % sizeof(std::int64_t) != 0 || size > most_name_bytes) {
    refuse_hdf5(where, "texts of " + std::to_string(size) + " bytes",
                "a multiple of 8 up to " + std::to_string(most_name_bytes));
  }
  std::vector<std::int64_t> const words =
      words_of(values, where, size / sizeof(std::int64_t), budget);
  std::vector<std::string> texts;
  texts.reserve(words.size() * sizeof(std::int64_t) / size);
  auto const* const bytes = reinterpret_cast<char const*>(words.data());
  for (std::size_t at = 0; at < words.size() * sizeof(std::int64_t); at += size) {
    texts.emplace_back(bytes + at, std::find(bytes + at, bytes + at + size, '\0'));
  }
  return texts;
}

}  // namespace stagecraft
