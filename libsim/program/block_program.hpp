#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/model/model_config.hpp"
#include "libsim/model/recompute_policy.hpp"
#include "libsim/program/context_parallel.hpp"
#include "libsim/program/op.hpp"
#include "libsim/program/parameter.hpp"
#include "libsim/program/quantisation.hpp"
#include "libsim/program/tensor.hpp"

namespace stagecraft {

/// The number of tensor ranks that hold the same key and value heads: more than 1 if there are
/// fewer such heads than tensor ranks.
constexpr int kv_replicas(ModelConfig const& model, int tensor) {
  return model.kv_heads < tensor ? static_cast<int>(tensor / model.kv_heads) : 1;
}

/// One rank's share of a model for one microbatch: the sizes and keys from which a block program is
/// built. The blocks of a plan may have different shapes.
struct BlockShape {
  ModelConfig model;
  int tensor = 1;                  ///< t
  bool sequence_parallel = false;  ///< norms, dropouts and residuals on s/t rows
  std::int64_t micro = 1;          ///< b
  GroupId tensor_group{};          ///< the group of the t ranks
  int expert = 1;                  ///< EP: ranks that split the experts of a layer
  int expert_tensor = 1;           ///< ETP: ranks that share each expert's weights
  bool narrow_gradients = false;   ///< whether weight gradients have the weights' type
  Quantisation quantisation{};     ///< of the operands of linear layers
  double capacity = 0;             ///< rows per expert, relative to balanced routing; 0: no limit
  bool is_of_microbatch = false;   ///< whether it counts the tokens of all ranks of a microbatch
  bool gathers = false;            ///< whether tokens reach experts by gathers, not by exchanges
  bool sends_once = false;         ///< whether a token goes once to each rank with its experts
  bool overlaps_shared = false;    ///< whether shared experts compute while tokens travel
  bool pads_experts = true;        ///< whether the rows of an expert are padded to its capacity
  DropBy drop = DropBy::probabilities;    ///< which choices an expert drops beyond its capacity
  bool is_natural = false;                ///< whether the router chooses without a limit
  ForcedRouting const* forced = nullptr;  ///< counts that replace the router's choices; null: none
  /// Room for the rows that the expert group sends to the rank in this layer, if rows are uneven.
  std::int64_t room = 0;
  std::int64_t computed_room = 0;  ///< the same for the rows that the rank's experts compute
  /// If counts are forced: the rows of each expert of one rank, by which the experts' products are
  /// costed. They may be fewer than `computed_room`. Null if rows are even; owned by the plan.
  GroupRows const* rows_of_experts = nullptr;
  GroupId kv_group{};  ///< the ranks with the same key and value heads, if there are several

  GroupId expert_group{};         ///< the EP ranks, if there are several
  GroupId expert_tensor_group{};  ///< the ETP ranks, if there are several
  GroupId dispatch_group{};       ///< the EP x ETP ranks, if there are several
  GroupId expert_holders{};      ///< the ranks that hold the same experts, if there is such a group
  int replicas = 1;              ///< d: replicas, each with a microbatch of its own at a time
  GroupId stage_group{};         ///< all ranks of the stage, if routers count the choices of all
  ContextLevel exchange{};       ///< ranks that exchange rows of a sequence for heads
  ContextLevel keys{};           ///< ranks that attend to each other's keys and values
  bool gathers_keys = false;     ///< whether ranks gather keys and values; else these go round
  bool contiguous_keys = false;  ///< whether the rows of each rank are consecutive

  /// c: ranks that split each sequence.
  int context() const { return exchange.ranks * keys.ranks; }
  /// Whether each rank has two chunks of rows; see SequencePart.
  bool is_zigzag() const { return keys.ranks > 1 && !contiguous_keys; }
  /// Rows of the sequence that this rank works on, but for core attention: s/c.
  std::int64_t sequence() const { return model.sequence / context(); }
  std::int64_t heads() const { return model.heads / tensor; }
  /// Key and value heads per rank; they are replicated if t exceeds their number.
  std::int64_t kv_heads() const { return model.kv_heads < tensor ? 1 : model.kv_heads / tensor; }
  int kv_replicas() const { return stagecraft::kv_replicas(model, tensor); }
  /// Experts per rank. Pre: the layer has experts.
  std::int64_t local_experts() const { return model.experts->count / expert; }
  std::int64_t ffn() const { return model.ffn_hidden / tensor; }
  /// v padded to a multiple of vocabulary_multiple * t.
  std::int64_t padded_vocabulary() const;
  std::int64_t vocabulary() const { return padded_vocabulary() / tensor; }
  /// Rows of the sequence outside of tensor-parallel regions: 1/t of sequence() with sequence
  /// parallelism.
  std::int64_t local_sequence() const {
    return sequence_parallel ? sequence() / tensor : sequence();
  }
  /// Rows of a hidden state outside of tensor-parallel regions.
  std::int64_t tokens() const { return local_sequence() * micro; }
  /// The ranks that have tokens of the same microbatch.
  int token_ranks() const { return (sequence_parallel ? tensor : 1) * context(); }
  /// Rows that each expert takes of the tokens that its capacity counts: those of the rank, or of
  /// the whole microbatch. 0 without a capacity. Pre: the layer has experts.
  std::int64_t expert_rows() const;
  /// Whether ranks gather each other's choices, because the capacity counts the tokens of all of
  /// them.
  bool gathers_choices() const { return is_of_microbatch && capacity > 0 && token_ranks() > 1; }
  /// EP x ETP: the number of ranks among which tokens travel to experts.
  int dispatch_ranks() const { return expert * expert_tensor; }
  /// Whether each of the dispatch ranks gathers the tokens of all of them.
  bool gathers_tokens() const { return gathers && dispatch_ranks() > 1; }
  /// Whether a token travels once to a rank, and becomes a row for each of its experts there.
  bool sends_tokens_once() const { return sends_once && dispatch_ranks() > 1; }
  /// Whether ranks send each other different numbers of rows. They then exchange these numbers
  /// first.
  bool is_uneven() const {
    return forced != nullptr || is_natural || (capacity > 0 && (!pads_experts || is_of_microbatch));
  }
  /// Rows that the rank sends to experts: one per choice or, with a capacity, as many as the
  /// experts take; an upper bound if experts are not padded. Pre: the layer has experts.
  std::int64_t sent_rows() const;
  /// Rows that the expert group sends to the rank: the same number for each of its experts or, with
  /// uneven rows, `room`.
  std::int64_t received_rows() const;
  /// Rows that the rank's experts compute, for all ranks that share the experts' weights; with
  /// uneven rows, `computed_room`.
  std::int64_t computed_rows() const;
  /// Rows that the expert group is expected to send to the rank: as many as balanced routing gives,
  /// if the router decides and there is room for more. Ops are costed by them.
  std::int64_t expected_rows() const;
  /// The same shape with the keys of another layer kind.
  BlockShape with(LayerConfig const& kind) const;
};

/// When a buffer of a block exists; made by derive_liveness(). Positions are op indices of a pass.
///
/// A buffer is allocated just before the op at `allocate`, its first write, and released right
/// after the op at `release`: its last use, or the wait for the last op of another stream that uses
/// it.
struct BufferLife {
  static constexpr std::int32_t outside = -2;  ///< allocated or released by a neighbour
  TensorId buffer = no_tensor;
  Pass allocate_pass = Pass::forward;
  std::int32_t allocate = 0;
  Pass release_pass = Pass::forward;
  std::int32_t release = 0;

  /// Whether it is kept from forward to backward: what the paper calls an activation.
  bool is_saved() const { return allocate_pass == Pass::forward && release_pass != Pass::forward; }
};

/// A buffer besides the hidden state that a block leaves to another one of its chunk, or to itself:
/// in the same pass, or in that of a later microbatch.
struct Handover {
  Pass pass = Pass::forward;
  std::string_view what;       ///< the same for both blocks; a literal
  std::int32_t position = 0;   ///< from this block to the buffer's owner, in places of the chunk
  TensorId taken = no_tensor;  ///< from the last block that has left it
  TensorId left = no_tensor;
  TensorId lent = no_tensor;  ///< the same, but the block itself releases it
};

/// What one part of a model computes for one microbatch on one rank: the single description from
/// which memory, FLOPs, time and kernels are derived.
///
/// libsim/modules builds it (attention.hpp, mlp.hpp, ...): a module appends ops to a
/// ProgramBuilder, apply_recompute() copies what backward computes again, insert_waits() and
/// derive_liveness() add the waits and the lives of buffers.
///
/// The blocks of a chunk run one after another, in model order forward and in reverse order
/// backward; a block's output is the next block's input. Every block drains its tensor-parallel
/// stream at the end of each pass.
///
/// split_backward() adds the two passes of a split backward; the whole backward stays, as a
/// schedule may run either. A policy that recomputes early takes recompute out of all of them.
struct BlockProgram {
  enum class Kind : std::uint8_t { inputs, embedding, layers, head };
  Kind kind = Kind::layers;
  int layers = 0;  ///< Transformer layers in it: 0, 1, or the size of a full-recompute group
  /// Head only: its modules of multi-token prediction, each with a Transformer layer. Ops and
  /// tensors of module m, from 0 on, have layer m + 1.
  int prediction_modules = 0;
  RecomputePolicy policy;  ///< recompute policy of the layers
  std::vector<Tensor> tensors;
  std::vector<Op> forward;
  std::vector<Op> backward;
  std::vector<Op> input_gradient;   ///< of a split backward; empty if it is not split
  std::vector<Op> weight_gradient;  ///< of a split backward; empty if it is not split
  std::vector<Op> recompute;        ///< if recompute is a pass of its own; else the backward has it
  std::vector<Parameter> parameters;
  std::vector<QuantisedWeight> quantised_weights{};
  std::vector<TensorId> low_weights{};  ///< those that units gather quantised
  std::vector<StoredInput> stored_inputs{};
  /// Tensors that add up over the microbatches of an iteration, besides gradients.
  std::vector<TensorId> counters;
  TensorId input = no_tensor;        ///< hidden state received from the block before
  TensorId output = no_tensor;       ///< hidden state handed to the block after
  TensorId grad_output = no_tensor;  ///< gradient received from the block after
  TensorId grad_input = no_tensor;   ///< gradient handed to the block before
  std::vector<Handover> handovers{};
  std::vector<BufferLife> lives;  ///< lives of all microbatch buffers, in order of allocation
  /// The lives if the backward is split. They are equal to `lives` in the forward pass.
  std::vector<BufferLife> split_lives;

  Tensor const& tensor(TensorId id) const { return tensors[static_cast<std::size_t>(id)]; }
  std::vector<Op> const& ops(Pass pass) const {
    return pass == Pass::forward          ? forward
           : pass == Pass::backward       ? backward
           : pass == Pass::input_gradient ? input_gradient
           : pass == Pass::recompute      ? recompute
                                          : weight_gradient;
  }
  std::vector<Op>& ops(Pass pass) {
    return const_cast<std::vector<Op>&>(std::as_const(*this).ops(pass));
  }
  /// The lives that apply in a pass. A recompute pass moves the same buffers in both.
  std::vector<BufferLife> const& lives_in(Pass pass) const {
    bool const is_split = pass == Pass::input_gradient || pass == Pass::weight_gradient;
    return is_split ? split_lives : lives;
  }
};

/// The layer of the model that an op of a block belongs to, given the first layer of the block and
/// the op's `layer`; -1 if it belongs to none. Modules of multi-token prediction come after all
/// layers.
constexpr std::int64_t layer_of(BlockProgram::Kind kind, std::int64_t first, std::int32_t layer) {
  if (kind == BlockProgram::Kind::layers) return first + layer;
  return kind == BlockProgram::Kind::head && layer > 0 ? first + layer - 1 : -1;
}

/// Bytes that a block keeps from forward to backward. They include its input, if backward reads it,
/// but not its output, which is the next block's input.
Bytes saved_bytes(BlockProgram const& block);

/// FLOPs of the matrix products of both passes, over the ops for which `counted(op)` holds.
template <typename Predicate>
std::int64_t flops_of(BlockProgram const& block, Predicate counted) {
  std::int64_t sum = 0;
  for (Op const& op : block.forward) sum += counted(op) ? op.flops : 0;
  for (Op const& op : block.backward) sum += counted(op) ? op.flops : 0;
  return sum;
}

}  // namespace stagecraft
