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

/// An activation that is not gated, as one whose `up` is absent.
template <typename Function>
struct Ungated {
  template <typename C>
  static C value(C x, C /*up*/) {
    return Function::value(x);
  }
  template <typename C>
  static C gate_gradient(C dy, C x, C /*up*/) {
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
        C const up = is_gated ? C{widen(x[all.width + i])} : C{0};
        return Function::value(C{widen(x[i])}, up) * widen(d[i]);
      });
      for (std::int64_t i = 0; i < all.width; ++i) {
        C const g = widen(x[i]);
        C const gradient = widen(d[i]) * p;
        if constexpr (is_gated) {
          C const u = widen(x[all.width + i]);
          dx[i] = narrow<S>(Function::gate_gradient(gradient, g, u));
          dx[all.width + i] = narrow<S>(Function::up_gradient(gradient, g, u));
        } else {
          dx[i] = narrow<S>(Function::gate_gradient(gradient, g, C{0}));
        }
      }
    }
  });
}

}  // namespace

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
