#include "libsim/memory/buffer_events.hpp"

#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "libsim/plan/parameter_layout.hpp"
#include "libsim/program/pass_buffers.hpp"

namespace stagecraft {
namespace {

constexpr std::size_t message_kinds = 8;  // payloads, buffers, allocate or release

std::size_t index_of(Transfer::Payload payload) { return static_cast<std::size_t>(payload); }

}  // namespace

std::int64_t BufferChange::layer_of_tensor() const {
  return first_layer < 0 ? -1 : layer_of(block->kind, first_layer, block->tensor(tensor).layer);
}

std::int64_t BufferChange::layer_of_op() const {
  return first_layer < 0 || op == nullptr ? -1 : layer_of(block->kind, first_layer, op->layer);
}

std::string BufferChange::name() const {
  if (block != nullptr && tensor != no_tensor) return to_string(block->tensor(tensor).name);
  if (op != nullptr) return to_string(op->name);
  if (is_resident()) return std::string{name_of(category)};
  return payload == Transfer::Payload::activation ? "message.activation" : "message.gradient";
}

/// Makes the events of each task of a stage, once per distinct task.
///
/// A pass of a chunk numbers the buffers that it allocates from 0; a later pass of the same chunk
/// refers to them by that number and by the pass that allocated them, so that events hold for every
/// microbatch. Forward passes are therefore made first, and a backward asks for the pass before it.
/// What blocks leave to others goes through `slots_`, whose numbers hold for all tasks of the
/// stage.
class BufferEvents::TaskCompiler {
 public:
  TaskCompiler(StageRank const& rank, EventDetail detail)
      : plan_{rank.plan}, programs_{rank.programs}, detail_{detail} {
    // Forward tasks come first, because backward tasks refer to the buffers that they allocate.
    for (Task const& task : rank.stage.tasks) {
      if (task.kind == Task::Kind::forward) pass_of_chunk(task.program, Pass::forward);
    }
  }

  CompiledTask compile(Task const& task) {
    if (task.kind == Task::Kind::step) return {};
    Pass const pass = pass_of(task);
    bool const ends = pass == Pass::backward || pass == Pass::weight_gradient;
    if (!ends) return pass_of_chunk(task.program, pass).compiled;
    ChunkReferences references =
        pass_of_chunk(task.program, pass_before(task.program, pass)).references;
    return compile(task, pass, references);
  }

  /// The number of slots of all tasks so far.
  std::size_t slots() const { return slots_.size(); }

 private:
  /// A pass through a whole chunk, to whose buffers a later pass refers.
  struct ChunkPass {
    CompiledTask compiled;
    ChunkReferences references;
  };

  /// The pass of the same microbatch whose buffers this one refers to. Pre: `pass` is not a
  /// forward.
  Pass pass_before(std::int32_t program, Pass pass) const {
    if (pass == Pass::weight_gradient) return Pass::input_gradient;
    bool const follows_recompute =
        pass != Pass::recompute &&
        programs_.chunks[static_cast<std::size_t>(program)].has_recompute_pass;
    return follows_recompute ? Pass::recompute : Pass::forward;
  }

  static constexpr Task::Kind kind_of(Pass pass) {
    return pass == Pass::forward     ? Task::Kind::forward
           : pass == Pass::recompute ? Task::Kind::recompute
                                     : Task::Kind::input_gradient;
  }

  /// Pre: the pass is a forward, a recompute or an input gradient.
  ChunkPass const& pass_of_chunk(std::int32_t program, Pass pass) {
    auto const [place, is_new] = passes_.try_emplace({program, pass});
    if (is_new) {
      auto const blocks = programs_.chunks[static_cast<std::size_t>(program)].blocks.size();
      Task whole;
      whole.kind = kind_of(pass);
      whole.program = program;
      whole.block_count = static_cast<std::int32_t>(blocks);
      ChunkPass& made = place->second;
      made.references.resize(blocks);
      if (pass != Pass::forward) {
        made.references = pass_of_chunk(program, pass_before(program, pass)).references;
      }
      made.compiled = compile(whole, pass, made.references);
    }
    return place->second;
  }

  CompiledTask compile(Task const& task, Pass pass, ChunkReferences& references) {
    ChunkProgram const& chunk = programs_.chunks[static_cast<std::size_t>(task.program)];
    bool const is_forward = pass == Pass::forward;
    CompiledTask compiled;
    compiled.passed.from = is_forward ? Reference::From::activation : Reference::From::gradient;
    HandedOver handed;
    for (TaskBlock const& of_task : blocks_in_order(programs_, task)) {
      append_block(compiled, handed, chunk, of_task, pass, references[of_task.position]);
    }
    for (auto const& [of, reference] : handed) {
      compiled.left.emplace_back(slot_of(chunk, of.first, of.second), reference);
    }
    auto const payload = is_forward ? Transfer::Payload::activation : Transfer::Payload::gradient;
    BufferChange change{.category = MessageMove{}.category(),
                        .chunk = chunk.chunk.value(),
                        .bytes = plan_.message_bytes().count()};
    if (is_forward || ends_gradient(task)) {
      ChunkPlace const place{chunk.stage, chunk.chunk};
      Neighbour const side = is_forward ? Neighbour::next : Neighbour::previous;
      compiled.next_chunk = neighbour_here(plan_.placement, place, side);
      compiled.sends_output = is_neighbour_elsewhere(plan_.placement, place, side);
    }
    if (compiled.sends_output) {
      change.kind = BufferChange::Kind::hand_over;
      change.payload = payload;
      compiled.events.push_back({change, compiled.passed});
    }
    if (!is_forward && releases_output(plan_, task)) {
      change.kind = BufferChange::Kind::release;
      change.payload = Transfer::Payload::activation;
      compiled.events.push_back({change, {Reference::From::output}});
    }
    return compiled;
  }

  /// What blocks of the task have left and none of it has taken, by Handover::what and position.
  using HandedOver = std::map<std::pair<std::string_view, std::int32_t>, Reference>;

  /// The slot of what a block of a chunk has left, or will leave, to tasks of other microbatches.
  std::int32_t slot_of(ChunkProgram const& chunk, std::string_view what, std::int32_t position) {
    auto const next = static_cast<std::int32_t>(slots_.size());
    return slots_.try_emplace({chunk.chunk.value(), what, position}, next).first->second;
  }

  void append_block(CompiledTask& compiled,
                    HandedOver& handed,
                    ChunkProgram const& chunk,
                    TaskBlock const& of_task,
                    Pass pass,
                    std::vector<Reference>& references) {
    BlockProgram const& block = programs_.blocks[of_task.block];
    bool const is_forward = pass == Pass::forward;
    references.resize(block.tensors.size());
    auto const reference_of = [&](TensorId tensor) -> Reference& {
      return references[static_cast<std::size_t>(block.tensor(tensor).buffer)];
    };
    BufferChange change{.chunk = chunk.chunk.value(), .block = &block};
    if (block.kind == BlockProgram::Kind::layers || block.prediction_modules > 0) {
      change.first_layer = first_layer_of(programs_, chunk, of_task.position);
    }
    auto const append = [&](BufferChange::Kind kind, TensorId tensor) {
      change.kind = kind;
      change.tensor = block.tensor(tensor).buffer;
      Tensor const& buffer = block.tensor(change.tensor);
      change.category = buffer.category;
      change.bytes = buffer.bytes().count();
      compiled.events.push_back({change, reference_of(tensor)});
    };
    bool const hands_over = pass != Pass::weight_gradient && pass != Pass::recompute;
    TensorId const in = is_forward ? block.input : block.grad_output;
    if (hands_over && in != no_tensor) {
      reference_of(in) = compiled.passed;
      append(BufferChange::Kind::hand_over, in);
    }
    auto const place_of = [&](Handover const& handover) {
      return static_cast<std::int32_t>(of_task.position) + handover.position;
    };
    for (Handover const& handover : block.handovers) {
      if (handover.pass != pass || handover.taken == no_tensor) continue;
      std::int32_t const place = place_of(handover);
      auto const here = handed.find({handover.what, place});
      reference_of(handover.taken) =
          here != handed.end()
              ? here->second
              : Reference{Reference::From::slot, slot_of(chunk, handover.what, place)};
      if (here != handed.end()) handed.erase(here);
      append(BufferChange::Kind::hand_over, handover.taken);
    }
    PassBuffers const& moves = buffers_of(of_task.block, pass);
    std::vector<Op> const& ops = block.ops(pass);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      change.op = &ops[i];
      for (BufferMove const& move : moves.before(i)) {
        reference_of(move.buffer) = {Reference::From::task, compiled.allocations++};
        append(BufferChange::Kind::allocate, move.buffer);
      }
      if (detail_ == EventDetail::ops) append_op(compiled, change, references);
      for (BufferMove const& move : moves.after(i)) {
        append(BufferChange::Kind::release, move.buffer);
      }
    }
    TensorId const out = is_forward ? block.output : block.grad_input;
    if (hands_over && out != no_tensor) compiled.passed = reference_of(out);
    for (Handover const& handover : block.handovers) {
      for (TensorId const tensor : {handover.left, handover.lent}) {
        if (handover.pass != pass || tensor == no_tensor) continue;
        handed[{handover.what, place_of(handover)}] = reference_of(tensor);
      }
    }
    bool const ends = pass == Pass::backward || pass == Pass::weight_gradient;
    if (ends) return;
    for (Reference& reference : references) {
      if (reference.from == Reference::From::task) reference.from = source_of(pass);
    }
  }

  static constexpr Reference::From source_of(Pass pass) {
    return pass == Pass::forward     ? Reference::From::forward
           : pass == Pass::recompute ? Reference::From::recompute
                                     : Reference::From::input_gradient;
  }

  /// Appends that `change.op` runs, and what buffers it uses if it is a collective.
  void append_op(CompiledTask& compiled,
                 BufferChange change,
                 std::vector<Reference> const& references) {
    BlockProgram const& block = *change.block;
    change.kind = BufferChange::Kind::run;
    change.tensor = no_tensor;
    change.bytes = 0;
    change.run = runs_++;
    compiled.events.push_back({change, {}});
    change.run = -1;
    if (!is_collective(change.op->kind)) return;
    change.kind = BufferChange::Kind::lend;
    for (TensorList const* const operands : {&change.op->reads, &change.op->writes}) {
      for (TensorId const id : *operands) {
        if (block.tensor(id).lifetime != Lifetime::microbatch) continue;
        change.tensor = block.tensor(id).buffer;
        compiled.events.push_back({change, references[static_cast<std::size_t>(change.tensor)]});
      }
    }
  }

  PassBuffers const& buffers_of(std::size_t block, Pass pass) {
    return buffers_.try_emplace(block, programs_.blocks[block]).first->second.of(pass);
  }

  TrainingPlan const& plan_;
  Programs const& programs_;
  EventDetail detail_;
  std::int32_t runs_ = 0;                                      ///< number of events of kind run
  std::map<std::pair<std::int32_t, Pass>, ChunkPass> passes_;  ///< by chunk program and pass
  std::map<std::size_t, BlockBuffers> buffers_;
  std::map<std::tuple<int, std::string_view, std::int32_t>, std::int32_t> slots_;
};

BufferEvents::BufferEvents(StageRank const& rank, EventDetail detail)
    : plan_{rank.plan},
      stage_{rank.stage},
      reader_{stage_.program},
      chunks_{static_cast<std::size_t>(plan_.config.parallel.interleave)} {
  TaskCompiler compiler{rank, detail};
  compiled_.reserve(stage_.tasks.size());
  for (Task const& task : stage_.tasks) compiled_.push_back(compiler.compile(task));
  slots_.resize(compiler.slots());
  for (StateBuffer const& buffer : stage_.state) {
    if (!buffer.is_resident()) continue;
    resident_.push_back({.category = buffer.category, .bytes = buffer.bytes().count()});
  }
  for (std::int32_t chunk = 0; chunk < plan_.config.parallel.interleave; ++chunk) {
    for (auto const payload : {Transfer::Payload::activation, Transfer::Payload::gradient}) {
      for (auto const buffer : {MessageBuffer::whole, MessageBuffer::piece}) {
        for (bool const allocates : {false, true}) {
          of_messages_.push_back(
              {.kind = allocates ? BufferChange::Kind::allocate : BufferChange::Kind::release,
               .category = MessageMove{buffer, allocates}.category(),
               .payload = payload,
               .chunk = chunk,
               .bytes = message_buffer_bytes(plan_, buffer).count()});
        }
      }
    }
  }
}

std::span<BufferEvent const> BufferEvents::now() {
  if (to_number_.empty()) return now_;
  std::span<TaskEvent const> const events = std::exchange(to_number_, {});
  MicrobatchId const of = microbatch();
  now_.resize(events.size());
  for (std::size_t i = 0; i < now_.size(); ++i) {
    now_[i] = {&events[i].change, number_of(events[i].buffer), of};
  }
  return now_;
}

bool BufferEvents::next() {
  now_.clear();
  to_number_ = {};
  is_resident_ = !has_begun_;
  has_begun_ = true;
  if (is_resident_) {
    for (BufferChange const& change : resident_) now_.push_back({&change, buffers_++});
    return true;
  }
  if (!reader_.next()) return false;
  IssueEntry const& step = reader_.entry();
  switch (step.kind) {
    case IssueEntry::Kind::run: {
      auto const task = static_cast<std::size_t>(step.task);
      if (stage_.tasks[task].kind != Task::Kind::step) {
        run(stage_.tasks[task], compiled_[task], reader_.microbatch());
      }
      break;
    }
    case IssueEntry::Kind::post:
    case IssueEntry::Kind::wait:
      for (Transfer const& transfer : reader_.transfers()) exchange(step.kind, transfer);
      break;
    case IssueEntry::Kind::drain:
    case IssueEntry::Kind::repeat:
      break;
  }
  return true;
}

void BufferEvents::restart() {
  reader_.restart();
  has_begun_ = is_resident_ = false;
  buffers_ = 0;
  skipped_ = 0;
  now_.clear();
  to_number_ = {};
}

void BufferEvents::skip_repeats(std::int32_t times) {
  reader_.skip_repeats(times);
  skipped_ +=
      times *
      stage_.program.entries[static_cast<std::size_t>(stage_.program.window_repeat)].advance;
}

Task const* BufferEvents::task() const {
  if (entry() < 0) return nullptr;
  IssueEntry const& current = reader_.entry();
  if (current.kind != IssueEntry::Kind::run) return nullptr;
  return &stage_.tasks[static_cast<std::size_t>(current.task)];
}

MicrobatchId BufferEvents::microbatch() const {
  return entry() < 0 ? no_microbatch : reader_.microbatch();
}

void BufferEvents::run(Task const& task, CompiledTask const& compiled, MicrobatchId microbatch) {
  InFlight& pass = in_flight(task.chunk, microbatch);
  bool const is_forward = task.kind == Task::Kind::forward;
  if (is_forward) pass.forward = buffers_;
  if (task.kind == Task::Kind::recompute) pass.recompute = buffers_;
  if (task.kind == Task::Kind::input_gradient) pass.input_gradient = buffers_;
  first_ = {buffers_,         pass.forward,     pass.recompute, pass.input_gradient,
            pass.received[0], pass.received[1], pass.sent[0]};
  for (auto const& [slot, reference] : compiled.left) {
    slots_[static_cast<std::size_t>(slot)] = number_of(reference);
  }
  to_number_ = compiled.events;
  auto const payload = is_forward ? Transfer::Payload::activation : Transfer::Payload::gradient;
  if (compiled.sends_output) {
    pass.sent[index_of(payload)] = number_of(compiled.passed);
  } else if (compiled.next_chunk) {
    in_flight(*compiled.next_chunk, microbatch).received[index_of(payload)] =
        number_of(compiled.passed);
  } else if (task.kind == Task::Kind::backward) {
    pass.received[index_of(payload)] = number_of(compiled.passed);
  }
  buffers_ += compiled.allocations;
}

void BufferEvents::exchange(IssueEntry::Kind kind, Transfer const& transfer) {
  InFlight& pass = in_flight(transfer.chunk, transfer.microbatch);
  auto const payload = index_of(transfer.payload);
  bool const receives = transfer.end == Transfer::End::receive;
  std::int64_t const former = receives ? pass.received[payload] : pass.sent[payload];
  for (MessageMove const& move : message_moves(plan_, kind, transfer)) {
    if (move.allocates) pass.received[payload] = buffers_;
    now_.push_back({&message_change(transfer, move), move.allocates ? buffers_++ : former,
                    transfer.microbatch});
  }
}

BufferChange const& BufferEvents::message_change(Transfer const& transfer,
                                                 MessageMove const& move) const {
  return of_messages_[message_kinds * transfer.chunk.index() + 4 * index_of(transfer.payload) +
                      2 * static_cast<std::size_t>(move.buffer) + (move.allocates ? 1 : 0)];
}

}  // namespace stagecraft
