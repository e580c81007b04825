#pragma once

#include <cstdint>

#include "libexec/kernels/cpu/exact_sum.hpp"
#include "libexec/kernels/kernel_call.hpp"
#include "tests/libexec/kernels/kernel_test.hpp"

/// Calls of the step's kernels on flat ranges, for tests of every backend.
namespace stagecraft::test {

/// What the ops of a step read and write in host memory.
struct StepNumbers {
  double loss_scale = 65536;
  std::int64_t updates = 0;
  float overflow = 0;
  ExactSum squares{};

  Operand scale() { return FlatRange{&loss_scale, ElementType::f64, 1}.operand(); }
  Operand update_count() { return FlatRange{&updates, ElementType::i64, 1}.operand(); }
  Operand flag() { return FlatRange{&overflow, ElementType::f32, 1}.operand(); }
  Operand sum() { return FlatRange{&squares, ElementType::i64, ExactSum::digits + 1}.operand(); }
};

inline KernelCall step_call(OpKind kind,
                            std::vector<Operand> const& reads,
                            std::vector<Operand> const& writes,
                            OpAttributes const& attributes = {}) {
  KernelCall call = make_call(kind, reads, writes);
  call.attributes = attributes;
  return call;
}

inline KernelCall zeroing(Operand const& x) { return step_call(OpKind::zero_gradients, {}, {x}); }
inline KernelCall scaling(Operand const& x, double factor) {
  return step_call(OpKind::scale_gradients, {x}, {x}, ScaleAttributes{factor});
}
inline KernelCall unscaling(Operand const& x, StepNumbers& numbers) {
  return step_call(OpKind::unscale_gradients, {x, numbers.scale()}, {x, numbers.flag()});
}
inline KernelCall squaring(Operand const& x, StepNumbers& numbers) {
  return step_call(OpKind::gradient_norm, {x}, {numbers.sum()});
}
inline KernelCall clipping(Operand const& x, StepNumbers& numbers, double largest_norm) {
  return step_call(OpKind::clip_gradients, {x, numbers.sum(), numbers.flag()}, {x},
                   ClipAttributes{largest_norm});
}
inline KernelCall adam_update(AdamAttributes const& adam,
                              std::vector<Operand> const& state,
                              Operand const& gradient,
                              StepNumbers& numbers) {
  KernelCall call =
      step_call(OpKind::adam,
                {state[0], state[1], state[2], gradient, numbers.update_count(), numbers.flag()},
                state, adam);
  call.decays = true;
  return call;
}
inline KernelCall narrowing(Operand const& master,
                            Operand const& parameters,
                            StepNumbers& numbers) {
  return step_call(OpKind::narrow_parameters, {master, numbers.flag()}, {parameters});
}

/// `state`: master, first and second moment. The squares so far are those of `numbers`.
inline KernelCall stepping_ahead(AdamAheadAttributes const& ahead,
                                 std::vector<Operand> const& state,
                                 Operand const& gradient,
                                 Operand const& parameters,
                                 StepNumbers& numbers) {
  KernelCall call = step_call(OpKind::adam_ahead,
                              {state[0], state[1], state[2], gradient, numbers.update_count(),
                               numbers.sum(), numbers.flag()},
                              {parameters}, ahead);
  call.decays = true;
  return call;
}

}  // namespace stagecraft::test
