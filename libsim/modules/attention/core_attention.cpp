#include "libsim/modules/attention/core_attention.hpp"

#include "libsim/modules/attention/attention.hpp"

namespace stagecraft {
namespace {

/// A view [b, heads, s, d] of a tensor [s, b, heads, d], as GEMMs read it.
TensorId by_head(ProgramBuilder& builder, std::string_view part, TensorId tokens) {
  Tensor const tensor = builder.tensor(tokens);
  Shape const& extents = tensor.shape;
  Shape strides = tensor.strides;
  if (tensor.buffer == tokens) {
    strides = {extents[1] * extents[2] * extents[3], extents[2] * extents[3], extents[3], 1};
  }
  return builder.view({core_attention, part}, tensor.buffer,
                      {extents[1], extents[2], extents[0], extents[3]},
                      {strides[1], strides[2], strides[0], strides[3]}, tensor.offset);
}

/// A view [s, b, heads, d] of a tensor [b, heads, s, d] that a GEMM wrote, as all other ops read
/// it.
TensorId by_token(ProgramBuilder& builder, std::string_view part, TensorId heads) {
  Shape const extents = builder.tensor(heads).shape;
  return builder.view(
      {core_attention, part}, heads, {extents[2], extents[0], extents[1], extents[3]},
      {extents[3], extents[1] * extents[2] * extents[3], extents[2] * extents[3], 1}, 0);
}

/// Sizes of the attention core on one rank, which has all rows of the sequence.
struct Core {
  std::int64_t s, b, heads, kv_heads;
  std::int64_t d;        ///< width of a query or key head
  std::int64_t value_d;  ///< width of a value head
  explicit Core(BlockShape const& shape)
      : s{shape.model.sequence},
        b{shape.micro},
        heads{shape.heads()},
        kv_heads{shape.kv_heads()},
        d{shape.model.head_dim},
        value_d{value_dim(shape.model)} {}
  Shape scores() const { return {b, heads, s, s}; }
  Shape by_head(std::int64_t width) const { return {b, heads, s, width}; }
};

bool caps_scores(ProgramBuilder const& builder) {
  return builder.shape().model.attention_softcap > 0;
}

SoftmaxAttributes softmax_attributes(ProgramBuilder const& builder,
                                     DropoutAttributes const& dropout) {
  BlockShape const& shape = builder.shape();
  // The cap has already scaled the scores.
  return {.scale = caps_scores(builder) ? 1 : score_scale(builder),
          .dropout = dropout,
          .matrices = shape.micro * shape.heads(),
          .window = shape.model.window};
}

SoftcapAttributes softcap_attributes(ProgramBuilder const& builder) {
  return {.cap = builder.shape().model.attention_softcap, .scale = score_scale(builder)};
}

bool fuses_dropout(ProgramBuilder const& builder) {
  return drops_probabilities(builder) &&
         builder.shape().model.softmax_dropout == SoftmaxDropout::fused;
}

bool repeats_heads(Core const& core, BlockShape const& shape) {
  return shape.model.attention == Attention::unfused && core.heads != core.kv_heads;
}

/// Appends softmax and dropout as two kernels.
void separate_softmax(ProgramBuilder& builder, AttentionLayer& attention, TensorId scores) {
  attention.softmax_output =
      builder.make({core_attention, "softmax_output"}, builder.tensor(scores).shape);
  Op& softmax = builder.add(OpKind::causal_softmax, {core_attention, "softmax"}, Phase::forward,
                            {scores}, {attention.softmax_output}, softmax_attributes(builder, {}));
  // The fused kernel reads only the lower triangle and writes the whole square.
  Bytes const square = builder.tensor(scores).bytes();
  softmax.traffic = Bytes{square.count() / 2 + square.count()};
  attention.dropout_output = attention.softmax_output;
  if (!drops_probabilities(builder)) return;
  attention.dropout_output =
      dropout_forward(builder, probability_dropout(builder), {core_attention, "dropout"},
                      {core_attention, "dropout_output"}, {core_attention, "dropout_mask"},
                      attention.softmax_output, attention.dropout_mask);
}

/// Appends softmax and dropout as one kernel. The softmax is in place: `scores` becomes
/// softmax_output.
void fused_softmax(ProgramBuilder& builder, AttentionLayer& attention, TensorId scores) {
  Shape const shape = builder.tensor(scores).shape;  // a copy: make() moves the tensors
  attention.softmax_output = scores;
  attention.dropout_output = builder.make({core_attention, "dropout_output"}, shape);
  if (stores_masks(builder.shape().model)) {
    attention.dropout_mask = builder.make({core_attention, "dropout_mask"}, shape, ElementType::u8);
  }
  Op& op = builder.add(OpKind::causal_softmax_dropout, {core_attention, "softmax_dropout"},
                       Phase::forward, {scores},
                       {scores, attention.dropout_output, attention.dropout_mask},
                       softmax_attributes(builder, probability_dropout(builder)));
  op.draws_random = true;
  // Reads only the lower triangle.
  op.traffic = Bytes{op.traffic.count() - builder.tensor(scores).bytes().count() / 2};
}

/// Appends the gradient of the scores, in place in the gradient of the probabilities.
void softmax_gradient(ProgramBuilder& builder, AttentionLayer const& attention, TensorId d_scores) {
  bool const fuses = fuses_dropout(builder);
  Op& op = fuses
               ? builder.add(OpKind::causal_softmax_dropout_backward,
                             {core_attention, "softmax_dropout_backward"}, Phase::input_gradient,
                             {d_scores, attention.softmax_output, attention.dropout_mask},
                             {d_scores}, softmax_attributes(builder, probability_dropout(builder)))
               : builder.add(OpKind::causal_softmax_backward, {core_attention, "softmax_backward"},
                             Phase::input_gradient, {d_scores, attention.softmax_output},
                             {d_scores}, softmax_attributes(builder, {}));
  op.draws_random = fuses && attention.dropout_mask == no_tensor;
  // Reads the lower triangles of its operands, writes the whole square.
  Bytes const square = builder.tensor(d_scores).bytes();
  op.traffic = Bytes{(op.traffic.count() + square.count()) / 2};
}

void unfused_forward(ProgramBuilder& builder, AttentionLayer& attention) {
  Core const core{builder.shape()};
  std::int64_t const batch = core.b * core.heads;
  attention.k_full = attention.k;
  attention.v_full = attention.v;
  if (repeats_heads(core, builder.shape())) {
    Shape const full{core.s, core.b, core.heads, core.d};
    attention.k_full = builder.make({core_attention, "repeated_k"}, full);
    attention.v_full = builder.make({core_attention, "repeated_v"}, full);
    builder.add(OpKind::repeat_heads, {core_attention, "repeat_heads"}, Phase::forward,
                {attention.k, attention.v}, {attention.k_full, attention.v_full});
  }
  attention.q_by_head = by_head(builder, "q_by_head", attention.q);
  attention.k_by_head = by_head(builder, "k_by_head", attention.k_full);
  attention.v_by_head = by_head(builder, "v_by_head", attention.v_full);
  bool const fuses = fuses_dropout(builder);
  bool const caps = caps_scores(builder);
  TensorId scores =
      builder.make({core_attention, fuses && !caps ? "softmax_output" : "scores"}, core.scores());
  builder.gemm({core_attention, "scores"}, Phase::forward,
               {.batch = batch, .m = core.s, .n = core.s, .k = core.d, .transpose_b = true},
               attention.q_by_head, attention.k_by_head, scores);
  if (caps) {
    attention.scores = scores;
    scores =
        builder.make({core_attention, fuses ? "softmax_output" : "capped_scores"}, core.scores());
    builder.add(OpKind::softcap, {core_attention, "softcap"}, Phase::forward, {attention.scores},
                {scores}, softcap_attributes(builder));
  }
  fuses ? fused_softmax(builder, attention, scores) : separate_softmax(builder, attention, scores);
  TensorId const context =
      builder.make({core_attention, "context_by_head"}, core.by_head(core.value_d));
  builder.gemm({core_attention, "context"}, Phase::forward,
               {.batch = batch, .m = core.s, .n = core.value_d, .k = core.s},
               attention.dropout_output, attention.v_by_head, context);
  builder.add(OpKind::merge_heads, {core_attention, "merge_heads"}, Phase::forward,
              {by_token(builder, "context_by_token", context)}, {attention.attended});
}

QkvGradients unfused_backward(ProgramBuilder& builder,
                              AttentionLayer const& attention,
                              TensorId d_context) {
  Core const core{builder.shape()};
  std::int64_t const batch = core.b * core.heads;
  std::int64_t const width = core.heads * core.value_d;
  // The batched GEMMs read the heads of d_context by their strides, without a copy.
  TensorId const d_by_head =
      builder.view({core_attention, "context_gradient_by_head"}, d_context,
                   core.by_head(core.value_d), {width, core.value_d, core.b * width, 1}, 0);
  TensorId probabilities = attention.dropout_output;
  if (drops_probabilities(builder) && attention.dropout_mask == no_tensor) {
    // If masks are regenerated, only the output of the softmax is kept.
    probabilities =
        dropout_again(builder, probability_dropout(builder), {core_attention, "dropout_again"},
                      {core_attention, "dropout_output_again"}, attention.softmax_output);
  }
  TensorId d_dropped = builder.make({core_attention, "dropout_output_gradient"}, core.scores());
  builder.gemm({core_attention, "dropout_output_gradient"}, Phase::input_gradient,
               {.batch = batch, .m = core.s, .n = core.s, .k = core.value_d, .transpose_b = true},
               d_by_head, attention.v_by_head, d_dropped);
  QkvGradients gradients;
  gradients.v = builder.make({core_attention, "v_gradient"}, core.by_head(core.value_d));
  builder.gemm({core_attention, "v_gradient"}, Phase::input_gradient,
               {.batch = batch, .m = core.s, .n = core.value_d, .k = core.s, .transpose_a = true},
               probabilities, d_by_head, gradients.v);
  TensorId const d_scores =
      drops_probabilities(builder) && !fuses_dropout(builder)
          ? dropout_backward(builder, probability_dropout(builder),
                             {core_attention, "dropout_backward"},
                             {core_attention, "scores_gradient"}, d_dropped, attention.dropout_mask)
          : d_dropped;
  softmax_gradient(builder, attention, d_scores);
  if (caps_scores(builder)) {
    builder.add(OpKind::softcap_backward, {core_attention, "softcap_backward"},
                Phase::input_gradient, {d_scores, attention.scores}, {d_scores},
                softcap_attributes(builder));
  }
  gradients.q = builder.make({core_attention, "q_gradient"}, core.by_head(core.d));
  builder.gemm({core_attention, "q_gradient"}, Phase::input_gradient,
               {.batch = batch, .m = core.s, .n = core.d, .k = core.s}, d_scores,
               attention.k_by_head, gradients.q);
  gradients.k = builder.make({core_attention, "k_gradient"}, core.by_head(core.d));
  builder.gemm({core_attention, "k_gradient"}, Phase::input_gradient,
               {.batch = batch, .m = core.s, .n = core.d, .k = core.s, .transpose_a = true},
               d_scores, attention.q_by_head, gradients.k);
  gradients.q = by_token(builder, "q_gradient_by_token", gradients.q);
  gradients.k = by_token(builder, "k_gradient_by_token", gradients.k);
  gradients.v = by_token(builder, "v_gradient_by_token", gradients.v);
  if (repeats_heads(core, builder.shape())) {
    Shape const groups{core.s, core.b, core.kv_heads, core.d};
    TensorId const dk = builder.make({core_attention, "grouped_k_gradient"}, groups);
    TensorId const dv = builder.make({core_attention, "grouped_v_gradient"}, groups);
    builder.add(OpKind::repeat_heads_backward, {core_attention, "repeat_heads_backward"},
                Phase::input_gradient, {gradients.k, gradients.v}, {dk, dv});
    gradients.k = dk;
    gradients.v = dv;
  }
  return gradients;
}

/// The tensors of a layer's flash attention.
FlashOperands flash_operands(AttentionLayer const& attention) {
  bool const is_low = attention.low_q != no_tensor;
  return {.q = is_low ? attention.low_q : attention.q,
          .k = is_low ? attention.low_k : attention.k,
          .v = is_low ? attention.low_v : attention.v,
          .context = attention.attended,
          .log_sum_exp = attention.log_sum_exp,
          .sinks = attention.sinks};
}

/// Appends attention to all rows, of the heads that the rank has.
void attend(ProgramBuilder& builder, AttentionLayer& attention) {
  if (builder.shape().model.attention == Attention::unfused) {
    unfused_forward(builder, attention);
    return;
  }
  if (builder.shape().keys.ranks == 1) {
    quantise_heads(builder, attention);
    attention.log_sum_exp = make_log_sums(builder, attention.q, "log_sum_exp");
    flash_forward(builder, flash_operands(attention));
  } else if (builder.shape().gathers_keys) {
    gathered_forward(builder, attention);
  } else {
    ring_forward(builder, attention);
  }
}

QkvGradients attend_backward(ProgramBuilder& builder,
                             AttentionLayer const& attention,
                             TensorId d_context) {
  if (builder.shape().model.attention == Attention::unfused) {
    return unfused_backward(builder, attention, d_context);
  }
  if (builder.shape().keys.ranks == 1) {
    QkvGradients const gradients = make_gradients(builder, flash_operands(attention));
    flash_backward(builder, flash_operands(attention),
                   quantise_context_gradient(builder, d_context), gradients);
    return gradients;
  }
  return builder.shape().gathers_keys ? gathered_backward(builder, attention, d_context)
                                      : ring_backward(builder, attention, d_context);
}

}  // namespace

void core_attention_forward(ProgramBuilder& builder, AttentionLayer& attention) {
  BlockShape const& shape = builder.shape();
  bool const exchanges = shape.exchange.ranks > 1;
  std::int64_t const width = shape.heads() * value_dim(shape.model);
  if (exchanges) {
    exchange_for_heads(builder, attention);
    attention.attended = builder.make(
        {core_attention, "context"},
        {shape.sequence() * shape.exchange.ranks, shape.micro, width / shape.exchange.ranks});
  }
  attention.context =
      builder.make({"attention.projection", "input"}, {shape.sequence(), shape.micro, width});
  if (!exchanges) attention.attended = attention.context;
  attend(builder, attention);
  if (exchanges) exchange_for_rows(builder, attention.attended, attention.context);
}

QkvGradients core_attention_backward(ProgramBuilder& builder,
                                     AttentionLayer const& attention,
                                     TensorId d_context) {
  if (builder.shape().exchange.ranks == 1) return attend_backward(builder, attention, d_context);
  d_context = exchange_gradient_for_heads(builder, d_context);
  return exchange_gradients_for_rows(builder, attend_backward(builder, attention, d_context));
}

}  // namespace stagecraft
