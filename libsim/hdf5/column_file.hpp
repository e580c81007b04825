#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "libsim/hdf5/column_values.hpp"

namespace stagecraft {

/// The HDF5 library in use: `HDF5 1.10.8 with deflate`.
std::string hdf5_version();

/// A column of a table.
struct NamedColumn {
  std::string name;
  std::string unit;  ///< empty for counts, fractions and texts
  ColumnValues values;

  std::size_t rows() const;
};

/// A table in an HDF5 file.
///
/// Each column is a one-dimensional dataset of the root: 64-bit little-endian integers, 64-bit
/// little-endian IEEE 754 numbers, or UTF-8 texts of one fixed length padded with zeros, in
/// compressed chunks, with an attribute `unit`. Attributes of the root are UTF-8 texts; `schema` is
/// the first of them, and `columns` has the names of the columns in their order, one per line.
/// HDF5 is not thread-safe: only one thread of a process at a time may use this.
struct ColumnFile {
  std::string schema;
  std::vector<std::pair<std::string, std::string>> attributes;  ///< except schema and columns
  std::vector<NamedColumn> columns;                             ///< all of the same length

  /// The text of an attribute, empty if there is none.
  std::string attribute(std::string const& name) const;
};

/// The bytes of the file. The same table gives the same bytes.
/// \throws OutputError  naming `path`
std::string column_file_image(ColumnFile const& table, std::filesystem::path const& path);

/// Reads an untrusted file of the schema. `attributes` are the names of the attributes that it
/// must have.
/// \throws InputError  naming the file, what is wrong and what is accepted.
ColumnFile read_column_file(std::filesystem::path const& path,
                            std::string const& schema,
                            std::vector<std::string> const& attributes);

}  // namespace stagecraft
