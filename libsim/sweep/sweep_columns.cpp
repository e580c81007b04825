#include "libsim/sweep/sweep_columns.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "libsim/engine/fullest_stage.hpp"
#include "libsim/modules/blocks.hpp"

namespace stagecraft {
namespace {

using Plan = TrainingPlan const&;
using Result = Simulation const&;

StageResult const& fullest(Result result) { return result.stages[fullest_stage(result.stages)]; }

/// The stage that leaves least of its accelerator; null if nothing was reserved.
StageResult const* tightest(Result result) {
  StageResult const* least = nullptr;
  for (StageResult const& stage : result.stages) {
    if (!stage.reservation) continue;
    if (least == nullptr || stage.margin < least->margin) least = &stage;
  }
  return least;
}

double of_layer(Result result, SimTime LayerResult::*time) {
  return result.layer ? to_seconds((*result.layer).*time) : no_real();
}

constexpr std::array integers{
    IntegerColumn{
        "gpus", "",
        [](Result, Plan plan) -> std::int64_t { return world_size(plan.config.parallel); }},
    IntegerColumn{"parameters", "",
                  [](Result, Plan plan) { return parameter_count(plan.config.model); }},
    IntegerColumn{"fits", "",
                  [](Result result, Plan) -> std::int64_t {
                    return std::all_of(result.stages.begin(), result.stages.end(),
                                       [](StageResult const& stage) { return stage.fits; })
                               ? 1
                               : 0;
                  }},
    IntegerColumn{"peak_bytes", "byte", [](Result result, Plan) { return fullest(result).peak(); }},
    IntegerColumn{"fullest_stage", "",
                  [](Result result, Plan) -> std::int64_t { return fullest(result).stage; }},
    IntegerColumn{"activation_peak_bytes", "byte",
                  [](Result result, Plan) {
                    std::int64_t most = 0;
                    for (StageResult const& stage : result.stages) {
                      most = std::max(most, stage.activation_peak);
                    }
                    return most;
                  }},
    IntegerColumn{"reserved_bytes", "byte",
                  [](Result result, Plan) {
                    StageResult const* const stage = tightest(result);
                    return stage != nullptr ? stage->reservation->reserved : no_integer;
                  }},
    IntegerColumn{"device_bytes", "byte",
                  [](Result result, Plan) {
                    StageResult const* const stage = tightest(result);
                    return stage != nullptr ? stage->device : no_integer;
                  }},
    IntegerColumn{"layer_saved_bytes", "byte",
                  [](Result result, Plan) {
                    return result.layer ? result.layer->saved.count() : no_integer;
                  }},
    IntegerColumn{"layer_paper_bytes", "byte",
                  [](Result result, Plan) {
                    return result.layer && result.layer->paper ? result.layer->paper->count()
                                                               : no_integer;
                  }},
};

constexpr std::array reals{
    RealColumn{"iteration_seconds", "s",
               [](Result result, Plan) { return to_seconds(result.iteration); }},
    RealColumn{"ideal_seconds", "s", [](Result result, Plan) { return to_seconds(result.ideal); }},
    RealColumn{"bubble_fraction", "", [](Result result, Plan) { return result.bubble_fraction(); }},
    RealColumn{"waiting_seconds", "s",
               [](Result result, Plan) { return to_seconds(result.breakdown.waiting()); }},
    RealColumn{"model_flops", "FLOP", [](Result result, Plan) { return result.model_flops; }},
    RealColumn{"hardware_flops", "FLOP", [](Result result, Plan) { return result.hardware_flops; }},
    RealColumn{"mfu", "", [](Result result, Plan) { return result.mfu; }},
    RealColumn{"hfu", "", [](Result result, Plan) { return result.hfu; }},
    RealColumn{"hfu_paper", "",
               [](Result result, Plan) { return result.hfu_paper.value_or(no_real()); }},
    RealColumn{"tokens_per_second", "1/s",
               [](Result result, Plan) { return result.tokens_per_second; }},
    RealColumn{"layer_forward_seconds", "s",
               [](Result result, Plan) { return of_layer(result, &LayerResult::forward); }},
    RealColumn{"layer_backward_seconds", "s",
               [](Result result, Plan) { return of_layer(result, &LayerResult::backward); }},
    RealColumn{"layer_recompute_seconds", "s",
               [](Result result, Plan) { return of_layer(result, &LayerResult::recompute); }},
    RealColumn{"breakdown_seconds_forward", "s",
               [](Result result, Plan) { return to_seconds(result.breakdown.shares.forward); }},
    RealColumn{"breakdown_seconds_backward", "s",
               [](Result result, Plan) { return to_seconds(result.breakdown.shares.backward); }},
    RealColumn{"breakdown_seconds_recompute", "s",
               [](Result result, Plan) { return to_seconds(result.breakdown.shares.recompute); }},
    RealColumn{"breakdown_seconds_pipeline_transfer", "s",
               [](Result result, Plan) { return to_seconds(result.breakdown.transfer); }},
    RealColumn{"breakdown_seconds_bubble", "s",
               [](Result result, Plan) { return to_seconds(result.breakdown.bubble); }},
    RealColumn{
        "breakdown_seconds_data_parallel", "s",
        [](Result result, Plan) { return to_seconds(result.breakdown.shares.data_parallel); }},
    RealColumn{
        "breakdown_seconds_head_and_embedding", "s",
        [](Result result, Plan) { return to_seconds(result.breakdown.shares.head_and_embedding); }},
    RealColumn{"breakdown_seconds_optimizer", "s",
               [](Result result, Plan) { return to_seconds(result.breakdown.shares.optimizer); }},
    RealColumn{"breakdown_seconds_offload", "s",
               [](Result result, Plan) { return to_seconds(result.breakdown.shares.offload); }},
    RealColumn{"breakdown_seconds_host_wait", "s",
               [](Result result, Plan) { return to_seconds(result.breakdown.host_wait); }},
};

}  // namespace

double no_real() { return std::numeric_limits<double>::quiet_NaN(); }

std::span<IntegerColumn const> integer_columns() { return integers; }
std::span<RealColumn const> real_columns() { return reals; }

bool is_integer_column(std::string_view name) {
  return std::ranges::any_of(integers, [&](auto const& column) { return column.name == name; });
}

bool is_result_column(std::string_view name) {
  auto const has_name = [&](auto const& column) { return column.name == name; };
  return name == index_column || name == valid_column || name == message_column ||
         name == plan_column || is_integer_column(name) ||
         std::any_of(reals.begin(), reals.end(), has_name);
}

}  // namespace stagecraft
