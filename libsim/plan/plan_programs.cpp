#include "libsim/plan/plan_programs.hpp"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "libsim/model/layer_kinds.hpp"
#include "libsim/modules/blocks.hpp"
#include "libsim/plan/gradient_buckets.hpp"
#include "libsim/plan/offload/layer_offload.hpp"
#include "libsim/plan/offload/module_offload.hpp"
#include "libsim/plan/plan_outline.hpp"
#include "libsim/plan/received_rows.hpp"
#include "libsim/plan/sharded_runs.hpp"
#include "libsim/plan/units/sharded_units.hpp"
#include "libsim/program/liveness.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/training/layer_split.hpp"
#include "libsim/training/run_schedule.hpp"

namespace stagecraft {
namespace {

/// Builds each distinct block once. Between two calls, `known_` has the key of every block that
/// this object has appended to `programs`, in their order.
class BlockCatalogue {
 public:
  /// Appends the blocks to `programs`. They have room for what some ranks of a stage receive, by
  /// their numbers in it; for all of them if `ranks` is empty.
  BlockCatalogue(TrainingPlan const& plan, Programs& programs, std::span<int const> ranks)
      : plan_{plan},
        programs_{programs},
        ranks_{ranks},
        layer_kinds_{kinds_with_predictions(plan.config.model)},
        rows_{plan} {}

  /// The number of a replica's microbatches whose blocks may differ: all of them, or one.
  std::int64_t microbatch_classes() const {
    return rows_.depends_on_microbatch() ? microbatches(plan_.config) : 1;
  }
  std::int32_t inputs() {
    return find({BlockProgram::Kind::inputs, {}, {}, nullptr, HeadWeight::own},
                [&] { return build_inputs(plan_.shape); });
  }
  std::int32_t embedding() {
    return find({BlockProgram::Kind::embedding, {}, {}, nullptr, HeadWeight::own},
                [&] { return build_embedding(plan_.shape); });
  }
  /// Layers of the model, from `first` on, for the k-th microbatch of a replica.
  std::int32_t layers(std::int64_t first,
                      int count,
                      RecomputePolicy const& policy,
                      MicrobatchId k) {
    std::span<int const> const kinds = layer_kinds_.of_layers(first, count);
    std::vector<ExpertRows> const rooms = rooms_of(kinds, first, k);
    KeptHigh const high = kept_high(first, count);
    return find({BlockProgram::Kind::layers, kinds, rooms, &policy, HeadWeight::own, high}, [&] {
      std::vector<BlockShape> shapes;
      shapes.reserve(kinds.size());
      for (std::size_t i = 0; i < kinds.size(); ++i) {
        shapes.push_back(plan_.shape.with(layer_kinds_[kinds[i]]));
        if (high.has(static_cast<std::int64_t>(i))) shapes.back().quantisation = {};
        if (!rooms.empty()) give_room(shapes.back(), rooms[i]);
      }
      return build_layers(std::move(shapes), policy);
    });
  }
  /// `policy` is that of the modules of multi-token prediction.
  std::int32_t head(HeadWeight weight, RecomputePolicy const& policy, MicrobatchId k) {
    ModelConfig const& model = plan_.config.model;
    if (model.predicted_tokens == 0) {
      return find({BlockProgram::Kind::head, {}, {}, nullptr, weight},
                  [&] { return build_head(plan_.shape, weight); });
    }
    std::vector<ExpertRows> const rooms =
        rooms_of(layer_kinds_.of_layers(model.layers, model.predicted_tokens), model.layers, k);
    return find({BlockProgram::Kind::head, {}, rooms, &policy, weight}, [&] {
      std::vector<BlockShape> shapes = head_shapes(plan_.shape);
      for (std::size_t m = 0; m < rooms.size(); ++m) give_room(shapes[m + 1], rooms[m]);
      return build_head(std::move(shapes), weight, policy);
    });
  }

 private:
  /// The layers of a block that are not quantised: those before `first`, and from `last` on.
  struct KeptHigh {
    std::int64_t first = 0;
    std::int64_t last = 0;

    bool has(std::int64_t layer) const { return layer < first || layer >= last; }
    friend bool operator==(KeptHigh const&, KeptHigh const&) = default;
  };

  KeptHigh kept_high(std::int64_t first, int count) const {
    KeepHigh const& kept = plan_.config.low_precision.keep_high;
    std::int64_t const last = plan_.config.model.layers - kept.last;
    auto const within = [&](std::int64_t layer) {
      return std::clamp<std::int64_t>(layer - first, 0, count);
    };
    return {within(kept.first), within(last)};
  }

  /// The arguments from which a block is built.
  struct Key {
    BlockProgram::Kind kind;
    std::span<int const> layers;        ///< their kinds
    std::span<ExpertRows const> rooms;  ///< by layer with uneven rows
    RecomputePolicy const* policy;      ///< policy of layers, also of those of modules in a head
    HeadWeight weight;
    KeptHigh high{};
  };
  /// The key of a block that has been built.
  struct Known {
    BlockProgram::Kind kind = BlockProgram::Kind::layers;
    std::vector<int> layers;
    std::vector<ExpertRows> rooms;
    RecomputePolicy policy;
    HeadWeight weight = HeadWeight::own;
    KeptHigh high{};

    bool is(Key const& key) const {
      return kind == key.kind && weight == key.weight && high == key.high &&
             (key.policy == nullptr || policy == *key.policy) &&
             std::ranges::equal(layers, key.layers) && std::ranges::equal(rooms, key.rooms);
    }
  };

  /// For the rows of consecutive layers; empty if routing is even.
  std::vector<ExpertRows> rooms_of(std::span<int const> kinds,
                                   std::int64_t first,
                                   MicrobatchId k) const {
    std::vector<ExpertRows> rooms;
    if (!plan_.shape.is_uneven()) return rooms;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      LayerConfig const& kind = layer_kinds_[kinds[i]];
      auto const layer = first + static_cast<std::int64_t>(i);
      rooms.push_back(kind.experts ? rows_.most(ranks_, kind, layer, k) : ExpertRows{});
    }
    return rooms;
  }

  void give_room(BlockShape& shape, ExpertRows const& rows) {
    rows.set_room(shape);
    if (rows.of_experts) programs_.expert_rows.push_back(rows.of_experts);
  }

  template <typename Build>
  std::int32_t find(Key const& key, Build build) {
    auto const known = std::find_if(known_.begin(), known_.end(),
                                    [&](Known const& other) { return other.is(key); });
    auto const index = static_cast<std::int32_t>(known - known_.begin());
    if (known == known_.end()) {
      Known& made = known_.emplace_back();
      made.kind = key.kind;
      made.layers.assign(key.layers.begin(), key.layers.end());
      made.rooms.assign(key.rooms.begin(), key.rooms.end());
      if (key.policy != nullptr) made.policy = *key.policy;
      made.weight = key.weight;
      made.high = key.high;
      programs_.blocks.push_back(build());
    }
    return index;
  }

  TrainingPlan const& plan_;
  Programs& programs_;
  std::span<int const> ranks_;
  LayerKinds layer_kinds_;
  ReceivedRows rows_;
  std::vector<Known> known_;
};

/// How the layers of a stage are built.
struct LayerPolicies {
  RecomputePolicy whole;   ///< the policy of the stage
  RecomputePolicy single;  ///< policy of a layer on its own
  RecomputePolicy stored;  ///< policy of a layer that is not recomputed

  /// Which microbatches are stored makes no difference to the programs.
  LayerPolicies(RecomputePolicy const& of_stage, StackDefaults const& stack, EarlyRecompute early)
      : whole{settled_with_stack(of_stage, stack)} {
    whole.store_microbatches = {};
    whole.early = early;
    single = whole;
    single.layers = 1;
  }
};

/// The layers of a chunk as blocks: full-recompute groups, or single layers.
void append_layers(ChunkProgram& chunk,
                   BlockCatalogue& catalogue,
                   LayerPolicies const& policies,
                   MicrobatchId k) {
  RecomputePolicy const& policy = policies.whole;
  bool const is_full = policy.granularity == RecomputeGranularity::full;
  std::int64_t const end = chunk.first_layer + chunk.layers;
  if (is_full && policy.method == RecomputeMethod::uniform) {
    for (std::int64_t first = chunk.first_layer; first < end; first += policy.layers) {
      auto const group = static_cast<int>(std::min<std::int64_t>(end - first, policy.layers));
      chunk.blocks.push_back(catalogue.layers(first, group, policy, k));
    }
    return;
  }
  for (std::int64_t i = chunk.first_layer; i < end; ++i) {
    // Block method: only the first K layers are checkpointed.
    bool const is_stored = is_full && i - chunk.first_layer >= policy.layers;
    chunk.blocks.push_back(
        catalogue.layers(i, 1, is_stored ? policies.stored : policies.single, k));
  }
}

/// How a chunk recomputes: by the stage's policy, as part of the backward (policy) or ahead of it
/// (early); or not at all, in a microbatch that a window stores (stored).
enum class Variant : std::uint8_t { policy, early, stored };

std::int32_t& program_of(StageChunk& chunk, Variant variant) {
  return variant == Variant::policy  ? chunk.program
         : variant == Variant::early ? chunk.early_program
                                     : chunk.stored_program;
}

/// Appends the programs of all chunks for the k-th microbatch of a replica.
void append_chunks(std::vector<ChunkProgram>& chunks,
                   TrainingPlan const& plan,
                   BlockCatalogue& catalogue,
                   Variant variant,
                   MicrobatchId k) {
  TrainingConfig const& config = plan.config;
  std::vector<std::int64_t> const layers = layers_of_virtual_stages(config);
  std::vector<LayerPolicies> policies;  // for all stages, or for each
  for (RecomputePolicy const& policy : config.recompute) {
    if (variant == Variant::stored) {
      policies.emplace_back(RecomputePolicy{}, config.stack, EarlyRecompute::no);
    } else {
      policies.emplace_back(policy, config.stack,
                            variant == Variant::early ? policy.early : EarlyRecompute::no);
    }
  }
  std::int64_t first_layer = 0;
  for (std::size_t v = 0; v < layers.size(); ++v) {
    ChunkProgram chunk;
    auto const here = VirtualStageId::of_index(v);
    ChunkPlace const place = plan.placement.place(here);
    if (plan.placement.is_first(here)) first_layer = 0;
    chunk.stage = place.stage;
    chunk.chunk = place.chunk;
    chunk.first_layer = first_layer;
    chunk.layers = layers[v];
    first_layer += layers[v];
    chunk.has_embedding = plan.placement.is_first(here);
    chunk.has_head = plan.placement.is_last(here);
    chunk.keeps_output = neighbour_here(plan.placement, place, Neighbour::next).has_value();
    if (config.model.causal_mask == CausalMask::per_microbatch) {
      chunk.blocks.push_back(catalogue.inputs());
    }
    if (chunk.has_embedding) chunk.blocks.push_back(catalogue.embedding());
    LayerPolicies const& of_layers = policies[policies.size() == 1 ? 0 : chunk.stage.index()];
    chunk.has_recompute_pass = of_layers.whole.early == EarlyRecompute::bubble;
    append_layers(chunk, catalogue, of_layers, k);
    if (chunk.has_head) {
      bool const shares = embeds_at_end(config.model) && begins_model(plan.placement, chunk.stage);
      chunk.blocks.push_back(
          catalogue.head(shares ? HeadWeight::shared : HeadWeight::own, of_layers.single, k));
    }
    chunks.push_back(std::move(chunk));
  }
}

/// The variants of a chunk that a configuration has, in the order of their programs.
std::vector<Variant> variants_of(TrainingConfig const& config) {
  std::vector<Variant> variants{Variant::policy};
  bool const has_window =
      std::any_of(config.recompute.begin(), config.recompute.end(),
                  [](auto const& policy) { return policy.store_microbatches.count > 0; });
  if (has_window) variants.push_back(Variant::stored);
  if (recomputes_early(config)) variants.push_back(Variant::early);
  return variants;
}

/// Those of all virtual stages: of each microbatch that differs, of each variant.
Programs build_programs(TrainingPlan const& plan, std::span<int const> ranks) {
  Programs programs;
  BlockCatalogue catalogue{plan, programs, ranks};
  for (MicrobatchId const k :
       IdRange<MicrobatchId>{static_cast<int>(catalogue.microbatch_classes())}) {
    for (Variant const variant : variants_of(plan.config)) {
      append_chunks(programs.chunks, plan, catalogue, variant, k);
    }
  }
  if (plan.config.sharding.has_units()) shard_units(plan, programs);
  ActivationOffload const& offload = plan.config.offload.activations;
  if (offload.layers > 0) offload_layers(plan.config, programs);
  if (!offload.modules.empty()) offload_modules(plan.config, programs);
  if (plan.has_split_backward) {
    for (BlockProgram& block : programs.blocks) split_backward(block);
  }
  return programs;
}

std::int64_t counters_of(TrainingPlan const& plan, ChunkProgram const& chunk) {
  std::int64_t elements = 0;
  for (std::int32_t const index : chunk.blocks) {
    BlockProgram const& block = plan.programs.blocks[static_cast<std::size_t>(index)];
    for (TensorId const id : block.counters) elements += block.tensor(id).shape.elements();
  }
  return elements;
}

/// What a chunk quantises of its weights.
struct QuantisedExtents {
  std::int64_t parameters = 0;
  std::int64_t bytes = 0;  ///< of all copies
};

QuantisedExtents quantised_weights_of(TrainingPlan const& plan, ChunkProgram const& chunk) {
  QuantisedExtents sum;
  for (std::int32_t const index : chunk.blocks) {
    BlockProgram const& block = plan.programs.blocks[static_cast<std::size_t>(index)];
    for (QuantisedWeight const& weight : block.quantised_weights) {
      sum.parameters += block.tensor(weight.weight).shape.elements();
      for (TensorId const copy : {weight.rows, weight.columns}) {
        if (copy != no_tensor) sum.bytes += block.tensor(copy).bytes().count();
      }
    }
  }
  return sum;
}

void count_parameters(TrainingPlan const& plan, StagePlan& rank) {
  std::int64_t counters = 0;
  std::int64_t copies = 0;
  for (StageChunk const& chunk : rank.chunks) {
    ChunkProgram const& program = plan.programs.chunks[static_cast<std::size_t>(chunk.program)];
    rank.parameters +=
        parameters_of(plan, program, 0, static_cast<std::int32_t>(program.blocks.size()));
    counters += counters_of(plan, program);
    QuantisedExtents const quantised = quantised_weights_of(plan, program);
    rank.quantised_parameters += quantised.parameters;
    copies += quantised.bytes;
  }
  rank.sharded_runs = sharded_runs(plan, rank);
  for (ShardedRun const& run : rank.sharded_runs) rank.shards = std::max(rank.shards, run.shards);
  rank.state = state_buffers(
      plan.config,
      {.parameters = rank.parameters,
       .shard = optimizer_shard(rank),
       .counters = counters,
       .quantised_weights = copies,
       .only_quantised = plan.shape.quantisation.replaces_weights ? rank.quantised_parameters : 0});
}

}  // namespace

bool have_equal_chunks(TrainingPlan const& plan, StagePlan const& a, StagePlan const& b) {
  auto const program = [&](StageChunk const& chunk) -> ChunkProgram const& {
    return plan.programs.chunks[static_cast<std::size_t>(chunk.program)];
  };
  return std::equal(a.chunks.begin(), a.chunks.end(), b.chunks.begin(), b.chunks.end(),
                    [&](StageChunk const& x, StageChunk const& y) {
                      return program(x).blocks == program(y).blocks;
                    });
}

TrainingPlan make_programs(TrainingConfig const& config) {
  ScheduleShape const shape = checked_shape(schedule_shape(config));
  return make_programs(config, placement_of(shape), splits_backward(shape));
}

TrainingPlan make_programs(TrainingConfig const& config,
                           Placement const& placement,
                           bool is_split) {
  TrainingPlan plan = make_outline(config);
  plan.placement = placement;
  plan.has_split_backward = is_split;
  plan.programs = build_programs(plan, {});
  plan.stages.resize(static_cast<std::size_t>(config.parallel.pipeline));
  for (StageId const stage : plan.stages.ids()) {
    plan.stages[stage].stage = stage;
    plan.stages[stage].chunks.resize(static_cast<std::size_t>(config.parallel.interleave));
  }
  std::vector<Variant> const variants = variants_of(config);
  auto const of_microbatch = static_cast<std::int32_t>(
      variants.size() * static_cast<std::size_t>(placement.virtual_stages()));
  for (std::int32_t i = 0; i < of_microbatch; ++i) {
    ChunkProgram const& chunk = plan.programs.chunks[static_cast<std::size_t>(i)];
    Variant const variant = variants[static_cast<std::size_t>(i / placement.virtual_stages())];
    program_of(plan.stages[chunk.stage].chunks[chunk.chunk], variant) = i;
  }
  if (std::ssize(plan.programs.chunks) > of_microbatch) plan.microbatch_stride = of_microbatch;
  for (StageId const id : plan.stages.ids()) {
    StagePlan& stage = plan.stages[id];
    // Most stages are as the one before, so that only a few are counted.
    if (id == StageId{0} || !have_equal_chunks(plan, plan.stages[previous(id)], stage)) {
      count_parameters(plan, stage);
      continue;
    }
    StagePlan const& same = plan.stages[previous(id)];
    stage.parameters = same.parameters;
    stage.sharded_runs = same.sharded_runs;
    stage.shards = same.shards;
    stage.quantised_parameters = same.quantised_parameters;
    stage.state = same.state;
  }
  return plan;
}

Programs programs_of_ranks(TrainingPlan const& plan, std::span<int const> ranks) {
  return build_programs(plan, ranks);
}

}  // namespace stagecraft
