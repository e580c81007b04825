#include "libsim/hdf5/hdf5_reader.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>

#include "libsim/config/problem.hpp"
#include "libsim/hdf5/column_codec.hpp"

namespace stagecraft {

namespace {

/// Twice what create_column() writes. It limits what one chunk can make us allocate.
constexpr hsize_t most_chunk_elements = 131'072;
constexpr std::size_t most_names = 1'000'000;
constexpr std::size_t most_name_bytes = 4'096;
constexpr std::size_t most_names_bytes = std::size_t{16} << 20;

[[noreturn]] void refuse(std::string const& where,
                         std::string const& found,
                         std::string const& accepted) {
  throw Hdf5Error{where + ": found " + found + "; accepted: " + accepted};
}

H5Handle type_of_attribute(H5Handle const& attribute) {
  return {H5Aget_type(attribute.id()), H5Tclose, "read a type"};
}

void require_scalar(H5Handle const& attribute, std::string const& where) {
  H5Handle const space{H5Aget_space(attribute.id()), H5Sclose, "read " + where};
  if (H5Sget_simple_extent_type(space.id()) != H5S_SCALAR) {
    refuse(where, "several values", "one");
  }
}

/// The size of a text of fixed length. Texts of variable length are refused: HDF5 allocates
/// whatever length the file claims.
std::size_t text_size(H5Handle const& type, std::string const& where) {
  if (H5Tget_class(type.id()) != H5T_STRING || H5Tis_variable_str(type.id()) != 0) {
    refuse(where, "another type", "text of fixed length");
  }
  return H5Tget_size(type.id());
}

/// The same text type in memory, padded with zeros.
H5Handle memory_text_type(H5Handle const& type, std::size_t size, std::string const& where) {
  H5Handle memory{H5Tcopy(H5T_C_S1), H5Tclose, "read " + where};
  check_hdf5(H5Tset_size(memory.id(), size), "read " + where);
  check_hdf5(H5Tset_strpad(memory.id(), H5T_STR_NULLPAD), "read " + where);
  check_hdf5(H5Tset_cset(memory.id(), H5Tget_cset(type.id())), "read " + where);
  return memory;
}

std::string without_padding(std::string text) {
  text.erase(std::find(text.begin(), text.end(), '\0'), text.end());
  return text;
}

/// The rows of a dataset, which must have one dimension.
hsize_t rows_of(H5Handle const& dataset, std::string const& where) {
  H5Handle const space{H5Dget_space(dataset.id()), H5Sclose, "read " + where};
  hsize_t rows = 0;
  if (H5Sget_simple_extent_type(space.id()) != H5S_SIMPLE ||
      H5Sget_simple_extent_ndims(space.id()) != 1 ||
      H5Sget_simple_extent_dims(space.id(), &rows, nullptr) != 1) {
    refuse(where, "another shape", "one dimension");
  }
  return rows;
}

H5Handle creation_properties(H5Handle const& dataset, std::string const& where) {
  return {H5Dget_create_plist(dataset.id()), H5Pclose, "read " + where};
}

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
    bool const is_known = id == H5Z_FILTER_SHUFFLE || id == H5Z_FILTER_DEFLATE;
    auto const filter = id == H5Z_FILTER_SHUFFLE ? ColumnFilter::shuffle : ColumnFilter::deflate;
    if (!is_known || std::find(filters.begin(), filters.end(), filter) != filters.end()) {
      refuse(where, "filter " + std::to_string(id), "shuffle and deflate, once each");
    }
    filters.push_back(filter);
  }
  return filters;
}

/// The rows of a chunk; a row has `words` elements of 64 bits. The last chunk has at most those of
/// the whole column.
hsize_t chunk_rows_of(H5Handle const& properties, hsize_t words, std::string const& where) {
  hsize_t elements = 0;
  if (H5Pget_layout(properties.id()) != H5D_CHUNKED ||
      H5Pget_chunk(properties.id(), 1, &elements) != 1) {
    refuse(where, "another layout", "chunks");
  }
  if (elements < 1 || elements > most_chunk_elements / words) {
    refuse(where, "chunks of " + std::to_string(elements) + " elements",
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

/// A dataset whose rows have one or more 64-bit words each.
class ChunkedColumn {
 public:
  ChunkedColumn(H5Handle const& dataset, hsize_t words, std::string const& where)
      : dataset_{dataset}, where_{where}, words_{words} {
    H5Handle const properties = creation_properties(dataset, where);
    chunk_ = chunk_rows_of(properties, words, where);
    filters_ = filters_of(properties, where);
    bool const has_shuffle =
        std::find(filters_.begin(), filters_.end(), ColumnFilter::shuffle) != filters_.end();
    if (words > 1 && has_shuffle) refuse(where, "shuffled text", "text that is deflated at most");
  }

  void read(std::vector<std::int64_t>& values) {
    elements_.resize(chunk_ * words_);
    for (hsize_t row = 0; row * words_ < values.size(); row += chunk_) {
      read_chunk(row);
      auto const count = std::min<std::size_t>(elements_.size(), values.size() - row * words_);
      std::copy_n(elements_.begin(), count,
                  values.begin() + static_cast<std::ptrdiff_t>(row * words_));
    }
  }

 private:
  void read_chunk(hsize_t row) {
    std::string const where = where_ + ", row " + std::to_string(row);
    hsize_t size = 0;
    check_hdf5(H5Dget_chunk_storage_size(dataset_.id(), &row, &size), "read " + where);
    if (size == 0 || size > most_stored_bytes(elements_.size())) {
      refuse(where, "a chunk of " + std::to_string(size) + " bytes",
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

  H5Handle const& dataset_;
  std::string const& where_;
  hsize_t words_;
  hsize_t chunk_ = 0;
  std::vector<ColumnFilter> filters_;
  std::vector<unsigned char> stored_;
  std::vector<std::int64_t> elements_;
};

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
    refuse("HDF5 superblock", "version " + std::to_string(version), "2");
}

/// Translates HDF5's messages about a damaged file into ours.
[[noreturn]] void explain_open_failure() {
  std::string const reason = last_hdf5_reason();
  if (reason.find("truncated") != std::string::npos) throw Hdf5Error{"is cut off: " + reason};
  throw Hdf5Error{"is damaged: " + reason};
}

}  // namespace

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
  if (info.type != H5L_TYPE_HARD) refuse(path_of(name), "a link to elsewhere", what);
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
  if (status > 0) refuse(path_, "more than " + std::to_string(most) + " links", "fewer");
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
    refuse(where, std::to_string(size) + " bytes", "up to " + std::to_string(most));
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
    refuse(where, "another type", "a 64-bit integer");
  }
  std::int64_t number = 0;
  check_hdf5(H5Aread(value.id(), H5T_NATIVE_INT64, &number), "read " + where);
  if (number < 0 || number > std::int64_t{0x7fffffff}) {
    refuse(where, std::to_string(number), "0 to 2147483647");
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

template <typename Number>
std::vector<Number> Hdf5Group::numbers(std::string const& name,
                                       hid_t type,
                                       std::size_t most) const {
  std::string const where = path_of(name);
  H5Handle const values = dataset(name);
  hsize_t const rows = rows_of(values, where);
  if (rows > most) refuse(where, std::to_string(rows) + " rows", "up to " + std::to_string(most));
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
    refuse(where, std::to_string(rows) + " names of " + std::to_string(size) + " bytes",
           "up to 4096 bytes each, 16 MiB together");
  }
  H5Handle const properties = creation_properties(values, where);
  if (H5Pget_layout(properties.id()) != H5D_CONTIGUOUS ||
      H5Pget_external_count(properties.id()) != 0) {
    refuse(where, "another layout", "contiguous, in the same file");
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
    refuse(where, std::to_string(rows) + " rows",
           "up to " + std::to_string(static_cast<hsize_t>(budget) / words) +
               " (all columns that are read together: 1 GiB)");
  }
  ChunkedColumn chunks{values, words, where};
  // A file must not claim rows without data: a chunk takes at least one byte.
  if (rows > 0 && H5Dget_storage_size(values.id()) == 0) refuse(where, "rows without data", "data");
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
    refuse(where, "another type", "64-bit little-endian integers");
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
    refuse(where, "texts of " + std::to_string(size) + " bytes",
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
