#include "libsim/plan/stage_tasks.hpp"

#include <algorithm>

#include "libsim/plan/step_program.hpp"

namespace stagecraft {

StageTasks::StageTasks(TrainingPlan const& plan, ScheduleShape const& shape, StagePlan& rank)
    : plan_{plan},
      rank_{rank},
      microbatches_{static_cast<std::size_t>(shape.microbatches)},
      chunks_{shape.chunks},
      overlaps_reduction_{plan.config.parallel.overlap_gradients},
      window_{store_window(shape, rank.stage)},
      window_store_{policy_of(plan.config, rank.stage).store_microbatches.count} {
  auto const chunks = static_cast<std::size_t>(chunks_);
  if (window_store_ > 0) stored_.resize(chunks * microbatches_);
  whole_.assign(4 * chunks, -1);
  backwards_left_.assign(chunks, shape.microbatches);
}

void StageTasks::note_stored(ChunkRun const& run) {
  stored_[place(run)] = forwards_++ % window_ < window_store_ ? 1 : 0;
}

void StageTasks::append_reduced_backward(ChunkRun const& run) {
  for (GradientBucket const& bucket : gradient_buckets(plan_, program(run))) {
    auto const blocks = plan_.chunks[static_cast<std::size_t>(bucket.chunk_program)].blocks.size();
    bool const is_whole = static_cast<std::size_t>(bucket.block_count) == blocks;
    std::int32_t const task = is_whole ? backward(run)
                                       : append(Task::Kind::backward, bucket.chunk_program,
                                                bucket.first_block, bucket.block_count);
    rank_.steps.push_back(
        {.kind = IssueEntry::Kind::run, .task = task, .microbatch = run.microbatch});
    append_gradient_reduction(rank_, plan_, bucket);
  }
}

std::int32_t StageTasks::program(ChunkRun const& run) const {
  int const p = plan_.config.parallel.pipeline;
  std::int32_t const index = run.chunk * p + rank_.stage;
  return is_stored(run) ? p * chunks_ + index : index;
}

std::int32_t StageTasks::append_whole(ChunkRun const& run, Task::Kind kind) {
  std::int32_t const index = program(run);
  auto const& blocks = plan_.chunks[static_cast<std::size_t>(index)].blocks;
  return append(kind, index, 0, static_cast<std::int32_t>(blocks.size()));
}

std::int32_t StageTasks::append(Task::Kind kind,
                                std::int32_t program,
                                std::int32_t first,
                                std::int32_t count) {
  Task made;
  made.kind = kind;
  made.chunk = plan_.chunks[static_cast<std::size_t>(program)].chunk;
  made.program = program;
  made.first_block = first;
  made.block_count = count;
  rank_.tasks.push_back(made);
  return static_cast<std::int32_t>(rank_.tasks.size()) - 1;
}

}  // namespace stagecraft
