#pragma once

#include <cstdint>
#include <vector>

#include "libexec/kernels/operands/operand_checks.hpp"

namespace stagecraft {

/// The matrices of a GEMM operand: one matrix for a tensor of rank 2 or 3 ([s, b, k] is [s b, k]),
/// batch x heads matrices for a view [batch, heads, rows, columns]. Rows are contiguous.
struct MatrixBatch {
  std::byte* data = nullptr;
  ElementType type = ElementType::f32;
  std::int64_t count = 1;  ///< number of matrices
  std::int64_t heads = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t batch_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t row_stride = 0;

  /// The first element of matrix `index`.
  template <typename S>
  S* matrix(std::int64_t index) const {
    return reinterpret_cast<S*>(data) + index / heads * batch_stride + index % heads * head_stride;
  }
};

/// Expects an operand of `count` matrices [rows, columns].
MatrixBatch matrices_of(KernelCall const& call,
                        Operand const& operand,
                        std::int64_t count,
                        std::int64_t rows,
                        std::int64_t columns);

/// Expects a contiguous operand of `count` matrices [rows, columns], one after the other.
MatrixBatch groups_of(KernelCall const& call,
                      Operand const& operand,
                      std::int64_t count,
                      std::int64_t rows,
                      std::int64_t columns);

/// C (+)= A B with the operands of a call.
struct MatrixProduct {
  GemmShape shape;
  MatrixBatch a, b, c;
};

/// Expects the first two operands of a gemm and its result to fit together. The kernel itself
/// checks their types and the bias.
MatrixProduct product_of(KernelCall const& call);

/// The same for the operands of a grouped_gemm whose groups have equally many rows.
MatrixProduct grouped_product_of(KernelCall const& call);
/// The same for one whose groups have as many rows as its third operand says: a product per group
/// that has any. Reads KernelCall::counts if it is set, else the operand, which is then in host
/// memory.
std::vector<MatrixProduct> uneven_products_of(KernelCall const& call);

}  // namespace stagecraft
