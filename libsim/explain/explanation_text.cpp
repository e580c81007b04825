#include "libsim/explain/explanation_text.hpp"

#include "libsim/explain/explanation_sections.hpp"
#include "libsim/interval/measured_range.hpp"
#include "libsim/report/interval_report.hpp"
#include "libsim/report/simulation_tables.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/report/wrapped_text.hpp"

namespace stagecraft {
namespace {

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
