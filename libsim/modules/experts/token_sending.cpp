#include "libsim/modules/experts/token_dispatch.hpp"
#include "libsim/modules/hidden_shapes.hpp"
#include "libsim/program/unique_tokens.hpp"

/// How tokens reach their experts if each is sent once to every rank that has some of them. They
/// are permuted there, and the outputs of the experts are summed there before they are sent back.
/// Source: deepseek-ai/DeepEP, intranode and internode dispatch and combine; Megatron-LM,
/// token_dispatcher.py, _DeepepManager.
namespace stagecraft {
namespace {

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
  std::int64_t const count = to_experts ? received_tokens(shape) : sent_tokens(shape);
  TensorId const made =
      builder.make(arrived, {count, from.shape[1]}, from.type, Category::communication);
  Op& sent =
      builder.collective(OpKind::all_to_all, op, phase, tokens, made, tokens, shape.dispatch_group);
  sent.reads.push_back(to_experts ? places.sent_tokens : places.received_tokens);
  sent.reads.push_back(to_experts ? places.received_tokens : places.sent_tokens);
  // The payload is what a rank has; how often it is sent depends on the ranks and nodes of the
  // group.
  sent.attributes = exchange_of_tokens(shape);
  sent.payload = Bytes{shape.tokens() * from.shape[1] * element_size(from.type)};
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
  std::int64_t const arriving = received_tokens(shape);
  Category const passed_on = Category::communication;
  TensorId const spread = builder.make({"dispatch", "spread_tokens"}, {sent_tokens(shape), hidden},
                                       builder.type(), passed_on);
  TensorId const spread_probabilities = builder.make({"dispatch", "spread_probabilities"},
                                                     {sent_tokens(shape), local}, wide, passed_on);
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
      builder.make({"dispatch", "received_map"}, {arriving, local}, ElementType::u8, passed_on);
  builder.add(OpKind::mark_choices, {"dispatch", "mark_choices"}, phase,
              {factors, places.received_tokens}, {choices});
  places.received = builder.make({"dispatch", "received_counts"}, {local}, ElementType::i32);
  builder.add(OpKind::count_rows, {"dispatch", "count"}, phase, {choices}, {places.received});
  places.computed = places.received;
  places.row_map =
      builder.make({"dispatch", "row_map"}, {arriving, 2 * local + 1}, ElementType::i32);
  RowTensors rows;
  rows.rows =
      builder.of_experts(builder.make({"dispatch", "rows"}, {shape.computed_rows(), hidden}));
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
  std::int64_t const arriving = received_tokens(shape);
  TensorId const tokens =
      builder.make({"dispatch_gradient", "received_tokens"}, {arriving, shape.model.hidden},
                   builder.type(), Category::communication);
  TensorId const factors =
      builder.make({"dispatch_gradient", "received_token_probabilities"},
                   {arriving, shape.local_experts()}, wide, Category::communication);
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
      builder.make({"combine", "received_tokens"}, {received_tokens(shape), shape.model.hidden},
                   builder.type(), Category::communication);
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
  TensorId const spread =
      builder.make({"combine_gradient", "spread_tokens"}, {sent_tokens(shape), shape.model.hidden},
                   builder.type(), Category::communication);
  builder.add(OpKind::unpermute_backward, {"combine", "sum_tokens_backward"}, phase,
              {dy, places.rank_map}, {spread});
  TensorId const tokens = send(builder, {"combine_gradient", "all_to_all_tokens"}, phase, spread,
                               {"combine_gradient", "received_tokens"}, places, true);
  TensorId const rows = builder.of_experts(
      builder.make({"combine_gradient", "rows"}, {shape.computed_rows(), shape.model.hidden}));
  builder.add(OpKind::unpermute_backward, {"combine", "unpermute_backward"}, phase,
              {tokens, places.row_map}, {rows});
  return rows;
}

}  // namespace stagecraft
