#include <iostream>
#include <optional>

#include "apps/program/command_line.hpp"
#include "apps/program/file_count.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/terminal.hpp"
#include "libsim/allocator/sequence_file.hpp"
#include "libsim/export/snapshot_comparison.hpp"
#include "libsim/report/comparison.hpp"
#include "libsim/report/comparison_text.hpp"
#include "libsim/report/paper/own_plan.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

namespace {

/// A share in percent, with or without its sign.
double read_percent(std::string const& option, std::string text) {
  if (text.ends_with('%')) text.pop_back();
  return number_from_zero(option, text);
}

int compare_with_snapshot(CommandLine const& line) {
  std::vector<std::string> const& files = line.arguments();
  if (files.size() != 1) {
    throw CommandLineError{"", file_count(files.size()), "one trace with --snapshot"};
  }
  if (line.has("force")) throw CommandLineError{"--force", "with --snapshot", "without it"};
  std::optional<double> tolerance;
  if (line.has("tolerance")) tolerance = read_percent("--tolerance", line.value("tolerance"));
  TraceReader const trace{files.front()};
  if (trace.ranks().empty()) throw TraceFileError{files.front(), "has no ranks"};
  std::int32_t rank = trace.ranks().front();
  if (line.has("rank")) {
    std::vector<std::int32_t> const ranks = read_trace_ranks(line.value("rank"), trace);
    if (ranks.size() != 1) {
      throw CommandLineError{"--rank", "'" + line.value("rank") + "'", "one rank of the trace"};
    }
    rank = ranks.front();
  }
  std::optional<std::int32_t> device;
  if (line.has("device")) device = line.whole_number("device", 0, 1 << 20);
  std::string const& file = line.value("snapshot");
  std::string const bytes = read_inflated(file);
  SnapshotComparison const comparison =
      compare_snapshot(read_snapshot(bytes, file, device), trace.read(rank), trace.names());
  if (line.has("json")) {
    auto const replace = nlohmann::ordered_json::error_handler_t::replace;
    std::cout << to_json(comparison).dump(1, ' ', false, replace) << '\n';
  } else {
    std::cout << snapshot_comparison_text(comparison);
  }
  if (!tolerance || comparison.peaks_agree_within(*tolerance)) return 0;
  std::cerr << "stagecraft compare: the peaks differ by more than --tolerance "
            << line.value("tolerance") << '\n';
  return 1;
}

int run_compare(CommandLine const& line) {
  if (line.has("snapshot")) return compare_with_snapshot(line);
  for (char const* const option : {"device", "rank"}) {
    if (line.has(option)) {
      throw CommandLineError{std::string{"--"} + option, "without --snapshot",
                             "together with --snapshot"};
    }
  }
  std::vector<std::string> const& files = line.arguments();
  if (files.size() != 2) {
    throw CommandLineError{"", file_count(files.size()), "two traces"};
  }
  PlanCheck const check = line.has("force") ? PlanCheck::any_plan : PlanCheck::same_plan;
  std::optional<double> tolerance;
  if (line.has("tolerance")) tolerance = read_percent("--tolerance", line.value("tolerance"));
  TraceReader const a{files[0]};
  TraceReader const b{files[1]};
  if (check == PlanCheck::same_plan) {
    require_own_plan(a);
    require_own_plan(b);
  }
  Comparison const comparison = compare(a, b, check);
  if (line.has("json")) {
    // Names come from files and may not be UTF-8.
    auto const replace = nlohmann::ordered_json::error_handler_t::replace;
    std::cout << to_json(comparison).dump(1, ' ', false, replace) << '\n';
  } else {
    std::cout << comparison_tables(comparison, standard_output_style().width);
  }
  if (!tolerance || comparison.agrees_within(*tolerance)) return 0;
  std::cerr << "stagecraft compare: the traces differ by more than --tolerance "
            << line.value("tolerance") << '\n';
  return 1;
}

}  // namespace

Command compare_command() {
  return {
      .name = "compare",
      .summary = "two traces of one plan: memory, times, and the causes of differences",
      .introduction = R"(usage: stagecraft compare A.h5 B.h5 [options]
       stagecraft compare --snapshot SNAPSHOT.pickle TRACE.h5 [options]

Holds two traces of one plan against each other, predicted or executed: memory at the peak of
each stage by category, time by op and phase, iteration, and where the difference comes from.
Every row is held against its counterpart: work, order, sizes, memory, start and duration.
Traces of two plans are refused, and so is a trace whose configuration is not that of its plan.

With --snapshot, holds a memory snapshot of a PyTorch run (torch.cuda.memory._dump_snapshot, of
which nothing is executed) against one rank of one trace: the peaks by category or, if the
snapshot names none, by what is resident and what comes and goes; requests by size; and where the
sequences of allocations differ first.
)",
      .examples = R"(  stagecraft compare predicted.h5 executed.h5
  stagecraft compare selene.h5 h200.h5 --json
  stagecraft compare before.h5 after.h5 --tolerance 1%
  stagecraft compare full.h5 selective.h5 --force
  stagecraft compare --snapshot snapshot.pickle 175b-op.h5 --device 0 --rank 0
)",
      .options = {{.name = "force",
                   .description = "compare even if the traces are of different plans"},
                  {.name = "tolerance",
                   .value = Value::text("PERCENT"),
                   .description = "exit with 1 if the rows or the memory of any rank differ, or "
                                  "if the iteration or an op's time does by more than this "
                                  "share of A's iteration; with --snapshot, if the peaks do"},
                  {.name = "snapshot",
                   .value = Value::file("FILE"),
                   .description =
                       "a memory snapshot of PyTorch, gzipped or not, instead of a trace"},
                  {.name = "device",
                   .value = Value::text("N"),
                   .description = "of the snapshot (default: the first with events)"},
                  {.name = "rank",
                   .value = Value::text("R"),
                   .description = "of the trace, with --snapshot (default: its first)"},
                  json_option()},
      .argument = Value::file("TRACE.h5"),
      .run = run_compare};
}

}  // namespace stagecraft
