#include <algorithm>
#include <catch2/catch.hpp>

#include "libsim/modules/blocks.hpp"
#include "tests/libsim/model/kept_buffers.hpp"
#include "tests/libsim/paper_models.hpp"

// Closed forms: Megatron-LM of 2026, as its code saves tensors, for layers that differ from the
// paper's; 2 bytes per element, statistics of norms left out.

namespace stagecraft::layer_variants_test {
namespace {

constexpr std::int64_t s = 64, b = 3, h = 768, a = 12, d = 64, t = 4;
constexpr std::int64_t sbh = s * b * h;
constexpr std::int64_t as2b = a * s * s * b;

/// A layer of `model` on one of t ranks with sequence parallelism: everything but what replication
/// adds is 1/t of the whole.
std::int64_t kept_times_t(ModelConfig const& model, RecomputePolicy const& policy = {}) {
  BlockProgram const layer =
      build_layers({.model = model, .tensor = t, .sequence_parallel = true, .micro = b}, 1, policy);
  return t * (saved_bytes(layer).count() - statistics_bytes(layer));
}

ModelConfig base() { return gpt(1, h, a, s, 1000); }

RecomputePolicy selective(std::vector<std::string> modules) {
  return {.granularity = RecomputeGranularity::selective, .modules = std::move(modules)};
}

TEST_CASE("without dropout a layer keeps 32sbh + 2abs^2", "[model]") {
  ModelConfig model = base();
  model.dropout = 0;
  REQUIRE(kept_times_t(model) == 32 * sbh + 2 * as2b);
}

TEST_CASE("without dropout tensor parallelism alone leaves sbh(8 + 24/t) + 2abs^2/t", "[model]") {
  ModelConfig model = base();
  model.dropout = 0;
  BlockProgram const layer = build_layers({.model = model, .tensor = t, .micro = b}, 1, {});
  REQUIRE(saved_bytes(layer).count() - statistics_bytes(layer) ==
          8 * sbh + 24 * sbh / t + 2 * as2b / t);
}

TEST_CASE("regenerated masks are not kept, nor is the dropout output they can be redrawn for",
          "[model]") {
  // 34sbh + 5abs^2 less two residual masks (2sbh), the attention mask (abs^2) and its output
  // (2abs^2).
  ModelConfig model = base();
  model.dropout_mask = DropoutMask::regenerated;
  REQUIRE(kept_times_t(model) == 32 * sbh + 2 * as2b);
}

TEST_CASE("an MLP of width f keeps 4sbf/t around its GeLU", "[model]") {
  ModelConfig model = base();
  model.ffn_hidden = 1000;
  // 34sbh less 16sbh, the two tensors of width 4h, plus two of width f.
  REQUIRE(kept_times_t(model) == 18 * sbh + 4 * s * b * 1000 + 5 * as2b);
}

TEST_CASE("SwiGLU keeps 6sbf/t: both branches and their product", "[model]") {
  ModelConfig model = base();
  model.activation = Activation::swiglu;
  model.ffn_hidden = 2048;
  REQUIRE(kept_times_t(model) == 18 * sbh + 6 * s * b * 2048 + 5 * as2b);
}

TEST_CASE("flash attention keeps q, k, v, its output and 4abs/t of log-sum-exp, and no s^2 term",
          "[model]") {
  ModelConfig model = base();
  model.attention = Attention::flash;
  REQUIRE(kept_times_t(model) == 34 * sbh + 4 * a * b * s);
}

TEST_CASE("flash attention with g groups keeps 2sbd(a + 2g)/t for q, k, v", "[model]") {
  ModelConfig model = base();
  model.attention = Attention::flash;
  model.kv_heads = 4;
  REQUIRE(kept_times_t(model) == 28 * sbh + 2 * s * b * d * (a + 2 * 4) + 4 * a * b * s);
}

TEST_CASE("unfused attention with g groups keeps k and v repeated beside the originals",
          "[model]") {
  // The fused buffer stays for q (2sbd(a + 2g)); k and v of every query head are copies (4sbh).
  ModelConfig model = base();
  model.kv_heads = 4;
  REQUIRE(kept_times_t(model) == 28 * sbh + 2 * s * b * d * (a + 2 * 4) + 4 * sbh + 5 * as2b);
}

TEST_CASE("rotary positions keep rotated q and k, and the whole fused buffer for v", "[model]") {
  ModelConfig model = base();
  model.positions = Positions::rotary;
  REQUIRE(kept_times_t(model) == 38 * sbh + 5 * as2b);
  model.attention = Attention::flash;
  REQUIRE(kept_times_t(model) == 38 * sbh + 4 * a * b * s);
}

TEST_CASE("rotated and repeated keys and values leave nothing that needs the fused buffer",
          "[model]") {
  // Backward reads rotated q (2sbh) and the copies of k and v (4sbh) only.
  ModelConfig model = base();
  model.positions = Positions::rotary;
  model.kv_heads = 4;
  REQUIRE(kept_times_t(model) == 34 * sbh + 5 * as2b);
}

TEST_CASE("a rank keeps whole kv heads where there are fewer than ranks", "[model]") {
  // 2 groups on 4 ranks: every rank holds 3 query heads and one kv head.
  ModelConfig model = base();
  model.attention = Attention::flash;
  model.kv_heads = 2;
  REQUIRE(kept_times_t(model) == 28 * sbh + 2 * s * b * d * (a + 2 * t) + 4 * a * b * s);
}

TEST_CASE("RMS-norm keeps one statistic a row, layer-norm two, in fp32", "[model]") {
  ModelConfig model = base();
  BlockShape shape{.model = model, .micro = b};
  REQUIRE(statistics_bytes(build_layers(shape, 1, {})) == 2 * 2 * 4 * s * b);
  shape.model.norm = Norm::rmsnorm;
  REQUIRE(statistics_bytes(build_layers(shape, 1, {})) == 2 * 1 * 4 * s * b);
}

TEST_CASE("biases keep nothing", "[model]") {
  ModelConfig model = base();
  model.biases = false;
  REQUIRE(kept_times_t(model) == 34 * sbh + 5 * as2b);
}

TEST_CASE("wider elements cost in proportion, masks do not", "[model]") {
  // 34sbh holds 2sbh of masks, 5abs^2 holds abs^2: the rest doubles (fp32) or quadruples (fp64).
  ModelConfig model = base();
  model.precision = Precision::fp32;
  REQUIRE(kept_times_t(model) == (2 * 32 + 2) * sbh + (2 * 4 + 1) * as2b);
  model.precision = Precision::fp64;
  REQUIRE(kept_times_t(model) == (4 * 32 + 2) * sbh + (4 * 4 + 1) * as2b);
}

TEST_CASE("recomputing core attention drops 5abs^2, whatever else is recomputed", "[model]") {
  REQUIRE(kept_times_t(base(), selective({"core_attention"})) == 34 * sbh);
  REQUIRE(kept_times_t(base(), selective({"core_attention", "mlp"})) == 18 * sbh);
  REQUIRE(kept_times_t(base(), selective({"core_attention", "layernorm"})) == 30 * sbh);
  REQUIRE(kept_times_t(base(), selective({"core_attention", "mlp", "layernorm"})) == 14 * sbh);
}

TEST_CASE("recomputing the MLP keeps its input and drops 4sbf, or 6sbf of SwiGLU", "[model]") {
  auto const mlp = selective({"mlp"});
  REQUIRE(kept_times_t(base(), mlp) == 18 * sbh + 5 * as2b);
  ModelConfig model = base();
  model.activation = Activation::swiglu;
  model.ffn_hidden = 2048;
  REQUIRE(kept_times_t(model, mlp) == 18 * sbh + 5 * as2b);
}

TEST_CASE("discarding both norms' outputs leaves 30sbh + 5abs^2 and no statistics", "[model]") {
  auto const norms = selective({"layernorm"});
  REQUIRE(kept_times_t(base(), norms) == 30 * sbh + 5 * as2b);
  BlockProgram const layer = build_layers({.model = base(), .micro = b}, 1, norms);
  REQUIRE(statistics_bytes(layer) == 0);
}

TEST_CASE("the order in which modules are named changes nothing", "[model]") {
  for (auto const& modules : {std::vector<std::string>{"mlp", "layernorm", "core_attention"},
                              std::vector<std::string>{"layernorm", "core_attention", "mlp"}}) {
    REQUIRE(kept_times_t(base(), selective(modules)) == 14 * sbh);
  }
}

TEST_CASE("a group of layers under full recompute keeps one input", "[model]") {
  int const layers = GENERATE(1, 2, 5);
  BlockProgram const group =
      build_layers({.model = base(), .tensor = t, .micro = b}, layers,
                   {.granularity = RecomputeGranularity::full, .layers = layers});
  REQUIRE(kept_buffers(group) ==
          std::map<std::string, std::int64_t>{{"attention_norm.input", 2 * sbh}});
}

TEST_CASE("sharded checkpoints keep 2sbh/t without sequence parallelism", "[model]") {
  BlockProgram const layer =
      build_layers({.model = base(), .tensor = t, .micro = b}, 1,
                   {.granularity = RecomputeGranularity::full, .sharded_checkpoints = true});
  REQUIRE(saved_bytes(layer) == Bytes{2 * sbh / t});
}

TEST_CASE("a sharded checkpoint is 1/t of all elements even where t does not divide s", "[model]") {
  // Megatron-LM, split_tensor_into_1d_equal_chunks: a flat piece.
  ModelConfig model = base();
  model.sequence = 63;
  BlockProgram const layer =
      build_layers({.model = model, .tensor = t, .micro = b}, 1,
                   {.granularity = RecomputeGranularity::full, .sharded_checkpoints = true});
  REQUIRE(saved_bytes(layer) == Bytes{2 * 63 * b * h / t});
}

TEST_CASE("several layers in one block keep as much as each alone", "[model]") {
  BlockShape const shape{.model = base(), .tensor = t, .micro = b};
  REQUIRE(saved_bytes(build_layers(shape, 3, {})).count() ==
          3 * saved_bytes(build_layers(shape, 1, {})).count());
}

TEST_CASE("the embedding keeps token ids and a dropout mask of one byte an element", "[model]") {
  // Section 4.3: sbh/t a microbatch with sequence parallelism; Megatron's int64 ids, 8sb.
  BlockShape shape{.model = base(), .tensor = t, .micro = b};
  REQUIRE(saved_bytes(build_embedding(shape)).count() == sbh + 8 * s * b);
  shape.sequence_parallel = true;
  REQUIRE(saved_bytes(build_embedding(shape)).count() == sbh / t + 8 * s * b);
  shape.model.dropout = 0;
  REQUIRE(saved_bytes(build_embedding(shape)).count() == 8 * s * b);
}

TEST_CASE("the head keeps 4sbh/t (1 + v/h): norm input, projection input and fp32 logits",
          "[model]") {
  // Section 4.3. Beside it: labels (8sb) and statistics. v padded to a multiple of 128 t.
  ModelConfig model = base();
  model.vocabulary = 2 * 128 * t;
  BlockProgram const head = build_head(
      {.model = model, .tensor = t, .sequence_parallel = true, .micro = b}, HeadWeight::own);
  std::int64_t const closed = 4 * s * b * (h + model.vocabulary) / t;
  REQUIRE(saved_bytes(head).count() - statistics_bytes(head) == closed + 8 * s * b);
}

TEST_CASE("the causal mask is one byte a pair of positions and made once a microbatch", "[model]") {
  REQUIRE(kept_buffers(build_inputs({.model = base(), .micro = b})) ==
          std::map<std::string, std::int64_t>{{"inputs.causal_mask", s * s}});
}

TEST_CASE("a ReLU keeps its output alone, which the product after it reads anyway", "[model]") {
  // 34sbh less 8sbh, the input of the GeLU (PyTorch's relu saves its result).
  ModelConfig model = base();
  model.activation = Activation::relu;
  REQUIRE(kept_times_t(model) == 26 * sbh + 5 * as2b);
}

TEST_CASE("GeGLU keeps what SwiGLU keeps", "[model]") {
  ModelConfig model = base();
  model.activation = Activation::swiglu;
  std::int64_t const swiglu = kept_times_t(model);
  model.activation = Activation::geglu;
  REQUIRE(kept_times_t(model) == swiglu);
}

TEST_CASE("without dropout in the attention core alone a layer keeps 34sbh + 2abs^2", "[model]") {
  ModelConfig model = base();
  model.attention_dropout = 0;
  REQUIRE(kept_times_t(model) == 34 * sbh + 2 * as2b);
}

TEST_CASE("a parallel layer keeps one hidden state instead of two, and one norm's output less",
          "[model]") {
  // Both norms read x: one input of 2sbh less. With one norm its output is kept once: 2sbh less.
  ModelConfig model = base();
  model.residual = Residual::parallel;
  REQUIRE(kept_times_t(model) == 32 * sbh + 5 * as2b);
  model.residual = Residual::parallel_one_norm;
  REQUIRE(kept_times_t(model) == 30 * sbh + 5 * as2b);
}

TEST_CASE("a parallel layer multiplies the same matrices as a sequential one", "[model]") {
  auto const all = [](Op const&) { return true; };
  ModelConfig model = base();
  std::int64_t const flops = flops_of(build_layers({.model = model, .tensor = t}, 1, {}), all);
  for (Residual const residual : {Residual::parallel, Residual::parallel_one_norm}) {
    model.residual = residual;
    REQUIRE(flops_of(build_layers({.model = model, .tensor = t}, 1, {}), all) == flops);
  }
}

TEST_CASE("each gradient of a parallel layer reaches its input", "[model]") {
  // dx = dy + d attention/dx + d MLP/dx: two additions to what the norms hand back, and with one
  // norm one to its output's gradient and one to its input's.
  ModelConfig model = base();
  model.residual = GENERATE(Residual::parallel, Residual::parallel_one_norm);
  BlockProgram const layer = build_layers({.model = model}, 1, {});
  auto const count = [&](OpKind kind) {
    return std::count_if(layer.backward.begin(), layer.backward.end(),
                         [&](Op const& op) { return op.kind == kind; });
  };
  REQUIRE(count(OpKind::add) == 2);
  REQUIRE(count(OpKind::norm_backward) == (model.residual == Residual::parallel ? 2 : 1));
  // Both halves' dropouts start from dy, the gradient that the block receives.
  std::vector<TensorId> dropped;
  for (Op const& op : layer.backward) {
    if (op.kind == OpKind::dropout_backward && op.module != "core_attention") {
      dropped.push_back(op.reads[0]);
    }
  }
  REQUIRE(dropped == std::vector<TensorId>{layer.grad_output, layer.grad_output});
}

TEST_CASE("a softmax fused with its dropout moves the bytes of a hand count", "[model]") {
  ModelConfig model = base();
  model.softmax_dropout = SoftmaxDropout::fused;
  model.dropout_mask = GENERATE(DropoutMask::stored, DropoutMask::regenerated);
  bool const stores = model.dropout_mask == DropoutMask::stored;
  BlockProgram const layer = build_layers({.model = model}, 1, {});
  std::int64_t const square = model.heads * model.sequence * model.sequence;
  auto const only = [&](std::vector<Op> const& ops, OpKind kind) {
    auto const is_kind = [&](Op const& op) { return op.kind == kind; };
    REQUIRE(std::count_if(ops.begin(), ops.end(), is_kind) == 1);
    return *std::find_if(ops.begin(), ops.end(), is_kind);
  };
  // Half of the scores read; softmax output, dropout output and a mask of one byte written.
  Op const forward = only(layer.forward, OpKind::causal_softmax_dropout);
  REQUIRE(forward.traffic.count() == square + 2 * square + 2 * square + (stores ? square : 0));
  REQUIRE(forward.draws_random);
  // Half of gradient, output and mask read; the gradient written.
  Op const backward = only(layer.backward, OpKind::causal_softmax_dropout_backward);
  REQUIRE(backward.traffic.count() == square + square + (stores ? square / 2 : 0) + 2 * square);
  REQUIRE(backward.draws_random == !stores);
  for (Op const& op : layer.forward) REQUIRE(op.kind != OpKind::causal_softmax);
  for (Op const& op : layer.backward) REQUIRE(op.kind != OpKind::causal_softmax_backward);
}

TEST_CASE("without a dropout of probabilities there is nothing to fuse", "[model]") {
  ModelConfig model = base();
  model.attention_dropout = 0;
  ModelConfig fused = model;
  fused.softmax_dropout = SoftmaxDropout::fused;
  BlockProgram const separate = build_layers({.model = model}, 1, {});
  BlockProgram const same = build_layers({.model = fused}, 1, {});
  REQUIRE(same.forward.size() == separate.forward.size());
  for (std::size_t i = 0; i < same.forward.size(); ++i) {
    REQUIRE(same.forward[i].kind == separate.forward[i].kind);
  }
}

TEST_CASE("rows of the positions that no token reads cost memory but no traffic", "[model]") {
  ModelConfig model = base();
  BlockProgram const exact = build_embedding({.model = model});
  model.position_rows = 2 * s;
  BlockProgram const longer = build_embedding({.model = model});
  REQUIRE(longer.forward.size() == exact.forward.size());
  for (std::size_t i = 0; i < exact.forward.size(); ++i) {
    REQUIRE(longer.forward[i].traffic == exact.forward[i].traffic);
  }
  for (std::size_t i = 0; i < exact.backward.size(); ++i) {
    REQUIRE(longer.backward[i].traffic == exact.backward[i].traffic);
  }
  REQUIRE(parameter_count(model) == parameter_count(base()) + s * h);
}

TEST_CASE("a bias of the QKV projection alone has a(d + 2gd/a) elements", "[model]") {
  ModelConfig model = base();
  model.biases = false;
  model.kv_heads = 4;
  std::int64_t const without = parameter_count(model);
  model.qkv_bias = true;
  REQUIRE(parameter_count(model) == without + a * d + 2 * 4 * d);
}

}  // namespace
}  // namespace stagecraft::layer_variants_test
