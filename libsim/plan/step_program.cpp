#include "libsim/plan/step_program.hpp"

#include <algorithm>

#include "libsim/plan/parameter_layout.hpp"

namespace stagecraft {
namespace {

Task& issue(StagePlan& rank, TrainingPlan const& plan, Op const& op) {
  Task task;
  task.kind = Task::Kind::step;
  task.stream = op.stream;
  if (op.group && plan.groups.joins_stages(*op.group)) task.group = op.group;
  task.op = static_cast<std::int32_t>(rank.step_ops.size());
  rank.step_ops.push_back(op);
  rank.step_ops.back().type = activation_type(plan.config.model.precision);
  IssueEntry step;
  step.kind = IssueEntry::Kind::run;
  step.task = static_cast<std::int32_t>(rank.tasks.size());
  step.microbatch = -1;
  rank.tasks.push_back(task);
  rank.program.entries.push_back(step);
  return rank.tasks.back();
}

Op sweep(OpKind kind, Name name, Bytes traffic) {
  Op op;
  op.kind = kind;
  op.name = name;
  op.phase = Phase::optimizer;
  op.module = "step";
  op.traffic = traffic;
  return op;
}

Op collective(OpKind kind, Name name, GroupId group, StepData data, Bytes payload) {
  Op op = sweep(kind, name, Bytes{0});
  op.phase = Phase::data_parallel;
  op.group = group;
  op.data = data;
  op.payload = payload;
  return op;
}

std::int64_t gradient_size(TrainingPlan const& plan) {
  return element_size(gradient_type(plan.config.model.precision));
}

/// Elements of the rank's parameters whose gradients are summed over ranks that hold the same rows.
std::int64_t summed_elements(StagePlan const& rank, TrainingPlan const& plan, StepData data) {
  std::int64_t sum = 0;
  for (StageChunk const& chunk : rank.chunks) {
    for (std::int32_t const index : plan.chunks[static_cast<std::size_t>(chunk.program)].blocks) {
      BlockProgram const& block = plan.blocks[static_cast<std::size_t>(index)];
      for (Parameter const& parameter : block.parameters) {
        Shape const& part = block.tensor(parameter.weight).shape;
        for (RowSegment const& segment : parameter.segments) {
          if (segment.gradient_sum == data) sum += segment.rows * (part.elements() / part[0]);
        }
      }
    }
  }
  return sum;
}

bool is_16_bit(Precision precision) {
  return precision == Precision::fp16 || precision == Precision::bf16;
}

void append_reductions_between_ranks(StagePlan& rank, TrainingPlan const& plan) {
  std::int64_t const g = gradient_size(plan);
  auto const reduce = [&](Name name, GroupId group, StepData data, std::int64_t elements) {
    if (elements == 0) return;
    issue(rank, plan, collective(OpKind::all_reduce, name, group, data, Bytes{elements * g}));
  };
  auto const of_replicas = [&](StepData data) { return summed_elements(rank, plan, data); };
  reduce({"step", "all_reduce_norm_gradients"}, plan.roles.tensor, StepData::partial_gradients,
         of_replicas(StepData::partial_gradients));
  if (plan.roles.kv_replicas) {
    reduce({"step", "all_reduce_kv_gradients"}, *plan.roles.kv_replicas, StepData::kv_gradients,
           of_replicas(StepData::kv_gradients));
  }
  if (plan.roles.embedding && !plan.groups.stages(*plan.roles.embedding, rank.stage).empty()) {
    reduce({"step", "all_reduce_embedding_gradient"}, *plan.roles.embedding,
           StepData::embedding_gradient, plan.shape.vocabulary() * plan.config.model.hidden);
  }
}

void append_optimizer(StagePlan& rank, TrainingPlan const& plan) {
  Precision const precision = plan.config.model.precision;
  std::int64_t const n = optimizer_shard(plan, rank);
  std::int64_t const g = gradient_size(plan);
  std::int64_t const weight = element_size(activation_type(precision));
  auto const run = [&](OpKind kind, Name name, std::int64_t bytes_per_parameter) {
    issue(rank, plan, sweep(kind, name, Bytes{bytes_per_parameter * n}));
  };
  // With sharded optimizer state every replica has seen only its own part of the gradients.
  GroupId const everyone =
      plan.config.memory.distributed_optimizer ? plan.roles.job : plan.roles.model;
  auto const agree = [&](Name name, StepData data, Reduction reduction) {
    Op op = collective(OpKind::all_reduce, name, everyone, data, Bytes{g});
    op.phase = Phase::optimizer;
    op.reduction = reduction;
    issue(rank, plan, op);
  };
  if (precision == Precision::fp16) {
    run(OpKind::unscale_gradients, {"step", "unscale"}, 2 * g);
    agree({"step", "all_reduce_found_infinity"}, StepData::found_infinity, Reduction::maximum);
  }
  run(OpKind::gradient_norm, {"step", "gradient_norm"}, g);
  agree({"step", "all_reduce_gradient_norm"}, StepData::squares_of_gradients, Reduction::sum);
  run(OpKind::clip_gradients, {"step", "clip"}, 2 * g);
  run(OpKind::adam, {"step", "adam"},
      g + 3 * g + 3 * g);  // grad; master and moments read and written
  if (is_16_bit(precision)) {
    run(OpKind::narrow_parameters, {"step", "narrow_parameters"}, g + weight);
  }
  if (plan.config.memory.distributed_optimizer && plan.replicas() > 1) {
    Op gather =
        collective(OpKind::all_gather, {"step", "all_gather_parameters"}, plan.roles.gradients,
                   StepData::parameters, Bytes{rank.parameters * weight});
    gather.stream = Stream::data_parallel;
    issue(rank, plan, gather);
    rank.program.entries.push_back({.kind = IssueEntry::Kind::drain, .microbatch = -1});
  }
}

}  // namespace

std::int64_t parameters_of(TrainingPlan const& plan,
                           ChunkProgram const& chunk,
                           std::int32_t first_block,
                           std::int32_t block_count) {
  std::int64_t sum = 0;
  for (std::int32_t i = first_block; i < first_block + block_count; ++i) {
    auto const index = static_cast<std::size_t>(chunk.blocks[static_cast<std::size_t>(i)]);
    BlockProgram const& block = plan.blocks[index];
    for (Parameter const& parameter : block.parameters) {
      if (!parameter.shared) sum += block.tensor(parameter.weight).shape.elements();
    }
  }
  return sum;
}

std::vector<GradientBucket> gradient_buckets(TrainingPlan const& plan, std::int32_t chunk_program) {
  ChunkProgram const& chunk = plan.chunks[static_cast<std::size_t>(chunk_program)];
  auto const blocks = static_cast<std::int32_t>(chunk.blocks.size());
  std::int64_t const limit = std::max<std::int64_t>(40'000'000, 1'000'000LL * plan.replicas());
  std::vector<GradientBucket> buckets;
  std::int32_t end = blocks;
  std::int64_t filled = 0;
  for (std::int32_t i = blocks; i-- > 0;) {
    filled += parameters_of(plan, chunk, i, 1);
    // Blocks without parameters join the bucket behind them.
    bool const is_full =
        chunk.has_embedding && filled >= limit && parameters_of(plan, chunk, 0, i) > 0;
    if (is_full || i == 0) {
      buckets.push_back({chunk_program, i, end - i, filled});
      end = i;
      filled = 0;
    }
  }
  return buckets;
}

void append_begin_of_step(StagePlan& rank, TrainingPlan const& plan) {
  issue(rank, plan,
        sweep(OpKind::zero_gradients, {"step", "zero_gradients"},
              Bytes{rank.parameters * gradient_size(plan)}));
}

void append_gradient_reduction(StagePlan& rank,
                               TrainingPlan const& plan,
                               GradientBucket const& bucket) {
  std::int64_t const bytes = bucket.parameters * gradient_size(plan);
  auto const on_bucket = [&](Op const& op) {
    Task& task = issue(rank, plan, op);
    if (bucket.chunk_program != GradientBucket::all_chunks) {
      task.chunk = plan.chunks[static_cast<std::size_t>(bucket.chunk_program)].chunk;
    }
    task.program = bucket.chunk_program;
    task.first_block = bucket.first_block;
    task.block_count = bucket.block_count;
  };
  on_bucket(sweep(OpKind::scale_gradients, {"step", "scale_gradients"}, Bytes{2 * bytes}));
  if (plan.replicas() == 1) return;
  bool const shards = plan.config.memory.distributed_optimizer;
  Op reduction = collective(shards ? OpKind::reduce_scatter : OpKind::all_reduce,
                            {"step", shards ? "reduce_scatter_gradients" : "all_reduce_gradients"},
                            plan.roles.gradients, StepData::gradients, Bytes{bytes});
  reduction.stream = Stream::data_parallel;
  on_bucket(reduction);
}

void append_end_of_step(StagePlan& rank, TrainingPlan const& plan) {
  if (!plan.config.parallel.overlap_gradients) {
    append_gradient_reduction(
        rank, plan, {.chunk_program = GradientBucket::all_chunks, .parameters = rank.parameters});
  }
  if (plan.replicas() > 1) {
    rank.program.entries.push_back({.kind = IssueEntry::Kind::drain, .microbatch = -1});
  }
  append_reductions_between_ranks(rank, plan);
  append_optimizer(rank, plan);
}

}  // namespace stagecraft
