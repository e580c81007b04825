#include "libsim/schedule/stage_writer.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace stagecraft {

StageWriter::StageWriter(PipelineSchedule& schedule, SteadyLoop const& loop, StageId stage)
    : schedule_{schedule},
      loop_{loop},
      program_{schedule.stages[stage]},
      stage_{stage},
      loop_begins_after_{loop.has_loop() ? loop.backwards_before(stage) : 0},
      backwards_left_(static_cast<std::size_t>(loop.shape.chunks), loop.shape.microbatches) {
  if (stage == StageId{0}) return;
  // It will be about as long as the program of the stage before.
  StageProgram const& before = schedule.stages[previous(stage)];
  program_.entries.reserve(before.entries.size() + 16);
  program_.transfers.reserve(before.transfers.size() + 16);
}

void StageWriter::run(ChunkRun const& run, bool is_paired) {
  if (run.pass == Pass::forward && loop_.has_loop()) mark_border();
  program_.entries.push_back({.task = schedule_.task(run.pass, run.chunk),
                              .microbatch = run.microbatch + advance_,
                              .is_paired = is_paired});
  if (run.pass != Pass::backward) return;
  ++backwards_;
  last_chunk_ = run.chunk;
  --backwards_left_[run.chunk.index()];
}

void StageWriter::send_output_of(ChunkRun const& run) {
  if (run.pass != Pass::forward && !gives_gradient(run.pass)) return;
  Placement const& placement = schedule_.placement;
  VirtualStageId const here = placement.virtual_stage({stage_, run.chunk});
  bool const is_activation = run.pass == Pass::forward;
  if (is_activation ? placement.is_last(here) : placement.is_first(here)) return;
  add(Transfer::End::send, run, here, is_activation ? next(here) : previous(here));
}

void StageWriter::receive_input_of(ChunkRun const& run) {
  if (run.pass != Pass::forward && !gives_gradient(run.pass)) return;
  Placement const& placement = schedule_.placement;
  VirtualStageId const here = placement.virtual_stage({stage_, run.chunk});
  bool const is_activation = run.pass == Pass::forward;
  if (is_activation ? placement.is_first(here) : placement.is_last(here)) return;
  add(Transfer::End::receive, run, here, is_activation ? previous(here) : next(here));
}

void StageWriter::add(Transfer::End end,
                      ChunkRun const& run,
                      VirtualStageId virtual_stage,
                      VirtualStageId other) {
  ChunkPlace const peer = schedule_.placement.place(other);
  if (peer.stage == stage_) return;
  Transfer::Payload const payload = message_of(run.pass);
  // Each boundary has one channel for activations and one for gradients.
  int const boundary = std::min(virtual_stage, other).value();
  int const channel = payload == Transfer::Payload::activation
                          ? boundary
                          : schedule_.placement.virtual_stages() - 1 + boundary;
  MicrobatchId const microbatch = run.microbatch + advance_;
  program_.transfers.push_back(
      {.payload = payload,
       .end = end,
       .peer = peer.stage,
       .microbatch = microbatch,
       .chunk = run.chunk,
       .message = channel * schedule_.shape.microbatches + microbatch.value(),
       .channel = channel});
}

StageWriter::Range StageWriter::post() {
  auto const end = static_cast<std::int32_t>(program_.transfers.size());
  Range const range{posted_, end - posted_};
  posted_ = end;
  if (range.count > 0) {
    program_.entries.push_back({.kind = IssueEntry::Kind::post,
                                .microbatch = no_microbatch,
                                .first = range.first,
                                .count = range.count});
  }
  return range;
}

void StageWriter::wait(Range range) {
  if (range.count == 0) return;
  program_.entries.push_back({.kind = IssueEntry::Kind::wait,
                              .microbatch = no_microbatch,
                              .first = range.first,
                              .count = range.count});
}

void StageWriter::begin_repeat() {
  repeat_begin_ = static_cast<std::int32_t>(program_.entries.size());
  backwards_before_repeat_ = backwards_;
}

int StageWriter::repeat(int times) {
  int more = times - 1;
  if (backwards_ > backwards_before_repeat_) {
    if (loop_.has_loop()) more = std::min(more, backwards_to_border() - 1);
    auto& left = backwards_left_[last_chunk_.index()];
    more = std::clamp(more, 0, std::max(left - 1, 0));
    left -= more;
    backwards_ += more;
  }
  if (more == 0) return 1;
  auto const end = static_cast<std::int32_t>(program_.entries.size());
  program_.entries.push_back({.kind = IssueEntry::Kind::repeat,
                              .count = end - repeat_begin_,
                              .times = more + 1,
                              .advance = 1});
  return more + 1;
}

void StageWriter::mark_border() {
  bool const is_in_loop = loop_begin_ != StageProgram::none;
  auto const here = static_cast<std::int32_t>(program_.entries.size());
  if (!is_in_loop && backwards_ == loop_begins_after_) {
    loop_begin_ = here;
    repeat_begin_ = here;
  } else if (is_in_loop && program_.steady_loop == StageProgram::none &&
             backwards_ == loop_begins_after_ + loop_.backwards) {
    program_.steady_loop = here;
    program_.entries.push_back({.kind = IssueEntry::Kind::repeat,
                                .count = here - loop_begin_,
                                .times = loop_.times,
                                .advance = loop_.microbatches()});
    advance_ = (loop_.times - 1) * loop_.microbatches();
    repeat_begin_ = here + 1;  // the border comes before the first entry that repeats
  }
}

int StageWriter::backwards_to_border() const {
  if (program_.steady_loop != StageProgram::none) return std::numeric_limits<int>::max();
  bool const is_in_loop = loop_begin_ != StageProgram::none;
  int const border = loop_begins_after_ + (is_in_loop ? loop_.backwards : 0);
  return border - backwards_before_repeat_;
}

}  // namespace stagecraft
