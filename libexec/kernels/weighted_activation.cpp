#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "libexec/kernels/activation_operands.hpp"
#include "libexec/kernels/element.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lane_reduction.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// Calls body(function, is gated) for an activation.
template <typename Body>
void with_function(Activation activation, Body const& body) {
  switch (activation) {
    case Activation::gelu:
      return body(Gelu{}, std::false_type{});
    case Activation::relu:
      return body(Relu{}, std::false_type{});
    case Activation::swiglu:
      return body(Silu{}, std::true_type{});
    case Activation::geglu:
      return body(Gelu{}, std::true_type{});
    case Activation::swiglu_clamped:
      throw std::logic_error{"weighted_activation: swiglu_clamped has no weighted form"};
  }
}

/// The derivative of an activation that is not gated.
template <typename Function, typename C>
C slope_of(C x) {
  if constexpr (std::is_same_v<Function, Relu>) {
    return Relu::slope_at_value(Relu::value(x));
  } else {
    return Function::slope(x);
  }
}

/// The operands of a call by row.
template <typename S>
struct WeightedRows {
  using C = Compute<S>;
  std::int64_t width;  ///< of the output
  std::int64_t input;  ///< of the input
  std::int64_t rows;
  C const* probabilities;
};

template <typename S>
WeightedRows<S> rows_of(KernelCall const& call,
                        Operand const& x,
                        Operand const& probabilities,
                        Operand const& y,
                        int branches) {
  using C = Compute<S>;
  std::int64_t const width = expect_activation<S>(call, x, y, branches);
  std::int64_t const rows = y.shape.elements() / width;
  expect_elements(call, probabilities, element_type<C>(), rows);
  return {width, branches * width, rows, elements_of<C>(probabilities)};
}

template <typename Function, bool is_gated, typename S>
void weigh(KernelContext const& context, KernelCall const& call) {
  auto const all = rows_of<S>(call, call.reads[0], call.reads[1], call.writes[0], is_gated ? 2 : 1);
  for_row_ranges(*context.pool, all.rows, all.width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      S const* const x = elements_of<S>(call.reads[0]) + row * all.input;
      S* const y = elements_of<S>(call.writes[0]) + row * all.width;
      auto const p = all.probabilities[row];
      for (std::int64_t i = 0; i < all.width; ++i) {
        auto value = Function::value(widen(x[i]));
        if constexpr (is_gated) value *= widen(x[all.width + i]);
        y[i] = narrow<S>(value * p);
      }
    }
  });
}

template <typename Function, bool is_gated, typename S>
void weigh_backward(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  Operand const& dy = call.reads[0];
  Operand const& of_x = call.reads[1];
  auto const all = rows_of<S>(call, of_x, call.reads[2], dy, is_gated ? 2 : 1);
  expect_tensor(call, call.writes[0], element_type<S>(), of_x.shape);
  expect_elements(call, call.writes[1], element_type<C>(), all.rows);
  for_row_ranges(*context.pool, all.rows, all.width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      S const* const d = elements_of<S>(dy) + row * all.width;
      S const* const x = elements_of<S>(of_x) + row * all.input;
      S* const dx = elements_of<S>(call.writes[0]) + row * all.input;
      C const p = all.probabilities[row];
      elements_of<C>(call.writes[1])[row] = lane_sum<C>(all.width, [&](std::int64_t i) {
        C value = Function::value(C{widen(x[i])});
        if constexpr (is_gated) value *= widen(x[all.width + i]);
        return value * widen(d[i]);
      });
      for (std::int64_t i = 0; i < all.width; ++i) {
        C const g = widen(x[i]);
        C const gradient = widen(d[i]) * p;
        if constexpr (is_gated) {
          C const u = widen(x[all.width + i]);
          dx[i] = narrow<S>(gradient * u * Function::slope(g));
          dx[all.width + i] = narrow<S>(gradient * Function::value(g));
        } else {
          dx[i] = narrow<S>(gradient * slope_of<Function>(g));
        }
      }
    }
  });
}

}  // namespace

void weighted_activation(KernelContext const& context, KernelCall const& call) {
  auto const activation = attributes_of<ActivationAttributes>(call).activation;
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    with_function(activation, [&](auto function, auto gated) {
      weigh<decltype(function), decltype(gated)::value, decltype(tag)>(context, call);
    });
  });
}

void weighted_activation_backward(KernelContext const& context, KernelCall const& call) {
  auto const activation = attributes_of<ActivationAttributes>(call).activation;
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    with_function(activation, [&](auto function, auto gated) {
      weigh_backward<decltype(function), decltype(gated)::value, decltype(tag)>(context, call);
    });
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
