#include "libsim/trace/trace_reader.hpp"

#include <algorithm>
#include <optional>
#include <system_error>

#include "libsim/config/problem.hpp"
#include "libsim/hdf5/hdf5_handle.hpp"
#include "libsim/hdf5/hdf5_reader.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_schema.hpp"
#include "libsim/units/parse_number.hpp"

namespace stagecraft {

namespace {

/// The limit of the elements of all columns that are read together: 1 GiB.
constexpr std::int64_t most_elements = std::int64_t{1} << 27;
/// The limit of times and of sums of memory: the sum of two of them cannot overflow.
constexpr std::int64_t most = std::int64_t{1} << 62;
constexpr std::size_t most_attribute_bytes = std::size_t{16} << 20;
constexpr std::size_t most_ranks = 1'000'000;

TraceClock parse_clock(std::string const& word) {
  if (auto const clock = value_named<TraceClock>(word)) return *clock;
  throw Hdf5Error{"attribute clock: found '" + printable(word) +
                  "'; accepted: " + accepted_names<TraceClock>()};
}

void check_plan(std::string const& fingerprint) {
  bool const is_digest = fingerprint.size() == 64 &&
                         fingerprint.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (is_digest) return;
  throw Hdf5Error{"attribute plan: found '" + printable(fingerprint) +
                  "'; accepted: 64 hexadecimal digits"};
}

void check_equal_lengths(std::string const& where, std::size_t rows, std::size_t found) {
  if (found == rows) return;
  throw Hdf5Error{where + ": found " + std::to_string(found) +
                  " rows; accepted: " + std::to_string(rows) + ", as in the first column"};
}

/// \throws Hdf5Error  naming the first row that is not in [least, greatest].
void check_range(std::string const& where,
                 TraceColumn const& column,
                 std::int64_t least,
                 std::int64_t greatest) {
  auto const wrong = std::find_if(column.begin(), column.end(), [&](std::int64_t value) {
    return value < least || value > greatest;
  });
  if (wrong == column.end()) return;
  throw Hdf5Error{where + ", row " + std::to_string(wrong - column.begin()) + ": found " +
                  std::to_string(*wrong) + "; accepted: " + std::to_string(least) + " to " +
                  std::to_string(greatest)};
}

void check_index(std::string const& where,
                 TraceColumn const& column,
                 std::vector<std::string> const& names) {
  if (!column.empty() && names.empty()) throw Hdf5Error{where + ": there are no names for it"};
  check_range(where, column, 0, static_cast<std::int64_t>(names.size()) - 1);
}

void check_ops(std::string const& where, OpColumns const& ops, TraceNames const& names) {
  check_range(where + "/start", ops.start, 0, most / 2);
  check_range(where + "/duration", ops.duration, 0, most / 2);
  check_index(where + "/op", ops.op, names.op);
  check_index(where + "/phase", ops.phase, names.phase);
  check_index(where + "/stream", ops.stream, names.stream);
}

void check_memory(std::string const& where, MemoryColumns const& memory) {
  check_range(where + "/time", memory.time, 0, most);
  if (!std::is_sorted(memory.time.begin(), memory.time.end())) {
    throw Hdf5Error{where + "/time: found a time before that of the row above it"};
  }
  constexpr std::int64_t most_bytes = most / category_count / 2;
  for (std::size_t i = 0; i < memory.bytes.size(); ++i) {
    std::string column = where + "/";
    column += name_of(static_cast<Category>(i));
    check_range(column, memory.bytes[i], 0, most_bytes);
  }
  check_range(where + "/reserved", memory.reserved, 0, most_bytes);
}

/// The rank that the name of a link of /ranks is; nullopt if it is not a canonical number.
std::optional<std::int32_t> rank_number(std::string const& name) {
  auto const rank = parse_number<std::int32_t>(name);
  bool const is_canonical = rank && *rank >= 0 && std::to_string(*rank) == name;
  return is_canonical ? rank : std::nullopt;
}

}  // namespace

TraceReader::TraceReader(std::filesystem::path const& path) : name_{path.string()} {
  std::error_code error;
  auto const status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw TraceFileError{name_, "there is no such file"};
  if (!std::filesystem::is_regular_file(status)) throw TraceFileError{name_, "is not a file"};
  try {
    file_ = std::make_unique<Hdf5File>(Hdf5File::open(path));
    read_all_but_ranks();
  } catch (Hdf5Error const& problem) {
    bool const is_yaml = path.extension() == ".yaml" || path.extension() == ".yml";
    throw TraceFileError{name_, std::string{problem.what()} +
                                    (is_yaml ? " (stagecraft simulate RUN.yaml --trace F.h5 "
                                               "writes the trace of a run)"
                                             : "")};
  }
}

TraceReader::TraceReader(std::span<unsigned char const> image, std::string const& name)
    : name_{name} {
  try {
    file_ = std::make_unique<Hdf5File>(Hdf5File::open(image));
    read_all_but_ranks();
  } catch (Hdf5Error const& problem) {
    throw TraceFileError{name_, problem.what()};
  }
}

TraceReader::~TraceReader() = default;
TraceReader::TraceReader(TraceReader&&) noexcept = default;

void TraceReader::read_all_but_ranks() {
  Hdf5Group const root = file_->root();
  if (!root.has_attribute("schema")) {
    throw ForeignFileError{name_, "attribute schema: there is none"};
  }
  std::string const schema = root.text("schema", most_attribute_bytes);
  if (!is_version_of(schema, trace_schema)) {
    throw ForeignFileError{name_, "attribute schema: found '" + printable(schema) +
                                      "'; accepted: '" + std::string{trace_schema} + "'"};
  }
  if (schema != trace_schema) {
    throw Hdf5Error{"attribute schema: found '" + printable(schema) + "'; accepted: '" +
                    std::string{trace_schema} + "'"};
  }
  meta_.clock = parse_clock(root.text("clock", most_attribute_bytes));
  for (MetaAttribute const& attribute : meta_attributes) {
    meta_.*attribute.text = root.text(attribute.name, most_attribute_bytes);
  }
  check_plan(meta_.plan);
  Hdf5Group const names = root.group("names");
  for (NamesDataset const& dataset : names_datasets) {
    names_.*dataset.names = names.names(dataset.name);
  }
  for (std::string const& name : root.group("ranks").links(most_ranks)) {
    std::optional<std::int32_t> const rank = rank_number(name);
    if (!rank) {
      throw Hdf5Error{"/ranks: found '" + printable(name) + "'; accepted: rank numbers"};
    }
    ranks_.push_back(*rank);
  }
  std::sort(ranks_.begin(), ranks_.end());
}

std::int32_t TraceReader::stage_of(std::int32_t rank) const {
  try {
    return file_->root().group("ranks").group(std::to_string(rank)).number("stage");
  } catch (Hdf5Error const& problem) {
    throw TraceFileError{name_, problem.what()};
  }
}

RankTrace TraceReader::read(std::int32_t rank) const {
  std::int64_t budget = most_elements;
  return read(rank, budget);
}

RankTrace TraceReader::read(std::int32_t rank, std::int64_t& budget) const {
  try {
    RankTrace trace;
    trace.rank = rank;
    Hdf5Group const group = file_->root().group("ranks").group(std::to_string(rank));
    trace.stage = group.number("stage");
    Hdf5Group const ops = group.group("ops");
    for (OpColumn const& column : op_columns) {
      TraceColumn& values = trace.ops.*column.column;
      values = ops.column(column.name, budget);
      check_equal_lengths(ops.path() + "/" + std::string{column.name}, trace.ops.rows(),
                          values.size());
    }
    Hdf5Group const memory = group.group("memory");
    trace.memory.time = memory.column("time", budget);
    for (CategoryRow const& row : categories) {
      std::string const name{row.name};
      TraceColumn& bytes = trace.memory.of(row.category);
      bool const is_absent = row.kind == CategoryKind::units && !memory.has_link(name);
      bytes = is_absent ? TraceColumn(trace.memory.rows()) : memory.column(name, budget);
      check_equal_lengths(memory.path() + "/" + name, trace.memory.rows(), bytes.size());
    }
    if (group.has_link(allocator_group)) {
      Hdf5Group const allocator = group.group(allocator_group);
      trace.memory.reserved = allocator.column(reserved_column.name, budget);
      check_equal_lengths(allocator.path() + "/" + std::string{reserved_column.name},
                          trace.memory.rows(), trace.memory.reserved.size());
    }
    check_ops(ops.path(), trace.ops, names_);
    check_memory(memory.path(), trace.memory);
    return trace;
  } catch (Hdf5Error const& problem) {
    throw TraceFileError{name_, problem.what()};
  }
}

Trace TraceReader::read_all() const {
  Trace trace{.meta = meta_, .names = names_, .ranks = {}};
  std::int64_t budget = most_elements;
  for (std::int32_t const rank : ranks_) trace.ranks.push_back(read(rank, budget));
  return trace;
}

}  // namespace stagecraft
