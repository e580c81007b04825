#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "libexec/kernels/cpu/matrix_batch.hpp"
#include "libexec/kernels/cuda/products/cublaslt_handles.hpp"

namespace stagecraft {

/// The matrices of one operand, at equal distances.
struct StridedMatrices {
  void* data = nullptr;
  std::int64_t stride = 0;  ///< elements from one matrix to the next
};

/// A product that cuBLASLt can compute in one call.
struct StridedProduct {
  GemmShape shape;
  ElementType type = ElementType::f32;    ///< of A and B
  ElementType c_type = ElementType::f32;  ///< of C
  std::array<std::int64_t, 3> row_strides{};
  std::array<StridedMatrices, 3> matrices;  ///< A, B, C
  void const* bias = nullptr;               ///< [n], of C's type, added to every row of C; or null
};

/// Everything that the choice of an algorithm may depend on.
using ProductKey = std::array<std::int64_t, 18>;
ProductKey key_of(StridedProduct const& product);

/// The shapes and types of a product as text, for errors.
std::string describe(StridedProduct const& product);

/// cuBLASLt's description of a product, made once per key.
///
/// cuBLASLt is column-major. A row-major matrix is its transpose in column-major order, so
/// C^T = op(B)^T op(A)^T is computed, with B first and without a copy.
class LtDescription {
 public:
  explicit LtDescription(StridedProduct const& product);

  /// The heuristic's algorithms that need at most `workspace` bytes, best first.
  std::span<cublasLtMatmulHeuristicResult_t const> find_algorithms(
      cublasLtHandle_t handle,
      std::size_t workspace,
      std::span<cublasLtMatmulHeuristicResult_t> room) const;

  /// Launches the product with its result in `c`.
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
