#include "libsim/plan/parameter_layout.hpp"

#include <algorithm>

#include "libsim/plan/step_program.hpp"

namespace stagecraft {
namespace {

/// Appends rows [local, local + count) that are rows [whole, ...) of a tensor with `valid` rows.
void add_rows(ParameterWindow& window, RowRange range, std::int64_t valid) {
  range.count = std::min(range.count, valid - range.whole);
  if (range.count > 0) window.rows.push_back(range);
}

/// [q | k | v], each cut by heads; k and v are held by several ranks where t exceeds their number.
void add_qkv_rows(ParameterWindow& window,
                  ParameterSplit const& split,
                  BlockShape const& shape,
                  int tensor_rank) {
  std::int64_t const d = shape.model.head_dim;
  std::int64_t const q = shape.heads() * d;
  std::int64_t const kv = shape.kv_heads() * d;
  int const group = tensor_rank / split.kv_replicas;
  bool const is_replica = tensor_rank % split.kv_replicas != 0;
  std::int64_t const whole_q = shape.model.heads * d;
  std::int64_t const whole_kv = shape.model.kv_heads * d;
  std::int64_t const valid = split.valid_rows;
  add_rows(window, {0, q, tensor_rank * q, false}, valid);
  add_rows(window, {q, kv, whole_q + group * kv, is_replica}, valid);
  add_rows(window, {q + kv, kv, whole_q + whole_kv + group * kv, is_replica}, valid);
}

}  // namespace

ParameterWindow window_of(Parameter const& parameter,
                          Tensor const& weight,
                          BlockShape const& shape,
                          int tensor_rank) {
  ParameterSplit const& split = parameter.split;
  std::int64_t const rows = weight.shape[0];
  bool const has_columns = weight.shape.rank() > 1;
  ParameterWindow window;
  window.columns = has_columns ? weight.shape[1] : 1;
  window.whole_columns = window.columns;
  window.whole_rows = split.axis == ParameterSplit::Axis::none ? rows : split.valid_rows;
  switch (split.axis) {
    case ParameterSplit::Axis::none:
      window.rows.push_back({0, rows, 0, tensor_rank > 0});
      break;
    case ParameterSplit::Axis::columns:
      window.rows.push_back({0, rows, 0, false});
      window.first_column = tensor_rank * window.columns;
      window.whole_columns = shape.tensor * window.columns;
      break;
    case ParameterSplit::Axis::rows: {
      constexpr int qkv_segments = 3;
      if (split.segments == qkv_segments) {
        add_qkv_rows(window, split, shape, tensor_rank);
        break;
      }
      std::int64_t const part = rows / split.segments;
      for (std::int64_t i = 0; i < split.segments; ++i) {
        add_rows(window, {i * part, part, (i * shape.tensor + tensor_rank) * part, false},
                 split.valid_rows);
      }
      break;
    }
  }
  return window;
}

std::string PlacedParameter::name() const {
  if (parameter->tied_embedding) return "embedding.weight";
  std::string const own = to_string(weight->name);
  return layer < 0 ? own : "layers." + std::to_string(layer) + "." + own;
}

std::int64_t first_layer_of(TrainingPlan const& plan,
                            ChunkProgram const& chunk,
                            std::size_t block) {
  std::int64_t layer = chunk.first_layer;
  for (std::size_t i = 0; i < block; ++i) {
    layer += plan.blocks[static_cast<std::size_t>(chunk.blocks[i])].layers;
  }
  return layer;
}

std::vector<PlacedParameter> parameter_layout(TrainingPlan const& plan, StagePlan const& rank) {
  std::vector<PlacedParameter> placed;
  std::int64_t offset = 0;
  for (StageChunk const& of_stage : rank.chunks) {
    std::int32_t const index = of_stage.program;
    ChunkProgram const& chunk = plan.chunks[static_cast<std::size_t>(index)];
    for (std::size_t position = 0; position < chunk.blocks.size(); ++position) {
      BlockProgram const& block = plan.blocks[static_cast<std::size_t>(chunk.blocks[position])];
      bool const has_layers = block.kind == BlockProgram::Kind::layers;
      for (Parameter const& parameter : block.parameters) {
        if (parameter.shared) continue;
        Tensor const& weight = block.tensor(parameter.weight);
        placed.push_back(
            {.chunk = index,
             .block = static_cast<std::int32_t>(position),
             .parameter = &parameter,
             .weight = &weight,
             .layer = has_layers ? first_layer_of(plan, chunk, position) + weight.layer : -1,
             .offset = offset});
        offset += placed.back().elements();
      }
    }
  }
  return placed;
}

std::vector<ShardedRun> sharded_runs(TrainingPlan const& plan, StagePlan const& rank) {
  TrainingConfig const& config = plan.config;
  if (!config.memory.distributed_optimizer) return {{0, rank.parameters}};
  std::vector<ShardedRun> runs;
  bool is_cut = true;  // the next parameter begins a run
  std::int32_t bucket_end = 0;
  std::int32_t chunk = -1;
  std::vector<GradientBucket> buckets;
  for (PlacedParameter const& placed : parameter_layout(plan, rank)) {
    if (config.parallel.overlap_gradients) {
      if (placed.chunk != chunk) {
        chunk = placed.chunk;
        buckets = gradient_buckets(plan, chunk);
        bucket_end = 0;
      }
      if (placed.block >= bucket_end) {
        auto const bucket = std::find_if(buckets.begin(), buckets.end(), [&](auto const& one) {
          return placed.block < one.first_block + one.block_count &&
                 placed.block >= one.first_block;
        });
        bucket_end = bucket->first_block + bucket->block_count;
        is_cut = true;
      }
    }
    bool const is_held_twice = placed.parameter->tied_embedding && config.parallel.pipeline > 1;
    if (is_cut || is_held_twice) runs.push_back({placed.offset, 0});
    runs.back().count += placed.elements();
    is_cut = is_held_twice;
  }
  return runs;
}

std::int64_t optimizer_shard(TrainingPlan const& plan, StagePlan const& rank) {
  std::int64_t const d = plan.config.memory.distributed_optimizer ? plan.replicas() : 1;
  if (d == 1) return rank.parameters;
  std::int64_t elements = 0;
  for (ShardedRun const& run : sharded_runs(plan, rank)) elements += run.shard(d);
  return elements;
}

}  // namespace stagecraft
