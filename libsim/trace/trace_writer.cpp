#include "libsim/trace/trace_writer.hpp"

#include <cassert>
#include <span>
#include <string>
#include <vector>

#include "libsim/hdf5/hdf5_image.hpp"
#include "libsim/host/file_error.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/trace/trace_schema.hpp"

namespace stagecraft {

namespace {

void write_column(hid_t group, ColumnDescription const& description, TraceColumn const& column) {
  H5Handle const dataset =
      create_column(group, std::string{description.name}.c_str(), H5T_STD_I64LE, column.size(), 1);
  write_attribute(dataset.id(), "unit", description.unit);
  if (column.empty()) return;
  check_hdf5(H5Dwrite(dataset.id(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, column.data()),
             "write a dataset");
}

}  // namespace

class TraceWriter::Image {
 public:
  Image() : ranks_{create_group(file_.root(), "ranks")} {}

  hid_t file() const { return file_.root(); }
  hid_t ranks() const { return ranks_.id(); }
  std::span<char const> bytes() const { return file_.bytes(); }

 private:
  Hdf5Image file_;
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
    if (!rank.memory.reserved.empty()) {
      H5Handle const allocator = create_group(group.id(), allocator_group);
      write_column(allocator.id(), reserved_column, rank.memory.reserved);
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
