#include "libsim/plan/step_program.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/paper_models.hpp"
#include "tests/libsim/plan/small_steps.hpp"

namespace stagecraft {
namespace {

TrainingConfig small_run(int pipeline = 1) {
  TrainingConfig config;
  config.model = gpt(4, 64, 4, 32, 1000);
  config.parallel.pipeline = pipeline;
  config.batch.global = 64;
  return config;
}

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

std::vector<Op> collectives(StagePlan const& rank) {
  std::vector<Op> found;
  for (Op const& op : rank.step_ops) {
    if (is_collective(op.kind)) found.push_back(op);
  }
  return found;
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
  config.memory.distributed_optimizer = true;
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
  config.memory.distributed_optimizer = true;
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

/// A first stage of four layers of h = 2048 with an embedding of 64 M elements: over Megatron's
/// bucket limit of 40 M elements, as is any layer (50 M).
TrainingConfig large_first_stage() {
  TrainingConfig config = small_run(2);
  config.model = gpt(8, 2048, 16, 32, 32000);
  config.parallel.data = 2;
  config.parallel.overlap_gradients = true;
  return config;
}

TEST_CASE("the first chunk is reduced in buckets of at least 40 M elements, every other whole",
          "[plan]") {
  TrainingPlan const plan = make_plan(as_settled(large_first_stage()));
  auto const first = gradient_buckets(plan, 0);
  REQUIRE(first.size() > 1);
  for (GradientBucket const& bucket : first) REQUIRE(bucket.parameters >= 40'000'000);
  REQUIRE(gradient_buckets(plan, 1).size() == 1);
}

TEST_CASE("buckets cover a chunk's blocks once, from its last to its first", "[plan]") {
  TrainingPlan const plan = make_plan(as_settled(large_first_stage()));
  for (std::int32_t program = 0; program < 2; ++program) {
    auto end =
        static_cast<std::int32_t>(plan.chunks[static_cast<std::size_t>(program)].blocks.size());
    std::int64_t parameters = 0;
    for (GradientBucket const& bucket : gradient_buckets(plan, program)) {
      REQUIRE(bucket.first_block + bucket.block_count == end);
      REQUIRE(bucket.block_count > 0);
      end = bucket.first_block;
      parameters += bucket.parameters;
    }
    REQUIRE(end == 0);
    REQUIRE(parameters == plan.stages[StageId{program}].parameters);
  }
}

TEST_CASE("overlapped reduction sends the same bytes as one reduction at the end", "[plan]") {
  TrainingConfig config = large_first_stage();
  bool const distributed = GENERATE(false, true);
  config.memory.distributed_optimizer = distributed;
  auto const sent = [](TrainingPlan const& plan, std::size_t stage) {
    std::int64_t bytes = 0;
    StagePlan const& rank = plan.stages[StageId::of_index(stage)];
    for (IssueEntry const& step : unroll(rank.program).entries) {
      if (step.kind != IssueEntry::Kind::run) continue;
      Task const& task = rank.tasks[static_cast<std::size_t>(step.task)];
      if (task.kind != Task::Kind::step) continue;
      Op const& op = rank.step_ops[static_cast<std::size_t>(task.op)];
      if (op.group == plan.roles.gradients) bytes += op.payload.count();
    }
    return bytes;
  };
  TrainingPlan const overlapped = make_plan(as_settled(config));
  config.parallel.overlap_gradients = false;
  TrainingPlan const at_end = make_plan(as_settled(config));
  for (std::size_t stage = 0; stage < 2; ++stage) {
    REQUIRE(sent(overlapped, stage) == sent(at_end, stage));
  }
}

TEST_CASE("no collective of a step is empty", "[plan]") {
  bool const overlap = GENERATE(false, true);
  TrainingConfig config = large_first_stage();
  config.parallel.overlap_gradients = overlap;
  for (StagePlan const& rank : make_plan(as_settled(config)).stages) {
    for (Op const& op : collectives(rank)) REQUIRE(op.payload > Bytes{0});
  }
}

TEST_CASE("overlapped reduction begins only with the last microbatch of a chunk", "[plan]") {
  TrainingPlan const plan = make_plan(as_settled(large_first_stage()));
  for (StagePlan const& rank : plan.stages) {
    int backwards = 0;
    for (IssueEntry const& step : unroll(rank.program).entries) {
      if (step.kind != IssueEntry::Kind::run) continue;
      Task const& task = rank.tasks[static_cast<std::size_t>(step.task)];
      if (task.kind == Task::Kind::backward && task.first_block == 0) ++backwards;
      if (task.stream == Stream::data_parallel) REQUIRE(backwards >= 31);
    }
    REQUIRE(backwards == 32);
  }
}

StepOp const& op_named(StagePlan const& stage, std::string const& name) {
  for (StepOp const& op : stage.step_ops) {
    if (to_string(op.name) == name) return op;
  }
  throw std::out_of_range{name};
}

/// First elements and counts.
std::vector<std::pair<std::int64_t, std::int64_t>> places(std::vector<ParameterRange> const& of) {
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
  config.memory.distributed_optimizer = distributed;
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
  config.memory.distributed_optimizer = GENERATE(false, true);
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
}  // namespace stagecraft
