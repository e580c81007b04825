#include "libsim/modules/experts/token_dispatch.hpp"

#include "libsim/modules/hidden_shapes.hpp"

namespace stagecraft {
namespace {

/// One move of a tensor of rows between ranks, with the names of the tensors that it makes.
struct Move {
  std::string_view owner;
  std::string_view exchanged;  ///< the tensor that an exchange makes
  std::string_view spread;     ///< what a gather, a scatter or a sort makes
  Phase phase = Phase::forward;
  RowPlaces places{};
};

/// The shape of a tensor of rows with another number of rows.
Shape with_rows(Shape const& shape, std::int64_t rows) {
  return shape.rank() == 1 ? Shape{rows} : Shape{rows, shape[1]};
}

bool is_spread(BlockShape const& shape) { return shape.expert_tensor > 1; }

/// Whether the rows that arrive are in chunks by sender, each with rows of several experts.
bool is_sorted_again(BlockShape const& shape) {
  return shape.expert * shape.expert_tensor > 1 && shape.local_experts() > 1;
}

/// A tensor that later ops keep counts as an activation; one that is only passed on counts as
/// communication.
Category category_of(bool is_passed_on) {
  return is_passed_on ? Category::communication : Category::activations;
}

/// To the ranks of the experts, or back to those of the tokens.
enum class Direction : std::uint8_t { to_experts, to_tokens };

/// Sends every rank of the expert group its part of the rows, while the ops that `beside` appends
/// run.
TensorId exchange(ProgramBuilder& builder,
                  Move const& move,
                  std::string_view op,
                  TensorId rows,
                  Category category,
                  Direction direction,
                  Beside const& beside = {}) {
  BlockShape const& shape = builder.shape();
  if (shape.expert == 1) {
    if (beside) beside();
    return rows;
  }
  Tensor const from = builder.tensor(rows);
  bool const leaves = direction == Direction::to_experts;
  std::int64_t const arriving = leaves ? shape.received_rows() : shape.sent_rows();
  TensorId const received = builder.make({move.owner, move.exchanged},
                                         with_rows(from.shape, arriving), from.type, category);
  if (leaves) builder.of_experts(received);
  // It ends when the hottest rank has all of its rows, or has sent them.
  Op& made = builder.collective(OpKind::all_to_all, {move.owner, op}, move.phase, rows, received,
                                leaves ? received : rows, shape.expert_group);
  // The operands with the numbers of rows: first those that the rank sends, then those that it
  // receives.
  made.reads.push_back(leaves ? move.places.sent : move.places.received);
  made.reads.push_back(leaves ? move.places.received : move.places.sent);
  if (beside) {
    made.asynchronous = true;
    beside();
  }
  return received;
}

TensorId gather(ProgramBuilder& builder,
                Move const& move,
                std::string_view op,
                TensorId rows,
                Category category) {
  BlockShape const& shape = builder.shape();
  if (!is_spread(shape)) return rows;
  Tensor const from = builder.tensor(rows);
  TensorId const whole = builder.make(
      {move.owner, move.spread}, with_rows(from.shape, shape.computed_rows()), from.type, category);
  builder.of_experts(whole);
  builder
      .collective(OpKind::all_gather, {move.owner, op}, move.phase, rows, whole, whole,
                  shape.expert_tensor_group)
      .reads.push_back(move.places.computed);
  return whole;
}

TensorId scatter(ProgramBuilder& builder, Move const& move, std::string_view op, TensorId rows) {
  BlockShape const& shape = builder.shape();
  if (!is_spread(shape)) return rows;
  Tensor const from = builder.tensor(rows);
  TensorId const part =
      builder.make({move.owner, move.spread}, with_rows(from.shape, shape.received_rows()),
                   from.type, Category::communication);
  builder.of_experts(part);
  builder
      .collective(OpKind::reduce_scatter, {move.owner, op}, move.phase, rows, part, rows,
                  shape.expert_tensor_group)
      .reads.push_back(move.places.computed);
  return part;
}

/// Transposes chunks: from [senders, experts] to [experts, senders], or back.
enum class Sort : std::uint8_t { by_expert, by_sender };

RowTensors sort(ProgramBuilder& builder,
                Sort direction,
                std::string_view owner,
                std::string_view op,
                Phase phase,
                RowTensors const& rows,
                TensorId counts) {
  BlockShape const& shape = builder.shape();
  if (!is_sorted_again(shape)) return rows;
  bool const by_expert = direction == Sort::by_expert;
  std::int64_t const senders = std::int64_t{shape.expert} * shape.expert_tensor;
  std::int64_t const experts = shape.local_experts();
  // Rows that return to their senders are only passed on.
  Category const category = category_of(!by_expert);
  auto const made = [&](TensorId from, std::string_view part) {
    if (from == no_tensor) return no_tensor;
    Tensor const tensor = builder.tensor(from);
    return builder.of_experts(builder.make({owner, part}, tensor.shape, tensor.type, category));
  };
  RowTensors const sorted{
      made(rows.rows, by_expert ? "sorted_rows" : "unsorted_rows"),
      made(rows.probabilities, by_expert ? "sorted_probabilities" : "unsorted_probabilities")};
  builder.add(OpKind::transpose_chunks, {owner, op}, phase, {rows.rows, rows.probabilities, counts},
              {sorted.rows, sorted.probabilities},
              ChunkAttributes{.outer = by_expert ? senders : experts,
                              .inner = by_expert ? experts : senders,
                              .by_inner = counts != no_tensor && !by_expert});
  return sorted;
}

/// Appends the exchange that tells each rank how many rows it gets.
void count(ProgramBuilder& builder, TensorId map, RowPlaces& places) {
  BlockShape const& shape = builder.shape();
  std::int64_t const experts = shape.model.experts->count;
  places.sent = builder.make({"dispatch", "sent_counts"}, {experts}, ElementType::i32);
  builder.add(OpKind::count_rows, {"dispatch", "count"}, Phase::forward, {map}, {places.sent});
  places.received = places.sent;
  if (shape.expert > 1) {
    places.received = builder.make({"dispatch", "received_counts"},
                                   {shape.expert, shape.local_experts()}, ElementType::i32);
    builder.collective(OpKind::all_to_all, {"dispatch", "all_to_all_counts"}, Phase::forward,
                       places.sent, places.received, places.received, shape.expert_group);
  }
  places.computed = places.received;
  if (!is_spread(shape)) return;
  places.computed = builder.make(
      {"dispatch", "computed_counts"},
      {std::int64_t{shape.expert_tensor} * shape.expert, shape.local_experts()}, ElementType::i32);
  builder.collective(OpKind::all_gather, {"dispatch", "all_gather_counts"}, Phase::forward,
                     places.received, places.computed, places.computed, shape.expert_tensor_group);
}

}  // namespace

Dispatched dispatch_forward(ProgramBuilder& builder,
                            TensorId x,
                            TensorId probabilities,
                            TensorId map,
                            Beside const& beside) {
  BlockShape const& shape = builder.shape();
  if (shape.gathers_tokens()) return gathering_dispatch_forward(builder, x, probabilities, map);
  if (shape.sends_tokens_once()) return sending_dispatch_forward(builder, x, probabilities, map);
  ExpertsConfig const& experts = *shape.model.experts;
  std::int64_t const rows = shape.sent_rows();
  bool const sorts = is_sorted_again(shape);
  bool const is_sent = shape.expert > 1 || is_spread(shape);
  RowTensors moved;
  moved.rows = builder.make({"dispatch", "rows"}, {rows, shape.model.hidden}, builder.type(),
                            category_of(is_sent));
  moved.probabilities =
      builder.make({"dispatch", "probabilities"}, {rows}, accumulation_type(shape.model.precision),
                   category_of(is_sent));
  RowPlaces places;
  places.row_map = builder.make({"dispatch", "row_map"}, {shape.tokens(), 2 * experts.count + 1},
                                ElementType::i32);
  if (shape.is_uneven()) count(builder, map, places);
  builder.add(OpKind::permute, {"dispatch", "permute"}, Phase::forward, {x, probabilities, map},
              {moved.rows, moved.probabilities, places.row_map});
  Move const of_rows{"dispatch", "received_rows", "gathered_rows", Phase::forward, places};
  Move const of_probabilities{"dispatch", "received_probabilities", "gathered_probabilities",
                              Phase::forward, places};
  Category const received = category_of(is_spread(shape) || sorts);
  moved.rows = exchange(builder, of_rows, "all_to_all_rows", moved.rows, received,
                        Direction::to_experts, beside);
  moved.probabilities = exchange(builder, of_probabilities, "all_to_all_probabilities",
                                 moved.probabilities, received, Direction::to_experts);
  moved.rows = gather(builder, of_rows, "all_gather_rows", moved.rows, category_of(sorts));
  moved.probabilities = gather(builder, of_probabilities, "all_gather_probabilities",
                               moved.probabilities, category_of(sorts));
  moved =
      sort(builder, Sort::by_expert, "dispatch", "sort", Phase::forward, moved, places.computed);
  return {moved, places};
}

TokenGradients dispatch_backward(ProgramBuilder& builder,
                                 RowTensors const& gradients,
                                 RowPlaces const& places,
                                 TensorId x,
                                 Beside const& beside) {
  BlockShape const& shape = builder.shape();
  if (shape.gathers_tokens()) return gathering_dispatch_backward(builder, gradients, places, x);
  if (shape.sends_tokens_once()) return sending_dispatch_backward(builder, gradients, places, x);
  Phase const phase = Phase::input_gradient;
  RowTensors moved = sort(builder, Sort::by_sender, "dispatch_gradient", "sort", phase, gradients,
                          places.computed);
  Move const of_rows{"dispatch_gradient", "received_rows", "scattered_rows", phase, places};
  Move const of_probabilities{"dispatch_gradient", "received_probabilities",
                              "scattered_probabilities", phase, places};
  moved.rows = scatter(builder, of_rows, "reduce_scatter_rows", moved.rows);
  moved.probabilities =
      scatter(builder, of_probabilities, "reduce_scatter_probabilities", moved.probabilities);
  Category const received = Category::communication;
  moved.rows = exchange(builder, of_rows, "all_to_all_rows", moved.rows, received,
                        Direction::to_tokens, beside);
  moved.probabilities = exchange(builder, of_probabilities, "all_to_all_probabilities",
                                 moved.probabilities, received, Direction::to_tokens);
  Shape const hidden = builder.tensor(x).shape;  // a copy: make() moves the tensors
  TokenGradients const made{builder.make({"dispatch_gradient", "input"}, hidden),
                            builder.make({"dispatch_gradient", "probabilities"},
                                         {shape.tokens(), shape.model.experts->count},
                                         accumulation_type(shape.model.precision))};
  builder.add(OpKind::permute_backward, {"dispatch", "permute_backward"}, phase,
              {moved.rows, moved.probabilities, places.row_map}, {made.x, made.probabilities});
  return made;
}

TensorId combine_forward(ProgramBuilder& builder,
                         TensorId rows,
                         RowPlaces const& places,
                         Beside const& beside) {
  BlockShape const& shape = builder.shape();
  if (shape.gathers_tokens()) return gathering_combine_forward(builder, rows, places);
  if (shape.sends_tokens_once()) return sending_combine_forward(builder, rows, places);
  Move const move{"combine", "received_rows", "scattered_rows", Phase::forward, places};
  TensorId moved = sort(builder, Sort::by_sender, "combine", "sort", Phase::forward,
                        {rows, no_tensor}, places.computed)
                       .rows;
  moved = scatter(builder, move, "reduce_scatter_rows", moved);
  moved = exchange(builder, move, "all_to_all_rows", moved, Category::communication,
                   Direction::to_tokens, beside);
  TensorId const y = builder.make({"combine", "output"}, local_hidden(shape));
  builder.add(OpKind::unpermute, {"combine", "unpermute"}, Phase::forward, {moved, places.row_map},
              {y});
  return y;
}

TensorId combine_backward(ProgramBuilder& builder,
                          TensorId dy,
                          RowPlaces const& places,
                          Beside const& beside) {
  BlockShape const& shape = builder.shape();
  if (shape.gathers_tokens()) return gathering_combine_backward(builder, dy, places);
  if (shape.sends_tokens_once()) return sending_combine_backward(builder, dy, places);
  Phase const phase = Phase::input_gradient;
  bool const sorts = is_sorted_again(shape);
  bool const is_sent = shape.expert > 1 || is_spread(shape);
  Move const move{"combine_gradient", "received_rows", "gathered_rows", phase, places};
  TensorId moved =
      builder.make({"combine_gradient", "rows"}, {shape.sent_rows(), shape.model.hidden},
                   builder.type(), category_of(is_sent));
  builder.add(OpKind::unpermute_backward, {"combine", "unpermute_backward"}, phase,
              {dy, places.row_map}, {moved});
  moved = exchange(builder, move, "all_to_all_rows", moved, category_of(is_spread(shape) || sorts),
                   Direction::to_experts, beside);
  moved = gather(builder, move, "all_gather_rows", moved, category_of(sorts));
  return sort(builder, Sort::by_expert, "combine_gradient", "sort", phase, {moved, no_tensor},
              places.computed)
      .rows;
}

}  // namespace stagecraft
