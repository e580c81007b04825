#include "libexec/checkpoint/checkpoint_file.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include "libexec/executor/token_source.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/hdf5/hdf5_image.hpp"
#include "libsim/hdf5/hdf5_reader.hpp"
#include "libsim/host/file_error.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/host/schemas.hpp"

namespace stagecraft {
namespace {

/// Guards HDF5, which is not thread-safe: ranks may be threads.
std::mutex& hdf5_mutex() {
  static std::mutex mutex;
  return mutex;
}

using Integers = std::vector<std::int64_t>;

struct IntegerColumn {
  char const* name;
  std::int64_t CheckpointPiece::*member;
};
constexpr std::array columns{IntegerColumn{"row", &CheckpointPiece::row},
                             IntegerColumn{"column", &CheckpointPiece::column},
                             IntegerColumn{"rows", &CheckpointPiece::rows},
                             IntegerColumn{"columns", &CheckpointPiece::columns},
                             IntegerColumn{"offset", &CheckpointPiece::offset},
                             IntegerColumn{"whole_rows", &CheckpointPiece::whole_rows},
                             IntegerColumn{"whole_columns", &CheckpointPiece::whole_columns}};

struct NumberColumn {
  char const* name;
  std::vector<double> CheckpointShare::*member;
};
constexpr std::array values{NumberColumn{"weight", &CheckpointShare::weight},
                            NumberColumn{"first_moment", &CheckpointShare::first_moment},
                            NumberColumn{"second_moment", &CheckpointShare::second_moment}};

struct IntegerAttribute {
  char const* name;
  std::int64_t TrainingState::*member;
};
constexpr std::array attributes{
    IntegerAttribute{"step", &TrainingState::step},
    IntegerAttribute{"updates", &TrainingState::updates},
    IntegerAttribute{"steps_since_overflow", &TrainingState::steps_since_overflow}};

[[noreturn]] void refuse(std::string const& what) { throw Hdf5Error{what}; }

void write_pieces(hid_t file, std::vector<CheckpointPiece> const& pieces) {
  H5Handle const group = create_group(file, "pieces");
  std::vector<std::string> names;
  names.reserve(pieces.size());
  for (CheckpointPiece const& piece : pieces) names.push_back(piece.name);
  write_names(group.id(), "name", names);
  for (IntegerColumn const& column : columns) {
    Integers numbers;
    for (CheckpointPiece const& piece : pieces) numbers.push_back(piece.*column.member);
    write_dataset(group.id(), column.name, H5T_STD_I64LE, H5T_NATIVE_INT64, numbers.size(),
                  numbers.data());
  }
}

std::vector<CheckpointPiece> read_pieces(Hdf5Group const& group, std::size_t most) {
  std::vector<CheckpointPiece> pieces;
  for (std::string& name : group.names("name")) pieces.push_back({.name = std::move(name)});
  for (IntegerColumn const& column : columns) {
    Integers const numbers = group.integers(column.name, most);
    if (numbers.size() != pieces.size()) {
      refuse(group.path() + "/" + column.name + ": another length than " + group.path() + "/name");
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

/// `most`: the bytes of the file, which are more than it can have numbers.
CheckpointShare read_share(Hdf5Group const& root, std::size_t most) {
  CheckpointShare share;
  std::string const found = root.text("schema", most);
  if (found == checkpoint_schema) {
    share.model = root.text("model", most);
  } else if (found != first_checkpoint_schema) {
    refuse("schema: found '" + printable(found) + "'; accepted: '" +
           std::string{checkpoint_schema} + "'");
  }
  for (IntegerAttribute const& attribute : attributes) {
    share.state.*attribute.member = root.integer(attribute.name);
  }
  share.state.loss_scale = root.real("loss_scale");
  share.pieces = read_pieces(root.group("pieces"), most);
  Hdf5Group const group = root.group("values");
  for (NumberColumn const& column : values) {
    share.*column.member = group.reals(column.name, most);
    if ((share.*column.member).size() != share.weight.size()) {
      refuse(group.path() + "/" + column.name + ": another length than " + group.path() +
             "/weight");
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
    Hdf5Image const image;
    write_attribute(image.root(), "schema", checkpoint_schema);
    write_attribute(image.root(), "model", share.model);
    for (IntegerAttribute const& attribute : attributes) {
      write_attribute(image.root(), attribute.name, share.state.*attribute.member);
    }
    write_attribute(image.root(), "loss_scale", share.state.loss_scale);
    write_pieces(image.root(), share.pieces);
    H5Handle const group = create_group(image.root(), "values");
    hid_t const stored = type == ElementType::f64 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE;
    for (NumberColumn const& column : values) {
      std::vector<double> const& numbers = share.*column.member;
      write_dataset(group.id(), column.name, stored, H5T_NATIVE_DOUBLE, numbers.size(),
                    numbers.data());
    }
    std::span<char const> const bytes = image.bytes();
    write_output(path, {bytes.data(), bytes.size()});
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
    CheckpointShare share = read_share(Hdf5File::open(path, Hdf5Format::any).root(), bytes);
    // What has no checksums was not damaged into the format of files that never had any.
    if (!share.model.empty()) Hdf5File::open(path, Hdf5Format::checked);
    return share;
  } catch (Hdf5Error const& error) {
    throw DataError{path.string() + ": " + error.what()};
  }
}

}  // namespace stagecraft
