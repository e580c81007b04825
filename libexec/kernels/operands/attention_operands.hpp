#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/dropout_operands.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

namespace stagecraft {

/// The rows of attention scores [b, heads, s, s].
template <typename S>
struct ScoreRows {
  std::int64_t rows;
  std::int64_t s;
  std::int64_t window;  ///< columns up to the diagonal that count; s: all of them
  Compute<S> scale;     ///< factor on the scores

  /// One past the last column that counts, the diagonal.
  STAGECRAFT_HOST_DEVICE std::int64_t end(std::int64_t row) const { return row % s + 1; }
};

template <typename S>
ScoreRows<S> expect_scores(KernelCall const& call, Operand const& x) {
  expect(call, x.shape.rank() == 4 && x.shape[2] == x.shape[3] && x.shape[3] > 0,
         "the scores are not [b, heads, s, s]");
  expect_tensor<S>(call, x, x.shape);
  auto const& softmax = attributes_of<SoftmaxAttributes>(call);
  std::int64_t const s = x.shape[3];
  return {x.shape.elements() / s, s, softmax.window == 0 ? s : softmax.window,
          static_cast<Compute<S>>(softmax.scale)};
}

/// Operands of a causal softmax, with or without a dropout after it.
template <typename S>
struct SoftmaxOperands {
  ScoreRows<S> all;
  S* scores;           ///< backward: the gradient, in place
  S* probabilities;    ///< with a dropout in the place of the scores; backward: read
  S* dropped;          ///< null backward, and without a dropout
  std::uint8_t* mask;  ///< stored; backward: read. Null if it is drawn
};

template <typename S>
SoftmaxOperands<S> expect_softmax(KernelCall const& call) {
  Operand const& scores = call.reads[0];
  return {expect_scores<S>(call, scores), elements_of<S>(scores),
          expect_tensor<S>(call, call.writes[0], scores.shape),
          call.writes.size() > 1 ? expect_tensor<S>(call, call.writes[1], scores.shape) : nullptr,
          dropout_mask(call, call.writes, 2, scores.shape)};
}

template <typename S>
SoftmaxOperands<S> expect_softmax_backward(KernelCall const& call) {
  Operand const& gradient = call.writes[0];
  return {expect_scores<S>(call, gradient), elements_of<S>(gradient),
          expect_tensor<S>(call, call.reads[1], gradient.shape), nullptr,
          dropout_mask(call, call.reads, 2, gradient.shape)};
}

/// Operands of softcap, y = cap tanh(scale x / cap), or of its gradient, in place of y.
template <typename S>
struct SoftcapOperands {
  std::int64_t elements;
  S const* x;
  S* y;
  Compute<S> cap;
  Compute<S> factor;  ///< scale / cap
  Compute<S> scale;
};

template <typename S>
SoftcapOperands<S> expect_softcap(KernelCall const& call) {
  using C = Compute<S>;
  Shape const& shape = call.reads[0].shape;
  Operand const& x = call.reads[call.kind == OpKind::softcap ? 0 : 1];
  auto const& softcap = attributes_of<SoftcapAttributes>(call);
  return {shape.elements(),
          expect_tensor<S>(call, x, shape),
          expect_tensor<S>(call, call.writes[0], shape),
          static_cast<C>(softcap.cap),
          static_cast<C>(softcap.scale / softcap.cap),
          static_cast<C>(softcap.scale)};
}

// The operand checks of the flash-attention kernels.

/// The largest head, in elements, that the CUDA kernels support.
inline constexpr std::int64_t most_cuda_flash_elements = 256;

/// Sizes of a call.
struct FlashSizes {
  std::int64_t s;         ///< rows of queries
  std::int64_t key_rows;  ///< rows of keys and values
  std::int64_t b, heads, kv_heads;
  std::int64_t d;         ///< of queries and keys
  double scale;           ///< of the scores
  std::int64_t value_d;   ///< of values
  std::int64_t window;    ///< keys that a query sees, its own included; 0: all before
  double softcap;         ///< of the scores; 0: none
  AttendedRows attended;  ///< what the queries see without a window

  /// How many keys a query sees at most, its own and those before it.
  constexpr std::int64_t reach() const { return window == 0 ? key_rows : window; }
  /// The first key that a query sees.
  constexpr std::int64_t first_key(std::int64_t query) const {
    return std::max<std::int64_t>(0, attended.seen_by(query) - reach());
  }
  /// One past the last key that one of the queries [first, first + m) sees; 0 if they see none.
  constexpr std::int64_t end_of_keys(std::int64_t first, std::int64_t m) const {
    std::int64_t const last = attended.first_query + attended.queries - 1;
    return first > last ? 0 : attended.seen_by(std::min(first + m - 1, last));
  }
  /// One past the last query that sees a key.
  constexpr std::int64_t last_query(std::int64_t key) const {
    std::int64_t const end = attended.first_query + attended.queries;
    if (window == 0) return end;
    std::int64_t const before = attended.keys - attended.queries;
    return std::min(end, attended.first_query + key + window - before);
  }
};

/// The sizes of q [s, b, heads, d], k [s, b, kv heads, d] and v [s, b, kv heads, value_d].
constexpr FlashSizes flash_sizes(FlashAttributes const& attributes,
                                 SequencePart const& sequence,
                                 Shape const& q,
                                 Shape const& k,
                                 Shape const& v) {
  return {.s = q[0],
          .key_rows = k[0],
          .b = q[1],
          .heads = q[2],
          .kv_heads = k[2],
          .d = q[3],
          .scale = attributes.scale,
          .value_d = v[3],
          .window = attributes.window,
          .softcap = attributes.softcap,
          .attended = attended_rows(attributes.part, sequence, q[0], k[0])};
}

/// Expects q [s, b, heads, d], k [s, b, kv heads, d] and v [s, b, kv heads, value_d].
/// \param sequence  the rows that the rank has, which a part of attention depends on
template <typename S>
FlashSizes flash_sizes(KernelCall const& call,
                       SequencePart const& sequence,
                       Operand const& q,
                       Operand const& k,
                       Operand const& v) {
  Shape const& shape = q.shape;
  expect(call, shape.rank() == 4 && k.shape.rank() == 4 && v.shape.rank() == 4,
         "q, k or v is not [s, b, heads, d]");
  auto const& attributes = attributes_of<FlashAttributes>(call);
  bool const is_whole = attributes.part.kind == AttentionPart::Kind::whole;
  expect(call, !is_whole || k.shape[0] == shape[0], "there are not as many keys as queries");
  FlashSizes const sizes = flash_sizes(attributes, sequence, shape, k.shape, v.shape);
  expect(call, sizes.attended.keys <= sizes.key_rows, "there are too few keys");
  Shape const keys{sizes.key_rows, sizes.b, sizes.kv_heads, sizes.d};
  expect_heads(call, q, element_type<S>(), shape);
  expect_heads(call, k, element_type<S>(), keys);
  expect_heads(call, v, element_type<S>(),
               {sizes.key_rows, sizes.b, sizes.kv_heads, sizes.value_d});
  expect(call, sizes.kv_heads > 0 && sizes.heads % sizes.kv_heads == 0,
         "the number of query heads is not a multiple of that of key and value heads");
  return sizes;
}

/// A tensor [s, b, heads value_d] as [s, b, heads, value_d].
inline Operand split_heads(KernelCall const& call,
                           Operand const& tokens,
                           ElementType type,
                           FlashSizes const& sizes) {
  expect_tensor(call, tokens, type, {sizes.s, sizes.b, sizes.heads * sizes.value_d});
  return {.data = tokens.data,
          .type = type,
          .shape = {sizes.s, sizes.b, sizes.heads, sizes.value_d},
          .strides = {}};
}

/// Operands of a forward call.
struct FlashForwardOperands {
  FlashSizes sizes;
  Operand q, k, v, context;  ///< [s, b, heads or kv heads, d or value_d]
  Operand log_sums;          ///< [b, heads, s]
  void const* sinks;         ///< [heads] in the type of q; null without
};

template <typename S>
FlashForwardOperands flash_forward_operands(KernelCall const& call,
                                            SequencePart const& sequence = {}) {
  FlashSizes const sizes =
      flash_sizes<S>(call, sequence, call.reads[0], call.reads[1], call.reads[2]);
  expect_tensor(call, call.writes[1], element_type<Compute<S>>(), {sizes.b, sizes.heads, sizes.s});
  bool const has_sinks = call.reads.size() > 3;
  if (has_sinks) expect_tensor(call, call.reads[3], element_type<S>(), {sizes.heads});
  return {.sizes = sizes,
          .q = call.reads[0],
          .k = call.reads[1],
          .v = call.reads[2],
          .context = split_heads(call, call.writes[0], element_type<S>(), sizes),
          .log_sums = call.writes[1],
          .sinks = has_sinks ? call.reads[3].data : nullptr};
}

/// Operands of a backward call.
struct FlashBackwardOperands {
  FlashSizes sizes;
  Operand d_context, q, k, v, context;  ///< [s, b, heads or kv heads, d or value_d]
  Operand log_sums;                     ///< [b, heads, s]
  Operand dq, dk, dv;                   ///< as q, k, v
};

template <typename S>
FlashBackwardOperands flash_backward_operands(KernelCall const& call,
                                              SequencePart const& sequence = {}) {
  ElementType const type = element_type<S>();
  FlashSizes const sizes =
      flash_sizes<S>(call, sequence, call.reads[1], call.reads[2], call.reads[3]);
  expect_tensor(call, call.reads[5], element_type<Compute<S>>(), {sizes.b, sizes.heads, sizes.s});
  for (std::size_t i = 0; i < 3; ++i) {
    expect_heads(call, call.writes[i], type, call.reads[i + 1].shape);
  }
  return {.sizes = sizes,
          .d_context = split_heads(call, call.reads[0], type, sizes),
          .q = call.reads[1],
          .k = call.reads[2],
          .v = call.reads[3],
          .context = split_heads(call, call.reads[4], type, sizes),
          .log_sums = call.reads[5],
          .dq = call.writes[0],
          .dk = call.writes[1],
          .dv = call.writes[2]};
}

// The operand checks of kernels on results of attention, contexts [s, b, heads d] and the
// logarithms of their sums of exponentials [b, heads, s].

struct ContextShape {
  std::int64_t s, b, heads, d;

  std::int64_t tokens() const { return s * b; }
  std::int64_t width() const { return heads * d; }
};

/// Expects a context of as many rows as the sums have.
template <typename S>
ContextShape context_shape(KernelCall const& call, Operand const& context, Operand const& sums) {
  expect(call, context.shape.rank() == 3 && sums.shape.rank() == 3,
         "a context is not [s, b, h] or sums are not [b, heads, s]");
  std::int64_t const heads = sums.shape[1];
  expect(call, heads > 0 && context.shape[2] % heads == 0, "rows do not fall into heads");
  ContextShape const shape{context.shape[0], context.shape[1], heads, context.shape[2] / heads};
  expect_tensor(call, context, element_type<S>(), context.shape);
  expect_tensor(call, sums, element_type<Compute<S>>(), {shape.b, heads, shape.s});
  return shape;
}

/// A part of attention that is rescaled to the sums of all keys.
struct RescaledPart {
  ContextShape shape;
  Operand part, part_sums, sums;
};

/// \param adds  whether the context is read first, and added to
template <typename S>
RescaledPart rescaled_part(KernelCall const& call, bool adds) {
  std::size_t const first = adds ? 1 : 0;
  RescaledPart const all{context_shape<S>(call, call.reads[first], call.reads[first + 2]),
                         call.reads[first], call.reads[first + 1], call.reads[first + 2]};
  expect_tensor(call, call.writes[0], element_type<S>(), all.part.shape);
  expect_tensor(call, all.part_sums, element_type<Compute<S>>(), all.sums.shape);
  return all;
}

/// sums = log(e^sums + e^part), in place.
template <typename C>
struct LogSumsOperands {
  std::int64_t elements;
  C* sums;
  C const* part;
};

template <typename C>
LogSumsOperands<C> expect_add_log_sums(KernelCall const& call) {
  std::int64_t const n = call.writes[0].shape.elements();
  return {n, expect_elements<C>(call, call.writes[0], n),
          expect_elements<C>(call, call.reads[1], n)};
}

/// Expects what the gradient of sinks [heads] is made of.
template <typename S>
ContextShape sinks_shape(KernelCall const& call) {
  ContextShape const shape = context_shape<S>(call, call.reads[1], call.reads[2]);
  expect_tensor(call, call.reads[0], element_type<S>(), call.reads[1].shape);
  expect_tensor(call, call.reads[3], element_type<S>(), {shape.heads});
  expect_tensor(call, call.writes[0], element_type<Compute<S>>(), {shape.heads});
  return shape;
}

}  // namespace stagecraft
