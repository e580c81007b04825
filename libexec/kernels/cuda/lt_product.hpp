#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "libexec/kernels/cuda/cublaslt_handles.hpp"
#include "libexec/kernels/matrix_batch.hpp"

namespace stagecraft {

/// Matrices of one operand at equal distances.
struct StridedMatrices {
  void* data = nullptr;
  std::int64_t stride = 0;  ///< in elements, from one matrix to the next
};

/// A product that cuBLASLt takes in one call: the shape, with its own number of matrices.
struct StridedProduct {
  GemmShape shape;
  ElementType type = ElementType::f32;    ///< of A and B
  ElementType c_type = ElementType::f32;  ///< of C
  std::array<std::int64_t, 3> row_strides{};
  std::array<StridedMatrices, 3> matrices;  ///< A, B, C
  void const* bias = nullptr;               ///< [n], of C's type, added to every row of C; or null
};

/// Everything that the choice of an algorithm may depend on; equal keys have equal algorithms.
using ProductKey = std::array<std::int64_t, 18>;
ProductKey key_of(StridedProduct const& product);

/// "[a, b] [b, c] ..." in words.
std::string describe(StridedProduct const& product);

/// What cuBLASLt is told of a product, made once for each key.
///
/// cuBLASLt works on columns. A row-major matrix is the column-major one of its transpose, so that
/// C^T = op(B)^T op(A)^T is computed, B first, without a copy.
class LtDescription {
 public:
  explicit LtDescription(StridedProduct const& product);

  /// Of what the heuristic returns within `workspace` bytes, best first.
  std::span<cublasLtMatmulHeuristicResult_t const> find_algorithms(
      cublasLtHandle_t handle,
      std::size_t workspace,
      std::span<cublasLtMatmulHeuristicResult_t> room) const;

  /// Launches the product, into `c`.
  cublasStatus_t launch(cublasLtHandle_t handle,
                        StridedProduct const& product,
                        void* c,
                        cublasLtMatmulAlgo_t const& algorithm,
                        void* workspace,
                        std::size_t workspace_bytes,
                        cudaStream_t stream);

 private:
  void set_bias(void const* bias);

  bool is_double_;
  bool accumulates_;
  std::array<std::uint32_t, 3> alignments_;  ///< of A, B, C in bytes
  LtProduct product_;
  LtLayout first_, second_, result_;  ///< B, A, C as stored
};

}  // namespace stagecraft
