#include <algorithm>
#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/expert_rows.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lanes.hpp"
#include "libexec/kernels/operands/activation_operands.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// The number of columns that are processed at a time.
constexpr std::int64_t chunk = 256;

/// A bias of zeros, so that rows without a bias use the same loop.
template <typename S>
constexpr S no_activation_bias[chunk] = {};

/// Calls body(row, first column, columns, bias of the first column) over [0, rows) x [0, columns).
template <typename S, typename Body>
void for_chunks(KernelContext const& context,
                std::int64_t rows,
                std::int64_t columns,
                S const* bias,
                Body const& body) {
  for_row_ranges(*context.pool, rows, columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t first = 0; first < columns; first += chunk) {
        std::int64_t const width = std::min(chunk, columns - first);
        body(row, first, width, bias == nullptr ? no_activation_bias<S> : bias + first);
      }
    }
  });
}

template <typename Function, typename S>
void activate(KernelContext const& context, KernelCall const& call) {
  auto const of = expect_activation<S>(call, 1);
  std::int64_t const f = of.columns;
  for_chunks(context, of.rows, f, of.bias,
             [&](std::int64_t row, std::int64_t first, std::int64_t width, S const* b) {
               S const* const from = of.x + row * f + first;
               S* const to = of.y + row * f + first;
               for (std::int64_t i = 0; i < width; ++i) {
                 to[i] = narrow<S>(Function::value(widen(from[i]) + widen(b[i])));
               }
             });
}

template <typename S>
void gelu_backward_of(KernelContext const& context, KernelCall const& call) {
  auto const of = expect_activation_backward<S>(call, 1);
  std::int64_t const f = of.columns;
  for_chunks(context, of.rows, f, of.bias,
             [&](std::int64_t row, std::int64_t first, std::int64_t width, S const* b) {
               S const* const dy = of.dy + row * f + first;
               S const* const from = of.x + row * f + first;
               S* const dx = of.dx + row * f + first;
               for (std::int64_t i = 0; i < width; ++i) {
                 dx[i] = narrow<S>(widen(dy[i]) * gelu_derivative(widen(from[i]) + widen(b[i])));
               }
             });
}

/// y is positive exactly where x was.
template <typename S>
void relu_backward_of(KernelContext const& context, KernelCall const& call) {
  auto const of = expect_activation_backward<S>(call, 1);
  std::int64_t const f = of.columns;
  for_chunks<S>(context, of.rows, f, nullptr,
                [&](std::int64_t row, std::int64_t first, std::int64_t width, S const*) {
                  S const* const dy = of.dy + row * f + first;
                  S const* const from = of.x + row * f + first;
                  S* const dx = of.dx + row * f + first;
                  for (std::int64_t i = 0; i < width; ++i) {
                    dx[i] = narrow<S>(widen(dy[i]) * Relu::slope_at_value(widen(from[i])));
                  }
                });
}

template <typename Function, typename S>
void gated_of(KernelContext const& context, KernelCall const& call) {
  auto const of = expect_activation<S>(call, 2);
  std::int64_t const f = of.columns;
  for_chunks(context, of.rows, f, of.bias,
             [&](std::int64_t row, std::int64_t first, std::int64_t width, S const* b) {
               S const* const gate = of.x + row * 2 * f + first;
               S const* const up = gate + f;
               S const* const up_bias = of.bias == nullptr ? b : b + f;
               S* const to = of.y + row * f + first;
               for (std::int64_t i = 0; i < width; ++i) {
                 to[i] = narrow<S>(Function::value(widen(gate[i]) + widen(b[i]),
                                                   widen(up[i]) + widen(up_bias[i])));
               }
             });
}

template <typename Function, typename S>
void gated_backward_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  auto const of = expect_activation_backward<S>(call, 2);
  std::int64_t const f = of.columns;
  for_chunks(context, of.rows, f, of.bias,
             [&](std::int64_t row, std::int64_t first, std::int64_t width, S const* b) {
               S const* const d = of.dy + row * f + first;
               S const* const gate = of.x + row * 2 * f + first;
               S const* const up = gate + f;
               S const* const up_bias = of.bias == nullptr ? b : b + f;
               S* const d_gate = of.dx + row * 2 * f + first;
               S* const d_up = d_gate + f;
               for (std::int64_t i = 0; i < width; ++i) {
                 C const g = widen(gate[i]) + widen(b[i]);
                 C const u = widen(up[i]) + widen(up_bias[i]);
                 C const gradient = widen(d[i]);
                 d_gate[i] = narrow<S>(Function::gate_gradient(gradient, g, u));
                 d_up[i] = narrow<S>(Function::up_gradient(gradient, g, u));
               }
             });
}

template <typename Function, bool is_gated, typename S>
void weigh(KernelContext const& context, KernelCall const& call) {
  auto const all =
      expect_weighted_rows<S>(call, call.reads[0], call.reads[1], call.writes[0], is_gated ? 2 : 1);
  for_row_ranges(*context.pool, all.rows, all.width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      S const* const x = elements_of<S>(call.reads[0]) + row * all.input;
      S* const y = elements_of<S>(call.writes[0]) + row * all.width;
      auto const p = all.probabilities[row];
      for (std::int64_t i = 0; i < all.width; ++i) {
        auto const up = is_gated ? widen(x[all.width + i]) : decltype(widen(x[i])){0};
        y[i] = narrow<S>(Function::value(widen(x[i]), up) * p);
      }
    }
  });
}

template <typename Function, bool is_gated, typename S>
void weigh_backward(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  Operand const& dy = call.reads[0];
  Operand const& of_x = call.reads[1];
  auto const all = expect_weighted_rows_backward<S>(call, is_gated ? 2 : 1);
  for_row_ranges(*context.pool, all.rows, all.width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      S const* const d = elements_of<S>(dy) + row * all.width;
      S const* const x = elements_of<S>(of_x) + row * all.input;
      S* const dx = elements_of<S>(call.writes[0]) + row * all.input;
      C const p = all.probabilities[row];
      elements_of<C>(call.writes[1])[row] = lane_sum<C>(all.width, [&](std::int64_t i) {
        C const up = is_gated ? C{widen(x[all.width + i])} : C{0};
        return Function::value(C{widen(x[i])}, up) * widen(d[i]);
      });
      for (std::int64_t i = 0; i < all.width; ++i) {
        C const up = is_gated ? C{widen(x[all.width + i])} : C{0};
        auto const gradients =
            input_gradients<Function, is_gated>(C{widen(d[i]) * p}, C{widen(x[i])}, up);
        dx[i] = narrow<S>(gradients.gate);
        if constexpr (is_gated) dx[all.width + i] = narrow<S>(gradients.up);
      }
    }
  });
}

}  // namespace

void gelu(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { activate<Gelu, decltype(tag)>(context, call); });
}

void gelu_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { gelu_backward_of<decltype(tag)>(context, call); });
}

void relu(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { activate<Relu, decltype(tag)>(context, call); });
}

void relu_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { relu_backward_of<decltype(tag)>(context, call); });
}

void swiglu(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { gated_of<Gated<Silu>, decltype(tag)>(context, call); });
}

void swiglu_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(
      call, [&](auto tag) { gated_backward_of<Gated<Silu>, decltype(tag)>(context, call); });
}

void geglu(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { gated_of<Gated<Gelu>, decltype(tag)>(context, call); });
}

void geglu_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(
      call, [&](auto tag) { gated_backward_of<Gated<Gelu>, decltype(tag)>(context, call); });
}

void swiglu_clamped(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { gated_of<ClampedSwiglu, decltype(tag)>(context, call); });
}

void swiglu_clamped_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(
      call, [&](auto tag) { gated_backward_of<ClampedSwiglu, decltype(tag)>(context, call); });
}

void weighted_activation(KernelContext const& context, KernelCall const& call) {
  auto const activation = attributes_of<ActivationAttributes>(call).activation;
  with_storage_type(call, [&](auto tag) {
    with_function(activation, [&](auto function, auto gated) {
      weigh<decltype(function), decltype(gated)::value, decltype(tag)>(context, call);
    });
  });
}

void weighted_activation_backward(KernelContext const& context, KernelCall const& call) {
  auto const activation = attributes_of<ActivationAttributes>(call).activation;
  with_storage_type(call, [&](auto tag) {
    with_function(activation, [&](auto function, auto gated) {
      weigh_backward<decltype(function), decltype(gated)::value, decltype(tag)>(context, call);
    });
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
