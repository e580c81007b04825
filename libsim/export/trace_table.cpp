#include "libsim/export/trace_table.hpp"

#include <string>

#include "libsim/config/csv_field.hpp"
#include "libsim/export/json_text.hpp"

namespace stagecraft {

namespace {

std::vector<std::string> fields_of(std::vector<std::string> const& names) {
  std::vector<std::string> fields;
  fields.reserve(names.size());
  for (std::string const& name : names) fields.push_back(csv_field(name));
  return fields;
}

void append_name(std::string& line, std::vector<std::string> const& names, std::int64_t index) {
  line += ',';
  line += names[static_cast<std::size_t>(index)];
}

void append_cell(std::string& line, std::int64_t number) {
  line += ',';
  append_number(line, number);
}

/// Appends a number, or nothing if it is negative, which means that it does not apply.
void append_place(std::string& line, std::int64_t number) {
  line += ',';
  if (number >= 0) append_number(line, number);
}

std::string rank_cells(RankTrace const& rank) {
  return std::to_string(rank.rank) + ',' + std::to_string(rank.stage);
}

}  // namespace

void write_op_table(TraceReader const& trace,
                    std::vector<std::int32_t> const& ranks,
                    OutputFile& output) {
  std::vector<std::string> const op = fields_of(trace.names().op);
  std::vector<std::string> const phase = fields_of(trace.names().phase);
  std::vector<std::string> const stream = fields_of(trace.names().stream);
  output.write(
      "rank,stage,start_ps,duration_ps,op,phase,stream,layer,microbatch,chunk,bytes,flops\n");
  std::string line;
  for (std::int32_t const number : ranks) {
    RankTrace const rank = trace.read(number);
    OpColumns const& ops = rank.ops;
    std::string const who = rank_cells(rank);
    for (std::size_t row = 0; row < ops.rows(); ++row) {
      line = who;
      append_cell(line, ops.start[row]);
      append_cell(line, ops.duration[row]);
      append_name(line, op, ops.op[row]);
      append_name(line, phase, ops.phase[row]);
      append_name(line, stream, ops.stream[row]);
      append_place(line, ops.layer[row]);
      append_place(line, ops.microbatch[row]);
      append_place(line, ops.chunk[row]);
      append_cell(line, ops.bytes[row]);
      append_cell(line, ops.flops[row]);
      line += '\n';
      output.write(line);
    }
  }
}

void write_memory_table(TraceReader const& trace,
                        std::vector<std::int32_t> const& ranks,
                        OutputFile& output) {
  std::string line = "rank,stage,time_ps";
  for (CategoryRow const& row : categories) (line += ',') += row.name;
  output.write(line + ",reserved\n");
  for (std::int32_t const number : ranks) {
    RankTrace const rank = trace.read(number);
    std::string const who = rank_cells(rank);
    for (std::size_t row = 0; row < rank.memory.rows(); ++row) {
      line = who;
      append_cell(line, rank.memory.time[row]);
      for (TraceColumn const& column : rank.memory.bytes) append_cell(line, column[row]);
      if (rank.memory.reserved.empty()) {
        line += ',';  // no allocator was asked
      } else {
        append_cell(line, rank.memory.reserved[row]);
      }
      line += '\n';
      output.write(line);
    }
  }
}

}  // namespace stagecraft
