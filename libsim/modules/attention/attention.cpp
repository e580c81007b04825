#include "libsim/modules/attention/attention.hpp"

namespace stagecraft {
namespace {

/// Elements of one token's queries, keys and values on one rank: [all q | all k | all v].
struct QkvWidths {
  std::int64_t q, kv, all;
  explicit QkvWidths(BlockShape const& shape)
      : q{shape.heads() * shape.model.head_dim},
        kv{shape.kv_heads() * shape.model.head_dim},
        all{q + 2 * kv} {}
};

/// The rows of [q | k | v], each cut by heads. Ranks that hold the same key and value heads hold
/// different query heads.
ParameterTraits qkv_rows(BlockShape const& shape, QkvWidths const& widths, std::int64_t columns) {
  RankRows kv{.rows = widths.kv, .replicas = shape.kv_replicas()};
  if (kv.replicas > 1) kv.gradient_sum = shape.kv_group;
  return cut_by_rows(shape.tensor, {{.rows = widths.q}, kv, kv}, columns);
}

/// A view of `count` heads, from element `offset` of each token in `qkv`.
TensorId heads_view(
    ProgramBuilder& builder, Name name, TensorId qkv, std::int64_t count, std::int64_t offset) {
  BlockShape const& shape = builder.shape();
  std::int64_t const d = shape.model.head_dim;
  std::int64_t const width = QkvWidths{shape}.all;
  return builder.view(name, qkv, {shape.sequence(), shape.micro, count, d},
                      {shape.micro * width, width, d, 1}, offset);
}

HeadsNorm make_qk_norm(ProgramBuilder& builder, std::string_view owner, std::int64_t width) {
  BlockShape const& shape = builder.shape();
  bool const across = shape.model.qk_norm == QkNorm::full;
  HeadsNorm norm{.owner = owner, .across_heads = across};
  // Every rank has a part of the heads, and so computes a part of the gradient.
  make_heads_norm(builder, norm, across ? width : shape.model.head_dim,
                  shape.tensor > 1 ? std::optional{shape.tensor_group} : std::nullopt);
  return norm;
}

/// Appends the norms of q and k, if the layer has them.
void normalize_heads(ProgramBuilder& builder, AttentionLayer& attention) {
  auto const normalize = [&](HeadsNorm& norm, TensorId& x, Name y) {
    if (norm.weight == no_tensor) return;
    TensorId const normed = builder.make(y, builder.tensor(x).shape);
    heads_norm_forward(builder, norm, x, normed);
    x = normed;
  };
  normalize(attention.q_norm, attention.q, {"core_attention", "normed_q"});
  normalize(attention.k_norm, attention.k, {"core_attention", "normed_k"});
}

void normalize_heads_backward(ProgramBuilder& builder,
                              AttentionLayer const& attention,
                              QkvGradients& gradients) {
  auto const differentiate = [&](HeadsNorm const& norm, TensorId& gradient) {
    if (norm.weight == no_tensor) return;
    TensorId const dx =
        builder.make({norm.owner, "input_gradient"}, builder.tensor(gradient).shape);
    heads_norm_backward(builder, norm, gradient, dx);
    gradient = dx;
  };
  differentiate(attention.q_norm, gradients.q);
  differentiate(attention.k_norm, gradients.k);
}

void project_qkv(ProgramBuilder& builder, AttentionLayer& attention) {
  BlockShape const& shape = builder.shape();
  QkvWidths const widths{shape};
  TensorId const qkv =
      column_parallel_forward(builder, attention.qkv, attention.input, {"core_attention", "qkv"});
  if (attention.qkv_bias != no_tensor) {
    builder.add(OpKind::bias_add, {"attention.qkv", "bias_add"}, Phase::forward,
                {qkv, attention.qkv_bias}, {qkv});
  }
  attention.q = heads_view(builder, {"core_attention", "q"}, qkv, shape.heads(), 0);
  attention.k = heads_view(builder, {"core_attention", "k"}, qkv, shape.kv_heads(), widths.q);
  attention.v =
      heads_view(builder, {"core_attention", "v"}, qkv, shape.kv_heads(), widths.q + widths.kv);
  normalize_heads(builder, attention);
  if (shape.model.positions == Positions::rotary) {
    // Megatron's rotary embedding makes new tensors. v stays a view, so the qkv buffer stays alive.
    TensorId const q =
        builder.make({"core_attention", "rotated_q"}, builder.tensor(attention.q).shape);
    TensorId const k =
        builder.make({"core_attention", "rotated_k"}, builder.tensor(attention.k).shape);
    builder.add(OpKind::rotary, {"attention.qkv", "rotary"}, Phase::forward,
                {attention.q, attention.k}, {q, k}, RotaryAttributes{shape.model.rotary_base});
    attention.q = q;
    attention.k = k;
  }
}

/// Appends the backward of project_qkv() and of the products. Returns the gradient of its input.
TensorId qkv_backward(ProgramBuilder& builder,
                      AttentionLayer const& attention,
                      QkvGradients gradients) {
  BlockShape const& shape = builder.shape();
  if (shape.model.positions == Positions::rotary) {
    builder.add(OpKind::rotary_backward, {"attention.qkv", "rotary_backward"},
                Phase::input_gradient, {gradients.q, gradients.k}, {gradients.q, gradients.k},
                RotaryAttributes{shape.model.rotary_base});
  }
  normalize_heads_backward(builder, attention, gradients);
  TensorId const d_qkv =
      builder.make({"attention.qkv", "output_gradient"},
                   {shape.sequence(), shape.micro, builder.tensor(attention.qkv.weight).shape[0]});
  builder.add(OpKind::concatenate, {"attention.qkv", "concatenate_gradients"},
              Phase::input_gradient, {gradients.q, gradients.k, gradients.v}, {d_qkv});
  bias_gradient(builder, "attention.qkv", d_qkv, attention.qkv_bias);
  return column_parallel_backward(builder, attention.qkv, attention.input, d_qkv);
}

void make_qkv(ProgramBuilder& builder, AttentionLayer& attention) {
  BlockShape const& shape = builder.shape();
  ModelConfig const& model = shape.model;
  QkvWidths const widths{shape};
  attention.qkv.weight = builder.parameter({"attention.qkv", "weight"}, {widths.all, model.hidden},
                                           qkv_rows(shape, widths, model.hidden));
  if (model.biases || model.qkv_bias) {
    ParameterTraits traits = qkv_rows(shape, widths, 1);
    traits.start = ParameterStart::zero;
    attention.qkv_bias = builder.parameter({"attention.qkv", "bias"}, {widths.all}, traits);
  }
  if (model.qk_norm == QkNorm::none) return;
  attention.q_norm = make_qk_norm(builder, "attention.q_norm", widths.q);
  attention.k_norm = make_qk_norm(builder, "attention.k_norm", widths.kv);
}

}  // namespace

AttentionLayer make_attention(ProgramBuilder& builder) {
  BlockShape const& shape = builder.shape();
  ModelConfig const& model = shape.model;
  AttentionLayer attention;
  if (model.norms != NormPlaces::post) {
    attention.norm = make_norm(builder, "attention_norm");
    // The layer's norm stays one of its own if the MLP reads its output, too.
    attention.qkv.has_norm = model.residual != Residual::parallel_one_norm;
  }
  if (has_latents(model)) {
    make_latent_projections(builder, attention.latents);
  } else {
    make_qkv(builder, attention);
  }
  if (model.sinks) {
    ParameterTraits traits = cut_by_rows(shape.tensor, {{.rows = shape.heads()}}, 1);
    traits.start = ParameterStart::zero;
    attention.sinks = builder.parameter({"core_attention", "sinks"}, {shape.heads()}, traits);
  }
  attention.projection.quantises_again = builder.shape().quantisation.may_quantise_again();
  attention.projection.weight = output_weight(builder, {"attention.projection", "weight"},
                                              {model.hidden, shape.heads() * value_dim(model)});
  if (model.biases) {
    attention.residual.bias = builder.parameter({"attention.projection", "bias"}, {model.hidden},
                                                replicated_vector(shape, model.hidden));
  }
  if (model.norms != NormPlaces::pre) {
    attention.residual.norm = make_norm(builder, "attention_post_norm");
  }
  return attention;
}

TensorId attention_forward(
    ProgramBuilder& builder, AttentionLayer& attention, int layer, TensorId x, Name y) {
  builder.begin(Pass::forward, "attention_norm", layer);
  attention.input = attention.norm.weight == no_tensor
                        ? x
                        : norm_forward(builder, attention.norm, x, {"attention.qkv", "input"});
  builder.begin(Pass::forward, "attention_input", layer);
  if (has_latents(builder.shape().model)) {
    auto const [q, k, v] = latent_forward(builder, attention.latents, layer, attention.input);
    attention.q = q;
    attention.k = k;
    attention.v = v;
  } else {
    project_qkv(builder, attention);
  }
  builder.begin(Pass::forward, "core_attention", layer);
  core_attention_forward(builder, attention);
  builder.begin(Pass::forward, "attention_output", layer);
  if (attention.attended == attention.context && builder.shape().keys.ranks == 1) {
    attention.narrow_context = narrow_context(builder, "core_attention", attention.context);
  }
  TensorId const projected = row_parallel_forward(builder, attention.projection, attention.context,
                                                  {"attention.projection", "output"});
  return residual_forward(builder, attention.residual, projected, x, y);
}

TensorId attention_backward(ProgramBuilder& builder,
                            AttentionLayer const& kept,
                            int layer,
                            AttentionGradients const& received) {
  builder.begin(Pass::backward, "attention_output", layer);
  AttentionLayer attention = kept;
  if (kept.narrow_context != no_tensor) {
    Shape const shape = builder.tensor(kept.context).shape;  // a copy: make() moves the tensors
    attention.context = widen_context(builder, "core_attention", kept.narrow_context, shape);
    attention.attended = attention.context;
  }
  TensorId const d_projected = residual_backward(builder, attention.residual, received.dy);
  TensorId const d_context =
      row_parallel_backward(builder, attention.projection, attention.context, d_projected,
                            {"core_attention", "context_gradient"});
  builder.begin(Pass::backward, "core_attention", layer);
  QkvGradients const gradients = core_attention_backward(builder, attention, d_context);
  builder.begin(Pass::backward, "attention_input", layer);
  TensorId const d_input =
      has_latents(builder.shape().model)
          ? latent_backward(builder, attention.latents, layer, attention.input,
                            {.q = gradients.q, .k = gradients.k, .v = gradients.v})
          : qkv_backward(builder, attention, gradients);
  builder.begin(Pass::backward, "attention_norm", layer);
  if (received.normed != no_tensor) {
    builder.add(OpKind::add, {"attention_norm", "mlp_gradient"}, Phase::input_gradient,
                {d_input, received.normed}, {d_input});
  }
  TensorId const dx = attention.norm.weight == no_tensor
                          ? d_input
                          : norm_backward(builder, attention.norm, d_input);
  builder.add(OpKind::add, {"attention_norm", "residual_gradient"}, Phase::input_gradient,
              {dx, received.elsewhere}, {dx});
  return dx;
}

}  // namespace stagecraft
