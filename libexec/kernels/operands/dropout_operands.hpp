#pragma once

#include <cstddef>
#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/bias_operands.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

/// The operands of the kernels with a dropout, and their checks.
namespace stagecraft {

// The global indices of the elements that a rank's dropouts work on, from which masks are drawn.

/// The position of a rank's attention probabilities [b, local heads, s, s] among the model's.
struct ProbabilityPlace {
  std::int64_t model_heads = 0;  ///< of all ranks
  std::int64_t first_head = 0;   ///< of this one
  std::int64_t sequence = 0;     ///< s

  /// Global index of column 0 in a row of a local head.
  STAGECRAFT_HOST_DEVICE std::uint64_t first_of(std::int64_t batch,
                                                std::int64_t head,
                                                std::int64_t row) const {
    return static_cast<std::uint64_t>(((batch * model_heads + first_head + head) * sequence + row) *
                                      sequence);
  }
};

/// The position of a rank that has `heads` local heads and s columns.
inline ProbabilityPlace probability_place(DropoutAttributes const& dropout,
                                          int tensor_rank,
                                          std::int64_t heads,
                                          std::int64_t sequence) {
  std::int64_t const shard = dropout.shards > 1 ? tensor_rank : 0;
  return {heads * dropout.shards, shard * heads, sequence};
}

/// The dropout of a call that has one.
inline DropoutAttributes const& dropout_attributes(KernelCall const& call) {
  DropoutAttributes const* const dropout = dropout_of(call.attributes);
  if (dropout == nullptr) refuse(call.kind, "it has no dropout");
  return *dropout;
}

/// The layout of a dropout's elements: rows, in which only the first columns are drawn.
///
/// Above the diagonal of attention probabilities nothing is drawn: mask and result are 0 there.
struct DropoutRows {
  bool causal = false;  ///< attention probabilities [b, heads, s, s], not hidden states [., h]
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::uint64_t first_hidden = 0;   ///< global index of the first element
  std::int64_t turn = 0;            ///< rows from here on are of the rank's second chunk
  std::uint64_t turned_hidden = 0;  ///< what first_hidden would be if all rows followed these
  ProbabilityPlace probabilities;
  std::int64_t heads = 1;  ///< of this rank

  STAGECRAFT_HOST_DEVICE std::int64_t alive(std::int64_t row) const {
    return causal ? row % columns + 1 : columns;
  }
  /// Global index of column 0.
  STAGECRAFT_HOST_DEVICE std::uint64_t first_element(std::int64_t row) const {
    if (!causal) {
      return (row < turn ? first_hidden : turned_hidden) +
             static_cast<std::uint64_t>(row * columns);
    }
    std::int64_t const head = row / columns;
    return probabilities.first_of(head / heads, head % heads, row % columns);
  }
};

/// Expects x to be attention probabilities [b, heads, s, s] or hidden states [rows, b, h] of this
/// rank, depending on the dropout's site. Probabilities are never of a rank that splits sequences,
/// which check_context() refuses.
inline DropoutRows dropout_rows(int tensor_rank,
                                KernelCall const& call,
                                Operand const& x,
                                SequencePart const& sequence = {}) {
  DropoutAttributes const& dropout = dropout_attributes(call);
  Shape const& shape = x.shape;
  bool const causal = dropout.site == DropoutSite::attention;
  expect(call, causal ? shape.rank() == 4 && shape[2] == shape[3] : shape.rank() == 3,
         "x is neither attention probabilities nor hidden states, as its site requires");
  std::int64_t const columns = last_extent(x);
  std::int64_t const heads = causal ? shape[1] : 1;
  // Rows of the sequence: of this tensor, of those before it in the rank's part, of all the part.
  std::int64_t const own = shape[0];
  std::int64_t const before = dropout.shards > 1 ? tensor_rank * own : 0;
  std::int64_t const part = own * dropout.shards;
  std::int64_t const half = sequence.zigzag ? part / 2 : part;
  std::int64_t const row = shape.elements() / own;
  return {causal,
          shape.elements() / columns,
          columns,
          static_cast<std::uint64_t>((sequence.row_of(0, part) + before) * row),
          (half - before) * (row / columns),
          static_cast<std::uint64_t>(
              (sequence.zigzag ? sequence.row_of(half, part) - half + before : 0) * row),
          probability_place(dropout, tensor_rank, heads, columns),
          heads};
}

/// A mask operand; null if masks are drawn.
inline std::uint8_t* dropout_mask(KernelCall const& call,
                                  OperandList const& list,
                                  std::size_t index,
                                  Shape const& shape) {
  if (list.size() <= index) return nullptr;
  return expect_tensor<std::uint8_t>(call, list[index], shape);
}

/// y = mask x / (1 - rate).
template <typename S>
struct DropoutOperands {
  DropoutRows rows;
  S const* x;
  S* y;
  std::uint8_t const* given;  ///< the mask; null: it is drawn
  std::uint8_t* stored;       ///< where to store a drawn mask; null: nowhere
};

/// Expects the operands of dropout, or of dropout_backward.
template <typename S>
DropoutOperands<S> expect_dropout(int tensor_rank,
                                  SequencePart const& sequence,
                                  KernelCall const& call) {
  Operand const& x = call.reads[0];
  return {dropout_rows(tensor_rank, call, x, sequence), expect_tensor<S>(call, x, x.shape),
          expect_tensor<S>(call, call.writes[0], x.shape),
          dropout_mask(call, call.reads, 1, x.shape), dropout_mask(call, call.writes, 1, x.shape)};
}

/// y = residual + dropout(x + bias).
template <typename S>
struct BiasDropoutAddOperands {
  DropoutRows rows;
  S const* x;
  S const* residual;
  S const* bias;  ///< or null
  S* y;
  std::uint8_t* stored;  ///< or null
  double rate;
};

template <typename S>
BiasDropoutAddOperands<S> expect_bias_dropout_add(int tensor_rank,
                                                  SequencePart const& sequence,
                                                  KernelCall const& call) {
  Operand const& x = call.reads[0];
  expect(call, x.shape.rank() == 3, "x is not [s, b, h]");
  DropoutRows const rows = dropout_rows(tensor_rank, call, x, sequence);
  return {rows,
          expect_tensor<S>(call, x, x.shape),
          expect_tensor<S>(call, call.reads[1], x.shape),
          optional_bias<S>(call, 2, rows.columns),
          expect_tensor<S>(call, call.writes[0], x.shape),
          dropout_mask(call, call.writes, 1, x.shape),
          dropout_attributes(call).rate};
}

}  // namespace stagecraft
