#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "libsim/explain/explanation_text.hpp"
#include "libsim/report/run_verdict.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {

namespace {

constexpr std::size_t most_sizes = 6;  ///< rows, unless all are asked for

std::string stages_table(Simulation const& simulation) {
  std::int64_t largest = 0;
  for (StageResult const& stage : simulation.stages) largest = std::max(largest, stage.device);
  ByteUnit const unit = unit_for(largest);
  auto const is_known = [](StageResult const& stage) { return stage.reservation.has_value(); };
  using Stage = StageResult const&;
  std::vector<ColumnOf<StageResult>> const columns{
      {"stage", [](Stage stage) { return std::to_string(stage.stage); }},
      {"counted " + std::string{unit.name},
       [&](Stage stage) { return in_unit(unit, stage.peak()); }},
      {"reserved", [&](Stage stage) { return in_unit(unit, stage.reservation->reserved); }},
      {"device", [&](Stage stage) { return in_unit(unit, stage.device); }},
      {"margin", [&](Stage stage) { return in_unit(unit, stage.margin); }},
      {"", [](Stage stage) { return std::string{text_of(stage.verdict)}; }, Align::left}};
  std::vector<StageResult> known;
  std::ranges::copy_if(simulation.stages, std::back_inserter(known), is_known);
  return table_of(columns, known).text();
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
  using Size = FreeSize const&;
  std::vector<ColumnOf<FreeSize>> const columns{
      {"free", [](Size size) { return size_text(size.bytes()); }},
      {"blocks", [](Size size) { return std::to_string(size.blocks); }},
      {"of", [](Size size) { return size_text(size.size); }},
      {"pool", [](Size size) { return size.is_small ? "small" : "large"; }, Align::left},
      {"", [](Size size) { return size.is_split ? "fragment" : "whole"; }, Align::left}};
  return table_of(columns, std::span{reserved.free}.first(shown)).text();
}

constexpr std::size_t most_tensors = 14;  ///< rows, unless all are asked for
constexpr int wide = 145;                 ///< columns from which tables say who made a tensor
constexpr int widest = 190;               ///< and who needs it
constexpr int narrow = 90;                ///< columns below which they say less

/// The number of layers and microbatches. A backward in progress has already released some buffers.
std::string extent(TensorGroup const& group) {
  if (group.stay == Stay::resident) return "";
  bool const is_by_pass = group.passes > group.microbatches;
  std::int64_t const times = is_by_pass ? group.passes : group.microbatches;
  std::int64_t const each = (group.buffers + times - 1) / times;
  std::string text =
      is_by_pass ? counted(times, "pass", "passes") : counted(times, "microbatch", "microbatches");
  if (group.layers > 0) {
    text = counted(each, "layer", "layers") + " x " + text;
  } else if (each > 1) {
    text = std::to_string(each) + " x " + text;
  }
  std::int64_t const missing = each * times - group.buffers;
  return missing > 0 ? text + " less " + std::to_string(missing) : text;
}

std::string reason(TensorGroup const& group, bool says_more) {
  switch (group.stay) {
    case Stay::resident:
      return "always";
    case Stay::kept:
      return "for backward" +
             (says_more && !group.needed_by.empty() ? ": " + readable_name(group.needed_by) : "");
    case Stay::rebuilt:
      return "recomputed";
    case Stay::temporary:
      return "in use";
    case Stay::message:
      return "message";
  }
  return "";
}

std::string event_text(PeakExplanation const& peak) {
  PeakEvent const& event = peak.event;
  if (event.op == "start") return "It holds this from the start, and never more.";
  std::string text = "It is fullest " + time_text(event.time) + " into the iteration, at '" +
                     readable_name(event.op) + "' (" + readable_name(event.phase) + ")";
  if (event.layer >= 0) text += " of layer " + std::to_string(event.layer);
  text += ", microbatch " + std::to_string(event.microbatch.value()) + ", chunk " +
          std::to_string(event.chunk) + ". What it holds then:";
  return text;
}

/// The largest group that a run's choices move.
std::string largest_text(PeakExplanation const& peak) {
  auto const largest =
      std::find_if(peak.tensors.begin(), peak.tensors.end(),
                   [](TensorGroup const& group) { return group.stay != Stay::resident; });
  if (largest == peak.tensors.end()) return "";
  std::string text = "Largest of what comes and goes: " + readable_name(largest->tensor) + ", " +
                     extent(*largest) + ", " + size_text(largest->bytes) + ", made by " +
                     readable_name(joined(largest->made_by, " or "));
  if (largest->stay == Stay::kept) {
    text += ", kept until the backward of the same layer and microbatch has used it";
  }
  return text + ".";
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
                      "device adds " +
                      (simulation.stages.front().outside ? "driver, context and NCCL."
                                                         : "the reserve of the run."),
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

std::string memory_section(Explanation const& explanation, ExplanationStyle const& style) {
  PeakExplanation const& peak = explanation.peak;
  std::int64_t const total = explanation.figures.peak;
  bool const says_more = style.width >= wide;
  bool const says_less = style.width < narrow;
  ByteUnit const unit = unit_for(total);
  std::vector<TextTable::Column> columns{{std::string{unit.name}}};
  if (!says_less) columns.push_back({"%"});
  columns.push_back({"tensor", Align::left});
  columns.push_back({"of", Align::left});
  columns.push_back({"held", Align::left});
  if (says_more) columns.push_back({"made by", Align::left});
  TextTable table{columns};
  auto const add = [&](std::int64_t bytes, std::vector<std::string> words) {
    std::vector<std::string> cells{in_unit(unit, bytes)};
    if (!says_less) cells.push_back(decimals(percent_of(bytes, total), 1));
    cells.insert(cells.end(), words.begin(), words.end());
    cells.resize(columns.size());
    table.add_row(std::move(cells));
  };
  std::size_t const shown =
      style.shows_all ? peak.tensors.size() : std::min(most_tensors, peak.tensors.size());
  bool counts_passes = false;
  for (std::size_t i = 0; i < shown; ++i) {
    TensorGroup const& group = peak.tensors[i];
    counts_passes = counts_passes || extent(group).find("pass") != std::string::npos;
    std::string const tensor = readable_name(group.tensor);
    bool const is_state = group.category == Category::optimizer;
    add(group.bytes,
        {is_state ? tensor + " state" : tensor, extent(group), reason(group, style.width >= widest),
         readable_name(joined(group.made_by, ", "))});
  }
  if (shown < peak.tensors.size()) {
    std::int64_t rest = 0;
    for (std::size_t i = shown; i < peak.tensors.size(); ++i) rest += peak.tensors[i].bytes;
    add(rest, {counted(static_cast<std::int64_t>(peak.tensors.size() - shown), "smaller one",
                       "smaller ones (--all)")});
  }
  table.add_rule();
  add(total, {"in all"});
  std::string text = "WHY STAGE " + std::to_string(peak.stage) + " HOLDS " + size_text(total) +
                     "\n" + wrapped(event_text(peak), style.width) + table.text();
  if (counts_passes) {
    text +=
        wrapped("A pass is one microbatch on its way through one chunk of layers.", style.width);
  }
  return text + wrapped(largest_text(peak), style.width);
}

}  // namespace stagecraft
