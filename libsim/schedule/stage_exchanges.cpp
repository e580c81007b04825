#include "libsim/schedule/stage_exchanges.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>

namespace stagecraft {
namespace {

/// Adds the receives that Megatron combines with the sends after virtual forward or backward k
/// (recv_tensor_from_previous_stage). The leading stage (0 in forward, p-1 in backward) is p-1
/// computations ahead of the trailing stage, whose output goes to its next chunk.
class InterleavedReceives {
 public:
  InterleavedReceives(VirtualOrder const& order, ScheduleShape const& shape, StageId stage)
      : order_{order}, lead_{shape.stages - 1}, last_chunk_{shape.chunks - 1}, stage_{stage} {}

  void after_forward(StageWriter& writer, int k) const {
    if (stage_.value() != 0) {
      if (k + 1 < order_.size()) writer.receive_input_of(order_.forward(k + 1));
    } else if (k >= lead_) {
      ChunkRun made = order_.forward(k - lead_);
      if (made.chunk == last_chunk_) return;
      made.chunk = next(made.chunk);
      writer.receive_input_of(made);
    }
  }

  /// The number of consecutive k, from this one on, whose receives are of the same chunk.
  int alike_after_forward(int k) const {
    return stage_.value() != 0 ? order_.alike(k + 1) : alike_behind(k);
  }
  int alike_after_backward(int k) const {
    return stage_.value() != lead_ ? order_.alike(k + 1) : alike_behind(k);
  }

  void after_backward(StageWriter& writer, int k) const {
    if (stage_.value() != lead_) {
      if (k + 1 < order_.size()) writer.receive_input_of(order_.backward(k + 1));
    } else if (k >= lead_) {
      ChunkRun made = order_.backward(k - lead_);
      if (made.chunk == ChunkId{0}) return;
      made.chunk = previous(made.chunk);
      writer.receive_input_of(made);
    }
  }

 private:
  int alike_behind(int k) const { return k < lead_ ? lead_ - k : order_.alike(k - lead_); }

  VirtualOrder const& order_;
  int lead_;
  ChunkId last_chunk_;
  StageId stage_;
};

}  // namespace

void append_blocking_entries(StageWriter& writer, VirtualOrder const& order, int warmup) {
  for (int k = 0, times = 1; k < warmup; k += times) {
    writer.begin_repeat();
    writer.receive_input_of(order.forward(k));
    writer.exchange();
    writer.run(order.forward(k));
    writer.send_output_of(order.forward(k));
    writer.exchange();
    times = writer.repeat(warmup - k);
  }
  int const steady = order.size() - warmup;
  if (steady > 0) {
    writer.receive_input_of(order.forward(warmup));
    writer.exchange();
  }
  for (int k = 0, times = 1; k < steady; k += times) {
    writer.begin_repeat();
    writer.run(order.forward(warmup + k));
    writer.send_output_of(order.forward(warmup + k));
    writer.receive_input_of(order.backward(k));
    writer.exchange();
    writer.run(order.backward(k));
    writer.send_output_of(order.backward(k));
    if (k + 1 < steady) writer.receive_input_of(order.forward(warmup + k + 1));
    writer.exchange();
    times = writer.repeat(std::max(1, steady - 1 - k));  // the last is on its own
  }
  for (int k = steady, times = 1; k < order.size(); k += times) {
    writer.begin_repeat();
    writer.receive_input_of(order.backward(k));
    writer.exchange();
    writer.run(order.backward(k));
    writer.send_output_of(order.backward(k));
    writer.exchange();
    times = writer.repeat(order.size() - k);
  }
}

void append_interleaved_blocking_entries(StageWriter& writer,
                                         VirtualOrder const& order,
                                         ScheduleShape const& shape,
                                         StageId stage) {
  InterleavedReceives const receive{order, shape, stage};
  int const warmup = warmup_forwards(shape, stage);
  int const steady = order.size() - warmup;

  writer.receive_input_of(order.forward(0));
  writer.exchange();
  for (int k = 0, times = 1; k < warmup; k += times) {
    writer.begin_repeat();
    writer.run(order.forward(k));
    writer.send_output_of(order.forward(k));
    receive.after_forward(writer, k);
    if (k + 1 == warmup && steady > 0) writer.receive_input_of(order.backward(0));
    writer.exchange();
    times = writer.repeat(
        std::min({order.alike(k), receive.alike_after_forward(k), std::max(1, warmup - 1 - k)}));
  }
  for (int k = 0, times = 1; k < steady; k += times) {
    int const forward = warmup + k;
    writer.begin_repeat();
    writer.run(order.forward(forward));
    writer.run(order.backward(k));
    writer.send_output_of(order.forward(forward));
    writer.send_output_of(order.backward(k));
    if (k + 1 < steady) receive.after_forward(writer, forward);
    receive.after_backward(writer, k);
    writer.exchange();
    times = writer.repeat(
        std::min({order.alike(forward), order.alike(k), receive.alike_after_forward(forward),
                  receive.alike_after_backward(k), std::max(1, steady - 1 - k)}));
  }
  if (steady == 0) {
    writer.receive_input_of(order.backward(0));
    writer.exchange();
  }
  for (int k = steady, times = 1; k < order.size(); k += times) {
    writer.begin_repeat();
    writer.run(order.backward(k));
    writer.send_output_of(order.backward(k));
    receive.after_backward(writer, k);
    writer.exchange();
    times = writer.repeat(std::min(order.alike(k), receive.alike_after_backward(k)));
  }
}

void append_overlapped_entries(StageWriter& writer, std::vector<ChunkRun> const& runs) {
  std::vector<OrderTask> tasks;
  tasks.reserve(runs.size());
  for (ChunkRun const& run : runs) tasks.push_back({run});
  append_ordered_entries(writer, tasks);
}

void append_ordered_entries(StageWriter& writer, std::vector<OrderTask> const& tasks) {
  assert(!tasks.empty());
  // A computation is a single task or a pair. Returns the task after it.
  auto const end_of = [&](std::size_t first) { return first + (tasks[first].is_paired ? 2 : 1); };
  auto const receive = [&](std::size_t first) {
    for (std::size_t i = first; i < end_of(first); ++i) writer.receive_input_of(tasks[i].run);
  };
  auto const send = [&](std::size_t first) {
    for (std::size_t i = first; i < end_of(first); ++i) writer.send_output_of(tasks[i].run);
  };
  receive(0);
  StageWriter::Range earlier = writer.post();
  std::size_t before = 0;
  for (std::size_t first = 0; first < tasks.size(); first = end_of(first)) {
    std::size_t const end = end_of(first);
    if (first > 0) send(before);
    if (end < tasks.size()) receive(end);
    auto const latest = writer.post();
    writer.wait(earlier);
    for (std::size_t i = first; i < end; ++i) writer.run(tasks[i].run, i + 1 < end);
    earlier = latest;
    before = first;
  }
  send(before);
  auto const last = writer.post();
  writer.wait({earlier.first, earlier.count + last.count});
}

}  // namespace stagecraft
