#pragma once

#include <utility>
#include <vector>

#include "tests/libsim/odd_runs.hpp"

namespace stagecraft {

inline TrainingConfig with_schedule(TrainingConfig config, ScheduleKind kind, int chunks) {
  config.schedule.kind = kind;
  config.schedule.p2p = P2p::overlapped;
  config.parallel.interleave = chunks;
  return config;
}

/// Runs whose schedules split the backward, lie in a V or hold two copies of the model, with what
/// may interfere with that.
inline std::vector<OddRun> split_runs() {
  using C = TrainingConfig;
  std::vector<OddRun> runs;
  auto const add = [&](char const* name, TrainingConfig config, auto change) {
    change(config);
    runs.push_back({name, std::move(config)});
  };
  auto const llama = [](C& c) {
    c.model.kv_heads = 2, c.model.activation = Activation::swiglu, c.model.norm = Norm::rmsnorm;
    c.model.positions = Positions::rotary, c.model.attention = Attention::flash;
    c.model.biases = false, c.model.dropout = 0, c.model.precision = Precision::bf16;
  };
  add("zb_h1", with_schedule(modest_run(2, 4), ScheduleKind::zb_h1, 1), [](C&) {});
  add("zb_h1 on one stage", with_schedule(modest_run(2, 1), ScheduleKind::zb_h1, 1), [](C&) {});
  add("zb_h1, sequence parallel, outputs kept",
      with_schedule(modest_run(2, 4), ScheduleKind::zb_h1, 1),
      [](C& c) { c.parallel.sequence = true, c.memory.output_deallocation = false; });
  add("zb_h2 of Llama", with_schedule(modest_run(2, 4), ScheduleKind::zb_h2, 1), llama);
  add("zb_h2, full recompute, sharded checkpoints",
      with_schedule(modest_run(2, 4), ScheduleKind::zb_h2, 1), [](C& c) {
        c.recompute.front() = {
            .granularity = RecomputeGranularity::full, .layers = 2, .sharded_checkpoints = true};
      });
  add("zb_h1, window", with_schedule(modest_run(2, 4), ScheduleKind::zb_h1, 1), [](C& c) {
    c.recompute.front().granularity = RecomputeGranularity::full;
    c.recompute.front().store_microbatches.count = 2;
  });
  add("interleaved_zb", with_schedule(modest_run(2, 4), ScheduleKind::interleaved_zb, 2),
      [](C& c) { c.recompute.front().granularity = RecomputeGranularity::selective; });
  add("zbv, tied, replicas, overlapped", with_schedule(modest_run(2, 4, 2), ScheduleKind::zbv, 2),
      [](C& c) { c.parallel.overlap_gradients = true, c.sharding = sharding_of(true); });
  add("zbv, all modules, outputs kept", with_schedule(modest_run(2, 4), ScheduleKind::zbv, 2),
      [](C& c) {
        c.memory.output_deallocation = false;
        c.recompute.front() = {.granularity = RecomputeGranularity::selective,
                               .modules = {"core_attention", "mlp", "layernorm"}};
      });
  add("v_half of Llama", with_schedule(modest_run(2, 4), ScheduleKind::v_half, 2), llama);
  add("v_min", with_schedule(modest_run(1, 4), ScheduleKind::v_min, 2), [](C&) {});
  add("1f1b_v, overlapped", with_schedule(modest_run(2, 4, 2), ScheduleKind::one_f_one_b_v, 2),
      [](C& c) { c.parallel.overlap_gradients = true; });
  add("dualpipev", with_schedule(modest_run(2, 4), ScheduleKind::dualpipev, 2),
      [](C& c) { c.recompute.front().granularity = RecomputeGranularity::full; });
  add("dualpipe, tied", with_schedule(modest_run(2, 4), ScheduleKind::dualpipe, 2), [](C&) {});
  add("dualpipe, replicas, sharded state, a layer less at the ends",
      with_schedule(modest_run(2, 4, 2), ScheduleKind::dualpipe, 2), [](C& c) {
        c.sharding = sharding_of(true);
        c.model.tied_embeddings = false;
        c.layout = {.kind = LayerSplit::Kind::list, .first = {}, .last = {}, .list = {1, 3, 3, 1}};
        c.recompute.front().granularity = RecomputeGranularity::selective;
      });
  return runs;
}

}  // namespace stagecraft
