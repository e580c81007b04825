#pragma once

#include <string>
#include <vector>

#include "libsim/training/training_config.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft {

/// A run that is legal but unusual, and what is unusual about it.
struct OddRun {
  std::string name;
  TrainingConfig config;
};

inline TrainingConfig modest_run(int tensor, int pipeline, int data = 1) {
  TrainingConfig config;
  config.model = gpt(8, 128, 8, 64, 1000);
  config.parallel = {.tensor = tensor, .pipeline = pipeline, .data = data};
  config.batch = {.global = 16 * data, .micro = 2};
  return config;
}

inline TrainingConfig interleaved(TrainingConfig config, int chunks, int group) {
  config.parallel.interleave = chunks;
  config.schedule.kind = ScheduleKind::interleaved;
  config.schedule.group = group;
  return config;
}

/// Legal runs that lie on an edge of what is accepted, one or two edges at a time.
inline std::vector<OddRun> odd_runs() {
  std::vector<OddRun> runs;
  auto const add = [&](std::string name, TrainingConfig config, auto change) {
    change(config);
    runs.push_back({std::move(name), std::move(config)});
  };
  using C = TrainingConfig;
  auto const layout = [](std::vector<std::int64_t> list) {
    return LayerSplit{
        .kind = LayerSplit::Kind::list, .first = {}, .last = {}, .list = std::move(list)};
  };
  add("plain", modest_run(2, 4), [](C&) {});
  add("one head", modest_run(1, 2),
      [](C& c) { c.model.heads = c.model.kv_heads = 1, c.model.head_dim = 128; });
  add("t = heads", modest_run(8, 2), [](C& c) { c.parallel.sequence = true; });
  add("fewer kv heads than tensor ranks", modest_run(8, 2),
      [](C& c) { c.model.kv_heads = 2, c.model.positions = Positions::rotary; });
  add("one kv head, flash", modest_run(4, 2),
      [](C& c) { c.model.kv_heads = 1, c.model.attention = Attention::flash; });
  add("one layer per chunk", interleaved(modest_run(2, 4), 2, 4), [](C&) {});
  add("group larger than p", interleaved(modest_run(2, 4), 2, 8), [](C&) {});
  add("group that leaves a short one", interleaved(modest_run(1, 2), 2, 6), [](C&) {});
  add("interleaved with one chunk", interleaved(modest_run(1, 4), 1, 4), [](C&) {});
  add("as many microbatches as stages", interleaved(modest_run(2, 4), 2, 4),
      [](C& c) { c.batch.global = 8; });
  add("fewer microbatches than stages", modest_run(2, 8), [](C& c) { c.batch.global = 4; });
  add("one microbatch", modest_run(1, 4), [](C& c) { c.batch.global = 2; });
  add("gpipe", modest_run(2, 4), [](C& c) { c.schedule.kind = ScheduleKind::gpipe; });
  add("gpipe on one stage", modest_run(2, 1), [](C& c) { c.schedule.kind = ScheduleKind::gpipe; });
  add("last stage empty", modest_run(2, 3), [&](C& c) { c.layout = layout({4, 4, 0}); });
  add("an inner stage empty", modest_run(2, 4), [&](C& c) { c.layout = layout({5, 0, 3, 0}); });
  add("an inner virtual stage empty", interleaved(modest_run(1, 2), 2, 2), [&](C& c) {
    c.layout = layout({4, 0, 3, 1});
  });
  add("first and last stage empty", modest_run(1, 4), [&](C& c) {
    c.layout = layout({0, 4, 4, 0}), c.recompute.front().granularity = RecomputeGranularity::full;
  });
  add("first and last virtual stage empty", interleaved(modest_run(1, 2), 2, 2), [&](C& c) {
    c.layout = layout({0, 4, 4, 0}), c.memory.output_deallocation = false;
  });
  add("an embedding without dropout alone on its stage", modest_run(1, 4), [&](C& c) {
    c.layout = layout({0, 3, 3, 2}), c.model.dropout = 0;
  });
  add("groups of 3 in 8 layers", modest_run(2, 1),
      [](C& c) { c.recompute.front() = {.granularity = RecomputeGranularity::full, .layers = 3}; });
  add("block of 1 in 2", modest_run(2, 4), [](C& c) {
    c.recompute.front() = {.granularity = RecomputeGranularity::full,
                           .method = RecomputeMethod::block};
  });
  add("window", modest_run(2, 4), [](C& c) {
    c.recompute.front().granularity = RecomputeGranularity::full;
    c.recompute.front().store_microbatches.count = 2;
  });
  add("window of an interleaved run", interleaved(modest_run(2, 2), 4, 2), [](C& c) {
    c.recompute.front().granularity = RecomputeGranularity::selective;
    c.recompute.front().store_microbatches.count = 3;
  });
  add("all modules", modest_run(2, 4), [](C& c) {
    c.parallel.sequence = true;
    c.recompute.front() = {.granularity = RecomputeGranularity::selective,
                           .modules = {"core_attention", "mlp", "layernorm"}};
  });
  add("sharded checkpoints", modest_run(4, 2), [](C& c) {
    c.recompute.front() = {
        .granularity = RecomputeGranularity::full, .layers = 4, .sharded_checkpoints = true};
  });
  add("fp64", modest_run(2, 2), [](C& c) { c.model.precision = Precision::fp64; });
  add("fp32, regenerated masks", modest_run(2, 2), [](C& c) {
    c.model.precision = Precision::fp32, c.model.dropout_mask = DropoutMask::regenerated;
  });
  add("vocabulary of one word", modest_run(4, 2), [](C& c) { c.model.vocabulary = 1; });
  add("sequence of one token", modest_run(2, 2), [](C& c) { c.model.sequence = 1; });
  add("micro 8", modest_run(2, 2), [](C& c) { c.batch = {.global = 64, .micro = 8}; });
  add("no dropout, no biases, no mask", modest_run(2, 4), [](C& c) {
    c.model.dropout = 0, c.model.biases = false, c.model.causal_mask = CausalMask::none;
    c.parallel.sequence = true;
  });
  add("everything of Llama", modest_run(2, 4), [](C& c) {
    c.model.kv_heads = 2, c.model.activation = Activation::swiglu, c.model.norm = Norm::rmsnorm;
    c.model.positions = Positions::rotary, c.model.attention = Attention::flash;
    c.model.biases = false, c.model.dropout = 0, c.model.tied_embeddings = false;
    c.model.precision = Precision::bf16, c.parallel.sequence = true;
  });
  add("outputs kept", modest_run(2, 4), [](C& c) { c.memory.output_deallocation = false; });
  add("overlapped p2p", modest_run(2, 4), [](C& c) { c.schedule.p2p = P2p::overlapped; });
  add("overlapped p2p, interleaved, outputs kept", interleaved(modest_run(2, 4), 2, 4),
      [](C& c) { c.schedule.p2p = P2p::overlapped, c.memory.output_deallocation = false; });
  add("whole messages", modest_run(4, 4), [](C& c) { c.schedule.scatter_gather = false; });
  add("8 replicas", modest_run(2, 2, 8), [](C&) {});
  add("8 replicas, overlapped, sharded optimizer", modest_run(2, 2, 8),
      [](C& c) { c.parallel.overlap_gradients = true, c.sharding = sharding_of(true); });
  add("8 replicas, overlapped, interleaved", interleaved(modest_run(2, 2, 8), 2, 2),
      [](C& c) { c.parallel.overlap_gradients = true; });
  add("8 replicas of one stage, overlapped", modest_run(1, 1, 8),
      [](C& c) { c.parallel.overlap_gradients = true, c.sharding = sharding_of(true); });
  add("overlapped gradients of one replica", modest_run(2, 2),
      [](C& c) { c.parallel.overlap_gradients = true; });
  add("large first stage, overlapped", modest_run(1, 2, 2), [](C& c) {
    c.model = gpt(4, 2048, 16, 64, 32000), c.parallel.overlap_gradients = true;
    c.recompute.front().granularity = RecomputeGranularity::full;
  });
  return runs;
}

}  // namespace stagecraft
