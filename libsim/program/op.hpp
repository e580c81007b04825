#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/program/op_attributes.hpp"
#include "libsim/program/op_kind.hpp"
#include "libsim/program/stream.hpp"
#include "libsim/program/tensor.hpp"
#include "libsim/units/enum_names.hpp"
#include "libsim/units/ids.hpp"
#include "libsim/units/inline_list.hpp"
#include "libsim/units/pass.hpp"

namespace stagecraft {

/// What a reducing collective computes.
enum class Reduction : std::uint8_t { sum, maximum };

/// Why an op runs.
enum class Phase : std::uint8_t {
  forward,
  recompute,
  input_gradient,
  weight_gradient,
  data_parallel,  ///< once per iteration: moves gradients or parameters between ranks
  optimizer,      ///< everything else that happens once per iteration
  offload,        ///< moves what layers keep between a device and its host
};

template <>
struct EnumNames<Phase> {
  static constexpr std::array<std::pair<Phase, std::string_view>, 7> all{
      {{Phase::forward, "forward"},
       {Phase::recompute, "recompute"},
       {Phase::input_gradient, "input_gradient"},
       {Phase::weight_gradient, "weight_gradient"},
       {Phase::data_parallel, "data_parallel"},
       {Phase::optimizer, "optimizer"},
       {Phase::offload, "offload"}}};
};

/// The operands of an op: at most eight.
class TensorList : public InlineList<TensorId, 8> {
 public:
  constexpr TensorList() = default;
  constexpr TensorList(std::initializer_list<TensorId> ids) {
    for (TensorId const id : ids) push_back(id);
  }
  /// Leaves out absent operands (no_tensor). \throws std::length_error  for a ninth operand.
  constexpr void push_back(TensorId id) {
    if (id != no_tensor) InlineList::push_back(id);
  }
};

/// One kernel or collective of a block program.
///
/// Issue order is the order of a pass's list. An op on the compute stream starts when the one
/// before it is done. A collective runs in order on its own stream and starts once all compute
/// issued before it is done; the compute stream waits for it at an explicit wait. A GEMM reads
/// operands of rank four as [batch, heads, rows, columns], by their strides; every other op reads
/// them as [sequence, batch, heads, head_dim].
struct Op {
  OpKind kind = OpKind::hold;
  Name name;  ///< e.g. attention.qkv.weight_gradient
  Phase phase = Phase::forward;
  Stream stream = Stream::compute;
  std::string_view module;  ///< the part of the block that it belongs to; a literal
  std::int32_t layer = 0;   ///< layer of the block, from 0
  TensorList reads;
  TensorList writes;
  OpAttributes attributes;
  /// The type of the activations that it works on or for; peaks and measured rates depend on it.
  ElementType type = ElementType::f16;
  std::int64_t flops = 0;  ///< FLOPs of matrix products; element-wise work counts 0
  Bytes traffic;           ///< bytes that the kernel moves to and from device memory
  /// Collectives: size of the unsharded tensor. Copies between device and host: what is moved.
  Bytes payload;
  std::int32_t tensors = 0;              ///< all-gathers of parameters only: how many tensors
  std::optional<GroupId> group;          ///< collectives only: one of the plan's groups
  Reduction reduction = Reduction::sum;  ///< what a collective that reduces computes
  bool asynchronous = false;  ///< collectives only: the wait precedes the first use of the result
  /// Other streams only: it waits for no computation of the pass, so that it begins as early as the
  /// host issues it.
  bool is_ahead = false;
  bool draws_random = false;  ///< generates random numbers, which slows an element-wise kernel down
  /// wait: index, in the same pass, of the op waited for. An op of another stream may wait for one
  /// of a third stream in the same way.
  std::int32_t waits_for = -1;
  /// number of the recompute region that the op is a copy of; -1: none
  std::int32_t region = -1;
};

}  // namespace stagecraft
