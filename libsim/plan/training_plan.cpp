#include "libsim/plan/training_plan.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

#include "libsim/model/blocks.hpp"
#include "libsim/plan/layer_split.hpp"
#include "libsim/plan/step_program.hpp"

namespace stagecraft {
namespace {

/// Builds each distinct block once.
class BlockCatalogue {
 public:
  explicit BlockCatalogue(TrainingPlan& plan) : plan_{plan} {}

  std::int32_t inputs() {
    return find({BlockProgram::Kind::inputs, 0, {}, HeadWeight::own},
                [&] { return build_inputs(plan_.shape); });
  }
  std::int32_t embedding() {
    return find({BlockProgram::Kind::embedding, 0, {}, HeadWeight::own},
                [&] { return build_embedding(plan_.shape); });
  }
  std::int32_t layers(int count, RecomputePolicy const& policy) {
    return find({BlockProgram::Kind::layers, count, policy, HeadWeight::own},
                [&] { return build_layers(plan_.shape, count, policy); });
  }
  std::int32_t head(HeadWeight weight) {
    return find({BlockProgram::Kind::head, 0, {}, weight},
                [&] { return build_head(plan_.shape, weight); });
  }

 private:
  struct Key {
    BlockProgram::Kind kind;
    int layers;
    RecomputePolicy policy;
    HeadWeight weight;
    bool operator==(Key const&) const = default;
  };

  template <typename Build>
  std::int32_t find(Key const& key, Build build) {
    auto const known = std::find(keys_.begin(), keys_.end(), key);
    auto const index = static_cast<std::int32_t>(known - keys_.begin());
    if (known == keys_.end()) {
      keys_.push_back(key);
      plan_.blocks.push_back(build());
    }
    return index;
  }

  TrainingPlan& plan_;
  std::vector<Key> keys_;
};

/// The layers of a chunk as blocks: full-recompute groups, or single layers.
void append_layers(std::vector<std::int32_t>& blocks,
                   BlockCatalogue& catalogue,
                   std::int64_t layers,
                   RecomputePolicy const& policy) {
  bool const is_full = policy.granularity == RecomputeGranularity::full;
  if (is_full && policy.method == RecomputeMethod::uniform) {
    for (std::int64_t rest = layers; rest > 0; rest -= policy.layers) {
      auto const group = static_cast<int>(std::min<std::int64_t>(rest, policy.layers));
      blocks.push_back(catalogue.layers(group, policy));
    }
    return;
  }
  RecomputePolicy single = policy;
  single.layers = 1;
  for (std::int64_t i = 0; i < layers; ++i) {
    bool const is_stored = is_full && i >= policy.layers;  // block method: only the first K layers
    blocks.push_back(catalogue.layers(1, is_stored ? RecomputePolicy{} : single));
  }
}

/// Chunks are stored by variant: first all (chunk, stage) with the stage's policy, then, where a window
/// of microbatches is stored, all again without recompute.
enum class Variant : std::uint8_t { policy, stored };

void append_chunks(TrainingPlan& plan, BlockCatalogue& catalogue, Variant variant) {
  TrainingConfig const& config = plan.config;
  std::vector<std::int64_t> const layers = layers_of_virtual_stages(config);
  std::int64_t first_layer = 0;
  for (std::size_t v = 0; v < layers.size(); ++v) {
    ChunkProgram chunk;
    chunk.stage = static_cast<std::int32_t>(v) % config.parallel.pipeline;
    chunk.chunk = static_cast<std::int32_t>(v) / config.parallel.pipeline;
    chunk.first_layer = first_layer;
    chunk.layers = layers[v];
    first_layer += layers[v];
    chunk.has_embedding = v == 0;
    chunk.has_head = v + 1 == layers.size();
    if (config.model.causal_mask == CausalMask::per_microbatch) {
      chunk.blocks.push_back(catalogue.inputs());
    }
    if (chunk.has_embedding) chunk.blocks.push_back(catalogue.embedding());
    RecomputePolicy policy = policy_of(config, chunk.stage);
    policy.store_microbatches = {};
    append_layers(chunk.blocks,
                  catalogue,
                  chunk.layers,
                  variant == Variant::policy ? policy : RecomputePolicy{});
    if (chunk.has_head) {
      bool const shares = config.model.tied_embeddings && config.parallel.pipeline == 1;
      chunk.blocks.push_back(catalogue.head(shares ? HeadWeight::shared : HeadWeight::own));
    }
    plan.chunks.push_back(std::move(chunk));
  }
}

ScheduleShape schedule_shape(TrainingConfig const& config) {
  return {.kind = config.schedule.kind,
          .stages = config.parallel.pipeline,
          .microbatches = static_cast<int>(microbatches(config)),
          .chunks = config.parallel.interleave,
          .group = config.schedule.group,
          .p2p = config.schedule.p2p};
}

/// Turns one stage's schedule into works and steps.
class RankWriter {
 public:
  RankWriter(TrainingPlan const& plan, RankPlan& rank) : plan_{plan}, rank_{rank} {}

  void write(StageSchedule const& stage) {
    rank_.transfers = stage.transfers;
    append_begin_of_step(rank_, plan_);
    count_microbatches(stage);
    for (ScheduleStep const& step : stage.steps) write(step);
    if (!plan_.config.parallel.overlap_gradients) {
      append_gradient_reduction(rank_, plan_, rank_.parameters);
    }
    append_end_of_step(rank_, plan_);
  }

 private:
  std::int32_t program(int chunk, int index_in_order) const {
    int const p = plan_.config.parallel.pipeline;
    std::int32_t const index = chunk * p + rank_.stage;
    auto const variants = static_cast<std::int32_t>(p * plan_.config.parallel.interleave);
    StoreMicrobatches const& store = policy_of(plan_.config, rank_.stage).store_microbatches;
    bool const is_stored = store.count > 0 && index_in_order % window_ < store.count;
    return is_stored ? variants + index : index;
  }

  /// Length of the warm-up plus one: the window of the paper's appendix C; and which backward of a
  /// chunk is its last.
  void count_microbatches(StageSchedule const& stage) {
    int forwards = 0;
    bool has_backward = false;
    for (ScheduleStep const& step : stage.steps) {
      has_backward = has_backward || step.kind == ScheduleStep::Kind::backward;
      forwards += step.kind == ScheduleStep::Kind::forward && !has_backward ? 1 : 0;
      if (step.kind == ScheduleStep::Kind::backward) {
        backwards_left_.resize(std::max<std::size_t>(backwards_left_.size(),
                                                     static_cast<std::size_t>(step.chunk) + 1));
        ++backwards_left_[static_cast<std::size_t>(step.chunk)];
      }
    }
    window_ = std::max(1, forwards);
  }

  void write(ScheduleStep const& step) {
    switch (step.kind) {
      case ScheduleStep::Kind::forward:
        write_forward(step);
        return;
      case ScheduleStep::Kind::backward:
        write_backward(step);
        return;
      case ScheduleStep::Kind::post:
      case ScheduleStep::Kind::wait:
        rank_.steps.push_back({.kind = step.kind == ScheduleStep::Kind::post ? Step::Kind::post
                                                                             : Step::Kind::wait,
                               .microbatch = -1,
                               .first = step.first,
                               .count = step.count});
        return;
    }
  }

  void write_forward(ScheduleStep const& step) {
    std::int32_t const index = program(step.chunk, forward_order_++);
    program_of_.push_back({step.chunk, step.microbatch, index});
    run(work(Work::Kind::forward, index, 0, blocks(index)), step.microbatch);
  }

  void write_backward(ScheduleStep const& step) {
    auto const mine =
        std::find_if(program_of_.begin(), program_of_.end(), [&](InFlight const& entry) {
          return entry.chunk == step.chunk && entry.microbatch == step.microbatch;
        });
    std::int32_t const index = mine->program;
    program_of_.erase(mine);
    bool const is_last = --backwards_left_[static_cast<std::size_t>(step.chunk)] == 0;
    if (!is_last || !plan_.config.parallel.overlap_gradients) {
      run(work(Work::Kind::backward, index, 0, blocks(index)), step.microbatch);
      return;
    }
    for (GradientBucket const& bucket : gradient_buckets(plan_, index)) {
      run(work(Work::Kind::backward, index, bucket.first_block, bucket.block_count),
          step.microbatch);
      append_gradient_reduction(rank_, plan_, bucket.parameters);
    }
  }

  std::int32_t blocks(std::int32_t program) const {
    return static_cast<std::int32_t>(
        plan_.chunks[static_cast<std::size_t>(program)].blocks.size());
  }

  /// The number of a work, made on first use.
  std::int32_t work(Work::Kind kind, std::int32_t program, std::int32_t first, std::int32_t count) {
    for (std::size_t i = 0; i < rank_.works.size(); ++i) {
      Work const& known = rank_.works[i];
      if (known.kind == kind && known.program == program && known.first_block == first &&
          known.block_count == count) {
        return static_cast<std::int32_t>(i);
      }
    }
    Work made;
    made.kind = kind;
    made.chunk = plan_.chunks[static_cast<std::size_t>(program)].chunk;
    made.program = program;
    made.first_block = first;
    made.block_count = count;
    rank_.works.push_back(made);
    return static_cast<std::int32_t>(rank_.works.size()) - 1;
  }

  void run(std::int32_t work, std::int32_t microbatch) {
    rank_.steps.push_back({.kind = Step::Kind::run, .work = work, .microbatch = microbatch});
  }

  struct InFlight {
    std::int32_t chunk, microbatch, program;
  };

  TrainingPlan const& plan_;
  RankPlan& rank_;
  std::vector<InFlight> program_of_;
  std::vector<int> backwards_left_;
  int forward_order_ = 0;
  int window_ = 1;
};

void count_parameters(TrainingPlan const& plan, RankPlan& rank) {
  std::int64_t const p = plan.config.parallel.pipeline;
  for (std::int64_t chunk = 0; chunk < plan.config.parallel.interleave; ++chunk) {
    ChunkProgram const& program = plan.chunks[static_cast<std::size_t>(chunk * p + rank.stage)];
    rank.parameters +=
        parameters_of(plan, program, 0, static_cast<std::int32_t>(program.blocks.size()));
  }
  Precision const precision = plan.config.model.precision;
  std::int64_t const d =
      plan.config.memory.distributed_optimizer ? plan.config.parallel.data : 1;
  rank.parameter_bytes = Bytes{rank.parameters * element_size(activation_type(precision))};
  rank.gradient_bytes = Bytes{rank.parameters * element_size(gradient_type(precision))};
  rank.optimizer_bytes = (rank.parameters + d - 1) / d * optimizer_bytes_per_parameter(precision);
}

}  // namespace

Bytes TrainingPlan::message_bytes() const {
  return Bytes{shape.local_sequence() * shape.micro * shape.model.hidden *
               element_size(activation_type(shape.model.precision))};
}

Bytes TrainingPlan::sent_bytes() const {
  return scatters_messages() ? Bytes{message_bytes().count() / shape.tensor} : message_bytes();
}

bool TrainingPlan::scatters_messages() const {
  return config.schedule.scatter_gather && !shape.sequence_parallel && shape.tensor > 1;
}

BlockShape block_shape(TrainingConfig const& config) {
  return {.model = config.model,
          .tensor = config.parallel.tensor,
          .sequence_parallel = config.parallel.sequence && config.parallel.tensor > 1,
          .micro = config.batch.micro};
}

RecomputePolicy const& policy_of(TrainingConfig const& config, int stage) {
  return config.recompute.size() == 1 ? config.recompute.front()
                                      : config.recompute[static_cast<std::size_t>(stage)];
}

TrainingPlan make_plan(TrainingConfig const& config) {
  TrainingPlan plan;
  plan.config = config;
  plan.shape = block_shape(config);
  BlockCatalogue catalogue{plan};
  append_chunks(plan, catalogue, Variant::policy);
  bool const has_window =
      std::any_of(config.recompute.begin(), config.recompute.end(), [](auto const& policy) {
        return policy.store_microbatches.count > 0;
      });
  if (has_window) append_chunks(plan, catalogue, Variant::stored);

  PipelineSchedule const schedule = make_pipeline_schedule(schedule_shape(config));
  plan.messages = schedule.messages;
  for (int stage = 0; stage < config.parallel.pipeline; ++stage) {
    RankPlan& rank = plan.ranks.emplace_back();
    rank.stage = stage;
    count_parameters(plan, rank);
    RankWriter{plan, rank}.write(schedule.stages[static_cast<std::size_t>(stage)]);
  }
  return plan;
}

}  // namespace stagecraft
