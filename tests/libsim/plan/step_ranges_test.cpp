#include "libsim/plan/step_ranges.hpp"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/parameter_layout.hpp"
#include "tests/libsim/plan/small_steps.hpp"

namespace stagecraft::step_ranges_test {
namespace {

StepOp const& op_named(StagePlan const& stage, std::string const& name) {
  for (StepOp const& op : stage.step_ops) {
    if (to_string(op.name) == name) return op;
  }
  throw std::out_of_range{name};
}

/// First elements and counts.
std::vector<std::pair<std::int64_t, std::int64_t>> places(SharedRanges const& of) {
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  for (ParameterRange const& range : of) found.emplace_back(range.first, range.count);
  return found;
}

/// Two layers of h = 64 per stage, 1000 words padded to 1024, 32 positions; t = p = d = 2.
///
/// On each rank: the embedding has 512 h = 32768 elements, positions 2048, a layer 25184 in this
/// order: norm 128, qkv 96 h = 6144, its bias 96, projection 2048, its bias 64, norm 128, up 8192,
/// its bias 128, down 8192, its bias 64. The last norm has 128.
TrainingConfig eight_ranks(bool distributed) {
  TrainingConfig config = small_run(2);
  config.parallel.tensor = 2;
  config.parallel.data = 2;
  config.parallel.sequence = true;
  config.sharding = sharding_of(distributed);
  return config;
}

using Places = std::vector<std::pair<std::int64_t, std::int64_t>>;
constexpr std::int64_t embedding = 32768;
constexpr std::int64_t layer = 25184;
constexpr std::int64_t first_stage = embedding + 2048 + 2 * layer;
constexpr std::int64_t last_stage = 2 * layer + 128 + embedding;

TEST_CASE("without the distributed optimizer all parameters are one run, which nobody shares",
          "[plan]") {
  TrainingPlan const plan = make_plan(as_settled(eight_ranks(false)));
  StagePlan const& stage = plan.stages[StageId{0}];
  REQUIRE(stage.parameters == first_stage);
  REQUIRE(stage.shards == 1);
  StepOp const& reduction = op_named(stage, "step.all_reduce_gradients");
  REQUIRE(places(reduction.ranges) == Places{{0, first_stage}});
  REQUIRE(reduction.group == plan.roles.gradients);
  REQUIRE(reduction.reads[0] == step_tensor::gradients);
  REQUIRE(places(op_named(plan.stages[StageId{1}], "step.clip").ranges) == Places{{0, last_stage}});
  CHECK_THROWS(op_named(stage, "step.all_gather_parameters"));
}

TEST_CASE("with the distributed optimizer the tied embedding is a run of its own on both stages",
          "[plan]") {
  // Its shards have to fall alike on both: the first stage has it first, the last stage last.
  TrainingPlan const plan = make_plan(as_settled(eight_ranks(true)));
  Places const wanted[] = {{{0, embedding}, {embedding, first_stage - embedding}},
                           {{0, last_stage - embedding}, {last_stage - embedding, embedding}}};
  for (std::size_t i = 0; i < 2; ++i) {
    StagePlan const& stage = plan.stages[StageId::of_index(i)];
    REQUIRE(stage.shards == 2);
    StepOp const& reduction = op_named(stage, "step.reduce_scatter_gradients");
    REQUIRE(places(reduction.ranges) == wanted[i]);
    StepOp const& gather = op_named(stage, "step.all_gather_parameters");
    REQUIRE(places(gather.ranges) == wanted[i]);
    REQUIRE(gather.reads[0] == step_tensor::parameters);
    REQUIRE(op_named(stage, "step.adam").own_shard);
    REQUIRE_FALSE(op_named(stage, "step.scale_gradients").own_shard);
  }
}

TEST_CASE("vectors that all tensor ranks hold are summed over them, neighbours as one range",
          "[plan]") {
  TrainingPlan const plan = make_plan(as_settled(eight_ranks(false)));
  StepOp const& sum = op_named(plan.stages[StageId{1}], "step.all_reduce_norm_gradients");
  REQUIRE(sum.group == plan.roles.tensor);
  // Bias of the projection and second norm; bias of the down projection and next norm.
  std::int64_t const bias = 128 + 6144 + 96 + 2048;
  REQUIRE(places(sum.ranges) == Places{{0, 128},
                                       {bias, 64 + 128},
                                       {layer - 64, 64 + 128},
                                       {layer + bias, 64 + 128},
                                       {2 * layer - 64, 64 + 128}});
  StepOp const& tied = op_named(plan.stages[StageId{1}], "step.all_reduce_embedding_gradient");
  REQUIRE(places(tied.ranges) == Places{{last_stage - embedding, embedding}});
}

TEST_CASE("Adam updates every parameter of every stage, alike stages included", "[plan]") {
  // Two layers on each of four stages; 28 bytes per parameter of the rank's half.
  TrainingConfig config = eight_ranks(true);
  config.model.layers = 8;
  config.parallel.pipeline = 4;
  TrainingPlan const plan = make_plan(as_settled(config));
  std::int64_t const held[] = {first_stage, 2 * layer, 2 * layer, last_stage};
  for (std::size_t i = 0; i < 4; ++i) {
    REQUIRE(plan.stages[StageId::of_index(i)].parameters == held[i]);
    REQUIRE(op_named(plan.stages[StageId::of_index(i)], "step.adam").traffic ==
            Bytes{28 * held[i] / 2});
  }
}

TEST_CASE("weight decay applies to matrices, not to biases and norms", "[plan]") {
  TrainingPlan const plan = make_plan(as_settled(eight_ranks(false)));
  std::int64_t decayed = 0;
  std::int64_t kept = 0;
  for (ParameterRange const& range : op_named(plan.stages[StageId{0}], "step.adam").ranges) {
    (range.decays ? decayed : kept) += range.count;
  }
  REQUIRE(decayed == embedding + 2048 + 2 * (6144 + 2048 + 8192 + 8192));
  REQUIRE(kept == 2 * (128 + 96 + 64 + 128 + 128 + 64));
}

TEST_CASE("the norm counts every gradient of the model once", "[plan]") {
  // Narayanan et al. 2021, eq. 2, with the last norm: 12 L h^2 + 13 L h + (v + s) h + 2 h. Rows
  // of padding have gradients of zero.
  TrainingConfig config = eight_ranks(false);
  config.parallel.sequence = GENERATE(false, true);
  std::int64_t const h = 64;
  std::int64_t const whole = 12 * 4 * h * h + 13 * 4 * h + (1024 + 32) * h + 2 * h;
  TrainingPlan const plan = make_plan(as_settled(config));
  std::int64_t counted = 0;
  for (StagePlan const& stage : plan.stages) {
    for (int tensor = 0; tensor < 2; ++tensor) {
      auto const position = [&](std::string_view axis) { return axis == "tensor" ? tensor : 0; };
      for (ParameterRange const& range : op_named(stage, "step.gradient_norm").ranges) {
        if (!is_replica(range.shares, position)) counted += range.count;
      }
    }
  }
  REQUIRE(counted == whole);
}

TEST_CASE("every op of the step has the operands and attributes that its kind takes", "[plan]") {
  TrainingConfig config = eight_ranks(GENERATE(false, true));
  config.model.precision = GENERATE(Precision::fp16, Precision::bf16, Precision::fp64);
  for (StagePlan const& stage : make_plan(as_settled(config)).stages) {
    for (StepOp const& op : stage.step_ops) {
      CAPTURE(to_string(op.name));
      OpKindTraits const& traits = traits_of(op.kind);
      CHECK((op.reads.size() >= traits.least_reads && op.reads.size() <= traits.most_reads));
      CHECK((op.writes.size() >= traits.least_writes && op.writes.size() <= traits.most_writes));
      CHECK(op.attributes.index() == traits.attributes);
    }
  }
}

TEST_CASE("overlapped reductions cover all parameters where the last microbatch is stored too",
          "[plan]") {
  TrainingConfig config = small_run(2);
  config.parallel.data = 2;
  config.parallel.overlap_gradients = true;
  config.sharding = sharding_of(GENERATE(false, true));
  RecomputePolicy& policy = config.recompute.front();
  policy.granularity = RecomputeGranularity::full;
  policy.store_microbatches.count = 1;
  for (StagePlan const& stage : make_plan(as_settled(config)).stages) {
    std::int64_t scaled = 0;
    std::int64_t reduced = 0;
    for (StepOp const& op : stage.step_ops) {
      for (ParameterRange const& range : op.ranges) {
        if (op.kind == OpKind::scale_gradients) scaled += range.count;
        if (op.stream == Stream::data_parallel && op.reads[0] == step_tensor::gradients) {
          reduced += range.count;
        }
      }
    }
    REQUIRE(scaled == stage.parameters);
    REQUIRE(reduced == stage.parameters);
  }
}

}  // namespace
}  // namespace stagecraft::step_ranges_test
