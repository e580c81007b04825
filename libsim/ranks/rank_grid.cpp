#include "libsim/ranks/rank_grid.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace stagecraft {

RankGrid::RankGrid(IdVector<AxisId, GridAxis> axes) : axes_{std::move(axes)} {
  for (auto axis = axes_.begin(); axis != axes_.end(); ++axis) {
    auto const refuse = [&](std::string const& problem) {
      throw std::invalid_argument{"grid of ranks: axis '" + std::string{axis->name} + "' " +
                                  problem};
    };
    if (axis->size < 1) refuse("has size " + std::to_string(axis->size) + "; accepted: 1 or more");
    bool const is_known = std::any_of(
        axes_.begin(), axis, [&](GridAxis const& other) { return other.name == axis->name; });
    if (is_known) refuse("occurs twice");
    strides_.push_back(ranks_);
    ranks_ *= axis->size;
  }
  if (axes_.empty() || axes_[pipeline()].name != pipeline_axis) {
    throw std::invalid_argument{"grid of ranks: the last axis is not the pipeline axis"};
  }
}

std::optional<AxisId> RankGrid::find(std::string_view name) const {
  auto const found = std::find_if(axes_.begin(), axes_.end(),
                                  [&](GridAxis const& axis) { return axis.name == name; });
  if (found == axes_.end()) return std::nullopt;
  return AxisId{static_cast<int>(found - axes_.begin())};
}

AxisId RankGrid::axis(std::string_view name) const {
  auto const found = find(name);
  if (!found) {
    throw std::invalid_argument{"grid of ranks: there is no axis '" + std::string{name} + "'"};
  }
  return *found;
}

}  // namespace stagecraft
