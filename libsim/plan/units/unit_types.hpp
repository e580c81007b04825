#pragma once

#include <cstdint>

#include "libsim/program/tensor.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The types in which a rank keeps its shards, gathers parameters, reduces gradients and keeps its
/// part of them, if the run's sharding shares parameters. Adam's moments have the type of the
/// shards, or of the master copies beside them.
struct UnitTypes {
  ElementType stored = ElementType::f32;
  ElementType gathered = ElementType::bf16;
  ElementType low = ElementType::f8_e4m3;  ///< of the weights that are gathered quantised
  ElementType reduced = ElementType::f32;
  ElementType gradients = ElementType::f32;
};
UnitTypes unit_types(TrainingConfig const& config);

/// The elements of the largest shard if `elements`, in rows that stay together, are cut over ranks.
constexpr std::int64_t shard_of(std::int64_t elements, int ranks, std::int64_t row = 1) {
  return ((elements + row - 1) / row + ranks - 1) / ranks * row;
}

/// The elements of a row of a parameter, or of one expert's part of it.
constexpr std::int64_t row_of(Shape const& shape) {
  return shape.rank() < 2 ? 1 : shape[shape.rank() - 1];
}

/// The elements of a parameter that each of the ranks keeps, as many as the first rank: whole rows,
/// or `cuts_rows`.
std::int64_t sharded_elements(Shape const& shape, int ranks, bool cuts_rows = false);

}  // namespace stagecraft
