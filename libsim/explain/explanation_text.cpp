#include "libsim/explain/explanation_text.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "libsim/interval/measured_range.hpp"
#include "libsim/report/run_verdict.hpp"
#include "libsim/report/simulation_tables.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {

namespace {

std::string_view description_of(TimeKind kind) {
  constexpr std::array<std::string_view, time_kind_count> texts{
      "layers forward",
      "layers backward",
      "recomputing layers",
      "communication within stages, exposed",
      "embedding, head and loss",
      "messages between stages",
      "waiting for other stages (bubble)",
      "reducing gradients between ranks",
      "optimizer step",
      "optimizer state on the host",
      "waiting for the host to issue kernels (host wait)"};
  return texts[static_cast<std::size_t>(kind)];
}

/// The row of the system's overhead per iteration, which counts as TimeKind::optimizer.
constexpr char const* overhead_row = "fixed cost of an iteration";

/// The row of what is not part of the iteration, of a path that goes on beside the next one.
constexpr char const* next_row = "validated while the next iteration warms up";

/// The course of the path, in parts that sum to its length.
std::string course_text(CriticalPath const& path, TimeUnit const& unit) {
  auto const main = static_cast<std::size_t>(
      std::max_element(path.by_stage.begin(), path.by_stage.end()) - path.by_stage.begin());
  SimTime const on_stages = std::accumulate(path.by_stage.begin(), path.by_stage.end(), SimTime{0});
  std::vector<SimTime> const parts{path.by_stage[main], on_stages - path.by_stage[main],
                                   path.in_messages, path.overhead};
  std::vector<std::string> texts = parts_in_unit(unit, parts);
  for (std::string& text : texts) text += " " + std::string{unit.name};
  std::string text = "The critical path is on stage " + std::to_string(main) + " for " + texts[0];
  if (parts[1] > SimTime{0}) text += ", on other stages for " + texts[1];
  if (path.messages > 0) {
    text +=
        ", in " + counted(path.messages, "message", "messages") + " between stages for " + texts[2];
  }
  if (parts[3] > SimTime{0}) text += ", and " + texts[3] + " is the fixed cost of an iteration";
  text += ".";
  if (path.in_next > SimTime{0}) {
    text += " Its last " + in_unit(unit, path.in_next) + " " + std::string{unit.name} +
            " are not part of the iteration: steps are validated while the next one warms up.";
  }
  return text;
}

/// Which gathers and reductions of units no computation hides; empty if none.
std::string exposed_text(std::vector<ExposedUnits> const& exposed) {
  std::string text;
  for (ExposedUnits const& one : exposed) {
    std::string const pass = one.pass == Pass::forward ? "forward" : "backward";
    text += (text.empty() ? "Exposed communication of units: " : "; ") +
            std::string{one.is_gather ? "gathers" : "reductions"} + " in the " + pass + " of the " +
            std::string{name_of_block(one.block)} + ", " + time_text(one.seconds);
  }
  return text.empty() ? text : text + ".";
}

/// A column of the table: the time of each kind; the overhead, subtracted from its kind; and,
/// negated, the time that overlaps the next iteration.
std::vector<SimTime> rows_of(KindTimes kinds, SimTime overhead, SimTime in_next) {
  kinds[TimeKind::optimizer] -= overhead;
  std::vector<SimTime> rows;
  rows.reserve(time_kind_count + 2);
  for (int i = 0; i < time_kind_count; ++i) rows.push_back(kinds[static_cast<TimeKind>(i)]);
  rows.push_back(overhead);
  rows.push_back(SimTime{0} - in_next);
  return rows;
}

/// What the i-th of these rows is.
std::string name_of_row(std::size_t i) {
  constexpr auto kinds = static_cast<std::size_t>(time_kind_count);
  if (i < kinds) return std::string{description_of(static_cast<TimeKind>(i))};
  return i == kinds ? overhead_row : next_row;
}

std::string room_text(Explanation const& explanation, RunConfig const& run) {
  RunFigures const& figures = explanation.figures;
  std::string const kept =
      figures.is_by_allocator || figures.runs_out
          ? "its allocator's free blocks and what else is on the device"
          : "a reserve of " + size_text(run.training.memory.kept_in_reserve().count());
  std::string const left =
      figures.fits()
          ? size_text(figures.room) + " are free after " + kept + "."
          : "with " + kept + ", " + size_text(-figures.room) + " are missing: it does not fit.";
  return "An iteration takes " + time_text(figures.iteration) + ". The fullest stage, " +
         std::to_string(figures.fullest_stage) + " of " +
         std::to_string(explanation.simulation.stages.size()) + ", holds " +
         size_text(figures.peak) + " of " + size_text(run.system.accelerator.memory.value.count()) +
         "; " + left;
}

/// How the time of an iteration is spent on the critical path and on the busiest stage. Each
/// column, and the sentence about the path's course, sum to the iteration as it is shown.
std::string time_section(Explanation const& explanation, ExplanationStyle const& style) {
  CriticalPath const& path = explanation.path;
  SimTime const iteration = explanation.simulation.iteration;
  TimeUnit const unit = unit_for(iteration);
  std::string const unit_name{unit.name};
  std::size_t const busiest = busiest_stage(explanation.simulation);
  TextTable table{{{"", Align::left},
                   {"critical path " + unit_name},
                   {"%"},
                   {"stage " + std::to_string(busiest) + " " + unit_name},
                   {"%"}}};
  std::vector<SimTime> const on_path = rows_of(path.kinds, path.overhead, path.in_next);
  std::vector<SimTime> const on_stage = rows_of(explanation.busiest, path.overhead, SimTime{0});
  std::vector<std::string> const path_texts = parts_in_unit(unit, on_path);
  std::vector<std::string> const stage_texts = parts_in_unit(unit, on_stage);
  for (std::size_t i = 0; i < on_path.size(); ++i) {
    if (on_path[i] == SimTime{0} && on_stage[i] == SimTime{0}) continue;
    table.add_row({name_of_row(i), path_texts[i], decimals(percent_of(on_path[i], iteration), 1),
                   stage_texts[i], decimals(percent_of(on_stage[i], iteration), 1)});
  }
  table.add_rule();
  std::string const whole = in_unit(unit, iteration);
  table.add_row({"iteration", whole, "100.0", whole, "100.0"});
  std::string text = "WHAT THE " + time_text(iteration) + " OF AN ITERATION CONSIST OF\n";
  text += wrapped(
      "The critical path is the chain of computations and messages, each waiting for "
      "the one before, that leads from the start of an iteration to its end: only what "
      "shortens it shortens the iteration. Beside it, the busiest stage.",
      style.width);
  text += table.text();
  text += wrapped(waiting_text(explanation.simulation) + ".", style.width);
  text += wrapped(course_text(path, unit), style.width);
  std::string const exposed = exposed_text(explanation.exposed);
  if (!exposed.empty()) text += wrapped(exposed, style.width);
  StageResult const& stage = explanation.simulation.stages[busiest];
  if (stage.rank_busy) {
    text += wrapped("Experts compute different numbers of rows: " + waits_for_rows(stage) + ".",
                    style.width);
  }
  if (explanation.busiest[TimeKind::bubble] > SimTime{0}) {
    text += wrapped("While stage " + std::to_string(busiest) +
                        " waits, the path is on other stages; there is no waiting on the path.",
                    style.width);
  }
  return text;
}

}  // namespace

std::string explanation_text(Explanation const& explanation,
                             RunConfig const& run,
                             ExplanationStyle const& style) {
  std::string text =
      wrapped_lines(run_title(explanation.plan, run.system), style.width) +
      wrapped(room_text(explanation, run), style.width) +
      wrapped(
          interval_text(interval_of(explanation.simulation, explanation.plan.config, run.system)),
          style.width) +
      wrapped_lines(unmeasured_text(unmeasured_settings(explanation.plan.config, run.system)),
                    style.width) +
      '\n' + memory_section(explanation, style) + '\n' + reserved_section(explanation, run, style) +
      '\n' + time_section(explanation, style) + '\n' + changes_section(explanation, style);
  if (explanation.pairs) text += '\n' + pairs_section(explanation, style);
  if (!explanation.pointless.empty()) text += "\nCHOICES THAT DO NOT PAY\n";
  for (std::string const& warning : explanation.pointless) {
    text += wrapped("- " + warning, style.width, 2);
  }
  return text;
}

}  // namespace stagecraft
