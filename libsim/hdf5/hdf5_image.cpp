#include "libsim/hdf5/hdf5_image.hpp"

#include <algorithm>
#include <string>

namespace stagecraft {
namespace {

/// The bytes by which the image of the file grows at a time.
constexpr std::size_t image_increment = std::size_t{4} << 20;
/// zlib's fastest level; level 6 takes four times as long for files a fifth smaller.
constexpr unsigned deflate_level = 1;

H5Handle create_file() {
  silence_hdf5();
  H5Handle const access{H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "create properties"};
  check_hdf5(H5Pset_fapl_core(access.id(), image_increment, false), "keep the file in memory");
  // The format of HDF5 1.8 allows attributes above 64 KiB, and all current readers support it.
  check_hdf5(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V18, H5F_LIBVER_V18),
             "choose the format");
  H5Handle const properties = untimed_properties(H5P_FILE_CREATE);
  // HDF5 takes two files in memory with one name for the same file; identifiers are never reused.
  std::string const name = "/dev/null/" + std::to_string(access.id());
  return {H5Fcreate(name.c_str(), H5F_ACC_TRUNC, properties.id(), access.id()), H5Fclose,
          "create a file in memory"};
}

void write_scalar(hid_t object, char const* name, hid_t stored, hid_t held, void const* value) {
  H5Handle const space{H5Screate(H5S_SCALAR), H5Sclose, "create a scalar"};
  H5Handle const attribute{H5Acreate2(object, name, stored, space.id(), H5P_DEFAULT, H5P_DEFAULT),
                           H5Aclose, "create an attribute"};
  check_hdf5(H5Awrite(attribute.id(), held, value), "write an attribute");
}

}  // namespace

Hdf5Image::Hdf5Image() : file_{create_file()} {}

std::span<char const> Hdf5Image::bytes() const {
  check_hdf5(H5Fflush(file_.id(), H5F_SCOPE_LOCAL), "complete the file");
  ssize_t const size = H5Fget_file_image(file_.id(), nullptr, 0);
  check_hdf5(size, "measure the file");
  void* handle = nullptr;
  check_hdf5(H5Fget_vfd_handle(file_.id(), H5P_DEFAULT, &handle), "find the file in memory");
  return {*static_cast<char const**>(handle), static_cast<std::size_t>(size)};
}

H5Handle untimed_properties(hid_t kind) {
  H5Handle properties{H5Pcreate(kind), H5Pclose, "create properties"};
  check_hdf5(H5Pset_obj_track_times(properties.id(), false), "leave out times");
  return properties;
}

H5Handle text_type(std::size_t size) {
  H5Handle type{H5Tcopy(H5T_C_S1), H5Tclose, "create a text type"};
  // HDF5 requires a size above 0, and readers cut off trailing zeros.
  check_hdf5(H5Tset_size(type.id(), std::max<std::size_t>(size, 1)), "size a text type");
  check_hdf5(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "pad a text type");
  check_hdf5(H5Tset_cset(type.id(), H5T_CSET_UTF8), "say that text is UTF-8");
  return type;
}

void write_attribute(hid_t object, char const* name, std::string_view text) {
  H5Handle const type = text_type(text.size());
  write_scalar(object, name, type.id(), type.id(), std::string{text}.c_str());
}

void write_attribute(hid_t object, char const* name, std::int64_t value) {
  write_scalar(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

void write_attribute(hid_t object, char const* name, double value) {
  write_scalar(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

hsize_t column_chunk_rows(hsize_t words) {
  constexpr hsize_t chunk_words = 65'536;
  return std::max<hsize_t>(1, chunk_words / words);
}

void write_dataset(
    hid_t group, char const* name, hid_t stored, hid_t held, std::size_t rows, void const* data) {
  hsize_t const extent = rows;
  H5Handle const space{H5Screate_simple(1, &extent, nullptr), H5Sclose, "create a dataspace"};
  H5Handle const properties = untimed_properties(H5P_DATASET_CREATE);
  hsize_t const chunk = std::clamp<hsize_t>(extent, 1, column_chunk_rows(1));
  check_hdf5(H5Pset_chunk(properties.id(), 1, &chunk), "cut a dataset into chunks");
  check_hdf5(H5Pset_fletcher32(properties.id()), "give chunks checksums");
  H5Handle const dataset{
      H5Dcreate2(group, name, stored, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT),
      H5Dclose, "create a dataset"};
  if (rows == 0) return;
  check_hdf5(H5Dwrite(dataset.id(), held, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "write a dataset");
}

void write_names(hid_t group, char const* name, std::vector<std::string> const& names) {
  std::size_t longest = 1;
  for (std::string const& entry : names) longest = std::max(longest, entry.size());
  std::string block(longest * names.size(), '\0');
  for (std::size_t i = 0; i < names.size(); ++i) names[i].copy(&block[i * longest], longest);
  H5Handle const type = text_type(longest);
  write_dataset(group, name, type.id(), type.id(), names.size(), block.data());
}

H5Handle create_group(hid_t parent, char const* name) {
  H5Handle const properties = untimed_properties(H5P_GROUP_CREATE);
  return {H5Gcreate2(parent, name, H5P_DEFAULT, properties.id(), H5P_DEFAULT), H5Gclose,
          "create a group"};
}

H5Handle create_column(hid_t group, char const* name, hid_t type, hsize_t rows, hsize_t words) {
  hsize_t const chunk = std::clamp<hsize_t>(rows, 1, column_chunk_rows(words));
  H5Handle const space{H5Screate_simple(1, &rows, nullptr), H5Sclose, "create a dataspace"};
  H5Handle const properties = untimed_properties(H5P_DATASET_CREATE);
  check_hdf5(H5Pset_chunk(properties.id(), 1, &chunk), "cut a dataset into chunks");
  if (words == 1) check_hdf5(H5Pset_shuffle(properties.id()), "shuffle a dataset");
  check_hdf5(H5Pset_deflate(properties.id(), deflate_level), "compress a dataset");
  check_hdf5(H5Pset_fletcher32(properties.id()), "give chunks checksums");
  check_hdf5(H5Pset_fill_time(properties.id(), H5D_FILL_TIME_NEVER), "leave a dataset unfilled");
  return {H5Dcreate2(group, name, type, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT),
          H5Dclose, "create a dataset"};
}

}  // namespace stagecraft
