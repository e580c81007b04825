#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "libsim/model/tensor.hpp"

namespace stagecraft {

/// Where work runs on a rank. Work on one stream runs in issue order; streams run side by side.
enum class Stream : std::uint8_t { compute, tensor_parallel, data_parallel, send, receive };

std::string_view name_of(Stream stream);

/// What a reducing collective computes.
enum class Reduction : std::uint8_t { sum, maximum };

/// Ranks that a collective joins.
enum class CollectiveGroup : std::uint8_t {
  tensor,       ///< the t ranks that share each layer
  kv_replicas,  ///< the t / g tensor ranks that hold the same key and value heads
  data,         ///< the d replicas of a shard
  embedding,    ///< first and last stage, which share the tied embedding
  model,        ///< all stages and tensor ranks of a replica
  job,          ///< every rank
};

/// Why an op runs.
enum class Phase : std::uint8_t { forward, recompute, input_gradient, weight_gradient, step };

std::string_view name_of(Phase phase);

/// What an op computes, and the order of its operands (reads -> writes; those in brackets are there
/// only where the model has them).
enum class OpKind : std::uint8_t {
  gemm,                     ///< a, b -> c; see GemmShape (may take the bias_add behind it along)
  norm,                     ///< x, weight, [bias] -> y, statistics
  norm_backward,            ///< dy, x, statistics, weight -> dx
  norm_weight_gradient,     ///< dy, x, statistics -> dweight, [dbias], accumulating
  bias_add,                 ///< x, bias -> x, in place
  bias_gradient,            ///< dy -> dbias, column sums, accumulating
  rotary,                   ///< q, k -> rotated q, rotated k
  rotary_backward,          ///< d rotated q, d rotated k -> dq, dk, in place
  repeat_heads,             ///< k, v of g groups -> k, v of every query head
  repeat_heads_backward,    ///< dk, dv of every query head -> dk, dv of g groups
  causal_softmax,           ///< scores -> softmax output (scale, mask, softmax)
  causal_softmax_backward,  ///< d softmax output, softmax output -> d scores, in place
  /// scores -> softmax output in place, dropout output, [mask]
  causal_softmax_dropout,
  /// d dropout output, softmax output, [mask] -> d scores, in place
  causal_softmax_dropout_backward,
  dropout,                   ///< x -> y, [mask]
  dropout_backward,          ///< dy, [mask] -> dx
  merge_heads,               ///< context by head -> context [s, b, h/t], contiguous
  concatenate,               ///< dq, dk, dv -> d qkv
  flash_attention,           ///< q, k, v -> context, log-sum-exp
  flash_attention_backward,  ///< d context, q, k, v, context, log-sum-exp -> dq, dk, dv
  gelu,                      ///< x, [bias] -> y
  gelu_backward,             ///< dy, x, [bias] -> dx
  swiglu,                    ///< x [., 2f], [bias] -> y [., f]
  swiglu_backward,           ///< dy, x, [bias] -> dx
  relu,                      ///< x, [bias] -> y
  relu_backward,             ///< dy, y -> dx
  geglu,                     ///< x [., 2f], [bias] -> y [., f]
  geglu_backward,            ///< dy, x, [bias] -> dx
  bias_dropout_add,          ///< x, residual, [bias] -> y, [mask]
  add,                       ///< a, b -> a + b, in place on a
  load_tokens,               ///< -> token ids of the microbatch
  load_labels,               ///< -> the tokens that follow them
  make_causal_mask,          ///< -> boolean mask [s, s]
  embedding,                 ///< tokens, table -> rows; those of other ranks' vocabulary are zero
  embedding_backward,        ///< dy, tokens -> d table, accumulating
  add_positions,             ///< x, positions -> x, in place
  positions_gradient,        ///< dy -> d positions, accumulating
  slice,                     ///< x -> this rank's 1/t of it
  widen_logits,              ///< logits -> fp32 logits
  logits_maximum,            ///< logits -> maximum a row
  exponentials,   ///< logits, maximum, labels -> exponentials in place; sum and label's logit a row
  cross_entropy,  ///< exponentials, their sum, the label's logit, labels -> softmax in place, loss
  cross_entropy_backward,  ///< softmax, labels -> d logits, in place
  narrow_logits,           ///< fp32 d logits -> d logits
  all_reduce,              ///< x -> x, in place, summed (or maximum) over the group
  all_gather,              ///< shard -> whole
  reduce_scatter,          ///< whole -> shard
  wait,                    ///< the compute stream waits for one op of another stream
  hold,                    ///< nothing; its operands live until here
  zero_gradients,          ///< step ops from here on: all gradients of the rank
  scale_gradients,         ///< a bucket's gradients times 1/d, before their reduction
  unscale_gradients,       ///< the rank's shard divided by the loss scale; notes infinities (fp16)
  gradient_norm,           ///< sum of squares over the rank's shard
  clip_gradients,          ///< the rank's shard times the clipping coefficient
  adam,                    ///< updates master copy and moments of the rank's shard
  narrow_parameters,       ///< master copy of the rank's shard to 16-bit parameters
};

std::string_view name_of(OpKind kind);

/// Part of a block that an op belongs to; selective recompute is chosen by it.
enum class Module : std::uint8_t {
  inputs,
  embedding,
  attention_norm,
  attention_input,
  core_attention,
  attention_output,
  mlp_norm,
  mlp,
  mlp_output,
  final_norm,
  head,
  step,
};

std::string_view name_of(Module module);

/// A batched matrix product C[m, n] (+)= A[m, k] B[k, n], as the executor hands it to BLAS.
struct GemmShape {
  std::int64_t batch = 0;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;  ///< A is stored [k, m]
  bool transpose_b = false;  ///< B is stored [n, k]
  bool accumulate = false;   ///< C is added to

  constexpr std::int64_t flops() const { return 2 * batch * m * n * k; }
};

/// At most eight operands, without allocation.
class TensorList {
 public:
  constexpr TensorList() = default;
  constexpr TensorList(std::initializer_list<TensorId> ids) {
    for (TensorId const id : ids) push_back(id);
  }
  /// Absent operands (no_tensor) are left out. Pre: fewer than eight so far.
  constexpr void push_back(TensorId id) {
    if (id != no_tensor) ids_[size_++] = id;
  }
  constexpr TensorId operator[](std::size_t i) const { return ids_[i]; }
  constexpr TensorId& operator[](std::size_t i) { return ids_[i]; }
  constexpr std::size_t size() const { return size_; }
  constexpr TensorId const* begin() const { return ids_.data(); }
  constexpr TensorId const* end() const { return ids_.data() + size_; }
  constexpr TensorId* begin() { return ids_.data(); }
  constexpr TensorId* end() { return ids_.data() + size_; }

 private:
  std::array<TensorId, 8> ids_{};
  std::size_t size_ = 0;
};

/// One kernel or collective of a block program.
///
/// Issue order is the order of a pass's list. An op on the compute stream starts when the one
/// before it is done. A collective starts once all compute issued before it is done, in order on
/// its own stream; the compute stream meets it again at an explicit wait. Operands of rank four are
/// views or tensors that a GEMM reads as [batch, heads, rows, columns] by their strides; every
/// other op sees [sequence, batch, heads, head_dim].
struct Op {
  OpKind kind = OpKind::hold;
  Name name;  ///< e.g. attention.qkv.weight_gradient
  Phase phase = Phase::forward;
  Stream stream = Stream::compute;
  Module module = Module::inputs;
  std::int32_t layer = 0;  ///< of the block, from 0
  TensorList reads;
  TensorList writes;
  GemmShape gemm;          ///< gemm only
  std::int64_t flops = 0;  ///< matrix-product work; element-wise work is not counted
  Bytes traffic;           ///< bytes that the kernel moves to and from device memory
  Bytes payload;           ///< collectives: size of the whole (unsharded) tensor
  CollectiveGroup group = CollectiveGroup::tensor;  ///< collectives only
  Reduction reduction = Reduction::sum;             ///< all_reduce and reduce_scatter only
  bool asynchronous =
      false;  ///< collectives: waited for where its result is used, not where it is issued
  bool draws_random = false;  ///< generates random numbers, which slows an element-wise kernel down
  std::int32_t waits_for = -1;  ///< wait only: index, in the same pass, of the op waited for
};

}  // namespace stagecraft
