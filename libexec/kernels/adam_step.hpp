#pragma once

#include <cmath>

#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operand_checks.hpp"
#include "libexec/kernels/optimizer_kernels.hpp"

/// What the step kernels of all backends compute and ask of their ranges.
namespace stagecraft {

/// Calls `body(C{})` for f32 or f64.
template <typename Body>
void with_wide_type(OpKind kind, ElementType type, Body const& body) {
  if (type == ElementType::f32) return body(float{});
  if (type == ElementType::f64) return body(double{});
  refuse(kind, "a range is neither f32 nor f64");
}

/// Expects the ranges of adam(): of one type and size.
inline void expect_adam(AdamUpdate const& update,
                        FlatRange const& parameters,
                        FlatRange const& first_moment,
                        FlatRange const& second_moment,
                        FlatRange const& gradient) {
  for (FlatRange const* range : {&first_moment, &second_moment, &gradient}) {
    if (range->type != parameters.type || range->elements != parameters.elements) {
      refuse(OpKind::adam, "ranges differ in type or size");
    }
  }
  if (update.step < 1) refuse(OpKind::adam, "steps count from 1");
}

/// Expects the ranges of narrow_parameters().
inline void expect_narrowing(FlatRange const& master, FlatRange const& parameters) {
  if (master.type != ElementType::f32 || master.elements != parameters.elements) {
    refuse(OpKind::narrow_parameters, "the master copy is not f32, or differs in size");
  }
  if (element_size(parameters.type) != 2) {
    refuse(OpKind::narrow_parameters, "the parameters are not of 16 bits");
  }
}

/// adam() for one element: the factors that all elements share, and the update.
template <typename C>
struct AdamStep {
  C beta1, beta2, one_minus_beta1, one_minus_beta2;
  C rate;               ///< learning rate, corrected for the bias of the first moment
  C second_correction;  ///< of the second moment's bias
  C epsilon, decay;

  explicit AdamStep(AdamUpdate const& update)
      : beta1{static_cast<C>(update.beta1)},
        beta2{static_cast<C>(update.beta2)},
        one_minus_beta1{static_cast<C>(1 - update.beta1)},
        one_minus_beta2{static_cast<C>(1 - update.beta2)},
        rate{static_cast<C>(update.learning_rate /
                            (1 - std::pow(update.beta1, static_cast<double>(update.step))))},
        second_correction{
            static_cast<C>(1 / (1 - std::pow(update.beta2, static_cast<double>(update.step))))},
        epsilon{static_cast<C>(update.epsilon)},
        decay{static_cast<C>(update.decay_factor)} {}

  STAGECRAFT_HOST_DEVICE void update(C& parameter, C& first, C& second, C gradient) const {
    first = beta1 * first + one_minus_beta1 * gradient;
    second = beta2 * second + one_minus_beta2 * gradient * gradient;
    C const root = std::sqrt(second * second_correction);
    parameter = decay * parameter - rate * first / (root + epsilon);
  }
};

}  // namespace stagecraft
