#include "libsim/plan/stage_exchanges.hpp"

#include <cassert>
#include <utility>

namespace stagecraft {

StageWriter::StageWriter(ScheduleShape const& shape, int stage)
    : stages_{shape.stages},
      microbatches_{shape.microbatches},
      virtual_stages_{shape.stages * shape.chunks},
      stage_{stage} {
  auto const runs =
      2 * static_cast<std::size_t>(shape.microbatches) * static_cast<std::size_t>(shape.chunks);
  schedule_.steps.reserve(3 * runs + 3);  // a computation, a post and a wait each, and the ends
  schedule_.transfers.reserve(2 * runs);
}

void StageWriter::run(ChunkRun const& run) {
  auto const kind = run.kind == ChunkRun::Kind::forward ? ScheduleStep::Kind::forward
                                                        : ScheduleStep::Kind::backward;
  schedule_.steps.push_back({.kind = kind, .chunk = run.chunk, .microbatch = run.microbatch});
}

void StageWriter::send_output_of(ChunkRun const& run) {
  int const here = virtual_stage(run);
  if (run.kind == ChunkRun::Kind::forward) {
    if (here + 1 < virtual_stages_) {
      add(Transfer::End::send, Transfer::Payload::activation, here + 1, run);
    }
  } else if (here > 0) {
    add(Transfer::End::send, Transfer::Payload::gradient, here, run);
  }
}

void StageWriter::receive_input_of(ChunkRun const& run) {
  int const here = virtual_stage(run);
  if (run.kind == ChunkRun::Kind::forward) {
    if (here > 0) add(Transfer::End::receive, Transfer::Payload::activation, here, run);
  } else if (here + 1 < virtual_stages_) {
    add(Transfer::End::receive, Transfer::Payload::gradient, here + 1, run);
  }
}

/// Number of the message that crosses the boundary below virtual stage `upper` (1 to pm - 1).
int StageWriter::message(Transfer::Payload payload, int upper, int microbatch) const {
  int const boundaries = virtual_stages_ - 1;
  int const row = (upper - 1) + (payload == Transfer::Payload::gradient ? boundaries : 0);
  return row * microbatches_ + microbatch;
}

void StageWriter::add(Transfer::End end,
                      Transfer::Payload payload,
                      int upper,
                      ChunkRun const& run) {
  int const here = virtual_stage(run);
  int const peer = (here == upper ? upper - 1 : upper) % stages_;
  schedule_.transfers.push_back(
      {payload, end, peer, run.microbatch, run.chunk, message(payload, upper, run.microbatch)});
}

StageWriter::Range StageWriter::post() {
  auto const end = static_cast<std::int32_t>(schedule_.transfers.size());
  Range const range{posted_, end - posted_};
  posted_ = end;
  if (range.count > 0) {
    schedule_.steps.push_back(
        {.kind = ScheduleStep::Kind::post, .first = range.first, .count = range.count});
  }
  return range;
}

void StageWriter::wait(Range range) {
  if (range.count == 0) return;
  schedule_.steps.push_back(
      {.kind = ScheduleStep::Kind::wait, .first = range.first, .count = range.count});
}

int message_count(ScheduleShape const& shape) {
  return 2 * (shape.stages * shape.chunks - 1) * shape.microbatches;
}

void append_blocking_steps(StageWriter& writer, VirtualOrder const& order, int warmup) {
  for (int k = 0; k < warmup; ++k) {
    writer.receive_input_of(order.forward(k));
    writer.exchange();
    writer.run(order.forward(k));
    writer.send_output_of(order.forward(k));
    writer.exchange();
  }
  int const steady = order.size() - warmup;
  if (steady > 0) {
    writer.receive_input_of(order.forward(warmup));
    writer.exchange();
  }
  for (int k = 0; k < steady; ++k) {
    writer.run(order.forward(warmup + k));
    writer.send_output_of(order.forward(warmup + k));
    writer.receive_input_of(order.backward(k));
    writer.exchange();
    writer.run(order.backward(k));
    writer.send_output_of(order.backward(k));
    if (k + 1 < steady) writer.receive_input_of(order.forward(warmup + k + 1));
    writer.exchange();
  }
  for (int k = steady; k < order.size(); ++k) {
    writer.receive_input_of(order.backward(k));
    writer.exchange();
    writer.run(order.backward(k));
    writer.send_output_of(order.backward(k));
    writer.exchange();
  }
}

namespace {

/// Receives what Megatron receives together with the sends after virtual forward or backward k
/// (recv_tensor_from_previous_stage). The leading stage (0 forward, p-1 backward) runs p-1 virtual
/// steps ahead of the trailing one, whose output wraps round to its next chunk.
class InterleavedReceives {
 public:
  InterleavedReceives(VirtualOrder const& order, ScheduleShape const& shape, int stage)
      : order_{order}, lead_{shape.stages - 1}, last_chunk_{shape.chunks - 1}, stage_{stage} {}

  void after_forward(StageWriter& writer, int k) const {
    if (stage_ != 0) {
      if (k + 1 < order_.size()) writer.receive_input_of(order_.forward(k + 1));
    } else if (k >= lead_) {
      ChunkRun made = order_.forward(k - lead_);
      if (made.chunk == last_chunk_) return;
      ++made.chunk;
      writer.receive_input_of(made);
    }
  }

  void after_backward(StageWriter& writer, int k) const {
    if (stage_ != lead_) {
      if (k + 1 < order_.size()) writer.receive_input_of(order_.backward(k + 1));
    } else if (k >= lead_) {
      ChunkRun made = order_.backward(k - lead_);
      if (made.chunk == 0) return;
      --made.chunk;
      writer.receive_input_of(made);
    }
  }

 private:
  VirtualOrder const& order_;
  int lead_;
  int last_chunk_;
  int stage_;
};

}  // namespace

void append_interleaved_blocking_steps(StageWriter& writer,
                                       VirtualOrder const& order,
                                       ScheduleShape const& shape,
                                       int stage) {
  InterleavedReceives const receive{order, shape, stage};
  int const warmup = warmup_forwards(shape, stage);
  int const steady = order.size() - warmup;

  writer.receive_input_of(order.forward(0));
  writer.exchange();
  for (int k = 0; k < warmup; ++k) {
    writer.run(order.forward(k));
    writer.send_output_of(order.forward(k));
    receive.after_forward(writer, k);
    if (k + 1 == warmup && steady > 0) writer.receive_input_of(order.backward(0));
    writer.exchange();
  }
  for (int k = 0; k < steady; ++k) {
    int const forward = warmup + k;
    writer.run(order.forward(forward));
    writer.run(order.backward(k));
    writer.send_output_of(order.forward(forward));
    writer.send_output_of(order.backward(k));
    if (k + 1 < steady) receive.after_forward(writer, forward);
    receive.after_backward(writer, k);
    writer.exchange();
  }
  if (steady == 0) {
    writer.receive_input_of(order.backward(0));
    writer.exchange();
  }
  for (int k = steady; k < order.size(); ++k) {
    writer.run(order.backward(k));
    writer.send_output_of(order.backward(k));
    receive.after_backward(writer, k);
    writer.exchange();
  }
}

void append_overlapped_steps(StageWriter& writer, std::vector<ChunkRun> const& runs) {
  assert(!runs.empty());
  writer.receive_input_of(runs.front());
  StageWriter::Range earlier = writer.post();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (i > 0) writer.send_output_of(runs[i - 1]);
    if (i + 1 < runs.size()) writer.receive_input_of(runs[i + 1]);
    StageWriter::Range const latest = writer.post();
    writer.wait(earlier);
    writer.run(runs[i]);
    earlier = latest;
  }
  writer.send_output_of(runs.back());
  StageWriter::Range const last = writer.post();
  writer.wait({earlier.first, earlier.count + last.count});
}

}  // namespace stagecraft
