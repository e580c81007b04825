#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/products/product_checks.hpp"

namespace stagecraft::cuda_ops {
namespace {

MatrixProduct checked_product(KernelCall const& call) {
  MatrixProduct const product = product_of(call);
  expect_product_types(call, product);
  return product;
}

/// The third operand, or null.
void const* bias_of(KernelCall const& call, MatrixProduct const& product) {
  if (call.reads.size() < 3) return nullptr;
  expect(call, product.shape.batch == 1 && !product.shape.accumulate,
         "only a single product that does not accumulate can add a bias");
  expect_tensor(call, call.reads[2], product.c.type, {product.shape.n});
  return call.reads[2].data;
}

}  // namespace

void gemm(CudaContext const& context, KernelCall const& call) {
  MatrixProduct const product = checked_product(call);
  context.gemm->multiply(product, bias_of(call, product));
}

bool gemm_adds_bias(CudaContext const& context, KernelCall const& call) {
  expect(call, call.reads.size() == 3, "there is no bias");
  MatrixProduct const product = checked_product(call);
  // cuBLASLt adds a bias of C's type.
  if (call.reads[2].type != product.c.type) return false;
  return context.gemm->is_faster_with_bias(product, bias_of(call, product), [&](void* c) {
    Operand sums = call.writes[0];
    sums.data = c;
    KernelCall addition;
    addition.kind = OpKind::bias_add;
    addition.reads.push_back(sums);
    addition.reads.push_back(call.reads[2]);
    addition.writes.push_back(sums);
    bias_add(context, addition);
  });
}

}  // namespace stagecraft::cuda_ops
