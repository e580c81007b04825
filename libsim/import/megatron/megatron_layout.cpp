#include "libsim/import/megatron/megatron_layout.hpp"

#include <algorithm>
#include <charconv>

#include "libsim/import/megatron/megatron_context.hpp"
#include "libsim/import/megatron/megatron_keys.hpp"
#include "libsim/import/megatron/megatron_stage_layers.hpp"
#include "libsim/import/number_ranges.hpp"
#include "libsim/training/training_keys.hpp"

namespace stagecraft {
namespace {

/// Megatron-DeepSpeed's --zero-stage: stage 1 is the distributed optimizer; 2 and 3 shard more.
bool shards_by_zero(MegatronArguments& arguments) {
  auto const stage = arguments.integer("zero-stage", {0, 3});
  if (!stage || *stage == 0) return false;
  if (*stage > 1) {
    arguments.refuse(
        "zero-stage", "0, 1",
        {"stage 1, which shards the optimizer's state alone", "less memory, more time"});
  }
  return true;
}

/// The largest batch of --step-batch-size-schedule "0:768 250B:1536", which replaces
/// --global-batch-size since core v0.18.
std::int64_t largest_scheduled_batch(MegatronArguments const& arguments) {
  std::string const schedule = arguments.text("step-batch-size-schedule").value_or("");
  std::int64_t largest = 0;
  for (std::size_t colon = schedule.find(':'); colon != std::string::npos;
       colon = schedule.find(':', colon + 1)) {
    std::int64_t size = 0;
    std::from_chars(schedule.data() + colon + 1, schedule.data() + schedule.size(), size);
    largest = std::max(largest, size);
  }
  return largest;
}

/// The types of main gradients and moments, and the size of a bucket of gradients.
void read_state_types(MegatronArguments& arguments,
                      MegatronVersion version,
                      TrainingConfig& config) {
  if (config.parallel.overlap_gradients.value_or(false)) {
    config.parallel.gradient_bucket =
        arguments.integer("ddp-bucket-size", {1, std::int64_t{1} << 40});
  }
  bool const is_wide = arguments.has("accumulate-allreduce-grads-in-fp32");
  if (config.model.precision == Precision::fp16 && !is_wide) {
    if (version == MegatronVersion::current) {
      config.memory.gradient_dtype = StateType::fp16;
    } else {
      arguments.note(
          "--fp16 without --accumulate-allreduce-grads-in-fp32: gradients are modelled in 32 bits "
          "nevertheless");
    }
  }
  if (config.model.precision != Precision::bf16) return;
  auto const is_narrow = [&](std::string_view flag) {
    std::string const type = arguments.text(flag).value_or("fp32");
    if (type == "fp8") arguments.refuse(flag, "fp32, bf16", {"moments in 16 bits", "less memory"});
    return type != "fp32";
  };
  bool const has_types = arguments.has("use-precision-aware-optimizer");
  bool const has_narrow_gradients = has_types && is_narrow("main-grads-dtype");
  if (arguments.has("grad-reduce-in-bf16") || has_narrow_gradients) {
    config.memory.gradient_dtype = StateType::bf16;
  }
  if (!has_types) return;
  bool const first = is_narrow("exp-avg-dtype");
  bool const second = is_narrow("exp-avg-sq-dtype");
  if (first && second) {
    config.memory.moments_dtype = StateType::bf16;
  } else if (first || second) {
    arguments.refuse(first ? "exp-avg-dtype" : "exp-avg-sq-dtype", "one type for both moments",
                     {"moments in 32 bits", "less memory"});
  }
  arguments.refuse("use-precision-aware-optimizer", "a run without it",
                   {"a master copy of 32 bits beside the parameters", "less memory"});
}

void read_interleave(MegatronArguments& arguments, TrainingConfig& config) {
  std::int64_t const p = config.parallel.pipeline;
  auto const per_chunk = arguments.integer("num-layers-per-virtual-pipeline-stage", degrees);
  auto const chunks = arguments.integer("num-virtual-stages-per-pipeline-rank", {1, 100'000});
  if (chunks) config.parallel.interleave = static_cast<int>(*chunks);
  if (!per_chunk || chunks) return;
  std::int64_t layers = config.model.layers;
  if (arguments.has("account-for-embedding-in-pipeline-split")) ++layers;
  if (arguments.has("account-for-loss-in-pipeline-split")) ++layers;
  if (layers % p != 0 || layers / p % *per_chunk != 0) {
    if (layers > 0) {
      arguments.report("num-layers-per-virtual-pipeline-stage", "a divisor of a stage's layers (" +
                                                                    std::to_string(layers) + " / " +
                                                                    std::to_string(p) + ")");
    }
    return;
  }
  config.parallel.interleave = static_cast<int>(layers / p / *per_chunk);
}

void read_schedule(MegatronArguments& arguments, MegatronVersion version, TrainingConfig& config) {
  ScheduleConfig& schedule = config.schedule;
  bool const is_interleaved = config.parallel.interleave > 1;
  bool const is_current = version == MegatronVersion::current;
  schedule.kind = is_interleaved ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
  if (is_interleaved) {
    bool const overlaps = is_current && !arguments.has("no-overlap-p2p-communication");
    schedule.p2p = overlaps ? P2p::overlapped : P2p::blocking;
    schedule.group = static_cast<int>(
        arguments.integer("microbatch-group-size-per-virtual-pipeline-stage", {1, 1 << 30})
            .value_or(config.parallel.pipeline));
  }
  // If it has no effect it keeps its default, so that equal runs have equal configurations.
  bool const has_effect =
      config.parallel.tensor > 1 && config.parallel.pipeline > 1 && !config.parallel.sequence;
  bool const scatters = !is_current && !arguments.has("no-scatter-gather-tensors-in-pipeline");
  schedule.scatter_gather = scatters || !has_effect;
}

void read_replicas(MegatronArguments& arguments,
                   std::optional<std::int64_t> world_size,
                   TrainingConfig& config) {
  // Ranks that split a sequence are no replicas (megatron/core/parallel_state.py).
  std::int64_t const context = read_megatron_context(arguments, config);
  std::int64_t const replica =
      std::int64_t{config.parallel.tensor} * config.parallel.pipeline * context;
  if (!world_size) {
    arguments.report_run("world size", "",
                         "--world-size N: no launcher says how many ranks there are");
  } else if (*world_size % replica != 0) {
    arguments.report_run("world size", "'" + std::to_string(*world_size) + "'",
                         std::string{"a multiple of tensor x pipeline"} +
                             (context > 1 ? " x context" : "") + " (" + std::to_string(replica) +
                             ")");
  } else if (*world_size / replica <= degrees.largest) {
    config.parallel.data = static_cast<int>(*world_size / replica);
    if (context > config.parallel.context) {
      arguments.note("context parallelism over " + std::to_string(context) +
                     " ranks is left out: the run file has " +
                     std::to_string(*world_size / context) + " of the " +
                     std::to_string(*world_size) + " GPUs, each with whole sequences");
    }
  }
}

}  // namespace

void read_megatron_layout(MegatronArguments& arguments,
                          MegatronVersion version,
                          std::optional<std::int64_t> world_size,
                          TrainingConfig& config) {
  ParallelLayout& parallel = config.parallel;
  FlagReader reader{arguments};
  visit_keys(reader, parallel);
  parallel.sequence = parallel.tensor > 1 && arguments.has("sequence-parallel");
  config.sharding =
      sharding_of(arguments.has("use-distributed-optimizer") || shards_by_zero(arguments));
  config.memory.empty_cache =
      static_cast<EmptyCache>(arguments.integer("empty-unused-memory-level", {0, 2}).value_or(0));
  read_interleave(arguments, config);
  read_state_types(arguments, version, config);
  read_megatron_stage_layers(arguments, config);
  IntegerRange const layers{0, 100'000};
  auto const first = arguments.integer("decoder-first-pipeline-num-layers", layers);
  auto const last = arguments.integer("decoder-last-pipeline-num-layers", layers);
  if (first || last) {
    config.layout = {
        .kind = LayerSplit::Kind::first_last, .first = first, .last = last, .list = {}};
  }
  read_schedule(arguments, version, config);
  read_replicas(arguments, world_size, config);
  config.batch.micro = arguments.required("micro-batch-size", {1, 1 << 20}, "");
  config.batch.global = arguments.integer("global-batch-size", {1, std::int64_t{1} << 40})
                            .value_or(largest_scheduled_batch(arguments));
  if (config.batch.global == 0) {
    config.batch.global = config.batch.micro * parallel.data;
    if (!arguments.has("global-batch-size")) {
      arguments.note("--global-batch-size left out: " + std::to_string(config.batch.global) +
                     ", one microbatch per replica");
    }
  }
  for (std::string const flag : {"rampup-batch-size", "step-batch-size-schedule"}) {
    if (arguments.has(flag)) arguments.note("--" + flag + ": the largest batch is modelled");
  }
}

}  // namespace stagecraft
