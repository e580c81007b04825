#include "libsim/explain/live_tensors.hpp"

#include <cassert>
#include <map>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "libsim/engine/rank_memory.hpp"
#include "libsim/model/pass_buffers.hpp"
#include "libsim/plan/message_buffers.hpp"
#include "libsim/plan/parameter_layout.hpp"

namespace stagecraft {
namespace {

/// The buffers of a rank, each an object that is born, handed on and released.
class LiveBuffers {
 public:
  using Id = std::size_t;
  static constexpr Id none = static_cast<Id>(-1);

  Id add(LiveBuffer buffer) {
    sum_ += buffer.bytes;
    if (free_.empty()) {
      buffers_.emplace_back(buffer);
      return buffers_.size() - 1;
    }
    Id const id = free_.back();
    free_.pop_back();
    buffers_[id] = buffer;
    return id;
  }
  void release(Id id) {
    assert(buffers_[id]);
    sum_ -= buffers_[id]->bytes;
    buffers_[id].reset();
    free_.push_back(id);
  }
  LiveBuffer& at(Id id) { return buffers_[id].value(); }
  std::int64_t sum() const { return sum_; }

  std::vector<LiveBuffer> all() const {
    std::vector<LiveBuffer> alive;
    for (auto const& buffer : buffers_) {
      if (buffer) alive.push_back(*buffer);
    }
    return alive;
  }

 private:
  std::vector<std::optional<LiveBuffer>> buffers_;
  std::vector<Id> free_;
  std::int64_t sum_ = 0;
};

/// Takes a rank's steps until it holds so much.
class LiveWalk {
 public:
  LiveWalk(TrainingPlan const& plan, RankPlan const& rank, std::int64_t held)
      : plan_{plan}, rank_{rank}, held_{held - resident_memory(rank).sum()} {}

  LiveTensors run() && {
    if (is_there()) return {event_, buffers_.all()};
    for (std::size_t i = 0; i < rank_.steps.size(); ++i) {
      event_ = {.step = static_cast<std::int32_t>(i)};
      if (take(rank_.steps[i])) return {event_, buffers_.all()};
    }
    throw std::logic_error{"stage " + std::to_string(rank_.stage) + " never holds " +
                           std::to_string(held_) + " bytes of tensors"};
  }

 private:
  using Id = LiveBuffers::Id;
  using MessageKey = std::tuple<Transfer::Payload, std::int32_t, std::int32_t>;
  using PlaceKey = std::tuple<std::int32_t, std::int32_t, std::size_t>;

  // Each of these returns whether the event has been reached; nothing happens behind it.

  bool is_there() const { return buffers_.sum() == held_; }

  bool take(Step const& step) {
    if (step.kind == Step::Kind::drain) return false;
    if (step.kind == Step::Kind::run) {
      Work const& work = rank_.works[static_cast<std::size_t>(step.work)];
      return work.kind != Work::Kind::step && run_chunk(work, step.microbatch);
    }
    for (std::int32_t i = step.first; i < step.first + step.count; ++i) {
      if (take_message(step.kind, rank_.transfers[static_cast<std::size_t>(i)])) return true;
    }
    return false;
  }

  bool take_message(Step::Kind kind, Transfer const& transfer) {
    bool const receives = transfer.end == Transfer::End::receive;
    for (MessageMove const& move : message_moves(plan_, kind, transfer)) {
      if (!move.allocates) {
        auto& ends = move.buffer == MessageBuffer::piece ? receiving_ : outgoing_;
        buffers_.release(ends.at(key_of(transfer)));
        ends.erase(key_of(transfer));
        continue;
      }
      (move.buffer == MessageBuffer::piece ? receiving_ : incoming_)[key_of(transfer)] =
          buffers_.add({.payload = transfer.payload,
                        .category = move.category(),
                        .bytes = message_buffer_bytes(plan_, move.buffer).count(),
                        .chunk = transfer.chunk,
                        .microbatch = transfer.microbatch});
      if (receives && is_there()) {
        event_.transfer = transfer;
        event_.chunk = transfer.chunk;
        event_.microbatch = transfer.microbatch;
        return true;
      }
    }
    return false;
  }

  bool run_chunk(Work const& work, std::int32_t microbatch) {
    ChunkProgram const& chunk = plan_.chunks[static_cast<std::size_t>(work.program)];
    bool const is_forward = work.kind == Work::Kind::forward;
    MessageKey const key{is_forward ? Transfer::Payload::activation : Transfer::Payload::gradient,
                         chunk.chunk, microbatch};
    if (auto const arrived = incoming_.find(key); arrived != incoming_.end()) {
      passed_ = arrived->second;
      incoming_.erase(arrived);
    }
    event_.chunk = chunk.chunk;
    event_.microbatch = microbatch;
    for (std::int32_t i = 0; i < work.block_count; ++i) {
      std::int32_t const position =
          is_forward ? work.first_block + i : work.first_block + work.block_count - 1 - i;
      if (run_block(chunk, static_cast<std::size_t>(position),
                    is_forward ? Pass::forward : Pass::backward)) {
        return true;
      }
    }
    bool const is_whole = is_forward || work.first_block == 0;
    if (is_whole && (is_forward ? !chunk.has_head : !chunk.has_embedding)) hand_out(key);
    if (releases_output(plan_, work)) {
      MessageKey const sent{Transfer::Payload::activation, chunk.chunk, microbatch};
      buffers_.release(outgoing_.at(sent));
      outgoing_.erase(sent);
    }
    return false;
  }

  /// What the chunk has made leaves it as a message.
  void hand_out(MessageKey const& key) {
    LiveBuffer& buffer = buffers_.at(passed_);
    buffer.block = nullptr;
    buffer.payload = std::get<Transfer::Payload>(key);
    outgoing_[key] = std::exchange(passed_, LiveBuffers::none);
  }

  bool run_block(ChunkProgram const& chunk, std::size_t position, Pass pass) {
    BlockProgram const& block = plan_.blocks[static_cast<std::size_t>(chunk.blocks[position])];
    PlaceKey const place{chunk.chunk, event_.microbatch, position};
    std::vector<Id>& ids = places_[place];
    bool const is_forward = pass == Pass::forward;
    if (is_forward) ids.assign(block.tensors.size(), LiveBuffers::none);
    auto const id_of = [&](TensorId tensor) -> Id& {
      return ids[static_cast<std::size_t>(block.tensor(tensor).buffer)];
    };
    bool const has_layers = block.kind == BlockProgram::Kind::layers;
    std::int64_t const first_layer = has_layers ? first_layer_of(plan_, chunk, position) : -1;
    auto const layer_of = [&](std::int32_t layer) { return has_layers ? first_layer + layer : -1; };
    auto const own = [&](LiveBuffer buffer, TensorId tensor) {
      buffer.block = &block;
      buffer.tensor = block.tensor(tensor).buffer;
      buffer.layer = layer_of(block.tensor(tensor).layer);
      return buffer;
    };
    if (TensorId const in = is_forward ? block.input : block.grad_output; in != no_tensor) {
      id_of(in) = passed_;
      buffers_.at(passed_) = own(buffers_.at(passed_), in);
    }
    PassBuffers const& moves = buffers_of(block, pass);
    std::vector<Op> const& ops = block.ops(pass);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      for (TensorId const tensor : moves.before(i)) {
        id_of(tensor) = buffers_.add(own({.category = block.tensor(tensor).category,
                                          .bytes = block.tensor(tensor).bytes().count(),
                                          .maker = &ops[i],
                                          .chunk = chunk.chunk,
                                          .microbatch = event_.microbatch},
                                         tensor));
      }
      if (!moves.before(i).empty() && is_there()) {
        event_.op = &ops[i];
        event_.layer = layer_of(ops[i].layer);
        return true;
      }
      for (TensorId const tensor : moves.after(i)) buffers_.release(id_of(tensor));
    }
    if (TensorId const out = is_forward ? block.output : block.grad_input; out != no_tensor) {
      passed_ = id_of(out);
    }
    if (!is_forward) places_.erase(place);
    return false;
  }

  PassBuffers const& buffers_of(BlockProgram const& block, Pass pass) {
    auto const known = pass_buffers_.find({&block, pass});
    if (known != pass_buffers_.end()) return known->second;
    return pass_buffers_.emplace(std::pair{&block, pass}, PassBuffers{block, pass}).first->second;
  }

  static MessageKey key_of(Transfer const& transfer) {
    return {transfer.payload, transfer.chunk, transfer.microbatch};
  }

  TrainingPlan const& plan_;
  RankPlan const& rank_;
  std::int64_t held_;  ///< beside what is always there
  LiveBuffers buffers_;
  MemoryEvent event_;
  Id passed_ = LiveBuffers::none;               ///< from block to block
  std::map<MessageKey, Id> receiving_;          ///< pieces on their way
  std::map<MessageKey, Id> incoming_;           ///< whole, not yet taken by their chunk
  std::map<MessageKey, Id> outgoing_;           ///< made by their chunk, not yet released
  std::map<PlaceKey, std::vector<Id>> places_;  ///< by tensor of a block between its passes
  std::map<std::pair<BlockProgram const*, Pass>, PassBuffers> pass_buffers_;
};

}  // namespace

LiveTensors live_tensors_at(TrainingPlan const& plan, RankPlan const& rank, std::int64_t held) {
  return LiveWalk{plan, rank, held}.run();
}

}  // namespace stagecraft
