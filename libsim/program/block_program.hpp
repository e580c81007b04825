#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "libsim/model/model_config.hpp"
#include "libsim/model/recompute_policy.hpp"
#include "libsim/program/context_parallel.hpp"
#include "libsim/program/op.hpp"
#include "libsim/program/parameter.hpp"
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
  bool narrow_gradients = false;   ///< weight gradients are of the type of the weights
  double capacity = 0;             ///< of an expert, relative to balanced; 0: it takes all rows
  bool is_of_microbatch = false;   ///< the capacity counts the tokens of all ranks that share them
  bool gathers = false;            ///< tokens reach their experts by gathers, not by exchanges
  bool sends_once = false;         ///< a token goes once to each rank that has its experts
  bool overlaps_shared = false;    ///< shared experts compute while tokens travel
  bool pads_experts = true;        ///< to their capacity
  DropBy drop = DropBy::probabilities;    ///< what experts drop with a capacity
  bool is_natural = false;                ///< the router chooses without a limit
  ForcedRouting const* forced = nullptr;  ///< what the router's choices are replaced by
  /// With uneven rows: room for those that the expert group sends to the rank in this layer.
  std::int64_t room = 0;
  std::int64_t computed_room = 0;  ///< likewise, for those that the rank's experts compute
  /// What products of experts are of, if counts are forced: the rows by expert of one rank, which
  /// may compute fewer than `computed_room`. Null if they are even; the plan's.
  GroupRows const* rows_of_experts = nullptr;
  GroupId kv_group{};  ///< of the ranks with the same key and value heads, if there are several

  GroupId expert_group{};         ///< of the EP ranks, if there are several
  GroupId expert_tensor_group{};  ///< of the ETP ranks, if there are several
  GroupId dispatch_group{};       ///< of the EP x ETP ranks, if there are several
  GroupId expert_holders{};       ///< of the ranks that hold the same experts, if there are any
  int replicas = 1;               ///< d: each with a microbatch of its own at a time
  GroupId stage_group{};          ///< of all ranks of the stage, if routers count choices of all
  ContextLevel exchange{};        ///< ranks that exchange rows of a sequence for heads
  ContextLevel keys{};            ///< ranks that attend to each other's keys and values
  bool gathers_keys = false;      ///< they gather them; else these go round
  bool contiguous_keys = false;   ///< those of each rank are of consecutive rows

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
  /// The same outside of tensor-parallel regions: with sequence parallelism, 1/t of them.
  std::int64_t local_sequence() const {
    return sequence_parallel ? sequence() / tensor : sequence();
  }
  /// Rows of a hidden state outside of tensor-parallel regions.
  std::int64_t tokens() const { return local_sequence() * micro; }
  /// The ranks that have tokens of the same microbatch.
  int token_ranks() const { return (sequence_parallel ? tensor : 1) * context(); }
  /// Rows that each expert takes of the rank's tokens, or of the microbatch's; 0 without a
  /// capacity.
  /// Pre: the layer has experts.
  std::int64_t expert_rows() const;
  /// Whether ranks gather each other's choices, as an expert takes a number of all of them.
  bool gathers_choices() const { return is_of_microbatch && capacity > 0 && token_ranks() > 1; }
  /// EP x ETP: the ranks whose tokens reach the experts of each other.
  int dispatch_ranks() const { return expert * expert_tensor; }
  /// Whether every one of these ranks gathers the tokens of all.
  bool gathers_tokens() const { return gathers && dispatch_ranks() > 1; }
  /// Whether tokens travel to ranks, and only there become a row for each expert.
  bool sends_tokens_once() const { return sends_once && dispatch_ranks() > 1; }
  /// Whether ranks send each other different numbers of rows, which they count and exchange first.
  bool is_uneven() const {
    return forced != nullptr || is_natural || (capacity > 0 && (!pads_experts || is_of_microbatch));
  }
  /// Rows that the rank sends to experts: one for each choice, or what they take with a capacity;
  /// at most, if it does not pad. Pre: the layer has experts.
  std::int64_t sent_rows() const;
  /// Rows that the expert group sends to the rank, as many for each of its experts; with uneven
  /// rows, `room`.
  std::int64_t received_rows() const;
  /// Rows that the rank's experts compute: those of all ranks that share the experts' weights; with
  /// uneven rows, `computed_room`.
  std::int64_t computed_rows() const;
  /// Those that the group is expected to send: as many as balanced routing gives, if the router
  /// decides and there is room for more. What ops cost follows these.
  std::int64_t expected_rows() const;
  /// The same with the keys of another layer kind.
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

/// What one part of a model computes for one microbatch on one rank: the single description from
/// which memory, FLOPs, time and kernels are derived.
///
/// This folder builds it: modules (attention.hpp, mlp.hpp, ...) append ops to a ProgramBuilder,
/// apply_recompute() copies what backward computes again, insert_waits() and derive_liveness() add
/// the waits and the lives of buffers.
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
  /// Of a head: modules of multi-token prediction, each with a Transformer layer. What belongs to
  /// module m, counted from 0, has layer m + 1.
  int prediction_modules = 0;
  RecomputePolicy policy;  ///< recompute policy of the layers
  std::vector<Tensor> tensors;
  std::vector<Op> forward;
  std::vector<Op> backward;
  std::vector<Op> input_gradient;   ///< of a split backward; empty if there is none
  std::vector<Op> weight_gradient;  ///< likewise
  std::vector<Op> recompute;        ///< if it is a pass of its own; else it is in the backward
  std::vector<Parameter> parameters;
  /// What the block adds up over the microbatches of an iteration, besides gradients.
  std::vector<TensorId> counters;
  TensorId input = no_tensor;        ///< hidden state received from the block before
  TensorId output = no_tensor;       ///< hidden state handed to the block after
  TensorId grad_output = no_tensor;  ///< gradient received from the block after
  TensorId grad_input = no_tensor;   ///< gradient handed to the block before
  std::vector<BufferLife> lives;     ///< lives of all microbatch buffers, in order of allocation
  /// The same if the backward is split. What happens in the forward pass is the same.
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
  /// The lives that the pass follows. A recompute pass moves the same buffers with either.
  std::vector<BufferLife> const& lives_in(Pass pass) const {
    bool const is_split = pass == Pass::input_gradient || pass == Pass::weight_gradient;
    return is_split ? split_lives : lives;
  }
};

/// The number in the model of what has layer `layer` in a block, of which `first` is the first
/// layer; -1 if it is of no layer. Modules of multi-token prediction come behind all layers.
constexpr std::int64_t layer_of(BlockProgram::Kind kind, std::int64_t first, std::int32_t layer) {
  if (kind == BlockProgram::Kind::layers) return first + layer;
  return kind == BlockProgram::Kind::head && layer > 0 ? first + layer - 1 : -1;
}

/// Bytes that a block keeps from its input gradient to its weight gradient; 0 without a split
/// backward.
Bytes bytes_until_weight_gradient(BlockProgram const& block);

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
