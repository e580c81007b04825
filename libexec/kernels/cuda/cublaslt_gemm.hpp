#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "libexec/kernels/cuda/product_choices.hpp"
#include "libexec/kernels/matrix_batch.hpp"

struct CUstream_st;  ///< what a cudaStream_t points to

namespace stagecraft {

/// Matrix products by cuBLASLt on one stream.
///
/// 16-bit and f32 operands are multiplied and summed in f32, never in TF32; f64 ones in f64. The
/// algorithm is chosen once for each product (sizes, strides, types, alignments, transposes,
/// whether it accumulates) and kept, so that a repeated product has the same bits. Of split-K
/// reductions, those in place in C are left out: they would round in between.
class CublasLtGemm {
 public:
  /// `choices`: where algorithms are measured, and kept; null: the first that the heuristic returns
  /// is taken, the same in every process. `workspace`: device memory, workspace_bytes(), aligned to
  /// 256 bytes; used by calls in their order on `stream`.
  /// \throws DeviceError
  CublasLtGemm(CUstream_st* stream, std::shared_ptr<ProductChoices> choices, void* workspace);
  ~CublasLtGemm();
  CublasLtGemm(CublasLtGemm const&) = delete;
  CublasLtGemm(CublasLtGemm&&) = delete;
  CublasLtGemm& operator=(CublasLtGemm const&) = delete;
  CublasLtGemm& operator=(CublasLtGemm&&) = delete;

  /// Launches C (+)= A B, and adds `bias` [n] to every row of C where there is one. Matrices whose
  /// batch and head strides are no single stride are multiplied in several launches, along the
  /// shorter of the two axes. Pre: what is_faster_with_bias() says, where there is a bias.
  /// \throws std::logic_error  where cuBLASLt has no algorithm for it; the shape is in the message.
  /// \throws DeviceError
  void multiply(MatrixProduct const& product, void const* bias = nullptr);

  /// Whether one matrix C = A B with a bias of C's type added by the product is faster here than
  /// the product and then `add_bias`, which launches what adds the bias to a C. Decided at the
  /// first call for a shape, by measuring; no, where algorithms are not measured, or cuBLASLt has
  /// none.
  /// \throws DeviceError
  bool is_faster_with_bias(MatrixProduct const& product,
                           void const* bias,
                           std::function<void(void* c)> const& add_bias);

  /// For the current device: 32 MiB from compute capability 9.0 on, 4 MiB before (NVIDIA's advice,
  /// cuBLAS documentation, cublasSetWorkspace()).
  /// \throws DeviceError
  static std::size_t workspace_bytes();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stagecraft
