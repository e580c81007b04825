#include <algorithm>

#include "libsim/explain/explanation_sections.hpp"
#include "libsim/report/fit_verdict.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/report/wrapped_text.hpp"

namespace stagecraft {
namespace {

constexpr std::size_t most_sizes = 6;  ///< rows, unless all are asked for

std::string stages_table(Simulation const& simulation) {
  std::int64_t largest = 0;
  for (StageResult const& stage : simulation.stages) largest = std::max(largest, stage.device);
  ByteUnit const unit = unit_for(largest);
  TextTable table{{{"stage"},
                   {"counted " + std::string{unit.name}},
                   {"reserved"},
                   {"device"},
                   {"margin"},
                   {"", Align::left}}};
  for (StageResult const& stage : simulation.stages) {
    if (!stage.reservation) continue;
    table.add_row({std::to_string(stage.stage), in_unit(unit, stage.peak()),
                   in_unit(unit, stage.reservation->reserved), in_unit(unit, stage.device),
                   in_unit(unit, stage.margin), std::string{text_of(stage.verdict)}});
  }
  return table.text();
}

std::string cause_text(ReservedExplanation const& reserved) {
  std::string who = reserved.tensor.empty()
                        ? (reserved.is_in_step ? "the optimizer step" : "a buffer of the framework")
                        : readable_name(reserved.tensor);
  return "It grew to this for a request of " + size_text(reserved.request) + " (" + who +
         "), for which no free block was large enough.";
}

std::string pool_text(char const* name, PoolUse const& pool) {
  return std::string{name} + ": " + size_text(pool.reserved) + ", of which " +
         size_text(pool.reserved - pool.live) + " free";
}

std::string parts_table(ReservedExplanation const& reserved) {
  ByteUnit const unit = unit_for(reserved.reserved);
  TextTable table{{{std::string{unit.name}}, {"", Align::left}}};
  auto const add = [&](std::int64_t bytes, std::string const& what) {
    table.add_row({in_unit(unit, bytes), what});
  };
  add(reserved.requested, "asked for by live buffers");
  add(reserved.rounding, "rounding of their blocks");
  add(reserved.fragments, "free blocks beside live ones: fragments");
  add(reserved.cached, "free whole segments, which a retry could give back");
  table.add_rule();
  add(reserved.reserved, "reserved");
  return table.text();
}

std::string sizes_table(ReservedExplanation const& reserved, bool shows_all) {
  if (reserved.free.empty()) return "";
  std::size_t const shown =
      shows_all ? reserved.free.size() : std::min(most_sizes, reserved.free.size());
  TextTable table{{{"free"}, {"blocks"}, {"of"}, {"pool", Align::left}, {"", Align::left}}};
  for (std::size_t i = 0; i < shown; ++i) {
    FreeSize const& size = reserved.free[i];
    table.add_row({size_text(size.bytes()), std::to_string(size.blocks), size_text(size.size),
                   size.is_small ? "small" : "large", size.is_split ? "fragment" : "whole"});
  }
  return table.text();
}

}  // namespace

std::string reserved_section(Explanation const& explanation,
                             RunConfig const& run,
                             ExplanationStyle const& style) {
  ReservedExplanation const& reserved = explanation.reserved;
  Simulation const& simulation = explanation.simulation;
  std::string text = "MEMORY OF THE DEVICE, BY STAGE\n" + stages_table(simulation);
  FitProbability const fit = fit_probability_of(simulation, explanation.plan.config, run.system);
  text += wrapped("The run " + std::string{text_of(verdict_of(simulation))} +
                      (fit.run ? ", with a probability of " + decimals(*fit.run, 3) + " ("
                               : " (no probability: ") +
                      fit.reason +
                      "). Reserved is what the allocator takes from the device; "
                      "device adds driver, context and NCCL, or the reserve of the run.",
                  style.width);
  if (!explanation.figures.is_by_allocator) {
    text += wrapped(
        "What this software stack itself allocates is not described: a stage fits if its counted "
        "bytes do, beside the reserve, and if its allocator does not run out by the replay of its "
        "tensors.",
        style.width);
  }
  if (reserved.reserved == 0) return text;  // the allocator does not place blocks
  std::int64_t const above = reserved.reserved - reserved.counted;
  text += "\nWHY STAGE " + std::to_string(reserved.stage) + " RESERVES " +
          size_text(reserved.reserved) + ", " + size_text(above) + " MORE THAN IS COUNTED\n" +
          wrapped(cause_text(reserved), style.width) + parts_table(reserved) +
          wrapped(pool_text("Pool of large blocks", reserved.large) + "; " +
                      pool_text("of small ones", reserved.small) + ".",
                  style.width) +
          sizes_table(reserved, style.shows_all);
  return text;
}

}  // namespace stagecraft
