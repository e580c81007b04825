#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/training/training_config.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft {

/// Draws legal runs and systems that have nothing in common but a small model: any schedule,
/// layout, policy and costs. The same seed gives the same runs on every machine.
class RandomRuns {
 public:
  explicit RandomRuns(std::uint32_t seed) : generator_{seed} {}

  /// `most_groups`: microbatches, in groups (interleaved) or in stages (others).
  TrainingConfig config(int most_groups) {
    TrainingConfig config;
    draw_shape(config, most_groups);
    draw_layers(config);
    draw_model(config);
    config.recompute.clear();
    int const policies = chance(4) ? config.parallel.pipeline : 1;
    for (int i = 0; i < policies; ++i) config.recompute.push_back(policy(config));
    return config;
  }

  /// Costs of which no two are alike.
  System system() {
    System system = lossy_system();
    auto const vary = [&](double& value) { value *= 0.25 + 1.5 * fraction(); };
    vary(system.accelerator.bandwidth.value.value);
    vary(system.node.p2p.value.bandwidth.value);
    vary(system.node.p2p.value.latency.value);
    vary(system.network.bandwidth.value.value);
    vary(system.network.latency.value.value);
    vary(system.calibration.kernel_launch.value.value);
    vary(system.calibration.p2p_synchronisation.value.value);
    vary(system.calibration.overlap_slowdown.value);
    for (auto* const link : {&system.node.all_reduce, &system.node.all_gather}) {
      vary(link->value.latency.value);
    }
    if (chance(4)) system.calibration.p2p_synchronisation.value = {0};
    if (chance(8)) system = invented_system();
    system.node.accelerators.value = 1 << below(4);
    return system;
  }

 private:
  int below(int end) { return static_cast<int>(generator_() % static_cast<std::uint32_t>(end)); }
  bool chance(int in) { return below(in) == 0; }
  double fraction() { return below(1 << 20) / static_cast<double>(1 << 20); }

  void draw_shape(TrainingConfig& config, int most_groups) {
    constexpr int tensors[] = {1, 1, 2, 4};
    constexpr int replicas[] = {1, 1, 2, 8};
    ParallelLayout& parallel = config.parallel;
    parallel.tensor = tensors[below(4)];
    parallel.data = replicas[below(4)];
    parallel.sequence = chance(2);
    parallel.overlap_gradients = chance(2);
    parallel.pipeline = 1 + below(8);
    config.schedule.kind = static_cast<ScheduleKind>(std::min(below(6), 2));
    config.schedule.p2p = chance(3) ? P2p::overlapped : P2p::blocking;
    config.schedule.scatter_gather = !chance(3);
    int microbatches = 1 + below(most_groups * parallel.pipeline);
    if (config.schedule.kind == ScheduleKind::interleaved) {
      parallel.pipeline = std::max(2, parallel.pipeline);
      parallel.interleave = 1 + below(4);
      int const p = parallel.pipeline;
      int const group = chance(2) ? p : p + below(2 * p);
      int const rest = chance(2) || group == p ? 0 : p + below(group - p);
      config.schedule.group = group;
      microbatches = (1 + below(most_groups)) * group + rest;
    }
    config.batch.micro = 1 + below(2);
    config.batch.global = microbatches * config.batch.micro * parallel.data;
    config.memory.output_deallocation = !chance(4);
    config.sharding = sharding_of(chance(3));
  }

  void draw_layers(TrainingConfig& config) {
    int const virtual_stages = config.parallel.pipeline * config.parallel.interleave;
    config.layout.kind = LayerSplit::Kind::list;
    int const most = chance(2) ? 1 : 3;
    for (int i = 0; i < virtual_stages; ++i) {
      config.layout.list.push_back(most == 1 ? 1 : below(most + 1));
    }
    config.layout.list[static_cast<std::size_t>(below(virtual_stages))] = 1 + below(most);
  }

  void draw_model(TrainingConfig& config) {
    std::int64_t layers = 0;
    for (std::int64_t const count : config.layout.list) layers += count;
    int const hidden = 64 << below(3);
    int const sequence = 32 << below(3);
    // Large vocabularies make the last stage the slow one, small ones the middle.
    int const vocabulary = 100 << below(10);
    config.model = gpt(layers, hidden, 4, sequence, vocabulary);
    ModelConfig& model = config.model;
    if (chance(4)) model.kv_heads = chance(2) ? 1 : 2;
    model.tied_embeddings = !chance(3);
    model.dropout = chance(3) ? 0.0 : 0.1;
    model.softmax_dropout = chance(3) ? SoftmaxDropout::fused : SoftmaxDropout::separate;
    model.dropout_mask = chance(3) ? DropoutMask::regenerated : DropoutMask::stored;
    model.causal_mask = chance(3) ? CausalMask::none : CausalMask::per_microbatch;
    model.attention = chance(3) ? Attention::flash : Attention::unfused;
    model.precision = chance(3) ? Precision::bf16 : Precision::fp16;
    if (layers == 1 || !chance(4)) return;
    LayerConfig other = model;
    other.ffn_hidden *= 2;
    other.activation = Activation::relu;
    other.dropout = 0;
    std::int64_t const first = 1 + below(static_cast<int>(layers) - 1);
    model.pattern = {{other, first}, {model, layers - first}};
  }

  RecomputePolicy policy(TrainingConfig const& config) {
    RecomputePolicy policy;
    policy.granularity = static_cast<RecomputeGranularity>(below(3));
    if (policy.granularity == RecomputeGranularity::selective && chance(2)) {
      policy.modules.push_back(chance(2) ? "mlp" : "layernorm");
    }
    if (policy.granularity == RecomputeGranularity::full) {
      policy.method = chance(2) ? RecomputeMethod::block : RecomputeMethod::uniform;
      policy.layers = 1 + below(3);
      bool const has_whole_inputs = config.parallel.tensor > 1 && !config.parallel.sequence;
      policy.sharded_checkpoints = has_whole_inputs && chance(3);
    }
    if (chance(6)) policy.store_microbatches.count = 1 + below(4);
    return policy;
  }

  std::mt19937 generator_;
};

}  // namespace stagecraft
