#pragma once

#include <optional>
#include <string_view>

#include "libsim/units/ids.hpp"

namespace stagecraft {

/// One way in which the ranks of a job are divided.
struct GridAxis {
  std::string_view name;  ///< e.g. "tensor"; a literal, which outlives the grid
  int size = 1;

  friend bool operator==(GridAxis const&, GridAxis const&) = default;
};

/// The axis along which ranks belong to different stages. Every grid has it, as its slowest axis.
inline constexpr std::string_view pipeline_axis = "pipeline";

/// How the ranks of a job are numbered: by their positions on named axes, the first axis fastest.
///
/// With the axes tensor, data and pipeline this is Megatron-LM's default order
/// (megatron/core/parallel_state.py, order "tp-cp-ep-dp-pp").
class RankGrid {
 public:
  /// \throws std::invalid_argument  if a size is below 1, if two axes have the same name, or if the
  ///         last axis is not the pipeline axis.
  explicit RankGrid(IdVector<AxisId, GridAxis> axes);

  int ranks() const { return ranks_; }
  IdVector<AxisId, GridAxis> const& axes() const { return axes_; }
  std::optional<AxisId> find(std::string_view name) const;
  /// \throws std::invalid_argument  if there is no such axis.
  AxisId axis(std::string_view name) const;
  AxisId pipeline() const { return AxisId{static_cast<int>(axes_.size()) - 1}; }

  int size(AxisId axis) const { return axes_[axis].size; }
  /// The difference between the numbers of two ranks that are neighbours on an axis.
  int stride(AxisId axis) const { return strides_[axis]; }
  /// Pre: 0 <= rank < ranks().
  int position(RankId rank, AxisId axis) const { return rank.value() / stride(axis) % size(axis); }
  /// The rank at `position` of an axis that agrees with `rank` on all other axes.
  RankId moved(RankId rank, AxisId axis, int position) const {
    return RankId{rank.value() + (position - this->position(rank, axis)) * stride(axis)};
  }

  friend bool operator==(RankGrid const&, RankGrid const&) = default;

 private:
  IdVector<AxisId, GridAxis> axes_;
  IdVector<AxisId, int> strides_;
  int ranks_ = 1;
};

}  // namespace stagecraft
