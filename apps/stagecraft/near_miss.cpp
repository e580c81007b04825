#include "apps/stagecraft/near_miss.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "apps/stagecraft/plan/plan_figures.hpp"
#include "apps/stagecraft/plan/plan_words.hpp"
#include "libsim/memory/stage_memory.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/search/search_space.hpp"
#include "libsim/training/training_config_checks.hpp"
#include "libsim/training/training_names.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {
namespace {

/// How the experts are split, for a list of what a plan has.
std::string experts_text(TrainingConfig const& config) {
  if (!has_experts(config.model)) return {};
  return ", expert " + std::to_string(config.parallel.expert) + ", expert tensor " +
         std::to_string(config.parallel.expert_tensor);
}

/// How the GPUs can be split if there are few ways: users do not expect that 13 have any.
std::string shapes_text(PlanOptions const& options) {
  SearchRequest const& request = options.request;
  constexpr std::size_t most_shown = 3;
  std::set<std::tuple<int, int, int, int>> shapes;
  for (ShapeChoice const& shape : shape_choices(request)) {
    for (ScheduleChoice const& schedule : schedule_choices(request, shape)) {
      shapes.emplace(shape.tensor, schedule.pipeline, schedule.data, shape.context);
      if (shapes.size() > most_shown) return {};
    }
  }
  if (shapes.empty()) return {};
  std::string text;
  for (auto const& [tensor, pipeline, data, context] : shapes) {
    text += (text.empty() ? "" : " or ") + std::string{"tensor "} + std::to_string(tensor) +
            " x pipeline " + std::to_string(pipeline) + " x data " + std::to_string(data) +
            (context > 1 ? " x context " + std::to_string(context) : "");
  }
  std::string fixes;
  for (FixOption const& fix : options.fixes) fixes += " --fix " + fix.text;
  return (fixes.empty() ? ". This model" : ". With" + fixes + " this model") + " splits over " +
         std::to_string(request.gpus) + " GPUs only as " + text;
}

/// Bytes of parameters, gradients and optimizer state of a model that is held once.
struct ModelState {
  std::int64_t bytes = 0;
  bool is_least = false;  ///< no plan holds fewer on all its GPUs together
};

/// The state of a plan for one GPU, in which nothing is held twice or padded. If the model has no
/// such plan, an estimate: that of one replica of `config`, which counts what its tensor ranks or
/// stages replicate as often as they hold it.
ModelState state_of_model(SearchRequest const& request, TrainingConfig const& config) {
  ShapeChoice shape;
  shape.micro = config.batch.micro;
  LayerShares shares;
  shares.first = request.base.model.layers;
  Arrangement const one{shape, ScheduleChoice{}, shares};
  Sharding const sharding =
      config.sharding.has_units() ? default_sharding(config.sharding.kind) : Sharding{};
  TrainingConfig alone = make_config(request, one, {RecomputePolicy{}}, sharding);
  alone.batch.global = alone.batch.micro;
  if (problems_of(alone).empty()) {
    TrainingPlan const plan = make_plan(as_settled(alone));
    return {.bytes = resident_memory(plan.stages.front()).sum(), .is_least = true};
  }
  ModelState state;
  TrainingPlan const plan = make_plan(as_settled(config));
  for (StagePlan const& stage : plan.stages) {
    state.bytes += resident_memory(stage).sum() +
                   (stage.shards - 1) * stage.state_bytes(Category::optimizer).count();
  }
  state.bytes *= config.parallel.tensor;
  return state;
}

/// If parameters, gradients and optimizer state alone are too much: for how many accelerators they
/// are enough. Activations come on top.
std::string fewest_text(TrainingConfig const& config, PlanOptions const& options) {
  if (has_experts(config.model)) return {};  // an estimate would need how replicas split them
  std::int64_t const room = options.request.system.accelerator.memory.value.count() -
                            config.memory.kept_in_reserve().count() - options.request.margin;
  if (room <= 0) return {};
  ModelState const state = state_of_model(options.request, config);
  std::int64_t const fewest = (state.bytes + room - 1) / room;
  if (fewest <= options.request.gpus) return {};
  return ". Parameters, gradients and optimizer state alone are " +
         std::string{state.is_least ? "" : "about "} + gibibytes(state.bytes) +
         " GiB, which need " + (state.is_least ? "at least " : "about ") + std::to_string(fewest) +
         " of these GPUs (offloading is not searched)";
}

}  // namespace

std::string run_out_text(SearchResult const& result, PlanOptions const& options) {
  FoundPlan const& fastest = *result.fastest_to_run_out;
  StageResult const& stage =
      *std::ranges::min_element(fastest.simulation.stages, {}, &StageResult::margin);
  bool const is_one = result.run_out == 1;
  std::int64_t const margin = options.request.margin;
  std::int64_t const lacks = margin - stage.margin;
  return std::to_string(result.run_out) + (is_one ? " plan that fits" : " plans that fit") +
         " by counted bytes " + (is_one ? "is" : "are") + " left out, as " +
         (is_one ? "its allocator and what" : "their allocators and what") +
         " else is on the device " + (margin > 0 ? "leave less than the margin" : "need more") +
         ". " + (is_one ? "It takes " : "The fastest takes ") +
         decimals(to_seconds(fastest.simulation.iteration), 3) + " s and " +
         (lacks > 0                    ? "lacks " + readable_text(Bytes{lacks})
          : options.request.safety > 0 ? "is not as safe as --safety asks"
                                       : "has to empty its allocator's cache") +
         " on stage " + std::to_string(stage.stage);
}

std::string near_miss_text(SearchResult const& result, PlanOptions const& options) {
  std::string text = "nothing fits: of " + counted(result.considered, "plan") + " for " +
                     std::to_string(options.request.gpus) + " x " +
                     options.request.system.accelerator.name;
  if (result.run_out > 0)
    return text + ", some fit by counted bytes: " + run_out_text(result, options);
  if (!result.closest) return text + ", none is as safe as --safety asks";
  NearMiss const& miss = *result.closest;
  std::vector<RecomputePolicy> const policies{policy_of(miss.policy)};
  TrainingConfig const config =
      make_config(options.request, miss.arrangement, policies, miss.sharding);
  std::int64_t const margin = options.request.margin;
  std::string const kept = margin > 0 ? " less " + gibibytes(margin) + " of margin" : "";
  std::string const without =
      margin > 0 && miss.fits_without_margin ? "; without the margin it fits (--margin 0)" : "";
  return text + " the closest holds " + readable_text(Bytes{miss.excess}) + " too much on stage " +
         std::to_string(miss.stage.value()) + " (of " +
         gibibytes(options.request.system.accelerator.memory.value.count()) + " GiB" + kept +
         "): tensor " + std::to_string(config.parallel.tensor) +
         (config.parallel.sequence ? " with sequence parallelism" : "") + ", pipeline " +
         std::to_string(config.parallel.pipeline) + " x " +
         std::to_string(config.parallel.interleave) + ", data " +
         std::to_string(config.parallel.data) + ", microbatch " +
         std::to_string(config.batch.micro) +
         (config.parallel.context > 1 ? ", context " + std::to_string(config.parallel.context)
                                      : "") +
         experts_text(config) + ", " + std::string{name_of(config.schedule.kind)} + ", recompute " +
         recompute_text(config) + ", " +
         (miss.sharding.has_units()          ? "sharding " + sharding_text(miss.sharding)
          : miss.sharding.shares_optimizer() ? "optimizer state sharded"
                                             : "optimizer state not sharded") +
         without + shapes_text(options) + fewest_text(config, options);
}

}  // namespace stagecraft
