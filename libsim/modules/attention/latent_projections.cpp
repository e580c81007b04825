#include "libsim/modules/attention/latent_projections.hpp"

namespace stagecraft {
namespace {

constexpr std::string_view up_module = "mla_up_projection";

/// Sizes of the projections on one rank.
struct Widths : LatentAttention {
  std::int64_t s, local, b, heads;
  std::int64_t qk;  ///< width of a query or key head
  std::int64_t kv;  ///< width of a head in the keys' up projection
  explicit Widths(BlockShape const& shape)
      : LatentAttention{shape.model.latent_attention},
        s{shape.sequence()},
        local{shape.local_sequence()},
        b{shape.micro},
        heads{shape.heads()},
        qk{nope_dim + rope_dim},
        kv{nope_dim + value_dim} {}
  std::int64_t key_down() const { return key_rank + rope_dim; }
};

/// The group over which gradients of replicated weights are summed, if ranks split the rows of a
/// sequence: each computes a part of the sum.
std::optional<GroupId> sum_over_rows(BlockShape const& shape) {
  return shape.sequence_parallel ? std::optional{shape.tensor_group} : std::nullopt;
}

void make_down(ProgramBuilder& builder, Linear& linear, std::int64_t width) {
  BlockShape const& shape = builder.shape();
  Shape const extents{width, shape.model.hidden};
  linear.weight = builder.parameter({linear.owner, "weight"}, extents,
                                    replicated(shape.tensor, extents, sum_over_rows(shape)));
}

void make_up(ProgramBuilder& builder, Linear& linear, std::int64_t width, std::int64_t depth) {
  linear.weight = builder.parameter({linear.owner, "weight"}, {width, depth},
                                    cut_by_rows(builder.shape().tensor, {{.rows = width}}, depth));
}

/// The columns [offset, offset + columns) of each token of x, as one head.
TensorId one_head(
    ProgramBuilder& builder, Name name, TensorId x, std::int64_t columns, std::int64_t offset) {
  Shape const extents = builder.tensor(x).shape;
  std::int64_t const width = extents[extents.rank() - 1];
  return builder.view(name, x, {extents[0], extents[1], 1, columns},
                      {extents[1] * width, width, width, 1}, offset);
}

/// A tensor [s, b, heads d] as [s, b, heads, d].
TensorId by_heads(ProgramBuilder& builder, Name name, TensorId x, std::int64_t heads) {
  Shape const extents = builder.tensor(x).shape;
  std::int64_t const width = extents[2];
  return builder.view(name, x, {extents[0], extents[1], heads, width / heads},
                      {extents[1] * width, width, width / heads, 1}, 0);
}

/// Appends the norm of the first `rank` columns of a latent.
TensorId norm_latent(ProgramBuilder& builder, HeadsNorm& norm, TensorId latent, std::int64_t rank) {
  Widths const widths{builder.shape()};
  TensorId const normed = builder.make({norm.owner, "output"}, {widths.local, widths.b, rank});
  TensorId const x = one_head(builder, {norm.owner, "input"}, latent, rank, 0);
  heads_norm_forward(builder, norm, x,
                     one_head(builder, {norm.owner, "output_head"}, normed, rank, 0));
  return normed;
}

/// Appends its backward. Returns the gradient of the columns, [s or s/t, b, rank].
TensorId norm_latent_backward(ProgramBuilder& builder, HeadsNorm const& norm, TensorId dy) {
  Shape const extents = builder.tensor(dy).shape;
  TensorId const dx = builder.make({norm.owner, "input_gradient"}, extents);
  heads_norm_backward(builder, norm,
                      one_head(builder, {norm.owner, "output_gradient_head"}, dy, extents[2], 0),
                      one_head(builder, {norm.owner, "input_gradient_head"}, dx, extents[2], 0));
  return dx;
}

/// The rotary part of the keys of all positions, as one head. With sequence parallelism it is
/// gathered.
TensorId shared_keys(ProgramBuilder& builder, TensorId latent) {
  Widths const widths{builder.shape()};
  TensorId const own =
      one_head(builder, {"attention.key_down", "rope"}, latent, widths.rope_dim, widths.key_rank);
  if (!builder.shape().sequence_parallel) return own;
  TensorId const part =
      builder.make({"attention.key_rope", "part"}, {widths.local, widths.b, widths.rope_dim});
  builder.add(OpKind::merge_heads, {"attention.key_rope", "copy"}, Phase::forward, {own}, {part});
  TensorId const whole =
      builder.make({"attention.key_rope", "gathered"}, {widths.s, widths.b, widths.rope_dim});
  builder.collective(OpKind::all_gather, {"attention.key_rope", "all_gather"}, Phase::forward, part,
                     whole, whole, Overlap::none);
  return one_head(builder, {"attention.key_rope", "head"}, whole, widths.rope_dim, 0);
}

/// Sums the gradient of the keys' rotary part, [s, b, rope], over the heads of all ranks.
TensorId sum_shared_keys(ProgramBuilder& builder, TensorId partial) {
  Widths const widths{builder.shape()};
  if (!builder.shape().sequence_parallel) {
    builder.collective(OpKind::all_reduce, {"attention.key_rope", "all_reduce"},
                       Phase::input_gradient, partial, partial, partial, Overlap::none);
    return partial;
  }
  TensorId const part = builder.make({"attention.key_rope", "gradient_part"},
                                     {widths.local, widths.b, widths.rope_dim});
  builder.collective(OpKind::reduce_scatter, {"attention.key_rope", "reduce_scatter"},
                     Phase::input_gradient, partial, part, partial, Overlap::none);
  return part;
}

TensorId key_gradient(ProgramBuilder& builder,
                      LatentProjections const& latents,
                      int layer,
                      TensorId x,
                      TensorId d_kv,
                      TensorId d_rope) {
  Widths const widths{builder.shape()};
  TensorId const d_normed =
      column_parallel_backward(builder, latents.key_up, latents.key_normed, d_kv);
  TensorId const d_latent = norm_latent_backward(builder, latents.key_norm, d_normed);
  TensorId const d_shared = sum_shared_keys(builder, d_rope);
  builder.begin(Pass::backward, "attention_input", layer);
  TensorId const d_down = builder.make({"attention.key_down", "output_gradient"},
                                       {widths.local, widths.b, widths.key_down()});
  builder.add(OpKind::join_columns, {"attention.key_down", "join"}, Phase::input_gradient,
              {d_latent, d_shared}, {d_down});
  return own_rows_backward(builder, latents.key_down, x, d_down);
}

TensorId query_gradient(
    ProgramBuilder& builder, LatentProjections const& latents, int layer, TensorId x, TensorId dq) {
  if (latents.query_down.weight == no_tensor) {
    builder.begin(Pass::backward, "attention_input", layer);
    return column_parallel_backward(builder, latents.query, x, dq);
  }
  builder.begin(Pass::backward, up_module, layer);
  TensorId const d_normed =
      column_parallel_backward(builder, latents.query_up, latents.query_normed, dq);
  TensorId const d_latent = norm_latent_backward(builder, latents.query_norm, d_normed);
  builder.begin(Pass::backward, "attention_input", layer);
  return own_rows_backward(builder, latents.query_down, x, d_latent);
}

}  // namespace

void make_latent_projections(ProgramBuilder& builder, LatentProjections& latents) {
  BlockShape const& shape = builder.shape();
  Widths const widths{shape};
  if (widths.query_rank == 0) {
    make_up(builder, latents.query, widths.heads * widths.qk, shape.model.hidden);
  } else {
    make_down(builder, latents.query_down, widths.query_rank);
    make_heads_norm(builder, latents.query_norm, widths.query_rank, sum_over_rows(shape));
    make_up(builder, latents.query_up, widths.heads * widths.qk, widths.query_rank);
  }
  make_down(builder, latents.key_down, widths.key_down());
  make_heads_norm(builder, latents.key_norm, widths.key_rank, sum_over_rows(shape));
  make_up(builder, latents.key_up, widths.heads * widths.kv, widths.key_rank);
}

LatentHeads latent_forward(ProgramBuilder& builder,
                           LatentProjections& latents,
                           int layer,
                           TensorId x) {
  Widths const widths{builder.shape()};
  bool const has_query_latent = latents.query_down.weight != no_tensor;
  TensorId query = no_tensor;
  TensorId latent = no_tensor;
  if (has_query_latent) {
    latent = own_rows_forward(builder, latents.query_down, x, {"attention.query_down", "output"});
  } else {
    query = column_parallel_forward(builder, latents.query, x, {"attention.query", "output"});
  }
  TensorId const key_latent =
      own_rows_forward(builder, latents.key_down, x, {"attention.key_down", "output"});
  TensorId const k_pe = shared_keys(builder, key_latent);

  builder.begin(Pass::forward, up_module, layer);
  if (has_query_latent) {
    latents.query_normed = norm_latent(builder, latents.query_norm, latent, widths.query_rank);
    query = column_parallel_forward(builder, latents.query_up, latents.query_normed,
                                    {"attention.query_up", "output"});
  }
  latents.key_normed = norm_latent(builder, latents.key_norm, key_latent, widths.key_rank);
  TensorId const kv = column_parallel_forward(builder, latents.key_up, latents.key_normed,
                                              {"attention.key_up", "output"});
  Shape const heads{widths.s, widths.b, widths.heads, widths.qk};
  LatentHeads made;
  made.q = builder.make({"core_attention", "rotated_q"}, heads);
  made.k = builder.make({"core_attention", "k"}, heads);
  made.v =
      builder.make({"core_attention", "v"}, {widths.s, widths.b, widths.heads, widths.value_dim});
  builder.add(OpKind::latent_rotary, {"attention.latent", "rotary"}, Phase::forward,
              {by_heads(builder, {"core_attention", "q"}, query, widths.heads),
               by_heads(builder, {"core_attention", "kv"}, kv, widths.heads), k_pe},
              {made.q, made.k, made.v}, RotaryAttributes{builder.shape().model.rotary_base});
  return made;
}

TensorId latent_backward(ProgramBuilder& builder,
                         LatentProjections const& latents,
                         int layer,
                         TensorId x,
                         LatentHeads const& gradients) {
  Widths const widths{builder.shape()};
  builder.begin(Pass::backward, up_module, layer);
  auto const gradient = [&](std::string_view of, std::int64_t width) {
    return builder.make({of, "output_gradient"}, {widths.s, widths.b, width});
  };
  TensorId const dq = gradient("attention.query_up", widths.heads * widths.qk);
  TensorId const d_kv = gradient("attention.key_up", widths.heads * widths.kv);
  TensorId const d_rope = gradient("attention.key_rope", widths.rope_dim);
  builder.add(
      OpKind::latent_rotary_backward, {"attention.latent", "rotary_backward"},
      Phase::input_gradient, {gradients.q, gradients.k, gradients.v},
      {by_heads(builder, {"attention.query_up", "gradient_by_head"}, dq, widths.heads),
       by_heads(builder, {"attention.key_up", "gradient_by_head"}, d_kv, widths.heads),
       one_head(builder, {"attention.key_rope", "gradient_head"}, d_rope, widths.rope_dim, 0)},
      RotaryAttributes{builder.shape().model.rotary_base});
  TensorId const d_keys = key_gradient(builder, latents, layer, x, d_kv, d_rope);
  TensorId const dx = query_gradient(builder, latents, layer, x, dq);
  builder.add(OpKind::add, {"attention.latent", "input_gradient"}, Phase::input_gradient,
              {dx, d_keys}, {dx});
  return dx;
}

}  // namespace stagecraft
