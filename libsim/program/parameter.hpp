#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "libsim/program/op.hpp"

namespace stagecraft {

/// How a rank's part of a whole tensor depends on the rank's position on one axis of a rank grid:
/// `replicas` neighbouring ranks hold the same part, and the part of the next ranks begins `stride`
/// rows (or columns) later in the whole tensor.
struct AxisShare {
  std::string_view axis = "tensor";  ///< a literal
  std::int64_t stride = 0;
  int replicas = 1;
};

/// Rows that are contiguous on a rank and in the whole tensor, e.g. the queries of [q | k | v]. A
/// rank's first row in the whole tensor is `first` plus what its positions on the axes of `shares`
/// add; positions on other axes do not matter.
struct RowSegment {
  std::int64_t rows = 0;  ///< on each rank, padding included
  std::int64_t first = 0;
  std::vector<AxisShare> shares{};
  /// The group of the ranks that hold the same rows, if each of them computes only a part of the
  /// gradient, so that it has to be summed over them.
  std::optional<GroupId> gradient_sum{};
};

/// The value of a parameter before the first step.
enum class ParameterStart : std::uint8_t {
  normal,         ///< normal, mean 0, standard deviation init_std
  normal_output,  ///< normal, init_std / sqrt(2L): for what is added to the residual stream
  zero,
  one,
};

/// The properties of a parameter besides its name and its shape on a rank.
struct ParameterTraits {
  /// Rows of the unpadded tensor; padding rows are zero and stay zero.
  std::int64_t whole_rows = 0;
  std::int64_t whole_columns = 1;
  std::vector<RowSegment> segments{};      ///< all rows of a rank, in order
  std::vector<AxisShare> column_shares{};  ///< none: every rank has all columns
  ParameterStart start = ParameterStart::normal;
  bool tied_embedding = false;  ///< whether it is the word embedding that the head shares
  /// Whether published counts have it; they count tied embeddings once.
  bool is_counted = true;
  /// The experts of a layer that such parameters belong to, and the number of them that a token
  /// uses.
  std::int64_t experts = 1;
  std::int64_t experts_per_token = 1;
  /// The group of the ranks that hold the same parameter, if it is not that of dense parameters.
  std::optional<GroupId> holders{};
  bool shared = false;  ///< whether another block of the same rank owns the parameter
};

/// One trained tensor of a block.
struct Parameter : ParameterTraits {
  TensorId weight = no_tensor;
  TensorId gradient = no_tensor;  ///< what weight-gradient kernels accumulate into
};

/// Elements of the whole model's tensor, without padding and copies.
constexpr std::int64_t published_elements(ParameterTraits const& parameter) {
  return parameter.is_counted ? parameter.whole_rows * parameter.whole_columns : 0;
}

/// The part of published_elements() that a token uses: all but the routed experts that it does not
/// choose.
constexpr std::int64_t active_elements(ParameterTraits const& parameter) {
  return published_elements(parameter) / parameter.experts * parameter.experts_per_token;
}

/// A tensor that every tensor rank holds in full.
ParameterTraits replicated(int tensor_ranks,
                           Shape const& shape,
                           std::optional<GroupId> gradient_sum = {});

/// The rows of one segment that a tensor rank holds.
struct RankRows {
  std::int64_t rows = 0;
  int replicas = 1;  ///< neighbouring tensor ranks that hold the same rows
  std::optional<GroupId> gradient_sum{};
};

/// A tensor of consecutive segments, each of which is cut by rows over the tensor ranks.
ParameterTraits cut_by_rows(int tensor_ranks,
                            std::initializer_list<RankRows> segments,
                            std::int64_t columns = 1);

/// A tensor that is cut by columns over the tensor ranks; `shape` is that of a rank's part.
ParameterTraits cut_by_columns(int tensor_ranks, Shape const& shape);

}  // namespace stagecraft
