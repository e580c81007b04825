#include <cstdint>

#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lane_reduction.hpp"
#include "libexec/kernels/row_factor.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

template <typename S, typename F>
void scale(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  ScaledRows const all = expect_scaled_rows<S, F>(call);
  std::int64_t const width = all.width;
  RowFactor const kind = attributes_of<RowScaleAttributes>(call).factor;
  for_row_ranges(*context.pool, all.rows, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      C const factor = factor_of(kind, C{widen(elements_of<F>(call.reads[1])[row])}).value;
      S const* const from = elements_of<S>(call.reads[0]) + row * width;
      S* const to = elements_of<S>(call.writes[0]) + row * width;
      for (std::int64_t i = 0; i < width; ++i) to[i] = narrow<S>(widen(from[i]) * factor);
    }
  });
}

template <typename S, typename F>
void scale_back(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  ScaledRows const all = expect_scaled_rows_backward<S, F>(call);
  std::int64_t const width = all.width;
  RowFactor const kind = attributes_of<RowScaleAttributes>(call).factor;
  for_row_ranges(*context.pool, all.rows, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      auto const factor = factor_of(kind, C{widen(elements_of<F>(call.reads[2])[row])});
      S const* const d = elements_of<S>(call.reads[0]) + row * width;
      S const* const from = elements_of<S>(call.reads[1]) + row * width;
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
  with_factor_types(call, call.reads[0], call.reads[1], [&](auto element, auto factor) {
    scale<decltype(element), decltype(factor)>(context, call);
  });
}

void scale_rows_backward(KernelContext const& context, KernelCall const& call) {
  with_factor_types(call, call.reads[1], call.reads[2], [&](auto element, auto factor) {
    scale_back<decltype(element), decltype(factor)>(context, call);
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
