#include "libexec/checkpoint/checkpoint_file.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string_view>

#include "libexec/executor/data_error.hpp"
#include "libsim/trace/hdf5_handle.hpp"
#include "libsim/trace/trace_error.hpp"

namespace stagecraft {
namespace {

constexpr std::string_view schema = "stagecraft.checkpoint/1";
constexpr std::size_t name_size = 64;  ///< longer than any tensor's name

/// Guards HDF5, which is not thread-safe: ranks may be threads.
std::mutex& hdf5_mutex() {
  static std::mutex mutex;
  return mutex;
}

using Integers = std::vector<std::int64_t>;

struct IntegerColumn {
  char const* path;
  std::int64_t CheckpointPiece::*member;
};
constexpr std::array columns{
    IntegerColumn{"/pieces/row", &CheckpointPiece::row},
    IntegerColumn{"/pieces/column", &CheckpointPiece::column},
    IntegerColumn{"/pieces/rows", &CheckpointPiece::rows},
    IntegerColumn{"/pieces/columns", &CheckpointPiece::columns},
    IntegerColumn{"/pieces/offset", &CheckpointPiece::offset},
    IntegerColumn{"/pieces/whole_rows", &CheckpointPiece::whole_rows},
    IntegerColumn{"/pieces/whole_columns", &CheckpointPiece::whole_columns}};

struct NumberColumn {
  char const* path;
  std::vector<double> CheckpointShare::*member;
};
constexpr std::array values{NumberColumn{"/values/weight", &CheckpointShare::weight},
                            NumberColumn{"/values/first_moment", &CheckpointShare::first_moment},
                            NumberColumn{"/values/second_moment", &CheckpointShare::second_moment}};

struct IntegerAttribute {
  char const* name;
  std::int64_t TrainingState::*member;
};
constexpr std::array attributes{
    IntegerAttribute{"step", &TrainingState::step},
    IntegerAttribute{"updates", &TrainingState::updates},
    IntegerAttribute{"steps_since_overflow", &TrainingState::steps_since_overflow}};

H5Handle text_type(std::size_t size) {
  H5Handle type{H5Tcopy(H5T_C_S1), H5Tclose, "describe a text"};
  check_hdf5(H5Tset_size(type.id(), size), "describe a text");
  check_hdf5(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "describe a text");
  return type;
}

// Writing.

void write_dataset(
    hid_t file, char const* path, hid_t stored, hid_t memory, std::size_t rows, void const* data) {
  hsize_t const extent = rows;
  H5Handle const space{H5Screate_simple(1, &extent, nullptr), H5Sclose, "describe a column"};
  H5Handle const dataset{
      H5Dcreate2(file, path, stored, space.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Dclose,
      std::string{"create "} + path};
  if (rows == 0) return;
  check_hdf5(H5Dwrite(dataset.id(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data),
             std::string{"write "} + path);
}

void write_attribute(hid_t file, char const* name, hid_t type, void const* value) {
  H5Handle const space{H5Screate(H5S_SCALAR), H5Sclose, "describe an attribute"};
  H5Handle const attribute{H5Acreate2(file, name, type, space.id(), H5P_DEFAULT, H5P_DEFAULT),
                           H5Aclose, std::string{"create "} + name};
  check_hdf5(H5Awrite(attribute.id(), type, value), std::string{"write "} + name);
}

void write_pieces(hid_t file, std::vector<CheckpointPiece> const& pieces) {
  H5Handle const group{H5Gcreate2(file, "/pieces", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose,
                       "create /pieces"};
  std::string names(pieces.size() * name_size, '\0');
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    pieces[i].name.copy(names.data() + i * name_size, name_size);
  }
  H5Handle const text = text_type(name_size);
  write_dataset(file, "/pieces/name", text.id(), text.id(), pieces.size(), names.data());
  for (IntegerColumn const& column : columns) {
    Integers numbers;
    for (CheckpointPiece const& piece : pieces) numbers.push_back(piece.*column.member);
    write_dataset(file, column.path, H5T_STD_I64LE, H5T_NATIVE_INT64, numbers.size(),
                  numbers.data());
  }
}

// Reading.

[[noreturn]] void refuse(std::string const& what) { throw Hdf5Error{what}; }

/// The rows of a dataset. A file that claims more than it can hold is refused before allocating.
std::size_t rows_of(H5Handle const& dataset, char const* path, std::size_t most) {
  H5Handle const space{H5Dget_space(dataset.id()), H5Sclose, std::string{"read "} + path};
  hsize_t rows = 0;
  if (H5Sget_simple_extent_ndims(space.id()) != 1 ||
      H5Sget_simple_extent_dims(space.id(), &rows, nullptr) != 1) {
    refuse(std::string{path} + ": found another shape; accepted: one dimension");
  }
  if (rows > most) refuse(std::string{path} + ": more rows than the file has bytes");
  return rows;
}

template <typename Number>
std::vector<Number> read_column(hid_t file, char const* path, hid_t memory, std::size_t most) {
  H5Handle const dataset{H5Dopen2(file, path, H5P_DEFAULT), H5Dclose, std::string{"open "} + path};
  std::vector<Number> numbers(rows_of(dataset, path, most));
  if (!numbers.empty()) {
    check_hdf5(H5Dread(dataset.id(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()),
               std::string{"read "} + path);
  }
  return numbers;
}

void read_attribute(hid_t file, char const* name, hid_t type, void* value) {
  H5Handle const attribute{H5Aopen(file, name, H5P_DEFAULT), H5Aclose, std::string{"open "} + name};
  check_hdf5(H5Aread(attribute.id(), type, value), std::string{"read "} + name);
}

std::vector<CheckpointPiece> read_pieces(hid_t file, std::size_t most) {
  std::vector<CheckpointPiece> pieces;
  {
    H5Handle const dataset{H5Dopen2(file, "/pieces/name", H5P_DEFAULT), H5Dclose,
                           "open /pieces/name"};
    pieces.resize(rows_of(dataset, "/pieces/name", most));
    std::string names(pieces.size() * name_size, '\0');
    H5Handle const text = text_type(name_size);
    if (!pieces.empty()) {
      check_hdf5(H5Dread(dataset.id(), text.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, names.data()),
                 "read /pieces/name");
    }
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      std::string const padded = names.substr(i * name_size, name_size);
      pieces[i].name = padded.substr(0, padded.find('\0'));
    }
  }
  for (IntegerColumn const& column : columns) {
    Integers const numbers = read_column<std::int64_t>(file, column.path, H5T_NATIVE_INT64, most);
    if (numbers.size() != pieces.size()) {
      refuse(std::string{column.path} + ": another length than /pieces/name");
    }
    for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i].*column.member = numbers[i];
  }
  return pieces;
}

void require_inside(std::vector<CheckpointPiece> const& pieces, std::size_t elements) {
  auto const most = static_cast<std::int64_t>(elements);
  for (CheckpointPiece const& piece : pieces) {
    bool const is_sane = piece.row >= 0 && piece.column >= 0 && piece.rows > 0 &&
                         piece.columns > 0 && piece.offset >= 0 && piece.rows <= most &&
                         piece.columns <= most / piece.rows &&
                         piece.offset <= most - piece.elements();
    if (!is_sane) refuse("piece of " + piece.name + ": outside of /values");
  }
}

CheckpointShare read_open_file(hid_t file, std::size_t file_bytes) {
  CheckpointShare share;
  H5Handle const text = text_type(name_size);
  std::string found(name_size, '\0');
  read_attribute(file, "schema", text.id(), found.data());
  found = found.substr(0, found.find('\0'));
  if (found != schema) {
    refuse("schema: found '" + found + "'; accepted: " + std::string{schema});
  }
  for (IntegerAttribute const& attribute : attributes) {
    read_attribute(file, attribute.name, H5T_NATIVE_INT64, &(share.state.*attribute.member));
  }
  read_attribute(file, "loss_scale", H5T_NATIVE_DOUBLE, &share.state.loss_scale);
  share.pieces = read_pieces(file, file_bytes);
  for (NumberColumn const& column : values) {
    share.*column.member = read_column<double>(file, column.path, H5T_NATIVE_DOUBLE, file_bytes);
    if ((share.*column.member).size() != share.weight.size()) {
      refuse(std::string{column.path} + ": another length than /values/weight");
    }
  }
  require_inside(share.pieces, share.weight.size());
  return share;
}

}  // namespace

void write_checkpoint_file(std::filesystem::path const& path,
                           CheckpointShare const& share,
                           ElementType type) {
  std::scoped_lock const lock{hdf5_mutex()};
  silence_hdf5();
  try {
    H5Handle const file{H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT), H5Fclose,
                        "create it"};
    H5Handle const text = text_type(name_size);
    std::string padded{schema};
    padded.resize(name_size, '\0');
    write_attribute(file.id(), "schema", text.id(), padded.data());
    for (IntegerAttribute const& attribute : attributes) {
      write_attribute(file.id(), attribute.name, H5T_NATIVE_INT64,
                      &(share.state.*attribute.member));
    }
    write_attribute(file.id(), "loss_scale", H5T_NATIVE_DOUBLE, &share.state.loss_scale);
    write_pieces(file.id(), share.pieces);
    H5Handle const group{H5Gcreate2(file.id(), "/values", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                         H5Gclose, "create /values"};
    hid_t const stored = type == ElementType::f64 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE;
    for (NumberColumn const& column : values) {
      std::vector<double> const& numbers = share.*column.member;
      write_dataset(file.id(), column.path, stored, H5T_NATIVE_DOUBLE, numbers.size(),
                    numbers.data());
    }
    check_hdf5(H5Fflush(file.id(), H5F_SCOPE_GLOBAL), "write it out");
  } catch (Hdf5Error const& error) {
    throw OutputError{path, error.what()};
  }
}

CheckpointShare read_checkpoint_file(std::filesystem::path const& path) {
  std::scoped_lock const lock{hdf5_mutex()};
  silence_hdf5();
  try {
    std::error_code error;
    auto const bytes = std::filesystem::file_size(path, error);
    if (error) refuse(error.message());
    H5Handle const file{H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, "open it"};
    return read_open_file(file.id(), bytes);
  } catch (Hdf5Error const& error) {
    throw DataError{path.string() + ": " + error.what()};
  }
}

}  // namespace stagecraft
