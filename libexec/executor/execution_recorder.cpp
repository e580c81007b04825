#include "libexec/executor/execution_recorder.hpp"

#include <algorithm>
#include <limits>

#include "libsim/trace/trace_sums.hpp"

namespace stagecraft {

namespace {

constexpr std::size_t left_out = std::numeric_limits<std::size_t>::max();

std::int64_t without_workspace(CategoryBytes const& bytes) {
  return bytes.sum() - bytes[Category::workspace];
}

/// The numbers that the trace holds of a span: its marks or, in picoseconds, its times.
MarkSpan recorded(TimeSpan const& time) {
  return time.marks.value_or(MarkSpan{time.start.count(), time.end.count()});
}

}  // namespace

ExecutionRecorder::ExecutionRecorder(TraceVocabulary const& vocabulary,
                                     RankId rank,
                                     StageId stage,
                                     TraceDetail detail)
    : vocabulary_{vocabulary}, detail_{detail} {
  trace_.rank = rank.value();
  trace_.stage = stage.value();
}

void ExecutionRecorder::restart(CategoryBytes const& memory, std::optional<std::int64_t> reserved) {
  trace_.ops = {};
  trace_.memory = {};
  is_inside_ = false;
  is_changing_ = false;
  add_memory({}, memory, reserved);
}

void ExecutionRecorder::begin_work() {
  if (detail_ == TraceDetail::op) return;
  is_inside_ = true;
  begin_summary();
}

void ExecutionRecorder::begin_change() {
  if (is_inside_) return;
  is_changing_ = true;
  begin_summary();
}

void ExecutionRecorder::end_change() {
  if (!is_changing_) return;
  is_changing_ = false;
  end_summary(last_.time);
}

void ExecutionRecorder::begin_summary() {
  peak_.reset();
  before_ = last_.bytes;
  highest_ = without_workspace(last_.bytes);
}

void ExecutionRecorder::end_summary(std::int64_t end) {
  if (peak_) append(*peak_);
  if ((peak_ ? peak_->bytes : before_) != last_.bytes) append({end, last_.bytes, last_.reserved});
}

void ExecutionRecorder::end_task(Programs const& programs,
                                 Task const& task,
                                 OpPlace const& place,
                                 TimeSpan const& time) {
  if (!is_inside_) return;
  is_inside_ = false;
  Pass const pass = pass_of(task);
  ChunkSums const sums = chunk_sums(programs, task);
  append({.op = vocabulary_.index_of(pass),
          .phase = phase_of(pass),
          .bytes = sums.bytes,
          .flops = sums.flops},
         place, time);
  end_summary(recorded(time).end);
}

std::size_t ExecutionRecorder::add(Op const& op, OpPlace const& place, TimeSpan const& time) {
  if (is_inside_) return left_out;
  return append({.op = vocabulary_.index_of(op.name),
                 .phase = phase_of(op),
                 .stream = op.stream,
                 .bytes = recorded_bytes(op),
                 .flops = op.flops},
                place, time);
}

std::size_t ExecutionRecorder::add(Transfer const& transfer, Bytes bytes, TimeSpan const& time) {
  return append({.op = vocabulary_.index_of(transfer),
                 .phase = TracePhase::transfer,
                 .stream = stream_of(transfer),
                 .bytes = bytes.count()},
                {.microbatch = transfer.microbatch, .chunk = transfer.chunk.value()}, time);
}

void ExecutionRecorder::set_time(std::size_t row, TimeSpan const& time) {
  if (row == left_out) return;
  auto const [start, end] = recorded(time);
  trace_.ops.start[row] = start;
  trace_.ops.duration[row] = end - start;
}

void ExecutionRecorder::add_memory(TimeSpan const& now,
                                   CategoryBytes const& bytes,
                                   std::optional<std::int64_t> reserved) {
  last_ = {recorded(now).end, bytes, reserved};
  if (!is_inside_ && !is_changing_) {
    append(last_);
  } else if (without_workspace(bytes) > highest_) {
    highest_ = without_workspace(bytes);
    peak_ = last_;
  }
}

void ExecutionRecorder::append(MemoryState const& state) {
  MemoryColumns& memory = trace_.memory;
  std::int64_t const last = memory.time.empty() ? 0 : memory.time.back();
  memory.time.push_back(std::max(state.time, last));
  for (std::size_t i = 0; i < memory.bytes.size(); ++i) {
    memory.bytes[i].push_back(state.bytes[static_cast<Category>(i)]);
  }
  if (state.reserved && detail_ == TraceDetail::op) memory.reserved.push_back(*state.reserved);
}

void ExecutionRecorder::resolve(DeviceTimeline const& device) {
  OpColumns& ops = trace_.ops;
  for (std::size_t i = 0; i < ops.rows(); ++i) {
    std::int64_t const begin = device.time_of(ops.start[i]).count();
    std::int64_t const end = device.time_of(ops.start[i] + ops.duration[i]).count();
    ops.start[i] = begin;
    ops.duration[i] = std::max<std::int64_t>(end - begin, 0);
  }
  std::int64_t last = 0;
  for (std::int64_t& time : trace_.memory.time) {
    last = std::max(last, device.time_of(time).count());
    time = last;
  }
}

std::size_t ExecutionRecorder::append(Row const& row, OpPlace const& place, TimeSpan const& time) {
  OpColumns& ops = trace_.ops;
  std::size_t const number = ops.rows();
  auto const [start, end] = recorded(time);
  ops.start.push_back(start);
  ops.duration.push_back(end - start);
  ops.op.push_back(row.op);
  ops.phase.push_back(static_cast<std::int64_t>(row.phase));
  ops.stream.push_back(static_cast<std::int64_t>(row.stream));
  ops.layer.push_back(place.layer);
  ops.microbatch.push_back(place.microbatch.value());
  ops.chunk.push_back(place.chunk);
  ops.bytes.push_back(row.bytes);
  ops.flops.push_back(row.flops);
  return number;
}

}  // namespace stagecraft
