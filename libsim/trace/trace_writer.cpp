#include "libsim/trace/trace_writer.hpp"

#include <algorithm>
#include <cassert>
#include <span>
#include <string>
#include <vector>

#include "libsim/trace/hdf5_handle.hpp"
#include "libsim/trace/output_file.hpp"
#include "libsim/trace/trace_error.hpp"
#include "libsim/trace/trace_schema.hpp"

namespace stagecraft {

namespace {

/// Elements of a compressed chunk: 512 KiB, which fits HDF5's default cache of 1 MiB a dataset.
constexpr hsize_t chunk_elements = 65'536;
/// zlib's fastest level; level 6 takes four times as long for files a fifth smaller.
constexpr unsigned deflate_level = 1;
/// By how much the image of the file grows at a time.
constexpr std::size_t image_increment = std::size_t{4} << 20;

/// Without them a file has the time of its creation in it, and never the same bytes twice.
H5Handle untimed_properties(hid_t kind) {
  H5Handle properties{H5Pcreate(kind), H5Pclose, "create properties"};
  check_hdf5(H5Pset_obj_track_times(properties.id(), false), "leave out times");
  return properties;
}

/// HDF5 wants a size above 0, and readers cut trailing zeros off.
H5Handle text_type(std::size_t size) {
  H5Handle type{H5Tcopy(H5T_C_S1), H5Tclose, "create a text type"};
  check_hdf5(H5Tset_size(type.id(), std::max<std::size_t>(size, 1)), "size a text type");
  check_hdf5(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "pad a text type");
  check_hdf5(H5Tset_cset(type.id(), H5T_CSET_UTF8), "say that text is UTF-8");
  return type;
}

void write_attribute(hid_t object, char const* name, std::string_view text) {
  H5Handle const type = text_type(text.size());
  H5Handle const space{H5Screate(H5S_SCALAR), H5Sclose, "create a scalar"};
  H5Handle const attribute{
      H5Acreate2(object, name, type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
      "create an attribute"};
  check_hdf5(H5Awrite(attribute.id(), type.id(), std::string{text}.c_str()), "write an attribute");
}

void write_attribute(hid_t object, char const* name, std::int64_t value) {
  H5Handle const space{H5Screate(H5S_SCALAR), H5Sclose, "create a scalar"};
  H5Handle const attribute{
      H5Acreate2(object, name, H5T_STD_I64LE, space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
      "create an attribute"};
  check_hdf5(H5Awrite(attribute.id(), H5T_NATIVE_INT64, &value), "write an attribute");
}

void write_names(hid_t group, char const* name, std::vector<std::string> const& names) {
  std::size_t longest = 1;
  for (std::string const& entry : names) longest = std::max(longest, entry.size());
  std::string block(longest * names.size(), '\0');
  for (std::size_t i = 0; i < names.size(); ++i) names[i].copy(&block[i * longest], longest);
  H5Handle const type = text_type(longest);
  hsize_t const rows = names.size();
  H5Handle const space{H5Screate_simple(1, &rows, nullptr), H5Sclose, "create a dataspace"};
  H5Handle const properties = untimed_properties(H5P_DATASET_CREATE);
  H5Handle const dataset{
      H5Dcreate2(group, name, type.id(), space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT),
      H5Dclose, "create a dataset"};
  check_hdf5(H5Dwrite(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, block.data()),
             "write a dataset");
}

void write_column(hid_t group, ColumnDescription const& description, TraceColumn const& column) {
  hsize_t const rows = column.size();
  hsize_t const chunk = std::clamp<hsize_t>(rows, 1, chunk_elements);
  H5Handle const space{H5Screate_simple(1, &rows, nullptr), H5Sclose, "create a dataspace"};
  H5Handle const properties = untimed_properties(H5P_DATASET_CREATE);
  check_hdf5(H5Pset_chunk(properties.id(), 1, &chunk), "cut a dataset into chunks");
  check_hdf5(H5Pset_shuffle(properties.id()), "shuffle a dataset");
  check_hdf5(H5Pset_deflate(properties.id(), deflate_level), "compress a dataset");
  check_hdf5(H5Pset_fill_time(properties.id(), H5D_FILL_TIME_NEVER), "leave a dataset unfilled");
  std::string const name{description.name};
  H5Handle const dataset{H5Dcreate2(group, name.c_str(), H5T_STD_I64LE, space.id(), H5P_DEFAULT,
                                    properties.id(), H5P_DEFAULT),
                         H5Dclose, "create a dataset"};
  write_attribute(dataset.id(), "unit", description.unit);
  if (rows == 0) return;
  check_hdf5(H5Dwrite(dataset.id(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, column.data()),
             "write a dataset");
}

H5Handle create_group(hid_t parent, char const* name) {
  H5Handle const properties = untimed_properties(H5P_GROUP_CREATE);
  return {H5Gcreate2(parent, name, H5P_DEFAULT, properties.id(), H5P_DEFAULT), H5Gclose,
          "create a group"};
}

}  // namespace

/// The HDF5 file, in memory: HDF5 1.10 crashes the program when a file on disk cannot be written to
/// its end, so the disk is left to OutputFile.
class TraceWriter::Image {
 public:
  Image() : file_{create()}, ranks_{create_group(file_.id(), "ranks")} {}

  hid_t file() const { return file_.id(); }
  hid_t ranks() const { return ranks_.id(); }

  /// The whole file; valid until the next change. (H5Fget_file_image() of HDF5 1.10 only tells the
  /// size: it writes into the superblock of its copy without mending its checksum.)
  std::span<char const> bytes() const {
    check_hdf5(H5Fflush(file_.id(), H5F_SCOPE_LOCAL), "complete the file");
    ssize_t const size = H5Fget_file_image(file_.id(), nullptr, 0);
    check_hdf5(size, "measure the file");
    void* handle = nullptr;
    check_hdf5(H5Fget_vfd_handle(file_.id(), H5P_DEFAULT, &handle), "find the file in memory");
    return {*static_cast<char const**>(handle), static_cast<std::size_t>(size)};
  }

 private:
  static H5Handle create() {
    silence_hdf5();
    H5Handle const access{H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "create properties"};
    check_hdf5(H5Pset_fapl_core(access.id(), image_increment, false), "keep the file in memory");
    // The format of HDF5 1.8: attributes above 64 KiB, and every reader of today reads it.
    check_hdf5(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V18, H5F_LIBVER_V18),
               "choose the format");
    H5Handle const properties = untimed_properties(H5P_FILE_CREATE);
    // HDF5 takes two files in memory of one name for the same; identifiers are never used twice.
    std::string const name = "/dev/null/" + std::to_string(access.id());
    return {H5Fcreate(name.c_str(), H5F_ACC_TRUNC, properties.id(), access.id()), H5Fclose,
            "create a file in memory"};
  }

  H5Handle file_;
  H5Handle ranks_;
};

TraceWriter::TraceWriter(std::filesystem::path const& path,
                         TraceMeta const& meta,
                         TraceNames const& names)
    : path_{path}, output_{std::make_unique<OutputFile>(path)} {
  try {
    image_ = std::make_unique<Image>();
    hid_t const root = image_->file();
    write_attribute(root, "schema", trace_schema);
    write_attribute(root, "clock", name_of(meta.clock));
    for (MetaAttribute const& attribute : meta_attributes) {
      write_attribute(root, attribute.name, meta.*attribute.text);
    }
    H5Handle const group = create_group(root, "names");
    for (NamesDataset const& dataset : names_datasets) {
      write_names(group.id(), dataset.name, names.*dataset.names);
    }
  } catch (Hdf5Error const& error) {
    throw OutputError{path_, error.what()};
  }
}

TraceWriter::~TraceWriter() = default;

void TraceWriter::write(RankTrace const& rank) {
  assert(image_ && "nothing can be added to a finished file");
  try {
    H5Handle const group = create_group(image_->ranks(), std::to_string(rank.rank).c_str());
    write_attribute(group.id(), "stage", std::int64_t{rank.stage});
    H5Handle const ops = create_group(group.id(), "ops");
    for (OpColumn const& column : op_columns) {
      write_column(ops.id(), column, rank.ops.*column.column);
    }
    H5Handle const memory = create_group(group.id(), "memory");
    write_column(memory.id(), {"time", "ps"}, rank.memory.time);
    for (std::size_t i = 0; i < rank.memory.bytes.size(); ++i) {
      write_column(memory.id(), {name_of(static_cast<Category>(i)), "byte"}, rank.memory.bytes[i]);
    }
  } catch (Hdf5Error const& error) {
    throw OutputError{path_, error.what()};
  }
}

void TraceWriter::finish() {
  assert(image_ && "a file is finished once");
  try {
    std::span<char const> const bytes = image_->bytes();
    output_->write({bytes.data(), bytes.size()});
  } catch (Hdf5Error const& error) {
    throw OutputError{path_, error.what()};
  }
  image_.reset();
  output_->finish();
}

void write_trace(std::filesystem::path const& path, Trace const& trace) {
  TraceWriter writer{path, trace.meta, trace.names};
  for (RankTrace const& rank : trace.ranks) writer.write(rank);
  writer.finish();
}

}  // namespace stagecraft
