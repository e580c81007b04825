#include "apps/stagecraft/report_command.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <list>

#include "apps/stagecraft/command_line.hpp"
#include "apps/stagecraft/trace_options.hpp"
#include "libsim/page/report_page.hpp"
#include "libsim/report/comparison.hpp"
#include "libsim/report/comparison_text.hpp"
#include "libsim/trace/output_file.hpp"
#include "libsim/trace/trace_error.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

constexpr std::size_t most_traces = 8;

constexpr char const* introduction =
    "usage: stagecraft report TRACE.h5... -o REPORT.html [options]\n\n"
    "Makes one HTML page that opens without network: what each stage does when, what it holds in\n"
    "memory, and a summary in plain words. Several traces (predicted and executed) stand side by\n"
    "side and zoom together. Of a stage with several ranks the fullest is drawn.\n\n";

constexpr char const* examples =
    "\nexamples:\n"
    "  stagecraft report 175b.h5 -o 175b.html\n"
    "  stagecraft report predicted.h5 executed.h5 -o both.html --title 'GPT-3 175B on 64 GPUs'\n"
    "  stagecraft report 1t-op.h5 --ranks 0,63 -o ends.html\n";

po::options_description describe_options() {
  po::options_description options{"options"};
  auto add = options.add_options();
  add("output,o", po::value<std::string>()->value_name("FILE"), "where to write");
  add("title", po::value<std::string>()->value_name("TEXT"), "of the page");
  add("ranks", po::value<std::string>()->value_name("R,R,..."), "draw these ranks of each trace");
  add("help,h", "print this");
  return options;
}

std::string title_of(po::variables_map const& values, std::vector<std::string> const& files) {
  if (values.count("title") > 0) return values["title"].as<std::string>();
  std::string title;
  for (std::string const& file : files) {
    title += (title.empty() ? "" : " and ") + std::filesystem::path{file}.stem().string();
  }
  return title;
}

/// How each trace differs from the first, A, where they have a stage in common.
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

}  // namespace

int report_command(std::vector<std::string> const& arguments) {
  po::options_description const options = describe_options();
  std::vector<std::string> files;
  po::variables_map const values = parse_options(arguments, options, files, "TRACE.h5");
  if (values.count("help") > 0) {
    std::cout << introduction << options << examples;
    return 0;
  }
  if (files.empty() || files.size() > most_traces) {
    throw CommandLineError{"found " + std::to_string(files.size()) + " files; accepted: one to " +
                           std::to_string(most_traces) + " traces"};
  }
  std::string const path = needed(values, "output", "--output (-o)", file_to_write);
  std::list<TraceReader> readers;
  std::vector<PageTrace> traces;
  for (std::string const& file : files) {
    TraceReader const& reader = readers.emplace_back(file);
    refuse_same_file(path, file);
    if (reader.ranks().empty()) throw TraceFileError{file, "has no ranks"};
  }
  OutputFile output{path};
  for (TraceReader const& reader : readers) {
    std::vector<std::int32_t> ranks;
    if (values.count("ranks") > 0) {
      ranks = read_trace_ranks(values["ranks"].as<std::string>(), reader);
    }
    traces.push_back(read_page_trace(reader, ranks));
  }
  output.write(report_page(traces, title_of(values, files), differences(readers)));
  output.finish();
  return 0;
}

}  // namespace stagecraft
