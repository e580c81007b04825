#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "libsim/config/key.hpp"
#include "libsim/model/model_keys.hpp"
#include "libsim/model/recompute_regions.hpp"
#include "libsim/schedule/ordered_schedule.hpp"
#include "libsim/training/key_values.hpp"
#include "libsim/training/training_config.hpp"
#include "libsim/training/training_names.hpp"

/// The keys of all sections of a run but `model`, each with what every audience of it needs: see
/// Key.
namespace stagecraft {

inline constexpr std::int64_t most_elements = 1'000'000'000'000;  ///< of a buffer
inline constexpr std::int64_t most_ranks = 1'000'000;  ///< ranks of one kind of parallelism

template <typename Visitor, OneOf<ParallelLayout> Layout>
void visit_keys(Visitor& keys, Layout& layout) {
  keys("tensor", layout.tensor, "Ranks that share each layer's weights.",
       Flag{"tensor-model-parallel-size"}, Between{1, most_ranks});
  keys("pipeline", layout.pipeline, "Stages that split the layers.",
       Flag{"pipeline-model-parallel-size"}, Between{1, most_ranks});
  keys("interleave", layout.interleave,
       "Model chunks per stage; above 1 for schedule interleaved. Schedules in a V set it to 2.",
       Between{1, most_layers});
  keys(
      "data", layout.data,
      "Replicas that split the global batch. The job has tensor x context x data x pipeline ranks.",
      Between{1, most_ranks});
  keys(
      "sequence", layout.sequence,
      "Sequence parallelism: norms and dropout on 1/tensor of the tokens; no effect with tensor 1.",
      Tried{"sequence parallelism"});
  keys("expert", layout.expert,
       "Ranks that split the experts of a layer, folded over tensor, context and data ranks.",
       Between{1, most_ranks});
  keys("expert_tensor", layout.expert_tensor, "Ranks that share each expert's weights.",
       Between{1, most_ranks});
  keys("expert_overlap", layout.expert_overlap,
       "Runs each forward beside a backward of another microbatch, so that one computes while the "
       "experts of the other communicate.");
  keys("shared_expert_overlap", layout.shared_expert_overlap,
       "Computes shared experts while tokens travel to the routed ones and back.",
       Tried{"shared experts beside the exchanges"});
  if (keys.prints(layout.dispatch_multiprocessors != ParallelLayout{}.dispatch_multiprocessors)) {
    keys("dispatch_multiprocessors", layout.dispatch_multiprocessors,
         "With dispatch deepep: how many multiprocessors its kernels occupy while tokens travel. "
         "Computation beside them has the others. An even number.",
         NewFlag{"moe-deepep-num-sms", 20}, Between{2, 1024});
  }
  keys("context", layout.context, "Ranks of a replica that split each sequence.",
       Between{1, most_ranks});
  keys("context_method", ContextSplit{layout},
       "How these ranks attend to the whole sequence; of levels the inner one comes first, and "
       "their product is context.",
       Default{"ring"});
  keys("overlap_gradients", layout.overlap_gradients,
       "Whether gradients are reduced while the last microbatch's backward still runs.",
       FlagOf{"true", "overlap-grad-reduce"}, Tried{"overlapped gradient reduction"},
       TakenFrom{"as the software stack does"});
  keys("gradient_bucket", layout.gradient_bucket,
       "With overlap_gradients: elements after which a reduction starts; 0: as Megatron-LM does.",
       Between{0, std::int64_t{1} << 40}, TakenFrom{"as the software stack does"});
}

template <typename Visitor, OneOf<BatchConfig> Batch>
void visit_keys(Visitor& keys, Batch& batch) {
  keys("global", batch.global, "Sequences per optimizer step, over all replicas.",
       Between{1, std::int64_t{1} << 40}, Default{"required"});
  keys("micro", batch.micro, "Sequences per microbatch.", Between{1, 1 << 20});
}

template <typename Visitor, OneOf<ScheduleConfig> Schedule>
void visit_keys(Visitor& keys, Schedule& schedule) {
  constexpr std::int64_t many = std::numeric_limits<std::int64_t>::max();
  keys("kind", schedule.kind, "As schedule.");
  if constexpr (!std::is_const_v<Schedule>) {
    if (has_order(schedule.kind)) schedule.p2p = P2p::overlapped;
  }
  if (keys.takes(takes_group(schedule.kind))) {
    keys("group", schedule.group,
         "With interleaved, interleaved_zb and group_interleaved: microbatches per group.",
         Between{1, std::numeric_limits<int>::max()}, TakenFrom{"parallel.pipeline"});
  }
  if (keys.takes(schedule.kind == ScheduleKind::zbv)) {
    keys("variant", schedule.variant, "With zbv: the published order, or one fitted to costs.");
  }
  if (keys.takes(may_split_backward(schedule.kind))) {
    keys("fuse_adjacent", schedule.fuse_adjacent,
         "With schedules that split backwards: whether an input gradient right before its weight "
         "gradient is one whole backward.",
         TakenFrom{"as the schedule's public code does"});
  }
  if (keys.takes(depends_on_costs(schedule.kind, schedule.variant))) {
    keys("memory_limit", schedule.memory_limit,
         "With schedules fitted to costs: what a stage may hold, in forwards of a chunk.",
         Between{0, 1e9}, TakenFrom{"as many as 1F1B holds"});
  }
  if (keys.takes(schedule.kind == ScheduleKind::searched)) {
    keys("seed", schedule.seed, "With searched: of the random changes.", Between{0, many});
    keys("iterations", schedule.iterations, "With searched: changes that are tried.",
         Between{0, many});
    keys("seconds", schedule.seconds, "With searched: a cap on its time, s.", Between{0, 1e6});
  }
  if constexpr (requires { Visitor::lists; }) {  // others have the order itself
    keys.apart("file",
               "With order: a JSON file with orders, as `stagecraft schedule --json` prints it. Or "
               "orders in its place.",
               Accepts{"text"}, Need::required);
    keys.apart("orders",
               "With order, in place of file: one text per stage, such as F0.0 F1.0 B0.0.",
               Accepts{"a list of texts"}, Need::required);
    keys("placement", PlacementShape::loop, "With orders: how chunks lie on stages.");
  }
  keys("p2p", schedule.p2p,
       "Whether a stage waits for its transfers; overlapped with all schedules but gpipe, 1f1b and "
       "interleaved.");
  keys("step", schedule.step,
       "Whether the optimizer step waits for the norm of all gradients, or is validated later "
       "(zero-bubble paper).");
  keys("scatter_gather", schedule.scatter_gather,
       "Without sequence parallelism: sends 1/tensor of a message, which the receiver gathers.");
}

template <typename Visitor, OneOf<RecomputePolicy> Policy>
void visit_keys(Visitor& keys, Policy& policy) {
  using Granularity = RecomputeGranularity;
  bool const is_full = policy.granularity == Granularity::full;
  keys("granularity", policy.granularity, "Nothing, some modules, or whole layers.",
       Need::required);
  if (keys.prints(policy.granularity == Granularity::selective)) {
    keys("modules", RecomputedModules{policy.modules}, "With selective: what is computed again.",
         Default{"[core_attention]"});
  }
  if (keys.prints(is_full)) {
    keys("method", policy.method,
         "With full: groups of layers, or the first layers of each chunk.");
    keys("layers", policy.layers,
         "With full: layers per group (uniform), or layers of each chunk that are computed again "
         "(block).",
         Between{1, most_layers});
    keys("sharded_checkpoints", policy.sharded_checkpoints,
         "With full, without sequence parallelism: each rank keeps 1/tensor of a checkpoint.");
  }
  if (keys.prints(policy.granularity != Granularity::none)) {
    keys("early_stop", policy.early_stop,
         "Whether checkpoints compute again only up to the last op whose output backward reads, as "
         "PyTorch's do unless they are reentrant.",
         NotInMegatron{"Megatron-LM's checkpoints are reentrant", "true"},
         TakenFrom{"as the software stack does"});
    keys("store_microbatches", policy.store_microbatches,
         "Microbatches in flight of which everything is kept; or auto, as many as fit.",
         Accepts{"a whole number"}, Default{"0"});
    keys("early", policy.early,
         "Whether recompute also runs ahead, where the schedule has a bubble.",
         NotInMegatron{"Megatron-LM recomputes within the backward"});
    keys("for_weights", policy.for_weights,
         "With split backwards: whether recomputed inputs of weight gradients are kept from the "
         "input gradient on, or computed twice.",
         NotInMegatron{"Megatron-LM keeps what it has recomputed for its weight gradients"});
  }
}

template <typename Visitor, OneOf<std::vector<RecomputePolicy>> Policies>
void visit_keys(Visitor& keys, Policies& policies) {
  visit_keys(keys, policies.front());
  keys.apart("per_stage",
             "In place of the other keys: a policy for each stage, by name or as a map.",
             Accepts{"a list with a policy for each stage"}, Default{"one policy for all stages"});
}

/// With `has_capacity` also the keys that say what a capacity means.
template <typename Visitor, OneOf<Routing> Rows>
void visit_keys(Visitor& keys, Rows& routing, bool has_capacity = true) {
  constexpr double most = 1e6;
  keys("factor", routing.factor,
       "Rows of the hottest rank of each expert group, relative to balanced routing.",
       Between{1.0, most}, Default{"none"});
  keys("capacity", routing.capacity, "What an expert takes at most, relative to balanced routing.",
       Between{1e-6, most}, Default{"none"});
  if (keys.prints(static_cast<bool>(routing.counts))) {
    keys("file", routing.counts, "A CSV file with the columns layer, microbatch, expert, rows.",
         Accepts{"text"}, Default{"none"});
  }
  if (!keys.takes(has_capacity)) return;
  keys("pad", routing.pads, "With capacity: whether each expert's rows are padded to it.");
  keys("drop", routing.drop,
       "With capacity: whether the choices of least probability are dropped, or those of the last "
       "tokens.");
  keys("scope", CapacityScope{routing.is_of_microbatch},
       "With capacity: whether it counts the tokens of a rank or those of a microbatch.",
       Accepts{"rank, microbatch"}, Default{"rank"});
}

template <typename Visitor, OneOf<KeepHigh> Kept>
void visit_keys(Visitor& keys, Kept& kept) {
  keys("first", kept.first, "Layers from the first on that stay high.", Between{0, most_layers});
  keys("last", kept.last, "Layers up to the last that stay high.", Between{0, most_layers});
  keys("wgrad", kept.wgrad, "Whether the products for gradients of weights stay high.");
}

template <typename Visitor, OneOf<LowPrecision> Low>
void visit_keys(Visitor& keys, Low& low) {
  keys(
      "recipe", low.recipe,
      "In how many bits linear layers and experts multiply, and which elements share a scale. "
      "delayed, current: 8 bits, one per tensor; blockwise: one per 1 x 128 elements of "
      "activations and 128 x 128 of weights; mxfp8: one per 1 x 32, from Blackwell on; nvfp4: 4 "
      "bits, one per 1 x 16, from Blackwell on; rowwise, with implementation: torchao: 8 bits, one "
      "per row. `low_precision: NAME` is short for a map with this key alone.",
      Need::required);
  keys("format", low.format,
       "hybrid: gradients have 5 bits of exponent, all else 4. auto: hybrid with one scale per "
       "tensor, else e4m3.");
  keys("parameters", low.parameters,
       "high: parameters stay in model.precision, and quantised copies are kept beside them.");
  keys("transposes", low.transposes,
       "Whether transposed copies of weights are kept. auto: where products need them, which is "
       "Hopper, and everywhere with scales of blocks; with deepseek each backward makes them "
       "again.");
  keys("attention", low.attention,
       "Whether core attention multiplies in 8 bits: queries, keys, values and the gradient of the "
       "context have one scale each. With flash, without context parallelism.");
  keys("head", low.head, "Whether the head does, with mxfp8.");
  keys("activation_input", low.activation_input,
       "Whether the input of the activation function is stored in 8 bits for backward, with "
       "swiglu.");
  keys("keep_high", low.keep_high);
  keys("gather", low.gather,
       "With sequence parallelism: whether operands are gathered quantised. auto: as the "
       "library does, which is so but with rowwise.");
  keys("dispatch", low.dispatch,
       "How many bits tokens have on their way to experts; low with dispatch: deepep and "
       "blockwise.");
  keys("implementation", low.implementation,
       "The library that quantises. deepseek, with blockwise: backward makes the copies by columns "
       "that it reads, those of weights too, the activation writes 8 bits, what attention gives is "
       "kept in 12, gradients travel to experts as tokens do, and kernels leave "
       "parallel.dispatch_multiprocessors free in all of an overlapped pair of passes. torchao, "
       "with current or rowwise: linear layers keep their inputs in "
       "model.precision, each pass casts inputs and weights, and units of fsdp2 may gather weights "
       "in 8 bits (sharding.parameter_dtype).");
}

template <typename Visitor, OneOf<Sharding> Kind>
void visit_keys(Visitor& keys, Kind& sharding) {
  keys("kind", sharding.kind,
       "What the ranks that hold the same parameters share out among themselves. "
       "distributed_optimizer: optimizer state, as Megatron-LM does. zero1: the same, as DeepSpeed "
       "does, with gradients of the model's type. zero2: gradients, too, which each block reduces "
       "in every microbatch. fsdp1, fsdp2: parameters and gradients, too, as PyTorch's "
       "FullyShardedDataParallel and fully_shard do; each block is a unit, which gathers its "
       "parameters when it runs. zero3: all, as DeepSpeed does, with shards of the model's type "
       "beside master copies, reduced every microbatch. megatron_fsdp: what key strategy says, as "
       "Megatron-LM's FullyShardedDataParallel does, beside master copies. `sharding: NAME` is "
       "short for a map with this key alone; the other keys are those of kinds with units.");
  keys("group", sharding.group,
       "Ranks that share a parameter; the others hold copies of it. 0: all data and context ranks.",
       Between{0, most_ranks});
  keys("reshard_after_forward", sharding.reshard_after_forward,
       "Whether a unit frees its parameters after forward, so that backward gathers them again. "
       "auto: all but the last unit, or the root's. A number: to how many ranks they are spread "
       "meanwhile; `schedule --units` knows it, runs do not.",
       Default{"auto"});
  keys("reshard_after_backward", sharding.reshard_after_backward,
       "Whether a unit frees its parameters after each backward; false: after the last one of an "
       "iteration.");
  keys("prefetch", sharding.prefetch,
       "Units that a unit gathers ahead of their use. implicit: the host gathers the next unit "
       "when it reaches it, and in backward one ahead. `schedule --units` knows numbers, runs do "
       "not.",
       Default{"implicit"});
  keys("sync", sharding.sync,
       "Which microbatches reduce gradients. last: the others add theirs up unreduced. zero2 and "
       "zero3: every.");
  keys("stored_dtype", sharding.stored_dtype,
       "The type in which a rank keeps its shard of parameters and gradients. auto: fp32, or fp64 "
       "of models in fp64; of zero2 and zero3 the model's.",
       Accepts{"auto, fp32, bf16, fp16"});
  keys("parameter_dtype", sharding.parameter_dtype,
       "The type in which parameters are gathered. auto: that of model.precision. low, of fsdp2 "
       "with low_precision's current of torchao: weights of linear layers in 8 bits, all else as "
       "auto.");
  keys("reduce_dtype", sharding.reduce_dtype,
       "The type in which gradients are reduced. auto: that of the stored shards.",
       Accepts{"auto, fp32, bf16, fp16"});
  bool const is_megatron = sharding.kind == ShardingKind::megatron_fsdp;
  if (is_megatron || sharding.traits().framework == ShardingFramework::any) {
    keys(
        "strategy", sharding.strategy,
        "megatron_fsdp: what ranks share out (--data-parallel-sharding-strategy). optim: optimizer "
        "state. optim_grads: that and gradients, which each layer reduces in every microbatch. "
        "optim_grads_params: those and parameters.");
    keys("generation", sharding.generation,
         "megatron_fsdp: the implementation (--megatron-fsdp-version). 2 has neither tensor nor "
         "context groups, and shares out all.",
         Between{1, 2});
  }
  if (is_megatron || sharding.traits().framework == ShardingFramework::pytorch) return;
  keys("bucket", sharding.bucket,
       "zero2, zero3: elements of the buffer that collects gradients until they are reduced "
       "(reduce_bucket_size). zero2 has two of them if reductions overlap. 0: each gradient keeps "
       "its own (contiguous_gradients: false).",
       Between{0, most_elements}, Default{"500000000 of these kinds, else 0"});
  keys("reuse_distance", sharding.reuse_distance,
       "zero3: parameters stay gathered if fewer elements of others are used before their next use "
       "(stage3_max_reuse_distance).",
       Between{0, most_elements}, Default{"1000000000 of zero3, else 0"});
  keys("overlap", sharding.overlap,
       "zero2, zero3: whether reductions run beside the backward (overlap_comm).",
       Default{"false of zero2, else true"});
}

template <typename Visitor, OneOf<ActivationOffload> Kept>
void visit_keys(Visitor& keys, Kept& activations) {
  if (keys.prints(activations.layers > 0)) {
    keys(
        "layers", activations.layers,
        "Layers, from the first on, whose saved activations the memory of the node has until their "
        "backward, as Transformer Engine does (--cpu-offloading-num-layers). Each is copied there "
        "while later layers run, and back while their backward does.",
        Between{0, most_layers});
  }
  if (keys.prints(!activations.modules.empty())) {
    keys("modules", activations.modules,
         "Modules whose saved inputs the memory of the node has until their backward, as "
         "Megatron-LM does (--offload-modules). Those of the last layer before the loss stay.",
         Default{"none"});
    keys("fraction", activations.fraction,
         "With modules: the part of the modules of a stage's layers, from the first on, of which "
         "this holds (--activation-offload-fraction).",
         NumberRange{.lower = 0, .upper = 1, .includes_upper = true});
  }
}

template <typename Visitor, OneOf<Offload> Host>
void visit_keys(Visitor& keys, Host& offload) {
  if (keys.prints(offload.optimizer > 0)) {
    keys("optimizer", offload.optimizer,
         "The fraction of a rank's optimizer state that the memory of its node has, and that the "
         "node's processors update. The accelerator sends them gradients and gets parameters back.",
         NumberRange{.lower = 0, .upper = 1, .includes_upper = true});
    keys("overlap", offload.overlap,
         "Whether the optimizer's copies run beside the updates, piece by piece, or before and "
         "after them.");
    keys("keeps_master", offload.keeps_master,
         "Whether the accelerator keeps its master copies of what the host updates. Megatron-LM "
         "does without its precision-aware optimizer.");
  }
  if (keys.prints(offload.activations != ActivationOffload{})) {
    keys("activations", offload.activations);
  }
}

/// Section `memory`, with the short form of `sharding` if it has it.
template <typename Memory, typename ShortForm>
struct MemorySection {
  Memory& memory;
  ShortForm& distributed_optimizer;
};
template <typename Memory, typename ShortForm>
MemorySection(Memory&, ShortForm&) -> MemorySection<Memory, ShortForm>;

template <typename Visitor, typename Memory, typename ShortForm>
void visit_keys(Visitor& keys, MemorySection<Memory, ShortForm> const& section) {
  Memory& memory = section.memory;
  keys("output_deallocation", memory.output_deallocation,
       "Whether a chunk's output is freed once it is sent.",
       NotInMegatron{"Megatron-LM always deallocates", "false"}, Tried{"output deallocation"});
  keys("distributed_optimizer", section.distributed_optimizer,
       "The short form of `sharding: distributed_optimizer`.", Tried{"distributed optimizer"});
  keys("gradient_dtype", memory.gradient_dtype,
       "The type of main gradients: fp32, or that of a model in 16 bits.");
  keys("moments_dtype", memory.moments_dtype, "The type of Adam's moments of models in bf16.");
  keys("reserve", memory.reserve, "Of each accelerator, for driver, context and NCCL.",
       TakenFrom{"what the system says, or 2 GiB"});
  keys("allocator", memory.allocator, "Whose behaviour reserved bytes are predicted of.");
  keys("empty_cache", memory.empty_cache,
       "When the allocator's cache is given back to the device in each iteration.");
  keys("allocator_settings", AllocatorText{memory.allocator_settings},
       "The text of PYTORCH_CUDA_ALLOC_CONF.", Accepts{"text"}, Default{"\"\""});
  keys("cublas_workspace", memory.cublas_workspace,
       "The bytes that CUBLAS_WORKSPACE_CONFIG gives to the matrix products of each thread, if the "
       "stack says that they have any: 32 MiB for :4096:8.",
       TakenFrom{"what the stack says"});
}

template <typename Visitor, OneOf<LayerSplit> Split>
void visit_keys(Visitor& keys, Split& split) {
  keys("first", split.first, "Layers of the first stage.", Between{0, most_layers},
       TakenFrom{"as many as a stage between"});
  keys("last", split.last, "Layers of the last stage.", Between{0, most_layers},
       TakenFrom{"as many as a stage between"});
}

template <typename Visitor, OneOf<Hyperparameters> Training>
void visit_keys(Visitor& keys, Training& training) {
  constexpr double most = 1e9;
  keys("seed", training.seed,
       "Of parameters, dropout and synthetic data. Keys of training matter to an executor only.",
       Flag{"seed"}, Between{0, std::numeric_limits<std::int64_t>::max()});
  keys("init_std", training.init_std, "The standard deviation of initial weights.",
       Flag{"init-method-std"}, Between{0.0, most});
  keys("learning_rate", training.learning_rate, "The learning rate of Adam.", Flag{"lr"},
       Between{0.0, most});
  keys("beta1", training.beta1, "Adam's decay of the first moment.", Flag{"adam-beta1"},
       Between{0, 1});
  keys("beta2", training.beta2, "Adam's decay of the second moment.", Flag{"adam-beta2", 0.999},
       Between{0, 1});
  keys("epsilon", training.epsilon, "What Adam adds to the root of the second moment.",
       Flag{"adam-eps"}, Between{0.0, most});
  keys("weight_decay", training.weight_decay, "Decoupled weight decay; not of biases and norms.",
       Flag{"weight-decay", 0.01}, Between{0.0, most});
  keys("clip", training.clip, "The largest norm of all gradients together; 0: not clipped.",
       Flag{"clip-grad"}, Between{0.0, most});
  keys("loss_scale", training.loss_scale,
       "The first loss scale in fp16; it is halved at an overflow.",
       Flag{"initial-loss-scale", 0x1p32}, Between{1.0, 0x1p40});
}

/// All sections. A run file has, besides them, a machine and its software.
template <typename Visitor, OneOf<TrainingConfig> Config>
void visit_keys(Visitor& keys, Config& config) {
  keys("model", config.model,
       "What is trained: the keys below in place, a name of configs/models, or a file relative to "
       "this one, which may be changed: {base: llama2-7b, layers: 16}.",
       Accepts{"a map, or the name of a YAML file"}, Need::required);
  keys.apart("system",
             "The machine: a name of configs/systems, a file, or its keys in place, such as {base: "
             "dgx-h100, ...}; see `stagecraft system --keys`.",
             Accepts{"a map, or the name of a YAML file"}, Need::required);
  keys.apart("software",
             "The software stack: a name of configs/software, a file, or its keys in place; see "
             "`stagecraft software --keys`.",
             Accepts{"a map, or the name of a YAML file"}, Default{"megatron-2022"});
  keys("parallel", config.parallel);
  keys("batch", config.batch);
  keys("schedule", config.schedule,
       "The order of forwards and backwards: its name, or a map with the key kind and the keys "
       "below.",
       Default{name_of(ScheduleConfig{}.kind)});
  keys("recompute", config.recompute,
       "What backward computes again instead of keeping it: a name, or a map with the key "
       "granularity and the keys below.",
       Default{"none"});
  keys("routing", config.routing, "Which experts tokens choose.", Accepts{routing_text},
       Default{"balanced"});
  keys("dispatch", config.dispatch, "How tokens travel to the ranks of their experts.");
  keys(
      "deterministic", config.deterministic,
      "Whether the run has only kernels that give the same bits each time. It changes bytes beside "
      "the op program, not times.",
      FlagOf{"true", "deterministic-mode"});
  keys(
      "tf32", config.tf32,
      "With model.precision fp32: whether products read their operands as TF32 (19 of 32 bits), as "
      "torch.backends.cuda.matmul.allow_tf32 lets them. Memory stays as it is.",
      NotInMegatron{"Megatron-LM has no flag for it", "true"}, Tried{"products in TF32"});
  keys("low_precision", config.low_precision);
  keys("sharding", config.sharding);
  keys("offload", config.offload,
       "What the memory of the node holds in place of the accelerator's: none, or a map with the "
       "keys below.",
       Accepts{"none, or a map"}, Default{"none"});
  bool const is_sharded = config.sharding.shares_optimizer();
  keys("memory", MemorySection{config.memory, is_sharded});
  keys("layout", config.layout,
       "How layers fall onto stages. even: as many on each chunk, of which there are pipeline x "
       "interleave. {first: F, last: L}, or one of both: layers of the first and of the last "
       "stage, all chunks together; the others share the rest evenly. A list has one number per "
       "stage, which its chunks share evenly, or one per chunk in the model's order: in a loop, "
       "chunk c of stage r is number c x pipeline + r, from 0.",
       Accepts{layout_text}, Default{"even"});
  keys("training", config.training);
}

}  // namespace stagecraft
