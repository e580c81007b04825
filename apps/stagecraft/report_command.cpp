#include <algorithm>
#include <filesystem>
#include <iostream>
#include <list>

#include "apps/program/command_line.hpp"
#include "apps/program/file_count.hpp"
#include "apps/program/output_paths.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/commands.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/page/report_page.hpp"
#include "libsim/report/comparison.hpp"
#include "libsim/report/comparison_text.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

namespace {

constexpr std::size_t most_traces = 8;

std::string title_of(CommandLine const& line, std::vector<std::string> const& files) {
  if (line.has("title")) return line.value("title");
  std::string title;
  for (std::string const& file : files) {
    title += (title.empty() ? "" : " and ") + std::filesystem::path{file}.stem().string();
  }
  return title;
}

/// How each trace differs from the first, A, if they have a stage in common.
std::string differences(std::list<TraceReader> const& readers) {
  std::string text;
  char letter = 'A';
  for (auto other = std::next(readers.begin()); other != readers.end(); ++other) {
    std::string const name(1, ++letter);
    if (readers.size() > 2) text += (text.empty() ? "A and " : " A and ") + name + ": ";
    try {
      text += explain_difference(compare(readers.front(), *other, PlanCheck::any_plan), name);
    } catch (TraceFileError const&) {
      text += "the two have no stage in common.";
    }
  }
  return text;
}

int run_report(CommandLine const& line) {
  std::vector<std::string> const& files = line.arguments();
  if (files.empty() || files.size() > most_traces) {
    throw CommandLineError{"", file_count(files.size()),
                           "one to " + std::to_string(most_traces) + " traces"};
  }
  std::string const path = line.needed("output", file_to_write);
  check_output("--output", path, OutputKind::page, {files.begin(), files.end()});
  std::list<TraceReader> readers;
  std::vector<PageTrace> traces;
  for (std::string const& file : files) {
    TraceReader const& reader = readers.emplace_back(file);
    if (reader.ranks().empty()) throw TraceFileError{file, "has no ranks"};
  }
  OutputFile output{path};
  for (TraceReader const& reader : readers) {
    std::vector<std::int32_t> ranks;
    if (line.has("ranks")) {
      ranks = read_trace_ranks(line.value("ranks"), reader);
    }
    traces.push_back(read_page_trace(reader, ranks));
  }
  output.write(report_page(traces, title_of(line, files), differences(readers)));
  output.finish();
  return 0;
}

}  // namespace

Command report_command() {
  return {.name = "report",
          .summary = "traces as one HTML page: timeline, memory over time, summary",
          .introduction = R"(usage: stagecraft report TRACE.h5... -o REPORT.html [options]

Makes one HTML page that opens without network: what each stage does when, what it holds in
memory, and a summary in plain words. Several traces (predicted and executed) stand side by
side and zoom together. Of a stage with several ranks the fullest is drawn.
)",
          .examples = R"(  stagecraft report 175b.h5 -o 175b.html
  stagecraft report predicted.h5 executed.h5 -o both.html --title 'GPT-3 175B on 64 GPUs'
  stagecraft report 1t-op.h5 --ranks 0,63 -o ends.html
)",
          .options = {{.name = "output",
                       .letter = 'o',
                       .value = Value::file("FILE"),
                       .description = "the page to write"},
                      {.name = "title",
                       .value = Value::text("TEXT"),
                       .description = "title of the page"},
                      {.name = "ranks",
                       .value = Value::text("R,R,..."),
                       .description = "draw these ranks of each trace"}},
          .argument = Value::file("TRACE.h5"),
          .run = run_report};
}

}  // namespace stagecraft
