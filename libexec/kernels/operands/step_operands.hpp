#pragma once

#include <cmath>
#include <cstdint>

#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

/// What the step kernels of all backends compute, and how they check their operands. Gradients,
/// master copies and moments are f32, or f64 in f64 models. Results do not depend on the number of
/// threads.
namespace stagecraft {

/// Calls `body(C{})` for a flat range of f32 or f64.
template <typename Body>
void with_wide_type(KernelCall const& call, Operand const& range, Body const& body) {
  expect_elements(call, range, range.type, range.shape.elements());
  if (range.type == ElementType::f32) return body(float{});
  if (range.type == ElementType::f64) return body(double{});
  refuse(call.kind, "a range is neither f32 nor f64");
}

/// Expects ranges of one type and size.
void expect_adam(KernelCall const& call);

/// Expects f32 optimizer state and gradients, and 16-bit parameters, of one size.
void expect_ahead(KernelCall const& call);

/// Expects an f32 master copy and 16-bit parameters, of one size.
void expect_narrowing(KernelCall const& call);

/// One over the loss scale. Pre: the call is an unscale_gradients.
double unscaling_factor(KernelCall const& call);
/// Records that a gradient is infinite or not a number. Pre: likewise.
void note_overflow(KernelCall const& call);

/// Adds the sum of a range, without rounding. Pre: the call is a gradient_norm.
void add_squares(KernelCall const& call, double sum);

/// At most 1; 1 after an overflow. Pre: the call is a clip_gradients.
/// Source: Megatron-LM, clip_grads.py.
double clip_factor(KernelCall const& call);

/// Whether the norm and the overflow so far are such that the step may not need clipping, nor be
/// skipped. Pre: the call is an adam_ahead.
bool steps_ahead(KernelCall const& call);

/// Whether a gradient was infinite, so that parameters do not change.
/// Pre: the call is an adam or a narrow_parameters.
bool is_skipped(KernelCall const& call);

/// The Adam update of one element,
///   parameter = decay * parameter
///               - learning rate * (m / (1 - beta1^n)) / (sqrt(v / (1 - beta2^n)) + epsilon)
/// in the n-th update, n from 1 on. 16-bit models update their master copy, others the parameters.
template <typename C>
struct AdamStep {
  C beta1, beta2, one_minus_beta1, one_minus_beta2;
  C rate;               ///< learning rate, corrected for the bias of the first moment
  C second_correction;  ///< of the second moment's bias
  C epsilon, decay;

  explicit AdamStep(KernelCall const& call)
      : AdamStep{call.kind == OpKind::adam_ahead ? attributes_of<AdamAheadAttributes>(call).adam
                                                 : attributes_of<AdamAttributes>(call),
                 static_cast<double>(*elements_of<std::int64_t>(call.reads[4]) + 1), call.decays} {}

  AdamStep(AdamAttributes const& adam, double n, bool decays)
      : beta1{static_cast<C>(adam.beta1)},
        beta2{static_cast<C>(adam.beta2)},
        one_minus_beta1{static_cast<C>(1 - adam.beta1)},
        one_minus_beta2{static_cast<C>(1 - adam.beta2)},
        rate{static_cast<C>(adam.learning_rate / (1 - std::pow(adam.beta1, n)))},
        second_correction{static_cast<C>(1 / (1 - std::pow(adam.beta2, n)))},
        epsilon{static_cast<C>(adam.epsilon)},
        decay{static_cast<C>(decays ? 1 - adam.learning_rate * adam.weight_decay : 1)} {}

  STAGECRAFT_HOST_DEVICE void update(C& parameter, C& first, C& second, C gradient) const {
    first = beta1 * first + one_minus_beta1 * gradient;
    second = beta2 * second + one_minus_beta2 * gradient * gradient;
    C const root = std::sqrt(second * second_correction);
    parameter = decay * parameter - rate * first / (root + epsilon);
  }
};

}  // namespace stagecraft
