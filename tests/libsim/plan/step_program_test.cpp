#include "libsim/plan/step_program.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/paper_models.hpp"
#include "tests/libsim/plan/small_steps.hpp"

namespace stagecraft::step_program_test {
namespace {

/// Bytes that element-wise kernels of the step move, by name.
std::map<std::string, std::int64_t> swept(StagePlan const& rank) {
  std::map<std::string, std::int64_t> bytes;
  for (Op const& op : rank.step_ops) {
    if (op.traffic > Bytes{0}) bytes[to_string(op.name)] += op.traffic.count();
  }
  return bytes;
}

std::int64_t sum(std::map<std::string, std::int64_t> const& bytes) {
  std::int64_t total = 0;
  for (auto const& entry : bytes) total += entry.second;
  return total;
}

TEST_CASE("an fp16 step moves 66 bytes a parameter, a bf16 step 58", "[plan]") {
  // Megatron-LM of May 2022: zero 4, divide by d 8, unscale 8 (fp16), norm 4, clip 8, Adam 28,
  // fp32 to 16 bits 6.
  TrainingConfig config = small_run();
  StagePlan const fp16 = make_plan(as_settled(config)).stages[StageId{0}];
  REQUIRE(sum(swept(fp16)) == 66 * fp16.parameters);
  REQUIRE(swept(fp16).at("step.adam") == 28 * fp16.parameters);
  config.model.precision = Precision::bf16;
  StagePlan const bf16 = make_plan(as_settled(config)).stages[StageId{0}];
  REQUIRE(sum(swept(bf16)) == 58 * bf16.parameters);
  REQUIRE_FALSE(swept(bf16).contains("step.unscale"));
}

TEST_CASE("a step that is validated later reads all state once more and writes 16 bits", "[plan]") {
  TrainingConfig config = small_run(2);
  config.schedule.step = StepSync::post_validated;
  for (StagePlan const& rank : make_plan(as_settled(config)).stages) {
    // Master, two moments and the gradient, 4 bytes each, and 2 of the parameter.
    REQUIRE(swept(rank).at("step.adam_ahead") == 18 * rank.parameters);
    REQUIRE(sum(swept(rank)) == (66 + 18) * rank.parameters);
    std::vector<std::string> waits;  // of the tasks in which stages wait for each other
    bool validates = false;
    for (Task const& task : rank.tasks) {
      if (task.kind != Task::Kind::step) continue;
      REQUIRE(task.is_validation >= validates);
      validates = task.is_validation;
      StepOp const& op = rank.step_ops[static_cast<std::size_t>(task.op)];
      REQUIRE(task.is_prefix == (op.kind == OpKind::prefix_reduce));
      if (task.group && !op.ranges.empty()) continue;  // the tied embedding
      if (task.group) waits.push_back(to_string(op.name) + (validates ? " later" : ""));
    }
    REQUIRE(waits == std::vector<std::string>{"step.reduce_found_infinity_so_far",
                                              "step.reduce_gradient_norm_so_far",
                                              "step.all_reduce_found_infinity later",
                                              "step.all_reduce_gradient_norm later"});
    REQUIRE(to_string(rank.step_ops.back().name) == "step.narrow_parameters");
  }
}

TEST_CASE("full precision needs neither scaling nor narrowing", "[plan]") {
  // fp32: zero 4, divide 8, norm 4, clip 8; Adam reads gradient, parameter, two moments and writes
  // three: 28. fp64 twice that.
  TrainingConfig config = small_run();
  config.model.precision = Precision::fp32;
  StagePlan const fp32 = make_plan(as_settled(config)).stages[StageId{0}];
  REQUIRE(sum(swept(fp32)) == 52 * fp32.parameters);
  config.model.precision = Precision::fp64;
  StagePlan const fp64 = make_plan(as_settled(config)).stages[StageId{0}];
  REQUIRE(sum(swept(fp64)) == 104 * fp64.parameters);
}

TEST_CASE("the distributed optimizer steps on 1/d but zeroes and scales every gradient", "[plan]") {
  TrainingConfig config = small_run();
  config.parallel.data = 4;
  config.sharding = sharding_of(true);
  StagePlan const rank = make_plan(as_settled(config)).stages[StageId{0}];
  std::int64_t const shard = (rank.parameters + 3) / 4;
  auto const bytes = swept(rank);
  REQUIRE(bytes.at("step.zero_gradients") == 4 * rank.parameters);
  REQUIRE(bytes.at("step.scale_gradients") == 8 * rank.parameters);
  REQUIRE(sum(bytes) == 12 * rank.parameters + 54 * shard);
}

TEST_CASE("replicas all-reduce 4 bytes a parameter once an iteration", "[plan]") {
  TrainingConfig config = small_run();
  config.parallel.data = 4;
  TrainingPlan const plan = make_plan(as_settled(config));
  StagePlan const& rank = plan.stages[StageId{0}];
  std::int64_t payload = 0;
  for (Op const& op : collectives(rank)) {
    if (op.group != plan.roles.gradients) continue;
    REQUIRE(op.kind == OpKind::all_reduce);
    REQUIRE(op.stream == Stream::data_parallel);
    payload += op.payload.count();
  }
  REQUIRE(payload == 4 * rank.parameters);
}

TEST_CASE("the distributed optimizer reduce-scatters gradients and gathers 2 bytes a parameter",
          "[plan]") {
  TrainingConfig config = small_run();
  config.parallel.data = 4;
  config.sharding = sharding_of(true);
  TrainingPlan const plan = make_plan(as_settled(config));
  StagePlan const& rank = plan.stages[StageId{0}];
  std::map<OpKind, std::int64_t> payload;
  for (Op const& op : collectives(rank)) {
    if (op.group == plan.roles.gradients) payload[op.kind] += op.payload.count();
  }
  REQUIRE(payload == std::map<OpKind, std::int64_t>{{OpKind::reduce_scatter, 4 * rank.parameters},
                                                    {OpKind::all_gather, 2 * rank.parameters}});
}

TEST_CASE("one replica reduces nothing over replicas", "[plan]") {
  TrainingPlan const plan = make_plan(as_settled(small_run(2)));
  for (Op const& op : collectives(plan.stages[StageId{0}]))
    REQUIRE(op.group != plan.roles.gradients);
}

TEST_CASE(
    "sequence parallelism sums 6h gradients per layer and 2h of the last norm over the tensor "
    "group",
    "[plan]") {
  // Megatron-LM, 4 bytes each; two layers a stage.
  TrainingConfig config = small_run(2);
  config.parallel.tensor = 4;
  auto const payload = [&](std::size_t stage) {
    TrainingPlan const plan = make_plan(as_settled(config));
    std::int64_t bytes = 0;
    for (Op const& op : collectives(plan.stages[StageId::of_index(stage)])) {
      if (op.group == plan.roles.tensor) bytes += op.payload.count();
    }
    return bytes;
  };
  REQUIRE(payload(0) == 0);
  config.parallel.sequence = true;
  REQUIRE(payload(0) == 4 * 2 * 6 * 64);
  REQUIRE(payload(1) == 4 * (2 * 6 * 64 + 2 * 64));
}

TEST_CASE("first and last stage sum the tied embedding's gradient, padded rows included",
          "[plan]") {
  TrainingConfig config = small_run(4);
  config.parallel.tensor = 2;
  auto const embedding_bytes = [](TrainingPlan const& plan, std::size_t stage) {
    std::int64_t bytes = 0;
    for (Op const& op : collectives(plan.stages[StageId::of_index(stage)])) {
      if (to_string(op.name) != "step.all_reduce_embedding_gradient") continue;
      REQUIRE(op.group == plan.roles.embedding);
      bytes += op.payload.count();
    }
    return bytes;
  };
  TrainingPlan const tied = make_plan(as_settled(config));
  REQUIRE(embedding_bytes(tied, 0) == 4 * 1024 / 2 * 64);
  REQUIRE(embedding_bytes(tied, 1) == 0);
  REQUIRE(embedding_bytes(tied, 2) == 0);
  REQUIRE(embedding_bytes(tied, 3) == 4 * 1024 / 2 * 64);
  config.model.tied_embeddings = false;
  REQUIRE(embedding_bytes(make_plan(as_settled(config)), 0) == 0);
  config.model.tied_embeddings = true;
  config.parallel.pipeline = 1;
  REQUIRE(embedding_bytes(make_plan(as_settled(config)), 0) == 0);
}

TEST_CASE(
    "every stage joins one all-reduce for the gradient norm, with fp16 one for infinities too",
    "[plan]") {
  TrainingConfig config = small_run(4);
  config.model.precision = GENERATE(Precision::fp16, Precision::bf16);
  TrainingPlan const plan = make_plan(as_settled(config));
  for (StagePlan const& rank : plan.stages) {
    int joined = 0;
    for (Task const& task : rank.tasks) joined += task.group == plan.roles.model ? 1 : 0;
    REQUIRE(joined == (config.model.precision == Precision::fp16 ? 2 : 1));
  }
}

TEST_CASE("key and value gradients are summed over the ranks that hold the same heads", "[plan]") {
  TrainingConfig config = small_run(1);
  ModelConfig& model = config.model;
  model.kv_heads = 2;
  config.parallel.tensor = 4;
  auto const payload = [&]() -> std::int64_t {
    TrainingPlan const plan = make_plan(as_settled(config));
    for (Op const& op : plan.stages.front().step_ops) {
      if (op.group && op.group == plan.roles.kv_replicas) return op.payload.count();
    }
    return 0;
  };
  // One key and one value head a rank, each a weight of d x h and a bias of d, in fp32.
  std::int64_t const head = model.head_dim * (model.hidden + (model.biases ? 1 : 0));
  REQUIRE(payload() == model.layers * 2 * head * 4);
  config.parallel.tensor = 2;
  REQUIRE(payload() == 0);
}

}  // namespace
}  // namespace stagecraft::step_program_test
