#include "libexec/kernels/step_operands.hpp"

#include "libexec/kernels/exact_sum.hpp"

namespace stagecraft {
namespace {

constexpr double norm_guard = 1e-6;  ///< Megatron's clip_grad_by_total_norm

/// Whether the overflow that an op reads at this position, if it reads one, is set.
bool is_set(KernelCall const& call, std::size_t overflow) {
  return call.reads.size() > overflow && *elements_of<float>(call.reads[overflow]) != 0;
}

}  // namespace

void expect_adam(KernelCall const& call) {
  Operand const& parameters = call.reads[0];
  for (std::size_t i = 0; i < 4; ++i) {
    expect_elements(call, call.reads[i], parameters.type, parameters.shape.elements());
  }
}

void expect_narrowing(KernelCall const& call) {
  std::int64_t const elements = call.reads[0].shape.elements();
  expect_elements(call, call.reads[0], ElementType::f32, elements);
  expect_elements(call, call.writes[0], call.writes[0].type, elements);
  expect(call, element_size(call.writes[0].type) == 2, "the parameters are not of 16 bits");
}

double unscaling_factor(KernelCall const& call) { return 1 / *elements_of<double>(call.reads[1]); }

void note_overflow(KernelCall const& call) { *elements_of<float>(call.writes[1]) = 1; }

void add_squares(KernelCall const& call, double sum) {
  static_cast<ExactSum*>(call.writes[0].data)->add(sum);
}

double clip_factor(KernelCall const& call) {
  double const largest = attributes_of<ClipAttributes>(call).largest_norm;
  if (largest == 0 || is_set(call, 2)) return 1;
  double const norm = std::sqrt(static_cast<ExactSum const*>(call.reads[1].data)->value());
  double const factor = largest / (norm + norm_guard);
  return factor >= 1 ? 1 : factor;
}

bool is_skipped(KernelCall const& call) { return is_set(call, call.kind == OpKind::adam ? 5 : 1); }

}  // namespace stagecraft
