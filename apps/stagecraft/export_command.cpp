#include "apps/stagecraft/export_command.hpp"

#include <algorithm>
#include <array>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "apps/stagecraft/command_line.hpp"
#include "apps/stagecraft/trace_options.hpp"
#include "libsim/config/did_you_mean.hpp"
#include "libsim/export/chakra.hpp"
#include "libsim/export/chrome_trace.hpp"
#include "libsim/export/memory_snapshot.hpp"
#include "libsim/export/trace_table.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

constexpr char const* introduction =
    "usage: stagecraft export TRACE.h5 --format FORMAT -o FILE [options]\n\n"
    "Writes a trace in a format that other programs read:\n"
    "  chrome  trace events for Perfetto (ui.perfetto.dev) and chrome://tracing: a process a "
    "stage,\n"
    "          a thread a stream, memory counters, an arrow a message\n"
    "  csv     a row an op (with --memory: a row a state of memory), names in place\n"
    "  memory-snapshot  a snapshot of PyTorch's allocator, for pytorch.org/memory_viz\n"
    "  chakra  execution traces of MLCommons Chakra for ASTRA-sim: FILE.<rank>.et for each rank "
    "of\n"
    "          the job, and FILE.groups.json\n\n";

constexpr char const* examples =
    "\nexamples:\n"
    "  stagecraft export 175b.h5 --format chrome -o 175b.json\n"
    "  stagecraft export 175b.h5 --format csv -o ops.csv\n"
    "  stagecraft export 175b.h5 --format csv --memory --ranks 0,7 -o memory.csv\n"
    "  stagecraft export 175b-op.h5 --format memory-snapshot --ranks 0 -o 175b.pickle\n"
    "  stagecraft export 175b-op.h5 --format chakra -o chakra/175b\n";

using RankList = std::vector<std::int32_t>;
using Writer = void (*)(TraceReader const& trace, RankList const& ranks, std::string const& path);

/// What a format writes into one file.
template <void (*write)(TraceReader const&, RankList const&, OutputFile&)>
void write_file(TraceReader const& trace, RankList const& ranks, std::string const& path) {
  OutputFile output{path};
  write(trace, ranks, output);
  output.finish();
}

void write_files_of_chakra(TraceReader const& trace,
                           RankList const& ranks,
                           std::string const& path) {
  write_chakra(trace, ranks, path);
}

struct Format {
  std::string_view name;
  Writer write;
  Writer write_memory;  ///< nullptr: --memory means nothing to it
};

constexpr std::array formats{
    Format{"chrome", write_file<write_chrome_trace>, nullptr},
    Format{"csv", write_file<write_op_table>, write_file<write_memory_table>},
    Format{"memory-snapshot", write_file<write_memory_snapshot>, nullptr},
    Format{"chakra", write_files_of_chakra, nullptr},
};

po::options_description describe_options() {
  po::options_description options{"options"};
  auto add = options.add_options();
  std::string names;
  for (Format const& format : formats) names.append(names.empty() ? "" : "|").append(format.name);
  add("format", po::value<std::string>()->value_name(names), "of which program");
  add("output,o", po::value<std::string>()->value_name("FILE"), "where to write");
  add("ranks", po::value<std::string>()->value_name("R,R,..."), "only these ranks of the trace");
  add("memory", "csv: memory instead of ops");
  add("help,h", "print this");
  return options;
}

Format const& read_format(po::variables_map const& values) {
  std::vector<std::string> names;
  names.reserve(formats.size());
  for (Format const& format : formats) names.emplace_back(format.name);
  std::string const word =
      one_of("--format", needed(values, "format", "--format", joined(names)), names);
  return *std::find_if(formats.begin(), formats.end(),
                       [&](Format const& format) { return format.name == word; });
}

}  // namespace

int export_command(std::vector<std::string> const& arguments) {
  po::options_description const options = describe_options();
  std::vector<std::string> files;
  po::variables_map const values = parse_options(arguments, options, files, "TRACE.h5");
  if (values.count("help") > 0) {
    std::cout << introduction << options << examples;
    return 0;
  }
  if (files.size() != 1) {
    throw CommandLineError{"found " + std::to_string(files.size()) + " files; accepted: one trace"};
  }
  Format const& format = read_format(values);
  Writer const write = values.count("memory") > 0 ? format.write_memory : format.write;
  if (write == nullptr) {
    throw CommandLineError{"--memory: found with --format " + std::string{format.name} +
                           "; accepted: with csv"};
  }
  std::string const path = needed(values, "output", "--output (-o)", file_to_write);
  TraceReader const trace{files[0]};
  refuse_same_file(path, files[0]);
  std::vector<std::int32_t> const ranks =
      values.count("ranks") > 0 ? read_trace_ranks(values["ranks"].as<std::string>(), trace)
                                : trace.ranks();
  write(trace, ranks, path);
  return 0;
}

}  // namespace stagecraft
