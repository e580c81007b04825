#pragma once

#include <utility>
#include <vector>

#include "tests/libsim/odd_runs.hpp"

namespace stagecraft {

/// Runs whose ranks share parameters, with what decides when units gather, free and reduce.
inline std::vector<OddRun> sharded_runs() {
  using C = TrainingConfig;
  std::vector<OddRun> runs;
  auto const add = [&](char const* name, int microbatches, auto change) {
    TrainingConfig config = modest_run(1, 1, 4);
    config.model.tied_embeddings = false;
    config.sharding.kind = ShardingKind::fsdp2;
    config.batch.global = config.batch.micro * config.parallel.data * microbatches;
    change(config);
    runs.push_back({name, std::move(config)});
  };
  add("fsdp2", 1, [](C&) {});
  add("fsdp2, two microbatches", 2, [](C&) {});
  add("fsdp2, five microbatches, full recompute", 5,
      [](C& c) { c.recompute.front().granularity = RecomputeGranularity::full; });
  add("fsdp2, every microbatch reduces, in bf16", 4, [](C& c) {
    c.model.precision = Precision::bf16;
    c.sharding.sync = UnitSync::every, c.sharding.reduce_dtype = UnitType::bf16;
  });
  add("fsdp2, shards in bf16", 3, [](C& c) {
    c.model.precision = Precision::bf16;
    c.sharding.stored_dtype = UnitType::bf16, c.sharding.reduce_dtype = UnitType::automatic;
  });
  add("zero3", 3, [](C& c) {
    c.model.precision = Precision::bf16;
    c.sharding = default_sharding(ShardingKind::zero3);
  });
  add("zero2", 3, [](C& c) {
    c.model.precision = Precision::bf16;
    c.sharding = default_sharding(ShardingKind::zero2);
  });
  add("zero2, tied, full recompute", 1, [](C& c) {
    c.model.precision = Precision::bf16, c.model.tied_embeddings = true;
    c.sharding = default_sharding(ShardingKind::zero2);
    c.recompute.front().granularity = RecomputeGranularity::full;
  });
  add("megatron_fsdp, main gradients in fp32", 3, [](C& c) {
    c.model.precision = Precision::bf16;
    c.sharding = default_sharding(ShardingKind::megatron_fsdp);
  });
  add("megatron_fsdp, tied, narrow gradients, full recompute", 2, [](C& c) {
    c.model.precision = Precision::bf16, c.model.tied_embeddings = true;
    c.memory.gradient_dtype = StateType::bf16;
    c.sharding = default_sharding(ShardingKind::megatron_fsdp);
    c.recompute.front().granularity = RecomputeGranularity::full;
  });
  add("megatron_fsdp, whole parameters", 3, [](C& c) {
    c.model.precision = Precision::bf16;
    c.sharding = default_sharding(ShardingKind::megatron_fsdp);
    c.sharding.strategy = ShardingStrategy::optim_grads;
  });
  add("megatron_fsdp of the second generation", 3, [](C& c) {
    c.model.precision = Precision::bf16;
    c.sharding = default_sharding(ShardingKind::megatron_fsdp);
    c.sharding.generation = 2;
  });
  add("fsdp2, kept after forward", 3,
      [](C& c) { c.sharding.reshard_after_forward.kind = Reshard::Kind::no; });
  add("fsdp2, freed by all", 3,
      [](C& c) { c.sharding.reshard_after_forward.kind = Reshard::Kind::yes; });
  add("fsdp2, kept after backward", 4, [](C& c) {
    c.sharding.reshard_after_forward.kind = Reshard::Kind::no;
    c.sharding.reshard_after_backward = false;
  });
  add("fsdp2, freed after forward alone", 4, [](C& c) {
    c.sharding.reshard_after_forward.kind = Reshard::Kind::yes;
    c.sharding.reshard_after_backward = false;
  });
  add("fsdp2, embedding and head in one unit", 3, [](C& c) { c.model.tied_embeddings = true; });
  add("fsdp2, one unit of embedding and head, kept after backward, masks per microbatch", 4,
      [](C& c) {
        c.model.tied_embeddings = true, c.model.causal_mask = CausalMask::per_microbatch;
        c.sharding.reshard_after_forward.kind = Reshard::Kind::no;
        c.sharding.reshard_after_backward = false;
      });
  add("fsdp1", 3, [](C& c) { c.sharding.kind = ShardingKind::fsdp1; });
  add("fsdp1, one microbatch, all in bf16, full recompute", 1, [](C& c) {
    c.sharding.kind = ShardingKind::fsdp1, c.model.precision = Precision::bf16;
    c.sharding.stored_dtype = c.sharding.reduce_dtype = UnitType::bf16;
    c.recompute.front().granularity = RecomputeGranularity::full;
  });
  add("fsdp1, tied, every microbatch reduces, kept after forward", 4, [](C& c) {
    c.sharding.kind = ShardingKind::fsdp1, c.model.tied_embeddings = true;
    c.sharding.sync = UnitSync::every;
    c.sharding.reshard_after_forward.kind = Reshard::Kind::no;
  });
  add("fsdp2, copies of shards", 3, [](C& c) { c.sharding.group = 2; });
  add("fsdp2, copies, every microbatch reduces", 3,
      [](C& c) { c.sharding.group = 2, c.sharding.sync = UnitSync::every; });
  add("fsdp2, tensor parallel, selective recompute", 3, [](C& c) {
    c.parallel.tensor = 2, c.parallel.sequence = true;
    c.recompute.front().granularity = RecomputeGranularity::selective;
  });
  return runs;
}

}  // namespace stagecraft
