#include "libexec/executor/step_runner.hpp"

#include <algorithm>
#include <stdexcept>

namespace stagecraft {
namespace {

constexpr int doubling_interval = 1000;  ///< steps without overflow; Megatron's loss_scale_window

}  // namespace

StepRunner::StepRunner(RankContext const& context, ParameterStore const& parameters)
    : context_{context}, parameters_{parameters}, ops_{context} {}

void StepRunner::begin_iteration() {
  overflow_ = 0;
  squares_ = {};
  overflow_so_far_ = 0;
  squares_so_far_ = {};
  if (!has_copies_) quantise_weights();
  has_copies_ = true;
}

void StepRunner::end_iteration() {
  TrainingState& state = context_.state;
  if (!was_skipped()) ++state.updates;
  if (context_.plan.config.model.precision != Precision::fp16) return;
  if (was_skipped()) {
    state.loss_scale = std::max(1.0, state.loss_scale / 2);
    state.steps_since_overflow = 0;
  } else if (++state.steps_since_overflow == doubling_interval) {
    state.loss_scale *= 2;
    state.steps_since_overflow = 0;
  }
}

void StepRunner::run(Task const& task) {
  StepOp const& op = context_.program.step_ops[static_cast<std::size_t>(task.op)];
  if (!is_collective(op.kind)) {
    launch(op);
    return;
  }
  ops_.start(op, {}, collectives_of(op));
  // A collective on a stream of its own is waited for when the plan drains that stream.
  if (op.stream == Stream::compute) ops_.finish();
}

void StepRunner::launch(StepOp const& op) {
  ops_.compute(op, {}, [&] {
    if (op.kind == OpKind::gradient_norm && context_.has_copy_of_shards()) return;
    if (op.kind == OpKind::quantise_weights) return quantise_weights();
    for (ParameterRange const& range : op.ranges) {
      if (is_replica(range.shares, context_.positions())) continue;
      if (!op.own_shard) {
        context_.backend.run(call_of(op, range, {.first = range.first, .count = range.count}));
        continue;
      }
      for (OwnedRun const& run : parameters_.owned(range.first, range.count)) {
        context_.backend.run(call_of(op, range, run));
      }
    }
  });
}

void StepRunner::quantise_weights() {
  QuantiseAttributes const how{context_.plan.shape.quantisation.recipe};
  for (StageChunk const& chunk : context_.program.chunks) {
    std::vector<std::int32_t> const& blocks =
        context_.programs.chunks[static_cast<std::size_t>(chunk.program)].blocks;
    for (std::size_t position = 0; position < blocks.size(); ++position) {
      BlockProgram const& block =
          context_.programs.blocks[static_cast<std::size_t>(blocks[position])];
      auto const operand = [&](TensorId id) {
        Tensor const& tensor = block.tensor(id);
        return Operand{.data = parameters_.data_of(chunk.program, position, id),
                       .type = tensor.type,
                       .shape = tensor.shape,
                       .strides = {},
                       .scales = tensor.scales};
      };
      for (QuantisedWeight const& kept : block.quantised_weights) {
        KernelCall call;
        call.kind = OpKind::quantise;
        call.name = block.tensor(kept.weight).name;
        call.attributes = how;
        call.reads.push_back(operand(kept.weight));
        for (TensorId const copy : {kept.rows, kept.columns}) {
          if (copy != no_tensor) call.writes.push_back(operand(copy));
        }
        context_.backend.run(call);
      }
    }
  }
}

KernelCall StepRunner::call_of(StepOp const& op, ParameterRange const& range, OwnedRun const& run) {
  KernelCall call;
  call.kind = op.kind;
  call.name = op.name;
  call.attributes = op.attributes;
  auto const operand = [&](TensorId tensor) {
    return (is_number(tensor) ? number(tensor) : parameters_.part(tensor, run)).operand();
  };
  for (TensorId const tensor : op.reads) call.reads.push_back(operand(tensor));
  for (TensorId const tensor : op.writes) call.writes.push_back(operand(tensor));
  call.decays = range.decays;
  return call;
}

FlatRange StepRunner::number(TensorId tensor) {
  switch (tensor) {
    case step_tensor::loss_scale:
      return {&context_.state.loss_scale, ElementType::f64, 1};
    case step_tensor::updates:
      return {&context_.state.updates, ElementType::i64, 1};
    case step_tensor::overflow:
      return {&overflow_, ElementType::f32, 1};
    case step_tensor::squares:
      return {&squares_, ElementType::i64, static_cast<std::int64_t>(squares_.words().size())};
    case step_tensor::overflow_so_far:
      return {&overflow_so_far_, ElementType::f32, 1};
    case step_tensor::squares_so_far:
      return {&squares_so_far_, ElementType::i64,
              static_cast<std::int64_t>(squares_so_far_.words().size())};
    default:
      throw std::logic_error{to_string(step_tensors.at(static_cast<std::size_t>(tensor)).name) +
                             " is not a number"};
  }
}

std::vector<FlatRange> StepRunner::ranges_of(StepOp const& op) const {
  // Units have left the rank its own shards of gradients alone.
  bool const is_cut =
      op.reads[0] == step_tensor::gradients && context_.plan.config.sharding.has_units();
  std::vector<FlatRange> ranges;
  for (ParameterRange const& range : op.ranges) {
    if (!is_cut) {
      ranges.push_back(parameters_.tensor(op.reads[0]).part(range.first, range.count));
      continue;
    }
    for (OwnedRun const& run : parameters_.owned(range.first, range.count)) {
      ranges.push_back(parameters_.part(op.reads[0], run));
    }
  }
  return ranges;
}

std::vector<Collective> StepRunner::collectives_of(StepOp const& op) {
  TensorId const tensor = op.reads[0];
  if (is_number(tensor)) {
    FlatRange const numbers = number(tensor);
    RankGroups const& groups = context_.plan.groups;
    int const stages =
        op.kind == OpKind::prefix_reduce
            ? static_cast<int>(groups.stages(*op.group, groups.stage_of(context_.rank)).size())
            : 1;
    return {{.type = numbers.type,
             .source = numbers.data,
             .target = number(op.writes[0]).data,
             .elements = numbers.elements,
             .members_together = groups.members(*op.group) / stages,
             .in_host_memory = true}};
  }
  GroupMembership const group =
      context_.plan.groups.membership(op.group.value(), context_.rank).value();
  std::vector<Collective> collectives;
  for (FlatRange const& whole : ranges_of(op)) {
    Collective collective{.type = whole.type,
                          .source = whole.data,
                          .target = whole.data,
                          .elements = whole.elements,
                          .piece = (whole.elements + group.size() - 1) / group.size()};
    void* const own = whole.part(collective.piece_begin(group.member), 0).data;
    if (op.kind == OpKind::reduce_scatter) collective.target = own;
    if (op.kind == OpKind::all_gather) collective.source = own;
    collectives.push_back(collective);
  }
  return collectives;
}

}  // namespace stagecraft
