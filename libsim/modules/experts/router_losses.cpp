#include "libsim/modules/experts/router_losses.hpp"

#include "libsim/model/recompute_regions.hpp"

namespace stagecraft {
namespace {

RouterLossAttributes losses_of(BlockShape const& shape) {
  ExpertsConfig const& experts = *shape.model.experts;
  RouterConfig const& router = experts.router;
  bool const is_by_sequence = router.loss == RouterLoss::sequence_auxiliary;
  return {.score = router.score,
          .per_token = experts.per_token,
          .sequences = is_by_sequence ? shape.micro : 1,
          .tokens = shape.model.sequence * shape.micro,
          .replicas = router.counts_over_batch() ? shape.replicas : 1,
          .balance = router.loss == RouterLoss::none ? 0 : router.loss_coefficient,
          .size = router.z_loss};
}

/// Sums counts over all ranks that have tokens of the same microbatch.
void sum_counts(ProgramBuilder& builder, TensorId counts) {
  BlockShape const& shape = builder.shape();
  if (shape.sequence_parallel) {
    builder.collective(OpKind::all_reduce, {"router", "all_reduce_counts"}, Phase::forward, counts,
                       counts, counts, Overlap::none);
  }
  for (ContextLevel const& level : {shape.exchange, shape.keys}) {
    if (level.ranks == 1) continue;
    builder.collective(OpKind::all_reduce, {"router", "all_reduce_context_counts"}, Phase::forward,
                       counts, counts, counts, level.group);
  }
}

/// Appends the mean of all ranks' counts over the microbatches so far.
TensorId average_counts(ProgramBuilder& builder, TensorId counts, TensorId counter) {
  BlockShape const& shape = builder.shape();
  if (shape.token_ranks() * shape.replicas > 1) {
    builder.collective(OpKind::all_reduce, {"router", "all_reduce_batch_counts"}, Phase::forward,
                       counts, counts, counts, shape.stage_group);
  }
  Tensor const of_microbatch = builder.tensor(counts);
  TensorId const mean =
      builder.make({"router", "mean_counts"}, of_microbatch.shape, of_microbatch.type);
  builder.add(OpKind::average_choices, {"router", "average_choices"}, Phase::forward, {counts},
              {counter, mean});
  return mean;
}

}  // namespace

RouterLosses make_router_losses(ProgramBuilder& builder) {
  ExpertsConfig const& experts = *builder.shape().model.experts;
  RouterLosses losses;
  if (experts.router.counts_over_batch()) {
    losses.counter = builder.counter({"router", "counter"}, {experts.count + 1});
  }
  return losses;
}

void router_losses_forward(ProgramBuilder& builder, RouterLosses& losses, TensorId logits) {
  BlockShape const& shape = builder.shape();
  RouterLossAttributes const attributes = losses_of(shape);
  if (attributes.balance == 0 && attributes.size == 0) return;
  ElementType const wide = accumulation_type(shape.model.precision);
  losses.logits = logits;
  if (attributes.balance > 0) {
    bool const is_over_batch = losses.counter != no_tensor;
    if (is_over_batch) builder.begin_module(batch_counts_module);
    losses.counts = builder.make({"router", "counts"},
                                 {attributes.sequences, shape.model.experts->count}, wide);
    builder.add(OpKind::count_choices, {"router", "count_choices"}, Phase::forward, {logits},
                {losses.counts}, attributes);
    if (is_over_batch) {
      losses.counts = average_counts(builder, losses.counts, losses.counter);
      builder.begin_module("router");
    } else {
      sum_counts(builder, losses.counts);
    }
  }
  TensorId const loss = builder.make({"router", "loss"}, {1}, wide);
  builder.add(OpKind::router_loss, {"router", "loss"}, Phase::forward, {logits, losses.counts},
              {loss}, attributes);
}

void router_losses_backward(ProgramBuilder& builder,
                            RouterLosses const& losses,
                            TensorId d_logits) {
  if (losses.logits == no_tensor) return;
  builder.add(OpKind::router_loss_backward, {"router", "loss_backward"}, Phase::input_gradient,
              {d_logits, losses.logits, losses.counts}, {d_logits}, losses_of(builder.shape()));
}

}  // namespace stagecraft
