#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "apps/program/command_line.hpp"
#include "apps/program/file_count.hpp"
#include "apps/program/output_paths.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/commands.hpp"
#include "libsim/config/did_you_mean.hpp"
#include "libsim/export/chakra.hpp"
#include "libsim/export/chrome_trace.hpp"
#include "libsim/export/kineto.hpp"
#include "libsim/export/memory_snapshot.hpp"
#include "libsim/export/trace_table.hpp"

namespace stagecraft {

namespace {

using RankList = std::vector<std::int32_t>;
using Writer = void (*)(TraceReader const& trace, RankList const& ranks, std::string const& path);

/// Writes a format into one file.
template <void (*write)(TraceReader const&, RankList const&, OutputFile&)>
void write_file(TraceReader const& trace, RankList const& ranks, std::string const& path) {
  OutputFile output{path};
  write(trace, ranks, output);
  output.finish();
}

/// Writes a format into a file per rank.
template <void (*write)(TraceReader const&, RankList const&, std::filesystem::path const&)>
void write_files(TraceReader const& trace, RankList const& ranks, std::string const& path) {
  write(trace, ranks, path);
}

struct Format {
  std::string_view name;
  Writer write;
  Writer write_memory;  ///< null: the format has no --memory
  OutputKind kind;      ///< of its file, uncompressed
};

constexpr std::array formats{
    Format{"chrome", write_file<write_chrome_trace>, nullptr, OutputKind::json},
    Format{"csv", write_file<write_op_table>, write_file<write_memory_table>, OutputKind::csv},
    Format{"memory-snapshot", write_file<write_memory_snapshot>, nullptr, OutputKind::pickle},
    Format{"chakra", write_files<write_chakra>, nullptr, OutputKind::json},
    Format{"kineto", write_files<write_kineto>, nullptr, OutputKind::json},
};

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  names.reserve(formats.size());
  for (Format const& format : formats) names.emplace_back(format.name);
  return names;
}

Format const& read_format(CommandLine const& line) {
  std::string const& word = line.needed("format", joined(format_names()));
  return *std::find_if(formats.begin(), formats.end(),
                       [&](Format const& format) { return format.name == word; });
}

int run_export(CommandLine const& line) {
  std::vector<std::string> const& files = line.arguments();
  if (files.size() != 1) {
    throw CommandLineError{"", file_count(files.size()), "one trace"};
  }
  Format const& format = read_format(line);
  Writer const write = line.has("memory") ? format.write_memory : format.write;
  if (write == nullptr) {
    throw CommandLineError{"--memory", "with --format " + std::string{format.name}, "with csv"};
  }
  std::string const path = line.needed("output", file_to_write);
  TraceReader const trace{files[0]};
  bool const is_compressed = std::filesystem::path{path}.extension() == ".gz";
  check_output("--output", path, is_compressed ? OutputKind::gzip : format.kind, {files[0]});
  std::vector<std::int32_t> const ranks =
      line.has("ranks") ? read_trace_ranks(line.value("ranks"), trace) : trace.ranks();
  write(trace, ranks, path);
  return 0;
}

}  // namespace

Command export_command() {
  return {.name = "export",
          .summary = "a trace in the format of another program",
          .introduction = R"(usage: stagecraft export TRACE.h5 --format FORMAT -o FILE [options]

Writes a trace in a format that other programs read:
  chrome  trace events for Perfetto (ui.perfetto.dev) and chrome://tracing: one process per stage,
          a thread a stream, memory counters, an arrow a message
  csv     one row per op (with --memory: one per state of memory), names in place
  memory-snapshot  a snapshot of PyTorch's allocator, for pytorch.org/memory_viz
  chakra  execution traces of MLCommons Chakra for ASTRA-sim: FILE.<rank>.et for each rank of
          the job, FILE.groups.json, and the machine: FILE.network.yml, FILE.system.json
  kineto  as PyTorch's profiler writes them, for HTA and TensorBoard: FILE.<rank>.json.gz for
          each rank of the trace, which must have a row per op
A FILE that ends in .gz is compressed.
)",
          .examples = R"(  stagecraft export 175b.h5 --format chrome -o 175b.json.gz
  stagecraft export 175b.h5 --format csv -o ops.csv
  stagecraft export 175b.h5 --format csv --memory --ranks 0,7 -o memory.csv
  stagecraft export 175b-op.h5 --format memory-snapshot --ranks 0 -o 175b.pickle
  stagecraft export 175b-op.h5 --format chakra -o chakra/175b
  stagecraft export 175b-op.h5 --format kineto -o kineto/175b
)",
          .options = {{.name = "format",
                       .value = Value::word(format_names()),
                       .description = "the format"},
                      {.name = "output",
                       .letter = 'o',
                       .value = Value::file("FILE"),
                       .description = "the file or folder to write"},
                      {.name = "ranks",
                       .value = Value::text("R,R,..."),
                       .description = "export only these ranks of the trace"},
                      {.name = "memory", .description = "csv: write memory instead of ops"}},
          .argument = Value::file("TRACE.h5"),
          .run = run_export};
}

}  // namespace stagecraft
