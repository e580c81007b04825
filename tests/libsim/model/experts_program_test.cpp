#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "libsim/modules/blocks.hpp"
#include "libsim/program/forced_routing.hpp"
#include "libsim/program/liveness.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft::experts_program_test {
namespace {

/// bf16, gated, RMS norms, no dropout: what DeepSeek's and Mixtral's layers have in common.
BlockShape sparse_shape(std::int64_t shared = 0) {
  ModelConfig model = gpt(1, 256, 8, 64, 1000);
  model.precision = Precision::bf16;
  model.activation = Activation::swiglu;
  model.norm = Norm::rmsnorm;
  model.positions = Positions::rotary;
  model.attention = Attention::flash;
  model.biases = false;
  model.dropout = 0;
  model.experts =
      ExpertsConfig{.count = 8, .per_token = 2, .ffn_hidden = 96, .shared_ffn_hidden = shared};
  return {.model = model, .micro = 2};
}

/// Bytes that a block keeps besides those of attention.
std::int64_t kept_beside_attention(BlockProgram const& block) {
  std::vector<std::string_view> const owners{"mlp_norm",
                                             "experts",
                                             "router",
                                             "dispatch",
                                             "experts.activation",
                                             "experts.down",
                                             "shared_experts.activation",
                                             "shared_experts.down"};
  std::int64_t sum = 0;
  for (BufferLife const& life : block.lives) {
    Tensor const& tensor = block.tensor(life.buffer);
    bool const counts = std::find(owners.begin(), owners.end(), tensor.name.owner) != owners.end();
    if (life.is_saved() && counts) sum += tensor.bytes().count();
  }
  return sum;
}

RecomputePolicy selective(std::vector<std::string> modules) {
  return {.granularity = RecomputeGranularity::selective, .modules = std::move(modules)};
}

TEST_CASE("a sparse layer keeps what Megatron-Core's layer keeps", "[model]") {
  // Megatron-Core 0.13 and Transformer Engine, dispatcher alltoall, fused permutation and router:
  // norm input and output 4Th; row map 4T(2E + 1); scores in fp32 and map 5TE; per row the experts'
  // input, fc1's output and the activation, 2(h + 3f/ETP), and its probability, 4; of shared
  // experts 6 Tf fs / t; 4T of the norm's statistics.
  std::int64_t const s = 64, b = 2, h = 256, f = 96, E = 8, k = 2, fs = 64;
  struct Layout {
    int t, ep, etp;
  };
  for (Layout const layout :
       {Layout{1, 1, 1}, {1, 2, 1}, {1, 8, 1}, {2, 4, 1}, {2, 2, 2}, {2, 8, 2}}) {
    CAPTURE(layout.t, layout.ep, layout.etp);
    for (std::int64_t const shared : {std::int64_t{0}, fs}) {
      BlockShape shape = sparse_shape(shared);
      shape.tensor = layout.t;
      shape.sequence_parallel = layout.t > 1;
      shape.expert = layout.ep;
      shape.expert_tensor = layout.etp;
      BlockProgram const layer = build_layers(shape, 1, {});
      std::int64_t const T = s * b / layout.t, R = T * k * layout.etp;
      REQUIRE(kept_beside_attention(layer) == 4 * T * h + 4 * T * (2 * E + 1) + 5 * T * E +
                                                  2 * R * (h + 3 * f / layout.etp) + 4 * R +
                                                  6 * s * b * shared / layout.t + 4 * T);
    }
  }
}

TEST_CASE("weighting in a kernel of its own keeps the activation's output too", "[model]") {
  BlockShape shape = sparse_shape();
  shape.expert_tensor = shape.tensor = 2;
  shape.sequence_parallel = true;
  std::int64_t const fused = kept_beside_attention(build_layers(shape, 1, {}));
  shape.model.experts->fused_weighting = false;
  std::int64_t const R = 64 * 2 / 2 * 2 * 2, f = 96;
  REQUIRE(kept_beside_attention(build_layers(shape, 1, {})) == fused + 2 * R * f / 2);
}

TEST_CASE("DeepSeek-V3's sparse layer keeps the published 1,790 MiB less its attention",
          "[model]") {
  // Of its table of one layer at s = 4096, b = 1: norm in and out 112, fc1 in 448, fc1 out 256,
  // activation 128, shared experts 48, row map 8 MiB; about 4 of probabilities, map and scores. All
  // experts on eight ranks.
  BlockShape shape = sparse_shape();
  shape.model.hidden = 7168;
  shape.model.sequence = 4096;
  shape.model.heads = shape.model.kv_heads = 128;
  shape.model.head_dim = 128;
  shape.model.experts =
      ExpertsConfig{.count = 256, .per_token = 8, .ffn_hidden = 2048, .shared_ffn_hidden = 2048};
  shape.micro = 1;
  shape.expert = 8;
  double const mib =
      static_cast<double>(kept_beside_attention(build_layers(shape, 1, {}))) / (1 << 20);
  REQUIRE(mib == Approx(112 + 448 + 256 + 128 + 48 + 8 + 4).margin(2));
}

TEST_CASE("products of a sparse layer have the FLOPs of the experts that its tokens use",
          "[model]") {
  // 6 T k 3 h f of the routed experts, forward, input and weight gradient; on a rank R rows.
  BlockShape shape = sparse_shape();
  shape.expert = 4;
  BlockProgram const layer = build_layers(shape, 1, {});
  auto const flops = flops_of(layer, [](Op const& op) { return op.kind == OpKind::grouped_gemm; });
  REQUIRE(flops == std::int64_t{6} * 128 * 2 * 3 * 256 * 96);
  auto const of_router = flops_of(layer, [](Op const& op) { return op.module == "router"; });
  REQUIRE(of_router == std::int64_t{6} * 128 * 8 * 256);
}

TEST_CASE("model FLOPs of models with experts are the published ones, without the router",
          "[model]") {
  // Megatron-LM's count per token, forward and backward: 6 (attention's weights + 3 h f k) L + 6 h
  // v and 12 a d s L for attention over the full square (its own count halves that: 242.2 and 79.7
  // GFLOP of Mixtral at s = 4096).
  struct Row {
    std::int64_t layers, hidden, heads, width, vocabulary;
    double half;
  };
  for (Row const& row :
       {Row{56, 6144, 48, 16384, 32768, 242.2e9}, Row{32, 4096, 32, 14336, 32000, 79.7e9}}) {
    ModelConfig model = sparse_shape().model;
    std::int64_t const s = 4096;
    model.layers = row.layers;
    model.hidden = row.hidden;
    model.heads = row.heads;
    model.kv_heads = 8;
    model.head_dim = 128;
    model.sequence = s;
    model.vocabulary = row.vocabulary;
    model.tied_embeddings = false;
    model.experts = ExpertsConfig{.count = 8, .per_token = 2, .ffn_hidden = row.width};
    double const core = static_cast<double>(attention_flops_per_sequence(model));
    double const all = static_cast<double>(model_flops_per_sequence(model));
    REQUIRE(all - core / 2 == Approx(row.half * static_cast<double>(s)).epsilon(0.0005));
  }
}

TEST_CASE("tokens go to the experts' ranks and back, forward and backward", "[model]") {
  auto const moves = [](BlockShape const& shape, Pass pass) {
    std::string text;
    BlockProgram const layer = build_layers(shape, 1, {});
    for (Op const& op : layer.ops(pass)) {
      bool const is_of_experts = op.module == "dispatch" || op.module == "combine";
      if (!is_of_experts || op.kind == OpKind::wait) continue;
      text += std::string{name_of(op.kind)} + " ";
    }
    return text;
  };
  BlockShape shape = sparse_shape();
  REQUIRE(moves(shape, Pass::forward) == "permute unpermute ");
  shape.expert = 8;
  REQUIRE(moves(shape, Pass::forward) == "permute all_to_all all_to_all all_to_all unpermute ");
  shape.expert = 4;
  REQUIRE(moves(shape, Pass::forward) ==
          "permute all_to_all all_to_all transpose_chunks transpose_chunks all_to_all unpermute ");
  REQUIRE(moves(shape, Pass::backward) ==
          "unpermute_backward all_to_all transpose_chunks transpose_chunks all_to_all all_to_all "
          "permute_backward ");
  shape.expert_tensor = 2;
  REQUIRE(moves(shape, Pass::forward) ==
          "permute all_to_all all_to_all all_gather all_gather transpose_chunks transpose_chunks "
          "reduce_scatter all_to_all unpermute ");
  REQUIRE(moves(shape, Pass::backward) ==
          "unpermute_backward all_to_all all_gather transpose_chunks transpose_chunks "
          "reduce_scatter reduce_scatter all_to_all all_to_all permute_backward ");
}

std::vector<std::int64_t> rows_sent(BlockProgram const& layer, Pass pass) {
  std::vector<std::int64_t> rows;
  for (Op const& op : layer.ops(pass)) {
    bool const is_of_rows = to_string(op.name).find("rows") != std::string::npos;
    if (op.kind != OpKind::all_to_all || !is_of_rows) continue;
    rows.push_back(op.payload.count() / (2 * 256));  // h = 256, bf16
  }
  return rows;
}

TEST_CASE("with a capacity every expert gets that many rows, padded", "[model]") {
  // Megatron-LM, get_capacity: ceil(128 tokens x 2 / 8 experts x 1.1) = ceil(35.2) rows of each
  // expert, so that a rank sends 8 x 36 of them and its 2 experts get 4 x 36 each.
  BlockShape shape = sparse_shape();
  shape.expert = 4;
  shape.capacity = 1.1;
  BlockProgram const layer = build_layers(shape, 1, {});
  REQUIRE(rows_sent(layer, Pass::forward) == std::vector<std::int64_t>{288, 288});
  for (Op const& op : layer.ops(Pass::forward)) {
    if (op.module != "experts") continue;
    REQUIRE(std::get<GemmAttributes>(op.attributes).shape.m == 4 * 36);
  }
}

TEST_CASE("the hottest rank computes more rows than it sends", "[model]") {
  // 256 choices; at 1.5 times as many of them each of its two experts gets 192.
  BlockShape shape = sparse_shape();
  shape.expert = 4;
  std::int64_t const balanced = kept_beside_attention(build_layers(shape, 1, {}));
  ForcedRouting const forced;
  shape.forced = &forced;
  shape.room = shape.computed_room = 384;
  BlockProgram const layer = build_layers(shape, 1, {});
  // An exchange ends when the hottest rank has all of its rows, or has sent them.
  REQUIRE(rows_sent(layer, Pass::forward) == std::vector<std::int64_t>{384, 384});
  REQUIRE(rows_sent(layer, Pass::backward) == std::vector<std::int64_t>{384, 384});
  // Per row: the experts' input, fc1's output and the activation, 2(h + 3f), its probability, 4;
  // and per expert how many rows go to it, and per sender and local expert how many come, 4 each.
  REQUIRE(kept_beside_attention(layer) - balanced ==
          128 * (2 * (256 + 3 * 96) + 4) + 4 * 8 + 4 * 4 * 2);
}

TEST_CASE("recompute of experts drops what Megatron-Core drops", "[model]") {
  std::int64_t const T = 128, h = 256, f = 96, E = 8, R = 256, fs = 64;
  BlockShape const shape = sparse_shape(fs);
  auto const kept = [&](RecomputePolicy const& policy) {
    return kept_beside_attention(build_layers(shape, 1, policy));
  };
  std::int64_t const all = kept({});
  REQUIRE(all - kept(selective({"moe_act"})) == 2 * R * f);
  REQUIRE(all - kept(selective({"shared_experts"})) == 6 * T * fs);
  // Everything below the norm's output.
  std::int64_t const below = 4 * T * (2 * E + 1) + 5 * T * E + 2 * R * (h + 3 * f) + 4 * R;
  REQUIRE(all - kept(selective({"moe"})) == below + 6 * T * fs);
  REQUIRE(kept(selective({"moe", "moe_act", "shared_experts"})) == kept(selective({"moe"})));
  BlockProgram const again = build_layers(shape, 1, selective({"moe"}));
  auto const runs = [&](OpKind kind, Phase phase) {
    return std::count_if(again.backward.begin(), again.backward.end(),
                         [&](Op const& op) { return op.kind == kind && op.phase == phase; });
  };
  REQUIRE(runs(OpKind::route, Phase::recompute) == 1);
  REQUIRE(runs(OpKind::grouped_gemm, Phase::recompute) == 2);
}

TEST_CASE("choices over the global batch are counted once, and their mean is kept", "[model]") {
  BlockShape shape = sparse_shape();
  shape.replicas = 4;
  shape.model.experts->router.loss = RouterLoss::global_auxiliary;
  shape.model.experts->router.loss_coefficient = 0.01;
  for (RecomputePolicy const& policy :
       {RecomputePolicy{}, selective({"moe"}), RecomputePolicy{RecomputeGranularity::full}}) {
    CAPTURE(policy.modules);
    BlockProgram const block = build_layers(shape, 1, policy);
    auto const runs = [&](OpKind kind) {
      auto const is_kind = [kind](Op const& op) { return op.kind == kind; };
      return std::count_if(block.forward.begin(), block.forward.end(), is_kind) +
             std::count_if(block.backward.begin(), block.backward.end(), is_kind);
    };
    REQUIRE(runs(OpKind::count_choices) == 1);
    REQUIRE(runs(OpKind::average_choices) == 1);
    REQUIRE(runs(OpKind::all_reduce) == 1);
    REQUIRE(block.counters.size() == 1);
    REQUIRE(block.tensor(block.counters.front()).bytes() == Bytes{4 * (8 + 1)});
    int kept = 0;
    for (BufferLife const& life : block.lives) {
      if (to_string(block.tensor(life.buffer).name) != "router.mean_counts") continue;
      REQUIRE(block.tensor(life.buffer).bytes() == Bytes{4 * 8});
      kept += life.is_saved() ? 1 : 0;
    }
    REQUIRE(kept == 1);
  }
}

/// The names of the ops of shared experts between an exchange of rows and the wait for it, for each
/// of these exchanges.
std::vector<std::string> beside_exchanges(std::vector<Op> const& ops) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind != OpKind::all_to_all || !ops[i].asynchronous) continue;
    std::string& names = found.emplace_back();
    for (std::size_t j = i + 1; ops[j].kind != OpKind::wait; ++j) {
      if (ops[j].module == "shared_experts") names += to_string(ops[j].name) + " ";
    }
  }
  return found;
}

TEST_CASE("shared experts compute between an exchange of rows and the wait for it", "[model]") {
  BlockShape shape = sparse_shape(64);
  shape.expert = 4;
  BlockProgram const before = build_layers(shape, 1, {});
  REQUIRE(beside_exchanges(before.forward).empty());
  shape.overlaps_shared = true;
  BlockProgram const beside = build_layers(shape, 1, {});
  using Names = std::vector<std::string>;
  REQUIRE(beside_exchanges(beside.forward) ==
          Names{"shared_experts.up.forward shared_experts.activation.forward ",
                "shared_experts.down.forward "});
  REQUIRE(beside_exchanges(beside.backward) ==
          Names{"shared_experts.down.input_gradient shared_experts.down.weight_gradient ",
                "shared_experts.activation.backward shared_experts.up.input_gradient "
                "shared_experts.up.weight_gradient "});
  REQUIRE(kept_beside_attention(beside) == kept_beside_attention(before));
}

TEST_CASE("with tensor ranks shared experts overlap an exchange until they sum their output",
          "[model]") {
  BlockShape shape = sparse_shape(64);
  shape.model.experts->shared_gate = true;
  shape.tensor = 2;
  shape.tensor_group = GroupId{1};
  shape.sequence_parallel = true;
  shape.expert = 4;
  shape.expert_group = GroupId{2};
  shape.overlaps_shared = true;
  BlockProgram const layer = build_layers(shape, 1, {});
  using Names = std::vector<std::string>;
  // The sum and the exchange are on one stream: to wait for the sum is to wait for both.
  REQUIRE(beside_exchanges(layer.forward) ==
          Names{"shared_experts.up.forward shared_experts.activation.forward ",
                "shared_experts.down.forward shared_experts.down.reduce_scatter "});
  REQUIRE(beside_exchanges(layer.backward) ==
          Names{"shared_experts.down.input_gradient shared_experts.down.weight_gradient ",
                "shared_experts.activation.backward shared_experts.up.input_gradient "
                "shared_experts.up.weight_gradient "});
  auto const position = [&](std::string_view name) {
    auto const at =
        std::ranges::find(layer.forward, name, [](Op const& op) { return to_string(op.name); });
    REQUIRE(at != layer.forward.end());
    return at - layer.forward.begin();
  };
  auto const sum = position("shared_experts.down.reduce_scatter");
  Op const& wait = layer.forward[static_cast<std::size_t>(sum) + 1];
  REQUIRE(wait.kind == OpKind::wait);
  REQUIRE(wait.waits_for == sum);
  // No other wait is for the exchange that came before.
  REQUIRE(std::none_of(layer.forward.begin() + sum + 2, layer.forward.end(), [&](Op const& op) {
    return op.kind == OpKind::wait && op.waits_for < sum;
  }));
  // Megatron-LM, shared_experts.py: pre_forward_comm has the gate's logits, get_output its scale.
  REQUIRE(position("shared_experts.gate.forward") < position("shared_experts.up.all_gather"));
  REQUIRE(position("shared_experts.up.all_gather") < position("shared_experts.up.forward"));
  REQUIRE(position("shared_experts.gate.scale") > sum + 1);
}

TEST_CASE("shared experts beside exchanges keep their gathered input", "[model]") {
  // Megatron-Core, shared_experts.py: all of the 64 x 2 tokens of 256 elements in 16 bits, which
  // the usual backward gathers once more.
  BlockShape shape = sparse_shape(64);
  shape.tensor = 2;
  shape.tensor_group = GroupId{1};
  shape.sequence_parallel = true;
  shape.expert = 4;
  BlockProgram const before = build_layers(shape, 1, {});
  shape.overlaps_shared = true;
  BlockProgram const beside = build_layers(shape, 1, {});
  REQUIRE((saved_bytes(beside) - saved_bytes(before)).count() == 2 * 64 * 2 * 256);
  auto const gathers = [](BlockProgram const& block) {
    return std::count_if(block.backward.begin(), block.backward.end(), [](Op const& op) {
      return op.kind == OpKind::all_gather && op.module == "shared_experts";
    });
  };
  REQUIRE(gathers(before) == 2);  // the input, and the output's gradient
  REQUIRE(gathers(beside) == 1);
}

TEST_CASE("products of experts wait for the weight gradient's own pass", "[model]") {
  BlockProgram layer = build_layers(sparse_shape(64), 1, {});
  split_backward(layer);
  auto const grouped = [&](Pass pass) {
    auto const& ops = layer.ops(pass);
    return std::count_if(ops.begin(), ops.end(),
                         [](Op const& op) { return op.kind == OpKind::grouped_gemm; });
  };
  REQUIRE(grouped(Pass::input_gradient) == 2);
  REQUIRE(grouped(Pass::weight_gradient) == 2);
}

}  // namespace
}  // namespace stagecraft::experts_program_test
