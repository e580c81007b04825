#include "libsim/modules/experts/token_dispatch.hpp"

/// The dispatcher that gathers the tokens of all ranks of an expert group. Each rank computes the
/// tokens that chose its experts.
///
/// Sums on the way back have the type of the probabilities.
/// Source: Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py,
/// MoEAllGatherTokenDispatcher.
namespace stagecraft {
namespace {

/// Whether a tensor is of the tokens of a rank, or of all ranks whose tokens reach its experts.
enum class Span : std::uint8_t { rank, group };

Shape hidden_of(BlockShape const& shape, Span span) {
  std::int64_t const ranks = span == Span::group ? shape.dispatch_ranks() : 1;
  return {ranks * shape.local_sequence(), shape.micro, shape.model.hidden};
}

/// A shape with another first extent.
Shape with_first(Shape const& shape, std::int64_t first) {
  switch (shape.rank()) {
    case 1:
      return {first};
    case 2:
      return {first, shape[1]};
    default:
      return {first, shape[1], shape[2]};
  }
}

/// Gathers the rank's part into the tensor of all ranks.
TensorId gather(ProgramBuilder& builder, Name op, Phase phase, TensorId part, Name whole) {
  BlockShape const& shape = builder.shape();
  Tensor const from = builder.tensor(part);
  TensorId const made =
      builder.make(whole, with_first(from.shape, from.shape[0] * shape.dispatch_ranks()), from.type,
                   Category::communication);
  builder.collective(OpKind::all_gather, op, phase, part, made, made, shape.dispatch_group);
  return made;
}

/// The rank's part of the sum over all ranks.
TensorId scatter(
    ProgramBuilder& builder, Name op, Phase phase, TensorId whole, Name part, Category category) {
  BlockShape const& shape = builder.shape();
  Tensor const from = builder.tensor(whole);
  TensorId const made = builder.make(
      part, with_first(from.shape, from.shape[0] / shape.dispatch_ranks()), from.type, category);
  builder.collective(OpKind::reduce_scatter, op, phase, whole, made, whole, shape.dispatch_group);
  return made;
}

bool is_widened(ProgramBuilder const& builder) {
  return accumulation_type(builder.shape().model.precision) != builder.type();
}

/// A copy in the type of the probabilities, or the tensor itself if it has that type.
TensorId widened(ProgramBuilder& builder, Name op, Phase phase, TensorId x, Name wide) {
  if (!is_widened(builder)) return x;
  Shape const extents = builder.tensor(x).shape;  // a copy: make() moves the tensors
  TensorId const made = builder.make(
      wide, extents, accumulation_type(builder.shape().model.precision), Category::communication);
  builder.add(OpKind::widen_logits, op, phase, {x}, {made});
  return made;
}

/// A copy in the type of activations, or the tensor itself if it has that type.
TensorId narrowed(ProgramBuilder& builder, Name op, Phase phase, TensorId x, Name narrow) {
  if (!is_widened(builder)) return x;
  Shape const extents = builder.tensor(x).shape;
  TensorId const made = builder.make(narrow, extents);
  builder.add(OpKind::narrow_logits, op, phase, {x}, {made});
  return made;
}

}  // namespace

Dispatched gathering_dispatch_forward(ProgramBuilder& builder,
                                      TensorId x,
                                      TensorId probabilities,
                                      TensorId map) {
  BlockShape const& shape = builder.shape();
  Phase const phase = Phase::forward;
  TensorId const all_map =
      gather(builder, {"dispatch", "all_gather_map"}, phase, map, {"dispatch", "gathered_map"});
  TensorId const all_probabilities =
      gather(builder, {"dispatch", "all_gather_probabilities"}, phase, probabilities,
             {"dispatch", "gathered_probabilities"});
  TensorId const all_x =
      gather(builder, {"dispatch", "all_gather_tokens"}, phase, x, {"dispatch", "gathered_tokens"});
  std::int64_t const local = shape.local_experts();
  RowPlaces places;
  places.row_map =
      builder.make({"dispatch", "row_map"},
                   {shape.dispatch_ranks() * shape.tokens(), 2 * local + 1}, ElementType::i32);
  if (shape.is_uneven()) {
    places.received = builder.make({"dispatch", "received_counts"}, {local}, ElementType::i32);
    builder.add(OpKind::count_rows, {"dispatch", "count"}, phase, {all_map}, {places.received});
    places.computed = places.received;
  }
  RowTensors rows;
  rows.rows = builder.of_experts(
      builder.make({"dispatch", "rows"}, {shape.computed_rows(), shape.model.hidden}));
  rows.probabilities =
      builder.of_experts(builder.make({"dispatch", "probabilities"}, {shape.computed_rows()},
                                      accumulation_type(shape.model.precision)));
  builder.add(OpKind::permute, {"dispatch", "permute"}, phase, {all_x, all_probabilities, all_map},
              {rows.rows, rows.probabilities, places.row_map});
  return {rows, places};
}

TokenGradients gathering_dispatch_backward(ProgramBuilder& builder,
                                           RowTensors const& gradients,
                                           RowPlaces const& places,
                                           TensorId /*x*/) {
  BlockShape const& shape = builder.shape();
  Phase const phase = Phase::input_gradient;
  Category const category = Category::communication;
  TensorId const all_x = builder.make({"dispatch_gradient", "gathered_tokens"},
                                      hidden_of(shape, Span::group), builder.type(), category);
  TensorId const all_probabilities =
      builder.make({"dispatch_gradient", "gathered_probabilities"},
                   {shape.dispatch_ranks() * shape.tokens(), shape.model.experts->count},
                   accumulation_type(shape.model.precision), category);
  builder.add(OpKind::permute_backward, {"dispatch", "permute_backward"}, phase,
              {gradients.rows, gradients.probabilities, places.row_map},
              {all_x, all_probabilities});
  TokenGradients made;
  made.x = scatter(builder, {"dispatch_gradient", "reduce_scatter_tokens"}, phase, all_x,
                   {"dispatch_gradient", "input"}, Category::activations);
  made.probabilities =
      scatter(builder, {"dispatch_gradient", "reduce_scatter_probabilities"}, phase,
              all_probabilities, {"dispatch_gradient", "probabilities"}, Category::activations);
  return made;
}

TensorId gathering_combine_forward(ProgramBuilder& builder,
                                   TensorId rows,
                                   RowPlaces const& places) {
  BlockShape const& shape = builder.shape();
  Phase const phase = Phase::forward;
  TensorId const all = builder.make({"combine", "gathered_output"}, hidden_of(shape, Span::group),
                                    builder.type(), Category::communication);
  builder.add(OpKind::unpermute, {"combine", "unpermute"}, phase, {rows, places.row_map}, {all});
  TensorId const wide =
      widened(builder, {"combine", "widen"}, phase, all, {"combine", "wide_gathered_output"});
  TensorId const part =
      scatter(builder, {"combine", "reduce_scatter_tokens"}, phase, wide,
              {"combine", is_widened(builder) ? "wide_output" : "output"},
              is_widened(builder) ? Category::communication : Category::activations);
  return narrowed(builder, {"combine", "narrow"}, phase, part, {"combine", "output"});
}

TensorId gathering_combine_backward(ProgramBuilder& builder, TensorId dy, RowPlaces const& places) {
  BlockShape const& shape = builder.shape();
  Phase const phase = Phase::input_gradient;
  TensorId const wide = widened(builder, {"combine_gradient", "widen"}, phase, dy,
                                {"combine_gradient", "wide_tokens"});
  TensorId const all = gather(builder, {"combine_gradient", "all_gather_tokens"}, phase, wide,
                              {"combine_gradient", "gathered_tokens"});
  TensorId const narrow = narrowed(builder, {"combine_gradient", "narrow"}, phase, all,
                                   {"combine_gradient", "narrow_gathered_tokens"});
  TensorId const rows = builder.of_experts(
      builder.make({"combine_gradient", "rows"}, {shape.computed_rows(), shape.model.hidden}));
  builder.add(OpKind::unpermute_backward, {"combine", "unpermute_backward"}, phase,
              {narrow, places.row_map}, {rows});
  return rows;
}

}  // namespace stagecraft
