#include "libexec/kernels/operands/step_operands.hpp"

#include "libexec/kernels/cpu/exact_sum.hpp"

namespace stagecraft {
namespace {

constexpr double norm_guard = 1e-6;  ///< Megatron's clip_grad_by_total_norm

/// Whether the overflow that an op reads at this position, if it reads one, is set.
bool is_set(KernelCall const& call, std::size_t overflow) {
  return call.reads.size() > overflow && *elements_of<float>(call.reads[overflow]) != 0;
}

/// The factor that clips gradients with this sum of squares to the largest norm; at most 1.
double factor_within(ClipAttributes const& clip, Operand const& squares) {
  if (clip.largest_norm == 0) return 1;
  double const norm = std::sqrt(static_cast<ExactSum const*>(squares.data)->value());
  double const factor = clip.largest_norm / (norm + norm_guard);
  return factor >= 1 ? 1 : factor;
}

}  // namespace

void expect_adam(KernelCall const& call) {
  Operand const& parameters = call.reads[0];
  for (std::size_t i = 0; i < 4; ++i) {
    expect_elements(call, call.reads[i], parameters.type, parameters.shape.elements());
  }
}

void expect_ahead(KernelCall const& call) {
  std::int64_t const elements = call.reads[0].shape.elements();
  for (std::size_t i = 0; i < 4; ++i) {
    expect_elements(call, call.reads[i], ElementType::f32, elements);
  }
  expect_elements(call, call.writes[0], call.writes[0].type, elements);
  expect(call, element_size(call.writes[0].type) == 2, "the parameters are not of 16 bits");
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
  if (is_set(call, 2)) return 1;
  return factor_within(attributes_of<ClipAttributes>(call), call.reads[1]);
}

bool steps_ahead(KernelCall const& call) {
  if (is_set(call, 6)) return false;
  return factor_within(attributes_of<AdamAheadAttributes>(call).clip, call.reads[5]) == 1;
}

bool is_skipped(KernelCall const& call) { return is_set(call, call.kind == OpKind::adam ? 5 : 1); }

}  // namespace stagecraft
