#include "libsim/engine/flops.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "libsim/hardware/recipe_support.hpp"
#include "libsim/modules/blocks.hpp"
#include "libsim/plan/make_plan.hpp"

namespace stagecraft {

double peak_flops_per_second(TrainingConfig const& config, System const& system) {
  FlopsPerSecond const* const peak =
      matrix_peak(system.accelerator.peak.value, config.model.precision, config.tf32);
  if (peak == nullptr) throw std::out_of_range{"a precision without a peak"};
  return peak->value * world_size(config.parallel);
}

double model_flops(TrainingConfig const& config) {
  return static_cast<double>(config.batch.global) *
         static_cast<double>(model_flops_per_sequence(config.model));
}

double hardware_flops(TrainingPlan const& plan) {
  if (plan.forced) {
    // All ranks together compute as many rows as with balanced routing.
    TrainingConfig balanced = plan.config;
    balanced.routing = {};
    return hardware_flops(make_plan(as_settled(balanced)));
  }
  if (plan.shape.contiguous_keys) {
    // The plan has the keys of the last rank. All ranks together attend to as many keys as if each
    // attended to the same number.
    TrainingConfig even = plan.config;
    even.parallel.context_method = ContextMethod::ring;
    return hardware_flops(make_plan(as_settled(even)));
  }
  std::vector<std::array<double, pass_count>> of_blocks;  // most stages have the same few
  of_blocks.reserve(plan.programs.blocks.size());
  for (BlockProgram const& block : plan.programs.blocks) {
    auto& of_pass = of_blocks.emplace_back();
    for (Pass const pass : {Pass::forward, Pass::backward, Pass::input_gradient,
                            Pass::weight_gradient, Pass::recompute}) {
      for (Op const& op : block.ops(pass)) of_pass[index_of(pass)] += static_cast<double>(op.flops);
    }
  }
  double sum = 0;
  for (StagePlan const& stage : plan.stages) {
    std::vector<double> of_task;
    for (Task const& task : stage.tasks) {
      double flops = 0;
      if (task.kind != Task::Kind::step) {
        std::size_t const pass = index_of(pass_of(task));
        auto const& blocks = plan.programs.chunks[static_cast<std::size_t>(task.program)].blocks;
        for (std::int32_t i = task.first_block; i < task.first_block + task.block_count; ++i) {
          auto const block = static_cast<std::size_t>(blocks[static_cast<std::size_t>(i)]);
          flops += of_blocks[block][pass];
        }
      }
      of_task.push_back(flops);
    }
    visit_entries(stage.program, [&](IssueEntry const& entry, std::int32_t /*advance*/) {
      if (entry.kind == IssueEntry::Kind::run) sum += of_task[static_cast<std::size_t>(entry.task)];
    });
  }
  return sum * plan.groups.ranks_per_stage();
}

std::optional<double> paper_hardware_flops(TrainingPlan const& plan) {
  TrainingConfig const& config = plan.config;
  RecomputePolicy const& policy = config.recompute.front();
  bool const is_uniform = config.recompute.size() == 1 && policy.store_microbatches.count == 0 &&
                          policy.method == RecomputeMethod::uniform;
  RecomputePolicy one_layer = policy;
  one_layer.layers = 1;
  if (!is_uniform || !has_paper_bytes(plan.shape, one_layer)) return std::nullopt;
  auto const number = [](std::int64_t n) { return static_cast<double>(n); };
  ModelConfig const& model = config.model;
  double const s = number(model.sequence);
  double const h = number(model.hidden);
  double const layers = number(model.layers);
  double const base = 72 * number(config.batch.global) * layers * s * h * h;
  double const head = number(model.vocabulary) / (12 * h * layers);
  switch (policy.granularity) {
    case RecomputeGranularity::none:
      return base * (1 + s / (6 * h) + head);
    case RecomputeGranularity::selective:
      return base * (1 + s / (3 * h) + head);
    case RecomputeGranularity::full:
      return base * (4.0 / 3.0 * (1 + s / (6 * h)) + head);
  }
  return std::nullopt;
}

}  // namespace stagecraft
