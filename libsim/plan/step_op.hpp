#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "libsim/program/op.hpp"
#include "libsim/program/parameter.hpp"

namespace stagecraft {

/// Positions in step_tensors.
namespace step_tensor {
enum : TensorId {
  parameters,
  gradients,
  master,  ///< fp32 copies of 16-bit parameters; others are their own master
  first_moment,
  second_moment,
  loss_scale,
  updates,            ///< how many steps have changed the parameters
  overflow,           ///< whether a gradient is infinite, so that the step changes no parameter
  squares,            ///< the sum of the squares of the gradients
  overflow_so_far,    ///< post-validation: `overflow` of the stages up to the own one
  squares_so_far,     ///< post-validation: `squares` of the stages up to the own one
  counters,           ///< zeroed before the first microbatch, as gradients are
  quantised_weights,  ///< quantised copies of the weights of linear layers
  host_gradients,     ///< copies, on the host, of the gradients of what the host updates
  bucket,             ///< where sharded units collect gradients, if it is kept
  count
};
}  // namespace step_tensor

/// A tensor that a rank keeps from one iteration to the next. The ops of the step read and write
/// these tensors by their positions in step_tensors. All but numbers have StateBuffers.
struct StepTensor {
  Name name;
  bool is_number = false;  ///< a few numbers in host memory, not an element per parameter
};

inline constexpr auto step_tensors = [] {
  using namespace step_tensor;
  constexpr bool is_number = true;
  std::array<StepTensor, count> tensors{};
  tensors[parameters] = {{"parameters", ""}};
  tensors[gradients] = {{"gradients", ""}};
  tensors[master] = {{"optimizer", "master"}};
  tensors[first_moment] = {{"optimizer", "first_moment"}};
  tensors[second_moment] = {{"optimizer", "second_moment"}};
  tensors[loss_scale] = {{"optimizer", "loss_scale"}, is_number};
  tensors[updates] = {{"optimizer", "updates"}, is_number};
  tensors[overflow] = {{"step", "overflow"}, is_number};
  tensors[squares] = {{"step", "squares"}, is_number};
  tensors[overflow_so_far] = {{"step", "overflow_so_far"}, is_number};
  tensors[squares_so_far] = {{"step", "squares_so_far"}, is_number};
  tensors[counters] = {{"counters", ""}};
  tensors[quantised_weights] = {{"parameters", "quantised"}};
  tensors[host_gradients] = {{"optimizer", "host_gradients"}};
  tensors[bucket] = {{"gradients", "bucket"}};
  return tensors;
}();
static_assert(std::ranges::none_of(step_tensors,
                                   [](StepTensor const& t) { return t.name.owner.empty(); }),
              "each tensor of the step needs a name");

constexpr bool is_number(TensorId tensor) {
  return step_tensors.at(static_cast<std::size_t>(tensor)).is_number;
}

/// Consecutive elements of a rank's flat order of parameters.
struct ParameterRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool decays = false;  ///< adam: whether weight decay applies; not to biases and norms
  /// gradient_norm: the other ranks that hold the same elements. The first of them counts.
  std::vector<AxisShare> shares{};
};

/// The parameters that an op of the step works on, in the flat order of a rank.
using ParameterRanges = std::vector<ParameterRange>;

/// Ranges that never change, so that ops of stages with equal parameters share them.
class SharedRanges {
 public:
  SharedRanges() = default;
  explicit SharedRanges(ParameterRanges ranges)
      : ranges_{std::make_shared<ParameterRanges const>(std::move(ranges))} {}

  ParameterRanges const& get() const {
    static ParameterRanges const none;
    return ranges_ ? *ranges_ : none;
  }
  auto begin() const { return get().begin(); }
  auto end() const { return get().end(); }
  std::size_t size() const { return get().size(); }
  bool empty() const { return get().empty(); }
  ParameterRange const& front() const { return get().front(); }
  /// Whether both are the same object, not only equal.
  bool is(SharedRanges const& other) const { return ranges_ == other.ranges_; }

 private:
  std::shared_ptr<ParameterRanges const> ranges_;
};

/// Elements of what a rank has of its shards, counted over all of them in their order.
struct ShardPart {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// One op of the step, which a rank runs once per iteration on flat ranges of its parameters,
/// gradients and optimizer state.
struct StepOp : Op {
  /// The ranges that it reads and writes of every tensor with an element per parameter, one at a
  /// time.
  SharedRanges ranges{};
  /// Computations: whether they touch only the part of the ranges in the rank's own shard.
  /// Collectives work on whole ranges; each member reads (all_gather) or writes (reduce_scatter)
  /// its own part.
  bool own_shard = false;
  /// With own_shard: the part of it, if a rank updates it in parts.
  std::optional<ShardPart> part{};
};

}  // namespace stagecraft
