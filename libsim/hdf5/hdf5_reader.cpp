#include "libsim/hdf5/hdf5_reader.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>

#include "libsim/hdf5/chunked_column.hpp"
#include "libsim/hdf5/hdf5_handle.hpp"

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

H5Handle type_of_attribute(H5Handle const& attribute) {
  return {H5Aget_type(attribute.id()), H5Tclose, "read a type"};
}

void require_scalar(H5Handle const& attribute, std::string const& where) {
  H5Handle const space{H5Aget_space(attribute.id()), H5Sclose, "read " + where};
  if (H5Sget_simple_extent_type(space.id()) != H5S_SCALAR) {
    refuse_hdf5(where, "several values", "one");
  }
}

herr_t collect_name(hid_t /*group*/, char const* name, H5L_info_t const* /*info*/, void* state) {
  auto& [names, most] = *static_cast<std::pair<std::vector<std::string>, std::size_t>*>(state);
  if (names.size() == most) return 1;
  names.emplace_back(name);
  return 0;
}

H5Handle file_access() {
  silence_hdf5();
  H5Handle access{H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "create properties"};
  // Files appear complete, by a rename; locks would only fail on file systems without locks.
  check_hdf5(H5Pset_file_locking(access.id(), false, true), "switch file locks off");
  return access;
}

void require_format(std::span<unsigned char const> head, Hdf5Format format) {
  constexpr std::array<unsigned char, 8> signature{0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  bool const is_hdf5 = head.size() > signature.size() &&
                       std::equal(signature.begin(), signature.end(), head.begin());
  if (!is_hdf5) throw Hdf5Error{"is not an HDF5 file"};
  unsigned const version = head[signature.size()];
  if (version != 2 && format == Hdf5Format::checked)
    refuse_hdf5("HDF5 superblock", "version " + std::to_string(version), "2");
}

/// Whether bytes are in the file as they are, but for checksums of chunks.
bool is_plain(H5Handle const& properties) {
  H5D_layout_t const layout = H5Pget_layout(properties.id());
  if (layout == H5D_CONTIGUOUS) return H5Pget_external_count(properties.id()) == 0;
  int const filters = H5Pget_nfilters(properties.id());
  if (layout != H5D_CHUNKED || filters > 1) return false;
  unsigned flags = 0;
  std::size_t values = 0;
  return filters == 0 || H5Pget_filter2(properties.id(), 0, &flags, &values, nullptr, 0, nullptr,
                                        nullptr) == H5Z_FILTER_FLETCHER32;
}

/// Translates HDF5's messages about a damaged file into ours.
[[noreturn]] void explain_open_failure() {
  std::string const reason = last_hdf5_reason();
  if (reason.find("truncated") != std::string::npos) throw Hdf5Error{"is cut off: " + reason};
  throw Hdf5Error{"is damaged: " + reason};
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
  if (!is_plain(properties)) {
    refuse_hdf5(where, "another layout",
                "contiguous, or chunks with a checksum at most, in the same file");
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

Hdf5File Hdf5File::open(std::filesystem::path const& path, Hdf5Format format) {
  std::array<char, 9> head{};
  std::ifstream stream{path, std::ios::binary};
  if (!stream) throw Hdf5Error{"cannot be opened for reading"};
  stream.read(head.data(), head.size());
  require_format({reinterpret_cast<unsigned char const*>(head.data()),
                  static_cast<std::size_t>(stream.gcount())},
                 format);
  H5Handle const access = file_access();
  hid_t const file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id());
  if (file < 0) explain_open_failure();
  return Hdf5File{H5Handle{file, H5Fclose, "open it"}};
}

Hdf5File Hdf5File::open(std::span<unsigned char const> image) {
  require_format(image, Hdf5Format::checked);
  H5Handle const access = file_access();
  constexpr std::size_t increment = std::size_t{1} << 16;
  check_hdf5(H5Pset_fapl_core(access.id(), increment, false), "open it in memory");
  // HDF5 copies the image; its signature merely lacks the const.
  void* const bytes = const_cast<unsigned char*>(image.data());
  check_hdf5(H5Pset_file_image(access.id(), bytes, image.size()), "open it in memory");
  // HDF5 looks for a file of the same name on disk, and takes two files in memory with one name for
  // the same file: below /dev/null there are none, and identifiers are never reused.
  std::string const name = "/dev/null/" + std::to_string(access.id());
  hid_t const file = H5Fopen(name.c_str(), H5F_ACC_RDONLY, access.id());
  if (file < 0) explain_open_failure();
  return Hdf5File{H5Handle{file, H5Fclose, "open it"}};
}

Hdf5Group Hdf5File::root() const {
  return {H5Handle{H5Gopen2(file_.id(), "/", H5P_DEFAULT), H5Gclose, "open the root group"}, ""};
}

std::string Hdf5Group::path_of(std::string_view name) const {
  return path_ + "/" + std::string{name};
}

void Hdf5Group::require_hard_link(std::string const& name, std::string const& what) const {
  htri_t const exists = H5Lexists(group_.id(), name.c_str(), H5P_DEFAULT);
  check_hdf5(exists, "look for " + path_of(name));
  if (exists == 0) throw Hdf5Error{path_of(name) + ": there is none; accepted: " + what};
  H5L_info_t info{};
  check_hdf5(H5Lget_info(group_.id(), name.c_str(), &info, H5P_DEFAULT),
             "look at " + path_of(name));
  if (info.type != H5L_TYPE_HARD) refuse_hdf5(path_of(name), "a link to elsewhere", what);
}

Hdf5Group Hdf5Group::group(std::string const& name) const {
  require_hard_link(name, "a group");
  hid_t const group = H5Gopen2(group_.id(), name.c_str(), H5P_DEFAULT);
  return {H5Handle{group, H5Gclose, "open group " + path_of(name)}, path_of(name)};
}

H5Handle Hdf5Group::dataset(std::string const& name) const {
  require_hard_link(name, "a dataset");
  hid_t const dataset = H5Dopen2(group_.id(), name.c_str(), H5P_DEFAULT);
  return {dataset, H5Dclose, "open dataset " + path_of(name)};
}

bool Hdf5Group::has_link(std::string const& name) const {
  htri_t const exists = H5Lexists(group_.id(), name.c_str(), H5P_DEFAULT);
  check_hdf5(exists, "look for " + path_of(name));
  return exists > 0;
}

bool Hdf5Group::has_attribute(std::string const& name) const {
  htri_t const exists = H5Aexists(group_.id(), name.c_str());
  check_hdf5(exists, "look for attribute " + name);
  return exists > 0;
}

H5Handle Hdf5Group::open_attribute(H5Handle const& object,
                                   std::string const& name,
                                   std::string const& where) {
  htri_t const exists = H5Aexists(object.id(), name.c_str());
  check_hdf5(exists, "look for " + where);
  if (exists == 0) throw Hdf5Error{where + ": there is none"};
  return {H5Aopen(object.id(), name.c_str(), H5P_DEFAULT), H5Aclose, "open " + where};
}

std::vector<std::string> Hdf5Group::links(std::size_t most) const {
  std::pair<std::vector<std::string>, std::size_t> state{{}, most};
  hsize_t position = 0;
  int const status =
      H5Literate(group_.id(), H5_INDEX_NAME, H5_ITER_NATIVE, &position, collect_name, &state);
  check_hdf5(status, "list " + path_);
  if (status > 0) refuse_hdf5(path_, "more than " + std::to_string(most) + " links", "fewer");
  return state.first;
}

std::string Hdf5Group::text(std::string const& name, std::size_t most) const {
  return text_attribute(group_, name, path_, most);
}

std::string Hdf5Group::text_attribute(H5Handle const& object,
                                      std::string const& name,
                                      std::string const& path,
                                      std::size_t most) {
  std::string const where = "attribute " + name + (path.empty() ? "" : " of " + path);
  H5Handle const value = open_attribute(object, name, where);
  require_scalar(value, where);
  H5Handle const type = type_of_attribute(value);
  std::size_t const size = text_size(type, where);
  if (size > most) {
    refuse_hdf5(where, std::to_string(size) + " bytes", "up to " + std::to_string(most));
  }
  std::string text(size, '\0');
  H5Handle const memory = memory_text_type(type, size, where);
  check_hdf5(H5Aread(value.id(), memory.id(), text.data()), "read " + where);
  return without_padding(std::move(text));
}

std::int32_t Hdf5Group::number(std::string const& name) const {
  std::string const where = "attribute " + name + " of " + path_;
  H5Handle const value = open_attribute(group_, name, where);
  require_scalar(value, where);
  if (H5Tequal(type_of_attribute(value).id(), H5T_STD_I64LE) <= 0) {
    refuse_hdf5(where, "another type", "a 64-bit integer");
  }
  std::int64_t number = 0;
  check_hdf5(H5Aread(value.id(), H5T_NATIVE_INT64, &number), "read " + where);
  if (number < 0 || number > std::int64_t{0x7fffffff}) {
    refuse_hdf5(where, std::to_string(number), "0 to 2147483647");
  }
  return static_cast<std::int32_t>(number);
}

void Hdf5Group::read_scalar(std::string const& attribute, hid_t type, void* value) const {
  std::string const where = "attribute " + attribute + (path_.empty() ? "" : " of " + path_);
  H5Handle const found = open_attribute(group_, attribute, where);
  require_scalar(found, where);
  check_hdf5(H5Aread(found.id(), type, value), "read " + where);
}

std::int64_t Hdf5Group::integer(std::string const& attribute) const {
  std::int64_t value = 0;
  read_scalar(attribute, H5T_NATIVE_INT64, &value);
  return value;
}

double Hdf5Group::real(std::string const& attribute) const {
  double value = 0;
  read_scalar(attribute, H5T_NATIVE_DOUBLE, &value);
  return value;
}

}  // namespace stagecraft
