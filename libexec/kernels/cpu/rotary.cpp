#include <algorithm>
#include <cmath>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/operands/head_operands.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// The number of pairs (i, i + d/2) that are rotated at a time.
constexpr std::int64_t pair_chunk = 64;

/// Rotates pairs [first, first + count) of every head of a row by direction (1 or -1) times
/// position times frequency. `from` and `to` may be the same memory.
template <typename S>
void rotate(Operand const& from,
            Operand const& to,
            double const* frequency,
            std::int64_t first,
            std::int64_t count,
            std::int64_t row,
            std::int64_t position,
            double direction) {
  using C = Compute<S>;
  C cosine[pair_chunk];
  C sine[pair_chunk];
  for (std::int64_t i = 0; i < count; ++i) {
    double const angle = static_cast<double>(position) * frequency[i];
    cosine[i] = static_cast<C>(std::cos(angle));
    sine[i] = static_cast<C>(direction * std::sin(angle));
  }
  HeadsView<S> const source{from};
  HeadsView<S> const target{to};
  std::int64_t const half = from.shape[3] / 2;
  for (std::int64_t sequence = 0; sequence < from.shape[1]; ++sequence) {
    for (std::int64_t head = 0; head < from.shape[2]; ++head) {
      S const* const x = source.head(row, sequence, head) + first;
      S* const y = target.head(row, sequence, head) + first;
      C low[pair_chunk];
      C high[pair_chunk];
      for (std::int64_t i = 0; i < count; ++i) {
        RotaryPair<C> const pair =
            turned(RotaryPair<C>{widen(x[i]), widen(x[half + i])}, cosine[i], sine[i]);
        low[i] = pair.low;
        high[i] = pair.high;
      }
      for (std::int64_t i = 0; i < count; ++i) y[i] = narrow<S>(low[i]);
      for (std::int64_t i = 0; i < count; ++i) y[half + i] = narrow<S>(high[i]);
    }
  }
}

void rotate_all(KernelContext const& context, KernelCall const& call, double direction) {
  expect_rotary(call);
  Shape const& q = call.reads[0].shape;
  double const base = attributes_of<RotaryAttributes>(call).base;
  std::int64_t const half = q[3] / 2;
  std::int64_t const row_cost = q.elements() / std::max<std::int64_t>(q[0], 1);
  with_storage_type(call, [&](auto tag) {
    for_row_ranges(*context.pool, q[0], row_cost, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t first = 0; first < half; first += pair_chunk) {
        std::int64_t const count = std::min(pair_chunk, half - first);
        double frequency[pair_chunk];
        for (std::int64_t i = 0; i < count; ++i) {
          frequency[i] = rotary_frequency(base, first + i, q[3]);
        }
        for (std::int64_t row = begin; row < end; ++row) {
          for (std::size_t i = 0; i < 2; ++i) {
            rotate<decltype(tag)>(call.reads[i], call.writes[i], frequency, first, count, row,
                                  context.sequence.row_of(row, q[0]), direction);
          }
        }
      }
    });
  });
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
  for_row_ranges(
      *context.pool, shape.s, shape.row_cost(), [&](std::int64_t begin, std::int64_t end) {
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
                RotaryPair<C> const pair =
                    turned(RotaryPair<C>{widen(from[i]), widen(from[half + i])}, cosine, sine);
                to[i] = narrow<S>(pair.low);
                to[half + i] = narrow<S>(pair.high);
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
  for_row_ranges(
      *context.pool, shape.s, shape.row_cost(), [&](std::int64_t begin, std::int64_t end) {
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
              RotaryPair<C> sum{0, 0};
              for (std::int64_t head = 0; head < shape.heads; ++head) {
                S const* const from = dq.head(at, n, head) + shape.nope;
                S* const to = d_query.head(at, n, head) + shape.nope;
                RotaryPair<C> const pair =
                    turned(RotaryPair<C>{widen(from[i]), widen(from[half + i])}, cosine, sine);
                to[i] = narrow<S>(pair.low);
                to[half + i] = narrow<S>(pair.high);
                S const* const key = dk.head(at, n, head) + shape.nope;
                sum.low += widen(key[i]);
                sum.high += widen(key[half + i]);
              }
              RotaryPair<C> const pair = turned(sum, cosine, sine);
              S* const to = d_shared.head(at, n, 0);
              to[i] = narrow<S>(pair.low);
              to[half + i] = narrow<S>(pair.high);
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
  JoinedColumns const columns = joined_columns<S>(call, a, b, joined);
  std::int64_t const left = columns.left;
  std::int64_t const right = columns.right;
  for_row_ranges(*context.pool, columns.rows, left + right,
                 [&](std::int64_t begin, std::int64_t end) {
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

void rotary(KernelContext const& context, KernelCall const& call) { rotate_all(context, call, 1); }

void rotary_backward(KernelContext const& context, KernelCall const& call) {
  rotate_all(context, call, -1);
}

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
