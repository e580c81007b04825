#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libsim/allocator/allocator.hpp"
#include "libsim/model/low_precision.hpp"
#include "libsim/model/model_config.hpp"
#include "libsim/model/recompute_policy.hpp"
#include "libsim/program/context_parallel.hpp"
#include "libsim/schedule/schedule_config.hpp"
#include "libsim/training/offload.hpp"
#include "libsim/training/sharding.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// How the ranks of one job are cut into tensor-, context-, data- and pipeline-parallel groups.
/// Section `parallel`.
///
/// Ranks are numbered tensor fastest, then context, data and pipeline, as Megatron-LM does by
/// default (megatron/core/parallel_state.py, order "tp-cp-ep-dp-pp"): a tensor group stays in one
/// node.
struct ParallelLayout {
  int tensor = 1;         ///< t: ranks that share each layer's weights
  int pipeline = 1;       ///< p: stages that split the layers
  int interleave = 1;     ///< m of the paper: model chunks per stage
  int data = 1;           ///< d: replicas that split the global batch
  bool sequence = false;  ///< sequence parallelism; no effect with tensor 1
  /// Ranks that split the experts of a layer, folded over the tensor and data ranks of a stage.
  int expert = 1;
  int expert_tensor = 1;  ///< ranks that share each expert's weights
  /// Runs each forward beside a backward of another microbatch, so that one computes while the
  /// experts of the other communicate. The schedule is then the order of these pairs.
  bool expert_overlap = false;
  /// Computes shared experts while tokens travel to the routed ones and back.
  bool shared_expert_overlap = false;
  /// Multiprocessors on which the kernels of `dispatch: deepep` run while tokens travel; an even
  /// number. It changes times alone, and is not part of a plan's fingerprint.
  /// Source: deepseek-ai/DeepEP, deep_ep/buffer.py, Buffer.num_sms and set_num_sms.
  int dispatch_multiprocessors = 20;
  int context = 1;  ///< c: ranks of a replica that split each sequence
  ContextMethod context_method = ContextMethod::ring;  ///< no effect with context 1
  /// Two levels only: neighbouring ranks that exchange rows for heads (ulysses); rings then have
  /// context / context_inner ranks. 1: there is one level.
  int context_inner = 1;
  /// Whether gradients are reduced while the last microbatch's backward still runs. Empty: as the
  /// software stack does.
  std::optional<bool> overlap_gradients{};
  /// With overlap_gradients: elements after which a reduction starts; 0: as Megatron-LM does, see
  /// gradient_buckets(). Empty: as the software stack does.
  std::optional<std::int64_t> gradient_bucket{};

  friend bool operator==(ParallelLayout const&, ParallelLayout const&) = default;
};

/// Ranks in the job: tensor * context * data * pipeline.
constexpr int world_size(ParallelLayout const& layout) {
  return layout.tensor * layout.context * layout.data * layout.pipeline;
}

/// Section `batch`, in sequences.
struct BatchConfig {
  std::int64_t global = 1;  ///< sequences per optimizer step, over all replicas
  std::int64_t micro = 1;   ///< b: sequences per microbatch

  friend bool operator==(BatchConfig const&, BatchConfig const&) = default;
};

/// Rows of the experts of a layer for a microbatch, from a file.
struct CountsOfLayer {
  std::int64_t layer = 0;
  BatchMicrobatchId microbatch = every_microbatch;
  std::vector<std::int64_t> rows;  ///< by expert; -1 if the file leaves an expert out
  int line = 0;                    ///< line of the last of them

  friend bool operator==(CountsOfLayer const&, CountsOfLayer const&) = default;
};

/// A file of counts, as it was read.
struct CountsFile {
  std::string path;
  std::vector<CountsOfLayer> layers;

  friend bool operator==(CountsFile const&, CountsFile const&) = default;
};

/// A file of counts, or none, that all copies of a configuration share.
class SharedCounts {
 public:
  SharedCounts() = default;
  explicit SharedCounts(CountsFile file)
      : file_{std::make_shared<CountsFile const>(std::move(file))} {}
  explicit operator bool() const { return file_ != nullptr; }
  CountsFile const& operator*() const { return *file_; }
  CountsFile const* operator->() const { return file_.get(); }

  friend bool operator==(SharedCounts const& a, SharedCounts const& b) {
    return a.file_ == b.file_ || (a && b && *a == *b);
  }

 private:
  std::shared_ptr<CountsFile const> file_;
};

/// How tokens choose experts. Key `routing`.
///
/// By default routing is balanced: choice j of the microbatch's token i is expert (i k + j) mod E,
/// so that all experts of a layer are chosen equally often.
struct Routing {
  /// The most tokens of a rank that each expert takes, relative to balanced routing.
  /// Source: Megatron-LM, megatron/core/transformer/moe/moe_utils.py, get_capacity.
  std::optional<double> capacity{};
  /// Whether the rows of each expert are padded to its capacity.
  bool pads = true;
  bool is_of_microbatch = false;        ///< whether the capacity counts all tokens of a microbatch
  DropBy drop = DropBy::probabilities;  ///< which choices an expert drops beyond its capacity
  /// Rows that the hottest rank of an expert group computes, relative to balanced routing.
  std::optional<double> factor{};
  SharedCounts counts{};    ///< the rows that each expert computes
  bool is_natural = false;  ///< whether the router chooses without a limit

  bool is_balanced() const { return !capacity && !factor && !counts && !is_natural; }
  /// Whether the choices of tokens follow from the configuration and are not balanced.
  bool is_forced() const { return factor || counts; }
  /// Whether the router decides how many rows ranks compute, up to a bound.
  bool is_bounded() const { return is_natural || (capacity && (!pads || is_of_microbatch)); }
  /// Whether ranks send each other different numbers of rows.
  bool is_uneven() const { return is_forced() || is_bounded(); }
  friend bool operator==(Routing const&, Routing const&) = default;
};

/// How tokens travel to the ranks of their experts.
/// Source: Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py.
enum class Dispatch : std::uint8_t { alltoall, allgather, deepep };

/// The type of main gradients or moments in bf16 training. fp32: as in other training, where it
/// stands for the accumulation type of the precision.
enum class StateType : std::uint8_t { fp32, bf16, fp16 };

/// When a framework gives its allocator's cached memory back to the device, in every iteration. The
/// time to get the memory again is not predicted. Key `memory.empty_cache`.
/// Source: Megatron-LM, megatron/training/training.py, train_step: --empty-unused-memory-level.
enum class EmptyCache : std::uint8_t {
  never,
  before_step,  ///< before the optimizer step; level 1
  around_step,  ///< before and after the optimizer step; level 2
};

/// Section `memory`.
struct MemoryConfig {
  bool output_deallocation = true;  ///< free a chunk's output once it is sent (paper, appendix B)
  /// Source: Megatron-LM, megatron/training/arguments.py, --main-grads-dtype and --exp-avg-dtype of
  /// the precision-aware optimizer.
  StateType gradient_dtype = StateType::fp32;
  StateType moments_dtype = StateType::fp32;  ///< type of both moments of Adam
  /// Memory of the driver, the device context and NCCL; counted only to decide whether a stage
  /// fits. If it is not set, a decision by reserved bytes uses what the system says of these.
  std::optional<Bytes> reserve{};
  Bytes kept_in_reserve() const { return reserve.value_or(Bytes{std::int64_t{2} << 30}); }

  /// The allocator whose reserved bytes are predicted. It does not change what is computed, and is
  /// not part of a plan's fingerprint.
  AllocatorKind allocator = AllocatorKind::pytorch;
  std::string allocator_settings{};  ///< as PYTORCH_CUDA_ALLOC_CONF has them
  EmptyCache empty_cache = EmptyCache::never;
  /// In place of the stack's workspace of each thread's matrix products, if it has any. It is not
  /// part of a plan's fingerprint.
  std::optional<Bytes> cublas_workspace{};

  friend bool operator==(MemoryConfig const&, MemoryConfig const&) = default;
};

/// How layers fall onto virtual stages (stage, chunk). Key `layout`.
struct LayerSplit {
  enum class Kind : std::uint8_t { even, first_last, list };
  Kind kind = Kind::even;
  /// first_last: layers of the first and of the last stage, all chunks together.
  std::optional<std::int64_t> first;
  std::optional<std::int64_t> last;
  /// list: either one entry per stage (split evenly over its chunks), or one per virtual stage, in
  /// model order (in a loop, chunk c of stage r is entry c * p + r).
  std::vector<std::int64_t> list;

  friend bool operator==(LayerSplit const&, LayerSplit const&) = default;
};

/// Section `training`: numbers that only an executor needs. They change neither memory nor time, so
/// that a plan's fingerprint does not depend on them. Defaults are those of Brown et al. 2020
/// (GPT-3), appendix B, and of Megatron-LM.
struct Hyperparameters {
  std::int64_t seed = 1234;  ///< seed of parameters, dropout and synthetic data
  double init_std = 0.02;    ///< deviation of weights; output layers: divided by sqrt(2L)
  double learning_rate = 1.5e-4;
  double beta1 = 0.9;  ///< Adam
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  ///< decoupled; not of biases and norms
  double clip = 1;            ///< largest norm of all gradients together; 0: not clipped
  double loss_scale = 65536;  ///< fp16: the first loss scale; halved at an overflow

  friend bool operator==(Hyperparameters const&, Hyperparameters const&) = default;
};

/// When gradients are reduced while the last backward runs: never, only if the optimizer is not
/// sharded, or always.
enum class GradientOverlap : std::uint8_t { never, unless_sharded, always };

/// What the software stack and the accelerator decide that a run leaves open.
struct StackDefaults {
  GradientOverlap overlap = GradientOverlap::never;
  std::int64_t bucket_elements = 0;  ///< elements, as ParallelLayout::gradient_bucket
  bool early_stop = false;           ///< as RecomputePolicy::early_stop
  /// Products in 8 bits of the accelerator sum only along the rows of both operands.
  bool sums_along_rows = true;

  friend bool operator==(StackDefaults const&, StackDefaults const&) = default;
};

/// Everything a TrainingPlan is made from. Defaults filled in, combinations checked.
struct TrainingConfig {
  ModelConfig model;
  ParallelLayout parallel;
  BatchConfig batch;
  ScheduleConfig schedule;
  /// One policy for all stages, or one per stage.
  std::vector<RecomputePolicy> recompute{RecomputePolicy{}};
  Routing routing;                         ///< no effect without experts
  Dispatch dispatch = Dispatch::alltoall;  ///< no effect without experts
  /// Only kernels that give the same bits in each run. It decides what the stack's library of
  /// attention keeps, and is not part of a plan's fingerprint.
  bool deterministic = false;
  /// Whether products of a model in fp32 read their operands as TF32.
  /// Source: PyTorch, torch.backends.cuda.matmul.allow_tf32, off by default since 1.12.
  bool tf32 = false;
  LowPrecision low_precision;
  Sharding sharding;
  Offload offload;
  MemoryConfig memory;
  LayerSplit layout;
  Hyperparameters training;
  StackDefaults stack;

  friend bool operator==(TrainingConfig const&, TrainingConfig const&) = default;
};

/// Whether gradients are reduced while the last backward runs: as the run says, or as its stack
/// does.
constexpr bool overlaps_gradients(TrainingConfig const& config) {
  if (config.sharding.has_units()) return false;  // each unit reduces its own
  switch (config.stack.overlap) {
    case GradientOverlap::never:
      return config.parallel.overlap_gradients.value_or(false);
    case GradientOverlap::unless_sharded:
      return config.parallel.overlap_gradients.value_or(!config.sharding.shares_optimizer());
    case GradientOverlap::always:
      return config.parallel.overlap_gradients.value_or(true);
  }
  return false;
}

/// Elements of a bucket, as ParallelLayout::gradient_bucket: as the run says, or as its stack does.
constexpr std::int64_t bucket_elements(TrainingConfig const& config) {
  return config.parallel.gradient_bucket.value_or(config.stack.bucket_elements);
}

/// Elements of a bucket where neither the run nor its stack names a number, for as many replicas
/// (data x context). Source: DistributedDataParallel of megatron/core/distributed.
constexpr std::int64_t megatron_bucket_elements(int replicas) {
  return std::max<std::int64_t>(40'000'000, std::int64_t{1'000'000} * replicas);
}

/// The same policy, with the stack's choice of how checkpoints end if the run leaves it open.
inline RecomputePolicy settled_with_stack(RecomputePolicy policy, StackDefaults const& stack) {
  policy.early_stop = policy.early_stop.value_or(stack.early_stop);
  return policy;
}

/// The same run, with the stack's choices for all that the run leaves open.
inline TrainingConfig settled_with_stack(TrainingConfig config) {
  config.parallel.overlap_gradients = overlaps_gradients(config);
  config.parallel.gradient_bucket = bucket_elements(config);
  for (RecomputePolicy& policy : config.recompute) {
    policy = settled_with_stack(std::move(policy), config.stack);
  }
  return config;
}

/// Whether some stage may recompute ahead of its backwards. The order has the places where it does.
inline bool recomputes_early(TrainingConfig const& config) {
  return std::any_of(config.recompute.begin(), config.recompute.end(),
                     [](auto const& policy) { return policy.early == EarlyRecompute::bubble; });
}

/// Microbatches a replica runs in one iteration: global / (micro * data).
constexpr std::int64_t microbatches(TrainingConfig const& config) {
  return config.batch.global / (config.batch.micro * config.parallel.data);
}

/// The number in the global batch of a replica's microbatch.
inline BatchMicrobatchId in_batch(TrainingConfig const& config, int replica, MicrobatchId k) {
  return BatchMicrobatchId{replica * static_cast<int>(microbatches(config)) + k.value()};
}

}  // namespace stagecraft
