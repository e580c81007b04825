#include "libsim/export/kineto.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "libsim/export/job_groups.hpp"
#include "libsim/export/json_text.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/trace/chunk_slices.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_names.hpp"

namespace stagecraft {
namespace {

/// The process that a profiler's file gives the host; the device is process 0.
constexpr std::int64_t host_process = 1000;

std::string nccl_kernel(OpKind kind) {
  return "ncclDevKernel_" + std::string{collective_names(kind).nccl_kernel};
}

/// Writes the events of one rank. It owns the text that the file does not have yet; numbers of
/// groups are shared with the other ranks.
class KinetoWriter {
 public:
  KinetoWriter(TraceReader const& trace,
               TrainingPlan const& plan,
               std::map<std::string, CollectiveOp> const& collectives,
               GroupNumbers& groups,
               OutputFile& output)
      : names_{trace.names()},
        known_{trace.names()},
        ranks_{plan.groups.ranks()},
        groups_{groups},
        output_{output} {
    for (std::string const& name : names_.op) {
      auto const found = collectives.find(name);
      collective_.push_back(found == collectives.end() ? std::nullopt
                                                       : std::optional{found->second});
    }
    device_ = trace.meta().device;
  }

  /// `number`: the rank in the job.
  void write(RankTrace const& rank, std::int32_t number) {
    line_ = R"({"schemaVersion":1,"displayTimeUnit":"ms","deviceProperties":[{"id":0,"name":)" +
            json_string(device_) + R"(}],"distributedInfo": {"backend": "nccl", "rank": )" +
            std::to_string(number) + R"(, "world_size": )" + std::to_string(ranks_) +
            "},\n\"traceEvents\":[";
    add_step(rank.ops);
    for (std::size_t stream = 0; stream < names_.stream.size(); ++stream) {
      line_ += R"(,{"ph":"M","name":"thread_name","pid":0,"tid":)" + std::to_string(stream) +
               R"(,"args":{"name":)" +
               json_string("stream " + std::to_string(stream) + " " + names_.stream[stream]) +
               "}}\n";
    }
    for (ChunkSlice const& chunk : chunk_slices(rank.ops, known_)) add_chunk(rank.ops, chunk);
    for (std::size_t row = 0; row < rank.ops.rows(); ++row) add_kernel(rank.ops, row, number);
    line_ += "]}\n";
    output_.write(line_);
  }

 private:
  void begin_event(std::string_view category,
                   std::string const& name,
                   std::int64_t start,
                   std::int64_t end) {
    line_ += R"({"ph":"X","cat":")";
    line_ += category;
    line_ += R"(","name":)" + json_string(name) + ",\"ts\":";
    append_microseconds(line_, nanoseconds_of(start));
    line_ += ",\"dur\":";
    append_microseconds(line_, nanoseconds_of(end) - nanoseconds_of(start));
  }

  void end_event() {
    line_ += "}}\n";
    if (line_.size() < std::size_t{1} << 16) return;
    output_.write(line_);
    line_.clear();
  }

  void add_place(std::int64_t process, std::int64_t thread) {
    line_ += ",\"pid\":";
    append_number(line_, process);
    line_ += ",\"tid\":";
    append_number(line_, thread);
  }

  void add_argument(std::string_view name, std::int64_t value) {
    line_ += ",\"";
    line_ += name;
    line_ += "\":";
    append_number(line_, value);
  }

  void add_step(OpColumns const& ops) {
    std::int64_t end = 0;
    for (std::size_t row = 0; row < ops.rows(); ++row) {
      end = std::max(end, ops.start[row] + ops.duration[row]);
    }
    begin_event("user_annotation", "ProfilerStep#1", 0, end);
    add_place(host_process, host_process);
    line_ += R"(,"args":{"External id":0)";
    end_event();
  }

  /// The arguments that every event of the device has.
  void add_device(std::int64_t stream, std::int64_t number) {
    add_place(0, stream);
    line_ += R"(,"args":{"device":0)";
    add_argument("stream", stream);
    add_argument("correlation", number);
    add_argument("External id", number);
  }

  void add_chunk(OpColumns const& ops, ChunkSlice const& chunk) {
    std::string const name =
        std::string{name_of(chunk.is_backward ? TracePhase::backward : TracePhase::forward)} +
        " microbatch " + std::to_string(chunk.microbatch) + " chunk " + std::to_string(chunk.chunk);
    line_ += ',';
    begin_event("gpu_user_annotation", name, chunk.start, chunk.end);
    add_device(ops.stream[chunk.first], static_cast<std::int64_t>(chunk.first) + 1);
    end_event();
  }

  void add_kernel(OpColumns const& ops, std::size_t row, std::int32_t number) {
    auto const op = static_cast<std::size_t>(ops.op[row]);
    std::string const& name = names_.op[op];
    if (name.ends_with(".wait") || ops.duration[row] == 0) return;  // not kernels
    auto const stream = known_.stream(ops.stream[row]);
    auto const& collective = collective_[op];
    std::string kernel = name;
    if (collective) kernel = nccl_kernel(collective->kind) + " " + name;
    if (stream && kind_of(*stream) == StreamKind::messages)
      kernel = "ncclDevKernel_SendRecv " + name;
    line_ += ',';
    begin_event("kernel", kernel, ops.start[row], ops.start[row] + ops.duration[row]);
    add_device(ops.stream[row], static_cast<std::int64_t>(row) + 1);
    if (collective) add_collective(*collective, number);
    line_ += R"(,"phase":)" + json_string(names_.phase[static_cast<std::size_t>(ops.phase[row])]);
    if (ops.layer[row] >= 0) add_argument("layer", ops.layer[row]);
    if (ops.microbatch[row] >= 0) add_argument("microbatch", ops.microbatch[row]);
    if (ops.chunk[row] >= 0) add_argument("chunk", ops.chunk[row]);
    if (ops.bytes[row] != 0) add_argument("bytes", ops.bytes[row]);
    if (ops.flops[row] != 0) add_argument("flops", ops.flops[row]);
    end_event();
  }

  void add_collective(CollectiveOp const& collective, std::int32_t number) {
    std::int32_t const group = groups_.number_of(collective.group, RankId{number});
    std::size_t const size = groups_.members()[static_cast<std::size_t>(group)].size();
    line_ += R"(,"Collective name":")";
    line_ += collective_names(collective.kind).pytorch;
    line_ += '"';
    add_argument("Group size", static_cast<std::int64_t>(size));
    line_ += R"(,"Process Group Name":")" + std::to_string(group) + "\"";
  }

  TraceNames const& names_;
  KnownNames known_;
  int ranks_;
  GroupNumbers& groups_;
  OutputFile& output_;
  std::vector<std::optional<CollectiveOp>> collective_;  ///< by name of an op
  std::string device_;
  std::string line_;
};

void refuse_chunks(TraceReader const& trace, RankTrace const& rank, KnownNames const& names) {
  bool const has_chunk =
      std::ranges::any_of(rank.ops.op, [&](std::int64_t op) { return names.is_whole_chunk(op); });
  if (!has_chunk) return;
  throw TraceFileError{trace.name(),
                       "found rows of whole chunks; accepted: one row per op (--detail op)"};
}

}  // namespace

void write_kineto(TraceReader const& trace,
                  std::vector<std::int32_t> const& ranks,
                  std::filesystem::path const& prefix) {
  TrainingPlan const plan = plan_of_trace(trace);
  auto const collectives = collectives_of(plan);
  KnownNames const names{trace.names()};
  GroupNumbers groups{plan.groups};
  FileSet files;
  for (std::int32_t const number : ranks) {
    RankTrace const rank = trace.read(number);
    refuse_chunks(trace, rank, names);
    std::int32_t const in_job = job_ranks_of(trace, rank, plan.groups).first;
    files.write(with_ending(prefix, "." + std::to_string(in_job) + ".json.gz"),
                [&](OutputFile& output) {
                  KinetoWriter{trace, plan, collectives, groups, output}.write(rank, in_job);
                });
  }
  files.keep();
}

}  // namespace stagecraft
