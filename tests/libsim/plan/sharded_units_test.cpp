#include "libsim/plan/units/sharded_units.hpp"

#include <catch2/catch.hpp>

#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/units/unit_block.hpp"
#include "tests/libsim/sharded_runs.hpp"

namespace stagecraft::sharded_units_test {

TEST_CASE("ops of units move no negative number of bytes, and collectives at least one") {
  for (OddRun const& run : sharded_runs()) {
    TrainingPlan const plan = make_plan(as_settled(run.config));
    for (BlockProgram const& block : plan.programs.blocks) {
      for (Pass const pass : {Pass::forward, Pass::backward}) {
        for (Op const& op : block.ops(pass)) {
          CAPTURE(run.name, to_string(op.name));
          REQUIRE(op.traffic >= Bytes{});
          if (op.stream == Stream::gather && op.group) {
            REQUIRE((op.payload > Bytes{} || op.kind == OpKind::pack_unit));
          }
        }
      }
    }
  }
}

TEST_CASE("a product writes a gradient once, where one of a replica adds to it") {
  // [m, n] in bf16 for the unit; read and written in fp32 by the replica's.
  TrainingConfig config = sharded_runs().front().config;
  config.model.precision = Precision::bf16;
  TrainingPlan const sharded = make_plan(as_settled(config));
  config.sharding = {};
  TrainingPlan const whole = make_plan(as_settled(config));
  auto const product_of = [](TrainingPlan const& plan) {
    for (BlockProgram const& block : plan.programs.blocks) {
      for (Op const& op : block.backward) {
        if (to_string(op.name) == "mlp.down.weight_gradient") return op.traffic.count();
      }
    }
    return std::int64_t{0};
  };
  std::int64_t const h = config.model.hidden;
  std::int64_t const elements = h * config.model.ffn_hidden;
  REQUIRE(product_of(sharded) > 0);
  REQUIRE(product_of(whole) - product_of(sharded) == (2 * 4 - 2) * elements);
}

TEST_CASE("the input of a reduction is copied from sums in their own type") {
  // After several microbatches a layer's sums are 4 bytes per element; so is what is written.
  for (int const microbatches : {1, 2}) {
    TrainingConfig config = sharded_runs().front().config;
    config.model.precision = Precision::bf16;
    config.batch.global = config.batch.micro * config.parallel.data * microbatches;
    TrainingPlan const plan = make_plan(as_settled(config));
    ChunkProgram const& last = plan.programs.chunks.back();
    BlockProgram const& layer = plan.programs.blocks[static_cast<std::size_t>(last.blocks[1])];
    std::int64_t copied = 0;
    for (Op const& op : layer.backward) {
      if (to_string(op.name) == "unit_gradients.copy_in") copied += op.traffic.count();
    }
    std::int64_t elements = 0;
    for (Parameter const& parameter : layer.parameters) {
      elements += layer.tensor(parameter.gradient).shape.elements();
    }
    REQUIRE(copied == (microbatches == 1 ? 2 + 4 : 4 + 4) * elements);
  }
}

TEST_CASE("DeepSpeed's stage 2 sums each microbatch's gradients, and gathers at the step alone") {
  // stage_1_and_2.py: buckets of 2-byte gradients are all-reduced in every backward, and step()
  // gathers 2 bytes of each parameter. A unit is padded to a multiple of the 4 ranks.
  TrainingConfig config = sharded_runs().front().config;
  config.model.precision = Precision::bf16;
  config.batch.global = config.batch.micro * config.parallel.data * 3;
  config.sharding = default_sharding(ShardingKind::zero2);
  TrainingPlan const plan = make_plan(as_settled(config));
  REQUIRE(plan.programs.chunks.size() == 3);
  for (ChunkProgram const& chunk : plan.programs.chunks) {
    std::int64_t reduced = 0;
    std::int64_t padded = 0;
    for (std::int32_t const number : chunk.blocks) {
      BlockProgram const& block = plan.programs.blocks[static_cast<std::size_t>(number)];
      std::int64_t elements = 0;
      for (Parameter const& parameter : block.parameters) {
        elements += block.tensor(parameter.weight).shape.elements();
      }
      padded += (elements + 3) / 4 * 4;
      for (Op const& op : block.forward) REQUIRE(op.stream != Stream::gather);
      for (Op const& op : block.backward) {
        REQUIRE(op.kind != OpKind::all_gather);
        if (op.stream == Stream::gather) reduced += op.payload.count();
      }
    }
    REQUIRE(reduced == 2 * padded);
  }
  StagePlan const& stage = plan.stages.front();
  std::int64_t gathered = 0;
  for (StepOp const& op : stage.step_ops) {
    if (op.kind == OpKind::all_gather) gathered += op.payload.count();
  }
  REQUIRE(gathered == 2 * stage.parameters);
}

TEST_CASE("Megatron-FSDP lays a unit out in whole rows of all its parameters") {
  // The example of megatron_fsdp/experimental/layout.py: parameters of 2 x 6, 4 x 4, 4 x 4, 1 x 2
  // and 1 x 6 elements over 5 ranks; each has 12 of 60.
  BlockProgram block;
  for (Shape const& shape : {Shape{2, 6}, Shape{4, 4}, Shape{4, 4}, Shape{1, 2}, Shape{1, 6}}) {
    Parameter parameter;
    parameter.weight = static_cast<TensorId>(block.tensors.size());
    block.tensors.emplace_back().shape = shape;
    block.parameters.push_back(parameter);
  }
  UnitTraits traits;
  traits.all.ranks = 5;
  traits.is_flat = true;
  traits.joins_rows = true;
  std::vector<UnitPart> const parts = parts_of(block, traits);
  REQUIRE(parts.size() == 1);
  REQUIRE(parts.front().elements == 60);
  REQUIRE(parts.front().shard(traits) == 12);
}

/// A run of Megatron-FSDP in bf16 on 4 ranks, with 3 microbatches and main gradients in fp32.
TrainingConfig megatron_run() {
  TrainingConfig config = sharded_runs().front().config;
  config.model.precision = Precision::bf16;
  config.batch.global = config.batch.micro * config.parallel.data * 3;
  config.sharding = default_sharding(ShardingKind::megatron_fsdp);
  return config;
}

std::int64_t elements_of_parameters(TrainingPlan const& plan, std::int32_t number) {
  BlockProgram const& block = plan.programs.blocks[static_cast<std::size_t>(number)];
  std::int64_t elements = 0;
  for (Parameter const& parameter : block.parameters) {
    elements += block.tensor(parameter.weight).shape.elements();
  }
  return elements;
}

TEST_CASE("Megatron-FSDP gathers layers twice a microbatch, and the rest once an iteration") {
  // param_and_grad_buffer.py: buckets outside of units are not released by modules; each backward
  // reduces fp32 gradients. Rows of 128 and 512 elements: units are padded to 4 x 512.
  TrainingPlan const plan = make_plan(as_settled(megatron_run()));
  REQUIRE(plan.programs.chunks.size() == 3);
  for (std::size_t k = 0; k < 3; ++k) {
    std::vector<std::int32_t> const& blocks = plan.programs.chunks[k].blocks;
    std::int64_t gathered = 0;
    std::int64_t reduced = 0;
    for (std::int32_t const number : blocks) {
      BlockProgram const& block = plan.programs.blocks[static_cast<std::size_t>(number)];
      for (Pass const pass : {Pass::forward, Pass::backward}) {
        for (Op const& op : block.ops(pass)) {
          if (op.kind == OpKind::all_gather) gathered += op.payload.count();
          if (op.kind == OpKind::reduce_scatter) reduced += op.payload.count();
        }
      }
    }
    auto const padded = [](std::int64_t elements, std::int64_t to) {
      return (elements + to - 1) / to * to;
    };
    std::int64_t const layer = padded(elements_of_parameters(plan, blocks[2]), 4 * 512);
    std::int64_t const root = padded(elements_of_parameters(plan, blocks[1]), 4 * 128) +
                              padded(elements_of_parameters(plan, blocks.back()), 4 * 128);
    REQUIRE(gathered == 2 * (8 * 2 * layer + (k == 0 ? root : 0)));
    REQUIRE(reduced == 4 * (8 * layer + root));
  }
}

TEST_CASE("a rank of Megatron-FSDP keeps 2 + 4 + 4 + 8 bytes of each element of its shard") {
  TrainingPlan const plan = make_plan(as_settled(megatron_run()));
  std::int64_t bytes = 0;
  for (StateBuffer const& buffer : plan.stages.front().state) {
    REQUIRE(buffer.lifetime != Lifetime::iteration);
    bytes += buffer.bytes().count();
  }
  std::int64_t shard = 0;
  for (ShardedRun const& run : plan.stages.front().sharded_runs) shard += run.shard();
  REQUIRE(bytes == (2 + 4 + 4 + 8) * shard);
}

/// 8 ranks of which 2 split 4 experts: 4 share each expert, 8 all else.
TrainingConfig run_with_experts() {
  TrainingConfig config = megatron_run();
  config.parallel.data = 8;
  config.parallel.expert = 2;
  config.batch.global = 8 * config.batch.micro;
  config.model.biases = false;
  config.model.experts.emplace();
  config.model.experts->count = 4;
  config.model.experts->per_token = 2;
  config.model.experts->ffn_hidden = 512;
  return config;
}

TEST_CASE("experts of Megatron-FSDP are shared among the ranks that hold them") {
  TrainingPlan const plan = make_plan(as_settled(run_with_experts()));
  std::int32_t const layer = plan.programs.chunks.front().blocks[2];
  std::int64_t of_experts = 0;
  std::int64_t of_others = 0;
  for (Op const& op : plan.programs.blocks[static_cast<std::size_t>(layer)].forward) {
    if (op.kind != OpKind::all_gather) continue;  // of the next layer
    int const ranks = plan.groups.members(*op.group);
    REQUIRE((ranks == 4 || ranks == 8));
    (ranks == 4 ? of_experts : of_others) += op.payload.count();
  }
  // Two matrices of 128 x 512 of 2 experts; attention (4 x 128 x 128), the router, two norms.
  CHECK(of_experts == 2 * 2 * 2 * 128 * 512);
  CHECK(of_others == 2 * (4 * 128 * 128 + 4 * 128 + 4 * 128));
}

TEST_CASE("shared experts are in one shard with what is before a layer's experts") {
  // Rows of 128 and, of the shared expert's second product, 192 elements: 8 ranks share rows of
  // 384.
  TrainingConfig config = run_with_experts();
  config.model.experts->shared_ffn_hidden = 192;
  TrainingPlan const plan = make_plan(as_settled(config));
  std::vector<ShardedRun> const& runs = plan.stages.front().sharded_runs;
  REQUIRE(runs.size() == 1 + 8 * 2 + 1);  // the embedding, two of each layer, the head
  std::int64_t const dense = 4 * 128 * 128 + 4 * 128 + 4 * 128 + 2 * 128 * 192;
  REQUIRE(runs[1].count == dense);
  REQUIRE(runs[1].shard() == (dense + 8 * 384 - 1) / (8 * 384) * 384);
  REQUIRE(runs[2].shard() == 2 * 2 * 128 * 512 / 4);
}

TEST_CASE("units of each microbatch have the rows that a file gives it") {
  TrainingConfig config = modest_run(1, 1, 4);
  config.model.layers = 1;
  config.model.tied_embeddings = false;
  config.model.experts = ExpertsConfig{.count = 4, .per_token = 1, .ffn_hidden = 256};
  config.sharding.kind = ShardingKind::fsdp2;
  int const microbatches = 5;
  config.batch.global = config.batch.micro * config.parallel.data * microbatches;
  std::int64_t const tokens = config.model.sequence * config.batch.micro;
  // In the k-th microbatch of each replica, all tokens choose expert k mod 4.
  CountsFile file{"counts.csv", {}};
  for (int k = 0; k < microbatches; ++k) {
    for (int replica = 0; replica < config.parallel.data; ++replica) {
      std::vector<std::int64_t> rows(4);
      rows[static_cast<std::size_t>(k % 4)] = tokens;
      file.layers.push_back({0, in_batch(config, replica, MicrobatchId{k}), std::move(rows)});
    }
  }
  config.routing.counts = SharedCounts{std::move(file)};
  TrainingPlan const plan = make_plan(as_settled(config));
  REQUIRE(plan.programs.chunks.size() == microbatches);
  for (std::size_t k = 0; k < microbatches; ++k) {
    int products = 0;
    for (std::int32_t const index : plan.programs.chunks[k].blocks) {
      for (Op const& op :
           plan.programs.blocks[static_cast<std::size_t>(index)].ops(Pass::forward)) {
        if (op.kind != OpKind::grouped_gemm) continue;
        ++products;
        GroupRows const* const rows = std::get<GemmAttributes>(op.attributes).rows;
        REQUIRE(rows != nullptr);
        REQUIRE((*rows)[k % 4] == tokens);
      }
    }
    REQUIRE(products == 2);
  }
}

}  // namespace stagecraft::sharded_units_test
