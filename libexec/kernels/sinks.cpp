#include <cmath>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lane_reduction.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// d_sinks[head] -= the sum over all rows of exp(sink - log_sum) (d_context . context): a sink has
/// a value of zeros, so that the gradient of its probability is only what the softmax takes off.
template <typename S>
void sinks_gradient_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  Operand const& sums = call.reads[2];
  Operand const& output = call.reads[1];
  expect(call, sums.shape.rank() == 3 && output.shape.rank() == 3,
         "context is not [s, b, h] or the sums are not [b, heads, s]");
  std::int64_t const b = sums.shape[0];
  std::int64_t const heads = sums.shape[1];
  std::int64_t const s = sums.shape[2];
  expect(call, heads > 0 && output.shape[2] % heads == 0, "rows do not fall into heads");
  std::int64_t const d = output.shape[2] / heads;
  expect_tensor(call, output, element_type<S>(), {s, b, heads * d});
  expect_tensor(call, call.reads[0], element_type<S>(), output.shape);
  expect_tensor(call, sums, element_type<C>(), sums.shape);
  expect_tensor(call, call.reads[3], element_type<S>(), {heads});
  expect_tensor(call, call.writes[0], element_type<C>(), {heads});
  S const* const gradients = elements_of<S>(call.reads[0]);
  S const* const values = elements_of<S>(output);
  C const* const log_sums = elements_of<C>(sums);
  S const* const sinks = elements_of<S>(call.reads[3]);
  C* const d_sinks = elements_of<C>(call.writes[0]);
  context.pool->run(heads, [&](std::int64_t head, int) {
    C const sink = widen(sinks[head]);
    C sum = 0;
    for (std::int64_t sequence = 0; sequence < b; ++sequence) {
      for (std::int64_t row = 0; row < s; ++row) {
        std::int64_t const place = ((row * b + sequence) * heads + head) * d;
        C const product = lane_sum<C>(d, [&](std::int64_t i) {
          return widen(gradients[place + i]) * widen(values[place + i]);
        });
        sum += std::exp(sink - log_sums[(sequence * heads + head) * s + row]) * product;
      }
    }
    d_sinks[head] -= sum;
  });
}

}  // namespace

void sinks_gradient(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[1].type,
                    [&](auto tag) { sinks_gradient_of<decltype(tag)>(context, call); });
}

}  // namespace stagecraft::STAGECRAFT_ISA
