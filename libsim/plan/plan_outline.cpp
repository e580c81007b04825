#include "libsim/plan/plan_outline.hpp"

#include <utility>

#include "libsim/plan/received_rows.hpp"
#include "libsim/plan/state_buffers.hpp"
#include "libsim/program/low_library.hpp"

namespace stagecraft {
namespace {

/// Sets the levels of context parallelism.
void split_sequences(TrainingPlan& plan) {
  ParallelLayout const& layout = plan.config.parallel;
  ContextLevel const outer{layout.context / layout.context_inner,
                           plan.roles.context.value_or(GroupId{})};
  if (layout.context_method == ContextMethod::ulysses) {
    plan.shape.exchange = outer;
    return;
  }
  plan.shape.exchange = {layout.context_inner, plan.roles.context_inner.value_or(GroupId{})};
  plan.shape.keys = outer;
  plan.shape.gathers_keys = layout.context_method == ContextMethod::all_gather;
  plan.shape.contiguous_keys = layout.context_method == ContextMethod::contiguous_ring;
}

Quantisation quantisation_of(TrainingConfig const& config) {
  LowPrecision const& low = config.low_precision;
  RecipeTraits const* const recipe = find_recipe(low.recipe);
  if (recipe == nullptr) return {};
  bool const is_hybrid =
      low.format == LowFormat::automatic ? recipe->is_hybrid : low.format == LowFormat::hybrid;
  LibraryTraits const& library = traits_of(low.implementation);
  bool const sends_low = low.dispatch == LowOrHigh::low;
  // torchtitan gathers operands of the tensor group in 8 bits if they have one scale, on which the
  // group agrees then: max() of a DTensor is that of all its shards. Backward has what was
  // gathered.
  bool const is_per_tensor = recipe->scaling == Scaling::tensor;
  bool const shares = config.parallel.sequence && config.parallel.tensor > 1;
  return {
      .recipe = low.recipe,
      .gradients = is_hybrid ? ElementType::f8_e5m2 : recipe->elements,
      .transposes = config.stack.sums_along_rows,
      .replaces_weights = low.parameters == LowOrHigh::low,
      .casts_again = library.casts_again,
      .casts_weights = library.casts_weights,
      .keeps_high_inputs = library.casts_weights && !(is_per_tensor && shares),
      .gathers_high = gathers_high(library, *recipe),
      .agrees_on_scales = library.casts_weights,
      .has_low_units = config.sharding.parameter_dtype == UnitType::low,
      .sends_low = sends_low,
      .sends_low_gradients = sends_low && library.sends_low_gradients,
      .attends_low = low.attention,
      .heads_low = low.head,
      .keeps_high_gradients = low.keep_high.wgrad,
      .stores_activation_input = low.activation_input,
      .fuses_activation = library.fuses_activation,
      .transposes_weights = library.transposes_weights && low.transposes != KeptTransposes::keep,
      .narrows_context = library.narrows_context,
      .shares_casts = sends_low && library.shares_casts};
}

}  // namespace

TrainingPlan make_outline(TrainingConfig const& config) {
  TrainingPlan plan;
  plan.config = config;
  plan.forced = forced_routing(config);
  auto [groups, roles] = make_groups(config);
  plan.groups = std::move(groups);
  plan.roles = roles;
  plan.shape = {
      .model = config.model,
      .tensor = config.parallel.tensor,
      .sequence_parallel = config.parallel.sequence && config.parallel.tensor > 1,
      .micro = config.batch.micro,
      .tensor_group = roles.tensor,
      .expert = config.parallel.expert,
      .expert_tensor = config.parallel.expert_tensor,
      .narrow_gradients = gradient_type(config) != accumulation_type(config.model.precision),
      .quantisation = quantisation_of(config),
      .capacity = config.routing.capacity.value_or(0),
      .is_of_microbatch = config.routing.is_of_microbatch,
      .gathers = config.dispatch == Dispatch::allgather,
      .sends_once = config.dispatch == Dispatch::deepep,
      .overlaps_shared = config.parallel.shared_expert_overlap,
      .pads_experts = config.routing.pads,
      .drop = config.routing.drop,
      .is_natural = config.routing.is_natural,
      .forced = plan.forced.get(),
      .kv_group = roles.kv_replicas.value_or(GroupId{}),
      .expert_group = roles.expert.value_or(GroupId{}),
      .expert_tensor_group = roles.expert_tensor.value_or(GroupId{}),
      .dispatch_group = roles.dispatch.value_or(GroupId{}),
      .expert_holders = roles.expert_gradients.value_or(GroupId{}),
      .replicas = config.parallel.data,
      .stage_group = roles.stage.value_or(GroupId{})};
  split_sequences(plan);
  return plan;
}

}  // namespace stagecraft
