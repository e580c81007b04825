#include <catch2/catch.hpp>
#include <random>

#include "libsim/modules/blocks.hpp"
#include "tests/libsim/model/kept_buffers.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft::table2_test {
namespace {

struct RandomShape {
  std::int64_t s, b, h, a, t;
};

/// Shapes with t | a and t | s, the same on every machine.
std::vector<RandomShape> random_shapes(int count) {
  std::mt19937 generator{20220510};
  auto const pick = [&](std::int64_t lowest, std::int64_t highest) {
    auto const span = static_cast<std::uint32_t>(highest - lowest + 1);
    return lowest + static_cast<std::int64_t>(generator() % span);
  };
  std::vector<RandomShape> shapes;
  for (int i = 0; i < count; ++i) {
    std::int64_t const t = pick(1, 16);
    std::int64_t const a = t * pick(1, 9);
    shapes.push_back({t * pick(1, 150), pick(1, 8), a * pick(1, 140), a, t});
  }
  return shapes;
}

BlockShape block_of(RandomShape const& shape, bool sequence_parallel) {
  return {.model = gpt(1, shape.h, shape.a, shape.s, 1000),
          .tensor = static_cast<int>(shape.t),
          .sequence_parallel = sequence_parallel,
          .micro = shape.b};
}

RecomputePolicy policy_with(RecomputeGranularity granularity) {
  return {.granularity = granularity};
}

/// Table 2 of Korthikanti et al. 2022, times t to stay in whole numbers.
std::int64_t table2_times_t(RandomShape const& shape,
                            bool sequence_parallel,
                            RecomputeGranularity granularity) {
  auto const [s, b, h, a, t] = shape;
  std::int64_t const sbh = s * b * h;
  if (granularity == RecomputeGranularity::full) return sequence_parallel ? 2 * sbh : 2 * sbh * t;
  std::int64_t const linear = sequence_parallel ? 34 * sbh : 10 * sbh * t + 24 * sbh;
  return granularity == RecomputeGranularity::none ? linear + 5 * a * s * s * b : linear;
}

TEST_CASE("paper_bytes is table 2 of the paper for any shape", "[model][table2]") {
  auto const granularity = GENERATE(RecomputeGranularity::none, RecomputeGranularity::selective,
                                    RecomputeGranularity::full);
  bool const sequence = GENERATE(false, true);
  for (RandomShape const& shape : random_shapes(300)) {
    if (sequence && shape.t == 1) continue;
    CAPTURE(shape.s, shape.b, shape.h, shape.a, shape.t, sequence, static_cast<int>(granularity));
    BlockShape const block = block_of(shape, sequence);
    REQUIRE(has_paper_bytes(block, policy_with(granularity)));
    REQUIRE(paper_bytes(block, policy_with(granularity)).count() * shape.t ==
            table2_times_t(shape, sequence, granularity));
  }
}

TEST_CASE("a layer keeps table 2 and beside it only the statistics of its norms",
          "[model][table2]") {
  // Two norms, mean and 1/deviation of every row in fp32: 16 sb bytes, 16 sb/t where rows are
  // split.
  auto const granularity = GENERATE(RecomputeGranularity::none, RecomputeGranularity::selective,
                                    RecomputeGranularity::full);
  bool const sequence = GENERATE(false, true);
  for (RandomShape const& shape : random_shapes(200)) {
    if (sequence && shape.t == 1) continue;
    CAPTURE(shape.s, shape.b, shape.h, shape.a, shape.t, sequence, static_cast<int>(granularity));
    BlockProgram const layer = build_layers(block_of(shape, sequence), 1, policy_with(granularity));
    bool const keeps_statistics = granularity != RecomputeGranularity::full;
    std::int64_t const statistics =
        keeps_statistics ? 16 * shape.s * shape.b / (sequence ? shape.t : 1) : 0;
    REQUIRE(statistics_bytes(layer) == statistics);
    REQUIRE((saved_bytes(layer).count() - statistics) * shape.t ==
            table2_times_t(shape, sequence, granularity));
  }
}

TEST_CASE("at the paper's shapes the statistics are less than 1 % of a layer", "[model][table2]") {
  auto const granularity = GENERATE(RecomputeGranularity::none, RecomputeGranularity::selective);
  bool const sequence = GENERATE(false, true);
  for (Table3Row const& row : table3_rows) {
    BlockShape const shape{
        .model = model_of(row), .tensor = 8, .sequence_parallel = sequence, .micro = row.micro};
    auto const paper = static_cast<double>(paper_bytes(shape, policy_with(granularity)).count());
    auto const saved =
        static_cast<double>(saved_bytes(build_layers(shape, 1, policy_with(granularity))).count());
    CAPTURE(row.name, sequence);
    REQUIRE(saved >= paper);
    REQUIRE(saved < 1.01 * paper);
  }
}

TEST_CASE("the components of section 4.1 can be read off the buffers a layer keeps",
          "[model][table2]") {
  // Korthikanti et al. 2022, section 4.1. Q, K and V share a buffer: 4sbh + 2sbh.
  std::int64_t const s = 96, b = 2, h = 320, a = 5;
  std::int64_t const sbh = s * b * h, as2b = a * s * s * b;
  ModelConfig model = gpt(1, h, a, s, 1000);
  model.softmax_dropout = GENERATE(SoftmaxDropout::separate, SoftmaxDropout::fused);
  auto kept = kept_buffers(build_layers({.model = model, .micro = b}, 1, {}));
  SECTION("attention, 11sbh + 5as^2b") {
    REQUIRE(kept["attention.qkv.input"] == 2 * sbh);
    REQUIRE(kept["core_attention.qkv"] == 6 * sbh);
    REQUIRE(kept["core_attention.softmax_output"] == 2 * as2b);
    REQUIRE(kept["core_attention.dropout_mask"] == as2b);
    REQUIRE(kept["core_attention.dropout_output"] == 2 * as2b);
    REQUIRE(kept["attention.projection.input"] == 2 * sbh);
    REQUIRE(kept["attention.output.dropout_mask"] == sbh);
  }
  SECTION("MLP, 19sbh") {
    REQUIRE(kept["mlp.up.input"] == 2 * sbh);
    REQUIRE(kept["mlp.activation.input"] == 8 * sbh);
    REQUIRE(kept["mlp.down.input"] == 8 * sbh);
    REQUIRE(kept["mlp.output.dropout_mask"] == sbh);
  }
  SECTION("norms, 4sbh") {
    REQUIRE(kept["attention_norm.input"] == 2 * sbh);
    REQUIRE(kept["mlp_norm.input"] == 2 * sbh);
  }
  SECTION("nothing else but statistics") {
    REQUIRE(kept.size() == 15);
    REQUIRE(kept["attention_norm.statistics"] == 8 * s * b);
    REQUIRE(kept["mlp_norm.statistics"] == 8 * s * b);
  }
}

TEST_CASE("tensor parallelism leaves 10sbh whole: norm inputs, column GEMM inputs, residual masks",
          "[model][table2]") {
  // Section 4.2: "layer-norms and dropouts ... 10sbh"; every other buffer is cut into t.
  std::int64_t const s = 64, b = 3, h = 512, a = 8, t = 4;
  BlockShape shape{.model = gpt(1, h, a, s, 1000), .micro = b};
  auto const whole = kept_buffers(build_layers(shape, 1, {}));
  shape.tensor = t;
  auto const cut = kept_buffers(build_layers(shape, 1, {}));
  std::map<std::string, std::int64_t> left;
  for (auto const& [name, bytes] : whole) {
    if (name.ends_with(".statistics")) continue;
    CAPTURE(name);
    REQUIRE((cut.at(name) == bytes || cut.at(name) * t == bytes));
    if (cut.at(name) == bytes) left[name] = bytes / (s * b * h);
  }
  REQUIRE(left == std::map<std::string, std::int64_t>{{"attention_norm.input", 2},
                                                      {"mlp_norm.input", 2},
                                                      {"attention.qkv.input", 2},
                                                      {"mlp.up.input", 2},
                                                      {"attention.output.dropout_mask", 1},
                                                      {"mlp.output.dropout_mask", 1}});
}

TEST_CASE("sequence parallelism cuts every kept buffer into t", "[model][table2]") {
  std::int64_t const t = 4;
  BlockShape shape{.model = gpt(1, 512, 8, 64, 1000), .micro = 3};
  auto const whole = kept_buffers(build_layers(shape, 1, {}));
  shape.tensor = t;
  shape.sequence_parallel = true;
  auto const cut = kept_buffers(build_layers(shape, 1, {}));
  REQUIRE(cut.size() == whole.size());
  for (auto const& [name, bytes] : whole) {
    CAPTURE(name);
    REQUIRE(cut.at(name) * t == bytes);
  }
}

TEST_CASE("table 2 claims no architecture but the paper's", "[model][table2]") {
  BlockShape shape{.model = gpt(1, 512, 8, 64, 1000)};
  RecomputePolicy policy;
  REQUIRE(has_paper_bytes(shape, policy));
  SECTION("grouped queries") { shape.model.kv_heads = 2; }
  SECTION("another MLP width") { shape.model.ffn_hidden = 2049; }
  SECTION("SwiGLU") { shape.model.activation = Activation::swiglu; }
  SECTION("rotary positions") { shape.model.positions = Positions::rotary; }
  SECTION("flash attention") { shape.model.attention = Attention::flash; }
  SECTION("no dropout") { shape.model.dropout = 0; }
  SECTION("regenerated masks") { shape.model.dropout_mask = DropoutMask::regenerated; }
  SECTION("32 bits") { shape.model.precision = Precision::fp32; }
  SECTION("heads that do not fill the hidden state") { shape.model.head_dim = 32; }
  SECTION("recomputed MLPs") {
    policy = {.granularity = RecomputeGranularity::selective, .modules = {"mlp"}};
  }
  SECTION("groups of two layers") {
    policy = {.granularity = RecomputeGranularity::full, .layers = 2};
  }
  REQUIRE_FALSE(has_paper_bytes(shape, policy));
}

}  // namespace
}  // namespace stagecraft::table2_test
