#pragma once

#include <cstdint>
#include <type_traits>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/activation_operands.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"
#include "libsim/units/sorted_search.hpp"

namespace stagecraft {

// Rows in chunks [outer, inner] that become [inner, outer].

/// The rows of each chunk, in the order before chunks are moved or after it.
struct ChunkCounts {
  ChunkAttributes chunks;
  std::int32_t const* counts = nullptr;  ///< in one of the two orders, as the attributes say
  bool is_moved = false;  ///< whether chunks are asked for by their number after the move

  STAGECRAFT_HOST_DEVICE std::int64_t operator()(std::int64_t chunk) const {
    // The counts are in the order of the chunks, before they are moved or after it.
    std::int64_t const outer = is_moved ? chunks.inner : chunks.outer;
    std::int64_t const inner = is_moved ? chunks.outer : chunks.inner;
    if (is_moved == chunks.by_inner) return counts[chunk];
    return counts[chunk % inner * outer + chunk / inner];
  }
};

/// The number of a chunk after the move, which takes (i, j) to (j, i).
STAGECRAFT_HOST_DEVICE inline std::int64_t moved_chunk(ChunkAttributes const& chunks,
                                                       std::int64_t chunk) {
  return chunk % chunks.inner * chunks.outer + chunk / chunks.inner;
}

inline std::int64_t chunk_count(ChunkAttributes const& chunks) {
  return chunks.outer * chunks.inner;
}

/// Elements of a row.
inline std::int64_t row_elements(Operand const& rows) {
  return rows.shape[0] == 0 ? 0 : rows.shape.elements() / rows.shape[0];
}

/// Expects the operands of transpose_chunks. Returns the counts, or null if chunks are equal.
inline std::int32_t const* expect_chunks(KernelCall const& call) {
  std::int64_t const chunks = chunk_count(attributes_of<ChunkAttributes>(call));
  bool const is_uneven = call.reads.size() == call.writes.size() + 1;
  expect(call, is_uneven || call.reads.size() == call.writes.size(), "an operand has no result");
  for (std::size_t i = 0; i < call.writes.size(); ++i) {
    Operand const& from = call.reads[i];
    expect_tensor(call, call.writes[i], from.type, from.shape);
    expect_elements(call, from, from.type, from.shape.elements());
    expect(call, is_uneven || from.shape[0] % chunks == 0, "rows are not a multiple of the chunks");
  }
  if (!is_uneven) return nullptr;
  Operand const& counts = call.reads[call.writes.size()];
  expect(call, counts.shape.elements() == chunks, "there are not as many counts as chunks");
  return expect_tensor<std::int32_t>(call, counts, counts.shape);
}

// Rows [rows, columns] in as many groups as there are biases of `columns` elements.

/// How many rows groups have if counts [parts, groups] say so.
struct GroupCounts {
  std::int32_t const* counts = nullptr;
  std::int64_t parts = 0;
  std::int64_t groups = 0;

  STAGECRAFT_HOST_DEVICE std::int64_t operator()(std::int64_t group) const {
    std::int64_t sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) sum += counts[part * groups + group];
    return sum;
  }
};

/// Rows of groups that follow each other.
struct GroupedRows {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t groups = 0;
  /// The row after the last one of each group; null if groups have equally many.
  std::int64_t const* ends = nullptr;

  STAGECRAFT_HOST_DEVICE constexpr std::int64_t end_of(std::int64_t group) const {
    return ends == nullptr ? rows / groups * (group + 1) : ends[group];
  }
  STAGECRAFT_HOST_DEVICE constexpr std::int64_t begin_of(std::int64_t group) const {
    return group == 0 ? 0 : end_of(group - 1);
  }
  /// Rows behind those of all groups are not used.
  STAGECRAFT_HOST_DEVICE constexpr std::int64_t used() const { return end_of(groups - 1); }
  STAGECRAFT_HOST_DEVICE constexpr std::int64_t group_of(std::int64_t row) const {
    if (ends == nullptr) return row / (rows / groups);
    return first_above(ends, groups, row);
  }
};

/// Expects rows, and biases or their gradients; ends are not set.
template <typename S>
GroupedRows expect_grouped_rows(KernelCall const& call,
                                Operand const& x,
                                Operand const& bias,
                                ElementType type_of_bias) {
  expect(call, x.shape.rank() == 2 && x.shape[1] > 0, "x is not [rows, columns]");
  expect_tensor(call, x, element_type<S>(), x.shape);
  std::int64_t const elements = bias.shape.elements();
  expect_elements(call, bias, type_of_bias, elements);
  expect(call, elements > 0 && elements % x.shape[1] == 0, "biases are not [groups, columns]");
  return {.rows = x.shape[0], .columns = x.shape[1], .groups = elements / x.shape[1]};
}

/// The counts, which are the last operand; without groups if there are none, and all groups have
/// equally many rows.
inline GroupCounts expect_counts(KernelCall const& call, GroupedRows const& all) {
  Operand const& counts = call.reads[call.reads.size() - 1];
  if (counts.type != ElementType::i32) {
    expect(call, all.rows % all.groups == 0,
           "the rows are not in as many groups as there are biases");
    return {};
  }
  std::int64_t const parts = counts.shape.elements() / all.groups;
  return {expect_elements<std::int32_t>(call, counts, parts * all.groups), parts, all.groups};
}

/// The factor of each row, operand `index`; null if there is none.
template <typename S>
Compute<S> const* optional_factors(KernelCall const& call, std::size_t index, std::int64_t rows) {
  bool const is_there =
      call.reads.size() > index && call.reads[index].type != ElementType::i32;  // which counts are
  if (!is_there) return nullptr;
  return expect_elements<Compute<S>>(call, call.reads[index], rows);
}

/// Expects the number of each row that bias_probability_gradient writes.
template <typename S>
Compute<S>* expect_row_products(KernelCall const& call, GroupedRows const& all) {
  return expect_elements<Compute<S>>(call, call.writes[0], all.rows);
}

// The factors of rows, and the operands of the kernels that scale rows.

/// A factor and its derivative by what it is made of.
template <typename C>
struct Factor {
  C value;
  C slope;
};

template <typename C>
STAGECRAFT_HOST_DEVICE Factor<C> factor_of(RowFactor kind, C x) {
  if (kind == RowFactor::identity) return {x, C{1}};
  C const value = sigmoid(x);
  return {value, value * (C{1} - value)};
}

/// Calls body(element, factor) with their types: factors are of the elements' type, or of the type
/// in which these are computed.
template <typename Body>
void with_factor_types(KernelCall const& call,
                       Operand const& x,
                       Operand const& factors,
                       Body const& body) {
  with_storage_type(call.kind, x.type, [&](auto element) {
    using S = decltype(element);
    if (factors.type == element_type<S>()) {
      body(element, S{});
    } else {
      body(element, Compute<S>{});
    }
  });
}

/// Rows that are scaled.
struct ScaledRows {
  std::int64_t rows = 0;
  std::int64_t width = 0;
};

/// Expects the operands of scale_rows: elements of S, factors of F.
template <typename S, typename F>
ScaledRows expect_scaled_rows(KernelCall const& call) {
  Operand const& x = call.reads[0];
  std::int64_t const rows = call.reads[1].shape.elements();
  expect_tensor(call, x, element_type<S>(), x.shape);
  expect_elements(call, call.reads[1], element_type<F>(), rows);
  expect_tensor(call, call.writes[0], element_type<S>(), x.shape);
  return {rows, x.shape.elements() / rows};
}

/// Expects the operands of scale_rows_backward.
template <typename S, typename F>
ScaledRows expect_scaled_rows_backward(KernelCall const& call) {
  Operand const& x = call.reads[1];
  std::int64_t const rows = call.reads[2].shape.elements();
  expect_tensor(call, x, element_type<S>(), x.shape);
  expect_elements(call, call.reads[0], element_type<S>(), x.shape.elements());
  expect_elements(call, call.reads[2], element_type<F>(), rows);
  expect_tensor(call, call.writes[0], element_type<S>(), x.shape);
  expect_elements(call, call.writes[1], element_type<F>(), rows);
  return {rows, x.shape.elements() / rows};
}

// Activations times the probability of each row, and the operands of their kernels.

/// An activation that is not gated, as one whose `up` is absent.
template <typename Function>
struct Ungated {
  template <typename C>
  STAGECRAFT_HOST_DEVICE static C value(C x, C /*up*/) {
    return Function::value(x);
  }
  template <typename C>
  STAGECRAFT_HOST_DEVICE static C gate_gradient(C dy, C x, C /*up*/) {
    if constexpr (std::is_same_v<Function, Relu>) {
      return dy * Relu::slope_at_value(Relu::value(x));
    } else {
      return dy * Function::slope(x);
    }
  }
};

/// Calls body(function, is gated) for an activation.
template <typename Body>
void with_function(Activation activation, Body const& body) {
  switch (activation) {
    case Activation::gelu:
      return body(Ungated<Gelu>{}, std::false_type{});
    case Activation::relu:
      return body(Ungated<Relu>{}, std::false_type{});
    case Activation::swiglu:
      return body(Gated<Silu>{}, std::true_type{});
    case Activation::geglu:
      return body(Gated<Gelu>{}, std::true_type{});
    case Activation::swiglu_clamped:
      return body(ClampedSwiglu{}, std::true_type{});
  }
}

/// The operands of a call by row.
template <typename S>
struct WeightedRows {
  using C = Compute<S>;
  std::int64_t width;  ///< columns of the output
  std::int64_t input;  ///< columns of the input
  std::int64_t rows;
  C const* probabilities;
};

template <typename S>
WeightedRows<S> expect_weighted_rows(KernelCall const& call,
                                     Operand const& x,
                                     Operand const& probabilities,
                                     Operand const& y,
                                     int branches) {
  std::int64_t const width = expect_branches<S>(call, x, y, branches);
  std::int64_t const rows = y.shape.elements() / width;
  return {width, branches * width, rows, expect_elements<Compute<S>>(call, probabilities, rows)};
}

/// Expects the operands of weighted_activation_backward.
template <typename S>
WeightedRows<S> expect_weighted_rows_backward(KernelCall const& call, int branches) {
  auto const all =
      expect_weighted_rows<S>(call, call.reads[1], call.reads[2], call.reads[0], branches);
  expect_tensor(call, call.writes[0], element_type<S>(), call.reads[1].shape);
  expect_elements(call, call.writes[1], element_type<Compute<S>>(), all.rows);
  return all;
}

/// The gradients of an activation's inputs; that of `up` is 0 if it is not gated.
template <typename C>
struct InputGradients {
  C gate;
  C up;
};

template <typename Function, bool is_gated, typename C>
STAGECRAFT_HOST_DEVICE InputGradients<C> input_gradients(C dy, C gate, C up) {
  if constexpr (is_gated) {
    return {Function::gate_gradient(dy, gate, up), Function::up_gradient(dy, gate, up)};
  } else {
    return {Function::gate_gradient(dy, gate, C{0}), C{0}};
  }
}

}  // namespace stagecraft
