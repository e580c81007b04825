#include "libsim/hardware/compared_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "libsim/config/section_reader.hpp"
#include "libsim/config/yaml_tree.hpp"
#include "libsim/hardware/config_texts.hpp"
#include "libsim/hardware/software.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/program/quantisation.hpp"

namespace stagecraft {
namespace {

std::vector<ComparedRuns> read_all() {
  constexpr IntegerRange count{1, 1'000'000'000};
  Diagnostics diagnostics;
  auto const root = parse_yaml(compared_text, "compared.yaml", diagnostics);
  diagnostics.throw_if_any();
  SectionReader reader{ConfigNode{*root, "", diagnostics}};
  std::vector<ComparedRuns> all;
  for (ConfigNode const& item : reader.take("regimes").items()) {
    ComparedRuns& runs = all.emplace_back();
    SectionReader entry{item};
    entry.value("system", runs.system, Need::required);
    entry.value("software", runs.software, Need::required);
    entry.value("accelerator", runs.accelerator, Need::required);
    entry.value("experts", runs.experts, Need::required);
    entry.value("context_parallel", runs.context_parallel, Need::required);
    entry.value("precision", runs.precision, Need::required);
    entry.value("runs", runs.runs, count, Need::required);
    entry.value("median_percent", runs.median_percent,
                NumberRange{.lower = 0, .upper = 1000, .includes_upper = true}, Need::required);
    entry.value("median_signed_percent", runs.median_signed_percent,
                NumberRange{.lower = -1000, .upper = 1000, .includes_upper = true}, Need::required);
    entry.value("least_sequence", runs.range.least_sequence, count, Need::required);
    entry.value("most_sequence", runs.range.most_sequence, count, Need::required);
    entry.value("most_context", runs.range.most_context, count, Need::required);
    entry.value("most_gpus", runs.range.most_gpus, count, Need::required);
    entry.finish();
  }
  reader.finish();
  diagnostics.throw_if_any();
  return all;
}

}  // namespace

std::vector<ComparedRuns> const& compared_runs() {
  static std::vector<ComparedRuns> const all = read_all();
  return all;
}

bool is_compared(std::string const& system) {
  return std::ranges::any_of(compared_runs(),
                             [&](auto const& runs) { return runs.system == system; });
}

std::string direction_text(ComparedRuns const& runs) {
  // Errors of either sign cancel in the signed median.
  bool const is_biased = std::abs(runs.median_signed_percent) > runs.median_percent / 2;
  if (!is_biased) return {};
  return runs.median_signed_percent < 0 ? ", mostly too short" : ", mostly too long";
}

std::string regime_text(TrainingConfig const& config, Software const& software) {
  std::string text = has_experts(config.model) ? "mixtures of experts" : "dense models";
  if (config.parallel.context > 1) text += " with context parallelism";
  Recipe const recipe = config.low_precision.recipe;
  std::string const bits =
      recipe == Recipe::none ? std::string{name_of(config.model.precision)} : bits_text(recipe);
  return text + " in " + bits + " with the stack '" + std::string{described_stack(software)} + "'";
}

std::string expert_errors_text(System const& system) {
  std::string own;
  std::string all;
  for (ComparedRuns const& runs : compared_runs()) {
    if (!runs.experts) continue;
    std::string const text = fmt::format("{:.1f} % on {} ({} runs{})", runs.median_percent,
                                         runs.system, runs.runs, direction_text(runs));
    for (std::string* const list : {&own, &all}) {
      if (list == &own && runs.accelerator != system.accelerator.name) continue;
      *list += (list->empty() ? "" : ", ") + text;
    }
  }
  return "the median error of such runs in 16 bits is " + (own.empty() ? all : own);
}

ComparedRuns const* compared_runs_of(TrainingConfig const& config, System const& system) {
  auto const found = std::ranges::find_if(compared_runs(), [&](ComparedRuns const& runs) {
    return runs.system == system.name && runs.software == described_stack(system.software) &&
           runs.experts == has_experts(config.model) &&
           runs.context_parallel == (config.parallel.context > 1) &&
           runs.precision == config.model.precision && config.low_precision.recipe == Recipe::none;
  });
  return found == compared_runs().end() ? nullptr : &*found;
}

RunRange joined(RunRange const& a, RunRange const& b) {
  return {.least_sequence = std::min(a.least_sequence, b.least_sequence),
          .most_sequence = std::max(a.most_sequence, b.most_sequence),
          .most_context = std::max(a.most_context, b.most_context),
          .most_gpus = std::max(a.most_gpus, b.most_gpus)};
}

std::vector<std::string> outside(TrainingConfig const& config,
                                 RunRange const& range,
                                 std::string const& where) {
  std::vector<std::string> settings;
  auto const add = [&](bool is_outside, std::string const& setting, std::string const& measured) {
    if (is_outside) settings.push_back(setting + " (measured on " + where + ": " + measured + ")");
  };
  std::int64_t const sequence = config.model.sequence;
  std::string const least = std::to_string(range.least_sequence);
  add(sequence < range.least_sequence || sequence > range.most_sequence,
      "model.sequence " + std::to_string(sequence),
      range.least_sequence == range.most_sequence
          ? least
          : least + " to " + std::to_string(range.most_sequence));
  int const gpus = world_size(config.parallel);
  add(gpus > range.most_gpus, std::to_string(gpus) + " GPUs",
      "up to " + std::to_string(range.most_gpus));
  int const context = config.parallel.context;
  add(context > range.most_context, "parallel.context " + std::to_string(context),
      range.most_context == 1 ? "1" : "up to " + std::to_string(range.most_context));
  return settings;
}

}  // namespace stagecraft
