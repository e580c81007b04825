#pragma once

#include <algorithm>
#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

/// The operand checks of the flash-attention kernels.
namespace stagecraft {

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
  /// One behind the last key that one of the queries [first, first + m) sees; 0 if they see none.
  constexpr std::int64_t end_of_keys(std::int64_t first, std::int64_t m) const {
    std::int64_t const last = attended.first_query + attended.queries - 1;
    return first > last ? 0 : attended.seen_by(std::min(first + m - 1, last));
  }
  /// One behind the last query that sees a key.
  constexpr std::int64_t last_query(std::int64_t key) const {
    std::int64_t const end = attended.first_query + attended.queries;
    if (window == 0) return end;
    std::int64_t const before = attended.keys - attended.queries;
    return std::min(end, attended.first_query + key + window - before);
  }
};

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
  FlashSizes const sizes{
      .s = shape[0],
      .key_rows = k.shape[0],
      .b = shape[1],
      .heads = shape[2],
      .kv_heads = k.shape[2],
      .d = shape[3],
      .scale = attributes.scale,
      .value_d = v.shape[3],
      .window = attributes.window,
      .softcap = attributes.softcap,
      .attended = attended_rows(attributes.part, sequence, shape[0], k.shape[0])};
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

}  // namespace stagecraft
