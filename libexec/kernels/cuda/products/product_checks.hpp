#pragma once

#include "libexec/kernels/cpu/matrix_batch.hpp"
#include "libexec/kernels/element.hpp"

namespace stagecraft::cuda_ops {

/// Expects types that cuBLASLt multiplies: A and B have the same one, and C has it too or has that
/// in which the sums are kept.
inline void expect_product_types(KernelCall const& call, MatrixProduct const& product) {
  with_storage_type(call.kind, product.a.type, [&](auto tag) {
    using S = decltype(tag);
    expect(call, product.b.type == product.a.type, "A and B differ in type");
    expect(call,
           product.c.type == element_type<S>() || product.c.type == element_type<Compute<S>>(),
           "C is of the wrong type");
  });
}

}  // namespace stagecraft::cuda_ops
