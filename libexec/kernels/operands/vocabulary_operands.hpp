#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"
#include "libexec/kernels/operands/unit_operands.hpp"

/// The operands of the kernels on logits, losses and the embedding, and their checks.
namespace stagecraft {

/// Logits [s, b, words] on one rank.
struct LogitRows {
  std::int64_t rows = 0;
  std::int64_t words = 0;  ///< columns on this rank, padding included
  std::int64_t valid = 0;  ///< columns before the padding
  std::int64_t first_word = 0;

  /// The column of a label, or -1 if another rank has it.
  STAGECRAFT_HOST_DEVICE std::int64_t column_of(std::int64_t label) const {
    std::int64_t const column = label - first_word;
    return column >= 0 && column < valid ? column : -1;
  }
};

inline LogitRows expect_logits(int tensor_rank, KernelCall const& call, Operand const& logits) {
  expect(call, logits.shape.rank() == 3, "the logits are not [s, b, words of this rank]");
  expect_tensor(call, logits, logits.type, logits.shape);
  LogitRows rows{.rows = logits.shape[0] * logits.shape[1],
                 .words = logits.shape[2],
                 .first_word = tensor_rank * logits.shape[2]};
  rows.valid = std::clamp<std::int64_t>(
      attributes_of<VocabularyAttributes>(call).words - rows.first_word, 0, rows.words);
  return rows;
}

/// Expects one value of T per token. Returns them.
template <typename T>
T* expect_tokens(KernelCall const& call, Operand const& operand, Operand const& logits) {
  return expect_tensor<T>(call, operand, {logits.shape[0], logits.shape[1]});
}

/// Calls `body(C{})` for the type in which logits are computed on, float or double.
template <typename Body>
void with_logit_type(KernelCall const& call, ElementType type, Body const& body) {
  if (type == ElementType::f32) return body(float{});
  if (type == ElementType::f64) return body(double{});
  refuse(call.kind, "the logits are neither f32 nor f64");
}

template <typename C>
struct MaximumOperands {
  LogitRows all;
  C const* logits;
  C* maximum;
};

template <typename C>
MaximumOperands<C> expect_logits_maximum(int tensor_rank, KernelCall const& call) {
  Operand const& logits = call.reads[0];
  return {expect_logits(tensor_rank, call, logits), elements_of<C>(logits),
          expect_tokens<C>(call, call.writes[0], logits)};
}

template <typename C>
struct ExponentialsOperands {
  LogitRows all;
  C* logits;  ///< become the exponentials
  C const* maximum;
  std::int64_t const* labels;
  C* sum;
  C* label_logit;
};

template <typename C>
ExponentialsOperands<C> expect_exponentials(int tensor_rank, KernelCall const& call) {
  Operand const& logits = call.writes[0];
  return {expect_logits(tensor_rank, call, logits),
          elements_of<C>(logits),
          expect_tokens<C>(call, call.reads[1], logits),
          expect_tokens<std::int64_t>(call, call.reads[2], logits),
          expect_tokens<C>(call, call.writes[1], logits),
          expect_tokens<C>(call, call.writes[2], logits)};
}

template <typename C>
struct CrossEntropyOperands {
  LogitRows all;
  C* softmax;  ///< exponentials before
  C const* sum;
  C const* label_logit;
  C* loss;
};

template <typename C>
CrossEntropyOperands<C> expect_cross_entropy(int tensor_rank, KernelCall const& call) {
  Operand const& softmax = call.writes[0];
  expect_tokens<std::int64_t>(call, call.reads[3], softmax);
  return {expect_logits(tensor_rank, call, softmax), elements_of<C>(softmax),
          expect_tokens<C>(call, call.reads[1], softmax),
          expect_tokens<C>(call, call.reads[2], softmax),
          expect_tokens<C>(call, call.writes[1], softmax)};
}

template <typename C>
struct CrossEntropyBackwardOperands {
  LogitRows all;
  C* softmax;  ///< becomes the gradient of the logits
  std::int64_t const* labels;
  C factor;
};

template <typename C>
CrossEntropyBackwardOperands<C> expect_cross_entropy_backward(int tensor_rank,
                                                              KernelCall const& call) {
  Operand const& softmax = call.writes[0];
  return {expect_logits(tensor_rank, call, softmax), elements_of<C>(softmax),
          expect_tokens<std::int64_t>(call, call.reads[1], softmax),
          static_cast<C>(call.loss_gradient)};
}

/// Calls body(from, to, elements) for logits that become f32 or, by narrow_logits, the model's type
/// again.
template <typename Body>
void with_converted_logits(KernelCall const& call, Body const& body) {
  Operand const& from = call.reads[0];
  Operand const& to = call.writes[0];
  bool const widens = call.kind == OpKind::widen_logits;
  with_storage_type(call.kind, widens ? from.type : to.type, [&](auto tag) {
    using S = decltype(tag);
    S* const narrow = expect_tensor<S>(call, widens ? from : to, from.shape);
    float* const wide = expect_tensor<float>(call, widens ? to : from, from.shape);
    widens ? body(narrow, wide, from.shape.elements()) : body(wide, narrow, from.shape.elements());
  });
}

/// A rank's rows of the embedding table.
struct WordLookup {
  std::int64_t first_word = 0;
  std::int64_t words = 0;

  /// The row that holds a token, or -1 if another rank has it.
  STAGECRAFT_HOST_DEVICE std::int64_t row_of(std::int64_t token) const {
    std::int64_t const row = token - first_word;
    return row >= 0 && row < words ? row : -1;
  }
};

/// Expects tokens [s, b], rows [s, b, h] and a table [words, h].
inline WordLookup expect_lookup(int tensor_rank,
                                KernelCall const& call,
                                Operand const& tokens,
                                Operand const& rows,
                                Operand const& table) {
  expect(call, rows.shape.rank() == 3 && table.shape.rank() == 2, "an operand's rank is wrong");
  expect_tensor(call, tokens, ElementType::i64, {rows.shape[0], rows.shape[1]});
  expect_tensor(call, rows, rows.type, rows.shape);
  expect_tensor(call, table, table.type, {table.shape[0], rows.shape[2]});
  return {tensor_rank * table.shape[0], table.shape[0]};
}

template <typename S>
struct EmbeddingOperands {
  WordLookup lookup;
  std::int64_t count;    ///< of tokens
  std::int64_t columns;  ///< h
  std::int64_t const* tokens;
  S const* table;
  S* rows;
};

template <typename S>
EmbeddingOperands<S> expect_embedding(int tensor_rank, KernelCall const& call) {
  Operand const& table = call.reads[1];
  Operand const& rows = call.writes[0];
  WordLookup const lookup = expect_lookup(tensor_rank, call, call.reads[0], rows, table);
  expect(call, rows.type == table.type, "rows and table differ in type");
  return {lookup,
          call.reads[0].shape.elements(),
          rows.shape[2],
          elements_of<std::int64_t>(call.reads[0]),
          elements_of<S>(table),
          elements_of<S>(rows)};
}

template <typename S, typename G>
struct EmbeddingBackwardOperands {
  WordLookup lookup;
  std::int64_t count;    ///< of tokens
  std::int64_t columns;  ///< h
  S const* dy;
  std::int64_t const* tokens;
  G* gradient;  ///< of the table
};

template <typename S, typename G>
EmbeddingBackwardOperands<S, G> expect_embedding_backward(int tensor_rank, KernelCall const& call) {
  Operand const& dy = call.reads[0];
  WordLookup const lookup = expect_lookup(tensor_rank, call, call.reads[1], dy, call.writes[0]);
  std::int64_t const h = dy.shape[2];
  return {lookup,
          call.reads[1].shape.elements(),
          h,
          elements_of<S>(dy),
          elements_of<std::int64_t>(call.reads[1]),
          expect_tensor<G>(call, call.writes[0], {lookup.words, h})};
}

/// A rank's rows of the causal mask [s/c, s].
struct MaskRows {
  std::int64_t rows;
  std::int64_t columns;
  std::uint8_t* mask;
};

inline MaskRows expect_causal_mask(SequencePart const& sequence, KernelCall const& call) {
  Shape const& shape = call.writes[0].shape;
  expect(call, shape.rank() == 2, "the mask is not [s/c, s]");
  expect(call, sequence.row_of(shape[0] - 1, shape[0]) < shape[1],
         "the mask has more rows than columns");
  return {shape[0], shape[1], expect_tensor<std::uint8_t>(call, call.writes[0], shape)};
}

/// The bytes that a rank copies as its slice of a tensor that is not split. The last slice is
/// padded with zeros.
struct SliceBytes {
  std::byte const* from;
  std::byte* to;
  std::int64_t copied;  ///< bytes
  std::int64_t zeros;   ///< bytes after them
};

inline SliceBytes expect_slice(int tensor_rank, KernelCall const& call) {
  Operand const& whole = call.reads[0];
  Operand const& part = call.writes[0];
  std::int64_t const all = whole.shape.elements();
  std::int64_t const count = part.shape.elements();
  expect_elements(call, whole, part.type, all);
  expect_elements(call, part, part.type, count);
  std::int64_t const size = element_size(part.type);
  std::int64_t const first = std::min(tensor_rank * count, all);
  std::int64_t const copied = std::min(count, all - first);
  return {elements_of<std::byte>(whole) + first * size, elements_of<std::byte>(part), copied * size,
          (count - copied) * size};
}

}  // namespace stagecraft
