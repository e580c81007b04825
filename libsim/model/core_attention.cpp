#include <cmath>

#include "libsim/model/attention.hpp"

namespace stagecraft {
namespace {

constexpr std::string_view owner = "core_attention";

/// A view [b, heads, s, d] of a tensor [s, b, heads, d], as GEMMs read it.
TensorId by_head(ProgramBuilder& builder, std::string_view part, TensorId tokens) {
  Tensor const tensor = builder.tensor(tokens);
  Shape const& extents = tensor.shape;
  Shape strides = tensor.strides;
  if (tensor.buffer == tokens) {
    strides = {extents[1] * extents[2] * extents[3], extents[2] * extents[3], extents[3], 1};
  }
  return builder.view({owner, part}, tensor.buffer,
                      {extents[1], extents[2], extents[0], extents[3]},
                      {strides[1], strides[2], strides[0], strides[3]}, tensor.offset);
}

/// A view [s, b, heads, d] of a tensor [b, heads, s, d] that a GEMM wrote, as all other ops read
/// it.
TensorId by_token(ProgramBuilder& builder, std::string_view part, TensorId heads) {
  Shape const extents = builder.tensor(heads).shape;
  return builder.view(
      {owner, part}, heads, {extents[2], extents[0], extents[1], extents[3]},
      {extents[3], extents[1] * extents[2] * extents[3], extents[2] * extents[3], 1}, 0);
}

/// Sizes of the attention core on one rank, which has all rows of the sequence.
struct Core {
  std::int64_t s, b, heads, kv_heads;
  std::int64_t d;        ///< of a query or key head
  std::int64_t value_d;  ///< of a value head
  explicit Core(BlockShape const& shape)
      : s{shape.model.sequence},
        b{shape.micro},
        heads{shape.heads() / shape.context},
        kv_heads{shape.kv_heads() / shape.context},
        d{shape.model.head_dim},
        value_d{value_dim(shape.model)} {}
  Shape scores() const { return {b, heads, s, s}; }
  Shape by_head(std::int64_t width) const { return {b, heads, s, width}; }
};

bool caps_scores(ProgramBuilder const& builder) {
  return builder.shape().model.attention_softcap > 0;
}

bool drops_probabilities(ProgramBuilder const& builder) {
  return attention_dropout(builder.shape().model) > 0;
}

/// The dropout of the probabilities; heads are split over the tensor group.
DropoutAttributes probability_dropout(ProgramBuilder const& builder) {
  BlockShape const& shape = builder.shape();
  return {.site = DropoutSite::attention,
          .rate = attention_dropout(shape.model),
          .shards = shape.tensor};
}

double score_scale(ProgramBuilder const& builder) {
  return 1.0 / std::sqrt(static_cast<double>(builder.shape().model.head_dim));
}

SoftmaxAttributes softmax_attributes(ProgramBuilder const& builder,
                                     DropoutAttributes const& dropout) {
  BlockShape const& shape = builder.shape();
  // A cap on the scores has scaled them.
  return {.scale = caps_scores(builder) ? 1 : score_scale(builder),
          .dropout = dropout,
          .matrices = shape.micro * shape.heads(),
          .window = shape.model.window};
}

SoftcapAttributes softcap_attributes(ProgramBuilder const& builder) {
  return {.cap = builder.shape().model.attention_softcap, .scale = score_scale(builder)};
}

FlashAttributes flash_attributes(ProgramBuilder const& builder) {
  return {.scale = score_scale(builder),
          .dropout = probability_dropout(builder),
          .window = builder.shape().model.window,
          .softcap = builder.shape().model.attention_softcap};
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
  attention.softmax_output = builder.make({owner, "softmax_output"}, builder.tensor(scores).shape);
  Op& softmax = builder.add(OpKind::causal_softmax, {owner, "softmax"}, Phase::forward, {scores},
                            {attention.softmax_output}, softmax_attributes(builder, {}));
  // The fused kernel reads only the lower triangle and writes the whole square.
  Bytes const square = builder.tensor(scores).bytes();
  softmax.traffic = Bytes{square.count() / 2 + square.count()};
  attention.dropout_output = attention.softmax_output;
  if (!drops_probabilities(builder)) return;
  attention.dropout_output = dropout_forward(
      builder, probability_dropout(builder), {owner, "dropout"}, {owner, "dropout_output"},
      {owner, "dropout_mask"}, attention.softmax_output, attention.dropout_mask);
}

/// Appends softmax and dropout as one kernel. The softmax is in place: `scores` becomes
/// softmax_output.
void fused_softmax(ProgramBuilder& builder, AttentionLayer& attention, TensorId scores) {
  Shape const shape = builder.tensor(scores).shape;  // a copy: make() moves the tensors
  attention.softmax_output = scores;
  attention.dropout_output = builder.make({owner, "dropout_output"}, shape);
  if (stores_masks(builder.shape().model)) {
    attention.dropout_mask = builder.make({owner, "dropout_mask"}, shape, ElementType::u8);
  }
  Op& op = builder.add(OpKind::causal_softmax_dropout, {owner, "softmax_dropout"}, Phase::forward,
                       {scores}, {scores, attention.dropout_output, attention.dropout_mask},
                       softmax_attributes(builder, probability_dropout(builder)));
  op.draws_random = true;
  // Reads only the lower triangle.
  op.traffic = Bytes{op.traffic.count() - builder.tensor(scores).bytes().count() / 2};
}

/// Appends the gradient of the scores, in place on that of the probabilities that multiply v.
void softmax_gradient(ProgramBuilder& builder, AttentionLayer const& attention, TensorId d_scores) {
  bool const fuses = fuses_dropout(builder);
  Op& op = fuses
               ? builder.add(OpKind::causal_softmax_dropout_backward,
                             {owner, "softmax_dropout_backward"}, Phase::input_gradient,
                             {d_scores, attention.softmax_output, attention.dropout_mask},
                             {d_scores}, softmax_attributes(builder, probability_dropout(builder)))
               : builder.add(OpKind::causal_softmax_backward, {owner, "softmax_backward"},
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
    attention.k_full = builder.make({owner, "repeated_k"}, full);
    attention.v_full = builder.make({owner, "repeated_v"}, full);
    builder.add(OpKind::repeat_heads, {owner, "repeat_heads"}, Phase::forward,
                {attention.k, attention.v}, {attention.k_full, attention.v_full});
  }
  attention.q_by_head = by_head(builder, "q_by_head", attention.q);
  attention.k_by_head = by_head(builder, "k_by_head", attention.k_full);
  attention.v_by_head = by_head(builder, "v_by_head", attention.v_full);
  bool const fuses = fuses_dropout(builder);
  bool const caps = caps_scores(builder);
  TensorId scores =
      builder.make({owner, fuses && !caps ? "softmax_output" : "scores"}, core.scores());
  builder.gemm({owner, "scores"}, Phase::forward,
               {.batch = batch, .m = core.s, .n = core.s, .k = core.d, .transpose_b = true},
               attention.q_by_head, attention.k_by_head, scores);
  if (caps) {
    attention.scores = scores;
    scores = builder.make({owner, fuses ? "softmax_output" : "capped_scores"}, core.scores());
    builder.add(OpKind::softcap, {owner, "softcap"}, Phase::forward, {attention.scores}, {scores},
                softcap_attributes(builder));
  }
  fuses ? fused_softmax(builder, attention, scores) : separate_softmax(builder, attention, scores);
  TensorId const context = builder.make({owner, "context_by_head"}, core.by_head(core.value_d));
  builder.gemm({owner, "context"}, Phase::forward,
               {.batch = batch, .m = core.s, .n = core.value_d, .k = core.s},
               attention.dropout_output, attention.v_by_head, context);
  builder.add(OpKind::merge_heads, {owner, "merge_heads"}, Phase::forward,
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
      builder.view({owner, "context_gradient_by_head"}, d_context, core.by_head(core.value_d),
                   {width, core.value_d, core.b * width, 1}, 0);
  TensorId probabilities = attention.dropout_output;
  if (drops_probabilities(builder) && attention.dropout_mask == no_tensor) {
    // With regenerated masks only the softmax output was kept; its dropout is drawn again.
    TensorId no_mask = no_tensor;
    probabilities =
        dropout_forward(builder, probability_dropout(builder), {owner, "dropout_again"},
                        {owner, "dropout_output_again"}, {}, attention.softmax_output, no_mask);
    builder.program().tensors.back().category = Category::recomputed;
    builder.program().backward.back().phase = Phase::input_gradient;
  }
  TensorId d_dropped = builder.make({owner, "dropout_output_gradient"}, core.scores());
  builder.gemm({owner, "dropout_output_gradient"}, Phase::input_gradient,
               {.batch = batch, .m = core.s, .n = core.s, .k = core.value_d, .transpose_b = true},
               d_by_head, attention.v_by_head, d_dropped);
  QkvGradients gradients;
  gradients.v = builder.make({owner, "v_gradient"}, core.by_head(core.value_d));
  builder.gemm({owner, "v_gradient"}, Phase::input_gradient,
               {.batch = batch, .m = core.s, .n = core.value_d, .k = core.s, .transpose_a = true},
               probabilities, d_by_head, gradients.v);
  TensorId const d_scores =
      drops_probabilities(builder) && !fuses_dropout(builder)
          ? dropout_backward(builder, probability_dropout(builder), {owner, "dropout_backward"},
                             {owner, "scores_gradient"}, d_dropped, attention.dropout_mask)
          : d_dropped;
  softmax_gradient(builder, attention, d_scores);
  if (caps_scores(builder)) {
    builder.add(OpKind::softcap_backward, {owner, "softcap_backward"}, Phase::input_gradient,
                {d_scores, attention.scores}, {d_scores}, softcap_attributes(builder));
  }
  gradients.q = builder.make({owner, "q_gradient"}, core.by_head(core.d));
  builder.gemm({owner, "q_gradient"}, Phase::input_gradient,
               {.batch = batch, .m = core.s, .n = core.d, .k = core.s}, d_scores,
               attention.k_by_head, gradients.q);
  gradients.k = builder.make({owner, "k_gradient"}, core.by_head(core.d));
  builder.gemm({owner, "k_gradient"}, Phase::input_gradient,
               {.batch = batch, .m = core.s, .n = core.d, .k = core.s, .transpose_a = true},
               d_scores, attention.q_by_head, gradients.k);
  gradients.q = by_token(builder, "q_gradient_by_token", gradients.q);
  gradients.k = by_token(builder, "k_gradient_by_token", gradients.k);
  gradients.v = by_token(builder, "v_gradient_by_token", gradients.v);
  if (repeats_heads(core, builder.shape())) {
    Shape const groups{core.s, core.b, core.kv_heads, core.d};
    TensorId const dk = builder.make({owner, "grouped_k_gradient"}, groups);
    TensorId const dv = builder.make({owner, "grouped_v_gradient"}, groups);
    builder.add(OpKind::repeat_heads_backward, {owner, "repeat_heads_backward"},
                Phase::input_gradient, {gradients.k, gradients.v}, {dk, dv});
    gradients.k = dk;
    gradients.v = dv;
  }
  return gradients;
}

/// FLOPs of products over the pairs that are attended to, whose inner or outer dimensions add up to
/// `depth`.
std::int64_t attended_flops(ProgramBuilder const& builder, Core const& core, std::int64_t depth) {
  return core.b * core.heads * attended_square(core.s, builder.shape().model.window) * depth;
}

void flash_forward(ProgramBuilder& builder, AttentionLayer& attention) {
  Core const core{builder.shape()};
  attention.log_sum_exp = builder.make({owner, "log_sum_exp"}, {core.b, core.heads, core.s},
                                       gradient_type(builder.shape().model.precision));
  Op& op = builder.add(OpKind::flash_attention, {owner, "flash"}, Phase::forward,
                       {attention.q, attention.k, attention.v},
                       {attention.attended, attention.log_sum_exp}, flash_attributes(builder));
  op.flops = attended_flops(builder, core, core.d + core.value_d);  // scores, context
  op.draws_random = drops_probabilities(builder);
}

QkvGradients flash_backward(ProgramBuilder& builder,
                            AttentionLayer const& attention,
                            TensorId d_context) {
  Core const core{builder.shape()};
  QkvGradients gradients;
  gradients.q = builder.make({owner, "q_gradient"}, {core.s, core.b, core.heads, core.d});
  gradients.k = builder.make({owner, "k_gradient"}, {core.s, core.b, core.kv_heads, core.d});
  gradients.v = builder.make({owner, "v_gradient"}, {core.s, core.b, core.kv_heads, core.value_d});
  Op& op = builder.add(
      OpKind::flash_attention_backward, {owner, "flash_backward"}, Phase::input_gradient,
      {d_context, attention.q, attention.k, attention.v, attention.attended, attention.log_sum_exp},
      {gradients.q, gradients.k, gradients.v}, flash_attributes(builder));
  // Five GEMMs, the scores recomputed among them.
  op.flops = attended_flops(builder, core, 3 * core.d + 2 * core.value_d);
  op.draws_random = drops_probabilities(builder);  // masks are always drawn again
  return gradients;
}

/// The names of a tensor and its ops on their way between the ranks that split the sequence.
struct ExchangeNames {
  std::string_view packed, arrived, scatter, exchange, gather;
};

/// [rows, b, heads, d], or [rows, b, heads] if heads are all elements of a token.
Shape with_rows_and_heads(Shape const& shape, std::int64_t rows, std::int64_t heads) {
  return shape.rank() == 4 ? Shape{rows, shape[1], heads, shape[3]} : Shape{rows, shape[1], heads};
}

/// Sends rows of all heads, and returns all rows of 1/c of the heads.
TensorId rows_for_heads(ProgramBuilder& builder,
                        ExchangeNames const& names,
                        Phase phase,
                        TensorId tokens,
                        Category category) {
  BlockShape const& shape = builder.shape();
  if (shape.context == 1) return tokens;
  Shape const& all = builder.tensor(tokens).shape;
  Shape const parts = with_rows_and_heads(all, all[0] * shape.context, all[2] / shape.context);
  TensorId const packed =
      builder.make({owner, names.packed}, parts, builder.type(), Category::communication);
  builder.add(OpKind::scatter_heads, {owner, names.scatter}, phase, {tokens}, {packed});
  TensorId const arrived = builder.make({owner, names.arrived}, parts, builder.type(), category);
  builder.collective(OpKind::all_to_all, {owner, names.exchange}, phase, packed, arrived, packed,
                     shape.context_group);
  return arrived;
}

/// The inverse, into `tokens`.
void heads_for_rows(ProgramBuilder& builder,
                    ExchangeNames const& names,
                    Phase phase,
                    TensorId heads,
                    TensorId tokens) {
  Shape const parts = builder.tensor(heads).shape;  // a copy: make() moves the tensors
  TensorId const arrived =
      builder.make({owner, names.arrived}, parts, builder.type(), Category::communication);
  builder.collective(OpKind::all_to_all, {owner, names.exchange}, phase, heads, arrived, heads,
                     builder.shape().context_group);
  builder.add(OpKind::gather_heads, {owner, names.gather}, phase, {arrived}, {tokens});
}

/// The gradient of what rows_for_heads() was given.
TensorId gradient_of_rows(ProgramBuilder& builder,
                          ExchangeNames const& names,
                          TensorId heads,
                          std::string_view name) {
  BlockShape const& shape = builder.shape();
  if (shape.context == 1) return heads;
  Shape const& parts = builder.tensor(heads).shape;
  TensorId const tokens =
      builder.make({owner, name},
                   with_rows_and_heads(parts, parts[0] / shape.context, parts[2] * shape.context));
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

void core_attention_forward(ProgramBuilder& builder, AttentionLayer& attention) {
  BlockShape const& shape = builder.shape();
  Phase const phase = Phase::forward;
  Category const kept = Category::activations;
  attention.q = rows_for_heads(builder, q_names, phase, attention.q, kept);
  attention.k = rows_for_heads(builder, k_names, phase, attention.k, kept);
  attention.v = rows_for_heads(builder, v_names, phase, attention.v, kept);
  std::int64_t const width = shape.heads() * value_dim(shape.model);
  if (shape.context > 1) {
    attention.attended = builder.make({owner, "context"},
                                      {shape.model.sequence, shape.micro, width / shape.context});
  }
  TensorId const context =
      builder.make({"attention.projection", "input"}, {shape.sequence(), shape.micro, width});
  if (shape.context == 1) attention.attended = context;
  if (shape.model.attention == Attention::flash) {
    flash_forward(builder, attention);
  } else {
    unfused_forward(builder, attention);
  }
  if (shape.context > 1) {
    heads_for_rows(builder, context_names, phase, attention.attended, context);
  }
  attention.context = context;
}

QkvGradients core_attention_backward(ProgramBuilder& builder,
                                     AttentionLayer const& attention,
                                     TensorId d_context) {
  d_context = rows_for_heads(builder, d_context_names, Phase::input_gradient, d_context,
                             Category::communication);
  QkvGradients gradients = builder.shape().model.attention == Attention::flash
                               ? flash_backward(builder, attention, d_context)
                               : unfused_backward(builder, attention, d_context);
  gradients.q = gradient_of_rows(builder, dq_names, gradients.q, "q_rows_gradient");
  gradients.k = gradient_of_rows(builder, dk_names, gradients.k, "k_rows_gradient");
  gradients.v = gradient_of_rows(builder, dv_names, gradients.v, "v_rows_gradient");
  return gradients;
}

}  // namespace stagecraft
