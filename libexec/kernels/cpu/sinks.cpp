#include <cmath>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lane_reduction.hpp"
#include "libexec/kernels/operands/partial_operands.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// d_sinks[head] -= the sum over all rows of exp(sink - log_sum) (d_context . context): a sink has
/// a value of zeros, so that the gradient of its probability is only what the softmax takes off.
template <typename S>
void sinks_gradient_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  ContextShape const shape = sinks_shape<S>(call);
  S const* const gradients = elements_of<S>(call.reads[0]);
  S const* const values = elements_of<S>(call.reads[1]);
  C const* const log_sums = elements_of<C>(call.reads[2]);
  S const* const sinks = elements_of<S>(call.reads[3]);
  C* const d_sinks = elements_of<C>(call.writes[0]);
  context.pool->run(shape.heads, [&](std::int64_t head, int) {
    C const sink = widen(sinks[head]);
    C sum = 0;
    for (std::int64_t sequence = 0; sequence < shape.b; ++sequence) {
      for (std::int64_t row = 0; row < shape.s; ++row) {
        std::int64_t const place = ((row * shape.b + sequence) * shape.heads + head) * shape.d;
        C const product = lane_sum<C>(shape.d, [&](std::int64_t i) {
          return widen(gradients[place + i]) * widen(values[place + i]);
        });
        sum += std::exp(sink - log_sums[(sequence * shape.heads + head) * shape.s + row]) * product;
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
