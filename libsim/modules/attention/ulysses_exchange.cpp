#include "libsim/modules/attention/core_attention.hpp"

/// Ranks that split sequences exchange rows for heads before core attention, and back after it:
/// each attends to the rows of all of them with 1/c of the heads.
///
/// Each exchange packs or unpacks its tensor by a copy. If the ranks have their rows in zigzag
/// order, because ranks exchange keys as well, another copy restores the order of the sequence, or
/// the zigzag order.
/// Source: Jacobs et al. 2023, DeepSpeed Ulysses, section 3.1; TransformerEngine,
/// attention/dot_product_attention/context_parallel.py, AttnFuncWithCPAndQKVOA2A.
namespace stagecraft {
namespace {

/// The names of a tensor and its ops on their way between the ranks that split the sequence.
struct ExchangeNames {
  std::string_view packed, arrived, scatter, exchange, gather;
};

/// [rows, b, heads, d], or [rows, b, heads] if heads are all elements of a token.
Shape with_rows_and_heads(Shape const& shape, std::int64_t rows, std::int64_t heads) {
  return shape.rank() == 4 ? Shape{rows, shape[1], heads, shape[3]} : Shape{rows, shape[1], heads};
}

/// A copy of rows of `ranks` ranks in the order of the sequence, or back in zigzag order.
TensorId reorder(
    ProgramBuilder& builder, Phase phase, TensorId rows, bool to_sequence, Category category) {
  Shape const shape = builder.tensor(rows).shape;  // a copy: make() moves the tensors
  TensorId const reordered =
      builder.make({core_attention, "reordered"}, shape, builder.type(), category);
  builder.add(OpKind::reorder_rows, {core_attention, "reorder"}, phase, {rows}, {reordered},
              RowOrderAttributes{builder.shape().exchange.ranks, to_sequence});
  return reordered;
}

/// Sends rows of all heads, and returns all rows of 1/c of the heads.
TensorId rows_for_heads(ProgramBuilder& builder,
                        ExchangeNames const& names,
                        Phase phase,
                        TensorId tokens,
                        Category category) {
  BlockShape const& shape = builder.shape();
  int const ranks = shape.exchange.ranks;
  Shape const& all = builder.tensor(tokens).shape;
  Shape const parts = with_rows_and_heads(all, all[0] * ranks, all[2] / ranks);
  TensorId const packed =
      builder.make({core_attention, names.packed}, parts, builder.type(), Category::communication);
  builder.add(OpKind::scatter_heads, {core_attention, names.scatter}, phase, {tokens}, {packed});
  TensorId const arrived = builder.make({core_attention, names.arrived}, parts, builder.type(),
                                        shape.is_zigzag() ? Category::communication : category);
  builder.collective(OpKind::all_to_all, {core_attention, names.exchange}, phase, packed, arrived,
                     packed, shape.exchange.group);
  return shape.is_zigzag() ? reorder(builder, phase, arrived, true, category) : arrived;
}

/// The inverse, into `tokens`.
void heads_for_rows(ProgramBuilder& builder,
                    ExchangeNames const& names,
                    Phase phase,
                    TensorId heads,
                    TensorId tokens) {
  BlockShape const& shape = builder.shape();
  if (shape.is_zigzag()) heads = reorder(builder, phase, heads, false, Category::communication);
  Shape const parts = builder.tensor(heads).shape;  // a copy: make() moves the tensors
  TensorId const arrived =
      builder.make({core_attention, names.arrived}, parts, builder.type(), Category::communication);
  builder.collective(OpKind::all_to_all, {core_attention, names.exchange}, phase, heads, arrived,
                     heads, shape.exchange.group);
  builder.add(OpKind::gather_heads, {core_attention, names.gather}, phase, {arrived}, {tokens});
}

/// The gradient of the rows that rows_for_heads() was given.
TensorId gradient_of_rows(ProgramBuilder& builder,
                          ExchangeNames const& names,
                          TensorId heads,
                          std::string_view name) {
  int const ranks = builder.shape().exchange.ranks;
  Shape const& parts = builder.tensor(heads).shape;
  TensorId const tokens = builder.make(
      {core_attention, name}, with_rows_and_heads(parts, parts[0] / ranks, parts[2] * ranks));
  heads_for_rows(builder, names, Phase::input_gradient, heads, tokens);
  return tokens;
}

constexpr ExchangeNames q_names{"packed_q", "q_of_heads", "scatter_q", "all_to_all_q", {}};
constexpr ExchangeNames k_names{"packed_k", "k_of_heads", "scatter_k", "all_to_all_k", {}};
constexpr ExchangeNames v_names{"packed_v", "v_of_heads", "scatter_v", "all_to_all_v", {}};
constexpr ExchangeNames context_names{
    {}, "received_context", {}, "all_to_all_context", "gather_context"};
constexpr ExchangeNames d_context_names{"packed_context_gradient",
                                        "context_gradient_of_heads",
                                        "scatter_context_gradient",
                                        "all_to_all_context_gradient",
                                        {}};
constexpr ExchangeNames dq_names{
    {}, "received_q_gradient", {}, "all_to_all_q_gradient", "gather_q_gradient"};
constexpr ExchangeNames dk_names{
    {}, "received_k_gradient", {}, "all_to_all_k_gradient", "gather_k_gradient"};
constexpr ExchangeNames dv_names{
    {}, "received_v_gradient", {}, "all_to_all_v_gradient", "gather_v_gradient"};

}  // namespace

void exchange_for_heads(ProgramBuilder& builder, AttentionLayer& attention) {
  Category const kept = Category::activations;
  attention.q = rows_for_heads(builder, q_names, Phase::forward, attention.q, kept);
  attention.k = rows_for_heads(builder, k_names, Phase::forward, attention.k, kept);
  attention.v = rows_for_heads(builder, v_names, Phase::forward, attention.v, kept);
}

void exchange_for_rows(ProgramBuilder& builder, TensorId of_heads, TensorId of_rows) {
  heads_for_rows(builder, context_names, Phase::forward, of_heads, of_rows);
}

TensorId exchange_gradient_for_heads(ProgramBuilder& builder, TensorId d_context) {
  return rows_for_heads(builder, d_context_names, Phase::input_gradient, d_context,
                        Category::communication);
}

QkvGradients exchange_gradients_for_rows(ProgramBuilder& builder, QkvGradients const& of_heads) {
  return {.q = gradient_of_rows(builder, dq_names, of_heads.q, "q_rows_gradient"),
          .k = gradient_of_rows(builder, dk_names, of_heads.k, "k_rows_gradient"),
          .v = gradient_of_rows(builder, dv_names, of_heads.v, "v_rows_gradient")};
}

}  // namespace stagecraft
