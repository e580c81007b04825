#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/products/product_checks.hpp"

namespace stagecraft::cuda_ops {

void grouped_gemm(CudaContext const& context, KernelCall const& call) {
  if (call.reads.size() == 2) {
    MatrixProduct const product = grouped_product_of(call);
    expect_product_types(call, product);
    context.gemm->multiply(product);
    return;
  }
  auto const counts = static_cast<std::size_t>(call.reads[2].shape.elements());
  expect(call, call.counts.size() == counts, "the counts are not in host memory");
  for (MatrixProduct const& product : uneven_products_of(call)) {
    expect_product_types(call, product);
    context.gemm->multiply_group(product);
  }
}

}  // namespace stagecraft::cuda_ops
