#pragma once

#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

namespace stagecraft {

/// Expects scores [b, heads, s, s]. Returns s.
template <typename S>
std::int64_t expect_scores(KernelCall const& call, Operand const& x) {
  expect(call, x.shape.rank() == 4 && x.shape[2] == x.shape[3] && x.shape[3] > 0,
         "the scores are not [b, heads, s, s]");
  expect_tensor(call, x, element_type<S>(), x.shape);
  return x.shape[3];
}

/// The factor on the scores.
template <typename S>
Compute<S> score_scale(KernelCall const& call) {
  return static_cast<Compute<S>>(attributes_of<SoftmaxAttributes>(call).scale);
}

}  // namespace stagecraft
