#include "libexec/executor/rank_executor.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "libexec/comm/stage_edges.hpp"
#include "libexec/executor/parameter_store.hpp"
#include "libsim/memory/message_buffers.hpp"
#include "libsim/plan/units/unit_block.hpp"
#include "libsim/trace/trace_names.hpp"

namespace stagecraft {
namespace {

constexpr Name message_name(Transfer::Payload payload) {
  return payload == Transfer::Payload::activation ? Name{"message", "activation"}
                                                  : Name{"message", "gradient"};
}

}  // namespace

RankExecutor::RankExecutor(RankContext const& context)
    : context_{context},
      order_{unroll(context.program.program)},
      parameters_{context},
      blocks_{context, parameters_},
      steps_{context, parameters_} {
  context.values_matter ? start_parameters(context, parameters_)
                        : fill_parameters(context, parameters_);
}

void RankExecutor::begin_iteration() {
  blocks_.losses().clear();
  blocks_.prediction_losses().clear();
  blocks_.router_losses().clear();
  steps_.begin_iteration();
  sending_until_ = {};
  handed_.clear();
}

void RankExecutor::run_iteration() {
  for (IssueEntry const& step : order_.entries) {
    current_ = &step;
    run(step);
  }
  steps_.end_iteration();
  ++context_.state.step;
}

void RankExecutor::run(IssueEntry const& step) {
  switch (step.kind) {
    case IssueEntry::Kind::run: {
      Task const& task = context_.program.tasks[static_cast<std::size_t>(step.task)];
      task.kind == Task::Kind::step ? steps_.run(task) : run_chunk(task, step.microbatch);
      return;
    }
    case IssueEntry::Kind::post:
      if (context_.recorder != nullptr) context_.recorder->begin_change();
      for (std::int32_t i = step.first; i < step.first + step.count; ++i) {
        Transfer const& transfer = order_.transfers[static_cast<std::size_t>(i)];
        post(transfer);
        if (context_.recorder != nullptr) {
          rows_[i] = context_.recorder->add(transfer, context_.plan.sent_bytes(), {});
        }
      }
      if (context_.recorder != nullptr) context_.recorder->end_change();
      return;
    case IssueEntry::Kind::wait:
      if (context_.recorder != nullptr) context_.recorder->begin_change();
      for (std::int32_t i = step.first; i < step.first + step.count; ++i) {
        auto const row = rows_.extract(i);
        wait(order_.transfers[static_cast<std::size_t>(i)], row.empty() ? 0 : row.mapped());
      }
      if (context_.recorder != nullptr) context_.recorder->end_change();
      return;
    case IssueEntry::Kind::drain:
      steps_.drain();
      return;
    case IssueEntry::Kind::repeat:
      throw std::logic_error{"an issue order repeats none of its entries: it was not unrolled"};
  }
}

void RankExecutor::run_chunk(Task const& task, MicrobatchId microbatch) {
  TimeSpan const begin = context_.clock.instant();
  if (context_.recorder != nullptr) context_.recorder->begin_work();
  task.kind == Task::Kind::forward ? run_forward(task, microbatch)
                                   : run_gradients(task, microbatch);
  if (context_.recorder == nullptr) return;
  context_.recorder->end_task(context_.programs, task,
                              {.microbatch = microbatch, .chunk = task.chunk.value()},
                              joined(begin, context_.clock.instant()));
}

void RankExecutor::run_forward(Task const& task, MicrobatchId microbatch) {
  ChunkProgram const& chunk = context_.programs.chunks[static_cast<std::size_t>(task.program)];
  ChunkInstance& instance = instances_[{task.program, microbatch}];
  Buffer hidden;
  if (!chunk.has_embedding) {
    hidden = take_received(Transfer::Payload::activation, microbatch, chunk.chunk);
  }
  for (std::int32_t i = 0; i < task.block_count; ++i) {
    BlockInstance& block = instance.blocks.emplace_back(
        blocks_.make_instance(task.program, static_cast<std::size_t>(i), microbatch));
    BlockProgram const& program = blocks_.block_of(block);
    auto const at = [&](TensorId id) -> Buffer& {
      return block.buffers[static_cast<std::size_t>(id)];
    };
    if (program.input != no_tensor) at(program.input) = std::exchange(hidden, Buffer{});
    take_handed(block, Pass::forward);
    blocks_.run(block, Pass::forward);
    leave_handed(block, Pass::forward);
    if (program.output != no_tensor) hidden = std::move(at(program.tensor(program.output).buffer));
  }
  if (hidden) hand_on(Transfer::Payload::activation, chunk, microbatch, std::move(hidden));
}

void RankExecutor::take_handed(BlockInstance& block, Pass pass) {
  for (Handover const& handover : blocks_.block_of(block).handovers) {
    if (handover.pass != pass || handover.taken == no_tensor) continue;
    auto taken = handed_.extract(key_of(block, handover));
    if (taken.empty()) {
      throw std::logic_error{std::string{handover.what} + " is taken by a block before it is left"};
    }
    block.buffers[static_cast<std::size_t>(handover.taken)] = std::move(taken.mapped());
  }
}

void RankExecutor::leave_handed(BlockInstance& block, Pass pass) {
  BlockProgram const& program = blocks_.block_of(block);
  for (Handover const& handover : program.handovers) {
    if (handover.pass != pass || handover.left == no_tensor) continue;
    HandoverKey const key = key_of(block, handover);
    TensorId const buffer = program.tensor(handover.left).buffer;
    Buffer& kept = handed_[key] = std::move(block.buffers[static_cast<std::size_t>(buffer)]);
    if (handover.what == handed::gradient_shard) {
      parameters_.place_gradients(key.chunk, static_cast<std::size_t>(key.position), kept.data());
    }
  }
}

RankExecutor::HandoverKey RankExecutor::key_of(BlockInstance const& block,
                                               Handover const& handover) {
  auto const position = static_cast<std::int32_t>(block.position);
  return {ChunkId{static_cast<std::int32_t>(block.chunk)}, handover.what,
          position + handover.position};
}

Buffer RankExecutor::take_received(Transfer::Payload payload,
                                   MicrobatchId microbatch,
                                   ChunkId chunk) {
  auto received = inbox_.extract(MessageKey{payload, microbatch, chunk});
  if (received.empty()) {
    throw std::logic_error{to_string(message_name(payload)) + " is taken before it has arrived"};
  }
  return std::move(received.mapped());
}

void RankExecutor::hand_on(Transfer::Payload payload,
                           ChunkProgram const& chunk,
                           MicrobatchId microbatch,
                           Buffer buffer) {
  bool const is_activation = payload == Transfer::Payload::activation;
  auto const here = neighbour_here(context_.plan.placement, {chunk.stage, chunk.chunk},
                                   is_activation ? Neighbour::next : Neighbour::previous);
  auto& place =
      here ? inbox_[{payload, microbatch, *here}] : outbox_[{payload, microbatch, chunk.chunk}];
  place = std::move(buffer);
}

void RankExecutor::run_gradients(Task const& task, MicrobatchId microbatch) {
  ChunkProgram const& chunk = context_.programs.chunks[static_cast<std::size_t>(task.program)];
  auto const place = instances_.find({task.program, microbatch});
  ChunkInstance& instance = place->second;
  Pass const pass = pass_of(task);
  bool const hands_gradient = pass == Pass::backward || pass == Pass::input_gradient;
  auto const blocks = static_cast<std::int32_t>(chunk.blocks.size());
  bool const is_first = task.first_block + task.block_count == blocks;
  if (hands_gradient && is_first && !chunk.has_head) {
    instance.gradient = take_received(Transfer::Payload::gradient, microbatch, chunk.chunk);
  }
  for (std::int32_t i = task.first_block + task.block_count; i-- > task.first_block;) {
    BlockInstance& block = instance.blocks[static_cast<std::size_t>(i)];
    BlockProgram const& program = blocks_.block_of(block);
    auto const at = [&](TensorId id) -> Buffer& {
      return block.buffers[static_cast<std::size_t>(id)];
    };
    if (hands_gradient && program.grad_output != no_tensor) {
      at(program.grad_output) = std::move(instance.gradient);
    }
    take_handed(block, pass);
    blocks_.run(block, pass);
    leave_handed(block, pass);
    if (hands_gradient && program.grad_input != no_tensor) {
      instance.gradient = std::move(at(program.tensor(program.grad_input).buffer));
    }
  }
  if (ends_gradient(task) && instance.gradient) {
    hand_on(Transfer::Payload::gradient, chunk, microbatch, std::move(instance.gradient));
  }
  if (releases_output(context_.plan, task)) {
    release_output({Transfer::Payload::activation, microbatch, chunk.chunk});
  }
  if (ends_in_flight(task)) instances_.erase(place);
}

void RankExecutor::release_output(MessageKey const& key) {
  // The gradient of the output has come back, so it has arrived, but the plan may not yet have
  // waited.
  if (auto const open = open_sends_.extract(key)) {
    early_ends_[key] = context_.communicator.wait(open.mapped());
  }
  outbox_.erase(key);
}

Buffer RankExecutor::allocate_message(MessageKey const& key, bool is_piece) {
  BlockShape const& shape = context_.plan.shape;
  Shape const whole{shape.local_sequence(), shape.micro, shape.model.hidden};
  Shape const piece{whole.elements() / shape.tensor};
  MessageMove const move{is_piece ? MessageBuffer::piece : MessageBuffer::whole, true};
  return context_.allocator.allocate(
      {.name = message_name(key.payload), .microbatch = key.microbatch}, move.category(),
      activation_type(shape.model.precision), is_piece ? piece : whole);
}

void RankExecutor::post(Transfer const& transfer) {
  MessageKey const key{transfer.payload, transfer.microbatch, transfer.chunk};
  for (MessageMove const& move : message_moves(context_.plan, IssueEntry::Kind::post, transfer)) {
    inbox_[key] = allocate_message(key, move.buffer == MessageBuffer::piece);
  }
  Message message = message_of(transfer);
  message.posted = context_.clock.now();
  if (transfer.end == Transfer::End::send && buffers_sends(context_.plan)) {
    SimTime& until = sending_until_[static_cast<std::size_t>(transfer.payload)];
    if (context_.clock.is_virtual()) message.posted = std::max(message.posted, until);
    until = message.posted + message.occupancy;
  }
  context_.communicator.post(message);
  if (transfer.end == Transfer::End::send) open_sends_[key] = message;
}

void RankExecutor::wait(Transfer const& transfer, std::size_t row) {
  MessageKey const key{transfer.payload, transfer.microbatch, transfer.chunk};
  bool const is_send = transfer.end == Transfer::End::send;
  auto const early = is_send ? early_ends_.extract(key) : decltype(early_ends_)::node_type{};
  TimeSpan const time = early ? early.mapped() : context_.communicator.wait(message_of(transfer));
  if (is_send) open_sends_.erase(key);
  context_.clock.wait_until(time.end);
  if (context_.recorder != nullptr) context_.recorder->set_time(row, time);
  if (is_send) {
    for (MessageMove const& move : message_moves(context_.plan, IssueEntry::Kind::wait, transfer)) {
      if (!move.allocates) outbox_.erase(key);
    }
    return;
  }
  if (!context_.plan.scatters_messages()) return;
  Buffer piece = std::move(inbox_[key]);
  Buffer whole;
  for (MessageMove const& move : message_moves(context_.plan, IssueEntry::Kind::wait, transfer)) {
    if (move.allocates) {
      whole = allocate_message(key, false);
      gather_message(piece, whole);
    } else {
      piece = Buffer{};
    }
  }
  inbox_[key] = std::move(whole);
}

/// The modelled duration of a scattered message includes this gather.
void RankExecutor::gather_message(Buffer const& piece, Buffer const& whole) {
  ElementType const type = activation_type(context_.plan.config.model.precision);
  auto const elements = [&](Buffer const& buffer) {
    return static_cast<std::int64_t>(buffer.bytes()) / element_size(type);
  };
  Collective const collective{.kind = OpKind::all_gather,
                              .group = context_.plan.roles.tensor,
                              .type = type,
                              .source = piece.data(),
                              .target = whole.data(),
                              .elements = elements(whole),
                              .piece = elements(piece),
                              .issued = context_.clock.now(),
                              .op = {"message", "gather"}};
  auto const ticket = context_.communicator.start(collective);
  TimeSpan const time = context_.communicator.finish(collective.group, ticket);
  context_.clock.wait_until(time.end);
}

Message RankExecutor::message_of(Transfer const& transfer) const {
  bool const is_send = transfer.end == Transfer::End::send;
  MessageKey const key{transfer.payload, transfer.microbatch, transfer.chunk};
  Buffer const& buffer = (is_send ? outbox_ : inbox_).at(key);
  Message message{.end = transfer.end,
                  .number = transfer.message,
                  .peer = context_.plan.groups.at_stage(context_.rank, transfer.peer),
                  .data = buffer.data(),
                  .bytes = static_cast<std::size_t>(context_.plan.sent_bytes().count()),
                  .payload = message_name(transfer.payload),
                  .microbatch = transfer.microbatch};
  if (is_send && context_.plan.scatters_messages()) {
    message.data = buffer.data() + static_cast<std::size_t>(context_.place.tensor) * message.bytes;
  }
  if (context_.costs != nullptr) {
    StageId const here = context_.place.stage;
    auto const cost = is_send ? context_.costs->message(here, transfer.peer)
                              : context_.costs->message(transfer.peer, here);
    message.latency = cost.latency;
    message.occupancy = cost.occupancy;
  }
  return message;
}

std::string RankExecutor::position() const {
  if (current_ == nullptr) return "the start";
  auto const of = [&] {
    return current_->microbatch == no_microbatch
               ? std::string{}
               : " of microbatch " + std::to_string(current_->microbatch.value());
  };
  switch (current_->kind) {
    case IssueEntry::Kind::run: {
      Task const& task = context_.program.tasks[static_cast<std::size_t>(current_->task)];
      if (task.kind == Task::Kind::step) {
        return to_string(context_.program.step_ops[static_cast<std::size_t>(task.op)].name);
      }
      return std::string{name_of(phase_of(pass_of(task)))} + of() + ", chunk " +
             std::to_string(task.chunk.value());
    }
    case IssueEntry::Kind::post:
    case IssueEntry::Kind::wait: {
      Transfer const& transfer = order_.transfers[static_cast<std::size_t>(current_->first)];
      return std::string{transfer.end == Transfer::End::send ? "send" : "receive"} +
             " of microbatch " + std::to_string(transfer.microbatch.value()) + " with stage " +
             std::to_string(transfer.peer.value());
    }
    case IssueEntry::Kind::drain:
    case IssueEntry::Kind::repeat:
      break;
  }
  return "waiting for gradient reductions";
}

}  // namespace stagecraft
