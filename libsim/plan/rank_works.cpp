#include "libsim/plan/rank_works.hpp"

#include <algorithm>

#include "libsim/plan/step_program.hpp"

namespace stagecraft {

RankWorks::RankWorks(TrainingPlan const& plan, ScheduleShape const& shape, RankPlan& rank)
    : plan_{plan},
      rank_{rank},
      microbatches_{static_cast<std::size_t>(shape.microbatches)},
      chunks_{shape.chunks},
      overlaps_reduction_{plan.config.parallel.overlap_gradients},
      window_{std::min(warmup_forwards(shape, rank.stage) + 1, shape.microbatches * shape.chunks)},
      window_store_{policy_of(plan.config, rank.stage).store_microbatches.count} {
  auto const chunks = static_cast<std::size_t>(chunks_);
  if (window_store_ > 0) stored_.resize(chunks * microbatches_);
  whole_.assign(4 * chunks, -1);
  backwards_left_.assign(chunks, shape.microbatches);
}

std::int32_t RankWorks::forward(ChunkRun const& run) {
  if (window_store_ > 0) stored_[place(run)] = forwards_ % window_ < window_store_ ? 1 : 0;
  ++forwards_;
  return whole_work(run, Work::Kind::forward);
}

std::int32_t RankWorks::backward(ChunkRun const& run) {
  return whole_work(run, Work::Kind::backward);
}

bool RankWorks::starts_reduction(ChunkRun const& run) {
  bool const is_last = --backwards_left_[static_cast<std::size_t>(run.chunk)] == 0;
  return is_last && overlaps_reduction_;
}

void RankWorks::append_reduced_backward(ChunkRun const& run) {
  for (GradientBucket const& bucket : gradient_buckets(plan_, program(run))) {
    auto const blocks = plan_.chunks[static_cast<std::size_t>(bucket.chunk_program)].blocks.size();
    bool const is_whole = static_cast<std::size_t>(bucket.block_count) == blocks;
    std::int32_t const work = is_whole ? backward(run)
                                       : append(Work::Kind::backward, bucket.chunk_program,
                                                bucket.first_block, bucket.block_count);
    rank_.steps.push_back({.kind = Step::Kind::run, .work = work, .microbatch = run.microbatch});
    append_gradient_reduction(rank_, plan_, bucket.parameters);
  }
}

std::int32_t RankWorks::program(ChunkRun const& run) const {
  int const p = plan_.config.parallel.pipeline;
  std::int32_t const index = run.chunk * p + rank_.stage;
  return is_stored(run) ? p * chunks_ + index : index;
}

std::int32_t RankWorks::whole_work(ChunkRun const& run, Work::Kind kind) {
  int const variant = is_stored(run) ? 1 : 0;
  int const pass = kind == Work::Kind::forward ? 0 : 1;
  auto& known = whole_[static_cast<std::size_t>(2 * (variant * chunks_ + run.chunk) + pass)];
  if (known < 0) {
    std::int32_t const index = program(run);
    auto const& blocks = plan_.chunks[static_cast<std::size_t>(index)].blocks;
    known = append(kind, index, 0, static_cast<std::int32_t>(blocks.size()));
  }
  return known;
}

std::int32_t RankWorks::append(Work::Kind kind,
                               std::int32_t program,
                               std::int32_t first,
                               std::int32_t count) {
  Work made;
  made.kind = kind;
  made.chunk = plan_.chunks[static_cast<std::size_t>(program)].chunk;
  made.program = program;
  made.first_block = first;
  made.block_count = count;
  rank_.works.push_back(made);
  return static_cast<std::int32_t>(rank_.works.size()) - 1;
}

}  // namespace stagecraft
