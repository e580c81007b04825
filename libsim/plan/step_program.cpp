#include "libsim/plan/step_program.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "libsim/plan/sharded_runs.hpp"

namespace stagecraft {
namespace {

/// Appends ops of the step to a stage.
class StepWriter {
 public:
  StepWriter(StagePlan& stage, TrainingPlan const& plan)
      : stage_{stage}, plan_{plan}, precision_{plan.config.model.precision} {}

  SharedRanges all() const { return SharedRanges{{{.first = 0, .count = stage_.parameters}}}; }

  /// Appends a computation, by default on the rank's own shard of the ranges.
  void compute(OpKind kind,
               Name name,
               TensorList reads,
               TensorList writes,
               SharedRanges ranges,
               OpAttributes const& attributes = {},
               bool own_shard = true,
               std::optional<ShardPart> part = {}) {
    std::int64_t const elements = part        ? part->count
                                  : own_shard ? optimizer_shard(stage_)
                                              : elements_of(ranges.get());
    StepOp op = op_of(kind, name, reads, writes, std::move(ranges));
    op.attributes = attributes;
    op.own_shard = own_shard;
    op.part = part;
    add_traffic(op, elements);
    issue(std::move(op));
  }

  /// Appends an op that writes `elements` of the master copies in 16 bits into `to`.
  void narrow(Name name, TensorId flag, TensorId to, SharedRanges ranges, std::int64_t elements) {
    StepOp op = op_of(OpKind::narrow_parameters, name, {step_tensor::master, flag}, {to},
                      std::move(ranges));
    op.own_shard = true;
    op.traffic = Bytes{elements *
                       (size_of(step_tensor::master) + element_size(activation_type(precision_)))};
    issue(std::move(op));
  }

  /// Appends an op that makes quantised copies. `traffic`: the bytes that it reads and writes.
  void quantise(Name name, TensorId from, SharedRanges ranges, Bytes traffic, bool own_shard) {
    StepOp op = op_of(OpKind::quantise_weights, name, {from}, {step_tensor::quantised_weights},
                      std::move(ranges));
    op.attributes = QuantiseAttributes{plan_.shape.quantisation.recipe};
    op.own_shard = own_shard;
    op.traffic = traffic;
    issue(std::move(op));
  }

  /// Appends what makes the quantised copies of the weights, for all microbatches that follow.
  void quantise_weights() {
    auto const copies =
        std::ranges::find(stage_.state, step_tensor::quantised_weights, &StateBuffer::tensor);
    if (copies == stage_.state.end()) return;
    Quantisation const& quantisation = plan_.shape.quantisation;
    int const reads = quantisation.traits().measures_first ? 2 : 1;
    quantise({"step", "quantise_weights"}, step_tensor::parameters, all(),
             reads * Bytes{stage_.quantised_parameters * size_of(step_tensor::parameters)} +
                 copies->bytes(),
             false);
  }

  /// Appends the update of a part of the own shard by the host. Its gradients go there, and what
  /// it has updated comes back as `updated` of the device.
  void update_on_host(ShardPart part,
                      SharedRanges const& decayed,
                      AdamAttributes const& numbers,
                      TensorId updated) {
    using namespace step_tensor;
    auto const on = [&](Stream stream, StepOp op) {
      op.stream = stream;
      op.own_shard = true;
      op.part = part;
      add_traffic(op, part.count);
      return op;
    };
    StepOp away = on(Stream::to_host, op_of(OpKind::copy_state, {"step", "gradients_to_host"},
                                            {gradients}, {host_gradients}, all()));
    away.payload = Bytes{part.count * size_of(gradients)};
    StepOp adam =
        on(Stream::host, op_of(OpKind::adam, {"step", "host_adam"},
                               {master, first_moment, second_moment, host_gradients, updates},
                               {master, first_moment, second_moment}, decayed));
    adam.attributes = numbers;
    StepOp back = on(Stream::from_host, op_of(OpKind::copy_state, {"step", "parameters_from_host"},
                                              {master}, {updated}, all()));
    back.payload = Bytes{part.count * size_of(updated)};
    issue(std::move(away));
    issue(std::move(adam));
    issue(std::move(back));
  }

  /// Appends a collective on whole ranges of a tensor, unless they are empty. `tensors`: how many
  /// parameters they hold, if the cost depends on it. `type`: that of what is moved, if it is not
  /// the tensor's.
  void move(OpKind kind,
            Name name,
            GroupId group,
            TensorId tensor,
            SharedRanges ranges,
            std::int32_t tensors = 0,
            std::optional<ElementType> type = {}) {
    std::int64_t const elements = elements_of(ranges.get());
    if (elements == 0) return;
    // A rank that keeps shards of gradients has only its own of what others have.
    bool const has_shards = tensor == step_tensor::gradients && plan_.config.sharding.has_units();
    std::int64_t const shards = has_shards ? stage_.shards : 1;
    StepOp op = op_of(kind, name, {tensor}, {tensor}, std::move(ranges));
    op.phase = Phase::data_parallel;
    op.group = group;
    std::int64_t const own = (elements + shards - 1) / shards;
    op.payload = type ? bytes_of(own, *type) : Bytes{own * size_of(tensor)};
    op.tensors = tensors;
    if (plan_.groups[group].holders) op.stream = Stream::data_parallel;
    issue(std::move(op));
  }

  /// Appends an all-reduce of a number, of the type in which gradients are summed.
  void agree(Name name, TensorId number, Reduction reduction) {
    StepOp op = op_of(OpKind::all_reduce, name, {number}, {number}, {});
    op.group = sums_norm_over_job(plan_) ? plan_.roles.job : plan_.roles.model;
    op.payload = Bytes{element_size(accumulation_type(precision_))};
    op.reduction = reduction;
    issue(std::move(op));
  }

  /// Appends the reduction of a number over the stages up to the own one.
  void reduce_so_far(Name name, TensorId number, TensorId so_far, Reduction reduction) {
    StepOp op = op_of(OpKind::prefix_reduce, name, {number}, {so_far}, {});
    op.group = sums_norm_over_job(plan_) ? plan_.roles.job : plan_.roles.model;
    op.payload = Bytes{element_size(accumulation_type(precision_))};
    op.reduction = reduction;
    issue(std::move(op));
  }

  /// All ops appended from here on validate a step that was taken ahead.
  void begin_validation() { validates_ = true; }

  void drain() {
    stage_.program.entries.push_back(
        {.kind = IssueEntry::Kind::drain, .microbatch = no_microbatch});
  }

 private:
  StepOp op_of(
      OpKind kind, Name name, TensorList reads, TensorList writes, SharedRanges ranges) const {
    StepOp op;
    op.kind = kind;
    op.name = name;
    op.phase = Phase::optimizer;
    op.module = "step";
    op.type = activation_type(precision_);
    op.reads = reads;
    op.writes = writes;
    op.ranges = std::move(ranges);
    return op;
  }

  void add_traffic(StepOp& op, std::int64_t elements) const {
    for (TensorList const* const operands : {&op.reads, &op.writes}) {
      for (TensorId const tensor : *operands) op.traffic += Bytes{elements * size_of(tensor)};
    }
  }

  /// Bytes of one parameter in a tensor.
  std::int64_t size_of(TensorId tensor) const {
    return is_number(tensor) ? 0 : element_size(stage_.state_of(tensor).type);
  }

  void issue(StepOp op) {
    Task task;
    task.kind = Task::Kind::step;
    task.stream = op.stream;
    if (op.group && plan_.groups.joins_stages(*op.group)) task.group = op.group;
    task.is_prefix = op.kind == OpKind::prefix_reduce;
    task.is_validation = validates_;
    task.op = static_cast<std::int32_t>(stage_.step_ops.size());
    stage_.program.entries.push_back(
        {.task = static_cast<std::int32_t>(stage_.tasks.size()), .microbatch = no_microbatch});
    stage_.tasks.push_back(task);
    stage_.step_ops.push_back(std::move(op));
  }

  StagePlan& stage_;
  TrainingPlan const& plan_;
  Precision precision_;
  bool validates_ = false;
};

void append_reductions_between_ranks(StepWriter& step,
                                     StagePlan const& stage,
                                     TrainingPlan const& plan,
                                     StageRanges const& ranges) {
  GroupRoles const& roles = plan.roles;
  auto const reduce = [&](Name name, GroupId group, SharedRanges const& reduced) {
    step.move(OpKind::all_reduce, name, group, step_tensor::gradients, reduced);
  };
  reduce({"step", "all_reduce_norm_gradients"}, roles.tensor, ranges.norm_gradients);
  if (roles.kv_replicas) {
    reduce({"step", "all_reduce_kv_gradients"}, *roles.kv_replicas, ranges.kv_gradients);
  }
  if (roles.embedding && !plan.groups.stages(*roles.embedding, stage.stage).empty()) {
    reduce({"step", "all_reduce_embedding_gradient"}, *roles.embedding, ranges.embedding);
  }
}

/// The pieces in which a stage's ranks hand what the host updates to it: one, or if transfers and
/// updates overlap, as many as the stage has blocks. Megatron-LM has one for each parameter.
std::int64_t host_pieces(StagePlan const& stage, TrainingPlan const& plan) {
  if (!plan.config.offload.overlap) return 1;
  std::size_t blocks = 0;
  for (StageChunk const& chunk : stage.chunks) {
    blocks += plan.programs.chunks[static_cast<std::size_t>(chunk.program)].blocks.size();
  }
  return static_cast<std::int64_t>(blocks);
}

/// Appends Adam. The host has the first elements of the rank's shard, if any; the device those
/// behind.
void append_adam(StepWriter& step,
                 StagePlan const& stage,
                 TrainingPlan const& plan,
                 SharedRanges const& decayed,
                 AdamAttributes const& numbers,
                 TensorId flag) {
  using namespace step_tensor;
  Offload const& offload = plan.config.offload;
  std::int64_t const shard = optimizer_shard(stage);
  std::int64_t const on_host = offloaded_elements(plan.config, shard);
  std::int64_t const pieces = on_host == 0 ? 0 : host_pieces(stage, plan);
  for (std::int64_t i = 0; i < pieces; ++i) {
    std::int64_t const first = on_host * i / pieces;
    step.update_on_host({.first = first, .count = on_host * (i + 1) / pieces - first}, decayed,
                        numbers, offload.keeps_master ? TensorId{master} : TensorId{parameters});
  }
  bool const keeps_master = has_master(plan.config);
  TensorId const updated = keeps_master ? master : parameters;
  std::optional<ShardPart> const on_device =
      on_host == 0 ? std::nullopt : std::optional<ShardPart>{{on_host, shard - on_host}};
  if (on_host < shard) {
    step.compute(OpKind::adam, {"step", "adam"},
                 {updated, first_moment, second_moment, gradients, updates, flag},
                 {updated, first_moment, second_moment}, decayed, numbers, true, on_device);
  }
  if (on_host > 0) step.drain();
  if (plan.shape.quantisation.replaces_weights) return;  // append_low_weights()
  if (!keeps_master || (on_host == shard && !offload.keeps_master)) return;
  // A step that is skipped has changed no master, from which parameters go back to what they
  // were.
  bool const steps_ahead = plan.config.schedule.step == StepSync::post_validated;
  step.compute(OpKind::narrow_parameters, {"step", "narrow_parameters"},
               {master, steps_ahead ? no_tensor : flag}, {parameters}, step.all(), {}, true,
               offload.keeps_master ? std::nullopt : on_device);
}

/// Elements of `ranges` in the shards that a rank keeps.
std::int64_t own_elements(StagePlan const& stage, ParameterRanges const& ranges) {
  std::int64_t sum = 0;
  for (ShardedRun const& run : stage.sharded_runs) {
    std::int64_t elements = 0;
    for (ParameterRange const& range : ranges) {
      std::int64_t const first = std::max(run.first, range.first);
      std::int64_t const end = std::min(run.first + run.count, range.first + range.count);
      elements += std::max(end - first, std::int64_t{0});
    }
    sum += shard_of(elements, run.shards, 1);
  }
  return sum;
}

/// Appends the ops that make parameters of master copies if those of linear layers are kept
/// quantised alone.
/// A rank quantises its shard, in the scale that all agree on, and quantised shards are gathered;
/// transposed copies are made after that. If blocks of scales differ between rows and columns,
/// shards are gathered in 16 bits, in place of gradients, and quantised whole.
/// Source: Transformer Engine, pytorch/tensor/utils.py, cast_master_weights_to_fp8; Megatron-LM,
/// core/distributed/param_and_grad_buffer.py, shared_buffer.
void append_low_weights(StepWriter& step,
                        StagePlan const& stage,
                        TrainingPlan const& plan,
                        StageRanges const& ranges,
                        TensorId flag) {
  using namespace step_tensor;
  Quantisation const& quantisation = plan.shape.quantisation;
  ElementType const narrow = activation_type(plan.config.model.precision);
  ElementType const low = quantisation.traits().elements;
  std::int64_t const all = stage.quantised_parameters;
  std::int64_t const own = own_elements(stage, ranges.low.get());
  bool const gathers_low = quantisation.gathers_low_weights();
  step.narrow({"step", "narrow_parameters"}, flag, parameters, ranges.high,
              optimizer_shard(stage) - own);
  if (gathers_low) {
    // A scale that follows from earlier steps is known before the elements are read.
    bool const is_known = quantisation.is_per_tensor() && !quantisation.traits().measures_first;
    Bytes const read = (is_known ? 1 : 2) * bytes_of(own, stage.state_of(master).type);
    step.quantise({"step", "quantise_weights"}, master, ranges.low, read + bytes_of(own, low),
                  true);
  } else {
    step.narrow({"step", "narrow_weights"}, flag, gradients, ranges.low, own);
  }
  for (GatheredRanges const& gathered : ranges.gathered) {
    HolderCollectives const& names = *plan.groups[gathered.group].holders;
    step.move(OpKind::all_gather, {"step", names.all_gather}, gathered.group, parameters,
              gathered.ranges, gathered.parameters);
    step.move(OpKind::all_gather, {"step", names.gather_low}, gathered.group,
              gathers_low ? TensorId{quantised_weights} : TensorId{gradients}, gathered.low,
              gathered.low_parameters, gathers_low ? low : narrow);
  }
  if (stage.shards > 1) step.drain();
  if (!gathers_low) {
    step.quantise({"step", "quantise_weights"}, gradients, ranges.low,
                  bytes_of(all, narrow) + stage.state_of(quantised_weights).bytes(), false);
  } else if (quantisation.keeps_two_copies()) {
    step.quantise({"step", "transpose_weights"}, quantised_weights, ranges.low,
                  2 * bytes_of(all, low), false);
  }
}

void append_optimizer(StepWriter& step,
                      StagePlan const& stage,
                      TrainingPlan const& plan,
                      StageRanges const& ranges) {
  using namespace step_tensor;
  Precision const precision = plan.config.model.precision;
  Hyperparameters const& numbers = plan.config.training;
  bool const shares_all = plan.config.sharding.shares_parameters();
  // Only fp16 steps look for infinities.
  TensorId const flag = precision == Precision::fp16 ? overflow : no_tensor;
  bool const steps_ahead = plan.config.schedule.step == StepSync::post_validated;
  auto const agree_on_overflow = [&] {
    if (flag == no_tensor) return;
    step.agree({"step", "all_reduce_found_infinity"}, flag, Reduction::maximum);
  };
  AdamAttributes const adam_numbers{.learning_rate = numbers.learning_rate,
                                    .beta1 = numbers.beta1,
                                    .beta2 = numbers.beta2,
                                    .epsilon = numbers.epsilon,
                                    .weight_decay = numbers.weight_decay};
  if (flag != no_tensor) {
    step.compute(OpKind::unscale_gradients, {"step", "unscale"}, {gradients, loss_scale},
                 {gradients, flag}, step.all());
    if (!steps_ahead) agree_on_overflow();
  }
  step.compute(OpKind::gradient_norm, {"step", "gradient_norm"}, {gradients}, {squares},
               ranges.counted);
  if (steps_ahead) {
    TensorId const flag_so_far = flag == no_tensor ? no_tensor : TensorId{overflow_so_far};
    if (flag != no_tensor) {
      step.reduce_so_far({"step", "reduce_found_infinity_so_far"}, flag, overflow_so_far,
                         Reduction::maximum);
    }
    step.reduce_so_far({"step", "reduce_gradient_norm_so_far"}, squares, squares_so_far,
                       Reduction::sum);
    step.compute(
        OpKind::adam_ahead, {"step", "adam_ahead"},
        {master, first_moment, second_moment, gradients, updates, squares_so_far, flag_so_far},
        {parameters}, ranges.decayed,
        AdamAheadAttributes{adam_numbers, ClipAttributes{numbers.clip}});
    step.begin_validation();
    agree_on_overflow();
  }
  step.agree({"step", "all_reduce_gradient_norm"}, squares, Reduction::sum);
  step.compute(OpKind::clip_gradients, {"step", "clip"}, {gradients, squares, flag}, {gradients},
               step.all(), ClipAttributes{numbers.clip});
  append_adam(step, stage, plan, ranges.decayed, adam_numbers, flag);
  if (plan.shape.quantisation.replaces_weights) {
    return append_low_weights(step, stage, plan, ranges, flag);
  }
  if (stage.shards == 1 || shares_all) return step.quantise_weights();  // units gather
  for (GatheredRanges const& gathered : ranges.gathered) {
    step.move(OpKind::all_gather, {"step", plan.groups[gathered.group].holders->all_gather},
              gathered.group, parameters, gathered.ranges, gathered.parameters);
  }
  step.drain();
  step.quantise_weights();
}

}  // namespace

void append_begin_of_step(StagePlan& stage, TrainingPlan const& plan) {
  StepWriter step{stage, plan};
  // Sharded units make their gradients anew.
  if (!plan.config.sharding.has_units()) {
    step.compute(OpKind::zero_gradients, {"step", "zero_gradients"}, {}, {step_tensor::gradients},
                 step.all(), {}, false);
  }
  auto const counters = std::ranges::find(stage.state, step_tensor::counters, &StateBuffer::tensor);
  if (counters == stage.state.end()) return;
  step.compute(OpKind::zero_gradients, {"step", "zero_counters"}, {}, {step_tensor::counters},
               SharedRanges{{{.first = 0, .count = counters->elements}}}, {}, false);
}

void append_gradient_reduction(StagePlan& stage,
                               TrainingPlan const& plan,
                               ParameterRange const& bucket) {
  if (plan.config.sharding.has_units()) return;  // units reduce
  StepWriter step{stage, plan};
  TensorId const gradients = step_tensor::gradients;
  // The ranks that split a sequence have parts of a replica's gradient, which are summed unscaled.
  step.compute(OpKind::scale_gradients, {"step", "scale_gradients"}, {gradients}, {gradients},
               SharedRanges{{bucket}}, ScaleAttributes{1.0 / plan.config.parallel.data}, false);
  bool const is_sharded = plan.config.sharding.shares_optimizer();
  for (GroupId const group : plan.gradient_groups()) {
    if (plan.groups.members(group) == 1) continue;
    ParameterRanges runs;
    for (ShardedRun const& run : stage.sharded_runs) {
      if (run.holders != group) continue;
      if (is_sharded) {
        // A run is reduced as a whole, once its first parameters are.
        bool const begins_here =
            run.first >= bucket.first && run.first < bucket.first + bucket.count;
        if (begins_here) runs.push_back({run.first, run.count});
        continue;
      }
      std::int64_t const first = std::max(run.first, bucket.first);
      std::int64_t const end = std::min(run.first + run.count, bucket.first + bucket.count);
      if (first < end) runs.push_back({first, end - first});
    }
    HolderCollectives const& names = *plan.groups[group].holders;
    step.move(is_sharded ? OpKind::reduce_scatter : OpKind::all_reduce,
              {"step", is_sharded ? names.reduce_scatter : names.all_reduce}, group, gradients,
              SharedRanges{std::move(runs)});
  }
}

void append_end_of_step(StagePlan& stage, TrainingPlan const& plan, StageRanges const& ranges) {
  if (!overlaps_gradients(plan.config)) {
    append_gradient_reduction(stage, plan, {.first = 0, .count = stage.parameters});
  }
  StepWriter step{stage, plan};
  std::vector<GroupId> const groups = plan.gradient_groups();
  bool const is_reduced = std::any_of(
      groups.begin(), groups.end(), [&](GroupId group) { return plan.groups.members(group) > 1; });
  if (is_reduced) step.drain();
  append_reductions_between_ranks(step, stage, plan, ranges);
  append_optimizer(step, stage, plan, ranges);
}

}  // namespace stagecraft
