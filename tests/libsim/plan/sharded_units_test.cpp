#include "libsim/plan/units/sharded_units.hpp"

#include <catch2/catch.hpp>

#include "libsim/plan/make_plan.hpp"
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

}  // namespace stagecraft::sharded_units_test
