#include <catch2/catch.hpp>

#include "tests/libexec/executor/plan_grid.hpp"
#include "tests/libexec/executor/run_checks.hpp"
#include "tests/libexec/executor/small_runs.hpp"

namespace stagecraft::invariance_test {
namespace {

bool is_pipeline_only(ParallelLayout const& layout) {
  return layout.tensor == 1 && layout.data == 1;
}

TEST_CASE("pipelines of any shape compute the bits of one rank", "[invariance]") {
  TrainingConfig const base =
      GENERATE(untied(small_gpt(Precision::fp32)), untied(small_gpt(Precision::bf16)),
               small_llama(Precision::fp64));
  int compared = 0;
  for (NamedRun const& run : layouts_of(base)) {
    if (!is_pipeline_only(run.config.parallel)) continue;
    CAPTURE(run.name);
    require_same_bits(base, run.config);
    ++compared;
  }
  REQUIRE(compared == 5);
}

TEST_CASE("overlapped messages carry the bits of blocking ones", "[invariance]") {
  TrainingConfig blocking = untied(small_gpt(Precision::fp32));
  blocking.parallel = {.pipeline = 2, .interleave = 2};
  blocking.schedule.kind = ScheduleKind::interleaved;
  TrainingConfig overlapped = blocking;
  overlapped.schedule.p2p = P2p::overlapped;
  require_same_bits(blocking, overlapped);
}

TEST_CASE("recomputed activations have the bits of stored ones", "[invariance]") {
  TrainingConfig const base = GENERATE(small_gpt(Precision::fp32), small_llama(Precision::fp16),
                                       small_olmo2(Precision::fp32), small_gemma2(Precision::bf16),
                                       small_deepseek(Precision::fp32, 6));
  for (NamedPolicy const& policy : all_policies()) {
    CAPTURE(policy.name);
    TrainingConfig config = base;
    config.recompute = {policy.policy};
    if (policy.policy.sharded_checkpoints) {
      config.parallel.tensor = 2;
      TrainingConfig stored = config;
      stored.recompute = {RecomputePolicy{}};
      require_same_bits(stored, config);
    } else {
      require_same_bits(base, config);
    }
  }
}

TEST_CASE("gradients are reduced behind a backward whose activations were stored", "[invariance]") {
  TrainingConfig config = small_gpt(Precision::fp32);
  config.parallel = {.pipeline = 2, .data = 2};
  config.sharding = sharding_of(GENERATE(false, true));
  // One of two microbatches in flight is stored, the last of a stage among them.
  RecomputePolicy& policy = config.recompute.front();
  policy.granularity = RecomputeGranularity::full;
  policy.store_microbatches.count = 1;
  TrainingConfig overlapped = config;
  overlapped.parallel.overlap_gradients = true;
  require_same_bits(config, overlapped);
}

TEST_CASE("dropout masks that are regenerated are those that were stored", "[invariance]") {
  TrainingConfig const stored = small_gpt(Precision::fp32);
  TrainingConfig regenerated = stored;
  regenerated.model.dropout_mask = DropoutMask::regenerated;
  require_same_bits(stored, regenerated);
}

TEST_CASE("softmax and dropout in one kernel have the bits of two", "[invariance]") {
  TrainingConfig separate =
      GENERATE(small_gpt(Precision::fp32), small_gpt(Precision::fp16), small_gpt(Precision::bf16));
  separate.model.dropout_mask = GENERATE(DropoutMask::stored, DropoutMask::regenerated);
  separate.recompute.front().granularity =
      GENERATE(RecomputeGranularity::none, RecomputeGranularity::selective);
  separate.parallel.tensor = 2;
  TrainingConfig fused = separate;
  fused.model.softmax_dropout = SoftmaxDropout::fused;
  require_same_bits(separate, fused);
}

TEST_CASE("scattered messages, kept outputs and threads of kernels change no bit", "[invariance]") {
  TrainingConfig scattered = untied(small_gpt(Precision::fp32));
  scattered.parallel.tensor = 2;
  scattered.parallel.pipeline = 2;
  TrainingConfig whole = scattered;
  whole.schedule.scatter_gather = false;
  require_same_bits(scattered, whole);
  TrainingConfig kept = scattered;
  kept.memory.output_deallocation = false;
  require_same_bits(scattered, kept);
  std::vector<WholeTensor> const one = parameters_after(scattered, 2, {.threads = 1});
  std::vector<WholeTensor> const two = parameters_after(scattered, 2, {.threads = 2});
  for (std::size_t i = 0; i < one.size(); ++i) REQUIRE(one[i].values == two[i].values);
}

TEST_CASE("one run has the bits of the next", "[invariance]") {
  TrainingConfig config = small_gpt(Precision::bf16);
  config.parallel = {.tensor = 2, .pipeline = 2, .data = 2, .sequence = true};
  require_same_bits(config, config);
}

TEST_CASE("every layout has the gradients of one rank, to rounding", "[invariance]") {
  TrainingConfig const base =
      GENERATE(small_gpt(Precision::fp64), small_llama(Precision::fp64),
               small_qwen3(Precision::fp64), small_gemma2(Precision::fp64),
               small_deepseek(Precision::fp64, 6), small_deepseek(Precision::fp64, 0));
  for (NamedRun const& run : layouts_of(base)) {
    CAPTURE(run.name);
    require_close(base, run.config, 1e-12);
  }
}

TEST_CASE("a norm over all heads has the same gradients in pipelines and replicas",
          "[invariance]") {
  TrainingConfig const base = small_olmo2(Precision::fp64);
  for (NamedRun const& run : layouts_of(base)) {
    if (run.config.parallel.tensor > 1) continue;
    CAPTURE(run.name);
    require_close(base, run.config, 1e-12);
  }
}

TEST_CASE("norms behind attention and MLP have the same gradients in every layout",
          "[invariance]") {
  TrainingConfig base = small_olmo2(Precision::fp64);
  base.model.qk_norm = QkNorm::none;
  for (NamedRun const& run : layouts_of(base)) {
    CAPTURE(run.name);
    require_close(base, run.config, 1e-12);
  }
}

TEST_CASE("t beyond the number of key and value heads changes nothing but rounding",
          "[invariance]") {
  TrainingConfig base = small_llama(Precision::fp64);
  TrainingConfig split = base;
  split.parallel.tensor = 4;
  split.parallel.sequence = GENERATE(false, true);
  require_close(base, split, 1e-12);
}

TEST_CASE("flash attention has the gradients of unfused attention", "[invariance]") {
  TrainingConfig const unfused =
      GENERATE(small_llama(Precision::fp64), small_gemma2(Precision::fp64),
               small_deepseek(Precision::fp64, 6));
  TrainingConfig flash = unfused;
  flash.model.attention = Attention::flash;
  for (LayerRun& run : flash.model.pattern) run.kind.attention = Attention::flash;
  require_close(unfused, flash, 1e-12);
}

}  // namespace
}  // namespace stagecraft::invariance_test
