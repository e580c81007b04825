#include "libsim/hdf5/column_file.hpp"

#include <hdf5.h>

#include <algorithm>
#include <sstream>
#include <system_error>

#include "libsim/config/problem.hpp"
#include "libsim/hdf5/hdf5_image.hpp"
#include "libsim/hdf5/hdf5_reader.hpp"
#include "libsim/host/file_error.hpp"

namespace stagecraft {

namespace {

/// The limit of the elements of all columns that are read together: 1 GiB.
constexpr std::int64_t most_elements = std::int64_t{1} << 27;
constexpr std::size_t most_attribute_bytes = std::size_t{16} << 20;

void write_numbers(
    hid_t file, NamedColumn const& column, hid_t stored, hid_t held, void const* data) {
  H5Handle const dataset = create_column(file, column.name.c_str(), stored, column.rows(), 1);
  write_attribute(dataset.id(), "unit", column.unit);
  if (column.rows() == 0) return;
  check_hdf5(H5Dwrite(dataset.id(), held, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "write a dataset");
}

/// Writes chunk by chunk: at once, all texts in memory would be padded to the longest.
void write_texts(hid_t file, NamedColumn const& column, std::vector<std::string> const& texts) {
  std::size_t longest = 1;
  for (std::string const& text : texts) longest = std::max(longest, text.size());
  std::size_t const words = (longest + 7) / 8;
  std::size_t const width = 8 * words;
  H5Handle const type = text_type(width);
  H5Handle const dataset = create_column(file, column.name.c_str(), type.id(), texts.size(), words);
  write_attribute(dataset.id(), "unit", column.unit);
  H5Handle const space{H5Dget_space(dataset.id()), H5Sclose, "find a dataspace"};
  hsize_t const piece = column_chunk_rows(words);
  std::string block;
  for (hsize_t first = 0; first < texts.size(); first += piece) {
    hsize_t const rows = std::min<hsize_t>(piece, texts.size() - first);
    block.assign(rows * width, '\0');
    for (hsize_t i = 0; i < rows; ++i) texts[first + i].copy(&block[i * width], width);
    check_hdf5(H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, &first, nullptr, &rows, nullptr),
               "select rows");
    H5Handle const memory{H5Screate_simple(1, &rows, nullptr), H5Sclose, "create a dataspace"};
    check_hdf5(
        H5Dwrite(dataset.id(), type.id(), memory.id(), space.id(), H5P_DEFAULT, block.data()),
        "write a dataset");
  }
}

void write_column(hid_t file, NamedColumn const& column) {
  if (auto const* const numbers = std::get_if<std::vector<std::int64_t>>(&column.values)) {
    write_numbers(file, column, H5T_STD_I64LE, H5T_NATIVE_INT64, numbers->data());
  } else if (auto const* const reals = std::get_if<std::vector<double>>(&column.values)) {
    write_numbers(file, column, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, reals->data());
  } else {
    write_texts(file, column, std::get<std::vector<std::string>>(column.values));
  }
}

std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> lines;
  std::istringstream stream{text};
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

std::string hdf5_version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  H5get_libversion(&major, &minor, &release);
  bool const compresses = H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0;
  return "HDF5 " + std::to_string(major) + "." + std::to_string(minor) + "." +
         std::to_string(release) + (compresses ? " with deflate" : " without deflate");
}

std::size_t NamedColumn::rows() const {
  return std::visit([](auto const& list) { return list.size(); }, values);
}

std::string ColumnFile::attribute(std::string const& name) const {
  auto const found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](auto const& entry) { return entry.first == name; });
  return found == attributes.end() ? std::string{} : found->second;
}

std::string column_file_image(ColumnFile const& table, std::filesystem::path const& path) {
  try {
    Hdf5Image const image;
    write_attribute(image.root(), "schema", table.schema);
    for (auto const& [name, text] : table.attributes) {
      write_attribute(image.root(), name.c_str(), text);
    }
    std::string names;
    for (NamedColumn const& column : table.columns) names += column.name + '\n';
    write_attribute(image.root(), "columns", names);
    for (NamedColumn const& column : table.columns) write_column(image.root(), column);
    std::span<char const> const bytes = image.bytes();
    return {bytes.data(), bytes.size()};
  } catch (Hdf5Error const& error) {
    throw OutputError{path, error.what()};
  }
}

ColumnFile read_column_file(std::filesystem::path const& path,
                            std::string const& schema,
                            std::vector<std::string> const& attributes) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw InputError{path.string() + ": there is no such file"};
  }
  try {
    Hdf5File const file = Hdf5File::open(path);
    Hdf5Group const root = file.root();
    ColumnFile table;
    table.schema = root.text("schema", most_attribute_bytes);
    if (table.schema != schema) {
      throw Hdf5Error{"attribute schema: found '" + printable(table.schema) + "'; accepted: '" +
                      schema + "'"};
    }
    for (std::string const& name : attributes) {
      table.attributes.emplace_back(name, root.text(name, most_attribute_bytes));
    }
    std::int64_t budget = most_elements;
    for (std::string const& name : lines_of(root.text("columns", most_attribute_bytes))) {
      NamedColumn& column = table.columns.emplace_back();
      column.name = name;
      column.values = root.any_column(name, budget, column.unit);
      if (column.rows() != table.columns.front().rows()) {
        throw Hdf5Error{"/" + printable(name) + ": found " + std::to_string(column.rows()) +
                        " rows; accepted: " + std::to_string(table.columns.front().rows()) +
                        ", as in the first column"};
      }
    }
    return table;
  } catch (Hdf5Error const& error) {
    throw InputError{path.string() + ": " + error.what()};
  }
}

}  // namespace stagecraft
