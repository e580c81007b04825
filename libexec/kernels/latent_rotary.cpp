#include <algorithm>
#include <cmath>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/heads_view.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// Sizes of a call, from its q [s, b, heads, n + r], v [s, b, heads, value] and k_pe [s, b, 1, r].
struct LatentShape {
  std::int64_t s, b, heads;
  std::int64_t nope, rope, value;
};

/// Expects the operands, of which `kv` and `k` may be values or gradients.
template <typename S>
LatentShape latent_shape(KernelCall const& call,
                         OperandList const& up,
                         OperandList const& by_head) {
  Shape const& q = up[0].shape;
  Shape const& k_pe = up[2].shape;
  expect(call, q.rank() == 4 && k_pe.rank() == 4 && by_head[2].shape.rank() == 4,
         "an operand is not [s, b, heads, d]");
  LatentShape const shape{q[0], q[1], q[2], q[3] - k_pe[3], k_pe[3], by_head[2].shape[3]};
  expect(call, shape.nope > 0 && shape.rope > 0 && shape.rope % 2 == 0,
         "the rotary part does not fit into a head, or is odd");
  ElementType const type = element_type<S>();
  expect_heads(call, up[0], type, q);
  expect_heads(call, up[1], type, {shape.s, shape.b, shape.heads, shape.nope + shape.value});
  expect_heads(call, up[2], type, {shape.s, shape.b, 1, shape.rope});
  expect_heads(call, by_head[0], type, q);
  expect_heads(call, by_head[1], type, q);
  expect_heads(call, by_head[2], type, {shape.s, shape.b, shape.heads, shape.value});
  return shape;
}

/// The angles of one position; pairs (i, i + rope/2) are rotated.
template <typename C>
struct Rotation {
  double base;
  std::int64_t rope;
  std::int64_t position;
  C direction;  ///< 1 or -1

  /// Calls body(i, cosine, sine) for every pair.
  template <typename Body>
  void for_pairs(Body const& body) const {
    for (std::int64_t i = 0; i < rope / 2; ++i) {
      double const angle = static_cast<double>(position) * rotary_frequency(base, i, rope);
      body(i, static_cast<C>(std::cos(angle)), direction * static_cast<C>(std::sin(angle)));
    }
  }
  /// The rotated pair.
  static C low(C x, C y, C cosine, C sine) { return x * cosine - y * sine; }
  static C high(C x, C y, C cosine, C sine) { return y * cosine + x * sine; }
};

template <typename S>
void latent_rotary_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  LatentShape const shape = latent_shape<S>(call, call.reads, call.writes);
  HeadsView<S> const query{call.reads[0]};
  HeadsView<S> const key_value{call.reads[1]};
  HeadsView<S> const shared{call.reads[2]};
  HeadsView<S> const q{call.writes[0]};
  HeadsView<S> const k{call.writes[1]};
  HeadsView<S> const v{call.writes[2]};
  double const base = attributes_of<RotaryAttributes>(call).base;
  std::int64_t const half = shape.rope / 2;
  std::int64_t const cost = shape.b * shape.heads * (2 * (shape.nope + shape.rope) + shape.value);
  for_row_ranges(*context.pool, shape.s, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) {
      for (std::int64_t n = 0; n < shape.b; ++n) {
        for (std::int64_t head = 0; head < shape.heads; ++head) {
          S const* const kv = key_value.head(at, n, head);
          std::copy_n(query.head(at, n, head), shape.nope, q.head(at, n, head));
          std::copy_n(kv, shape.nope, k.head(at, n, head));
          std::copy_n(kv + shape.nope, shape.value, v.head(at, n, head));
        }
      }
      Rotation<C> const rotation{base, shape.rope, context.sequence.row_of(at, shape.s), C{1}};
      rotation.for_pairs([&](std::int64_t i, C cosine, C sine) {
        for (std::int64_t n = 0; n < shape.b; ++n) {
          auto const rotate = [&](S const* from, S* to) {
            C const x = widen(from[i]);
            C const y = widen(from[half + i]);
            to[i] = narrow<S>(rotation.low(x, y, cosine, sine));
            to[half + i] = narrow<S>(rotation.high(x, y, cosine, sine));
          };
          for (std::int64_t head = 0; head < shape.heads; ++head) {
            rotate(query.head(at, n, head) + shape.nope, q.head(at, n, head) + shape.nope);
            rotate(shared.head(at, n, 0), k.head(at, n, head) + shape.nope);
          }
        }
      });
    }
  });
}

template <typename S>
void latent_rotary_backward_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  LatentShape const shape = latent_shape<S>(call, call.writes, call.reads);
  HeadsView<S> const dq{call.reads[0]};
  HeadsView<S> const dk{call.reads[1]};
  HeadsView<S> const dv{call.reads[2]};
  HeadsView<S> const d_query{call.writes[0]};
  HeadsView<S> const d_key_value{call.writes[1]};
  HeadsView<S> const d_shared{call.writes[2]};
  double const base = attributes_of<RotaryAttributes>(call).base;
  std::int64_t const half = shape.rope / 2;
  std::int64_t const cost = shape.b * shape.heads * (2 * (shape.nope + shape.rope) + shape.value);
  for_row_ranges(*context.pool, shape.s, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) {
      for (std::int64_t n = 0; n < shape.b; ++n) {
        for (std::int64_t head = 0; head < shape.heads; ++head) {
          S* const d_kv = d_key_value.head(at, n, head);
          std::copy_n(dq.head(at, n, head), shape.nope, d_query.head(at, n, head));
          std::copy_n(dk.head(at, n, head), shape.nope, d_kv);
          std::copy_n(dv.head(at, n, head), shape.value, d_kv + shape.nope);
        }
      }
      Rotation<C> const rotation{base, shape.rope, context.sequence.row_of(at, shape.s), C{-1}};
      rotation.for_pairs([&](std::int64_t i, C cosine, C sine) {
        for (std::int64_t n = 0; n < shape.b; ++n) {
          C low = 0;
          C high = 0;
          for (std::int64_t head = 0; head < shape.heads; ++head) {
            S const* const from = dq.head(at, n, head) + shape.nope;
            S* const to = d_query.head(at, n, head) + shape.nope;
            C const x = widen(from[i]);
            C const y = widen(from[half + i]);
            to[i] = narrow<S>(rotation.low(x, y, cosine, sine));
            to[half + i] = narrow<S>(rotation.high(x, y, cosine, sine));
            S const* const key = dk.head(at, n, head) + shape.nope;
            low += widen(key[i]);
            high += widen(key[half + i]);
          }
          S* const to = d_shared.head(at, n, 0);
          to[i] = narrow<S>(rotation.low(low, high, cosine, sine));
          to[half + i] = narrow<S>(rotation.high(low, high, cosine, sine));
        }
      });
    }
  });
}

/// Copies columns of a and b to those of what joins them, or back.
template <typename S>
void move_columns(KernelContext const& context,
                  KernelCall const& call,
                  Operand const& a,
                  Operand const& b,
                  Operand const& joined) {
  bool const joins = call.kind == OpKind::join_columns;
  expect(call, a.shape.rank() > 0 && b.shape.rank() > 0, "an operand has no columns");
  std::int64_t const left = last_extent(a);
  std::int64_t const right = last_extent(b);
  std::int64_t const rows = a.shape.elements() / std::max<std::int64_t>(left, 1);
  expect_elements(call, a, element_type<S>(), rows * left);
  expect_elements(call, b, element_type<S>(), rows * right);
  expect_elements(call, joined, element_type<S>(), rows * (left + right));
  for_row_ranges(*context.pool, rows, left + right, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      S* const both = elements_of<S>(joined) + row * (left + right);
      S* const first = elements_of<S>(a) + row * left;
      S* const second = elements_of<S>(b) + row * right;
      std::copy_n(joins ? first : both, left, joins ? both : first);
      std::copy_n(joins ? second : both + left, right, joins ? both + left : second);
    }
  });
}

}  // namespace

void latent_rotary(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { latent_rotary_of<decltype(tag)>(context, call); });
}

void latent_rotary_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call,
                    [&](auto tag) { latent_rotary_backward_of<decltype(tag)>(context, call); });
}

void join_columns(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    move_columns<decltype(tag)>(context, call, call.reads[0], call.reads[1], call.writes[0]);
  });
}

void split_columns(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    move_columns<decltype(tag)>(context, call, call.writes[0], call.writes[1], call.reads[0]);
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
