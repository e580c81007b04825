#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/element.hpp"
#include "libexec/kernels/matrix_batch.hpp"

namespace stagecraft::cuda_ops {

void gemm(CudaContext const& context, KernelCall const& call) {
  MatrixProduct const product = product_of(call);
  with_storage_type(call.kind, product.a.type, [&](auto tag) {
    using S = decltype(tag);
    expect(call, product.b.type == product.a.type, "A and B differ in type");
    expect(call,
           product.c.type == element_type<S>() || product.c.type == element_type<Compute<S>>(),
           "C is of the wrong type");
  });
  context.gemm->multiply(product);
}

}  // namespace stagecraft::cuda_ops
