#include "libsim/modules/attention/core_attention.hpp"

/// Attention of ranks that split sequences and each gather the keys and values of all. A rank
/// attends with its two chunks of rows one after the other, each to the keys up to its end.
///
/// With S rows of a sequence and k/t elements of a row in 16 bits: the gathered keys and values,
/// and their copies in the order of the sequence, have 6 S b k/t bytes at the same time. The
/// backward gathers again. The gradients of each chunk are added up to those of all keys and
/// values, reordered and reduced over the ranks. Nothing hides the collectives. The chunks'
/// gradients of keys differ in length by rank; the buffers have the largest one's.
/// Source: TransformerEngine d0067d0, attention/dot_product_attention/context_parallel.py,
/// AttnFuncWithCPAndKVAllGather; Llama 3 (arXiv:2407.21783), section 3.3.2.
namespace stagecraft {
namespace {

AttentionPart chunk_part(int chunk) {
  return {.kind = AttentionPart::Kind::gathered_chunk, .index = chunk};
}

/// The tensor, or a copy of it if it is a view.
TensorId contiguous(ProgramBuilder& builder, std::string_view name, TensorId tensor) {
  Tensor const& source = builder.tensor(tensor);
  if (source.buffer == tensor) return tensor;
  Shape const shape = source.shape;
  TensorId const made = builder.make({core_attention, name}, shape);
  builder.add(OpKind::copy_tensor, {core_attention, "copy"}, Phase::forward, {tensor}, {made});
  return made;
}

/// The shape with another number of rows.
Shape of_rows(Shape const& shape, std::int64_t rows) {
  return shape.rank() == 4 ? Shape{rows, shape[1], shape[2], shape[3]}
                           : Shape{rows, shape[1], shape[2]};
}

/// The shape [rows of all ranks, ...] for a shape [rows, ...].
Shape with_all_rows(Shape const& shape, int ranks) { return of_rows(shape, shape[0] * ranks); }

TensorId reordered(
    ProgramBuilder& builder, std::string_view name, Phase phase, TensorId rows, bool to_sequence) {
  Shape const shape = builder.tensor(rows).shape;  // a copy: make() moves the tensors
  TensorId const made =
      builder.make({core_attention, name}, shape, builder.type(), Category::communication);
  builder.add(OpKind::reorder_rows, {core_attention, "reorder"}, phase, {rows}, {made},
              RowOrderAttributes{builder.shape().keys.ranks, to_sequence});
  return made;
}

/// The rows of all ranks, in the order of the sequence.
TensorId gather(ProgramBuilder& builder,
                std::string_view name,
                std::string_view op,
                Phase phase,
                TensorId rows) {
  ContextLevel const& level = builder.shape().keys;
  Shape const all = with_all_rows(builder.tensor(rows).shape, level.ranks);
  TensorId const gathered =
      builder.make({core_attention, "gathered"}, all, builder.type(), Category::communication);
  builder.collective(OpKind::all_gather, {core_attention, op}, phase, rows, gathered, gathered,
                     level.group);
  return reordered(builder, name, phase, gathered, true);
}

/// Sums the ranks' gradients of all rows. Each rank gets the sums of its own rows.
TensorId scatter(ProgramBuilder& builder,
                 std::string_view name,
                 std::string_view op,
                 TensorId of_all,
                 TensorId rows) {
  Phase const phase = Phase::input_gradient;
  TensorId const in_zigzag = reordered(builder, "reordered_gradient", phase, of_all, false);
  Shape const own = builder.tensor(rows).shape;
  TensorId const made = builder.make({core_attention, name}, own);
  builder.collective(OpKind::reduce_scatter, {core_attention, op}, phase, in_zigzag, made,
                     in_zigzag, builder.shape().keys.group);
  return made;
}

/// A view of the first or the second half of a tensor's rows.
TensorId half_of(ProgramBuilder& builder, std::string_view name, TensorId tensor, int chunk) {
  Tensor const whole = builder.tensor(tensor);
  Shape const shape = of_rows(whole.shape, whole.shape[0] / 2);
  std::int64_t const rows = chunk * shape[0];
  std::int64_t const row =
      whole.buffer == tensor ? whole.shape.elements() / whole.shape[0] : whole.strides[0];
  return builder.view({core_attention, name}, whole.buffer, shape,
                      whole.buffer == tensor ? Shape{} : whole.strides, whole.offset + rows * row);
}

TensorId zeros_like(ProgramBuilder& builder, std::string_view name, Shape const& shape) {
  TensorId const made =
      builder.make({core_attention, name}, shape, builder.type(), Category::communication);
  builder.add(OpKind::zero_fill, {core_attention, "zero"}, Phase::input_gradient, {}, {made});
  return made;
}

void add(ProgramBuilder& builder, TensorId sum, TensorId term) {
  builder.add(OpKind::add, {core_attention, "add_gradient"}, Phase::input_gradient, {sum, term},
              {sum});
}

}  // namespace

void gathered_forward(ProgramBuilder& builder, AttentionLayer& attention) {
  Phase const phase = Phase::forward;
  attention.k = contiguous(builder, "k_rows", attention.k);
  attention.v = contiguous(builder, "v_rows", attention.v);
  TensorId const k = gather(builder, "all_k", "gather_k", phase, attention.k);
  TensorId const v = gather(builder, "all_v", "gather_v", phase, attention.v);
  for (int chunk = 0; chunk < 2; ++chunk) {
    TensorId const q = half_of(builder, "q_chunk", attention.q, chunk);
    TensorId const to = half_of(builder, "context_chunk", attention.attended, chunk);
    Shape const rows = builder.tensor(to).shape;
    TensorId const context = builder.make({core_attention, "part_of_context"}, rows, builder.type(),
                                          Category::communication);
    TensorId const log_sums = make_log_sums(builder, q, "log_sum_exp");
    attention.chunk_log_sums[static_cast<std::size_t>(chunk)] = log_sums;
    flash_forward(builder, {.q = q, .k = k, .v = v, .context = context, .log_sum_exp = log_sums},
                  chunk_part(chunk));
    builder.add(OpKind::copy_tensor, {core_attention, "copy_context"}, phase, {context}, {to});
  }
}

QkvGradients gathered_backward(ProgramBuilder& builder,
                               AttentionLayer const& attention,
                               TensorId d_context) {
  Phase const phase = Phase::input_gradient;
  int const ranks = builder.shape().keys.ranks;
  Shape const of_q = builder.tensor(attention.q).shape;
  Shape const of_k = with_all_rows(builder.tensor(attention.k).shape, ranks);
  Shape const of_v = with_all_rows(builder.tensor(attention.v).shape, ranks);
  TensorId const dq = builder.make({core_attention, "q_gradient"}, of_q);
  TensorId const dk = zeros_like(builder, "all_k_gradient", of_k);
  TensorId const dv = zeros_like(builder, "all_v_gradient", of_v);
  TensorId const k = gather(builder, "all_k", "gather_k_again", phase, attention.k);
  TensorId const v = gather(builder, "all_v", "gather_v_again", phase, attention.v);
  for (int chunk = 0; chunk < 2; ++chunk) {
    FlashOperands const operands{
        .q = half_of(builder, "q_chunk", attention.q, chunk),
        .k = k,
        .v = v,
        .context = half_of(builder, "context_chunk", attention.attended, chunk),
        .log_sum_exp = attention.chunk_log_sums[static_cast<std::size_t>(chunk)]};
    QkvGradients const gradients = make_gradients(builder, operands);
    flash_backward(builder, operands, half_of(builder, "context_gradient_chunk", d_context, chunk),
                   gradients, chunk_part(chunk));
    builder.add(OpKind::copy_tensor, {core_attention, "copy_q_gradient"}, phase, {gradients.q},
                {half_of(builder, "q_gradient_chunk", dq, chunk)});
    add(builder, dk, gradients.k);
    add(builder, dv, gradients.v);
  }
  return {.q = dq,
          .k = scatter(builder, "k_gradient", "scatter_k_gradient", dk, attention.k),
          .v = scatter(builder, "v_gradient", "scatter_v_gradient", dv, attention.v)};
}

}  // namespace stagecraft
