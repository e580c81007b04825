#include "libsim/export/chrome_trace.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "libsim/export/json_text.hpp"
#include "libsim/export/transfer_pairs.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/trace/chunk_slices.hpp"
#include "libsim/trace/trace_names.hpp"

namespace stagecraft {

namespace {

/// The first number of processes and threads: Perfetto takes thread 0 for the machine's idle
/// thread.
constexpr std::int64_t first_number = 1;

/// The names of a trace as JSON strings, made once.
struct QuotedNames {
  explicit QuotedNames(TraceNames const& names) {
    for (std::string const& name : names.op) op.push_back(json_string(name));
    for (std::string const& name : names.phase) phase.push_back(json_string(name));
  }
  std::vector<std::string> op;
  std::vector<std::string> phase;
};

std::string_view at(std::vector<std::string> const& names, std::int64_t index) {
  return names[static_cast<std::size_t>(index)];
}

/// A slice before it is written: a chunk, or a row of its own.
struct Slice {
  std::int64_t start = 0;  ///< ns
  std::int64_t end = 0;    ///< ns
  std::int64_t stream = 0;
  std::size_t row = 0;                ///< the row; of a chunk its first
  ChunkSlice const* chunk = nullptr;  ///< set if the slice is a whole chunk

  /// By thread and time; a slice comes before those that it contains.
  friend bool operator<(Slice const& a, Slice const& b) {
    if (a.stream != b.stream) return a.stream < b.stream;
    if (a.start != b.start) return a.start < b.start;
    if (a.end != b.end) return a.end > b.end;
    return (a.chunk != nullptr) > (b.chunk != nullptr);
  }
};

/// Writes events one after another, separated by commas. It owns the text that the file does not
/// have yet, which is complete events and is flushed at 64 KiB.
class EventWriter {
 public:
  EventWriter(TraceReader const& trace, OutputFile& output)
      : trace_{trace}, names_{trace.names()}, quoted_{trace.names()}, output_{output} {
    TraceMeta const& meta = trace.meta();
    line_ = R"({"displayTimeUnit":"ms","otherData":{"schema":")" + std::string{trace_schema} + '"';
    add_text("program_version", meta.program_version);
    add_text("command_line", meta.command_line);
    add_text("plan", meta.plan);
    add_text("device", meta.device);
    add_text("clock", name_of(meta.clock));
    line_ += "},\n\"traceEvents\":[";
  }

  void add_rank(RankTrace const& rank, std::int64_t position) {
    pid_ = rank.rank;
    add_metadata("process_name", -1, R"("name":)" + json_string(title_of(rank)));
    add_metadata("process_sort_index", -1, "\"sort_index\":" + std::to_string(position));
    for (std::int64_t const stream :
         std::set<std::int64_t>{rank.ops.stream.begin(), rank.ops.stream.end()}) {
      std::string const& name = trace_.names().stream[static_cast<std::size_t>(stream)];
      add_metadata("thread_name", stream, R"("name":)" + json_string(name));
      add_metadata("thread_sort_index", stream, "\"sort_index\":" + std::to_string(stream));
    }
    add_slices(rank.ops);
    add_memory(rank.memory);
  }

  void add_arrows(std::vector<MessagePair> const& pairs) {
    std::int64_t id = 0;
    for (MessagePair const& pair : pairs) {
      std::int64_t const sent = nanoseconds_of(pair.send.start);
      // An arrow ends inside the receive, and not before the arrow begins.
      std::int64_t const first = nanoseconds_of(pair.receive.start);
      std::int64_t const last = std::max(first, nanoseconds_of(pair.receive.end) - 1);
      add_arrow_end("\"s\"", ++id, pair.send, sent);
      add_arrow_end(R"("f","bp":"e")", id, pair.receive, std::clamp(sent, first, last));
    }
  }

  void finish() {
    line_ += "\n]}\n";
    flush();
  }

 private:
  void add_text(std::string_view key, std::string_view text) {
    line_ += ",\"";
    line_ += key;
    line_ += "\":" + json_string(text);
  }

  void begin_event(std::string_view kind) {
    line_ += is_first_ ? "\n{\"ph\":" : ",\n{\"ph\":";
    is_first_ = false;
    line_ += kind;
    line_ += ",\"pid\":";
    append_number(line_, pid_ + first_number);
  }

  void end_event() {
    line_ += '}';
    if (line_.size() > std::size_t{1} << 16) flush();
  }

  void flush() {
    output_.write(line_);
    line_.clear();
  }

  void add_field(std::string_view name, std::int64_t value) {
    line_ += name;
    append_number(line_, value);
  }

  /// A `stream` below 0 means the process.
  void add_metadata(std::string_view what, std::int64_t stream, std::string const& arguments) {
    begin_event("\"M\"");
    if (stream >= 0) add_field(",\"tid\":", stream + first_number);
    line_ += ",\"name\":\"";
    line_ += what;
    line_ += "\",\"args\":{" + arguments + "}";
    end_event();
  }

  void add_slices(OpColumns const& ops) {
    std::vector<ChunkSlice> const chunks = chunk_slices(ops, names_);
    std::vector<Slice> slices;
    slices.reserve(ops.rows() + chunks.size());
    for (ChunkSlice const& chunk : chunks) {
      slices.push_back({.start = nanoseconds_of(chunk.start),
                        .end = nanoseconds_of(chunk.end),
                        .stream = ops.stream[chunk.first],
                        .row = chunk.first,
                        .chunk = &chunk});
    }
    for (std::size_t row = 0; row < ops.rows(); ++row) {
      // The row of a whole chunk is already its slice.
      if (names_.is_whole_chunk(ops.op[row]) && is_in_chunk(ops, row, names_)) continue;
      slices.push_back({.start = nanoseconds_of(ops.start[row]),
                        .end = nanoseconds_of(ops.start[row] + ops.duration[row]),
                        .stream = ops.stream[row],
                        .row = row});
    }
    std::sort(slices.begin(), slices.end());
    for (Slice const& slice : slices) add_slice(ops, slice);
  }

  void add_slice(OpColumns const& ops, Slice const& slice) {
    begin_event("\"X\"");
    add_field(",\"tid\":", slice.stream + first_number);
    line_ += ",\"ts\":";
    append_microseconds(line_, slice.start);
    line_ += ",\"dur\":";
    append_microseconds(line_, slice.end - slice.start);
    line_ += ",\"name\":";
    if (slice.chunk != nullptr) {
      add_chunk(*slice.chunk);
    } else {
      add_op(ops, slice.row);
    }
    line_ += '}';
    end_event();
  }

  void add_chunk(ChunkSlice const& chunk) {
    std::string_view const pass =
        name_of(chunk.is_backward ? TracePhase::backward : TracePhase::forward);
    line_ += '"';
    line_ += pass;
    add_field(" microbatch ", chunk.microbatch);
    add_field(" chunk ", chunk.chunk);
    line_ += R"(","cat":")";
    line_ += pass;
    add_field(R"(","args":{"microbatch":)", chunk.microbatch);
    add_field(",\"chunk\":", chunk.chunk);
    if (chunk.first_layer >= 0) {
      add_field(",\"layers\":\"", chunk.first_layer);
      add_field("-", chunk.last_layer);
      line_ += '"';
    }
    add_field(",\"bytes\":", chunk.bytes);
    add_field(",\"flops\":", chunk.flops);
  }

  void add_op(OpColumns const& ops, std::size_t row) {
    line_ += at(quoted_.op, ops.op[row]);
    line_ += ",\"cat\":";
    line_ += at(quoted_.phase, ops.phase[row]);
    line_ += ",\"args\":{";
    std::size_t const before = line_.size();
    if (ops.layer[row] >= 0) add_field(",\"layer\":", ops.layer[row]);
    if (ops.microbatch[row] >= 0) add_field(",\"microbatch\":", ops.microbatch[row]);
    if (ops.chunk[row] >= 0) add_field(",\"chunk\":", ops.chunk[row]);
    if (ops.bytes[row] != 0) add_field(",\"bytes\":", ops.bytes[row]);
    if (ops.flops[row] != 0) add_field(",\"flops\":", ops.flops[row]);
    if (line_.size() > before) line_.erase(before, 1);  // the first comma
  }

  void add_memory(MemoryColumns const& memory) {
    for (std::size_t row = 0; row < memory.rows(); ++row) {
      begin_event("\"C\"");
      line_ += ",\"ts\":";
      append_microseconds(line_, nanoseconds_of(memory.time[row]));
      line_ += R"(,"name":"memory","args":{)";
      for (std::size_t i = 0; i < memory.bytes.size(); ++i) {
        line_ += i == 0 ? "\"" : ",\"";
        line_ += name_of(static_cast<Category>(i));
        add_field("\":", memory.bytes[i][row]);
      }
      line_ += '}';
      end_event();
    }
  }

  void add_arrow_end(std::string_view kind,
                     std::int64_t id,
                     MessageEnd const& end,
                     std::int64_t time) {
    pid_ = end.rank;
    begin_event(kind);
    add_field(",\"tid\":", end.stream + first_number);
    line_ += ",\"ts\":";
    append_microseconds(line_, time);
    add_field(",\"id\":", id);
    line_ += R"(,"name":"transfer","cat":"transfer")";
    end_event();
  }

  TraceReader const& trace_;
  KnownNames names_;
  QuotedNames quoted_;
  OutputFile& output_;
  std::string line_;
  std::int64_t pid_ = 0;
  bool is_first_ = true;
};

}  // namespace

void write_chrome_trace(TraceReader const& trace,
                        std::vector<std::int32_t> const& ranks,
                        OutputFile& output) {
  KnownNames const names{trace.names()};
  std::int32_t most_stage = 0;
  for (std::int32_t const rank : ranks) most_stage = std::max(most_stage, trace.stage_of(rank));
  TransferPairs messages{pipeline_shape_of(trace.meta(), most_stage), names};
  EventWriter writer{trace, output};
  std::int64_t position = 0;
  for (std::int32_t const number : ranks) {
    RankTrace const rank = trace.read(number);
    messages.add(rank);
    writer.add_rank(rank, position++);
  }
  writer.add_arrows(messages.pairs());
  writer.finish();
}

}  // namespace stagecraft
