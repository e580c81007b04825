#include <cstdint>

#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lane_reduction.hpp"
#include "libexec/kernels/row_ranges.hpp"
#include "libexec/kernels/weighted_rows.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

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
