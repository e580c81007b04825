#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/host/file_error.hpp"
#include "libsim/program/tensor.hpp"
#include "libsim/units/enum_names.hpp"

namespace stagecraft {

/// A trace that cannot be read.
class TraceFileError : public InputError {
 public:
  /// The message is `file: problem`.
  TraceFileError(std::string const& file, std::string const& problem)
      : InputError{file + ": " + problem} {}
};

/// An intact HDF5 file that is not a trace: without a schema, or with another one.
class ForeignFileError : public TraceFileError {
 public:
  using TraceFileError::TraceFileError;
};

/// The clock of the times of a trace.
enum class TraceClock : std::uint8_t {
  simulated,     ///< the times of a cost model
  wall,          ///< a real clock
  virtual_time,  ///< executed ops, modelled communication; written as "virtual"
  solo,          ///< one rank alone, with modelled communication
};

template <>
struct EnumNames<TraceClock> {
  static constexpr std::array<std::pair<TraceClock, std::string_view>, 4> all{
      {{TraceClock::simulated, "simulated"},
       {TraceClock::wall, "wall"},
       {TraceClock::virtual_time, "virtual"},
       {TraceClock::solo, "solo"}}};
};

/// The origin of a trace.
struct TraceMeta {
  std::string program_version;
  std::string command_line;
  std::string config;  ///< effective configuration, YAML
  std::string plan;    ///< fingerprint of the TrainingPlan
  std::string device;  ///< the system that was simulated, or the device that executed
  TraceClock clock = TraceClock::simulated;

  friend bool operator==(TraceMeta const&, TraceMeta const&) = default;
};

/// The names that the columns `op`, `phase` and `stream` index.
struct TraceNames {
  std::vector<std::string> op;
  std::vector<std::string> phase;
  std::vector<std::string> stream;

  friend bool operator==(TraceNames const&, TraceNames const&) = default;
};

using TraceColumn = std::vector<std::int64_t>;

/// A column in a file: its name and its unit.
struct ColumnDescription {
  std::string_view name;
  std::string_view unit;
};

/// What ran on one rank, one row per op, in issue order. All columns have the same length.
struct OpColumns {
  TraceColumn start;       ///< ps since the start of the iteration
  TraceColumn duration;    ///< ps
  TraceColumn op;          ///< into TraceNames::op
  TraceColumn phase;       ///< into TraceNames::phase
  TraceColumn stream;      ///< into TraceNames::stream
  TraceColumn layer;       ///< counted over the whole model; -1 if it does not apply
  TraceColumn microbatch;  ///< counted in the replica; -1 if it does not apply
  TraceColumn chunk;       ///< counted on the stage; -1 if it does not apply
  TraceColumn bytes;       ///< kernels: moved to and from device memory; communication: payload
  TraceColumn flops;       ///< matrix products

  std::size_t rows() const { return start.size(); }
  void resize(std::size_t rows);
  friend bool operator==(OpColumns const&, OpColumns const&) = default;
};

/// The name of a column of OpColumns in a file, and its member.
struct OpColumn : ColumnDescription {
  TraceColumn OpColumns::*column = nullptr;
};
inline constexpr std::array<OpColumn, 10> op_columns{
    {{{"start", "ps"}, &OpColumns::start},
     {{"duration", "ps"}, &OpColumns::duration},
     {{"op", "index into /names/op"}, &OpColumns::op},
     {{"phase", "index into /names/phase"}, &OpColumns::phase},
     {{"stream", "index into /names/stream"}, &OpColumns::stream},
     {{"layer", "number"}, &OpColumns::layer},
     {{"microbatch", "number"}, &OpColumns::microbatch},
     {{"chunk", "number"}, &OpColumns::chunk},
     {{"bytes", "byte"}, &OpColumns::bytes},
     {{"flops", "FLOP"}, &OpColumns::flops}}};

/// The memory of one rank, one row after each change, in issue order; times never decrease. A row
/// with the same time as the next row is an intermediate state.
struct MemoryColumns {
  TraceColumn time;                               ///< ps since the start of the iteration
  std::array<TraceColumn, category_count> bytes;  ///< by Category
  /// What an allocator has reserved from the device for these buffers; empty if none was asked.
  TraceColumn reserved;

  std::size_t rows() const { return time.size(); }
  void resize(std::size_t rows);
  TraceColumn& of(Category category) { return bytes[static_cast<std::size_t>(category)]; }
  TraceColumn const& of(Category category) const {
    return bytes[static_cast<std::size_t>(category)];
  }
  friend bool operator==(MemoryColumns const&, MemoryColumns const&) = default;
};

/// One rank of a trace.
///
/// A simulated trace has one rank per pipeline stage, which represents all tensor and data ranks
/// of it: there `rank` is the stage. An executed trace numbers the ranks of the whole job.
struct RankTrace {
  std::int32_t rank = 0;
  std::int32_t stage = 0;
  OpColumns ops;
  MemoryColumns memory;

  friend bool operator==(RankTrace const&, RankTrace const&) = default;
};

/// What happened in one iteration of a plan. The simulator and the executor both return it.
struct Trace {
  TraceMeta meta;
  TraceNames names;
  std::vector<RankTrace> ranks;  ///< by rank number

  friend bool operator==(Trace const&, Trace const&) = default;
};

}  // namespace stagecraft
