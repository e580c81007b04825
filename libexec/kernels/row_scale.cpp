#include <type_traits>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lane_reduction.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// A factor and its derivative by what it is made of.
template <typename C>
struct Factor {
  C value;
  C slope;
};

template <typename C>
Factor<C> factor_of(RowFactor kind, C x) {
  if (kind == RowFactor::identity) return {x, C{1}};
  C const value = sigmoid(x);
  return {value, value * (C{1} - value)};
}

/// Calls body(element, factor) with their types: factors are of the elements' type, or of the type
/// in which these are computed.
template <typename Body>
void with_types(KernelCall const& call,
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

template <typename S, typename F>
void scale(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  Operand const& x = call.reads[0];
  std::int64_t const rows = call.reads[1].shape.elements();
  std::int64_t const width = x.shape.elements() / rows;
  expect_tensor(call, x, element_type<S>(), x.shape);
  expect_elements(call, call.reads[1], element_type<F>(), rows);
  expect_tensor(call, call.writes[0], element_type<S>(), x.shape);
  RowFactor const kind = attributes_of<RowScaleAttributes>(call).factor;
  for_row_ranges(*context.pool, rows, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      C const factor = factor_of(kind, C{widen(elements_of<F>(call.reads[1])[row])}).value;
      S const* const from = elements_of<S>(x) + row * width;
      S* const to = elements_of<S>(call.writes[0]) + row * width;
      for (std::int64_t i = 0; i < width; ++i) to[i] = narrow<S>(widen(from[i]) * factor);
    }
  });
}

template <typename S, typename F>
void scale_back(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  Operand const& x = call.reads[1];
  Operand const& factors = call.reads[2];
  std::int64_t const rows = factors.shape.elements();
  std::int64_t const width = x.shape.elements() / rows;
  expect_tensor(call, x, element_type<S>(), x.shape);
  expect_elements(call, call.reads[0], element_type<S>(), x.shape.elements());
  expect_elements(call, factors, element_type<F>(), rows);
  expect_tensor(call, call.writes[0], element_type<S>(), x.shape);
  expect_elements(call, call.writes[1], element_type<F>(), rows);
  RowFactor const kind = attributes_of<RowScaleAttributes>(call).factor;
  for_row_ranges(*context.pool, rows, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      auto const factor = factor_of(kind, C{widen(elements_of<F>(factors)[row])});
      S const* const d = elements_of<S>(call.reads[0]) + row * width;
      S const* const from = elements_of<S>(x) + row * width;
      S* const dx = elements_of<S>(call.writes[0]) + row * width;
      C const product =
          lane_sum<C>(width, [&](std::int64_t i) { return C{widen(d[i])} * C{widen(from[i])}; });
      elements_of<F>(call.writes[1])[row] = narrow<F>(product * factor.slope);
      for (std::int64_t i = 0; i < width; ++i) dx[i] = narrow<S>(widen(d[i]) * factor.value);
    }
  });
}

}  // namespace

void scale_rows(KernelContext const& context, KernelCall const& call) {
  with_types(call, call.reads[0], call.reads[1], [&](auto element, auto factor) {
    scale<decltype(element), decltype(factor)>(context, call);
  });
}

void scale_rows_backward(KernelContext const& context, KernelCall const& call) {
  with_types(call, call.reads[1], call.reads[2], [&](auto element, auto factor) {
    scale_back<decltype(element), decltype(factor)>(context, call);
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
