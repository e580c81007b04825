#include "libsim/modules/experts/token_dispatch.hpp"
#include "libsim/modules/hidden_shapes.hpp"
#include "libsim/modules/quantised_operands.hpp"
#include "libsim/program/unique_tokens.hpp"

/// How tokens reach their experts if each is sent once to every rank that has some of them. They
/// are permuted there, and the outputs of the experts are summed there before they are sent back.
/// Source: deepseek-ai/DeepEP, intranode and internode dispatch and combine; Megatron-LM,
/// token_dispatcher.py, _DeepepManager.
namespace stagecraft {
namespace {

/// A tensor with a row for each token that the rank sends, or receives; with its scales, if it is
/// quantised.
TensorId make_sent(ProgramBuilder& builder, Name name, std::int64_t width, ElementType type) {
  BlockShape const& shape = builder.shape();
  TensorId const made = with_row_scales(
      builder, builder.make(name, {sent_tokens(shape), width}, type, Category::communication));
  return builder.uses_rows(made, expected_sent_tokens(shape));
}

TensorId make_received(ProgramBuilder& builder,
                       Name name,
                       std::int64_t width,
                       ElementType type,
                       Category category = Category::communication) {
  BlockShape const& shape = builder.shape();
  TensorId const made =
      with_row_scales(builder, builder.make(name, {received_tokens(shape), width}, type, category));
  return builder.uses_rows(made, expected_received_tokens(shape));
}

/// Sends tokens [n, width] to the ranks of their experts, or the experts' sums back.
TensorId send(ProgramBuilder& builder,
              Name op,
              Phase phase,
              TensorId tokens,
              Name arrived,
              RowPlaces const& places,
              bool to_experts) {
  BlockShape const& shape = builder.shape();
  Tensor const from = builder.tensor(tokens);
  TensorId const made = to_experts ? make_received(builder, arrived, from.shape[1], from.type)
                                   : make_sent(builder, arrived, from.shape[1], from.type);
  Op& sent =
      builder.collective(OpKind::all_to_all, op, phase, tokens, made, tokens, shape.dispatch_group);
  sent.reads.push_back(to_experts ? places.sent_tokens : places.received_tokens);
  sent.reads.push_back(to_experts ? places.received_tokens : places.sent_tokens);
  // The payload is what a rank has; how often it is sent depends on the ranks and nodes of the
  // group.
  sent.attributes = exchange_of_tokens(shape);
  sent.payload = Bytes{shape.tokens() * (from.bytes().count() / from.shape[0])};
  return made;
}

/// Appends the exchange by which each rank learns how many tokens arrive from each rank.
void exchange_counts(ProgramBuilder& builder, RowPlaces& places) {
  BlockShape const& shape = builder.shape();
  places.received_tokens = builder.make({"dispatch", "received_token_counts"},
                                        {shape.dispatch_ranks()}, ElementType::i32);
  Op& op = builder.collective(OpKind::all_to_all, {"dispatch", "all_to_all_counts"}, Phase::forward,
                              places.sent_tokens, places.received_tokens, places.received_tokens,
                              shape.dispatch_group);
  op.attributes = exchange_of_tokens(shape);
}

}  // namespace

Dispatched sending_dispatch_forward(ProgramBuilder& builder,
                                    TensorId x,
                                    TensorId probabilities,
                                    TensorId map) {
  BlockShape const& shape = builder.shape();
  Phase const phase = Phase::forward;
  ElementType const wide = accumulation_type(shape.model.precision);
  std::int64_t const hidden = shape.model.hidden;
  std::int64_t const local = shape.local_experts();
  // A token is quantised once, however many ranks it goes to.
  bool const is_high = !is_quantised(builder.tensor(x).type);
  if (shape.quantisation.sends_low && is_high) x = quantise(builder, "dispatch", phase, x, {}).rows;
  ElementType const type = builder.tensor(x).type;
  TensorId const spread = make_sent(builder, {"dispatch", "spread_tokens"}, hidden, type);
  TensorId const spread_probabilities =
      make_sent(builder, {"dispatch", "spread_probabilities"}, local, wide);
  RowPlaces places;
  places.rank_map = builder.make(
      {"dispatch", "rank_map"}, {shape.tokens(), 2 * shape.dispatch_ranks() + 1}, ElementType::i32);
  places.sent_tokens =
      builder.make({"dispatch", "sent_token_counts"}, {shape.dispatch_ranks()}, ElementType::i32);
  builder.add(OpKind::spread_tokens, {"dispatch", "spread"}, phase, {x, probabilities, map},
              {spread, spread_probabilities, places.rank_map, places.sent_tokens});
  exchange_counts(builder, places);
  TensorId const tokens = send(builder, {"dispatch", "all_to_all_tokens"}, phase, spread,
                               {"dispatch", "received_tokens"}, places, true);
  TensorId const factors =
      send(builder, {"dispatch", "all_to_all_probabilities"}, phase, spread_probabilities,
           {"dispatch", "received_token_probabilities"}, places, true);
  TensorId const choices =
      make_received(builder, {"dispatch", "received_map"}, local, ElementType::u8);
  builder.add(OpKind::mark_choices, {"dispatch", "mark_choices"}, phase,
              {factors, places.received_tokens}, {choices});
  places.received = builder.make({"dispatch", "received_counts"}, {local}, ElementType::i32);
  builder.add(OpKind::count_rows, {"dispatch", "count"}, phase, {choices}, {places.received});
  places.computed = places.received;
  places.row_map = make_received(builder, {"dispatch", "row_map"}, 2 * local + 1, ElementType::i32,
                                 Category::activations);
  RowTensors rows;
  rows.rows = builder.of_experts(
      make_operand(builder, {"dispatch", "rows"}, {shape.computed_rows(), hidden}, type, local));
  rows.probabilities = builder.of_experts(
      builder.make({"dispatch", "probabilities"}, {shape.computed_rows()}, wide));
  builder.add(OpKind::permute, {"dispatch", "permute"}, phase, {tokens, factors, choices},
              {rows.rows, rows.probabilities, places.row_map});
  return {rows, places};
}

TokenGradients sending_dispatch_backward(ProgramBuilder& builder,
                                         RowTensors const& gradients,
                                         RowPlaces const& places,
                                         TensorId x) {
  BlockShape const& shape = builder.shape();
  Phase const phase = Phase::input_gradient;
  ElementType const wide = accumulation_type(shape.model.precision);
  TensorId const tokens = make_received(builder, {"dispatch_gradient", "received_tokens"},
                                        shape.model.hidden, builder.type());
  TensorId const factors = make_received(
      builder, {"dispatch_gradient", "received_token_probabilities"}, shape.local_experts(), wide);
  builder.add(OpKind::permute_backward, {"dispatch", "permute_backward"}, phase,
              {gradients.rows, gradients.probabilities, places.row_map}, {tokens, factors});
  TensorId const returned = send(builder, {"dispatch_gradient", "all_to_all_tokens"}, phase, tokens,
                                 {"dispatch_gradient", "spread_tokens"}, places, false);
  TensorId const returned_factors =
      send(builder, {"dispatch_gradient", "all_to_all_probabilities"}, phase, factors,
           {"dispatch_gradient", "spread_probabilities"}, places, false);
  Shape const hidden = builder.tensor(x).shape;  // a copy: make() moves the tensors
  TokenGradients const made{builder.make({"dispatch_gradient", "input"}, hidden),
                            builder.make({"dispatch_gradient", "probabilities"},
                                         {shape.tokens(), shape.model.experts->count}, wide)};
  builder.add(OpKind::spread_tokens_backward, {"dispatch", "spread_backward"}, phase,
              {returned, returned_factors, places.rank_map}, {made.x, made.probabilities});
  return made;
}

TensorId sending_combine_forward(ProgramBuilder& builder, TensorId rows, RowPlaces const& places) {
  BlockShape const& shape = builder.shape();
  Phase const phase = Phase::forward;
  TensorId const tokens =
      make_received(builder, {"combine", "received_tokens"}, shape.model.hidden, builder.type());
  builder.add(OpKind::unpermute, {"combine", "unpermute"}, phase, {rows, places.row_map}, {tokens});
  TensorId const returned = send(builder, {"combine", "all_to_all_tokens"}, phase, tokens,
                                 {"combine", "spread_tokens"}, places, false);
  TensorId const y = builder.make({"combine", "output"}, local_hidden(shape));
  builder.add(OpKind::unpermute, {"combine", "sum_tokens"}, phase, {returned, places.rank_map},
              {y});
  return y;
}

TensorId sending_combine_backward(ProgramBuilder& builder, TensorId dy, RowPlaces const& places) {
  BlockShape const& shape = builder.shape();
  Phase const phase = Phase::input_gradient;
  if (shape.quantisation.sends_low_gradients && !is_quantised(builder.tensor(dy).type)) {
    dy = quantise(builder, "combine", phase, dy, {.role = QuantisedRole::gradient}).rows;
  }
  ElementType const type = builder.tensor(dy).type;
  TensorId const spread =
      make_sent(builder, {"combine_gradient", "spread_tokens"}, shape.model.hidden, type);
  builder.add(OpKind::unpermute_backward, {"combine", "sum_tokens_backward"}, phase,
              {dy, places.rank_map}, {spread});
  TensorId const tokens = send(builder, {"combine_gradient", "all_to_all_tokens"}, phase, spread,
                               {"combine_gradient", "received_tokens"}, places, true);
  TensorId const rows = builder.of_experts(make_operand(builder, {"combine_gradient", "rows"},
                                                        {shape.computed_rows(), shape.model.hidden},
                                                        type, shape.local_experts()));
  builder.add(OpKind::unpermute_backward, {"combine", "unpermute_backward"}, phase,
              {tokens, places.row_map}, {rows});
  return rows;
}

}  // namespace stagecraft
